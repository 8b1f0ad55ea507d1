"""Diffusion models: the frame and its loss, exact samplers, training that resumes."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from privet.augment import NonLeaking
from privet.errors import ConfigError, DataError
from privet.public import PublicRows
from privet.public.ddpm import Ancestral, Ddpm
from privet.public.diffusion import DiffusionTraining, Lesson, noise_of, train_at_noise_levels
from privet.public.edm import Edm, Heun

SHAPE = (4, 6, 2)


class Nothing(nn.Module):
    """Answers zero, and counts how often it was asked."""

    def __init__(self):
        super().__init__()
        self.dummy = nn.Parameter(torch.zeros(()))
        self.asked = 0

    def forward(self, images, noise, labels, augmentation=None):
        self.asked += 1
        return 0 * images


class OfNoise(Nothing):
    """The noise of Gaussian images of a given spread, known exactly."""

    def __init__(self, kept, spread):
        super().__init__()
        self.kept, self.spread = kept, spread

    def forward(self, images, noise, labels, augmentation=None):
        kept = self.kept[noise.long()].to(images)[:, None, None, None]
        return (1 - kept).sqrt() * images / (kept * self.spread**2 + 1 - kept)


class Small(nn.Module):
    """Something that can learn: a mean for each class, and dropout that must be seeded too."""

    def __init__(self):
        super().__init__()
        self.means = nn.Parameter(torch.zeros(3, 2, 1, 1))
        self.gain = nn.Linear(1, 1)
        self.dropout = nn.Dropout(0.2)

    def forward(self, images, noise, labels, augmentation=None):
        gain = self.gain(noise[:, None].to(images))[:, :, None, None]
        return self.means[labels] + self.dropout(images) * gain


def rows(count=12):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, *SHAPE), generator=generator, dtype=torch.uint8)
    return PublicRows(images, torch.arange(count) % 3)


def labels(count):
    return torch.arange(count) % 3


class TestEdm:
    def test_a_network_that_says_nothing_has_a_loss_of_one_for_data_of_the_declared_spread(self):
        """Table 1 of EDM: the frame leaves the network an answer of unit variance."""
        generator = torch.Generator().manual_seed(0)
        images = 0.5 * torch.randn(4000, 2, 4, 6, generator=generator)
        losses = Edm(Nothing()).losses(Lesson(images, labels(4000)), generator)
        assert float(losses.mean()) == pytest.approx(1, abs=0.02)

    def test_the_frame(self):
        class Echo(Nothing):
            def forward(self, images, noise, labels, augmentation=None):
                self.seen = images, noise
                return torch.ones_like(images)

        network, sigma = Echo(), torch.tensor([0.1, 3.0])
        images = torch.randn(2, 2, 4, 6)
        found = Edm(network, data_spread=0.5)(images, sigma, labels(2))
        for each, s in enumerate(sigma.tolist()):
            length = math.hypot(s, 0.5)
            expected = 0.25 / length**2 * images[each] + s * 0.5 / length
            torch.testing.assert_close(found[each], expected)
            torch.testing.assert_close(network.seen[0][each], images[each] / length)
            assert float(network.seen[1][each]) == pytest.approx(math.log(s) / 4)

    def test_settings_are_checked(self):
        with pytest.raises(ConfigError, match="data_spread"):
            Edm(Nothing(), data_spread=0)


class TestHeun:
    def test_noise_levels(self):
        levels = Heun().levels
        assert levels.dtype == torch.float64
        assert float(levels[0]) == pytest.approx(80)
        assert float(levels[-2]) == pytest.approx(0.002)
        assert float(levels[-1]) == 0
        assert len(levels) == 19
        assert (levels.diff() < 0).all()

    def test_gaussian_images_come_out_with_their_spread(self):
        """A silent network in the frame is exact for Gaussian data: pixels have a closed form."""
        model = Edm(Nothing())
        start = noise_of(range(3), SHAPE, 0, torch.device("cpu"), 0)
        exact = (start * 80 * 0.5 / math.hypot(80, 0.5)).float()
        gaps = [
            float((Heun(steps=steps)(model, labels(3), SHAPE, range(3)) - exact).abs().max())
            for steps in (32, 64, 128)
        ]
        assert gaps[2] < 0.002
        assert gaps[1] < gaps[0] / 2.5  # of second order
        assert gaps[2] < gaps[1] / 2.5

    def test_the_network_is_asked_as_often_as_it_must(self):
        network = Nothing()
        Heun(steps=7)(Edm(network), labels(2), SHAPE, range(2))
        assert network.asked == 2 * 7 - 1

    @pytest.mark.parametrize("churn", [0.0, 20.0])
    def test_an_image_does_not_depend_on_those_beside_it(self, churn):
        sampler, model = Heun(steps=5, churn=churn), Edm(Small()).eval()
        together = sampler(model, labels(4), SHAPE, range(4), seed=3)
        alone = sampler(model, labels(4)[2:3], SHAPE, [2], seed=3)
        torch.testing.assert_close(alone, together[2:3])
        assert not torch.equal(together[0], together[3])
        assert not torch.equal(together, sampler(model, labels(4), SHAPE, range(4), seed=4))

    def test_fresh_noise_keeps_the_distribution(self):
        sampler = Heun(steps=100, churn=25)
        found = sampler(Edm(Nothing()), labels(200), SHAPE, range(200))
        assert float(found.std()) == pytest.approx(0.5, abs=0.01)
        assert not torch.equal(
            found[:1], replace(sampler, churn=0)(Edm(Nothing()), labels(1), SHAPE, range(1))
        )

    def test_guidance_is_added_to_the_score(self):
        """With the score of N(m, 0.25) in the place of N(0, 0.25), images move by m."""

        def towards(x, levels, labels):
            return 1.0 / (levels**2 + 0.25)[:, None, None, None]

        sampler, model = Heun(steps=64), Edm(Nothing())
        plain = sampler(model, labels(3), SHAPE, range(3))
        guided = sampler(model, labels(3), SHAPE, range(3), guidance=towards)
        # All of the shift but what the first noise hides: 1 − σ_data / √(σ² + σ_data²).
        expected = torch.full_like(plain, 1 - 0.5 / math.hypot(80, 0.5))
        torch.testing.assert_close(guided - plain, expected, atol=0.01, rtol=0)

    @pytest.mark.parametrize("wrong", [{"steps": 0}, {"least": 0}, {"most": 1e-3}, {"churn": -1}])
    def test_settings_are_checked(self, wrong):
        with pytest.raises(ConfigError):
            Heun(**wrong)


class TestDdpm:
    def test_gaussian_images_come_out_with_their_spread(self):
        model = Ddpm(Nothing())
        model.network = OfNoise(model.kept, 0.3)
        found = Ancestral(steps=500)(model, labels(80), SHAPE, range(80))
        assert float(found.std()) == pytest.approx(0.3, abs=0.01)
        assert float(found.mean()) == pytest.approx(0, abs=0.02)

    def test_the_loss_of_a_silent_network_is_that_of_noise(self):
        lesson = Lesson(torch.zeros(2000, 2, 4, 6), labels(2000))
        losses = Ddpm(Nothing()).losses(lesson, torch.Generator().manual_seed(0))
        assert float(losses.mean()) == pytest.approx(1, abs=0.02)

    def test_an_image_does_not_depend_on_those_beside_it(self):
        model, sampler = Ddpm(Small()).eval(), Ancestral(steps=6)
        together = sampler(model, labels(3), SHAPE, range(3))
        torch.testing.assert_close(sampler(model, labels(3)[1:2], SHAPE, [1]), together[1:2])

    def test_settings_are_checked(self):
        with pytest.raises(ConfigError, match="β"):
            Ddpm(Nothing(), first=0.5, last=0.1)
        with pytest.raises(ConfigError, match="steps"):
            Ancestral(steps=0)


class Memory:
    """Keeps every state, and stops a training as a kill would."""

    def __init__(self, kill_at=None, state=None):
        self.kill_at, self.state, self.steps = kill_at, state, 0

    def kept(self):
        return self.state

    def passed(self, state):
        self.steps += 1
        self.state = {name: each.clone() for name, each in state().items()}
        if self.steps == self.kill_at:
            raise KeyboardInterrupt


class TestTraining:
    CONFIG = DiffusionTraining(iterations=8, batch_size=6, learning_rate=0.05)

    @pytest.mark.parametrize("kind", [Edm, Ddpm])
    def test_a_killed_training_goes_on_to_the_same_end(self, kind):
        def fresh():
            torch.manual_seed(0)
            return kind(Small())

        whole, memory = fresh(), Memory(kill_at=5)
        train_at_noise_levels(whole, rows(), self.CONFIG)
        with pytest.raises(KeyboardInterrupt):
            train_at_noise_levels(fresh(), rows(), self.CONFIG, checkpoint=memory)
        resumed = fresh()
        train_at_noise_levels(resumed, rows(), self.CONFIG, checkpoint=Memory(state=memory.state))
        for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
            assert torch.equal(one, other)

    def test_it_learns_and_ends_with_averaged_weights(self):
        torch.manual_seed(0)
        model, found = Edm(Small()), []
        config = replace(self.CONFIG, iterations=150, augment=None)
        train_at_noise_levels(model, rows(), config, on_step=lambda step, loss: found.append(loss))
        assert sum(found[-20:]) < 0.9 * sum(found[:20])
        assert not model.network.training

    def test_the_global_random_state_is_left_alone(self):
        model, before = Edm(Small()), torch.get_rng_state()
        train_at_noise_levels(model, rows(), replace(self.CONFIG, iterations=2))
        assert torch.equal(before, torch.get_rng_state())

    def test_averages_forget_a_share_of_what_was_seen(self):
        config = DiffusionTraining(batch_size=100, half_life=1000)
        assert config.decay(10_000) == pytest.approx(0.5 ** (100 / 1000))
        assert config.decay(0) == pytest.approx(0.5 ** (1 / 0.05))
        assert config.rate(0) < config.rate(100) < config.rate(2999) == config.learning_rate

    @pytest.mark.parametrize(
        "wrong", [{"iterations": 0}, {"learning_rate": 0}, {"warm_up": 2}, {"half_life": 0}]
    )
    def test_settings_are_checked(self, wrong):
        with pytest.raises(ConfigError):
            DiffusionTraining(**wrong)

    def test_public_rows_must_be_images(self):
        with pytest.raises(DataError, match="no public images"):
            train_at_noise_levels(Edm(Nothing()), rows().select(torch.arange(0)), self.CONFIG)
        features = PublicRows(torch.zeros(3, 5), torch.zeros(3, dtype=torch.int64))
        with pytest.raises(DataError, match="features"):
            train_at_noise_levels(Edm(Nothing()), features, self.CONFIG)

    def test_a_loss_that_is_not_finite_stops_it(self):
        class Lost(Nothing):
            def forward(self, images, noise, labels, augmentation=None):
                return images * math.nan + self.dummy

        with pytest.raises(ConfigError, match="learning rate"):
            train_at_noise_levels(Edm(Lost()), rows(), self.CONFIG)


class TestNonLeaking:
    def images(self, count=200):
        return torch.rand(count, 2, 8, 8, generator=torch.Generator().manual_seed(1)) * 2 - 1

    def test_nothing_is_done_without_a_change(self):
        still = NonLeaking(probability=0, mirror=False)
        found, done = still(self.images(), torch.Generator().manual_seed(0))
        assert torch.equal(found, self.images())
        assert not done.any()

    def test_what_is_not_labelled_is_not_changed(self):
        found, done = NonLeaking(probability=0.1)(self.images(), torch.Generator().manual_seed(0))
        alike = (found == self.images()).flatten(1).all(1)
        assert torch.equal(alike, ~done.any(1))
        assert 0 < alike.sum() < len(alike)
        assert done.shape == (200, NonLeaking.size)

    def test_a_mirrored_image_is_mirrored(self):
        found, done = NonLeaking(probability=0)(self.images(), torch.Generator().manual_seed(0))
        mirrored = done[:, 0] == 1
        torch.testing.assert_close(found[mirrored], self.images()[mirrored].flip(-1))
        assert 60 < mirrored.sum() < 140

    def test_a_shift_moves_as_far_as_its_label_says(self):
        shifting = NonLeaking(probability=1, mirror=False, scale=0, stretch=0, shift=0.125)
        image = torch.full((400, 1, 32, 32), -1.0)
        image[:, :, 12:20, 12:20] = 1.0
        found, done = shifting(image, torch.Generator().manual_seed(0))
        still = (done[:, 1] == 0) & (done[:, 3].abs() < 0.02) & (done[:, 7:].abs().max(1)[0] < 1.5)
        weight = (found + 1) / (found + 1).sum((1, 2, 3), keepdim=True)
        places = torch.arange(32.0)
        centre = (weight.sum((1, 2)) * places).sum(1) - 15.5
        assert still.sum() > 3
        expected = -done[still, 7] * 0.125 * 32
        torch.testing.assert_close(centre[still], expected, atol=0.8, rtol=0)

    def test_settings_are_checked(self):
        with pytest.raises(ConfigError, match="probability"):
            NonLeaking(probability=1.5)
        with pytest.raises(ConfigError, match="shift"):
            NonLeaking(shift=-1)
