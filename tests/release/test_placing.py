"""Embeddings move as a whole, and take images from anywhere."""

import torch

from privet.models import ConvEncoder, FeatureMaps
from privet.release import GaussianTarget, Lens, Projection, Seen
from privet.release.fourier import FourierFeatures
from privet.release.placing import moved, placed
from tests.synthesis.embeddings import embedding, images

ELSEWHERE = torch.device("meta")


def seen():
    projection = Projection(torch.randn(3, 4), torch.zeros(4))
    maps = FeatureMaps(ConvEncoder(1, widths=(4,)).folded(), ["layers.0"])
    return Seen(maps, {"z": Lens(layer="layers.0", grid=0, projection=projection)})


def test_everything_that_features_are_made_of_moves():
    found = moved(seen(), ELSEWHERE)
    projection = found.lenses["z"].projection
    tensors = [projection.matrix, projection.mean, *found.maps.parameters()]
    assert {each.device.type for each in tensors} == {"meta"}
    fourier = FourierFeatures.random((4, 4, 1), 6, 1.0, torch.Generator().manual_seed(0))
    assert moved(fourier, ELSEWHERE).frequencies.device.type == "meta"


def test_targets_move():
    target = GaussianTarget(torch.zeros(2, 3), torch.eye(3).expand(2, 3, 3), torch.ones(2))
    [found] = moved({"z": target}, ELSEWHERE).values()
    tensors = [found.mean, found.covariance, found.jitter]
    assert {each.device.type for each in tensors} == {"meta"}


def test_images_follow():
    """`meta` has no values, and shows where an operation happened."""
    whole = embedding()
    there = placed(whole, ELSEWHERE)
    assert {each.device.type for each in there.features(images(4)).values()} == {"meta"}


def test_nothing_else_changes():
    whole, pictures = embedding(), images(4)
    here = placed(whole, torch.device("cpu"))
    assert (here.parts, here.count_weight) == (whole.parts, whole.count_weight)
    for name, each in whole.features(pictures).items():
        assert torch.equal(here.features(pictures)[name], each)
