import pytest
import torch

from privet.public import glyph_rows
from privet.public.glyphs import CHARACTERS


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def rows():
    return glyph_rows((28, 28, 1), 6, seeded())


def test_every_character_is_a_class_of_its_own(rows):
    assert rows.inputs.shape == (6 * len(CHARACTERS), 28, 28, 1)
    assert rows.inputs.dtype == torch.uint8
    assert torch.equal(rows.targets.bincount(), torch.full((len(CHARACTERS),), 6))
    assert len(set(CHARACTERS)) == len(CHARACTERS)


def test_characters_are_light_on_black(rows):
    edges = torch.cat([rows.inputs[:, 0].flatten(), rows.inputs[:, :, 0].flatten()]).float()
    assert edges.median() == 0
    brightest = rows.inputs.flatten(1).amax(1)
    assert (brightest > 80).float().mean() > 0.97  # a very thin stroke may be fainter
    assert (rows.inputs > 60).float().mean() < 0.4


def test_they_depend_on_the_generator_alone():
    assert torch.equal(
        glyph_rows((16, 16, 1), 2, seeded(3), characters="A7").inputs,
        glyph_rows((16, 16, 1), 2, seeded(3), characters="A7").inputs,
    )
    one, other = (glyph_rows((16, 16, 1), 2, seeded(n), characters="A") for n in (3, 4))
    assert not torch.equal(one.inputs, other.inputs)


def test_colour_images_are_grey_in_all_channels():
    rows = glyph_rows((20, 24, 3), 1, seeded(), characters="xyz")
    assert rows.inputs.shape == (3, 20, 24, 3)
    assert torch.equal(rows.inputs[..., 0], rows.inputs[..., 2])


def test_images_of_one_character_are_alike():
    """A template of each of two characters tells new ones apart."""
    taught = glyph_rows((28, 28, 1), 60, seeded(0), characters="1O")
    tested = glyph_rows((28, 28, 1), 30, seeded(1), characters="1O")
    means = torch.stack([taught.inputs[taught.targets == c].float().mean(0) for c in (0, 1)])
    gaps = (tested.inputs.float()[:, None] - means).flatten(2).norm(dim=2)
    assert (gaps.argmin(1) == tested.targets).float().mean() > 0.9
