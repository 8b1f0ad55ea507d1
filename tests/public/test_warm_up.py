"""Training on public data: it learns, it repeats, and it touches nothing else."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from torch import nn

from privet.augment import CropFlip, to_float
from privet.errors import ConfigError
from privet.optim import Sharpness, constant, cosine
from privet.public import EpochRecord, PublicRows, WarmUp, warm_up
from privet.public.adversary import Adversary
from tests.public.digits import QUICK, digits, network, same, seed, state


def accuracy(model, public):
    with torch.no_grad():
        return float((model(to_float(public.inputs)).argmax(1) == public.targets).float().mean())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer": "adam", "learning_rate": 0.005},
        {"mixup_alpha": 0.4, "label_smoothing": 0.1, "epochs": 20},
        {"cutmix": True, "epochs": 20},
        {"sharpness": Sharpness()},
        {
            "sharpness": Sharpness(kind="asam", radius=0.5),
            "optimizer": "adam",
            "learning_rate": 0.005,
        },
        {"sharpness": Sharpness(kind="gsam")},
        {"adversary": Adversary(steps=2)},
        {"auto_augment": True, "augment": None, "epochs": 10},
    ],
    ids=["sgd", "adam", "mixed", "cut", "sam", "asam", "gsam", "adversarial", "auto"],
)
def test_it_learns_what_it_has_not_seen(changes):
    public, model = digits(), network()
    seen, unseen = public.select(torch.arange(1200)), public.select(torch.arange(1200, 1797))
    assert accuracy(model, unseen) < 0.3
    history = warm_up(model, seen, replace(QUICK, **changes), generator=seed())
    assert accuracy(model, unseen) > 0.75
    assert history[-1].loss < history[0].loss
    assert history[-1].accuracy > history[0].accuracy


def test_the_defaults_are_those_of_table_12():
    config = WarmUp()
    assert (config.epochs, config.batch_size, config.learning_rate) == (100, 100, 0.05)
    assert (config.optimizer, config.momentum, config.weight_decay) == ("sgd", 0.9, 5e-4)
    assert config.schedule == cosine()


def test_plain_steps_are_those_of_torch():
    """One batch an epoch, no randomness: the loop written out by hand."""
    inputs = torch.randn(20, 64, generator=seed(), dtype=torch.float64)
    public = PublicRows(inputs, torch.arange(20) % 10)
    config = WarmUp(epochs=4, batch_size=20, augment=None, label_smoothing=0.2)
    model, expected = network().double(), network().double()
    history = warm_up(model, public, config, generator=seed(), preprocess=nn.Identity())
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    for record in history:
        logits = expected(inputs)
        loss = nn.functional.cross_entropy(logits, public.targets, label_smoothing=0.2)
        correct = (logits.argmax(1) == public.targets).double().mean()
        assert record.loss == pytest.approx(loss.item())
        assert record.accuracy == pytest.approx(correct.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value)


def test_the_generator_decides_everything_dropout_included():
    public = digits().select(torch.arange(300))
    before = torch.random.get_rng_state()

    def trained(number):
        model = network(dropout=0.5)
        return warm_up(model, public, QUICK, generator=seed(number)), state(model)

    first = trained(1)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(3)
    second, third = trained(1), trained(2)
    assert first[0] == second[0]
    assert same(first[1], second[1])
    assert not same(first[1], third[1])


def watched(layer):
    """A model of one layer, and what it is shown while it trains."""
    seen = []

    def keep(module, arguments):
        if module.training:
            seen.append(arguments[0])

    layer.register_forward_pre_hook(keep)
    return layer, seen


def test_rows_and_labels_are_mixed_alike():
    """Row i is the i-th unit vector, so that a mixture shows its weights."""
    public = PublicRows(torch.eye(30), torch.arange(30) % 10)
    model, seen = watched(nn.Linear(30, 10))
    config = WarmUp(epochs=1, augment=None, mixup_alpha=1.0, learning_rate=1e-9)
    (record,) = warm_up(model, public, config, generator=seed(), preprocess=nn.Identity())
    (inputs,) = seen
    assert ((inputs > 0).sum(1) == 2).all()
    torch.testing.assert_close(inputs.sum(1), torch.ones(30))
    labels = inputs @ nn.functional.one_hot(public.targets, 10).float()
    logits = model(inputs).detach()
    assert record.loss == pytest.approx(nn.functional.cross_entropy(logits, labels).item())
    assert record.accuracy == pytest.approx(
        (logits.argmax(1) == labels.argmax(1)).float().mean().item()
    )


def test_each_epoch_has_new_views():
    public = PublicRows(torch.tensor([[[[0], [255]]]], dtype=torch.uint8), torch.tensor([0]))
    layer, seen = watched(nn.Conv2d(1, 3, (1, 2)))
    config = WarmUp(epochs=40, augment=CropFlip(padding=0))
    warm_up(nn.Sequential(layer, nn.Flatten()), public, config, generator=seed())
    views = [view.flatten().tolist() for view in seen]
    assert 10 <= views.count([-1.0, 1.0]) <= 30
    assert views.count([-1.0, 1.0]) + views.count([1.0, -1.0]) == 40


def test_dropout_differs_from_epoch_to_epoch():
    """A seed drawn once would repeat the masks."""
    head, seen = watched(nn.Linear(64, 10))
    public = PublicRows(torch.ones(50, 64), torch.zeros(50).long())
    config = WarmUp(epochs=2, augment=None)
    model = nn.Sequential(nn.Dropout(), head)
    warm_up(model, public, config, generator=seed(), preprocess=nn.Identity())
    first, second = seen
    assert (first == 0).any()
    assert not torch.equal(first, second)


def test_every_row_is_seen_once_an_epoch_and_no_batch_is_tiny():
    public = PublicRows(torch.arange(201.0)[:, None], torch.zeros(201).long())
    model, seen = watched(nn.Linear(1, 3))
    config = WarmUp(epochs=2, augment=None, learning_rate=1e-9)
    warm_up(model, public, config, generator=seed(), preprocess=nn.Identity())
    assert [len(batch) for batch in seen] == [67] * 6
    first, second = torch.cat(seen).flatten().chunk(2)
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(201))
    assert not torch.equal(first, second)


def test_frozen_parts_stay_as_they_are():
    norm = nn.BatchNorm2d(1).requires_grad_(False)
    model = nn.Sequential(norm, nn.Flatten(), nn.Linear(64, 10)).eval()
    model[2].train()
    frozen, before = state(norm), state(model[2])
    warm_up(model, digits().select(torch.arange(200)), QUICK, generator=seed())
    assert same(state(norm), frozen)
    assert not same(state(model[2]), before)
    assert [part.training for part in model] == [False, False, True]
    assert all(parameter.grad is None for parameter in model.parameters())


def test_trained_batch_norm_learns_its_statistics():
    model = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(64, 10)).eval()
    warm_up(model, digits().select(torch.arange(200)), QUICK, generator=seed())
    assert not torch.equal(model[0].running_mean, torch.zeros(1))
    assert not model.training


def test_an_encoder_may_be_given_a_head():
    encoder, head = network()[0], nn.Linear(64, 10)
    before = state(encoder)
    history = warm_up(encoder, digits(), QUICK, generator=seed(), head=head)
    assert not same(state(encoder), before)
    assert history[-1].accuracy > 0.7


def test_on_epoch_is_told_and_cannot_disturb():
    public = digits().select(torch.arange(300))
    told = []

    def tell(epoch, record):
        told.append((epoch, record))
        torch.manual_seed(0)
        one.eval()

    with torch.random.fork_rng():
        one, other = network(dropout=0.5), network(dropout=0.5)
        history = warm_up(one, public, QUICK, generator=seed(), on_epoch=tell)
        warm_up(other, public, QUICK, generator=seed())
    assert told == list(enumerate(history))
    assert all(isinstance(record, EpochRecord) for record in history)
    assert same(state(one), state(other))


def test_a_loss_that_runs_away_is_refused_with_the_remedy():
    config = replace(QUICK, learning_rate=1e30, schedule=constant())
    model = network().eval()
    with pytest.raises(
        ConfigError, match=r"loss is (nan|inf); lower the learning rate from 1e\+30"
    ):
        warm_up(model, digits(), config, generator=seed())
    assert not model.training


def test_labels_without_an_output_are_refused():
    with pytest.raises(ConfigError, match=r"go up to 9 .* \(1, 7\).*warm_up_body"):
        warm_up(network(classes=7), digits(), QUICK, generator=seed())


def test_nothing_to_train_is_refused():
    with pytest.raises(ConfigError, match="no parameter"):
        warm_up(network().requires_grad_(False), digits(), QUICK, generator=seed())
    with pytest.raises(ConfigError, match="0 public rows"):
        warm_up(network(), digits().select(torch.arange(0)), QUICK, generator=seed())


def test_a_config_survives_json():
    config = replace(QUICK, schedule=cosine(final=0.1), mixup_alpha=0.2)
    saved = json.loads(json.dumps(asdict(config)))
    parts = {
        "schedule": cosine(**saved.pop("schedule")),
        "augment": CropFlip(**saved.pop("augment")),
    }
    assert WarmUp(**saved, **parts) == config


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 0},
        {"batch_size": 0},
        {"learning_rate": 0.0},
        {"learning_rate": np.inf},
        {"momentum": 1.0},
        {"weight_decay": -1e-4},
        {"label_smoothing": 1.0},
        {"mixup_alpha": -0.1},
        {"mixup_alpha": np.nan},
        {"optimizer": "lion"},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ConfigError, match=f"{next(iter(settings))} is"):
        WarmUp(**settings)
