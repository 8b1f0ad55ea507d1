"""Plain text as sequences of words, and a vocabulary made of public ones.

A sequence is a unit of privacy, or all sequences of a user are: every word is in one sequence
alone, and no sequence has words of two users. Words become numbers by a vocabulary, which never
comes from private text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privet.data.column import Column
from privet.data.guard import reading, shown
from privet.data.tables import read_table, words
from privet.data.users import user_ids
from privet.errors import DataError
from privet.paths import as_path

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNKNOWN, BLANK, END = "<unk>", "<blank>", "<eos>"
"""What is not in a vocabulary; a start or a gap; the end of a line."""
SPECIAL = (UNKNOWN, BLANK, END)
BLANK_NUMBER = SPECIAL.index(BLANK)
PADDING = ""
"""Behind the last word of a user, or of a text: no word of it, and never predicted."""
UNPREDICTED = -100
"""The target in its place, as losses know it."""
LENGTH = 35
MOST_WORDS = 8000


def read_sequences(source: str | Path) -> NDArray[np.object_]:
    """All whole sequences of a text file, (N, 35) words; what is left at its end is dropped.

    Args:
        source: UTF-8 text, a sentence or a paragraph on each line.
    """
    path = as_path(source)
    if not path.is_file():
        raise DataError(f"{shown(path)} is no file; give a file of plain text.")
    with reading(path, "text in UTF-8"):
        text = path.read_bytes().decode("utf-8-sig")
    if not text.strip():
        raise DataError(f"{shown(path)} is empty; give a file of plain text.")
    if any(character < " " and character not in "\t\n\r\f\v" for character in set(text)):
        raise DataError(f"{shown(path)} is no plain text; it has control characters.")
    if "\n" not in text:
        raise DataError(
            f"{shown(path)} has no newline; put each sentence or paragraph on a line of its own."
        )
    return _cut(words_of(text), path)


def read_texts(source: str | Path, column: str, user: str | None = None) -> Texts:
    """All sequences of a table's column of texts, cut user by user, or text by text.

    So texts without a user leave the sequences of all others as they are, as users do.

    Args:
        source: a .csv, .parquet or .jsonl file.
        column: its texts, of one line or of several.
        user: the column that says whose each text is; `None` where sequences are units.
    """
    table = read_table(source)
    if column not in table.column_names:
        raise DataError(
            f"{shown(source)} has no column {shown(repr(column))} of texts; its columns are "
            f"{shown(', '.join(table.column_names))}."
        )
    try:
        texts = ["" if each is None else str(each) for each in words(table[column])]
    except DataError as error:
        raise DataError(
            f"The column {shown(repr(column))} of {shown(source)} cannot be read: {error}."
        ) from None
    if user is not None:
        return _by_user(texts, user_ids(table, user, source), source)
    each = np.arange(len(texts)).astype(np.str_)
    return Texts(_by_user(texts, each, source).sequences)


def words_of(text: str) -> list[str]:
    """The words of a text, split at spaces, with an end mark after each line that has some."""
    return [word for line in text.splitlines() if line.strip() for word in (*line.split(), END)]


def _cut(found: list[str], where: object) -> NDArray[np.object_]:
    count = len(found) // LENGTH
    if not count:
        raise DataError(
            f"{shown(where)} is shorter than one sequence; give {LENGTH} words or more."
        )
    return np.array(found[: count * LENGTH], dtype=object).reshape(count, LENGTH)


def _by_user(texts: list[str], ids: NDArray[np.str_], where: object) -> Texts:
    """Cut each user's texts into sequences; the last sequence of each user is filled up."""
    found: dict[str, list[str]] = {}
    for text, user in zip(texts, ids.tolist(), strict=True):
        found.setdefault(user, []).extend(words_of(text))
    for own in found.values():
        own.extend([PADDING] * (-len(own) % LENGTH))
    counts = [len(own) // LENGTH for own in found.values()]
    if not sum(counts):
        raise DataError(f"{shown(where)} has no words in its column of texts; give some.")
    everything = [word for own in found.values() for word in own]
    return Texts(
        np.array(everything, dtype=object).reshape(-1, LENGTH), np.repeat(list(found), counts)
    )


@dataclass(frozen=True, eq=False)
class Texts:
    """Sequences of words, and the user of each.

    Args:
        sequences: (N, 35) words.
        users: the user of each sequence; `None` where sequences are units.
    """

    sequences: NDArray[np.object_]
    users: NDArray[np.str_] | None = None


def vocabulary_of(public: NDArray[np.object_]) -> tuple[str, ...]:
    """The most frequent words of public sequences, after the special ones."""
    counts = Counter(public.ravel().tolist())
    known = [word for word in counts if word not in (*SPECIAL, PADDING)]
    found = sorted(known, key=lambda word: (-counts[word], word))[:MOST_WORDS]
    return (*SPECIAL, *found)


def numbered(sequences: NDArray[np.object_], vocabulary: tuple[str, ...]) -> NDArray[np.int64]:
    """The number of each word; 0 for a word that the vocabulary lacks."""
    numbers = {word: number for number, word in enumerate(vocabulary) if word != BLANK}
    numbers[PADDING] = BLANK_NUMBER
    flat = [numbers.get(word, 0) for word in sequences.ravel()]
    return np.array(flat, np.int64).reshape(sequences.shape)


@dataclass(frozen=True, eq=False, repr=False)
class TextSet:
    """Sequences whose words become numbers when their columns are asked for.

    Args:
        sequences: (N, length) words.
        class_names: the vocabulary: to predict a word is to choose among classes.
        causal: whether each word is predicted from those before it; else from all others.
    """

    sequences: NDArray[np.object_]
    class_names: tuple[str, ...]
    causal: bool

    def __len__(self) -> int:
        return len(self.sequences)

    def __repr__(self) -> str:
        return f"TextSet(sequences of {self.sequences.shape[1]}, {self.num_classes:,} words)"

    @property
    def num_classes(self) -> int:
        """The size of the vocabulary."""
        return len(self.class_names)

    def columns(self) -> dict[str, Column]:
        """Inputs and targets, under the names by which training asks for them."""
        seen = numbered(self.sequences, self.class_names)
        wanted = np.where(self.sequences == PADDING, UNPREDICTED, seen)
        return {"images": after_start(seen) if self.causal else seen, "labels": wanted}


def after_start(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Move words one place on, behind a start word: what each next word is predicted from."""
    start = np.full((len(words), 1), BLANK_NUMBER, np.int64)
    return np.concatenate([start, words[:, :-1]], axis=1)
