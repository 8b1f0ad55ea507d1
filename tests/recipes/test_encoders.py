"""Where encoders come from: trained on public images once, or read from a file."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from privet.errors import ConfigError, DataError
from privet.models import ConvEncoder, FeatureMaps, convolutions
from privet.public import PublicRows
from privet.recipes.encoders import ENCODERS, Saved
from privet.recipes.public_encoders import Pretrained
from privet.recipes.releases import PAID_FOR, NoMemory
from tests.recipes.small import SHAPE, DictMemory, pictures


def rows(count=40):
    found = pictures(count)
    return PublicRows(torch.from_numpy(found["images"]), torch.from_numpy(found["labels"]))


def told(done, total):
    """Nobody listens."""


def weights(encoder):
    return torch.cat([each.flatten() for each in encoder.parameters()])


class TestPretrained:
    def test_it_is_trained_once_and_remembered(self):
        memory, heard = DictMemory(), []
        choice = Pretrained(epochs=2)
        first = choice.made(SHAPE, rows(), memory, lambda *progress: heard.append(progress))
        second = choice.made(SHAPE, rows(), memory, told)
        assert memory.made == ["encoder"]
        assert heard == [(1, 2), (2, 2)]
        assert torch.equal(weights(first), weights(second))
        assert not any(isinstance(each, torch.nn.BatchNorm2d) for each in first.modules())

    @pytest.mark.parametrize("norm", ["batch", "group"])
    @pytest.mark.parametrize("activation", ["silu", "relu"])
    def test_its_layers_may_be_chosen_and_are_known_again(self, tmp_path, norm, activation):
        memory, choice = DictMemory(), Pretrained(epochs=1, norm=norm, activation=activation)
        made = choice.made(SHAPE, rows(), memory, told)
        kinds = {type(each) for each in made.modules()}
        assert (nn.GroupNorm in kinds, nn.ReLU in kinds) == (norm == "group", activation == "relu")
        file = tmp_path / "encoder.safetensors"
        save_file(memory.once("encoder", None), file)
        again = Saved(file=str(file), activation=activation).outline(SHAPE, None)
        images = torch.rand(3, 1, 8, 8)
        torch.testing.assert_close(again(images), made(images))

    def test_its_seed_decides(self):
        made = [
            Pretrained(epochs=1, seed=seed).made(SHAPE, rows(), NoMemory(), told)
            for seed in (0, 0, 1)
        ]
        assert torch.equal(weights(made[0]), weights(made[1]))
        assert not torch.equal(weights(made[0]), weights(made[2]))

    def test_it_leaves_the_global_random_state_alone(self):
        torch.manual_seed(3)
        before = torch.rand(1)
        torch.manual_seed(3)
        Pretrained(epochs=1)._trained(SHAPE, rows(), told)
        assert torch.equal(before, torch.rand(1))

    def test_an_outline_has_the_same_maps(self):
        images = torch.zeros(2, 1, 8, 8)
        shapes = []
        for encoder in (
            Pretrained().outline(SHAPE, rows()),
            Pretrained(epochs=1).made(SHAPE, rows(), NoMemory(), told),
        ):
            maps = FeatureMaps(encoder, convolutions(encoder))(images)
            shapes.append({name: each.shape for name, each in maps.items()})
        assert shapes[0] == shapes[1]

    @pytest.mark.parametrize("public", [None, "one class", "another class"])
    def test_it_learns_from_two_classes_or_more(self, public):
        found = None
        if public is not None:
            labels = torch.full((9,), 0 if public == "one class" else 4)
            found = PublicRows(torch.zeros(9, *SHAPE, dtype=torch.uint8), labels)
        for make in (Pretrained().outline, lambda *w: Pretrained().made(*w, NoMemory(), told)):
            with pytest.raises(ConfigError, match="public images of two classes or more"):
                make(SHAPE, found)

    def test_settings_are_checked_before_anything_is_trained(self):
        with pytest.raises(ConfigError, match="epochs is 0"):
            Pretrained(epochs=0).outline(SHAPE, rows())


class TestSaved:
    @pytest.fixture
    def saved(self, tmp_path):
        def write(network):
            found = {name: each.contiguous() for name, each in network.state_dict().items()}
            save_file(found, tmp_path / "encoder.safetensors")
            return Saved(file=str(tmp_path / "encoder.safetensors"))

        return write

    def test_it_is_the_same_network(self, saved):
        network = ConvEncoder(1)
        images = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        made = saved(network).made(SHAPE, None, NoMemory(), told)
        torch.testing.assert_close(made(images), network.eval()(images), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize(
        ("network", "kind", "sentence"),
        [
            (ConvEncoder(3), ConfigError, "an encoder of 3 channels and the images have 1"),
            (ConvEncoder(1, widths=(4, 4)), DataError, "other layers or sizes"),
            (torch.nn.Linear(3, 3), DataError, "other layers or sizes"),
            (ConvEncoder(1).folded(), DataError, "other layers or sizes"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, saved, network, kind, sentence):
        with pytest.raises(kind, match=sentence):
            saved(network).outline(SHAPE, None)

    def test_weights_that_are_not_finite_would_make_every_image_count_for_nothing(self, saved):
        network = ConvEncoder(1)
        network.layers[0][0].weight.data[0] = torch.inf
        with pytest.raises(DataError, match="not finite"):
            saved(network).outline(SHAPE, None)

    @pytest.mark.parametrize(
        ("place", "metadata"),
        [("elsewhere/encoder", PAID_FOR), ("releases/learned-encoder", None)],
    )
    def test_trap_an_encoder_that_private_images_taught_is_not_public(
        self, tmp_path, place, metadata
    ):
        path = tmp_path / f"{place}.safetensors"
        path.parent.mkdir()
        save_file(ConvEncoder(1).state_dict(), path, metadata)
        with pytest.raises(ConfigError, match="learned from private images"):
            Saved(file=str(path)).outline(SHAPE, None)

    def test_no_file(self, tmp_path):
        with pytest.raises(DataError, match="cannot be read"):
            Saved(file=str(tmp_path / "none.safetensors")).outline(SHAPE, None)


def test_each_says_what_it_treats_as_public():
    for name, kind in ENCODERS.items():
        fields = {"file": "x"} if name == "saved" else dict(kind.fixed)
        assert bool(kind.cls(**fields).treated_as_public) == (name != "private")
    assert np.all([ENCODERS["conv"].cls().needs_public, not Saved(file="x").needs_public])
