"""The loop: averages, rings, checkpoints and what they are for."""

import pytest
import torch
from torch import nn

from privet.errors import ConfigError, DataError
from privet.learn import Course, Progress, State
from privet.learn.checkpoint import load, save
from privet.learn.checks import check_model
from privet.learn.ensemble import mean_logits, mean_weights, vote_shares
from privet.learn.objective import Examples, cross_entropy


def blocks(seed):
    generator = torch.Generator().manual_seed(seed)
    return {
        "z.weight": torch.randn(3, 2, generator=generator),
        "a.bias": torch.randn(3, generator=generator),
    }


def progress():
    state = State(
        weights=blocks(0),
        step=7,
        scale=blocks(1),
        origin=blocks(2),
        update={"second": blocks(3), "first": blocks(4)},
    )
    return Progress(state=state, average=blocks(5), ring=tuple(blocks(6 + i) for i in range(12)))


def equal(one, other):
    return list(one) == list(other) and all(torch.equal(one[k], other[k]) for k in one)


def test_a_checkpoint_comes_back_whole_and_in_order(tmp_path):
    """Noise is keyed by the order of blocks: another order would be another run."""
    before = progress()
    save(tmp_path / "c.safetensors", before)
    after = load(tmp_path / "c.safetensors")
    assert after.step == 7
    assert equal(after.state.weights, before.state.weights)
    assert equal(after.average, before.average)
    assert equal(after.state.scale, before.state.scale)
    assert equal(after.state.origin, before.state.origin)
    assert set(after.state.update) == {"first", "second"}
    assert all(equal(after.state.update[k], before.state.update[k]) for k in ("first", "second"))
    assert len(after.ring) == 12
    assert all(equal(a, b) for a, b in zip(after.ring, before.ring, strict=True))


def test_a_damaged_checkpoint_is_one_sentence(tmp_path):
    path = tmp_path / "c.safetensors"
    path.write_bytes(b"\x00" * 40)
    with pytest.raises(DataError, match="cannot be read"):
        load(path)


@pytest.mark.parametrize(
    "wrong",
    [{"steps": 0}, {"learning_rate": 0.0}, {"learning_rate": float("nan")}, {"keep_last": -1}],
)
def test_bad_courses_are_refused(wrong):
    with pytest.raises(ConfigError):
        Course(**{"steps": 3, "learning_rate": 1.0, **wrong})


def test_ensembles_against_written_out_ones():
    model, inputs = nn.Linear(2, 3), torch.randn(40, 2)
    ring = [{"weight": torch.randn(3, 2), "bias": torch.randn(3)} for _ in range(5)]
    logits = torch.stack([inputs @ w["weight"].T + w["bias"] for w in ring])
    torch.testing.assert_close(mean_logits(model, ring, inputs), logits.mean(0))
    votes = torch.zeros(40, 3)
    for each in logits:
        votes[torch.arange(40), each.argmax(1)] += 1 / 5
    torch.testing.assert_close(vote_shares(model, ring, inputs), votes)
    mean = mean_weights(ring)
    torch.testing.assert_close(mean["bias"], sum(w["bias"] for w in ring) / 5)
    with pytest.raises(ConfigError, match="keep_last"):
        mean_weights([])


def trial(width=6):
    return Examples(torch.randn(2, width), torch.tensor([0, 1]))


class TestModelsThatAreRefused:
    def test_batch_norm_in_training_mode_by_name(self):
        model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
        with pytest.raises(ConfigError, match=r"'1' is a BatchNorm1d .* GroupNorm"):
            check_model(model, cross_entropy, trial(), 3)
        check_model(model.eval(), cross_entropy, trial(), 3)

    def test_buffers_that_remember_inputs(self):
        class Remembers(nn.Linear):
            def __init__(self):
                super().__init__(6, 3)
                self.register_buffer("seen", torch.zeros(6))

            def forward(self, x):
                self.seen += x.sum(0)
                return super().forward(x)

        with pytest.raises(ConfigError, match="'seen' changes"):
            check_model(Remembers(), cross_entropy, trial(), 3)

    def test_the_wrong_number_of_classes(self):
        with pytest.raises(ConfigError, match=r"make it return \(2, 3\)"):
            check_model(nn.Linear(6, 4), cross_entropy, trial(), 3)

    def test_a_loss_that_is_not_finite(self):
        model = nn.Linear(6, 3)
        model.weight.data.fill_(float("inf"))
        with pytest.raises(ConfigError, match="not finite"):
            check_model(model, cross_entropy, trial(), 3)

    def test_half_precision(self):
        with pytest.raises(ConfigError, match=r"'weight' is torch.bfloat16"):
            check_model(nn.Linear(6, 3).bfloat16(), cross_entropy, trial(), 3)

    def test_nothing_to_learn(self):
        with pytest.raises(ConfigError, match="unfreeze"):
            check_model(nn.Linear(6, 3).requires_grad_(False), cross_entropy, trial(), 3)
