"""Encoders that mix images, remember them or draw random numbers are refused."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from privet.errors import PrivacyError
from privet.models import (
    ConvEncoder,
    Encoder,
    FeatureMaps,
    convolutions,
    efficientnet_lite,
    glyph_encoder,
    joined,
    tiny_vit,
)
from privet.models.independence import require_independent


class Between(nn.Module):
    """Two convolutions, and something between them."""

    def __init__(self, function):
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.register_buffer("seen", torch.zeros(4))
        self.calls, self.function = 0, function

    def forward(self, images):
        return self.last(self.function(self, self.first(images))).mean((2, 3))


def remembered(network, x):
    network.seen += x.mean((0, 2, 3))
    return x


def counted(network, x):
    network.calls += 1
    return x + network.calls


def drawn_elsewhere(network, x):
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(network.calls))
    network.calls += 1
    return x + 0.1 * noise


TRAPS = {
    "functional batch norm": (
        lambda _, x: F.batch_norm(x, None, None, training=True),
        "in a batch than of the image alone",
    ),
    "mean of a batch": (lambda _, x: x - x.mean(0), "in a batch than of the image alone"),
    "a little of a neighbour": (
        lambda _, x: x + 0.02 * x.roll(1, 0),
        "in a batch than of the image alone",
    ),
    "dropout that stays on": (lambda _, x: F.dropout(x, 0.1), "draws random numbers"),
    "unseen draws": (lambda _, x: x + 0 * torch.rand(1), "draws random numbers"),
    "a generator of its own": (drawn_elsewhere, "does not repeat itself"),
    "a buffer": (remembered, "buffer 'seen' changes"),
    "a number": (counted, "does not repeat itself"),
}
MAKERS = {
    "maps": lambda network: FeatureMaps(network, ["last"]),
    "features": lambda network: Encoder(network, 4),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


@pytest.mark.parametrize("name", TRAPS)
def test_trap_eval_mode_alone_keeps_images_apart(name, make):
    function, message = TRAPS[name]
    torch.manual_seed(0)
    made = make(Between(function))
    for _ in range(2):  # and does not get through the second time
        with pytest.raises(PrivacyError, match=message):
            made(torch.zeros(1, 1, 8, 8))


@pytest.mark.parametrize("kind", [nn.BatchNorm2d, nn.SyncBatchNorm])
def test_trap_a_batch_norm_without_running_statistics_is_named(kind, make):
    network = nn.Sequential()
    network.add_module("last", nn.Conv2d(1, 4, 3))
    network.add_module("norm", kind(4, track_running_stats=False))
    with pytest.raises(PrivacyError, match=rf"layer 'norm' is a {kind.__name__} .*GroupNorm"):
        make(network)


def test_the_refusal_does_not_depend_on_the_images(make):
    """Whoever reads it learns nothing of them."""
    made = make(Between(lambda _, x: F.dropout(x, 0.5)))
    found = set()
    for images in (torch.zeros(0, 1, 8, 8), torch.full((5, 1, 8, 8), torch.nan)):
        with pytest.raises(PrivacyError) as error:
            made(images)
        found.add(str(error.value))
    assert len(found) == 1


def test_trying_leaves_network_and_randomness_alone(make):
    torch.manual_seed(0)
    made = make(Between(counted))
    state = torch.get_rng_state()
    with pytest.raises(PrivacyError):
        made(torch.zeros(1, 1, 8, 8))
    assert made.network.calls == 0
    for name in ("a buffer", "dropout that stays on"):
        made = make(Between(TRAPS[name][0]))
        state = torch.get_rng_state()
        with pytest.raises(PrivacyError):
            made(torch.zeros(1, 1, 8, 8))
        assert torch.equal(torch.get_rng_state(), state)
        assert not made.network.seen.any()


def test_a_network_is_tried_once(make, monkeypatch):
    tried = []

    def trial(network, run, like):
        tried.append(like.shape)
        require_independent(network, run, like)

    monkeypatch.setattr("privet.models.independence.require_independent", trial)
    made = make(Between(lambda _, x: x))
    for _ in range(3):
        made(torch.zeros(2, 1, 8, 8))
    assert len(tried) == 1


OURS = {
    "conv encoder": lambda: ConvEncoder(1).folded(),
    "conv encoder in training mode": lambda: ConvEncoder(1).train(),
    "taught by private images": lambda: ConvEncoder(1, norm=lambda c: nn.GroupNorm(4, c)).folded(),
    "glyphs": lambda: glyph_encoder().folded(),
    "side by side": lambda: joined([glyph_encoder().folded(), ConvEncoder(1).folded()]),
    "instance norm": lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4), nn.Conv2d(4, 4, 3)
    ),
    "dropout": lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.Dropout(0.5), nn.Conv2d(4, 4, 3)),
}


@pytest.mark.parametrize("name", OURS)
def test_networks_that_keep_images_apart_are_taken(name):
    torch.manual_seed(0)
    network = OURS[name]()
    found = FeatureMaps(network, convolutions(network))(torch.rand(2, 1, 28, 28))
    assert all(each.isfinite().all() for each in found.values())


def test_encoders_that_come_with_packages_are_taken():
    lite = efficientnet_lite(image_size=64)
    assert lite(torch.zeros(1, 1, 28, 28)).shape == (1, 1280)
    names = convolutions(lite.network)[::10]
    assert len(FeatureMaps(lite.network, names)(torch.zeros(1, 3, 64, 64))) == len(names)


def test_a_transformer_is_taken():
    torch.manual_seed(0)
    network = tiny_vit(3, image_size=16, width=12, depth=2)
    assert Encoder(network, 3)(torch.zeros(2, 3, 16, 16)).shape == (2, 3)
