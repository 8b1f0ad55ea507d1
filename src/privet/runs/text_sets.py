"""From what `--task`, `--target`, `--user`, `--public` and `--test` say to sequences of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privet.data.guard import shown
from privet.data.split import divided, divided_by_user
from privet.data.tables import SUFFIXES, read_table
from privet.data.text import Texts, TextSet, read_sequences, read_texts, vocabulary_of
from privet.data.users import require_other_users, user_ids
from privet.errors import ConfigError
from privet.runs.aside import digests, text_bytes
from privet.runs.data_choice import DataChoice
from privet.runs.origins import doubts_of, refuse_private
from privet.runs.sets import Sets

if TYPE_CHECKING:
    from numpy.typing import NDArray

TASKS = {"lm": True, "mlm": False}
"""Whether a task predicts each word from those before it alone."""


def read_text_sets(choice: DataChoice, vocabulary: tuple[str, ...] | None = None) -> Sets[TextSet]:
    """Read private, public and test sequences with one vocabulary.

    Guarantees:
        The vocabulary comes from public sequences: private ones are split off before it is made,
        and are not numbered until the hedge asks.

    Args:
        choice: where text comes from.
        vocabulary: the vocabulary of a run that knows it already; None for a new run.
    """
    causal = _causal(choice)
    parts, users = _parts(choice)
    notes = _notes_of_users(choice, users)
    shares = [name for name, part in choice.parts.items() if not isinstance(part, str)]
    if vocabulary is None:
        if parts["public"] is None:
            raise ConfigError(
                "The vocabulary comes from public text, never from private one: give --public, a "
                f"share of the {'sequences' if users is None else 'users'} or another text."
            )
        vocabulary = vocabulary_of(parts["public"])
    sets = {
        name: None if rows is None else TextSet(rows, vocabulary, causal)
        for name, rows in parts.items()
    }
    private = sets["private"]
    assert private is not None
    found = Sets(
        private=private,
        public=sets["public"],
        test=sets["test"],
        synthetic=sets["synthetic"],
        notes=tuple(notes),
        aside=digests({name: text_bytes(parts[name]) for name in shares}, choice.aside),
        users=users,
    )
    return found.with_doubts(*doubts_of(choice))


def read_test_text(
    source: str, vocabulary: tuple[str, ...], causal: bool, choice: DataChoice
) -> TextSet:
    """Read other text to test on, in the words that a model knows; a table as the run's own was."""
    return TextSet(_other(source, choice), vocabulary, causal)


def _parts(
    choice: DataChoice,
) -> tuple[dict[str, NDArray[np.object_] | None], NDArray[np.str_] | None]:
    """Read sequences by what they are for; tell whose the private ones are."""
    text = _read(choice)
    shares: dict[str, float | int | None] = {}
    others: dict[str, NDArray[np.object_] | None] = {"synthetic": None}
    for name, part in choice.parts.items():
        if isinstance(part, str):
            refuse_private(name, part, choice.source)
            others[name] = _other(part, choice)
        shares[name] = None if isinstance(part, str) else part
    if choice.synthetic is not None:
        refuse_private("synthetic", choice.synthetic, choice.source)
        others["synthetic"] = _other(choice.synthetic, choice)
    if text.users is None:
        places = divided(np.zeros(len(text.sequences), np.int64), **shares, seed=choice.seed)
    else:
        places = divided_by_user(text.users, **shares, seed=choice.seed)
    found = {"private": places.private, "public": places.public, "test": places.test}
    own = {name: None if rows is None else text.sequences[rows] for name, rows in found.items()}
    return own | others, None if text.users is None else text.users[places.private]


def _notes_of_users(choice: DataChoice, users: NDArray[np.str_] | None) -> list[str]:
    """Refuse other texts of private users; say of which that is not known."""
    notes: list[str] = []
    for name, part in choice.parts.items():
        if choice.user is None or users is None or not isinstance(part, str):
            continue
        table, ids = read_table(part) if _is_table(part) else None, None
        if table is not None and choice.user in table.column_names:
            ids = user_ids(table, choice.user, part)
        notes += require_other_users(name, users, ids)
    return notes


def _read(choice: DataChoice) -> Texts:
    """Read the private text and what is split off it."""
    if choice.target is None:
        if _is_table(choice.source):
            raise ConfigError("DATA is a table: name its column of texts with --target.")
        if choice.user is not None:
            raise ConfigError(
                "--user names a column of a table: give --target too, its column of texts."
            )
        return Texts(read_sequences(choice.source))
    if choice.user == choice.target:
        raise ConfigError(
            f"--user and --target both name the column {shown(repr(choice.user))}: whose a text is "
            "cannot be what is learned."
        )
    return read_texts(choice.source, choice.target, choice.user)


def _other(source: str, choice: DataChoice) -> NDArray[np.object_]:
    """Read text that is not private: plain, or a table with a column of texts of the same name."""
    if not _is_table(source):
        return read_sequences(source)
    if choice.target is None:
        raise ConfigError(
            f"{shown(source)} is a table and DATA is plain text: give both alike, with --target."
        )
    return read_texts(source, choice.target).sequences


def _is_table(source: str) -> bool:
    return source.lower().endswith(SUFFIXES)


def _causal(choice: DataChoice) -> bool:
    assert choice.task is not None
    if choice.task not in TASKS:
        raise ConfigError(
            f"--task is {choice.task!r}: give lm, to predict each word from those before it, or "
            "mlm, from those around it."
        )
    for name in ("resize", "channels", "schema"):
        if getattr(choice, name) is not None:
            raise ConfigError(f"--{name} is not for text: leave it out, or --task.")
    return TASKS[choice.task]
