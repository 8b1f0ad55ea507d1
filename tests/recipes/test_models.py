import pytest
import torch

from privet.errors import ConfigError
from privet.learn.gradients import trainable
from privet.recipes.feature_models import CentredHead
from privet.runs.train_config import read_model
from privet.runs.weights import all_weights, load_weights


@pytest.mark.parametrize(
    ("text", "shape", "parameters"),
    [
        ("linear", (8, 8, 1), 650),
        ("mlp:hidden=20-10", (8, 8, 1), 65 * 20 + 21 * 10 + 11 * 10),
        ("conv-net:width=8", (8, 8, 1), None),
        ("resnet9:width=4", (8, 8, 3), None),
        ("wrn-16-4", (32, 32, 3), None),
        ("efficientnet-lite0:image_size=64", (32, 32, 3), 12_810),
        ("glyphs", (28, 28, 1), 10_250),
        ("efficientnet-lite0:hidden=20", (32, 32, 3), 1281 * 20 + 21 * 10),
    ],
)
def test_a_network_is_made_for_its_images_and_made_again(text, shape, parameters):
    model = read_model(text)
    network = model.network(shape, 10)
    assert parameters in (None, sum(each.numel() for each in trainable(network).values()))
    inputs = torch.randn(2, *model.input_shape(shape))
    if model.sees_inputs:
        inputs = inputs.permute(0, 3, 1, 2)
    outline = model.outline(shape, 10)
    load_weights(outline, {name: value.clone() for name, value in all_weights(network).items()})
    assert torch.equal(outline.eval()(inputs), network.eval()(inputs))
    assert network(inputs).shape == (2, 10)


def test_weights_of_another_network_are_refused():
    network = read_model("linear").network((8, 8, 1), 10)
    with pytest.raises(ConfigError, match=r"differ in .classifier\.bias."):
        load_weights(network, {"classifier.weight": torch.zeros(10, 64)})


def test_a_head_sees_features_of_length_one():
    head = CentredHead(5, 3)
    public = torch.randn(100, 5) * torch.arange(1, 6) + 7
    head.centre_on(public)
    head.classifier.weight.data.normal_()
    assert not torch.allclose(head(public), head(public + 1))
    far = head.mean + 1000 * (public - head.mean)
    torch.testing.assert_close(head(far), head(public), atol=1e-4, rtol=1e-4)


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        read_model(str(tmp_path))
