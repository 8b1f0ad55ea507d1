"""Means of each class with one covariance for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from privet.errors import ConfigError
from privet.hedge import NoisySum, Units, clipped_sum
from privet.release import (
    Cleaning,
    Embedding,
    GaussianTarget,
    MomentDiscriminant,
    Moments,
    Part,
    each_class,
    everyone,
    gaussian_targets,
    with_one_spread,
)
from privet.synthesis import GaussianMatching, gaussian_kl

CLASSES, SIZE = 4, 6


def part(**changed: object) -> Part:
    kept = {"name": "a", "source": "z", "size": SIZE, "groups": each_class(CLASSES)}
    return Part(**{**kept, "mean_weight": 0.5, "second_weight": 0.3, **changed})  # type: ignore[arg-type]


def embedding() -> Embedding:
    return Embedding(
        features=lambda images: {"z": images},
        parts=tuple(with_one_spread(part())),
        num_classes=CLASSES,
        count_weight=0.1,
        dtype=torch.float64,
    )


def rows(sizes: tuple[int, ...] = (50, 50, 50, 50)) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    centres = 2 * torch.randn(CLASSES, SIZE, generator=generator, dtype=torch.float64)
    labels = torch.repeat_interleave(torch.arange(CLASSES), torch.tensor(sizes))
    noise = torch.randn(len(labels), SIZE, generator=generator, dtype=torch.float64)
    return centres[labels] + noise, labels


def beside_another(images: Tensor, labels: Tensor) -> tuple[Embedding, dict[str, GaussianTarget]]:
    """A part with one spread and a part of the same size without, matched to these images."""
    both = replace(embedding(), parts=(*with_one_spread(part()), part(name="b")))
    found, _ = both.moments(images, labels)
    cleaning = Cleaning(least_jitter=0.1)
    return both, {
        name: cleaning(each, torch.zeros(len(each.covariance))) for name, each in found.items()
    }


def within(images: Tensor, labels: Tensor) -> Tensor:
    means = torch.stack([images[labels == each].mean(0) for each in range(CLASSES)])
    gaps = images - means[labels]
    return gaps.T @ gaps / len(images)


def released(images: Tensor, labels: Tensor) -> NoisySum:
    units = Units({"images": images, "labels": labels}, torch.arange(len(labels) + 1))
    return NoisySum(clipped_sum([units], embedding(), 1e9), 1e-12)


@pytest.mark.parametrize("sizes", [(50, 50, 50, 50), (200, 90, 30, 10)], ids=str)
class TestCovariance:
    def test_of_synthetic_images_is_what_lies_within_classes(self, sizes):
        images, labels = rows(sizes)
        found, _ = embedding().moments(images, labels)
        assert list(found) == ["a"]
        torch.testing.assert_close(found["a"].covariance[0], within(images, labels))

    def test_of_a_release_too(self, sizes):
        images, labels = rows(sizes)
        targets = gaussian_targets(
            embedding(), released(images, labels), Cleaning(least_jitter=1e-9)
        )
        assert list(targets) == ["a"]
        assert targets["a"].mean.shape == (CLASSES, SIZE)
        torch.testing.assert_close(
            targets["a"].covariance[0], within(images, labels), atol=1e-6, rtol=1e-6
        )


def test_distance_and_gradient_are_those_of_each_class_with_that_covariance():
    private, labels = rows()
    found, _ = embedding().moments(private, labels)
    target = Cleaning(least_jitter=0.1)(found["a"], torch.zeros(1))
    synthetic, _ = embedding().moments(private + 0.3 * private.flip(0), labels)
    mean = synthetic["a"].mean.clone().requires_grad_()
    assert synthetic["a"].second is not None
    second = synthetic["a"].second.clone().requires_grad_()

    covariance = second[0] - mean.T @ mean / CLASSES + target.jitter * torch.eye(SIZE).double()
    expected = torch.stack(
        [
            torch.distributions.kl_divergence(
                torch.distributions.MultivariateNormal(target.mean[each], target.covariance[0]),
                torch.distributions.MultivariateNormal(mean[each], covariance),
            )
            for each in range(CLASSES)
        ]
    ).mean()
    distance = gaussian_kl(target, Moments(mean, second)).sum()
    torch.testing.assert_close(distance, expected)
    by_mean, by_second = torch.autograd.grad(distance, (mean, second))
    wanted_mean, wanted_second = torch.autograd.grad(expected, (mean, second))
    torch.testing.assert_close(by_mean, wanted_mean)
    torch.testing.assert_close(by_second, (wanted_second + wanted_second.mT) / 2)


def test_matching_is_zero_for_the_private_images_beside_parts_of_the_same_size():
    images, labels = rows()
    both, targets = beside_another(images, labels)
    matching = GaussianMatching(both, targets, clip_norm=None)
    assert float(matching(images, labels)) == pytest.approx(0, abs=1e-6)
    assert float(matching(images + 1, labels)) > 0.1


def test_discriminant_is_linear_and_right():
    images, labels = rows()
    targets = gaussian_targets(embedding(), released(images, labels), Cleaning(least_jitter=1e-9))
    scores = MomentDiscriminant.quadratic(embedding(), targets).scores(images)
    assert float((scores.argmax(1) == labels).double().mean()) > 0.9
    middle = MomentDiscriminant.quadratic(embedding(), targets).scores(
        (images[:1] + images[-1:]) / 2
    )
    gaps = scores - scores[:, :1]
    torch.testing.assert_close(
        (middle - middle[:, :1])[0], (gaps[0] + gaps[-1]) / 2, atol=1e-6, rtol=1e-6
    )


def test_noise_that_shows_in_the_least_eigenvalue_becomes_jitter():
    moments = Moments(torch.zeros(CLASSES, 2), torch.tensor([[[1.0, 0.0], [0.0, -0.5]]]))
    target = Cleaning(shared_jitter=2.0, least_jitter=0.01)(moments, torch.zeros(1))
    assert target.jitter.tolist() == pytest.approx([1.0])


@pytest.mark.parametrize(
    "changed", [{"second_weight": 0.3}, {"centre": Moments(torch.zeros(CLASSES, SIZE))}], ids=str
)
def test_a_part_whose_spread_is_elsewhere_has_no_second_moments_or_centre(changed):
    with pytest.raises(ConfigError, match="spread"):
        part(**{"second_weight": 0.0, "spread": "b", **changed})


def test_in_a_discriminant_it_counts_for_two_parts():
    images, labels = rows()
    both, targets = beside_another(images, labels)
    every = MomentDiscriminant.quadratic(both, targets)
    each = [MomentDiscriminant(both, {name: targets[name]}).scores(images) for name in targets]
    torch.testing.assert_close(every.scores(images), each[0] + each[1])
    alone = -(images[:, None] - targets["a"].mean) @ torch.linalg.cholesky(
        torch.linalg.inv(targets["a"].covariance[0])
    )
    torch.testing.assert_close(
        each[0].diff(dim=1), -alone.square().sum(2).diff(dim=1), atol=1e-6, rtol=1e-6
    )
    assert every.temperature == 3


@pytest.mark.parametrize(
    "others",
    [
        [],
        [part(name="s", groups=each_class(CLASSES))],
        [part(name="s", groups=torch.tensor([[1.0], [1.0], [1.0], [0.0]]))],
        [part(name="s", groups=everyone(CLASSES), source="other")],
        [part(name="s", groups=everyone(CLASSES), size=SIZE - 1)],
        [part(name="s", groups=everyone(CLASSES), second_weight=0.0)],
        [
            part(name="s", groups=everyone(CLASSES)),
            part(name="b", second_weight=0.0, spread="s"),
        ],
    ],
    ids=["missing", "groups", "a class less", "source", "size", "no second moments", "twice"],
)
def test_a_spread_is_one_parts_second_moments_of_all_images(others):
    with pytest.raises(ConfigError, match="spread"):
        Embedding(
            features=lambda images: {"z": images},
            parts=(part(second_weight=0.0, spread="s"), *others),
            num_classes=CLASSES,
            count_weight=0.1,
        )
