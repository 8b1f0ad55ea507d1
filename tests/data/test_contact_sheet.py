import numpy as np
import pytest
from PIL import Image

from privet.data import ImageSet
from privet.data.contact_sheet import draw_contact_sheet, write_contact_sheet
from privet.errors import ConfigError


def flat(count, side, classes):
    """Class c is painted in the shade 50 (c + 1)."""
    labels = np.arange(count) % classes
    shades = (50 * (labels + 1)).astype(np.uint8)
    return ImageSet(np.broadcast_to(shades[:, None, None, None], (count, side, side, 1)), labels)


@pytest.mark.parametrize("side", [4, 32, 200])
def test_every_class_has_its_band(side):
    sheet = np.asarray(draw_contact_sheet(flat(30, side, 3), columns=3, lines=2).convert("L"))
    height = len(sheet) // 3
    for label in range(3):
        band = sheet[label * height : (label + 1) * height]
        assert (band == 50 * (label + 1)).mean() > 0.4
        assert not np.isin(band, [50 * (c + 1) for c in range(3) if c != label])[:, 40:].any()


def test_no_labels_and_missing_classes(pixels):
    assert draw_contact_sheet(ImageSet(pixels())).width > 0
    data = ImageSet(pixels(), np.zeros(6, int), ("a\x1b[0m", "b" * 99))
    assert draw_contact_sheet(data).width > 0


def test_colour_is_kept(pixels):
    red = np.zeros((1, 8, 8, 3), np.uint8)
    red[..., 0] = 255
    assert (255, 0, 0) in {colour for _, colour in draw_contact_sheet(ImageSet(red)).getcolors()}


def test_does_not_overwrite_unless_forced(tmp_path, pixels):
    path, data = tmp_path / "sheet.png", ImageSet(pixels())
    path.write_text("precious")
    with pytest.raises(ConfigError, match=r"sheet\.png exists; .*--force"):
        write_contact_sheet(data, path)
    assert path.read_text() == "precious"
    write_contact_sheet(data, path, force=True)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [entry.name for entry in tmp_path.iterdir()] == ["sheet.png"]


def test_a_failure_leaves_nothing_behind(tmp_path, pixels, monkeypatch):
    def fail(*_):
        raise OSError

    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(ConfigError, match="cannot be written"):
        write_contact_sheet(ImageSet(pixels()), tmp_path / "sheet.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["sheet.jpg", "nowhere/sheet.png"])
def test_refuses_other_places(tmp_path, pixels, name):
    with pytest.raises(ConfigError):
        write_contact_sheet(ImageSet(pixels()), tmp_path / name)
