"""Public rows: what they accept and what they give."""

import numpy as np
import pytest
import torch

from privet.data.image_set import ImageSet
from privet.errors import ConfigError, DataError
from privet.public import PublicRows
from tests.public.digits import seed


def rows(count=6):
    return PublicRows(torch.arange(count * 2.0).reshape(count, 2), torch.arange(count))


def test_images_and_labels_come_along_as_a_copy():
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 3, 1), np.uint8)
    labels = np.array([0, 1, 2, 1, 0])
    kept = images.copy()
    images.setflags(write=False)
    public = PublicRows.from_images(ImageSet(images, labels).take([4, 1]))
    assert len(public) == 2
    np.testing.assert_array_equal(public.inputs, kept[[4, 1]])
    assert public.targets.tolist() == [0, 1]
    whole = PublicRows.from_images(ImageSet(images, labels))
    whole.inputs.zero_()
    np.testing.assert_array_equal(images, kept)


def test_rows_keep_their_labels_when_chosen():
    chosen = rows().select(torch.tensor([5, 0, 5]))
    assert chosen.targets.tolist() == [5, 0, 5]
    assert chosen.inputs[:, 0].tolist() == [10.0, 0.0, 10.0]


def test_a_small_sample_has_no_row_twice_and_every_row_is_as_likely():
    generator = seed()
    samples = [rows().sample(3, generator) for _ in range(2000)]
    assert all(len(set(sample.targets.tolist())) == 3 for sample in samples)
    assert all(torch.equal(s.inputs[:, 0], 2.0 * s.targets) for s in samples)
    counts = torch.cat([sample.targets for sample in samples]).bincount()
    assert counts.tolist() == pytest.approx([1000] * 6, abs=120)


def test_a_whole_sample_is_a_permutation():
    assert sorted(rows().sample(6, seed()).targets.tolist()) == list(range(6))


def test_a_large_sample_repeats_rows():
    sample = rows().sample(6000, seed())
    assert len(sample) == 6000
    assert sample.targets.bincount().tolist() == pytest.approx([1000] * 6, abs=150)


def test_only_the_generator_decides():
    before = torch.random.get_rng_state()
    first = rows(50).sample(20, seed(1)).targets
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(rows(50).sample(20, seed(1)).targets, first)
    assert not torch.equal(rows(50).sample(20, seed(2)).targets, first)


def test_to_another_device():
    moved = rows().to("meta")
    assert moved.inputs.device.type == moved.targets.device.type == "meta"


def test_rows_say_what_they_are():
    assert repr(rows()) == "PublicRows(6 rows of 2, torch.float32)"


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        (torch.zeros(2, 4, 4, dtype=torch.uint8), torch.zeros(2).long(), "uint8"),
        (torch.zeros(2, 4).long(), torch.zeros(2).long(), "public inputs are torch.int64"),
        (torch.zeros(2), torch.zeros(2).long(), "public inputs"),
        (torch.zeros(2, 4), torch.zeros(2), "public targets are torch.float32"),
        (torch.zeros(2, 4), torch.zeros(2, 1).long(), "public targets"),
        (torch.zeros(2, 4).long(), torch.zeros(2, 3).long(), "public inputs are torch.int64"),
        (torch.zeros(2, 4), torch.zeros(3).long(), "2 public inputs and 3 targets"),
        (torch.zeros(2, 4), torch.tensor([0, -1]), "a public target is -1"),
    ],
)
def test_what_is_not_labelled_data_is_refused(inputs, targets, message):
    with pytest.raises(DataError, match=message):
        PublicRows(inputs, targets)


def test_what_cannot_be_read_or_drawn_is_refused():
    with pytest.raises(DataError, match="no labels"):
        PublicRows.from_images(ImageSet(np.zeros((2, 4, 4, 1), np.uint8)))
    with pytest.raises(DataError, match="1 of 0 public rows"):
        rows(0).sample(1, seed())
    with pytest.raises(ConfigError, match="count is -1"):
        rows().sample(-1, seed())
    assert len(rows(0).sample(0, seed())) == 0
