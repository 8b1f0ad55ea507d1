"""From what `--task`, `--public` and `--test` say to sets of sequences of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privet.data.split import divided
from privet.data.text import TextSet, read_sequences, vocabulary_of
from privet.errors import ConfigError
from privet.recipes.sets import DataChoice, Sets, is_release, part_of, refuse_private

if TYPE_CHECKING:
    from numpy.typing import NDArray

TASKS = {"lm": True, "mlm": False}
"""Whether each word is predicted from those before it alone."""


def read_text_sets(choice: DataChoice, vocabulary: tuple[str, ...] | None = None) -> Sets[TextSet]:
    """Private, public and test sequences with one vocabulary.

    Guarantees:
        The vocabulary comes from public sequences: private ones are split off before it is made,
        and are not numbered until the hedge asks.

    Args:
        choice: where text comes from.
        vocabulary: of a run that knows it already.
    """
    causal = _causal(choice)
    parts = _parts(choice)
    if vocabulary is None:
        if parts["public"] is None:
            raise ConfigError(
                "The vocabulary comes from public text, never from private one: give --public, a "
                "share of the sequences or another text."
            )
        vocabulary = vocabulary_of(parts["public"])
    notes = []
    if choice.synthetic is not None and is_release(choice.synthetic):
        notes.append(
            "The synthetic text is a private release itself: if it was of this private text, its ε "
            "adds to this run's."
        )
    sets = {
        name: None if rows is None else TextSet(rows, vocabulary, causal)
        for name, rows in parts.items()
    }
    private = sets["private"]
    assert private is not None
    return Sets(
        private=private,
        public=sets["public"],
        test=sets["test"],
        synthetic=sets["synthetic"],
        notes=tuple(notes),
    )


def read_test_text(source: str, vocabulary: tuple[str, ...], causal: bool) -> TextSet:
    """Other text to test on, in the words that a model knows."""
    return TextSet(read_sequences(source), vocabulary, causal)


def _parts(choice: DataChoice) -> dict[str, NDArray[np.object_] | None]:
    """Sequences by what they are for."""
    sequences = read_sequences(choice.source)
    shares: dict[str, float | int | None] = {}
    others: dict[str, NDArray[np.object_] | None] = {"synthetic": None}
    for name, text in (("public", choice.public), ("test", choice.test)):
        part = part_of(text)
        if isinstance(part, str):
            refuse_private(name, part, choice.source)
            others[name] = read_sequences(part)
        shares[name] = None if isinstance(part, str) else part
    if choice.synthetic is not None:
        refuse_private("synthetic", choice.synthetic, choice.source)
        others["synthetic"] = read_sequences(choice.synthetic)
    places = divided(np.zeros(len(sequences), np.int64), **shares, seed=choice.seed)
    found = {"private": places.private, "public": places.public, "test": places.test}
    own = {name: None if rows is None else sequences[rows] for name, rows in found.items()}
    return own | others


def _causal(choice: DataChoice) -> bool:
    assert choice.task is not None
    if choice.task not in TASKS:
        raise ConfigError(
            f"--task is {choice.task!r}: give lm, to predict each word from those before it, or "
            "mlm, from those around it."
        )
    for name in ("resize", "channels", "target", "schema"):
        if getattr(choice, name) is not None:
            raise ConfigError(f"--{name} is not for text: leave it out, or --task.")
    return TASKS[choice.task]
