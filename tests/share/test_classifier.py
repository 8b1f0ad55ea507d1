"""Images of every kind that people have, through one small network."""

import io
import re
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from privet.augment import to_float
from privet.data import LazyImages
from privet.errors import ConfigError, DataError
from privet.models import MLP
from privet.share import Classifier
from tests.share.test_data_card import certificate

NAMES = ("ant", "bee", "cow", "dog", "emu", "fox", "gnu")


def classifier(shape=(6, 5, 3), **changes):
    torch.manual_seed(0)
    module = MLP(int(np.prod(shape)), (9,), len(NAMES)).eval()
    return Classifier(
        module=module,
        image_shape=shape,
        class_names=NAMES,
        certificate=certificate(**changes),
    )


def pixels(count=4, shape=(6, 5, 3)):
    return np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8)


def expected(model, images):
    with torch.no_grad():
        return model.module(to_float(torch.tensor(images))).softmax(1).numpy()


class TestAnswers:
    def test_like_a_pipeline_of_transformers(self):
        model, images = classifier(), pixels()
        wanted = expected(model, images)
        found = model.predict(images)
        assert [len(each) for each in found] == [5] * 4
        for row, answers in zip(wanted, found, strict=True):
            order = np.argsort(-row)[:5]
            assert [each["label"] for each in answers] == [NAMES[label] for label in order]
            assert [each["score"] for each in answers] == pytest.approx(row[order].tolist())
            assert all(type(each["score"]) is float for each in answers)
        [first] = model.predict(images[:1])
        assert model.predict(images[0]) == first

    def test_top_k(self):
        model, images = classifier(), pixels()
        assert [len(each) for each in model.predict(images, top_k=1)] == [1] * 4
        assert len(model.predict(images[0], top_k=100)) == len(NAMES)
        for wrong in (0, -1, 1.5, True, "2"):
            with pytest.raises(ConfigError, match=re.escape(f"top_k is {wrong!r}; give a whole")):
                model.predict(images, top_k=wrong)

    def test_probabilities(self):
        model, images = classifier(), pixels(600)
        found = model.probabilities(images)
        assert (found.dtype, found.shape) == (np.float32, (600, 7))
        np.testing.assert_allclose(found, expected(model, images), rtol=1e-5)
        np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)

    def test_no_images(self):
        assert classifier().predict([]) == []
        assert classifier().predict(pixels(0)) == []
        assert classifier().probabilities([]).shape == (0, 7)

    def test_it_says_what_it_is(self):
        assert repr(classifier()) == (
            "Classifier(images of 6×5×3, 7 classes, ε = 1 at δ = 1e-05 (add or remove one example, "
            "PLD))"
        )
        assert repr(classifier(seeded=True)).endswith("7 classes, NOT private)")


class TestKindsOfImages:
    def same(self, model, images, given):
        found, wanted = model.probabilities(given), model.probabilities(images)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)

    def test_arrays(self):
        model, images = classifier(), pixels()
        read_only = images.copy()
        read_only.flags.writeable = False
        lazy = LazyImages(lambda row: images[row], images.shape)
        for given in (read_only, torch.tensor(images), lazy, list(images), tuple(images)):
            self.same(model, images, given)

    def test_grey_arrays(self):
        model, images = classifier((6, 5, 1)), pixels(shape=(6, 5, 1))
        for given in (images[..., 0], list(images[..., 0]), list(images)):
            self.same(model, images, given)
        assert [model.predict(images[0, ..., 0])] == model.predict(images[:1])
        assert [model.predict(images[0])] == model.predict(images[:1])

    def test_pictures_and_files(self, tmp_path):
        model, images = classifier(), pixels()
        pictures = [Image.fromarray(each) for each in images]
        paths = [tmp_path / f"{number}.png" for number in range(4)]
        for picture, path in zip(pictures, paths, strict=True):
            picture.save(path)
        mixed = [pictures[0], str(paths[1]), paths[2], images[3]]
        for given in (pictures, paths, [str(path) for path in paths], mixed):
            self.same(model, images, given)
        for single in (pictures[0], paths[0], str(paths[0])):
            assert [model.predict(single)] == model.predict(images[:1])

    def test_pictures_of_many_modes(self):
        model = classifier()
        grey = Image.fromarray(pixels()[0, ..., 0])
        with pytest.warns(UserWarning, match="Images are 6×5×1; they are brought to 6×5×3"):
            found = model.probabilities(grey)
        np.testing.assert_array_equal(found, model.probabilities(grey.convert("RGB")))
        colour = Image.fromarray(pixels()[0])
        self.same(model, colour, colour.convert("RGBA"))
        glass = colour.convert("RGBA")
        glass.putalpha(7)
        with pytest.raises(DataError, match="the image has transparent pixels"):
            model.predict(glass)
        with pytest.raises(DataError, match="the image has 16 or more bits a channel"):
            model.predict(Image.new("I", (5, 6)))

    def test_other_sizes_are_resized_and_that_is_said(self, tmp_path):
        model = classifier()
        large = pixels(3, (12, 10, 3))
        Image.fromarray(large[0]).save(tmp_path / "large.png")
        for given in (
            large,
            list(large),
            [Image.fromarray(each) for each in large],
            tmp_path / "large.png",
        ):
            with pytest.warns(UserWarning, match="Images are 12×10×3; they are brought to 6×5×3"):
                found = model.probabilities(given)
            small = np.stack(
                [np.asarray(Image.fromarray(each).resize((5, 6))) for each in large[: len(found)]]
            )
            np.testing.assert_allclose(found, model.probabilities(small), rtol=1e-5)
        with pytest.warns(UserWarning, match="Images are 6×5×1; they are brought to 6×5×3"):
            model.predict(large[:, :6, :5, 0])

    def test_the_right_size_says_nothing(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            classifier().predict(pixels())


class TestRefusals:
    @pytest.mark.parametrize(
        "images", [pixels() / 255, pixels().astype(np.int64), torch.rand(2, 6, 5, 3)]
    )
    def test_numbers_that_are_no_bytes(self, images):
        for given in (images, images[0], list(images)):
            with pytest.raises(ConfigError, match=r"images are .*(float|int).*; give uint8 from 0"):
                classifier().predict(given)

    @pytest.mark.parametrize(
        "shape", [(4, 3, 6, 5), (5,), (2, 2, 6, 5, 3), (4, 0, 5, 3), (4, 6, 0)]
    )
    def test_shapes(self, shape):
        with pytest.raises(ConfigError, match=r"images have shape .*; give \(N, H, W, C\)"):
            classifier().predict(np.zeros(shape, np.uint8))

    def test_batches_in_a_list(self):
        with pytest.raises(ConfigError, match=r"an image in the list has shape \(4, 6, 5, 3\)"):
            classifier().predict([pixels(), pixels()])

    def test_things_that_are_no_images(self, tmp_path):
        for thing in (7, None, [7], [[1, 2]], {"a": 1}, io.BytesIO()):
            with pytest.raises(ConfigError, match="give a uint8 array, a Pillow image, the path"):
                classifier().predict(thing)
        for place in (tmp_path, tmp_path / "none.png", "none.png"):
            with pytest.raises(DataError, match="is no file; give the path of an image"):
                classifier().predict(place)
        (tmp_path / "text.png").write_text("hello")
        with pytest.raises(DataError, match=r"text\.png is not a PNG, JPEG or WebP image"):
            classifier().predict(tmp_path / "text.png")
