"""The loop: averages, rings, checkpoints and what they are for."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from privet.errors import ConfigError, DataError
from privet.learn import Course, Progress, State
from privet.learn.checkpoint import load, save, save_tensors
from privet.learn.checks import check_model
from privet.learn.ensemble import mean_logits, mean_weights, vote_shares
from privet.learn.objective import Examples, cross_entropy
from privet.learn.origins import NoOrigin, PublicOrigin
from privet.learn.training import Diverged, train
from privet.models import ResNet9


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

    def test_parameters_that_remember_inputs(self):
        class Shrinks(nn.Linear):
            def forward(self, x):
                self.weight.data *= 1 - 0.01 * x.abs().mean()
                return super().forward(x)

        with pytest.raises(ConfigError, match="parameter 'weight' changes"):
            check_model(Shrinks(6, 3), cross_entropy, trial(), 3)

    @pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
    def test_tables_with_a_largest_norm_by_name(self, kind):
        class Looks(nn.Module):
            def __init__(self, max_norm):
                super().__init__()
                self.table = kind(7, 3, max_norm=max_norm)

            def forward(self, tokens):
                return self.table(tokens).reshape(len(tokens), -1, 3).sum(1)

        tokens = Examples(torch.randint(7, (2, 5)), torch.tensor([0, 1]))
        check_model(Looks(None), cross_entropy, tokens, 3)
        for max_norm in (1.0, 100.0):
            with pytest.raises(
                ConfigError, match=rf"'table' is an {kind.__name__} .*max_norm=None"
            ):
                check_model(Looks(max_norm), cross_entropy, tokens, 3)

    @pytest.mark.parametrize("kind", [nn.Dropout, nn.AlphaDropout, nn.FeatureAlphaDropout])
    def test_dropout_in_training_mode_by_name(self, kind):
        model = nn.Sequential(nn.Linear(6, 4), kind(0.1), nn.Linear(4, 3))
        with pytest.raises(ConfigError, match=rf"'1' is a {kind.__name__} .* \.eval\(\)"):
            check_model(model, cross_entropy, trial(), 3)
        check_model(model.eval(), cross_entropy, trial(), 3)
        check_model(nn.Sequential(kind(0.0), nn.Linear(6, 3)), cross_entropy, trial(), 3)

    def test_other_layers_that_draw_from_the_global_generator(self):
        model = nn.Sequential(nn.Linear(6, 3), nn.RReLU())
        with pytest.raises(ConfigError, match=r"global generator.* \.eval\(\)"):
            check_model(model, cross_entropy, trial(), 3)
        check_model(model.eval(), cross_entropy, trial(), 3)

    def test_inputs_that_the_model_cannot_take(self):
        images = Examples(torch.randn(2, 3, 4, 4), torch.tensor([0, 1]))
        with pytest.raises(ConfigError, match=r"shape \(3, 4, 4\): .*[^.]\.$") as refused:
            check_model(ResNet9(3, width=8), cross_entropy, images, 3)
        assert "\n" not in str(refused.value)
        with pytest.raises(ConfigError, match=r"shape \(7,\): mat1 and mat2"):
            check_model(nn.Linear(6, 3), cross_entropy, trial(7), 3)

    def test_errors_of_our_own_stay_as_they_are(self):
        class Refuses(nn.Linear):
            def forward(self, x):
                raise DataError("Not these.")

        with pytest.raises(DataError, match=r"^Not these\.$"):
            check_model(Refuses(6, 3), cross_entropy, trial(), 3)

    def test_the_wrong_number_of_classes(self):
        with pytest.raises(ConfigError, match=r"make it return \(2, 3\)"):
            check_model(nn.Linear(6, 4), cross_entropy, trial(), 3)

    @pytest.mark.parametrize("value", [float("inf"), float("nan")])
    def test_a_loss_that_is_not_finite(self, value):
        model = nn.Linear(6, 3)
        model.weight.data.fill_(value)
        with pytest.raises(ConfigError, match="not finite"):
            check_model(model, cross_entropy, trial(), 3)

    def test_half_precision(self):
        with pytest.raises(ConfigError, match=r"'weight' is torch.bfloat16"):
            check_model(nn.Linear(6, 3).bfloat16(), cross_entropy, trial(), 3)

    def test_nothing_to_learn(self):
        with pytest.raises(ConfigError, match="unfreeze"):
            check_model(nn.Linear(6, 3).requires_grad_(False), cross_entropy, trial(), 3)


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "does not fit on its disk"),
        (errno.EROFS, "may not be written"),
        (errno.EIO, "cannot be written"),
    ],
)
def test_a_disk_that_refuses_a_checkpoint_leaves_the_last_one(
    tmp_path, monkeypatch, number, sentence
):
    first = Progress.start({"w": torch.ones(2)})
    save(tmp_path / "c.safetensors", first)
    whole = Path.write_bytes

    def refused(path, content):
        whole(path, content[:4])
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", refused)
    with pytest.raises(ConfigError, match=sentence):
        save(tmp_path / "c.safetensors", first)
    assert [path.name for path in tmp_path.iterdir()] == ["c.safetensors"]
    assert load(tmp_path / "c.safetensors").step == 0


def test_a_kill_in_the_middle_leaves_no_draft_that_nobody_knows(tmp_path, monkeypatch):
    """Only one of a name that the next one is written over."""

    def killed(path, content):
        path.touch()
        raise SystemExit

    monkeypatch.setattr(Path, "write_bytes", killed)
    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok: None)
    with pytest.raises(SystemExit):
        save(tmp_path / "c.safetensors", Progress.start({"w": torch.ones(2)}))
    assert [path.name for path in tmp_path.iterdir()] == ["c.safetensors.part"]


def test_whoever_may_read_the_folder_may_read_weights(tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    save_tensors({"w": torch.ones(2)}, tmp_path / "m.safetensors", {})
    assert (tmp_path / "m.safetensors").stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize(
    ("origin", "advice"),
    [
        (NoOrigin(), r"lower the learning rate from 0\.5\."),
        (PublicOrigin(limit=1.0), r"lower the learning rate from 0\.5\."),
        (PublicOrigin(), r"from 0\.5, or limit public gradients, as in --origin public:limit=1\."),
    ],
)
def test_weights_that_grow_beyond_all_bounds_say_what_to_change(origin, advice):
    class Lost:
        method = SimpleNamespace(origin=origin)

        def step(self, *_):
            return State(weights={"w": torch.full((2,), torch.inf)}, step=1)

    course = Course(steps=2, learning_rate=0.5)
    with pytest.raises(Diverged, match=advice):
        train(Lost(), SimpleNamespace(remaining=2), course, Progress.start({"w": torch.ones(2)}))
