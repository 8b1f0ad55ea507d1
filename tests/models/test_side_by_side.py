"""Several encoders that look at the same images."""

import pytest
import torch

from privet.errors import ConfigError
from privet.models import ConvEncoder, FeatureMaps, SideBySide, branches, convolutions, joined


@pytest.fixture
def encoders():
    return [ConvEncoder(1, widths=(3, 4)).folded(), ConvEncoder(1, widths=(5, 6, 7)).folded()]


def test_features_stand_behind_each_other(encoders):
    images = torch.rand(2, 1, 8, 8)
    both = joined(encoders)
    torch.testing.assert_close(both(images), torch.cat([each(images) for each in encoders], 1))


def test_every_layer_has_a_name(encoders):
    both, images = joined(encoders), torch.rand(2, 1, 8, 8)
    names = convolutions(both)
    assert names == [
        prefix + name for prefix, each in branches(both).items() for name in convolutions(each)
    ]
    found = FeatureMaps(both, names)(images)
    alone = FeatureMaps(encoders[1], ["layers.2"])(images)
    assert list(found) == names
    beside = FeatureMaps(both, ["networks.1.layers.2"])(images)
    torch.testing.assert_close(beside["networks.1.layers.2"], alone["layers.2"])


def test_one_is_itself(encoders):
    assert joined(encoders[0]) is joined(encoders[:1]) is encoders[0]
    assert branches(encoders[0]) == {"": encoders[0]}
    with pytest.raises(ConfigError, match="no encoder"):
        SideBySide([])
