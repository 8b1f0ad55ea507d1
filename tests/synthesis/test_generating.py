"""A generator's training and its images: by seed, and by seed alone."""

import copy

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from privet.augment import CropCurriculum, to_float, to_pixels
from privet.errors import ConfigError
from privet.models import UpsamplingGenerator
from privet.release import Cleaning
from privet.synthesis import (
    GaussianMatching,
    GeneratorTraining,
    MeanMatching,
    PixelOptimisation,
    agreed,
    refined,
    sampled,
    train_generator,
)
from tests.synthesis.embeddings import CLASSES, SIDE, embedding, images, labels

LATENT = 5


@pytest.fixture
def generator():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return UpsamplingGenerator(CLASSES, image_size=SIDE, latent=LATENT, widths=(6, 6, 6, 6))


class Painter(torch.nn.Module):
    """Shows its latent vectors."""

    def __init__(self):
        super().__init__()
        self.strength = torch.nn.Parameter(torch.ones(()))
        self.norm = torch.nn.BatchNorm1d(1)

    def forward(self, latent, labels):
        shades = torch.tanh(self.strength * self.norm(latent[:, :1]))
        return shades[:, :, None, None].expand(-1, -1, SIDE, SIDE)


@pytest.fixture
def painter():
    return Painter()


def matching(decay=0.8):
    of = embedding()
    with torch.no_grad():
        found, _ = of.moments(images(60, seed=9, bright=0.4), labels(60))
    target = {"z": Cleaning(least_jitter=0.1)(found["z"], torch.zeros(CLASSES))}
    return GaussianMatching(of, target, clip_norm=None, decay=decay)


def mean_matching():
    of = embedding()
    with torch.no_grad():
        found, _ = of.moments(images(60, seed=9, bright=0.4), labels(60))
    return MeanMatching(of, found, torch.full((CLASSES,), 1 / CLASSES), rate=0.1)


def trained(generator, config, loss=None, on_step=None):
    train_generator(
        generator,
        loss or matching(),
        config,
        latent=LATENT,
        num_classes=CLASSES,
        on_step=on_step,
    )
    return generator


def weights(generator):
    return torch.cat([each.flatten() for each in generator.parameters()])


class TestTraining:
    def test_it_lowers_the_distance(self, generator):
        losses = []
        config = GeneratorTraining(iterations=60, per_class=10, learning_rate=0.01)
        trained(generator, config, on_step=lambda step, loss: losses.append((step, loss)))
        assert [step for step, _ in losses] == list(range(1, 61))
        assert np.mean([loss for _, loss in losses[-5:]]) < 0.3 * losses[0][1]

    def test_its_seed_decides(self, generator):
        ends = []
        for seed in (0, 0, 1):
            torch.manual_seed(len(ends))  # global randomness has no part in it
            config = GeneratorTraining(iterations=3, per_class=3, seed=seed)
            ends.append(weights(trained(copy.deepcopy(generator), config)))
        assert torch.equal(ends[0], ends[1])
        assert not torch.equal(ends[0], ends[2])

    def test_every_class_is_in_every_step(self, generator):
        seen = []

        def loss(pictures, labels):
            seen.append(labels.tolist())
            return pictures.square().mean()

        trained(generator, GeneratorTraining(iterations=2, per_class=3), loss)
        assert seen == [[0, 0, 0, 1, 1, 1]] * 2

    def test_the_learning_rate_is_steady_then_falls_to_nothing(self):
        config = GeneratorTraining(iterations=100, learning_rate=1.0, steady=0.5)
        rates = [config.rate(step) for step in range(100)]
        assert rates[:50] == [1.0] * 50
        assert rates[75] == pytest.approx(0.5)
        assert 0 < rates[99] < 0.01
        assert GeneratorTraining(iterations=9, learning_rate=2.0, steady=1.0).rate(8) == 2.0

    def test_what_is_not_finite_is_refused(self, generator):
        def loss(pictures, labels):
            return pictures.sum() * torch.nan

        with pytest.raises(ConfigError, match=r"distance is nan in step 0: lower the learning"):
            trained(generator, GeneratorTraining(iterations=2), loss)

    @pytest.mark.parametrize(
        "wrong",
        [{"iterations": 0}, {"per_class": 0}, {"learning_rate": 0.0}, {"steady": 1.1}],
    )
    def test_settings_are_checked(self, wrong):
        with pytest.raises(ConfigError):
            GeneratorTraining(**wrong)


class Drawer:
    """Keeps every state, as a file would."""

    def __init__(self, state=None):
        self.state, self.states = state, []

    def kept(self):
        return self.state

    def passed(self, state):
        content = save({name: each.contiguous() for name, each in state().items()})
        self.states.append(load(content))


class TestCheckpoints:
    CONFIG = GeneratorTraining(iterations=7, per_class=4)

    def run(self, generator, drawer, loss=None, heard=None):
        generator = copy.deepcopy(generator).to(memory_format=torch.channels_last)
        train_generator(
            generator,
            loss or matching(),
            self.CONFIG,
            latent=LATENT,
            num_classes=CLASSES,
            on_step=None if heard is None else lambda *news: heard.append(news),
            checkpoint=drawer,
        )
        return weights(generator)

    @pytest.mark.parametrize("make", [matching, mean_matching], ids=["gaussian", "mean"])
    def test_from_any_step_a_training_ends_bit_for_bit_the_same(self, generator, make):
        drawer, whole = Drawer(), []
        end = self.run(generator, drawer, make(), whole)
        assert [int(each["step"]) for each in drawer.states] == list(range(1, 8))
        for step, state in enumerate(drawer.states, start=1):
            heard = []
            assert torch.equal(end, self.run(generator, Drawer(state), make(), heard)), step
            assert heard == whole[step:]

    def test_without_its_state_it_would_not(self, generator):
        drawer = Drawer()
        end = self.run(generator, drawer)
        kept = drawer.states[3]
        for part in ("adam/", "generator/", "0/"):
            spoilt = {
                name: each * (0 if name.startswith(part) and each.is_floating_point() else 1)
                for name, each in kept.items()
            }
            assert not torch.equal(end, self.run(generator, Drawer(spoilt))), part

    def test_what_changes_beside_it_goes_on_too(self, generator):
        class Counter:
            count = 0

            def state(self):
                return {"count": torch.tensor(self.count)}

            def restore(self, state):
                self.count = int(state["count"])

        def run(drawer):
            counter = Counter()

            def on_step(step, loss):
                counter.count += step

            train_generator(
                copy.deepcopy(generator),
                matching(),
                self.CONFIG,
                latent=LATENT,
                num_classes=CLASSES,
                on_step=on_step,
                checkpoint=drawer,
                beside=[counter],
            )
            return counter.count

        drawer = Drawer()
        assert run(drawer) == run(Drawer(drawer.states[2])) == sum(range(1, 8))


class TestRefinement:
    CONFIG = PixelOptimisation(
        iterations=15,
        learning_rate=0.05,
        view=CropCurriculum(smallest=1.0, flip=False, stretch=1.0),
    )

    def test_images_come_nearer_to_what_was_released(self, generator):
        ours = labels(40)
        before = sampled(generator, ours, latent=LATENT, seed=1)
        after = refined(before, ours, matching(decay=0.0), self.CONFIG, seed=1)
        assert (after.shape, after.dtype) == (before.shape, np.uint8)
        distances = [
            float(matching()(to_float(torch.from_numpy(x)), ours)) for x in (before, after)
        ]
        assert distances[1] < 0.7 * distances[0]

    def test_the_same_batch_is_refined_alike(self, generator):
        ours = labels(20)
        before = sampled(generator, ours, latent=LATENT, seed=1)
        one, other = (refined(before, ours, matching(), self.CONFIG, seed=3) for _ in range(2))
        assert np.array_equal(one, other)


class TestImages:
    def test_the_same_seed_gives_the_same_images(self, painter):
        ours = labels(1200)
        first = sampled(painter, ours, latent=LATENT, seed=3)
        torch.manual_seed(1)
        assert np.array_equal(first, sampled(painter, ours, latent=LATENT, seed=3))
        assert not np.array_equal(first, sampled(painter, ours, latent=LATENT, seed=4))
        assert (first.shape, first.dtype) == ((1200, SIDE, SIDE, 1), np.uint8)
        assert not np.array_equal(first[:500], first[500:1000])

    def test_sampling_changes_nothing(self, painter):
        before = copy.deepcopy(painter.state_dict())
        sampled(painter, labels(), latent=LATENT, seed=0)
        after = painter.state_dict()
        assert all(torch.equal(before[name], after[name]) for name in before)

    def test_pixels_run_from_black_to_white(self):
        pictures = torch.tensor([-2.0, -1.0, 0.0, 1.0, 3.0]).reshape(1, 1, 1, 5)
        assert to_pixels(pictures).tolist() == [[[[0], [0], [128], [255], [255]]]]
        colours = to_pixels(torch.zeros(2, 3, 4, 5))
        assert colours.shape == (2, 4, 5, 3)
        assert colours.flags.c_contiguous


class TestAgreement:
    class Brightness:
        """Dark images are of class 0, bright ones of class 1."""

        def scores(self, pictures):
            bright = pictures.flatten(1).float().mean(1)
            return torch.stack([-bright, bright - 255], 1) + 127.5

    def test_images_are_drawn_again_until_a_judge_agrees(self, painter):
        plain = sampled(painter, labels(60), latent=LATENT, seed=1)
        judge = self.Brightness()

        def right(found):
            return judge.scores(torch.from_numpy(found)).argmax(1) == labels(60)

        found = agreed(painter, labels(60), judge, latent=LATENT, seed=1)
        assert right(found).sum() > right(plain).sum()
        kept = right(plain).numpy()
        assert np.array_equal(found[kept], plain[kept])
        again = agreed(painter, labels(60), judge, latent=LATENT, seed=1)
        assert np.array_equal(found, again)

    def test_a_judge_that_never_agrees_does_not_stop_a_run(self, painter):
        class Never:
            def scores(self, pictures):
                return torch.tensor([[0.0, 1.0]]).expand(len(pictures), 2)

        ours = torch.zeros(6, dtype=torch.int64)
        assert agreed(painter, ours, Never(), latent=LATENT, seed=1).shape == (6, SIDE, SIDE, 1)
