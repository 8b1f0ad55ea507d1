"""What a diffusion model makes of few points of two spirals (IDS, §4.1 and Appendix D.1).

    python examples/spiral.py spiral.png

Points of two classes lie on two arms, and thin out from the centre. An EDM of 100, 250 and 2,500
public points draws 1,000 others, and an SVM learns from those which class is where. A point is an
image of one pixel with two channels, so that Privet's own parts train the model and draw from it.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.svm import SVC
from torch import Tensor, nn

from privet.augment import to_pixels
from privet.keys import keyed, seeded
from privet.measure import memorisation, nearest
from privet.models import MLP
from privet.public import DiffusionTraining, Edm, Heun, PublicRows, train_at_noise_levels

SIZES, DRAWN, FRESH = (100, 250, 2500), 1000, 4000
JITTER, NEAR = 0.015, 0.03
COLUMNS = ("share", "of public", "on an arm", "found", "repeats", "SVM error")
HALVES = ("dense", "sparse")
COLOURS = ("#c0392b", "#20639b", "#3c8d5a")


@dataclass(frozen=True, eq=False)
class Points:
    """Where points lie, (N, 2), and the class of each."""

    at: Tensor
    labels: Tensor


def spirals(count: int, generator: torch.Generator) -> Points:
    """Points near two arms, the fewer the farther out."""
    along = 1 - torch.rand(count, generator=generator).sqrt()  # of density 2 (1 − along)
    labels = torch.arange(count) % 2
    noise = torch.randn(count, 2, generator=generator)
    return Points(arm(along) * _side(labels) + JITTER * noise, labels)


def arm(along: Tensor) -> Tensor:
    """The arm of class 0, where radius and angle grow together; that of class 1 lies opposite."""
    angle = 2 * math.pi * along
    return (0.05 + 0.85 * along)[:, None] * torch.stack([angle.cos(), angle.sin()], 1)


def along_arm(points: Points) -> tuple[Tensor, Tensor]:
    """How far out along its arm each point lies, from 0 to 1, and how far beside it."""
    places = torch.linspace(0, 1, 1001)
    distances, which = nearest(points.at * _side(points.labels), arm(places))
    return places[which[:, 0]], distances[:, 0]


class Denoiser(nn.Module):
    """For `Edm`: a perceptron that is told the noise level and the class of a point."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.layers = MLP(3 + num_classes, (64, 64, 64), 2, activation=nn.SiLU)

    def forward(
        self, images: Tensor, noise: Tensor, labels: Tensor, augmentation: Tensor | None = None
    ) -> Tensor:
        """Images of one pixel, from such images."""
        one_hot = F.one_hot(labels, self.num_classes)
        answer: Tensor = self.layers(torch.cat([images.flatten(1), noise[:, None], one_hot], 1))
        return answer[:, :, None, None]


def diffusion(public: Points, iterations: int, seed: int) -> Points:
    """As many points of each class, from a model of public ones, whose places are bytes."""
    num_classes = int(public.labels.max()) + 1
    with seeded(keyed(seed)):
        # Arms are thin: they show at low noise levels alone, which must be learned more often.
        network = Denoiser(num_classes)
        model = Edm(network, data_spread=float(public.at.std()), noise_mean=-2.2)
    pixels = torch.from_numpy(to_pixels(public.at[:, :, None, None]))
    training = DiffusionTraining(
        iterations=iterations, batch_size=256, learning_rate=3e-3, augment=None
    )
    train_at_noise_levels(model, PublicRows(pixels, public.labels), training, seed=seed)
    labels = torch.arange(DRAWN) % num_classes
    images = Heun(steps=20, most=5.0)(model, labels, (1, 1, 2), range(DRAWN), seed=seed)
    return Points(images[:, :, 0, 0], labels)


def boundary(drawn: Points) -> SVC:
    """A classifier with a hard margin, as in Appendix D.1."""
    return SVC(C=1000.0).fit(drawn.at.numpy(), drawn.labels.numpy())


def figures(drawn: Points, public: Points, seed: int) -> Tensor:
    """A line for each half of the arms, the inner and dense one first; columns are `COLUMNS`."""
    fresh, unseen = spirals(FRESH, keyed(seed, 1)), spirals(len(public.at), keyed(seed, 2))
    place, beside = along_arm(drawn)
    places = place, along_arm(public)[0], along_arm(fresh)[0]
    wrong = torch.from_numpy(boundary(drawn).predict(fresh.at.numpy())) != fresh.labels
    found = nearest(fresh.at, drawn.at)[0][:, 0] < NEAR
    lines = []
    for half in range(len(HALVES)):
        here, seen, there = ((each >= 0.5) == half for each in places)
        line = [
            _share(here),
            _share(seen),
            _share(beside[here] < 3 * JITTER),
            _share(found[there]),
            memorisation(drawn.at[here], public.at, unseen.at),
            _share(wrong[there]),
        ]
        lines.append(line)
    return torch.tensor(lines)


def table(found: dict[str, Tensor]) -> str:
    """A line for each set of points and half of the arms."""
    lines = [f"{'points':>8} {'half':>8} " + " ".join(f"{name:>9}" for name in COLUMNS)]
    for name, halves in found.items():
        for half, line in zip(HALVES, halves.tolist(), strict=True):
            lines.append(f"{name:>8} {half:>8} " + " ".join(f"{each:9.3f}" for each in line))
    return "\n".join(lines)


def picture(path: Path, sets: dict[int, tuple[Points, Points]]) -> None:
    """Public and drawn points for each size, and densities along the arms."""
    figure = Figure(figsize=(9, 9), layout="constrained")
    *places, last = figure.subplots(2, 2).flat
    for place, (size, (public, drawn)) in zip(places, sets.items(), strict=True):
        place.set_title(f"{size:,} public points (·), {DRAWN:,} drawn (×)", size=10)
        _draw(place, public, drawn)
    edges = torch.linspace(0, 1, 21)
    for colour, (size, (_, drawn)) in zip(COLOURS, sets.items(), strict=True):
        density, _ = torch.histogram(along_arm(drawn)[0], edges, density=True)
        last.stairs(density, edges, color=colour, label=f"drawn, of {size:,}")
    last.plot([0, 1], [2, 0], "k--", label="truth")
    last.set(xlim=(0, 1), xlabel="how far out along the arms")
    last.set_title("density along the arms", size=10)
    last.legend()
    figure.savefig(path, format="png", dpi=80, pil_kwargs={"optimize": True})


def _draw(place: Axes, public: Points, drawn: Points) -> None:
    """Both sets, over what the SVM of the drawn ones says of every place."""
    ticks = torch.linspace(-1, 1, 200)
    grid = torch.cartesian_prod(ticks, ticks).numpy()
    classes = boundary(drawn).predict(grid).reshape(200, 200).T
    place.contourf(ticks, ticks, classes, levels=[-1, 0.5, 2], colors=COLOURS[:2], alpha=0.15)
    colours = [COLOURS[label] for label in drawn.labels]
    place.scatter(public.at[:, 0], public.at[:, 1], s=7, color="black", lw=0)
    place.scatter(drawn.at[:, 0], drawn.at[:, 1], s=9, marker="x", lw=0.5, color=colours)
    place.set(xlim=(-1, 1), ylim=(-1, 1), xticks=[], yticks=[], aspect="equal")


def _side(labels: Tensor) -> Tensor:
    return (1 - 2 * labels)[:, None]


def _share(those: Tensor) -> float:
    return float(those.double().mean())


def main() -> None:
    """Train, print the figures, draw the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("picture", type=Path, help="Where to write the PNG.")
    parser.add_argument("--iterations", type=int, default=5000, help="Of each training.")
    parser.add_argument("--draws", type=int, default=3, help="Public sets to average over.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sets, found = {}, {}
    for size in SIZES:
        lines = []
        for seed in reversed(range(options.draws)):
            public = spirals(size, keyed(seed, 0, size))
            drawn = diffusion(public, options.iterations, seed)
            lines.append(figures(drawn, public, seed))
        sets[size] = public, drawn  # of seed 0, which came last
        found[f"{size:,}"] = torch.stack(lines).mean(0)
    truth = [spirals(DRAWN, keyed(seed, 3)) for seed in range(options.draws)]
    others = [spirals(max(SIZES), keyed(seed, 4)) for seed in range(options.draws)]
    lines = [figures(*pair, seed) for seed, pair in enumerate(zip(truth, others, strict=True))]
    found["truth"] = torch.stack(lines).mean(0)
    print(table(found))
    picture(options.picture, sets)


if __name__ == "__main__":
    main()
