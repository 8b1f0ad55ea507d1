"""Generators by name, and which of them images get."""

import pytest
import torch

from privet.errors import ConfigError
from privet.models import CodeGenerator, ResidualGenerator, UpsamplingGenerator
from privet.recipes.generators import check_generator, generator_for, usual_generator
from privet.recipes.map_moments import SpsG
from privet.recipes.mean_settings import DpMepf

SMALL = {"latent": 4, "widths": (4, 4, 4, 4), "width": 4}


@pytest.mark.parametrize(
    ("name", "shape", "kind"),
    [
        (None, (28, 28, 1), UpsamplingGenerator),
        (None, (32, 32, 3), ResidualGenerator),
        (None, (64, 64, 1), ResidualGenerator),
        (None, (48, 48, 3), UpsamplingGenerator),
        ("upsampling", (32, 32, 3), UpsamplingGenerator),
        ("residual", (32, 32, 1), ResidualGenerator),
        ("code", (28, 28, 1), CodeGenerator),
    ],
)
@pytest.mark.parametrize("classes", [1, 3])
def test_images_get_their_generator(name, shape, kind, classes):
    for system in (SpsG, DpMepf):
        settings = system(generator=name, **SMALL)
        check_generator(settings, shape)
        generator = generator_for(settings, classes, shape)
        assert isinstance(generator, kind)
        labels = torch.arange(2) % classes
        images = generator(torch.randn(2, 4), labels)
        assert images.movedim(1, 3).shape == (2, *shape)


def test_first_weights_depend_on_the_seed_alone():
    first, again, other = (
        generator_for(SpsG(seed=seed, **SMALL), 3, (8, 8, 1)).stem.weight for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("settings", "shape", "sentence"),
    [
        ({"generator": "gan"}, (28, 28, 1), "choose upsampling, residual, code"),
        ({"generator": "residual"}, (28, 28, 1), "makes 32×32 or 64×64"),
        ({"generator": "code"}, (30, 30, 1), "multiple of 4: give --resize 32"),
        ({"width": 0}, (32, 32, 3), "width and latent must be 1 or more"),
    ],
)
def test_what_cannot_be_made_is_refused(settings, shape, sentence):
    with pytest.raises(ConfigError, match=sentence):
        check_generator(SpsG(**settings), shape)


def test_the_usual_one_is_residual_where_it_fits():
    assert usual_generator((32, 64, 3)) == "upsampling"
    assert usual_generator((32, 32, 1)) == "residual"
