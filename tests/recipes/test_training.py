from dataclasses import replace

import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.hedge import Hedge, Randomness
from privet.learn import EngineName, Method, PublicOrigin
from privet.models import MLP
from privet.privacy import Ledger
from privet.public import PublicRows
from privet.recipes.training import private_training, treated_as_public
from privet.recipes.training_config import Material, TrainingConfig


@pytest.fixture
def problem(tmp_path):
    """Two classes of points, far apart; a hedge around them, and some public ones."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 2
    points = torch.randn(400, 4, generator=generator) + 4 * labels[:, None]
    ledger = Ledger.create(tmp_path / "l.db", epsilon=3, delta=1e-5, relation="add-remove")
    public = PublicRows(points[:40], labels[:40])
    columns = {"images": points[40:], "labels": labels[40:]}

    def hedge(**settings):
        return Hedge(columns, ledger.reserve(epsilon=3), randomness=Randomness(3), **settings)

    material = Material(input_shape=(4,), num_classes=2, public=public, pixels=False)
    return hedge, material, ledger


CONFIG = TrainingConfig(method=Method(), sampling_rate=0.2, epochs=4, learning_rate=0.5)


@pytest.mark.parametrize("declared", [None, 360])
def test_it_learns_with_a_declared_size_or_a_released_one(problem, declared):
    hedge, material, _ = problem
    torch.manual_seed(0)
    model = MLP(4, (), 2)
    behind = hedge(declared_size=declared)
    trained = private_training(behind, model, CONFIG, material)
    rows = material.public
    assert (model(rows.inputs).argmax(1) == rows.targets).float().mean() > 0.9
    assert trained.certificate.guarantee.epsilon <= 3
    assert behind.reservation.record.spent == ((20,) if declared else (1, 20))


@pytest.mark.parametrize(
    ("model", "config", "sentence"),
    [
        (MLP(4, (), 3), CONFIG, "make it return"),
        (MLP(5, (), 2), CONFIG, "An example has 4 numbers"),
        (
            MLP(4, (), 2),
            TrainingConfig(
                method=Method(origin=PublicOrigin()), sampling_rate=0.2, epochs=1, extended=0.5
            ),
            None,
        ),
    ],
)
def test_refusals_spend_nothing(problem, model, config, sentence):
    hedge, material, ledger = problem
    behind = hedge(declared_size=360)
    if sentence is None:
        material = Material(input_shape=(4,), num_classes=2, pixels=False)
        sentence = "uses public rows"
    with pytest.raises(ConfigError, match=sentence):
        private_training(behind, model, config, material)
    [record] = ledger.records()
    assert (record.plan, record.spent) == (None, ())


def test_a_loss_that_is_not_finite_at_the_start_spends_nothing(problem):
    hedge, material, ledger = problem
    model = MLP(4, (), 2)
    with torch.no_grad():
        model.classifier.bias.fill_(float("inf"))
    with pytest.raises(ConfigError, match="The loss is not finite before the first step"):
        private_training(hedge(declared_size=360), model, CONFIG, material)
    assert ledger.records()[0].plan is None


def test_any_loss_can_be_used(problem):
    hedge, material, _ = problem
    seen = []

    def squared(logits, targets):
        seen.append(len(logits))
        return (logits - nn.functional.one_hot(targets, 2)).square().sum(1)

    torch.manual_seed(0)
    model = MLP(4, (), 2)
    other = replace(material, loss=squared)
    private_training(hedge(declared_size=360), model, CONFIG, other)
    rows = material.public
    assert seen
    assert (model(rows.inputs).argmax(1) == rows.targets).float().mean() > 0.9


def test_uses_of_public_rows_are_listed(problem):
    _, material, _ = problem
    assert treated_as_public(CONFIG, material) == ()
    config = TrainingConfig(
        method=Method(origin=PublicOrigin()), sampling_rate=0.2, epochs=1, extended=0.5
    )
    assert treated_as_public(config, material) == (
        "public rows for gradients, joining private batches",
    )


@pytest.mark.parametrize("engine", EngineName)
@pytest.mark.parametrize("label", [2, -1, 10**6])
def test_trap_an_undeclared_label_counts_for_nothing_and_is_not_named(problem, engine, label):
    _, material, ledger = problem
    points, labels = material.public.inputs, material.public.targets.clone()
    found = []
    for bad in (label, 77):
        labels[5] = bad
        points = points + 1000.0 * (torch.arange(40) == 5)[:, None]
        torch.manual_seed(0)
        model = MLP(4, (), 2)
        columns = {"images": points, "labels": labels}
        behind = Hedge(
            columns, ledger.reserve(epsilon=1), declared_size=40, randomness=Randomness(3)
        )
        private_training(behind, model, replace(CONFIG, engine=engine), material)
        behind.reservation.close()
        found.append(torch.cat([each.detach().flatten() for each in model.parameters()]))
    assert found[0].isfinite().all()
    torch.testing.assert_close(*found)


def test_rows_without_labels_are_refused_before_the_plan(problem):
    _, material, ledger = problem
    behind = Hedge({"images": material.public.inputs}, ledger.reserve(epsilon=1))
    with pytest.raises(ConfigError, match="have no labels, only images"):
        private_training(behind, MLP(4, (), 2), CONFIG, material)
    assert behind.reservation.record.plan is None
