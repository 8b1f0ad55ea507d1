"""Claim: a private step costs about as much as a step without privacy.

Ratios in one process, alternating, of the best rounds: who else uses the machine only ever adds
time. A step without privacy is an ordinary backward pass over the same images; a private one is the
whole of it: sampling, views, gradients, clipping, noise, ledger, update.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.utils.flop_counter import FlopCounterMode

import machine
from privet.hedge import Hedge, PoissonSum, Randomness, Steps
from privet.learn import (
    Ascent,
    Augmented,
    Engine,
    EngineName,
    Equation,
    Keys,
    Method,
    Mirror,
    PublicMoments,
    PublicOrigin,
    State,
)
from privet.learn.equation import random_rows, units_of
from privet.learn.gradients import Blocks, copied, trainable
from privet.learn.objective import Examples, cross_entropy
from privet.learn.updates import Pace
from privet.learn.views import AsIs
from privet.models import StandardisedConv2d, WideResNet, tiny_vit
from privet.privacy import Ledger, Plan
from privet.public import PublicRows
from timing import Run, timed

SHAPE, CLASSES = (32, 32, 3), 10
CHUNK = 64  # images in a pass without privacy
MECHANISM = PoissonSum(clip_norm=1.0, noise_multiplier=200.0, sampling_rate=1.0)
LOOP = Engine(name=EngineName.LOOP, physical_batch=2 * torch.get_num_threads())
PACE = Pace(learning_rate=0.1, step=0, total=1)


def plain(model: nn.Module) -> nn.Module:
    """The same network with ordinary convolutions."""
    for name, child in model.named_children():
        if isinstance(child, StandardisedConv2d):
            conv = nn.Conv2d(
                child.in_channels,
                child.out_channels,
                child.kernel_size,
                child.stride,
                child.padding,
                bias=False,
            )
            setattr(model, name, conv)
        else:
            plain(child)
    return model


def sgd(model: nn.Module, views: Examples) -> Run:
    """An ordinary step on the same images."""
    parameters = list(trainable(model).values())

    def run() -> None:
        total = [torch.zeros_like(parameter) for parameter in parameters]
        for inputs, targets in zip(
            torch.split(views.inputs, CHUNK), torch.split(views.targets, CHUNK), strict=True
        ):
            loss = cross_entropy(model(inputs), targets).sum() / len(views)
            torch._foreach_add_(total, torch.autograd.grad(loss, parameters))
        with torch.no_grad():
            torch._foreach_add_(parameters, total, alpha=-1e-6)

    return run


@contextmanager
def hedged(rows: PublicRows) -> Iterator[Callable[[Engine], Steps]]:
    """Steps over all rows, with a ledger on disk."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(
            Path(folder) / "ledger.db", epsilon=50.0, delta=1e-5, relation="add-remove"
        )
        reservation = ledger.reserve(plan=Plan.of(MECHANISM.event.times(1000)))
        columns = {"images": rows.inputs.numpy(), "labels": rows.targets.numpy()}
        hedge = Hedge(columns, reservation, randomness=Randomness(0))
        yield lambda engine: hedge.steps(MECHANISM, physical_batch=engine.physical_batch)
        ledger.close()


def equation(model: nn.Module, method: Method, engine: Engine, public: PublicRows) -> Equation:
    """Ready to step."""
    return Equation(
        model=model,
        method=method,
        divisor=1.0,
        num_classes=CLASSES,
        keys=Keys(0, 0),
        engine=engine,
        public=public,
    )


def private(step: Equation, steps: Steps) -> Run:
    """A private step from the same weights."""
    state = State(weights=copied(trainable(step.model)))

    def run() -> None:
        step.step(state, steps, PACE)

    return run


def views_of(model: nn.Module, method: Method, rows: PublicRows) -> Examples:
    """The images that a step looks at."""
    step = equation(model, method, LOOP, rows)
    return step.objective((copied(trainable(model)),)).views(units_of(rows))


def many_views(rounds: int, units: int) -> dict[str, float]:
    """WRN-16-4, K = 16: against SGD, and every method against DP-SGD."""
    model, rows = WideResNet(16, 4, CLASSES), random_rows(SHAPE, CLASSES, units, pixels=True)
    base = Method(views=Augmented(num_views=16))
    batch = 8 * units
    public = batch / (16 * units)  # the share of extra images
    with hedged(rows) as steps:
        step = replace(equation(model, base, LOOP, rows), public_batch=batch)
        runs = {
            "sgd": sgd(model, views_of(model, base, rows)),
            "private": private(step, steps(LOOP)),
            "dope": private(
                replace(step, method=replace(base, origin=PublicOrigin())), steps(LOOP)
            ),
            "mirror": private(replace(step, method=replace(base, update=Mirror())), steps(LOOP)),
            "adadps": private(
                replace(step, method=replace(base, scale=PublicMoments())), steps(LOOP)
            ),
        }
        seconds = timed(runs, rounds, budget=75)
    extra = {
        f"{name}_over_its_images": seconds.ratio_of_bests(name, "private") / (1 + public)
        for name in ("dope", "mirror", "adadps")
    }
    return {
        "private_over_sgd": seconds.ratio_of_bests("private", "sgd"),
        **extra,
        "sgd_images_per_second": 16 * units / min(seconds.rounds["sgd"]),
    }


@dataclass(frozen=True)
class Kept:
    """Perturbed weights that were made once.

    A step takes one public gradient for each of them, which is nothing beside a logical batch of
    thousands, but much beside the few examples here.
    """

    weights: tuple[Blocks, ...]
    needs_public: bool = False

    @property
    def count(self) -> int:
        """How many."""
        return len(self.weights)

    def perturbed(self, *_: object) -> tuple[Blocks, ...]:
        """Those."""
        return self.weights


def ascended(model: nn.Module, count: int, rows: PublicRows) -> Kept:
    """Weight multiplicity's own directions, from public batches of one image each."""
    method = Method(views=Augmented(num_views=16), perturb=Ascent(count=count))
    step = replace(equation(model, method, LOOP, rows), public_batch=1)
    weights = copied(trainable(model))
    gradients = step.public_gradients(weights, 0)
    return Kept(method.perturb.perturbed(weights, gradients, torch.Generator()))


def perturbations(rounds: int, units: int) -> dict[str, float]:
    """WRN-16-4, K = 16: weight multiplicity with 2, 4 and 16 distinct perturbations."""
    model, rows = WideResNet(16, 4, CLASSES), random_rows(SHAPE, CLASSES, units, pixels=True)
    base = Method(views=Augmented(num_views=16))
    batched = Engine(name=EngineName.BATCHED, physical_batch=units)
    chosen = {2: LOOP, 4: LOOP, 16: batched}
    with hedged(rows) as steps:
        runs = {"sgd": sgd(model, views_of(model, base, rows))}
        for count, engine in chosen.items():
            perturbed = replace(base, perturb=ascended(model, count, rows))
            runs[str(count)] = private(equation(model, perturbed, engine, rows), steps(engine))
        seconds = timed(runs, rounds, budget=35)
    return {
        f"perturbations_{count}_over_sgd": seconds.ratio_of_bests(str(count), "sgd")
        for count in chosen
    }


def one_view(rounds: int) -> dict[str, float]:
    """K = 1 and batch 64: WRN-16-4 and a ViT of 64 tokens."""
    ghost = Engine(name=EngineName.GHOST, physical_batch=64)
    rows = random_rows(SHAPE, CLASSES, 64, pixels=True)
    found = {}
    for name, model in (("wrn", WideResNet(16, 4, CLASSES)), ("vit", tiny_vit(CLASSES))):
        method = Method(views=AsIs())
        with hedged(rows) as steps:
            step = equation(model, method, ghost, rows)
            runs = {
                "sgd": sgd(model, views_of(model, method, rows)),
                "private": private(step, steps(ghost)),
            }
            seconds = timed(runs, rounds, budget=10)
        found[f"one_view_{name}_over_sgd"] = seconds.ratio_of_bests("private", "sgd")
    return found


def against_others(rounds: int, units: int) -> dict[str, float]:
    """WRN-16-4, K = 16: Opacus' hooks and vmap(grad), which only take and clip gradients.

    With standardised convolutions, as published (with gains, since Opacus refuses buffers), Opacus
    falls back to functorch; with plain ones, named so, it uses its own rules.
    """

    def standardised() -> nn.Module:
        return WideResNet(16, 4, CLASSES, conv_affine=True)

    published = _compared(standardised, rounds, units, budget=70)
    ordinary = _compared(lambda: plain(WideResNet(16, 4, CLASSES)), 2, units=2, budget=0)
    return published | {f"plain_{name}": ratio for name, ratio in ordinary.items()}


def _compared(
    make: Callable[[], nn.Module], rounds: int, units: int, budget: float
) -> dict[str, float]:
    model, rows = make(), random_rows(SHAPE, CLASSES, units, pixels=True)
    method = Method(views=Augmented(num_views=16))
    views = views_of(model, method, rows)
    found = {}
    with hedged(rows) as steps:
        ours = private(equation(model, method, LOOP, rows), steps(LOOP))
        others = {"opacus": _opacus(make(), views, units), "vmap": _vmap(model, views, units)}
        for name, run in others.items():
            share = 0.85 if name == "opacus" else 0.15
            seconds = timed({"private": ours, name: run}, rounds, share * budget)
            found[f"{name}_over_private"] = seconds.ratio_of_bests(name, "private")
    return found


def _opacus(model: nn.Module, views: Examples, units: int) -> Run:
    """Per-view gradients by hooks, averaged over views, clipped and added up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus import GradSampleModule

        wrapped = GradSampleModule(model, loss_reduction="sum")

    def run() -> None:
        wrapped.zero_grad(set_to_none=True)
        cross_entropy(wrapped(views.inputs), views.targets).sum().backward()
        samples = [p.grad_sample.unflatten(0, (units, -1)).mean(1) for p in wrapped.parameters()]
        _clipped(samples)

    def quiet() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()

    return quiet


def _vmap(model: nn.Module, views: Examples, units: int) -> Run:
    """The gradient of each unit's mean loss, vectorised."""
    weights = {name: value.detach() for name, value in model.named_parameters()}

    def loss(weights: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(functional_call(model, weights, (inputs,)), targets).mean()

    gradients = vmap(grad(loss), in_dims=(None, 0, 0))

    def run() -> None:
        found = gradients(
            weights,
            views.inputs.unflatten(0, (units, -1)),
            views.targets.unflatten(0, (units, -1)),
        )
        _clipped(list(found.values()))

    return run


def _clipped(samples: list[Tensor]) -> list[Tensor]:
    norms = torch.stack([sample.flatten(1).norm(dim=1) for sample in samples]).norm(dim=0)
    weights = (1 / norms).clamp(max=1.0)
    return [torch.einsum("n...,n->...", sample, weights) for sample in samples]


def bookkeeping(rounds: int) -> dict[str, float]:
    """Noise and ledger as a share of a WRN-16-4 step of 64 examples, one view each."""
    model = WideResNet(16, 4, CLASSES)
    rows = random_rows(SHAPE, CLASSES, 64, pixels=True)
    ghost = Engine(name=EngineName.GHOST, physical_batch=64)
    sizes = [parameter.numel() for parameter in trainable(model).values()]
    randomness, numbers = Randomness(0), iter(range(10**9))

    def noise() -> None:
        step = next(numbers)
        for draw, size in enumerate(sizes):
            randomness.noise(0, step, draw, size)

    with tempfile.TemporaryDirectory() as folder, hedged(rows) as steps:
        ledger = Ledger.create(
            Path(folder) / "ledger.db", epsilon=50.0, delta=1e-5, relation="add-remove"
        )
        spare = ledger.reserve(plan=Plan.of(MECHANISM.event.times(1000)))
        runs = {
            "step": private(equation(model, Method(), ghost, rows), steps(ghost)),
            "noise": noise,
            "ledger": lambda: spare.spend(MECHANISM.event),
        }
        seconds = timed(runs, rounds, budget=10)
        ledger.close()
    return {
        "noise_and_ledger_share": sum(
            seconds.ratio_of_bests(name, "step") for name in ("noise", "ledger")
        )
    }


def physical_limit(images_per_second: float) -> dict[str, float]:
    """How much of the machine's matrix-product speed training without privacy reaches."""
    model = WideResNet(16, 4, CLASSES)
    images = torch.randn(8, 3, 32, 32)
    with FlopCounterMode(display=False) as counter:
        model(images).sum().backward()
    first = torch.randn(2048, 2048)
    seconds = timed({"gemm": lambda: first @ first}, 7).rounds["gemm"]
    peak = 2 * 2048**3 / min(seconds)
    used = counter.get_total_flops() / len(images) * images_per_second
    return {"gemm_gflops": peak / 1e9, "sgd_gflops": used / 1e9, "sgd_share_of_gemm": used / peak}


def memory() -> dict[str, float]:
    """Peak memory of the loop engine at two logical batches, each in its own process."""
    found = {}
    for batch in (64, 4096):
        words = [sys.executable, __file__, "--peak", str(batch)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found[f"peak_mib_batch_{batch}"] = float(done.stdout)
    found["peak_ratio"] = found["peak_mib_batch_4096"] / found["peak_mib_batch_64"]
    return found


def peak(batch: int) -> float:
    """MiB of this process after a step of a logical batch of small images."""
    rows = random_rows((8, 8, 3), CLASSES, batch, pixels=True)
    model = WideResNet(10, 1, CLASSES)
    with hedged(rows) as steps:
        run = private(equation(model, Method(), LOOP, rows), steps(LOOP))
        run()
    return machine.peak_mib()


def measure(rounds: int, seed: int) -> dict[str, float]:
    """Everything, within five minutes: a slow machine does fewer rounds."""
    torch.manual_seed(seed)
    np.random.default_rng(seed)
    found = {
        **many_views(rounds, units=4),
        **against_others(rounds, units=6),
        **one_view(rounds),
        **perturbations(rounds, units=4),
        **bookkeeping(rounds),
        **memory(),
    }
    return found | physical_limit(found["sgd_images_per_second"])


def main() -> None:
    """Measure and keep."""
    if sys.argv[1:2] == ["--peak"]:
        print(peak(int(sys.argv[2])))
        return
    options = machine.arguments(__doc__ or "", rounds=8, seed=0)
    start = time.perf_counter()
    results = measure(options.rounds, options.seed)
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)

    def text() -> str:
        return "\n".join(f"{name}: {value:.3g}" for name, value in results.items())

    machine.keep(
        "step_cost",
        results,
        text,
        seeds=[options.seed],
        json_=options.json,
        headline=("private_over_sgd", "opacus_over_private"),
    )


if __name__ == "__main__":
    main()
