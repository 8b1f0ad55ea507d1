"""What becomes of the weights, against torch.optim on the same gradients in double precision."""

import math

import pytest
import torch

from privet.errors import ConfigError
from privet.learn.gradients import PrivateGradient, PublicGradient
from privet.learn.updates import SGD, Adam, Mirror, Pace

from .vectors import blocks, flat

STEPS, RATE = 6, 0.3
GRADIENTS = [blocks(seed) for seed in range(1, STEPS + 1)]
PUBLIC = [blocks(seed) for seed in range(11, STEPS + 11)]


def run(update, gradients=GRADIENTS, publics=None):
    """The weights after every step."""
    weights, memory, found = blocks(0), {}, []
    for step, gradient in enumerate(gradients):
        public = None if publics is None else PublicGradient(publics[step])
        pace = Pace(RATE / (step + 1), step, STEPS)
        weights, memory = update.apply(weights, PrivateGradient(gradient), public, memory, pace)
        found.append(flat(weights))
    return torch.stack(found)


def reference(make_optimizer, gradients=GRADIENTS):
    parameters = {name: torch.nn.Parameter(value) for name, value in blocks(0).items()}
    optimizer, found = make_optimizer(parameters.values()), []
    for step, gradient in enumerate(gradients):
        for name, parameter in parameters.items():
            parameter.grad = gradient[name].clone()
        optimizer.param_groups[0]["lr"] = RATE / (step + 1)
        optimizer.step()
        found.append(flat(parameters))
    return torch.stack(found)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_is_that_of_torch(momentum):
    expected = reference(lambda values: torch.optim.SGD(values, momentum=momentum))
    torch.testing.assert_close(run(SGD(momentum=momentum)), expected)


@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_adam_is_that_of_torch(decay):
    settings = {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3, "weight_decay": decay}
    expected = reference(
        lambda values: torch.optim.AdamW(values, betas=(0.8, 0.95), eps=1e-3, weight_decay=decay)
    )
    torch.testing.assert_close(run(Adam(**settings)), expected)


def test_weight_decay_stays_out_of_momentum():
    """Decoupled, as in AdamW: w ← (1 − η λ) w − η m."""
    weights, m, expected = flat(blocks(0)), torch.zeros(24).double(), []
    for step, gradient in enumerate(GRADIENTS):
        rate = RATE / (step + 1)
        m = 0.9 * m + flat(gradient)
        weights = (1 - rate * 0.5) * weights - rate * m
        expected.append(weights)
    torch.testing.assert_close(run(SGD(momentum=0.9, weight_decay=0.5)), torch.stack(expected))


def test_a_step_leaves_the_weights_that_it_was_given_alone():
    for update in (SGD(momentum=0.9), Adam(), Mirror()):
        weights, gradient, public = blocks(0), blocks(1), blocks(2)
        memory = {}
        for step in range(2):
            pace = Pace(RATE, step, STEPS)
            _, memory = update.apply(
                weights, PrivateGradient(gradient), PublicGradient(public), memory, pace
            )
        for given, seed in ((weights, 0), (gradient, 1), (public, 2)):
            assert torch.equal(flat(given), flat(blocks(seed)))


class TestMirror:
    @pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
    def test_a_constant_share_mixes_private_and_public(self, alpha):
        mixtures = [
            {name: alpha * g[name] + (1 - alpha) * p[name] for name in g}
            for g, p in zip(GRADIENTS, PUBLIC, strict=True)
        ]
        ours = run(Mirror(alpha=alpha, schedule="constant"), publics=PUBLIC)
        torch.testing.assert_close(ours, run(SGD(), mixtures))

    def test_the_public_share_falls_along_a_quarter_of_a_cosine(self):
        mirror = Mirror(alpha=0.7, schedule="cosine")
        shares = [mirror.share(Pace(RATE, step, STEPS)) for step in range(STEPS + 1)]
        expected = [1 - 0.3 * math.cos(math.pi / 2 * step / STEPS) for step in range(STEPS + 1)]
        assert shares == pytest.approx(expected)
        assert (shares[0], shares[-1]) == (pytest.approx(0.7), pytest.approx(1.0))

    def test_a_cosine_share_is_used_step_by_step(self):
        mirror = Mirror(alpha=0.2, base=Adam())
        mixtures = []
        for step, (g, p) in enumerate(zip(GRADIENTS, PUBLIC, strict=True)):
            alpha = 1 - 0.8 * math.cos(math.pi * step / (2 * STEPS))
            mixtures.append({name: alpha * g[name] + (1 - alpha) * p[name] for name in g})
        torch.testing.assert_close(run(mirror, publics=PUBLIC), run(Adam(), mixtures))

    def test_settings_are_checked(self):
        assert Mirror().needs_public
        for alpha in (-0.1, 1.1, math.nan):
            with pytest.raises(ConfigError, match="private share"):
                Mirror(alpha=alpha)
        with pytest.raises(ConfigError, match="'linear'"):
            Mirror(schedule="linear")


def test_settings_are_checked():
    for value in (-0.1, 1.0, math.nan):
        for make in (lambda v: SGD(momentum=v), lambda v: Adam(beta1=v), lambda v: Adam(beta2=v)):
            with pytest.raises(ConfigError, match="must lie in"):
                make(value)
    for value in (-0.1, math.nan, math.inf):
        for kind in (SGD, Adam):
            with pytest.raises(ConfigError, match="weight_decay"):
                kind(weight_decay=value)
    for value in (-1e-8, 0.0, math.nan, math.inf):
        with pytest.raises(ConfigError, match="epsilon must be above 0"):
            Adam(epsilon=value)
    assert not SGD().needs_public
    assert not Adam().needs_public
