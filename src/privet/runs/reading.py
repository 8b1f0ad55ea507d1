"""Rows of any kind, from what a run was told of its data."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from privet.data import ImageSet
from privet.data.guard import shown
from privet.data.text import LENGTH
from privet.errors import ConfigError
from privet.learn.objective import Examples
from privet.learn.views import Views
from privet.public import PublicRows
from privet.recipes.row_kinds import ImageRows, RowKind, TableRows, TextRows
from privet.runs.data_choice import DataChoice, from_the_run
from privet.runs.origins import refuse_private
from privet.runs.protected import refuse_protected
from privet.runs.run_folder import RunFolder
from privet.runs.sets import RowSet, Sets, read_sets, read_test
from privet.runs.table_sets import is_table, read_table_sets, read_test_table
from privet.runs.text_sets import read_test_text, read_text_sets
from privet.runs.train_config import RunConfig


def read_rows(choice: DataChoice, *, unread: bool = False) -> tuple[RowKind, Sets[Any]]:
    """Read all sets of rows, and tell what kind of rows they are.

    Args:
        choice: where they come from.
        unread: leave images undecoded where their format allows it.
    """
    if choice.task is not None:
        texts = read_text_sets(choice)
        return TextRows(length=LENGTH, causal=texts.private.causal), texts
    if is_table(choice):
        tables = read_table_sets(choice)
        kind = TableRows(schema=tables.private.schema, declared=choice.schema is not None)
        return kind, tables
    images = read_sets(choice, unread=unread)
    return ImageRows(shape=images.private.image_shape), images


def public_rows(rows: RowSet) -> PublicRows:
    """Copy a set that is not private into memory."""
    if isinstance(rows, ImageSet):
        return PublicRows.from_images(rows)
    inputs, labels = (np.asarray(each[:]) for each in rows.columns().values())
    return PublicRows(torch.tensor(inputs), torch.tensor(labels))


def tested_words(rows: PublicRows, views: Views) -> Examples:
    """Make test sequences as a model of words is asked, with the same blanks each time."""
    return views.single(Examples(rows.inputs, rows.targets), torch.Generator().manual_seed(0))


def read_test_rows(
    folder: RunFolder, config: RunConfig, test: str | None
) -> tuple[RowSet, str, list[str]]:
    """Read rows to measure a finished run on; say where they come from, and what to note.

    Args:
        folder: the run's folder.
        config: the configuration of the run.
        test: another source of rows; None takes the rows that the run had.
    """
    rows = config.rows
    if test is not None:
        refuse_private("test", test, config.data.source)
        notes = refuse_protected(folder, test)
        if isinstance(rows, TableRows):
            return read_test_table(test, rows.schema), shown(test), notes
        if isinstance(rows, TextRows):
            text = read_test_text(test, config.class_names, rows.causal, config.data)
            return text, shown(test), notes
        images, more = read_test(test, config.data, _like(config))
        return images, shown(test), [*notes, *more]
    if config.data.test is None:
        raise ConfigError("The run had no test set: give one with --test.")
    sets: Sets[Any]
    if isinstance(rows, TableRows):
        sets = read_table_sets(config.data, rows.schema)
    elif isinstance(rows, TextRows):
        sets = read_text_sets(config.data, config.class_names)
    else:
        sets = read_sets(config.data)
    assert sets.test is not None
    return sets.test, from_the_run(config.data.test), list(sets.notes)


def _like(config: RunConfig) -> ImageSet:
    """Make an empty set with the shape and the classes that the model knows."""
    none = np.empty((0, *config.rows.shape), np.uint8)
    return ImageSet(none, np.empty(0, np.int64), config.class_names)
