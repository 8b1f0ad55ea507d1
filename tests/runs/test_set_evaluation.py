"""What looks at synthetic images, and what it tells of those that repeat others."""

import pytest
import torch

from privet.errors import ConfigError, DataError
from privet.public import PublicRows
from privet.recipes.set_extractors import EXTRACTORS
from privet.recipes.set_quality import set_quality
from privet.runs.set_evaluation import _watched
from privet.share import ClassifierTraining
from privet.share import panel as module
from privet.share.panel import enough_training
from tests.public.digits import digits

QUICK = ClassifierTraining(epochs=1)


def some(first, last):
    return digits().select(torch.arange(first, last))


def measured(synthetic, test, **settings):
    named = {"extractor": lambda images: images.flatten(1), "name": "pixels", "training": QUICK}
    return set_quality(synthetic, test, **{**named, **settings})


@pytest.fixture(scope="module", autouse=True)
def hurried():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LEAST_STEPS", 90)
        yield


@pytest.fixture(scope="module")
def eye(hurried):
    return EXTRACTORS["cnn"](some(1400, 1797), 10)


def test_the_cnn_judges_by_images_that_it_did_not_learn_from(eye):
    halves = torch.cat([eye.test.inputs, eye.taught_by.inputs]).flatten(1)
    assert sorted(halves.tolist()) == sorted(some(1400, 1797).inputs.flatten(1).tolist())
    assert abs(len(eye.test) - len(eye.taught_by)) <= 1
    assert eye.name == f"cnn, taught by {len(eye.taught_by)} other test images"


def test_real_digits_score_as_digits_do(eye):
    real = some(0, 400)
    found = measured(
        real,
        eye.test,
        extractor=eye.features,
        probabilities=eye.probabilities,
        taught_by=eye.taught_by,
    )
    assert 6 < found.inception <= 10
    assert (found.images, found.test_images) == (400, len(eye.test))
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(256, real.inputs.shape, generator=generator, dtype=torch.uint8)
    other = measured(
        PublicRows(noise, real.targets),
        eye.test,
        extractor=eye.features,
        probabilities=eye.probabilities,
    )
    assert other.inception < found.inception / 2
    assert other.frechet > 3 * found.frechet


def test_it_sees_the_same_twice(eye):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        again = EXTRACTORS["cnn"](some(1400, 1797), 10)
    images = torch.rand(3, 1, 8, 8)
    assert torch.equal(eye.features(images), again.features(images))
    assert not eye.features(images).requires_grad


def test_one_class_teaches_nothing():
    images = some(0, 20).inputs
    with pytest.raises(ConfigError, match="two classes or more"):
        EXTRACTORS["cnn"](PublicRows(images, torch.zeros(20, dtype=torch.int64)), 1)


def test_images_without_classes_have_no_score():
    rows = PublicRows(some(0, 60).inputs, torch.zeros(60, dtype=torch.int64))
    found = measured(rows, rows)
    assert (found.cas, found.cas_by_class, found.cas_worst_class) == (None, (), None)
    assert found.cas_worst is None


def test_classes_that_nobody_has_are_counted_all_the_same():
    rows = some(0, 60)
    assert measured(rows, rows, num_classes=12).cas_by_class[10:] == (None, None)


def test_copies_are_found_and_shown_beside_what_they_repeat():
    seen, test = some(0, 600), some(1200, 1797)
    mixed = torch.cat([torch.arange(30), torch.arange(700, 790)])  # 30 copies, then new images
    found = measured(digits().select(mixed), test, seen=seen)
    assert found.copies == pytest.approx(0.25)
    assert found.seen_images == 600
    assert len(found.closest) == 8
    for each in found.closest:
        assert each.synthetic == each.seen[0] < 30
        assert each.distances[0] == pytest.approx(0, abs=1e-3)
        assert list(each.distances) == sorted(each.distances)
    assert measured(some(700, 790), test, seen=seen).copies == 0


def test_a_few_images_stand_for_all_classes(monkeypatch):
    monkeypatch.setattr("privet.recipes.set_quality.MOST", 200)
    rows, test = some(0, 1200), some(1200, 1797)
    ordered = rows.select(rows.targets.argsort())
    assert (
        measured(ordered, test).frechet
        < measured(ordered.select(torch.arange(200)), test).frechet / 2
    )
    assert measured(ordered, test).images == 200


def test_few_images_are_learned_from_for_longer(monkeypatch):
    monkeypatch.setattr(module, "_LEAST_STEPS", 200)
    assert enough_training(100_000) == ClassifierTraining()
    assert enough_training(130).epochs == 200
    assert enough_training(1300).epochs == 20


def test_what_was_seen_can_be_too_small_as_well():
    with pytest.raises(DataError, match="fewer than 6"):
        measured(some(0, 20), some(20, 40), seen=some(40, 43))


def test_progress_counts_every_image_that_is_looked_at():
    told = []
    look = _watched(lambda images: images, lambda done, total: told.append((done, total)), 25)
    for count in (10, 10, 5):
        look(torch.zeros(count, 1, 2, 2))
    assert told == [(10, 25), (20, 25), (25, 25)]
