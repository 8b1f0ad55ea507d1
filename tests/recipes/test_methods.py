"""Every method is a setting of equation 1."""

from functools import partial

import pytest
import torch

from privet.learn import Ascent, AsIs, Augmented, Method, Mirror, Mixed, PublicMoments, PublicOrigin
from privet.recipes import adadps, dope, dp_mix, dp_sgd, methods, mirror, weight_multiplicity
from privet.recipes.training_config import TrainingConfig

SETTINGS = {"sampling_rate": 0.2, "epochs": 4, "seed": 7}


@pytest.mark.parametrize(
    ("recipe", "method"),
    [
        (dp_sgd, Method(views=AsIs())),
        (partial(dp_sgd, views=Augmented(num_views=4)), Method(views=Augmented(num_views=4))),
        (dp_mix, Method(views=Mixed())),
        (partial(dp_mix, views=Mixed(num_diff=2)), Method(views=Mixed(num_diff=2))),
        (dope, Method(origin=PublicOrigin())),
        (partial(dope, limit=2.0), Method(origin=PublicOrigin(limit=2.0))),
        (partial(mirror, alpha=0.5), Method(update=Mirror(alpha=0.5))),
        (adadps, Method(scale=PublicMoments())),
        (
            partial(weight_multiplicity, radius=0.1),
            Method(views=Augmented(), perturb=Ascent(radius=0.1)),
        ),
    ],
)
def test_a_recipe_fills_slots_and_leaves_the_rest(monkeypatch, recipe, method):
    given = []
    monkeypatch.setattr(methods, "private_training", lambda *all, **more: given.append((all, more)))
    model = torch.nn.Linear(1, 1)
    recipe("hedge", model, TrainingConfig(**SETTINGS), "material", on_step=print)
    config = TrainingConfig(method=method, **SETTINGS)
    assert given == [(("hedge", model, config, "material"), {"on_step": print})]
