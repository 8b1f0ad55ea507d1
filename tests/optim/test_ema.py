"""The moving average, against its closed form."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from privet.errors import ConfigError
from privet.optim import ExponentialAverage, update_average


def trajectory(steps):
    values = np.random.default_rng(0).standard_normal((steps + 1, 3))
    return [{"w": torch.tensor(value, requires_grad=True)} for value in values]


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.999])
def test_the_average_is_the_weighted_sum_it_says(decay):
    weights = trajectory(30)
    rule = ExponentialAverage(decay=decay)
    average = rule.start(weights[0])
    for step, current in enumerate(weights[1:]):
        rule.update(average, current, step)
    decays = np.minimum(decay, (1 + np.arange(30)) / (10 + np.arange(30)))
    coefficients = np.append(1.0, 1 - decays) * np.append(np.cumprod(decays[::-1])[::-1], 1.0)
    expected = sum(c * w["w"].detach() for c, w in zip(coefficients, weights, strict=True))
    assert coefficients.sum() == pytest.approx(1)
    torch.testing.assert_close(average["w"], expected)


def test_warm_up_forgets_the_first_weights():
    average = {"w": torch.tensor([0.0])}
    update_average(average, {"w": torch.tensor([1.0])}, 0, 0.9999)
    assert float(average["w"]) == pytest.approx(0.9)


def test_the_start_is_a_copy_without_a_graph():
    weights = {"w": torch.ones(2, requires_grad=True)}
    average = ExponentialAverage().start(weights)
    update_average(average, {"w": torch.zeros(2)}, 0, 0.9)
    assert not average["w"].requires_grad
    assert weights["w"].tolist() == [1, 1]


def test_counts_are_copied():
    average = {"batches": torch.tensor(3)}
    update_average(average, {"batches": torch.tensor(8)}, 100, 0.9)
    assert int(average["batches"]) == 8


def test_an_average_survives_a_file(tmp_path):
    average = ExponentialAverage().start(torch.nn.BatchNorm1d(3).state_dict())
    save_file(average, tmp_path / "average.safetensors")
    loaded = load_file(tmp_path / "average.safetensors")
    assert loaded.keys() == average.keys()
    assert all(torch.equal(loaded[name], average[name]) for name in average)


def test_what_cannot_be_averaged_is_refused():
    average = {"w": torch.zeros(1)}
    with pytest.raises(ConfigError, match=r"differ in \['v', 'w'\]"):
        update_average(average, {"v": torch.zeros(1)}, 0, 0.9)
    with pytest.raises(ConfigError, match="step is -1"):
        update_average(average, average, -1, 0.9)
    for decay in (1.0, -0.1, float("nan")):
        with pytest.raises(ConfigError, match="decay is"):
            ExponentialAverage(decay=decay)
        with pytest.raises(ConfigError, match="decay is"):
            update_average(average, average, 0, decay)
