"""DP-MERF and DP-MEPF: honest noise, unit vectors, early stopping by a release of its own."""

import math
from dataclasses import replace

import pytest
import torch

from privet.errors import ConfigError
from privet.hedge import GaussianSum, NoisySum
from privet.hedge.clipping import clipped_sum
from privet.models.feature_maps import convolutions
from privet.privacy import Budget, Relation, gaussian
from privet.privacy.certificate import ALWAYS_PUBLIC
from privet.recipes.mean_embeddings import (
    _Stopping,
    dp_mepf,
    dp_mepf_releases,
    dp_merf,
    dp_merf_releases,
)
from privet.recipes.mean_settings import DpMepf, DpMerf
from privet.recipes.releases import affordable_sums
from privet.release.fourier import median_pixel_distance
from tests.hedge.summands import units
from tests.recipes.small import CLASSES, SHAPE, SMALL, DictMemory, Silence, encoder, hedge, pictures

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def releases(**settings):
    return dp_mepf_releases(DpMepf(**settings), encoder(), SHAPE, CLASSES)


def test_noise_under_replace_one_is_the_papers():
    """DP-MEPF, equation 5: N(0, (2σ/m)²) for each mean of m unit vectors."""
    sigma = gaussian.sigma(1.0, 1e-5)
    [first] = releases(second=False, count_share=1e-6)
    [mechanism] = affordable_sums(BUDGET, Relation.REPLACE_ONE, [first.clip_norm])
    m = 60_000
    assert mechanism.noise_scale / m == pytest.approx(2 * sigma / m, rel=1e-3)


def test_two_moments_in_one_release_cost_what_the_papers_two_releases_do():
    """σ of two Gaussian mechanisms is √2 of one's; so is the norm of (φ₁, φ₂)."""
    [both] = releases(second=True, count_share=1e-6)
    [mechanism] = affordable_sums(BUDGET, Relation.REPLACE_ONE, [both.clip_norm])
    [one_of_two, _] = affordable_sums(BUDGET, Relation.REPLACE_ONE, [1.0, 1.0])
    assert mechanism.noise_scale == pytest.approx(one_of_two.noise_scale, rel=1e-3)


@pytest.mark.parametrize("kind", ["dp-merf", "first", "both", "stopping"])
def test_nothing_is_clipped(kind):
    """Vectors have the length that their clip norm allows: counts cost three per mille."""
    found = {
        "dp-merf": dp_merf_releases(DpMerf(size=10, length_scale=1.0), SHAPE, CLASSES),
        "first": releases(second=False),
        "both": releases(),
        "stopping": releases(stopping=True)[1:],
    }[kind]
    [release] = found
    columns = {name: torch.as_tensor(each) for name, each in pictures().items()}
    norms = release.embedding.batch(columns["images"], columns["labels"]).norms()
    assert (norms <= release.clip_norm * (1 - 1e-5)).all()
    length = math.sqrt(len(release.embedding.parts))
    torch.testing.assert_close(norms, torch.full_like(norms, length * math.sqrt(1 + 0.08**2)))


def test_layers_may_be_chosen():
    network = encoder()
    [every] = releases(second=False)
    *_, last = convolutions(network)
    [deep] = dp_mepf_releases(DpMepf(layers=(last,), second=False), network, SHAPE, CLASSES)
    assert deep.embedding.parts[0].size < every.embedding.parts[0].size
    with pytest.raises(ConfigError, match="no layer 'nowhere'"):
        releases(layers=("nowhere",))


def test_stopping_is_ten_times_noisier():
    first, stop = releases(stopping=True)
    assert (first.noise_ratio, stop.noise_ratio) == (1.0, 10.0)
    assert [part.name for part in stop.embedding.parts] == ["first", "second"]
    last_channels = 6
    assert {part.size for part in stop.embedding.parts} == {last_channels}


def test_trap_the_stopping_release_is_noised(tmp_path):
    """DP-MEPF's code budgets noise for it and adds none."""
    memory = DictMemory()
    settings = DpMepf(stopping=True, checks=2, **SMALL)
    dp_mepf(
        hedge(tmp_path),
        encoder=encoder(),
        image_shape=SHAPE,
        num_classes=CLASSES,
        settings=settings,
        memory=memory,
    )
    _, stop = dp_mepf_releases(settings, encoder(), SHAPE, CLASSES)
    exact = clipped_sum([units(pictures())], stop.embedding, stop.clip_norm)
    noise = torch.cat([(memory.kept["stopping"][name] - exact[name]).flatten() for name in exact])
    [_, mechanism] = affordable_sums(
        Budget(epsilon=2.0, delta=1e-5), Relation.ADD_REMOVE, [1.0, stop.clip_norm], [1.0, 10.0]
    )
    assert len(noise) == CLASSES * (6 + 6 + 1)
    assert 2 / 3 < float(noise.square().mean().sqrt()) / mechanism.noise_scale < 3 / 2


def test_trap_replacing_an_image_or_its_label_moves_the_sum_by_no_more_than_was_noised():
    """Squares are not negative, and yet √2 apart; a changed label moves two classes."""
    [release] = releases()
    mechanism = GaussianSum(clip_norm=release.clip_norm, noise_multiplier=1.0)

    def total(columns):
        blocks = clipped_sum([units(columns)], release.embedding, release.clip_norm)
        return torch.cat([block.flatten() for block in blocks.values()])

    before = pictures(9)
    image, label = pictures(9), pictures(9)
    image["images"][0] = 255 - image["images"][0]
    label["labels"][0] = 1
    fewer = {name: each[1:] for name, each in before.items()}
    for after in (image, label):
        gap = float((total(before) - total(after)).norm())
        assert 0 < gap <= mechanism.sensitivity(Relation.REPLACE_ONE)
    assert float((total(before) - total(label)).norm()) > 1.3 * release.clip_norm / math.sqrt(1.01)
    gap = float((total(before) - total(fewer)).norm())
    assert gap <= mechanism.sensitivity(Relation.ADD_REMOVE)


def test_trap_counts_are_released_and_not_looked_up(tmp_path):
    """Class means are divided by noised counts; nobody says how many images there are."""
    memory = DictMemory()
    settings = DpMerf(size=10, **SMALL)
    dp_merf(
        hedge(tmp_path),
        image_shape=SHAPE,
        num_classes=CLASSES,
        settings=settings,
        memory=memory,
    )
    counts = memory.kept["release"]["counts.mean"]
    assert counts.shape == (CLASSES, 1)
    assert ((counts / (0.08 * 20)) - 1).abs().min() > 1e-6


class TestStopping:
    @pytest.fixture
    def stop(self):
        """Aimed at dark images, without noise."""
        [release] = releases(stopping=True)[1:]
        dark = {**pictures(30), "images": pictures(30)["images"] // 9}
        exact = clipped_sum([units(dark)], release.embedding, release.clip_norm)
        noisy = NoisySum(dict(exact), 1e-9)
        return _Stopping(release.embedding, noisy, checks=3, device=torch.device("cpu"))

    @pytest.fixture
    def painter(self):
        class Grey(torch.nn.Module):
            """All images alike."""

            def __init__(self):
                super().__init__()
                self.shade = torch.nn.Parameter(torch.zeros(()))

            def forward(self, latent, labels):
                noise = 0.1 * latent[:, :1, None, None].expand(-1, 1, 8, 8)
                return self.shade + noise

        return Grey()

    def test_it_looks_so_often_and_at_the_end(self, stop):
        assert [step for step in range(1, 12) if stop.is_due(step, 11)] == [4, 8, 11]

    def test_the_best_weights_so_far_are_kept(self, stop, painter):
        for shade in (0.5, -0.9, 0.9):
            painter.shade.data.fill_(shade)
            stop.look(painter, 4, CLASSES)
        assert float(stop.best["shade"]) == pytest.approx(-0.9)
        assert painter.training
        assert 0 < stop.least < math.inf


def test_the_run_is_one_generator_whatever_is_asked_for(tmp_path):
    memory = DictMemory()
    synthetic = dp_merf(
        hedge(tmp_path),
        image_shape=SHAPE,
        num_classes=CLASSES,
        settings=DpMerf(size=10, **SMALL),
        memory=memory,
    )
    images, _ = synthetic.take(20)
    assert (synthetic.take(5)[0] == images[:5]).all()
    assert memory.made == ["release", "generator"]


class TestLengthScale:
    def kept(self, folder, **more):
        memory = DictMemory()
        folder.mkdir()
        dp_merf(
            hedge(folder, randomness=Silence()),
            image_shape=SHAPE,
            num_classes=CLASSES,
            memory=memory,
            **more,
        )
        return memory.kept["release"]["fourier.mean"]

    def test_it_is_the_median_distance_of_public_images(self, tmp_path):
        """Or follows from the number of pixels where nothing is public."""
        public = torch.from_numpy(pictures(40, seed=2)["images"])
        scale = float(f"{median_pixel_distance(public):.2g}")
        settings = DpMerf(size=10, **SMALL)
        for length_scale, more in ((scale, {"public": public}), (2.9, {})):
            found = self.kept(tmp_path / f"{length_scale}", settings=settings, **more)
            given = replace(settings, length_scale=length_scale)
            again = self.kept(tmp_path / f"given {length_scale}", settings=given)
            torch.testing.assert_close(found, again)

    @pytest.mark.parametrize("given", [None, 3.0])
    def test_public_images_are_named_if_it_came_from_them(self, tmp_path, given):
        synthetic = dp_merf(
            hedge(tmp_path),
            image_shape=SHAPE,
            num_classes=CLASSES,
            settings=DpMerf(size=10, length_scale=given, **SMALL),
            public=torch.from_numpy(pictures(40, seed=2)["images"]),
        )
        named = ("images for a length scale",) if given is None else ()
        assert synthetic.certificate.public == (*ALWAYS_PUBLIC, *named)
