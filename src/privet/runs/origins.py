"""What a source is made of: rows that are called public may be private ones, or a release."""

from __future__ import annotations

from typing import NamedTuple

from privet.data import load
from privet.errors import ConfigError, DataError
from privet.paths import overlap
from privet.runs.data_choice import DataChoice, placed
from privet.runs.made_of import is_release, made_of


class Doubt(NamedTuple):
    """What the guarantee takes for granted of rows that are called public.

    Args:
        words: what the certificate says of them.
        note: the same, said to whoever started the run.
    """

    words: str
    note: str


def refuse_private(name: str, source: str, private: str) -> None:
    """Refuse a source that overlaps the private data: naming it public does not make it so."""
    if is_made_of(source, private):
        raise ConfigError(
            f"--{name} was made of the private data themselves, and without privacy: make it of "
            "public ones."
        )
    if reads_private(name, source, private):
        raise ConfigError(
            f"--{name} names the private data themselves, or a part of them: give a share of them, "
            "such as 0.1, or another source."
        )


def reads_private(name: str, source: str, private: str) -> bool:
    """Whether `--name source` would read private rows; a test part of theirs has none."""
    if not overlap(placed(source), placed(private)):
        return False
    itself = name == "test" and placed(source) == placed(private)
    return not (itself and has_part(source, "train") and has_part(source, "test"))


def is_made_of(source: str, private: str) -> bool:
    """Whether a diffusion model made images of private ones, without privacy."""
    return any(overlap(placed(each), placed(private)) for each in made_of(source).places)


def has_part(source: str, part: str) -> bool:
    """Whether a source has a part of that name."""
    try:
        load(source, part=part, memory_limit=0)
    except DataError:
        return False
    return True


def doubts_of(choice: DataChoice) -> tuple[Doubt, ...]:
    """What is taken for granted of public, test and synthetic rows that were made of others."""
    sources = {**choice.parts, "synthetic": choice.synthetic}
    named = ((name, source) for name, source in sources.items() if isinstance(source, str))
    return tuple(doubt for name, source in named for doubt in doubts(f"{name} rows", source))


def doubts(name: str, source: str) -> tuple[Doubt, ...]:
    """What is taken for granted of one source, if anything is.

    Args:
        name: what its rows are called.
        source: where they lie.
    """
    released = (of_a_release(name),) if is_release(source) else ()
    return released if made_of(source).known else (*released, of_unknown_rows(name))


def of_a_release(name: str) -> Doubt:
    """Rows that came out of a hedge."""
    return Doubt(
        f"{name} that are a private release: its ε adds to this one if it was of these rows",
        f"The {name} are a private release themselves: if it was of these private rows, its ε "
        "adds to this run's.",
    )


def of_unknown_rows(name: str) -> Doubt:
    """Rows that were made of others without privacy, and nobody here knows of which."""
    return Doubt(
        f"{name} that were made of others without privacy, which are not known here: declared not "
        "to be these rows",
        f"The {name} were made of others without privacy, and nothing here says of which: this "
        "run takes your word that they are not its private ones.",
    )
