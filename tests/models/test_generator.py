"""What every generator has to satisfy, and the up-sampling one."""

import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.models.code_generator import CodeGenerator
from privet.models.generator import UpsamplingGenerator
from privet.models.residual_generator import ResidualGenerator

GENERATORS = {
    "upsampling": lambda classes: UpsamplingGenerator(classes, latent=6, widths=(8, 6, 5, 4)),
    "residual": lambda classes: ResidualGenerator(classes, latent=6, width=3),
    "code": lambda classes: CodeGenerator(classes, hidden=20),
}
SHAPES = {"upsampling": (1, 28, 28), "residual": (3, 32, 32), "code": (1, 28, 28)}


@pytest.fixture(params=GENERATORS)
def kind(request):
    torch.manual_seed(0)
    return request.param


@pytest.fixture
def generator(kind):
    return GENERATORS[kind](5)


def draws(generator, count):
    return torch.randn(count, generator.latent), torch.arange(count) % generator.num_classes


def test_an_image_for_each_latent_vector_and_label(kind, generator):
    images = generator(*draws(generator, 7))
    assert images.shape == (7, *SHAPES[kind])
    assert images.dtype == torch.float32
    assert generator.num_classes == 5


def test_images_are_between_minus_one_and_one(generator):
    latent, labels = draws(generator, 10)
    images = generator(100 * latent, labels)
    assert images.min() >= -1
    assert images.max() <= 1
    assert images.min() < 0 < images.max()


def test_labels_and_latent_vectors_matter(generator):
    latent, labels = draws(generator, 10)
    generator(latent, labels)
    generator.eval()
    images = generator(latent, labels)
    others = [generator(latent, (labels + 1) % 5), generator(latent + 1, labels)]
    for other in others:
        assert ((images - other).abs().amax((1, 2, 3)) > 1e-4).all()


def test_in_eval_mode_an_image_does_not_see_its_batch(generator):
    generator.eval()
    latent, labels = draws(generator, 6)
    torch.testing.assert_close(
        generator(latent, labels)[2:3], generator(latent[2:3], labels[2:3]), atol=1e-5, rtol=1e-5
    )


def test_every_parameter_learns(generator):
    generator(*draws(generator, 10)).square().sum().backward()
    for name, parameter in generator.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_one_class_is_unconditional(kind):
    generator = GENERATORS[kind](1)
    assert generator(torch.randn(4, generator.latent), torch.zeros(4).long()).shape[0] == 4


def test_double_precision(generator):
    latent, labels = draws(generator, 4)
    generator.eval()
    single = generator(latent, labels)
    double = generator.double()(latent.double(), labels)
    torch.testing.assert_close(double.float(), single, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32), (3, 64), (2, 12)])
def test_upsampling_sizes(channels, side):
    generator = UpsamplingGenerator(
        3, channels, image_size=side, latent=2, widths=(4, 3, 2, 2)
    ).eval()
    images = generator(torch.randn(2, 2), torch.tensor([0, 2]))
    assert images.shape == (2, channels, side, side)


def test_upsampling_layers():
    """A latent vector of 32 and a label to 96 maps of 7×7, then 64, 32 and 16 channels."""
    generator = UpsamplingGenerator(10)
    assert generator.stem.in_features == 42
    assert generator.stem.out_features == 96 * 7 * 7
    widths = [each.out_channels for each in generator.modules() if isinstance(each, nn.Conv2d)]
    assert widths == [96, 64, 32, 16, 1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_classes": 0}, "num_classes is 0; give 1 or more"),
        ({"channels": 0}, "channels is 0"),
        ({"latent": 0}, "latent is 0"),
        ({"image_size": 30}, "image_size is 30; give a multiple of 4"),
    ],
)
def test_what_cannot_be_made_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        UpsamplingGenerator(**{"num_classes": 10} | settings)
