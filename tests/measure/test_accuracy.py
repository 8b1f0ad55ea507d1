import pytest
import torch

from privet.errors import DataError
from privet.measure import accuracy, predictions


def test_shares_over_all_and_by_class():
    found = accuracy(torch.tensor([0, 0, 1, 1, 2]), torch.tensor([0, 1, 1, 1, 1]), 4)
    assert found.overall == pytest.approx(3 / 5)
    assert found.by_class == (1.0, 0.5, None, None)
    assert (found.worst, found.worst_class, found.count) == (1, 0.5, 5)
    assert found.to_json()["by_class"] == [1.0, 0.5, None, None]


def test_predictions_come_in_the_order_of_inputs_whatever_the_batches():
    inputs = torch.randn(1203, 3)
    torch.testing.assert_close(predictions(lambda batch: batch, inputs), inputs.argmax(1))


def test_of_several_worst_classes_the_first_is_named():
    found = accuracy(torch.tensor([1, 0, 0]), torch.tensor([1, 2, 3]), 4)
    assert found.by_class == (None, 1.0, 0.0, 0.0)
    assert found.worst == 2


def test_nothing_to_measure_on_is_refused():
    with pytest.raises(DataError, match="no examples"):
        accuracy(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), 2)
