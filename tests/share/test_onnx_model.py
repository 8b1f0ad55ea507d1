"""Every family of models says the same in ONNX, for any number of images."""

import numpy as np
import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.runs.train_config import read_model
from privet.share import onnx_model
from privet.share.onnx_model import onnx_bytes

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'privet[onnx]'")
onnxruntime = pytest.importorskip(
    "onnxruntime", reason="needs onnxruntime: pip install 'privet[onnx]'"
)


def whole(text, shape):
    """A model with weights that say something, under its encoder if it has one."""
    torch.manual_seed(0)
    model = read_model(text)
    network = model.network(shape, 10)
    for parameter in network.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.1)
    encoder = model.encoder()
    return (network if encoder is None else nn.Sequential(encoder, network)).eval()


def session(content):
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("linear", (8, 8, 1)),
        ("mlp:hidden=20-10", (8, 7, 3)),
        ("conv-net:width=8", (28, 28, 1)),
        ("conv-net:width=8,strided=true", (28, 28, 1)),
        ("resnet9:width=4", (32, 32, 3)),
        ("wrn-16-4", (16, 16, 3)),
        ("vit:depth=1,width=12", (8, 8, 1)),
        ("efficientnet-lite0:image_size=32,hidden=20,mirror=true", (48, 40, 1)),
    ],
)
def test_the_same_logits(text, shape):
    module = whole(text, shape)
    found = session(onnx_bytes(module, shape, {}))
    [images], [logits] = found.get_inputs(), found.get_outputs()
    height, width, channels = shape
    assert (images.name, images.type) == ("images", "tensor(float)")
    assert images.shape[1:] == [channels, height, width]
    assert (logits.name, logits.shape[1:]) == ("logits", [10])
    for count in (1, 2, 7):
        given = 2 * torch.rand(count, channels, height, width) - 1
        with torch.no_grad():
            wanted = module(given).numpy()
        assert wanted.std() > 1e-3
        [answer] = found.run(["logits"], {"images": given.numpy()})
        np.testing.assert_allclose(answer, wanted, rtol=1e-3, atol=1e-4)


class TestFiles:
    def test_texts_travel_and_the_machine_does_not(self):
        content = onnx_bytes(whole("conv-net:width=8", (8, 8, 1)), (8, 8, 1), {"a": "ε = 1"})
        model = onnx.load_from_string(content)
        assert [(each.key, each.value) for each in model.metadata_props] == [("a", "ε = 1")]
        assert all(not each.metadata_props for each in model.graph.node)
        for trace in (b"site-packages", b".py", str(onnx_model.__file__).encode()):
            assert trace not in content

    def test_nothing_is_said_and_nothing_stays_changed(self, capfd):
        module = whole("mlp", (8, 8, 1))
        before = {name: value.clone() for name, value in module.state_dict().items()}
        capfd.readouterr()
        onnx_bytes(module, (8, 8, 1), {})
        assert capfd.readouterr() == ("", "")
        assert not module.training
        assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


class TestRefusals:
    def test_packages_that_are_missing(self, monkeypatch):
        monkeypatch.setattr(onnx_model, "_PACKAGES", ("onnx", "not_a_package"))
        with pytest.raises(
            ConfigError, match=r"not_a_package is not installed; run pip install .*"
        ):
            onnx_bytes(whole("linear", (8, 8, 1)), (8, 8, 1), {})

    def test_a_model_that_is_too_large(self, monkeypatch):
        monkeypatch.setattr(onnx_model, "_LARGEST", 100)
        with pytest.raises(ConfigError, match=r"has 2,600 bytes, over 2 GiB: use --to safetensors"):
            onnx_bytes(whole("linear", (8, 8, 1)), (8, 8, 1), {})

    def test_a_model_without_a_form_in_onnx(self):
        class Odd(nn.Module):
            def forward(self, images):
                return images if float(images.sum()) > 0 else -images

        with pytest.raises(ConfigError, match="has no form in ONNX"):
            onnx_bytes(Odd(), (8, 8, 1), {})

    def test_a_file_that_says_something_else(self, monkeypatch):
        translated = onnx_model._translated

        def another(module, images):
            with torch.no_grad():
                module.classifier.bias.add_(1)
            found = translated(module, images)
            with torch.no_grad():
                module.classifier.bias.sub_(1)
            return found

        monkeypatch.setattr(onnx_model, "_translated", another)
        with pytest.raises(ConfigError, match="would answer differently, so nothing was written"):
            onnx_bytes(whole("linear", (8, 8, 1)), (8, 8, 1), {})
