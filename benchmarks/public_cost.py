"""Claim: what surrounds a network on the public side costs next to nothing.

Ratios in one process, alternating: a Heun sampler against the bare evaluations of its U-Net, a
training step against a bare pass forward and back on as many images, a warm-up step with SAM
against one without. Memory: a sampler's peak for many images against that for few.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import torch

import machine
from privet.models import WideResNet
from privet.optim import Sharpness
from privet.public import DiffusionTraining, Edm, Heun, PublicRows, WarmUp, warm_up
from privet.public.diffusion import train_at_noise_levels
from privet.recipes.public_edm import PublicEdm, edm
from timing import Run, timed

SHAPE, CLASSES = (28, 28, 1), 10
BATCH, STEPS = 64, 2
IN_ALL = (100, 1000)  # images that are drawn, at most 50 at once, for peaks of memory


def rows(count: int, shape: tuple[int, int, int] = SHAPE) -> PublicRows:
    """Noise."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, *shape), generator=generator, dtype=torch.uint8)
    return PublicRows(images, torch.arange(count) % CLASSES)


def sampler(rounds: int) -> dict[str, float]:
    """The time of 2N − 1 evaluations, and of all that makes images of them."""
    settings = PublicEdm()
    model = Edm(settings.first_weights(CLASSES, SHAPE)).eval()
    heun, labels = Heun(steps=STEPS), torch.arange(BATCH) % CLASSES
    images, noise = torch.randn(BATCH, 1, 28, 28), torch.zeros(BATCH)

    def bare() -> None:
        with torch.no_grad():
            for _ in range(2 * STEPS - 1):
                model.network(images, noise, labels)

    seconds = timed(
        {"bare": bare, "sampler": lambda: heun(model, labels, SHAPE, range(BATCH))}, rounds
    )
    return {
        "sampler_over_network": seconds.ratio("sampler", "bare"),
        "evaluations_per_second": BATCH * (2 * STEPS - 1) / seconds.of("bare"),
    }


def training(rounds: int) -> dict[str, float]:
    """Steps with augmentation, Adam and the average of weights, against passes alone."""
    public = rows(4 * BATCH)
    model = Edm(PublicEdm().first_weights(CLASSES, SHAPE))
    lessons = DiffusionTraining(iterations=STEPS, batch_size=BATCH)
    images, noise = torch.randn(BATCH, 1, 28, 28), torch.zeros(BATCH)
    labels, augmentation = torch.arange(BATCH) % CLASSES, torch.zeros(BATCH, 9)

    def bare() -> None:
        model.network.train()
        for _ in range(STEPS):
            loss = model.network(images, noise, labels, augmentation).square().mean()
            torch.autograd.grad(loss, list(model.network.parameters()))

    def steps() -> None:
        model.network.train()
        train_at_noise_levels(model, public, lessons, seed=0)

    return {
        "training_over_network": timed({"bare": bare, "steps": steps}, rounds).ratio(
            "steps", "bare"
        )
    }


def sharpness(rounds: int) -> dict[str, float]:
    """A warm-up of WRN-16-4 with SAM against one with SGD."""
    model, public = WideResNet(16, 4, CLASSES), rows(BATCH, (32, 32, 3))
    plain = WarmUp(epochs=1, batch_size=BATCH, learning_rate=1e-4)

    def steps(config: WarmUp) -> Run:
        return lambda: warm_up(model, public, config, generator=torch.Generator().manual_seed(0))

    runs = {"sgd": steps(plain), "sam": steps(replace(plain, sharpness=Sharpness()))}
    return {"sam_over_sgd": timed(runs, 2 * rounds).ratio("sam", "sgd")}


def memory() -> dict[str, float]:
    """Peaks, each in its own process."""
    found = {}
    for count in IN_ALL:
        words = [sys.executable, __file__, "--peak", str(count)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found[f"peak_mib_{count}_images"] = float(done.stdout)
    few, many = found.values()
    return {**found, "peak_ratio": many / few}


def peak(count: int) -> float:
    """MiB of this process after images were drawn and let go, batch by batch."""
    settings = PublicEdm(
        widths=(16, 16),
        training=DiffusionTraining(iterations=1, batch_size=8),
        sampler=Heun(steps=2),
        at_once=50,
    )
    drawn = edm(rows(20, (8, 8, 1)), num_classes=CLASSES, settings=settings)
    for _ in drawn.batches(count):
        pass
    return machine.peak_mib()


def measure(rounds: int) -> dict[str, float]:
    """Everything."""
    return {**sampler(rounds), **training(rounds), **sharpness(rounds), **memory()}


def main() -> None:
    """Measure and keep."""
    if sys.argv[1:2] == ["--peak"]:
        print(peak(int(sys.argv[2])))
        return
    options = machine.arguments(__doc__ or "", rounds=7)
    results = measure(options.rounds)

    def text() -> str:
        return "\n".join(f"{name}: {value:.3g}" for name, value in results.items())

    machine.keep("public_cost", results, text, seeds=[0], json_=options.json)


if __name__ == "__main__":
    main()
