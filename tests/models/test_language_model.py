import pytest
import torch

from privet.errors import ConfigError
from privet.models import LanguageModel


def model(**settings):
    torch.manual_seed(0)
    return LanguageModel(11, 6, width=8, heads=2, **settings).double()


def test_logits_of_every_position():
    words = torch.randint(11, (3, 6))
    assert model()(words).shape == (3, 6, 11)
    assert model()(words[:, :4]).shape == (3, 4, 11)


@pytest.mark.parametrize("causal", [True, False])
def test_a_causal_model_does_not_see_what_comes_later(causal):
    network = model(causal=causal)
    words = torch.randint(11, (1, 6))
    changed = words.clone()
    changed[0, 4] = (changed[0, 4] + 1) % 11
    same = torch.isclose(network(words), network(changed)).all(2)[0]
    assert same[:4].all() == causal
    assert not same[4:].all()


def test_heads_divide_the_width():
    with pytest.raises(ConfigError, match="give a divisor of width"):
        LanguageModel(11, 6, width=8, heads=3)
