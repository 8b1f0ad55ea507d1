"""Sequences of words in equation 1: losses, blanks, and engines that agree."""

import pytest
import torch

from privet.errors import ConfigError
from privet.hedge import Units
from privet.learn import MaskedWords
from privet.learn.engine import Engine, gradient_sum
from privet.learn.objective import (
    IGNORED,
    Examples,
    Objective,
    of_declared,
    word_cross_entropy,
)
from privet.models import LanguageModel

WORDS, LENGTH = 9, 5


def test_the_loss_of_a_sequence_is_the_mean_over_its_words():
    logits = torch.randn(3, LENGTH, WORDS, dtype=torch.float64)
    targets = torch.randint(WORDS, (3, LENGTH))
    targets[1, 2:] = IGNORED
    targets[2] = IGNORED
    found = word_cross_entropy(logits, targets)
    expected = -logits.log_softmax(2).gather(2, targets.clamp(min=0)[..., None])[..., 0]
    assert torch.allclose(found[0], expected[0].mean())
    assert torch.allclose(found[1], expected[1, :2].mean())
    assert found[2] == 0


def test_a_word_that_is_not_declared_makes_its_sequence_count_for_nothing():
    logits = torch.randn(3, LENGTH, WORDS)
    targets = torch.randint(WORDS, (3, LENGTH))
    targets[0, 1] = WORDS
    targets[1, 1] = -1
    targets[2, 1] = IGNORED
    found = of_declared(word_cross_entropy, WORDS)(logits, targets)
    assert found.isnan().tolist() == [True, True, False]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", ["batched", "ghost"])
def test_engines_agree_on_sequences(name, causal):
    torch.manual_seed(0)
    model = LanguageModel(WORDS, LENGTH, width=8, heads=2, causal=causal).double()
    units = Units(
        {
            "images": torch.randint(WORDS, (4, LENGTH)),
            "labels": torch.randint(WORDS, (4, LENGTH)),
        },
        torch.arange(5),
    )
    objective = Objective.plain(
        model, word_cross_entropy, lambda some: Examples(some["images"], some["labels"]), 1
    )
    engine, loop = (
        gradient_sum(objective, Engine(name=each, physical_batch=4)) for each in (name, "loop")
    )
    assert torch.allclose(engine.norms(units), loop.norms(units), rtol=1e-8)
    weights = torch.linspace(0.1, 1, 4, dtype=torch.float64)
    expected = loop.weighted_sum(units, weights)
    for block, value in engine.weighted_sum(units, weights).items():
        assert torch.allclose(value.double(), expected[block].double(), atol=1e-10)


def test_blanks_are_predicted_and_nothing_else():
    words = torch.full((500, LENGTH), 4)
    rows = Examples(words, words)
    views = MaskedWords(num_views=2, share=0.3)
    found = views.single(rows, torch.Generator().manual_seed(0))
    hidden = found.inputs == 1
    assert (found.targets[hidden] == 4).all()
    assert (found.targets[~hidden] == IGNORED).all()
    assert (found.inputs[~hidden] == 4).all()
    assert 0.25 < hidden.double().mean() < 0.35
    with pytest.raises(ConfigError, match="share is 1"):
        MaskedWords(share=1.0)
