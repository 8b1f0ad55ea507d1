import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from privet.data import LazyImages, load
from privet.errors import DataError


def raw_png(width, height, *, depth=8, colour=0, rows=b""):
    """A PNG with any header at all."""

    def chunk(kind, content):
        crc = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + crc

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def test_classes_are_sorted_folder_names(class_folders):
    folder, pictures = class_folders
    data = load(folder)
    assert data.class_names == ("cat", "dog")
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.array_equal(data.images, pictures)


def test_beyond_the_memory_limit_images_are_decoded_on_access(class_folders):
    folder, pictures = class_folders
    data = load(folder, memory_limit=pictures.nbytes - 1)
    assert isinstance(data.images, LazyImages)
    assert data.images.shape == pictures.shape
    assert np.array_equal(data.take([4, 1]).images[:], pictures[[4, 1]])


def test_a_file_that_changes_under_lazy_images_is_noticed(class_folders, pixels, encode):
    folder, _ = class_folders
    data = load(folder, memory_limit=0)
    (folder / "dog" / "4.png").write_bytes(encode(pixels(1, 9, 9)[0]))
    with pytest.raises(DataError, match=r"4\.png has changed since it was listed"):
        data.images[3:]


@pytest.mark.parametrize(("form", "suffix"), [("JPEG", "JPG"), ("WEBP", "webp"), ("PNG", "png")])
@pytest.mark.parametrize("side", [8, 100])
def test_formats_in_a_flat_folder(tmp_path, encode, form, suffix, side):
    for number in range(10):
        picture = np.full((side, side, 3), 20 * number, np.uint8)
        (tmp_path / f"{number}.{suffix}").write_bytes(encode(picture, form))
    data = load(tmp_path)
    assert data.labels is None
    assert np.abs(data.images[:, 0, 0, 0].astype(int) - 20 * np.arange(10)).max() <= 2


def test_grey_files_have_one_channel(tmp_path, pixels, encode):
    (tmp_path / "a.png").write_bytes(encode(pixels(1, channels=1)[0]))
    assert load(tmp_path).image_shape == (5, 7, 1)
    assert load(tmp_path, channels="rgb").image_shape == (5, 7, 3)


def test_palettes_become_colour(tmp_path):
    Image.new("RGB", (4, 4), (10, 20, 30)).convert("P").save(tmp_path / "a.png")
    assert load(tmp_path).image_shape == (4, 4, 3)


@pytest.mark.parametrize(("mode", "channels"), [("RGBA", 3), ("LA", 1)])
def test_opaque_alpha_is_dropped(tmp_path, mode, channels):
    picture = Image.new("L", (4, 4), 77).convert(mode)
    picture.save(tmp_path / "a.png")
    data = load(tmp_path)
    assert data.image_shape == (4, 4, channels)
    assert (data.images == 77).all()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_refuses_transparency(tmp_path, mode):
    picture = Image.new("RGBA", (4, 4), (1, 2, 3, 100))
    picture.convert(mode).save(tmp_path / "a.png", **({"transparency": 0} if mode == "P" else {}))
    with pytest.raises(DataError, match=r"a\.png has transparent pixels"):
        load(tmp_path)


@pytest.mark.parametrize(("colour", "channels"), [(0, 1), (2, 3), (6, 4)])
def test_refuses_16_bits(tmp_path, colour, channels):
    rows = (b"\0" + b"\1\2" * 4 * channels) * 4
    (tmp_path / "a.png").write_bytes(raw_png(4, 4, depth=16, colour=colour, rows=rows))
    with pytest.raises(DataError, match=r"a\.png has 16 or more bits"):
        load(tmp_path)


def test_refuses_animations(tmp_path):
    frames = [Image.new("RGB", (4, 4), (shade, 0, 0)) for shade in (0, 255)]
    frames[0].save(tmp_path / "a.webp", save_all=True, append_images=frames[1:])
    with pytest.raises(DataError, match=r"a\.webp is an animation"):
        load(tmp_path)


def test_refuses_mixed_sizes_and_resizes(class_folders, pixels, encode):
    folder, _ = class_folders
    (folder / "dog" / "9.png").write_bytes(encode(pixels(1, 9, 4)[0]))
    with pytest.raises(DataError, match=r"9\.png is 9×4 pixels and .*0\.png is 5×7; .*--resize"):
        load(folder)
    assert load(folder, resize=(6, 3)).images.shape == (7, 6, 3, 3)
    assert load(folder, resize=6).image_shape == (6, 6, 3)


def test_refuses_mixed_channels_and_converts(class_folders, pixels, encode):
    folder, _ = class_folders
    (folder / "dog" / "9.png").write_bytes(encode(pixels(1, channels=1)[0]))
    with pytest.raises(DataError, match=r"9\.png is grey and .*0\.png is in colour; .*--channels"):
        load(folder)
    assert load(folder, channels="rgb").images.shape == (7, 5, 7, 3)
    assert load(folder, channels="grey").images.shape == (7, 5, 7, 1)


@pytest.mark.parametrize("keep", [0, 4, 30, 60, -30])
def test_refuses_a_truncated_image(class_folders, keep):
    folder, _ = class_folders
    path = folder / "cat" / "1.png"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"1\.png is not a"):
        load(folder)


def test_refuses_a_picture_in_another_format(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.bmp")
    (tmp_path / "a.bmp").rename(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png is not a PNG, JPEG or WebP image; convert"):
        load(tmp_path)


def test_refuses_huge_headers(tmp_path):
    (tmp_path / "a.png").write_bytes(raw_png(20_000, 20_000))
    with pytest.raises(DataError, match=r"a\.png is over 89,478,485 pixels"):
        load(tmp_path)


def test_refuses_an_empty_folder(tmp_path):
    (tmp_path / ".DS_Store").touch()
    with pytest.raises(DataError, match="is an empty folder; put images"):
        load(tmp_path)


def test_refuses_an_empty_class(class_folders):
    folder, _ = class_folders
    (folder / "emu").mkdir()
    with pytest.raises(DataError, match="emu is an empty folder; remove it"):
        load(folder)


def test_ignores_what_systems_leave_behind(class_folders):
    folder, _ = class_folders
    for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (folder / "cat" / name).touch()
    (folder / ".cache").mkdir()
    (folder / "__MACOSX").mkdir()
    assert len(load(folder)) == 6


def test_refuses_other_files(class_folders):
    folder, _ = class_folders
    (folder / "cat" / "notes.txt").touch()
    with pytest.raises(DataError, match=r"notes\.txt is not a PNG, JPEG or WebP image; remove it"):
        load(folder)


def test_refuses_images_beside_classes(class_folders):
    folder, _ = class_folders
    (folder / "a.png").touch()
    with pytest.raises(DataError, match=r"a\.png lies beside class folders"):
        load(folder)


def test_refuses_folders_in_classes(class_folders):
    folder, _ = class_folders
    with pytest.raises(DataError, match=r"cat is a folder where an image should be; give .*set"):
        load(folder.parent)


def test_follows_links_and_refuses_broken_ones(class_folders):
    folder, _ = class_folders
    (folder / "cat" / "9.png").symlink_to(folder / "dog" / "4.png")
    assert load(folder).class_counts().tolist() == [4, 3]
    (folder / "cat" / "9.png").unlink()
    (folder / "cat" / "9.png").symlink_to(folder / "nowhere")
    with pytest.raises(DataError, match=r"9\.png is a broken link"):
        load(folder)


def test_does_not_wait_for_a_pipe(class_folders):
    folder, _ = class_folders
    os.mkfifo(folder / "cat" / "9.png")
    with pytest.raises(DataError, match=r"9\.png is a broken link or no regular file"):
        load(folder)


def test_names_in_messages_carry_no_control_characters(tmp_path):
    (tmp_path / "a\x1b[31m\n.png").touch()
    with pytest.raises(DataError) as caught:
        load(tmp_path)
    assert str(caught.value).isprintable()


def test_refuses_a_part(class_folders):
    with pytest.raises(DataError, match="is one part"):
        load(class_folders[0], part="train")
