"""FedDM and FedLAP-DP of the federated study: their noise, and what all rounds cost together."""

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from privet.errors import PrivacyError
from privet.hedge import Hedge, Randomness
from privet.privacy import PLD, Budget, Ledger, PoissonSteps, Relation
from tests.recipes.small import CLASSES, pictures

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SHAPE = (8, 8, 1)
SMALL = {"rounds": 2, "local_steps": 2, "sampling_rate": 0.5, "per_class": 2, "image_steps": 2}
SMALL |= {"server_steps": 2, "width": 4}


@pytest.fixture
def room(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield importlib.import_module("federated_baselines")
    sys.modules.pop("federated_baselines", None)


def hedge_in(folder, name="ledger", epsilon=2.0, relation="add-remove", seed=0, count=60):
    ledger = Ledger.create(folder / f"{name}.db", epsilon=epsilon, delta=1e-5, relation=relation)
    rows = pictures(count, seed=seed)
    return Hedge(rows, ledger.reserve(epsilon=epsilon), randomness=Randomness())


@pytest.mark.parametrize("method", ["feddm", "fedlap-dp"])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_every_party_pays_for_all_rounds_at_once(room, tmp_path, method, relation):
    settings = room.Distillation(method=method, **SMALL)
    hedges = [hedge_in(tmp_path, str(each), 1.0 + each, relation, each) for each in range(2)]
    found = room.distilled(hedges, settings, SHAPE, CLASSES)
    for epsilon, hedge, certificate in zip((1.0, 2.0), hedges, found.certificates, strict=True):
        [event] = certificate.plan.events
        assert isinstance(event, PoissonSteps)
        assert (event.steps, event.sampling_rate) == (4, 0.5)
        cost = PLD().epsilon([event], 1e-5, Relation(relation))
        assert epsilon * 0.999 < cost <= epsilon
        assert hedge.reservation.record.spent == (4,)
        certificate.check_events("The certificate")
    assert found.images.dtype == np.uint8
    assert len(found.images) == len(found.labels)


def test_a_round_more_is_not_paid_for(room, tmp_path):
    """What the code of FedLAP-DP misses: rounds add up."""
    settings, hedge = room.Distillation(**SMALL), hedge_in(tmp_path)
    network = room._network(settings, SHAPE, CLASSES)
    generator = torch.Generator().manual_seed(0)
    party = room.DistillingParty(hedge, network, SHAPE, CLASSES, settings, generator)
    weights = {name: each.detach() for name, each in network.named_parameters()}
    for _ in range(settings.rounds):
        party.round(weights)
    with pytest.raises(PrivacyError):
        party.round(weights)
    alone = room.Distillation(**SMALL | {"rounds": 1})
    terms = (Budget(epsilon=2.0, delta=1e-5), Relation.ADD_REMOVE)
    assert alone.mechanism(*terms).noise_multiplier < settings.mechanism(*terms).noise_multiplier


def summand_of(room, method, network, count=0.25):
    look = room.embedded if method == "feddm" else room.gradients
    vectors = look(network, dict(network.named_parameters()))
    size = vectors(torch.zeros(1, 1, 8, 8), torch.zeros(1, dtype=torch.int64)).shape[1]
    return room.ByClass(vectors, size, CLASSES, count)


@pytest.mark.parametrize("method", ["feddm", "fedlap-dp"])
def test_neighbours_are_no_further_apart_than_the_clip_norm(room, method):
    from privet.hedge.clipping import clipped_sum
    from privet.hedge.units import Rows

    network = room._network(room.Distillation(**SMALL), SHAPE, CLASSES)
    summand, rows = summand_of(room, method, network), pictures(12, seed=3)
    rows["labels"] = rows["labels"].copy()
    rows["labels"][5] = 99  # counts for nothing, without a word

    def total(keep):
        some = Rows({name: each[keep] for name, each in rows.items()})
        units = some.batch(slice(0, some.num_units), torch.device("cpu"))
        found = clipped_sum([units], summand, 0.3)
        return torch.cat([each.double().flatten() for each in found.values()])

    everyone = total(np.arange(12))
    for left_out in range(12):
        moved = float((everyone - total(np.delete(np.arange(12), left_out))).norm())
        assert moved <= 0.3 * (1 + 1e-6)
        assert (moved < 1e-9) == (left_out == 5)


@pytest.mark.parametrize("method", ["feddm", "fedlap-dp"])
def test_sums_have_the_noise_that_is_paid_for(room, tmp_path, method):
    """Of nobody's images: accepts the right scale, and rejects 2/3 and 3/2 of it."""
    settings = room.Distillation(method=method, **SMALL)
    hedge = hedge_in(tmp_path, count=1)
    network = room._network(settings, SHAPE, CLASSES)
    party = room.DistillingParty(
        hedge, network, SHAPE, CLASSES, settings, torch.Generator().manual_seed(0)
    )
    nothing = room.ByClass(lambda images, _: torch.zeros(len(images), 4000), 4000, CLASSES, 0.25)
    noisy = party._steps.step(nothing)
    scale = party.mechanism.noise_multiplier * settings.clip_norm
    size = noisy["sums"].numel()
    found = float(noisy["sums"].square().mean().sqrt())
    slack = 5 / math.sqrt(2 * size)
    assert abs(found / scale - 1) < slack < 1 / 10
    assert party.mechanism.noise_scale == scale


def test_vectors_are_what_their_names_say(room):
    network = room._network(room.Distillation(**SMALL), SHAPE, CLASSES).double()
    rows = pictures(3, seed=2)
    images, labels = (torch.from_numpy(rows[each]) for each in ("images", "labels"))
    inputs = room.seen(images).double()
    weights = {name: each.detach() for name, each in network.named_parameters()}
    found = room.gradients(network, weights)(inputs, labels)
    for row, (image, label) in enumerate(zip(inputs, labels, strict=True)):
        loss = torch.nn.functional.cross_entropy(network(image[None]), label[None])
        wanted = torch.cat(
            [each.flatten() for each in torch.autograd.grad(loss, list(network.parameters()))]
        )
        torch.testing.assert_close(found[row], wanted)
    features = room.embedded(network, weights)(inputs, labels)
    torch.testing.assert_close(features, network.features(inputs) / math.sqrt(features.shape[1]))


def test_images_come_nearer_and_missing_classes_are_left_out(room, tmp_path):
    """Almost without noise: mean features of classes that are there are matched."""
    rows = pictures(300, seed=1)
    keep = rows["labels"] > 0
    rows = {name: each[keep] for name, each in rows.items()}
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1e4, delta=1e-5, relation="add-remove")
    hedge = Hedge(rows, ledger.reserve(epsilon=1e4))
    settings = room.Distillation(**SMALL | {"image_steps": 40, "radius": 1e-6})
    network = room._network(settings, SHAPE, CLASSES)
    weights = {name: each.detach() for name, each in network.named_parameters()}
    party = room.DistillingParty(
        hedge, network, SHAPE, CLASSES, settings, torch.Generator().manual_seed(0)
    )
    look = room.embedded(network, weights)
    images, labels = (torch.from_numpy(rows[each]) for each in ("images", "labels"))
    real = look(images, labels)
    means = torch.stack([real[labels == label].mean(0) for label in range(1, CLASSES)])

    def distance():
        own = party._mean_features(weights)(party.images)[1:]
        return float((own - means).square().sum())

    before = distance()
    party.round(weights)
    assert distance() < 0.7 * before
    assert sorted(set(party.shared()[1].tolist())) == list(range(1, CLASSES))
