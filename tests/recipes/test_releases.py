"""What all systems share: a plan, one reading for each release, batches by number."""

import math

import numpy as np
import pytest
import torch

from privet.errors import ConfigError, PrivacyError
from privet.hedge import GaussianSum
from privet.hedge.units import Rows
from privet.models import ConvEncoder
from privet.privacy import PLD, Budget, Plan, Relation
from privet.recipes.map_moments import SpsG
from privet.recipes.mean_settings import DpMepf, DpMerf
from privet.recipes.releases import (
    NoMemory,
    Release,
    Synthetic,
    affordable_sums,
    balanced,
    plan_releases,
    planned,
    planned_sums,
    released,
)
from privet.recipes.sps_settings import Sps, SpsPlus
from privet.recipes.synthesis_methods import Prepared, releases_of, run
from privet.recipes.turns import even
from privet.release import Embedding, Part, each_class
from tests.recipes.small import CLASSES, SHAPE, SITUATION, SMALL, encoder, hedge, pictures

PIXELS = {"iterations": 2, "later_iterations": 2, "global_size": 3, "class_size": 3, "per_class": 2}
SYSTEMS = {
    "dp-merf": (DpMerf(size=10, **SMALL), 1),
    "dp-mepf": (DpMepf(**SMALL), 1),
    "dp-mepf with stopping": (DpMepf(stopping=True, checks=2, **SMALL), 2),
    "sps": (Sps(class_layers=2, **PIXELS), 1),
    "sps-plus": (SpsPlus(class_layers=2, pseudo_count=3, **PIXELS), 2),
    "sps-g": (SpsG(early=4, middle=4, deep=4, pixels=4, everywhere=3, **SMALL), 1),
}


def tiny_embedding():
    return Embedding(
        features=lambda images: {"z": images.flatten(1).float() / 255},
        parts=(Part(name="z", source="z", size=64, groups=each_class(CLASSES)),),
        num_classes=CLASSES,
        count_weight=0.1,
    )


@pytest.fixture
def reads(monkeypatch):
    """Every private row that was read, in order."""
    found, batch = [], Rows.batch

    def noted(rows, units, device, number):
        found.extend(range(units.start, units.stop))
        return batch(rows, units, device, number)

    monkeypatch.setattr(Rows, "batch", noted)
    return found


@pytest.mark.parametrize("name", SYSTEMS)
def test_private_images_are_read_once_for_each_release(tmp_path, reads, name):
    system, releases = SYSTEMS[name]
    prepared = Prepared(
        image_shape=SHAPE,
        num_classes=CLASSES,
        encoder=encoder(),
        public=torch.from_numpy(pictures(50, seed=1)["images"]),
        count=12,
    )
    behind = hedge(tmp_path, physical_batch=25)
    synthetic = run(system, behind, prepared, NoMemory(), lambda done, total: None)
    images, labels = synthetic.take(30)
    assert reads == list(range(60)) * releases
    assert sum(behind.reservation.record.spent) == releases
    assert (images.shape, images.dtype) == ((30, *SHAPE), np.uint8)
    assert np.bincount(labels).tolist() == [10] * CLASSES
    assert np.array_equal(synthetic.take(13)[0], images[:13])
    assert len(releases_of(system.chosen(SITUATION).settings, prepared)) == releases


def test_the_whole_reservation_is_spent_whatever_the_ratios(tmp_path):
    behind = hedge(tmp_path, epsilon=1.5)
    embedding = tiny_embedding()
    first, second = planned(behind, [Release(embedding, 2.0), Release(embedding, 3.0, 10.0)])
    assert (first.clip_norm, second.clip_norm) == (2.0, 3.0)
    assert second.noise_multiplier == pytest.approx(10 * first.noise_multiplier)
    plan = behind.reservation.plan
    assert plan == Plan.of(first.event, second.event)
    assert PLD().epsilon(plan.events, 1e-5, Relation.ADD_REMOVE) == pytest.approx(1.5, rel=1e-3)


def test_a_plan_is_fixed_once(tmp_path):
    behind = hedge(tmp_path)
    assert planned_sums(behind, [1.0]) == planned_sums(behind, [1.0])
    with pytest.raises(PrivacyError, match="made for another plan"):
        planned_sums(behind, [1.0, 1.0])


@pytest.mark.parametrize("ratios", [(0.1, 1.0, 0.3), (3.0, 7.0, 3.0, 0.7), (1.1, 1.3)], ids=str)
def test_a_plan_is_recognised_however_its_noise_rounds(tmp_path, ratios):
    for epsilon in np.linspace(0.5, 3.0, 8):
        behind = hedge(tmp_path / f"{epsilon}", epsilon=float(epsilon))
        plan = plan_releases(behind, ratios)
        found = planned_sums(behind, [1.0] * len(ratios), ratios)
        assert Plan.of(*(each.event for each in found)) == plan
        assert [each.noise_multiplier / found[0].noise_multiplier for each in found] == (
            pytest.approx([each / ratios[0] for each in ratios])
        )
        with pytest.raises(PrivacyError, match="made for another plan"):
            planned_sums(behind, [1.0] * len(ratios), [*ratios[:-1], 1.001 * ratios[-1]])


class TestLabels:
    @pytest.mark.parametrize("name", [name for name in SYSTEMS if name != "sps-plus"])
    def test_images_without_any_are_of_one_class(self, tmp_path, name):
        synthetic = self.synthetic(tmp_path, name, num_classes=1)
        assert synthetic.take(3)[0].shape == (3, *SHAPE)

    def test_pseudo_classes_of_one_class_are_refused_before_the_plan(self, tmp_path):
        with pytest.raises(ConfigError, match="A pseudo-class holds"):
            self.synthetic(tmp_path, "sps-plus", num_classes=1)
        assert self.behind.reservation.record.plan is None

    @pytest.mark.parametrize("name", SYSTEMS)
    def test_several_classes_without_any_are_refused_before_the_plan(self, tmp_path, name):
        with pytest.raises(ConfigError, match="have no labels, only images: give them"):
            self.synthetic(tmp_path, name, num_classes=CLASSES)
        assert self.behind.reservation.record.plan is None

    def synthetic(self, folder, name, num_classes):
        self.behind = hedge(folder, columns={"images": pictures()["images"]})
        prepared = Prepared(
            image_shape=SHAPE,
            num_classes=num_classes,
            encoder=encoder(),
            public=torch.from_numpy(pictures(80, seed=1)["images"]),
            count=6,
        )
        return run(SYSTEMS[name][0], self.behind, prepared, NoMemory(), lambda *_: None)


def test_stages_share_the_budget_as_gaussians_do():
    """M releases at √M times the noise."""
    budget = Budget(epsilon=1.0, delta=1e-5)
    one, four = (affordable_sums(budget, Relation.ADD_REMOVE, [1.0] * m)[0] for m in (1, 4))
    assert four.noise_multiplier == pytest.approx(2 * one.noise_multiplier, rel=1e-3)


def test_a_release_is_paid_for_once(tmp_path):
    behind = hedge(tmp_path)
    [mechanism] = planned_sums(behind, [1.0])
    released(behind, tiny_embedding(), mechanism, NoMemory(), "release")
    with pytest.raises(PrivacyError, match="release was paid for already"):
        released(behind, tiny_embedding(), mechanism, NoMemory(), "release")


def test_what_is_not_planned_is_not_read(tmp_path, reads):
    behind = hedge(tmp_path)
    planned_sums(behind, [1.0])
    other = GaussianSum(clip_norm=1.0, noise_multiplier=0.1)
    with pytest.raises(PrivacyError):
        released(behind, tiny_embedding(), other, NoMemory(), "other")
    assert reads == []


@pytest.mark.parametrize(("batch_size", "classes"), [(12, 3), (10, 4), (2, 5)])
def test_labels_are_as_even_as_can_be_in_every_prefix(batch_size, classes):
    labels = torch.cat([balanced(batch_size, classes, number) for number in range(7)])
    for count in range(1, len(labels)):
        counts = torch.bincount(labels[:count], minlength=classes)
        assert counts.max() - counts.min() <= 1


def test_batches_add_up_to_any_number():
    def batch(number):
        return np.full((4, *SHAPE), number, np.uint8), np.zeros(4, np.int64)

    synthetic = Synthetic(batch=batch, batch_size=4, certificate=None, shares=even(1))
    for count in (1, 4, 9):
        sizes = [len(images) for images, _ in synthetic.batches(count)]
        assert sum(sizes) == len(synthetic.take(count)[0]) == count
        assert len(sizes) == math.ceil(count / 4)
    assert synthetic.take(9)[0][:, 0, 0, 0].tolist() == [0] * 4 + [1] * 4 + [2]


def test_an_untrained_encoder_outlines_the_releases():
    """Of the very shapes that a trained one will have."""
    prepared = Prepared(
        image_shape=SHAPE, num_classes=CLASSES, encoder=ConvEncoder(1), public=None, count=1
    )
    [one] = releases_of(Sps(global_size=3, class_size=3, clip_ratios=(1 / 8,)), prepared)
    assert one.embedding.zeros().keys() >= {"layers_4_0-class.second", "counts.mean"}
