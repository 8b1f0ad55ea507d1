"""What a GAN makes of few points of a ring of clusters (IDS, Appendix D.1).

    python examples/ring.py ring.png

Public points lie in eight clusters on a circle. A GAN whose discriminator learns faster than its
generator forgets some of the clusters; a diffusion model of the same points is drawn beside it.
Several GANs, of a public set each, learn at once: there is much luck in one.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from privet.keys import keyed, seeded
from privet.measure import nearest
from privet.models import MLP
from spiral import DRAWN, Points, diffusion

SIZES, CLUSTERS, RADIUS, JITTER = (25, 100, 2500), 8, 0.8, 0.03
LATENT, BATCH = 8, 128


def centres() -> Tensor:
    """Of the clusters, evenly on a circle."""
    angle = 2 * math.pi * torch.arange(CLUSTERS) / CLUSTERS
    return RADIUS * torch.stack([angle.cos(), angle.sin()], 1)


def ring(count: int, generator: torch.Generator, *, even: bool = False) -> Tensor:
    """Points of clusters drawn by chance, or of each in turn."""
    chosen = torch.randint(CLUSTERS, (count,), generator=generator)
    if even:
        chosen = torch.arange(count) % CLUSTERS
    return centres()[chosen] + JITTER * torch.randn(count, 2, generator=generator)


class Perceptrons:
    """As many networks of one shape, each of which sees its own points, (networks, N, inputs)."""

    def __init__(self, count: int, inputs: int, outputs: int) -> None:
        networks = [MLP(inputs, (64, 64), outputs) for _ in range(count)]
        self._shape, (self.weights, _) = networks[0], stack_module_state(networks)

    def __call__(self, points: Tensor) -> Tensor:
        """What each says of its points, (networks, N, outputs)."""
        found: Tensor = vmap(self._one)(self.weights, points)
        return found

    def _one(self, weights: dict[str, Tensor], points: Tensor) -> Tensor:
        found: Tensor = functional_call(self._shape, weights, (points,))
        return found

    def adam(self, learning_rate: float) -> torch.optim.Optimizer:
        """Steps of one network do not depend on the others."""
        weights = list(self.weights.values())
        return torch.optim.Adam(weights, lr=learning_rate, betas=(0.5, 0.999), fused=True)


def gans(public: Tensor, iterations: int, seed: int = 0) -> Tensor:
    """Points (GANs, N, 2) of a GAN for each of the public sets (GANs, N, 2)."""
    count, generator = len(public), keyed(seed)
    with seeded(generator):
        make, judge = Perceptrons(count, LATENT, 2), Perceptrons(count, 2, 1)
    makes, judges = make.adam(3e-4), judge.adam(1e-3)
    which = torch.arange(count)[:, None]
    for _ in range(iterations):
        real = public[which, torch.randint(public.shape[1], (count, BATCH), generator=generator)]
        made = make(torch.randn(count, BATCH, LATENT, generator=generator))
        # softplus(−logit) and softplus(logit) are the losses of true and of false.
        _step(judges, F.softplus(-judge(real)) + F.softplus(judge(made.detach())))
        _step(makes, F.softplus(-judge(made)))
    with torch.no_grad():
        return make(torch.randn(count, DRAWN, LATENT, generator=generator))


def _step(adam: torch.optim.Optimizer, losses: Tensor) -> None:
    adam.zero_grad()
    torch.autograd.backward(losses.mean((1, 2)).sum())
    adam.step()


def clusters(points: Tensor) -> tuple[int, float]:
    """How many hold a tenth of their share or more, and the share of points in any."""
    distances, which = nearest(points, centres())
    inside = distances[:, 0] < 4 * JITTER
    counts = torch.bincount(which[inside, 0], minlength=CLUSTERS)
    return int((counts >= len(points) / CLUSTERS / 10).sum()), float(inside.double().mean())


def line(name: str, size: int, sets: Tensor) -> str:
    """Of a table: means over sets, and how many have all clusters."""
    found = [clusters(each) for each in sets]
    kept, inside = torch.tensor(found, dtype=torch.float64).mean(0).tolist()
    whole = sum(each == CLUSTERS for each, _ in found)
    return f"{name:>12} {size:8,} {kept:9.2f} {whole:5} of {len(found):2} {inside:12.2f}"


def picture(path: Path, rows: dict[str, dict[int, tuple[Tensor, Tensor]]]) -> None:
    """A line for each kind of model, a column for each size; public points under drawn ones."""
    figure = Figure(figsize=(9, 6.3), layout="constrained")
    grid = figure.subplots(len(rows), len(SIZES))
    for places, (name, by_size) in zip(grid, rows.items(), strict=True):
        for place, (size, (public, drawn)) in zip(places, by_size.items(), strict=True):
            place.scatter(*public.T, s=7, color="black", lw=0)
            place.scatter(*drawn.T, s=9, marker="x", lw=0.5, color="#c0392b")
            place.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), xticks=[], yticks=[], aspect="equal")
            place.set_title(f"{name} of {size:,} points", size=10)
    figure.savefig(path, format="png", dpi=80, pil_kwargs={"optimize": True})


def main() -> None:
    """Train, print the figures, draw the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("picture", type=Path, help="Where to write the PNG.")
    parser.add_argument("--iterations", type=int, default=3000, help="Of each training.")
    parser.add_argument("--draws", type=int, default=12, help="GANs of each size.")
    parser.add_argument("--even", action="store_true", help="As many points in each cluster.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, dict[int, tuple[Tensor, Tensor]]] = {"GAN": {}, "diffusion": {}}
    print(f"{'':>12} {'points':>8} {'clusters':>9} {'all eight':>11} {'in a cluster':>12}")
    for size in SIZES:
        draws = [ring(size, keyed(each, size), even=options.even) for each in range(options.draws)]
        public = torch.stack(draws)
        made = gans(public, options.iterations)
        unlabelled = Points(draws[0], torch.zeros(size, dtype=torch.long))
        drawn = diffusion(unlabelled, options.iterations, seed=0).at
        rows["GAN"][size], rows["diffusion"][size] = (draws[0], made[0]), (draws[0], drawn)
        for name, found in {"public": public, "GAN": made, "diffusion": drawn[None]}.items():
            print(line(name, size, found))
    picture(options.picture, rows)


if __name__ == "__main__":
    main()
