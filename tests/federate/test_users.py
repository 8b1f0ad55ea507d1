"""Fed-SGD with users as units: each round draws users, and a user counts once, around an origin."""

import numpy as np
import pytest
import torch

from privet.data import ImageSet
from privet.errors import ConfigError
from privet.hedge import Hedge, Randomness
from privet.hedge.clipping import clipped_sum
from privet.hedge.units import Rows
from privet.learn import Engine, EngineName, Keys, Method, PublicOrigin
from privet.learn.engine import gradient_sum
from privet.learn.gradients import copied, trainable
from privet.models import ConvNet
from privet.privacy import PLD, Ledger, Relation, Unit
from privet.public import PublicRows
from privet.recipes.methods import dope
from privet.recipes.training import equation_for
from privet.recipes.training_config import Material, TrainingConfig
from tests.recipes.small import CLASSES, SHAPE, pictures

SETTINGS = {"sampling_rate": 0.25, "epochs": 0.5, "clip_norm": 0.2, "engine": EngineName.LOOP}


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ConvNet(CLASSES, 1, image_size=8, width=4)


def owners(count=60):
    """Users of one to four rows, which do not lie together."""
    return np.random.default_rng(0).permutation(
        np.repeat(np.arange(count), np.arange(count) % 4 + 1)
    )


def people(users=60, seed=0):
    ids = owners(users)
    rows = pictures(len(ids), seed=seed)
    return ImageSet(rows["images"], rows["labels"], tuple("abc")), ids


def material(public=None):
    rows = None if public is None else PublicRows.from_images(public)
    return Material(input_shape=SHAPE, num_classes=CLASSES, public=rows)


def test_a_split_by_users_divides_no_user():
    data, ids = people()
    split = data.split(public=0.2, test=6, seed=3, users=ids)
    whole = {image.tobytes(): user for image, user in zip(data.images, ids, strict=True)}
    parts = {name: getattr(split, name) for name in ("private", "public", "test")}
    found = {
        name: {whole[image.tobytes()] for image in part.images[:]} for name, part in parts.items()
    }
    assert [len(each) for each in found.values()] == [42, 12, 6]
    assert set.union(*found.values()) == set(range(60))
    assert sum(map(len, parts.values())) == len(data)
    assert [whole[image.tobytes()] for image in split.private.images[:]] == split.users.tolist()


def test_a_split_needs_everyones_id():
    data, ids = people()
    with pytest.raises(ConfigError, match="one id for each image"):
        data.split(public=0.2, seed=0, users=ids[1:])


def test_leaving_out_a_user_moves_a_round_by_no_more_than_the_clip_norm():
    """Around a public origin; a user of many rows weighs as much as one of a single row."""
    data, ids = people(12)
    model = network()
    config = TrainingConfig(method=Method(origin=PublicOrigin()), **SETTINGS)
    public = material(people(6, seed=5)[0])
    engine = Engine(name=EngineName.LOOP)
    equation = equation_for(model, config, public, Keys(0), 1.0, engine)
    weights = copied(trainable(model))
    origin = {name: 0.1 * torch.ones_like(each) for name, each in weights.items()}
    summand = gradient_sum(equation.objective((weights,), scale=None, origin=origin), engine)

    def total(keep):
        rows = Rows({name: each[keep] for name, each in data.columns().items()}, ids[keep])
        units = rows.batch(slice(0, rows.num_units), torch.device("cpu"))
        found = clipped_sum([units], summand, config.clip_norm)
        return torch.cat([each.double().flatten() for each in found.values()])

    everyone = total(np.arange(len(ids)))
    moved = [float((everyone - total(np.flatnonzero(ids != user))).norm()) for user in range(12)]
    assert max(moved) <= config.clip_norm * (1 + 1e-6)
    assert min(moved) > 0.99 * config.clip_norm  # all were clipped, whatever their size


def test_a_run_is_certified_for_users_and_divided_by_their_number(tmp_path):
    data, ids = people()
    split = data.split(public=0.2, seed=0, users=ids)
    ledger = Ledger.create(
        tmp_path / "l.db", epsilon=2.0, delta=1e-5, relation="add-remove", unit=Unit.USER
    )
    hedge = Hedge(
        split.private,
        ledger.reserve(epsilon=2.0),
        users=split.users,
        declared_size=48,
        randomness=Randomness(),
    )
    found = dope(hedge, network(), TrainingConfig(**SETTINGS), material(split.public))
    guarantee = found.certificate.guarantee
    assert guarantee.unit is Unit.USER
    assert "one user" in found.certificate.statement
    assert 1.99 < PLD().epsilon(found.certificate.plan.events, 1e-5, Relation.ADD_REMOVE) <= 2.0
    assert hedge.reservation.record.spent == (2,)
    with pytest.raises(ConfigError, match="protects each user"):
        Hedge(split.private, hedge.reservation)
