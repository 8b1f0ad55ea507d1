"""Distances to a release: MMD² by way of a moving average, and sums of KL."""

import pytest
import torch

from privet.release import Cleaning, Moments
from privet.synthesis import GaussianMatching, InTurn, MeanMatching, gaussian_kl
from privet.synthesis.averages import RunningMoments
from tests.synthesis.embeddings import CLASSES, embedding, images, labels


def private_moments(of, **changed):
    with torch.no_grad():
        return of.moments(images(60, seed=9, bright=0.4, **changed), labels(60))[0]


class TestMeans:
    SHARES = torch.tensor([0.25, 0.75])

    def mmd(self, of, targets, pictures):
        """‖Σ_c share_c (μ_c − found_c) ⊗ e_c‖²."""
        found, _ = of.moments(pictures, labels())
        return (self.SHARES[:, None] * (targets["z"].mean - found["z"].mean)).square().sum()

    def test_the_gradient_becomes_that_of_mmd_squared(self):
        """Half of it, once the average is the gap itself."""
        of = embedding(second=False)
        targets = private_moments(of)
        pictures = images().requires_grad_()
        [exact] = torch.autograd.grad(self.mmd(of, targets, pictures), pictures)
        matching = MeanMatching(of, targets, self.SHARES, rate=1e-2)
        likeness = []
        for _ in range(400):
            [found] = torch.autograd.grad(matching(pictures, labels()), pictures)
            likeness.append(torch.cosine_similarity(found.flatten(), exact.flatten(), dim=0))
        torch.testing.assert_close(2 * found, exact, rtol=1e-2, atol=1e-5)
        assert likeness[0] < likeness[-1] > 0.9999

    def test_the_average_forgets_the_noise_of_batches(self):
        """Small batches have gaps of their own; their moving average is near the whole set's."""
        of = embedding(second=False)
        targets = private_moments(of)
        matching = MeanMatching(of, targets, self.SHARES, rate=1e-2)
        everything = images(400, seed=3)
        gaps = []
        for step in range(300):
            rows = torch.randperm(200, generator=torch.Generator().manual_seed(step))[:4]
            some = torch.cat([2 * rows, 2 * rows + 1])
            matching(everything[some], labels(400)[some])
            with torch.no_grad():
                found, _ = of.moments(everything[some], labels(400)[some])
                gaps.append(self.SHARES[:, None] * (targets["z"].mean - found["z"].mean))
        with torch.no_grad():
            whole, _ = of.moments(everything, labels(400))
        exact = self.SHARES[:, None] * (targets["z"].mean - whole["z"].mean)
        average = (matching._gaps["z"] - exact).norm()
        typical = torch.stack([(gap - exact).norm() for gap in gaps]).mean()
        assert average < 0.5 * typical

    def test_a_class_that_nobody_has_weighs_nothing(self):
        of = embedding(second=False)
        targets = private_moments(of)
        pictures = images().requires_grad_()
        matching = MeanMatching(of, targets, torch.tensor([1.0, 0.0]), rate=1e-2)
        [found] = torch.autograd.grad(matching(pictures, labels()), pictures)
        assert found[labels() == 0].abs().max() > 0
        assert found[labels() == 1].abs().max() == 0


class TestGaussians:
    def target(self, of):
        return {"z": Cleaning(least_jitter=0.1)(private_moments(of)["z"], torch.zeros(CLASSES))}

    @pytest.mark.parametrize("clip_norm", [None, 0.8])
    def test_it_is_the_sum_of_kl_over_groups(self, clip_norm):
        of = embedding()
        targets = self.target(of)
        matching = GaussianMatching(of, targets, clip_norm=clip_norm, weights={"z": 3.0})
        found, _ = of.moments(images(), labels(), clip_norm)
        expected = 3 * gaussian_kl(targets["z"], found["z"]).sum()
        torch.testing.assert_close(matching(images(), labels()), expected)

    def test_it_is_of_averages(self):
        of = embedding()
        targets = self.target(of)
        matching = GaussianMatching(of, targets, clip_norm=None, decay=0.5)
        averages = RunningMoments(0.5)
        for seed in range(3):
            loss = matching(images(seed=seed), labels())
            found, _ = of.moments(images(seed=seed), labels())
            expected = gaussian_kl(targets["z"], averages(found)["z"]).sum()
            torch.testing.assert_close(loss, expected)

    def test_images_that_are_not_finite_make_a_loss_that_is_not(self):
        """So that whoever optimises can refuse to go on, in one sentence."""
        of = embedding()
        broken = images()
        broken[0] = torch.nan
        assert GaussianMatching(of, self.target(of), clip_norm=None)(broken, labels()).isnan()

    def test_descent_finds_the_private_moments(self):
        of = embedding()
        matching = GaussianMatching(of, self.target(of), clip_norm=None, decay=0.0)
        pictures = images().requires_grad_()
        adam = torch.optim.Adam([pictures], lr=0.05)
        losses = []
        for _ in range(100):
            loss = matching(pictures, labels())
            losses.append(float(loss.detach()))
            adam.zero_grad()
            loss.backward()
            adam.step()
        assert losses[-1] < 0.05 * losses[0]


def test_losses_take_turns():
    called = []
    turns = InTurn([lambda *_, name=name: called.append(name) for name in "abc"])
    for _ in range(7):
        turns(images(), labels())
    assert "".join(called) == "abcabca"


def test_moments_alone_are_enough_for_means():
    of = embedding(second=False, together=True)
    target = {"z": Moments(torch.zeros(1, 3))}
    pictures = images().requires_grad_()
    MeanMatching(of, target, torch.ones(1), rate=0.1)(pictures, labels()).backward()
    assert pictures.grad.abs().max() > 0
