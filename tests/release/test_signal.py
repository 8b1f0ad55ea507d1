"""Predicted signals and noises against those of releases that really happened."""

import math

import pytest
import torch

from privet.hedge import NoisySum, Randomness
from privet.hedge.clipping import clipped_sum
from privet.release import Embedding, Moments, Part, each_class, everyone
from privet.release.signal import predicted_signals
from tests.hedge.summands import units

CLASSES, SIZE, CLIP, MULTIPLIER = 3, 6, 1.0, 4.0
REPEATS = 1000
TOTALS = torch.tensor([200.0, 400.0, 100.0])


def embedding(centre=None, positions=False):
    groups = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    parts = (
        Part(name="all", source="z", size=SIZE, groups=everyone(CLASSES), second_weight=0.4),
        Part(name="own", source="z", size=SIZE, groups=each_class(CLASSES), mean_weight=0.7),
        Part(name="pseudo", source="z", size=SIZE, groups=groups, second_weight=0.3, centre=centre),
    )

    def features(images):
        pixels = images.double().flatten(1)[:, :SIZE] / 255
        return {"z": torch.stack([pixels, pixels.square()], 1) if positions else pixels}

    return Embedding(
        features=features,
        parts=parts,
        num_classes=CLASSES,
        count_weight=0.2,
        dtype=torch.float64,
    )


def drawn(counts, seed=0):
    """Images whose brightness tells their class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.as_tensor(counts).long())
    noise = torch.randint(100, (len(labels), 2, 3, 1), generator=generator)
    images = (noise + 60 * (labels % CLASSES)[:, None, None, None]).to(torch.uint8)
    order = torch.randperm(len(labels), generator=generator)
    return images[order], labels[order]


def predicted(of, images, labels, **changed):
    settings = {"clip_norm": CLIP, "noise_multiplier": MULTIPLIER, "class_totals": TOTALS}
    found = predicted_signals(of, images, labels, **(settings | changed))
    return {each.name: each for each in found}


def moments_as_blocks(of, blocks, totals):
    """Released blocks over their groups' totals, weights taken out."""
    return {
        f"{part.name}.{kind}": blocks[f"{part.name}.{kind}"]
        / (weight * (totals @ part.groups.double())[:, None])
        for part in of.all_parts
        for kind, weight in part.weights.items()
    }


def exact(of, images, labels):
    """The clipped sum, and each class's total weight in it."""
    columns = {"images": images.numpy(), "labels": labels.numpy()}
    blocks = clipped_sum([units(columns)], of, CLIP)
    return blocks, blocks["counts.mean"][:, 0] / of.count_weight


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_the_private_images_themselves_foretell_their_release(positions, centred):
    images, labels = drawn(TOTALS)
    centre = None
    if centred:
        centre = embedding(positions=positions).moments(*drawn([9, 9, 9], 5))[0]["pseudo"]
    of = embedding(centre, positions)
    blocks, totals = exact(of, images, labels)
    found = predicted(of, images, labels)
    assert set(found) == set(blocks)
    for name, block in moments_as_blocks(of, blocks, totals).items():
        signal = float(block.square().mean().sqrt())
        assert found[name].signal == pytest.approx(signal, rel=1e-3)
        assert found[name].coordinates == block.numel()
    assert found["counts.mean"].signal == pytest.approx(1.0)


def test_noise_is_that_of_repeated_releases():
    """Noised again and again, moments spread as predicted, and not by 2/3 or 3/2 of it."""
    images, labels = drawn(TOTALS)
    of = embedding()
    blocks, totals = exact(of, images, labels)
    found = predicted(of, *drawn([40, 40, 40], seed=1))
    squares = dict.fromkeys(blocks, 0.0)
    for repetition in range(REPEATS):
        noise = Randomness(seed=repetition)
        released = NoisySum(
            {
                name: block
                + CLIP * MULTIPLIER * noise.noise(0, 0, number, block.numel()).view(block.shape)
                for number, (name, block) in enumerate(blocks.items())
            },
            CLIP * MULTIPLIER,
        )
        before, after = (moments_as_blocks(of, each, totals) for each in (blocks, released.blocks))
        for name in blocks:
            squares[name] += float((after[name] - before[name]).square().mean()) / REPEATS
    for name, square in squares.items():
        spread = math.sqrt(square)
        assert spread == pytest.approx(found[name].noise, rel=0.1), name
        assert found[name].ratio == pytest.approx(found[name].signal / found[name].noise)


def test_as_moments_is_noised_alike():
    """Means of a part, by the very function that makes targets of a release."""
    of = embedding()
    images, labels = drawn(TOTALS)
    blocks, totals = exact(of, images, labels)
    noise = torch.randn(2000, CLASSES, SIZE, generator=torch.Generator().manual_seed(3)).double()
    plain = of.as_moments(blocks, totals)["own"].mean
    gaps = [
        of.as_moments(blocks | {"own.mean": blocks["own.mean"] + each}, totals)["own"].mean - plain
        for each in CLIP * MULTIPLIER * noise
    ]
    spread = float(torch.stack(gaps).square().mean().sqrt())
    assert predicted(of, images, labels)["own.mean"].noise == pytest.approx(spread, rel=0.03)


def test_what_noise_depends_on():
    images, labels = drawn([30, 30, 30])
    of = embedding()
    plain = predicted(of, images, labels)
    more = predicted(of, images, labels, class_totals=10 * TOTALS)
    louder = predicted(of, images, labels, noise_multiplier=2 * MULTIPLIER)
    silent = predicted(of, images, labels, noise_multiplier=0.0)
    unclipped = predicted(of, images, labels, clip_norm=100.0)
    for name, block in plain.items():
        assert more[name].ratio == pytest.approx(10 * block.ratio)
        assert louder[name].ratio == pytest.approx(block.ratio / 2)
        assert silent[name].ratio == math.inf
    assert unclipped["own.mean"].noise == pytest.approx(
        math.sqrt(sum((400 / (0.7 * float(total))) ** 2 for total in TOTALS) / 3)
    )


def test_public_images_of_other_classes_are_taken_together():
    images, _ = drawn([30, 30, 30, 30, 30])
    other = torch.arange(150) % 5
    of = embedding()
    blind, labelled = predicted(of, images, None), predicted(of, images, other)
    assert blind == labelled
    everything = of.features(images)["z"].mean(0)
    unclipped = predicted(of, images, None, clip_norm=100.0)
    expected = float(everything.square().mean().sqrt())
    for name in ("all.mean", "own.mean", "pseudo.mean"):
        assert unclipped[name].signal == pytest.approx(expected)


def test_a_class_without_public_images_borrows_all():
    images, labels = drawn([30, 30, 0])
    of = embedding()
    found = predicted(of, images, labels, clip_norm=100.0)["own.mean"]
    z = of.features(images)["z"]
    means = torch.stack([z[labels == 0].mean(0), z[labels == 1].mean(0), z.mean(0)])
    assert found.signal == pytest.approx(float(means.square().mean().sqrt()))
    assert math.isfinite(found.noise)


def test_chunks_do_not_matter():
    images, labels = drawn([200, 250, 150])
    whole = predicted(embedding(), images, labels)
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    again = predicted(embedding(), images[order], labels[order])
    for name, block in whole.items():
        assert vars(again[name]) == pytest.approx(vars(block))


def test_a_centre_takes_its_signal_away():
    images, labels = drawn([50, 50, 50])
    centre = embedding().moments(images, labels)[0]["pseudo"]
    plain = predicted(embedding(), images, labels, class_totals=torch.full((3,), 100.0))
    centred = predicted(
        embedding(Moments(centre.mean, centre.second)),
        images,
        labels,
        class_totals=torch.full((3,), 100.0),
    )
    for kind in ("mean", "second"):
        assert centred[f"pseudo.{kind}"].signal < 0.2 * plain[f"pseudo.{kind}"].signal


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"class_totals": torch.ones(2)}, "Give 3 class totals above 0"),
        ({"class_totals": torch.tensor([1.0, 0.0, 2.0])}, "Give 3 class totals above 0"),
    ],
)
def test_totals_that_do_not_fit_are_refused(changed, message):
    from privet.errors import ConfigError

    with pytest.raises(ConfigError, match=message):
        predicted(embedding(), *drawn([3, 3, 3]), **changed)
    with pytest.raises(ConfigError, match="at least one public image"):
        predicted(embedding(), torch.zeros(0, 2, 3, 1, dtype=torch.uint8), None)
