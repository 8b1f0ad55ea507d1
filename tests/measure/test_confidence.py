"""Calibration: by hand, by another implementation, and for classifiers that are known."""

import math

import pytest
import torch

from privet.errors import ConfigError, DataError
from privet.measure import calibration


def two_classes(*sure):
    """Probabilities of class 0 and class 1, the first as given."""
    first = torch.tensor(sure, dtype=torch.float64)
    return torch.stack([first, 1 - first], 1)


def test_by_hand():
    found = calibration(two_classes(0.95, 0.95, 0.65, 0.65), torch.tensor([0, 1, 0, 0]), bins=10)
    # Half of the sure ones are right, and all of the others: gaps of 0.45 and 0.35.
    assert found.error == pytest.approx((0.45 + 0.35) / 2)
    assert (found.count, found.confidence) == (4, pytest.approx(0.8))
    assert [each.count for each in found.bins] == [0, 0, 0, 0, 0, 0, 2, 0, 0, 2]
    last = found.bins[-1]
    assert (last.above, last.up_to) == pytest.approx((0.9, 1.0))
    assert (last.confidence, last.accuracy) == pytest.approx((0.95, 0.5))
    assert (found.bins[0].confidence, found.bins[0].accuracy) == (None, None)


def test_a_border_belongs_to_the_bin_below_it():
    found = calibration(two_classes(0.75, 1.0), torch.tensor([0, 0]), bins=4)
    assert [each.count for each in found.bins] == [0, 0, 1, 1]


@pytest.mark.parametrize("bins", [5, 15])
def test_against_torchmetrics(bins):
    from torchmetrics.functional.classification import multiclass_calibration_error  # takes seconds

    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(2000, 10, generator=generator).double()
    targets = torch.randint(10, (2000,), generator=generator)
    targets[:900] = logits[:900].argmax(1)
    expected = multiclass_calibration_error(logits.softmax(1), targets, 10, bins)
    assert calibration(logits.softmax(1), targets, bins).error == pytest.approx(
        float(expected), rel=1e-5
    )


def test_labels_that_are_drawn_from_the_probabilities_are_calibrated():
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.randn(20_000, 4, generator=generator).softmax(1)
    targets = torch.multinomial(probabilities, 1, generator=generator).flatten()
    assert calibration(probabilities, targets).error < 0.02


def test_who_is_always_sure_is_off_by_the_share_of_errors():
    targets = torch.arange(10) % 2
    found = calibration(torch.eye(2)[torch.zeros(10, dtype=torch.long)], targets)
    assert (found.error, found.confidence) == (0.5, 1.0)
    assert found.bins[-1].count == 10


def test_rounding_beyond_the_last_border_is_no_error():
    found = calibration(torch.tensor([[1.0000002, 0.0]]), torch.tensor([0]))
    assert found.bins[-1].count == 1


def test_as_json():
    body = calibration(two_classes(0.9), torch.tensor([0])).to_json()
    assert len(body["bins"]) == 15
    assert body["bins"][13]["accuracy"] == 1.0
    assert body["bins"][0] == {
        "above": 0.0,
        "up_to": pytest.approx(1 / 15),
        "count": 0,
        "confidence": None,
        "accuracy": None,
    }


@pytest.mark.parametrize(
    ("probabilities", "targets", "sentence"),
    [
        (torch.zeros(0, 2), torch.zeros(0), "no examples"),
        (torch.full((3, 2), 0.5), torch.zeros(2), "do not fit"),
        (torch.full((3,), 0.5), torch.zeros(3), "do not fit"),
        (torch.full((3, 2), 0.7), torch.zeros(3), "no probabilities"),
        (torch.tensor([[1.5, -0.5]]), torch.zeros(1), "no probabilities"),
        (torch.full((1, 2), math.nan), torch.zeros(1), "no probabilities"),
    ],
)
def test_bad_input_is_refused(probabilities, targets, sentence):
    with pytest.raises(DataError, match=sentence):
        calibration(probabilities, targets.long())


def test_no_bins_are_refused():
    with pytest.raises(ConfigError, match="0 bins"):
        calibration(two_classes(0.9), torch.tensor([0]), bins=0)
