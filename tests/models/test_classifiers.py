"""What every network that may see private examples has to satisfy."""

import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.models import MLP, ConvNet, ResNet9, WideResNet, tiny_vit

SHAPES = [(1, 28, 28), (3, 32, 32), (3, 64, 64)]
NETWORKS = {
    "wide_resnet": lambda c, side: WideResNet(10, 1, 7, c),
    "wide_resnet_affine": lambda c, side: WideResNet(
        16, 2, 7, c, groups=8, activation=nn.SiLU, conv_affine=True
    ),
    "conv_net": lambda c, side: ConvNet(7, c, image_size=side, width=16),
    "strided_conv_net": lambda c, side: ConvNet(7, c, image_size=side, width=16, strided=True),
    "resnet9": lambda c, side: ResNet9(7, c, width=8),
    "mlp": lambda c, side: MLP(c * side**2, (12, 9), 7, activation=nn.Tanh),
    "linear": lambda c, side: MLP(c * side**2, (), 7),
    "vit": lambda c, side: tiny_vit(7, side, width=24, depth=2, heads=2, channels=c),
}


def size(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.fixture(params=NETWORKS)
def make(request):
    torch.manual_seed(0)
    return NETWORKS[request.param]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_logits_and_finite_gradients(make, shape):
    network = make(shape[0], shape[1])
    logits = network(torch.rand(3, *shape) * 2 - 1)
    assert logits.shape == (3, 7)
    logits.logsumexp(1).sum().backward()
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name


def test_an_example_does_not_see_its_batch(make):
    """In training mode, in double precision, for outputs and for the gradient of one output."""
    network = make(3, 32).double().train()
    images = torch.randn(4, 3, 32, 32, dtype=torch.float64)
    parameters = [each for each in network.parameters() if each.requires_grad]
    together, alone = network(images), network(images[2:3])
    torch.testing.assert_close(together[2:3], alone)
    both = [torch.autograd.grad(out.logsumexp(0), parameters) for out in (together[2], alone[0])]
    torch.testing.assert_close(*both)


def test_double_precision_agrees_with_single(make):
    network = make(3, 32).eval()
    images = torch.randn(2, 3, 32, 32)
    single = network(images)
    torch.testing.assert_close(
        network.double()(images.double()).float(), single, atol=1e-4, rtol=1e-3
    )


def test_no_state_beside_parameters(make):
    network = make(3, 32)
    assert set(network.state_dict()) == {name for name, _ in network.named_parameters()}


def test_a_step_on_a_batch_lowers_its_loss(make):
    network = make(1, 28)
    images, labels = torch.randn(8, 1, 28, 28), torch.arange(8) % 7
    optimiser = torch.optim.Adam(network.parameters(), 1e-3)
    losses = []
    for _ in range(4):
        loss = nn.functional.cross_entropy(network(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_conv_net_sizes():
    """Three poolings leave 4×4 maps of 32×32 images and 3×3 of 28×28."""
    assert size(ConvNet(10)) == 320_010
    assert ConvNet(10, 1, image_size=28).classifier.in_features == 128 * 3 * 3


def test_strided_conv_net_sizes():
    """Strided convolutions keep odd rows: 4×4 maps of 28×28 images, of twice the width."""
    assert ConvNet(10, 1, image_size=28, width=32, strided=True).classifier.in_features == 64 * 16
    assert size(ConvNet(10, 1, image_size=28, width=32, strided=True)) == 66_314
    for side in range(8, 20):
        model = ConvNet(10, 1, image_size=side, width=4, strided=True)
        assert model(torch.zeros(2, 1, side, side)).shape == (2, 10)


def test_resnet9_sizes():
    """6.62M with 100 classes.

    Table 6 of Improving Private Training via In-Distribution Public Data Synthesis and
    Generalization.
    """
    assert f"{size(ResNet9(100)) / 1e6:.2f}M" == "6.62M"
    assert size(ResNet9(10)) == 6_574_410


def test_an_mlp_without_hidden_layers_is_linear():
    network = MLP(6, (), 2)
    assert size(network) == 14
    x = torch.randn(3, 1, 2, 3)
    torch.testing.assert_close(network(x), network.classifier(x.flatten(1)))
    assert network(torch.empty(0, 6)).shape == (0, 2)


def test_activation_is_used():
    assert any(
        isinstance(layer, nn.GELU) for layer in MLP(4, (3,), 2, activation=nn.GELU).modules()
    )
    assert any(
        isinstance(layer, nn.ELU) for layer in ResNet9(2, width=4, activation=nn.ELU).modules()
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConvNet(0), "num_classes is 0; give 1 or more"),
        (lambda: ConvNet(10, width=6), "groups is 4; give a divisor of 6"),
        (lambda: ConvNet(10, image_size=7), "image_size is 7; give 8 or more"),
        (lambda: ConvNet(10, image_size=7, strided=True), "image_size is 7; give 8 or more"),
        (lambda: ConvNet(10)(torch.zeros(1, 3, 28, 28)), "images are 28×28"),
        (lambda: ResNet9(10, width=0), "width is 0"),
        (lambda: ResNet9(10, width=48), "groups is 32; give a divisor of 48"),
        (lambda: MLP(784, (64, 0), 10), r"hidden\[1\] is 0"),
        (lambda: MLP(784, (64,), 10)(torch.zeros(2, 3, 32, 32)), "An example has 3072 numbers"),
    ],
)
def test_what_cannot_be_made_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
