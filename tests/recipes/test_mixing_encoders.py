"""A release whose encoder mixes private images is refused before a private row is read."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from privet.errors import PrivacyError
from privet.hedge import Hedge
from privet.recipes.map_moments import SpsG, sps_g
from privet.recipes.mean_embeddings import dp_mepf
from privet.recipes.mean_settings import DpMepf
from privet.recipes.position_moments import sps
from privet.recipes.sps_settings import Sps
from tests.recipes.small import CLASSES, SHAPE, SMALL, hedge


class Normalised(nn.Module):
    """Convolutions between which a function normalises over the batch, in eval mode too."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 3, padding=1)

    def forward(self, images):
        return self.last(F.batch_norm(self.first(images), None, None, training=True))


RECIPES = {
    "dp-mepf": lambda hedge, network: dp_mepf(
        hedge,
        encoder=network,
        image_shape=SHAPE,
        num_classes=CLASSES,
        settings=DpMepf(latent=8, **SMALL),
    ),
    "sps": lambda hedge, network: sps(
        hedge,
        encoder=network,
        image_shape=SHAPE,
        num_classes=CLASSES,
        count=6,
        settings=Sps(layers=("first", "last"), class_layers=1, global_size=2, class_size=2),
    ),
    "sps-g": lambda hedge, network: sps_g(
        hedge,
        encoder=network,
        public=torch.randint(256, (40, *SHAPE), dtype=torch.uint8),
        num_classes=CLASSES,
        settings=SpsG(early=0, middle=0, deep=2, pixels=0, shared=0, everywhere=0),
    ),
}


@pytest.mark.parametrize("name", RECIPES)
def test_trap_an_encoder_that_mixes_images_is_refused_before_a_row_is_read(
    name, tmp_path, monkeypatch
):
    torch.manual_seed(0)
    monkeypatch.setattr(Hedge, "release", lambda *_: pytest.fail("private rows were read"))
    with pytest.raises(PrivacyError, match="of an image in a batch than of the image alone"):
        RECIPES[name](hedge(tmp_path), Normalised())
