"""Vision transformers; what holds for every classifier is in test_classifiers."""

import json
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from privet.errors import ConfigError
from privet.models import tiny_vit, vision_transformer

LEAVES = (nn.Linear, nn.LayerNorm, nn.Conv2d, nn.Embedding)


def small(num_classes=5, **settings):
    return tiny_vit(num_classes, width=24, depth=2, heads=2, **settings)


def by_kind(model):
    """Whether each trainable parameter belongs to a layer of a plain kind."""
    return {
        f"{path}.{name}": type(layer) in LEAVES
        for path, layer in model.named_modules()
        for name, parameter in layer.named_parameters(recurse=False)
        if parameter.requires_grad
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("vit")
    small().network.save_pretrained(folder)
    return folder


def test_default_size():
    model = tiny_vit(10)
    embeddings = model.network.base_model.embeddings
    assert embeddings.position_embeddings.shape == (1, 65, 192)
    assert sum(parameter.numel() for parameter in model.parameters()) == 2_693_578
    assert not any(layer.p for layer in model.modules() if isinstance(layer, nn.Dropout))


def test_all_that_learns_sits_in_plain_layers():
    assert all(by_kind(small()).values())
    bare = [name for name, plain in by_kind(small(train_embeddings=True)).items() if not plain]
    assert [name.rsplit(".", 1)[1] for name in bare] == ["cls_token", "position_embeddings"]


def test_vmap_gives_per_example_gradients():
    model = small().double()
    parameters = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)

    def loss(parameters, image):
        return functional_call(model, parameters, (image[None],)).logsumexp(1).sum()

    rows = vmap(grad(loss), (None, 0))(parameters, images)
    learned = [p for p in model.parameters() if p.requires_grad]
    second = torch.autograd.grad(model(images[1:]).logsumexp(1).sum(), learned)
    torch.testing.assert_close([rows[name][1] for name in parameters], list(second))


def test_a_folder_gives_the_same_network(folder, capfd):
    first, second = vision_transformer(folder, 5), vision_transformer(str(folder), 5)
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(first(images), second(images))
    assert capfd.readouterr() == ("", "")


def test_another_number_of_classes_gets_a_new_head(folder, capfd):
    old, new = vision_transformer(folder, 5), vision_transformer(folder, 9)
    assert new(torch.randn(2, 1, 28, 28)).shape == (2, 9)
    body = old.network.base_model.state_dict()
    torch.testing.assert_close(dict(new.network.base_model.state_dict()), dict(body))
    assert capfd.readouterr() == ("", "")


def test_images_are_resized_and_positions_interpolated(folder):
    own, other = vision_transformer(folder, 5), vision_transformer(folder, 5, image_size=16)
    assert own(torch.randn(2, 1, 28, 28)).shape == (2, 5)
    assert other(torch.randn(2, 3, 64, 64)).shape == (2, 5)


def test_pixels_are_normalised_as_the_folder_says(folder, tmp_path):
    plain = vision_transformer(folder, 5)
    plain.network.save_pretrained(tmp_path)
    stated = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(stated))
    mean, std = (torch.tensor(each)[:, None, None] for each in stated.values())
    pixels = torch.rand(2, 3, 32, 32)
    model = vision_transformer(tmp_path, 5)
    torch.testing.assert_close(model(pixels * 2 - 1), plain((pixels - mean) / std))


def test_deit_from_a_configuration():
    from transformers import DeiTConfig

    config = DeiTConfig(hidden_size=24, num_hidden_layers=1, num_attention_heads=2)
    config.image_size, config.patch_size = 32, 8
    model = vision_transformer(config, 5)
    assert config.num_labels != 5, "the caller's configuration was changed"
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 5)
    assert all(by_kind(model).values())


def test_weights_that_would_need_unpickling_are_refused(folder, tmp_path):
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    torch.save(small().network.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"has no model\.safetensors"):
        vision_transformer(tmp_path, 5)


def test_an_incomplete_folder_is_refused(folder, tmp_path):
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    with pytest.raises(ConfigError, match=r"lacks .*; give a folder with all weights"):
        vision_transformer(tmp_path, 5)


def test_what_cannot_be_made_is_refused(folder, tmp_path):
    from transformers import BertConfig

    with pytest.raises(ConfigError, match="heads is 5; give a divisor of width, which is 192"):
        tiny_vit(10, heads=5)
    with pytest.raises(ConfigError, match="image_size is 30; give a multiple of 4"):
        tiny_vit(10, 30)
    with pytest.raises(ConfigError, match="num_classes is 0"):
        vision_transformer(folder, 0)
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        vision_transformer(tmp_path, 10)
    with pytest.raises(ConfigError, match="The model is a 'bert'; give a ViT or a DeiT"):
        vision_transformer(BertConfig(), 10)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"pip install 'privet\[encoders\]'"):
        tiny_vit(10)


def test_importing_models_is_light():
    check = (
        "import sys, privet.models\n"
        "assert not {'transformers', 'efficientnet_lite_pytorch', 'torchvision'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
