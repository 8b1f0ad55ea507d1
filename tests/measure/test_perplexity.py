import math

import pytest
import torch

from privet.errors import DataError
from privet.measure import perplexity


def test_a_model_that_knows_nothing_wavers_among_all_words():
    inputs = torch.randint(7, (100, 5))
    found = perplexity(lambda seen: torch.zeros(*seen.shape, 7), inputs, inputs)
    assert found.perplexity == pytest.approx(7)
    assert (found.count, found.words) == (100, 500)


def test_only_what_is_asked_counts():
    logits = torch.tensor([[[0.0, math.log(3)], [0.0, 0.0]]])
    found = perplexity(lambda _: logits, torch.zeros(1, 2).long(), torch.tensor([[1, -100]]))
    assert found.perplexity == pytest.approx(4 / 3)
    assert found.words == 1
    with pytest.raises(DataError, match="no words"):
        perplexity(lambda _: logits, torch.zeros(1, 2).long(), torch.tensor([[-100, -100]]))
