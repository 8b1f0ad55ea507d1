"""SPS-G: what is released, and what a generator makes of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from privet.errors import ConfigError
from privet.privacy.certificate import ALWAYS_PUBLIC
from privet.recipes import map_moments as recipe
from privet.recipes.map_moments import SpsG, sps_g, sps_g_embedding
from privet.release import released_moments
from privet.synthesis import GeneratorTraining
from tests.recipes.small import (
    CLASSES,
    SHAPE,
    SMALL,
    DictMemory,
    Silence,
    encoder,
    hedge,
    pictures,
)

SETTINGS = SpsG(early=4, middle=5, deep=6, pixels=7, everywhere=3, **SMALL)
PUBLIC = torch.from_numpy(pictures(80, seed=1)["images"])


def embedding(settings=SETTINGS):
    return sps_g_embedding(settings, encoder(), PUBLIC, CLASSES)


def run(folder, settings=SETTINGS, memory=None, **more):
    return sps_g(
        hedge(folder, **more),
        encoder=encoder(),
        public=PUBLIC,
        num_classes=CLASSES,
        settings=settings,
        memory=memory,
    )


def test_parts_by_class_and_one_of_all():
    parts = {part.size: part.num_groups for part in embedding().parts}
    assert parts == {4: CLASSES, 5: CLASSES, 6: CLASSES, 7: CLASSES, 3: 1}
    fewer = embedding(SpsG(early=0, middle=5, deep=0, pixels=0, everywhere=0))
    assert [part.size for part in fewer.parts] == [5]


@pytest.mark.parametrize("mean_share", [None, 0.3])
def test_public_vectors_have_the_length_that_was_meant(mean_share):
    """Class parts a mean squared norm of 1 each, the other one 0.09; counts come on top."""
    found = embedding(replace(SETTINGS, mean_share=mean_share))
    norms = found.batch(PUBLIC, torch.zeros(len(PUBLIC))).norms()
    expected = 4 + 0.09 + found.count_weight**2
    assert float(norms.square().mean()) == pytest.approx(expected, rel=1e-4)


def test_components_need_more_public_images_than_there_are_components():
    with pytest.raises(ConfigError, match="6 principal components need more than as many public"):
        sps_g_embedding(SpsG(early=6), encoder(), PUBLIC[:5], CLASSES)


def test_the_embedding_is_the_same_whenever_it_is_fitted():
    """A run that goes on reads its release in these coordinates."""
    one, other = (each.features(PUBLIC[:3]) for each in (embedding(), embedding()))
    for name in one:
        torch.testing.assert_close(one[name], other[name])


def test_without_noise_the_release_is_the_private_moments(tmp_path, monkeypatch):
    released, found = recipe.released, []

    def noted(behind, embedding, *words):
        found.append((embedding, released(behind, embedding, *words)))
        return found[-1][1]

    monkeypatch.setattr(recipe, "released", noted)
    settings = replace(SETTINGS, clip_norm=100.0)
    run(tmp_path, settings, randomness=Silence())
    [(used, noisy)] = found
    columns = {name: torch.as_tensor(each) for name, each in pictures().items()}
    with torch.no_grad():
        exact, _ = used.moments(columns["images"], columns["labels"])
    for name, each in released_moments(used, noisy, torch.full((CLASSES,), 20.0)).items():
        torch.testing.assert_close(each.mean, exact[name].mean, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(each.second, exact[name].second, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("agreement", [True, False])
def test_a_run_is_one_release_one_generator_and_any_number_of_images(tmp_path, agreement):
    memory = DictMemory()
    settings = replace(SETTINGS, agreement=agreement)
    first = run(tmp_path, settings, memory, randomness=Silence())
    images, _ = first.take(30)
    assert images.shape == (30, *SHAPE)
    assert (first.take(7)[0] == images[:7]).all()
    again = sps_g(
        hedge(tmp_path / "again"),
        encoder=encoder(),
        public=PUBLIC,
        num_classes=CLASSES,
        settings=settings,
        memory=memory,
    )
    assert (again.take(30)[0] == images).all()
    assert memory.made == ["components", "release", "generator"]
    assert {"the encoder", "images for components"} <= set(first.certificate.public)


def test_a_trained_generator_paints_classes_in_their_own_grey(tmp_path):
    """Private images of class 0, 1 and 2 are dark, grey and bright."""
    training = GeneratorTraining(iterations=120, per_class=8, learning_rate=0.02)
    settings = replace(SETTINGS, training=training, widths=(8, 8, 8, 8), clip_norm=100.0)
    images, labels = run(tmp_path, settings, randomness=Silence()).take(30)
    shades = [float(images[labels == each].mean()) for each in range(CLASSES)]
    assert shades[0] + 20 < shades[1] < shades[2] - 20


def test_shares_and_soft_labels_follow_from_the_release(tmp_path):
    """Classes of 40, 10 and 10 images, without noise."""
    columns = pictures(60)
    columns["labels"] = np.repeat([0, 1, 2], [40, 10, 10])
    synthetic = run(
        tmp_path, replace(SETTINGS, clip_norm=100.0), columns=columns, randomness=Silence()
    )
    torch.testing.assert_close(synthetic.shares, torch.tensor([4, 1, 1], dtype=torch.float64) / 6)
    images, labels = synthetic.take(30)
    assert np.bincount(labels).tolist() == [10] * CLASSES
    found = synthetic.soft(images)
    assert (found.shape, found.dtype) == ((30, CLASSES), np.float32)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)


def test_classes_may_be_as_large_as_released(tmp_path):
    columns = pictures(60)
    columns["labels"] = np.repeat([0, 1, 2], [40, 10, 10])
    synthetic = sps_g(
        hedge(tmp_path, columns=columns, randomness=Silence()),
        encoder=encoder(),
        public=PUBLIC,
        num_classes=CLASSES,
        settings=replace(SETTINGS, clip_norm=100.0),
        proportional=True,
    )
    assert np.bincount(synthetic.take(30)[1]).tolist() == [20, 5, 5]


def test_unlabelled_images_are_one_class_that_nothing_filters(tmp_path):
    columns = {**pictures(60), "labels": np.zeros(60, np.int64)}
    synthetic = sps_g(
        hedge(tmp_path, columns=columns),
        encoder=encoder(),
        public=PUBLIC,
        num_classes=1,
        settings=SETTINGS,
    )
    assert synthetic.soft is None
    assert synthetic.take(15)[0].shape == (15, *SHAPE)


def test_what_is_public_is_what_the_caller_says(tmp_path):
    synthetic = sps_g(
        hedge(tmp_path),
        encoder=encoder(),
        public=PUBLIC,
        num_classes=CLASSES,
        settings=SETTINGS,
        treated_as_public=("letters",),
    )
    assert synthetic.certificate.public == (*ALWAYS_PUBLIC, "letters")
