"""The release study's bookkeeping: which runs are missing, what is kept, what rows say."""

import argparse
import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from privet.release.embedding import COUNTS

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def study(monkeypatch):
    """A module of the study by its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def run_of(**changes):
    return {
        "data": "mnist",
        "method": "sps-g",
        "epsilon": 1.0,
        "seed": 0,
        "relation": "add-remove",
        "accuracies": {"logistic": 0.8, "cnn": 0.9},
        "seconds": 10.0,
        "images": 100,
        "iterations": 5,
    } | changes


def test_rows_are_means_over_seeds_with_their_bound(study):
    runs = [
        run_of(),
        run_of(seed=1, accuracies={"logistic": 0.6, "cnn": 0.7}, seconds=20.0),
        run_of(epsilon=None, accuracies={"logistic": 0.85, "cnn": 0.95}),
        run_of(method="real", epsilon=None),
    ]
    found = study("release_table").rows(runs)
    first = found[0]
    assert first["accuracy"] == pytest.approx(0.7)
    assert first["std"] == pytest.approx(0.2 / np.sqrt(2))
    assert (first["seeds"], first["seconds"], first["iterations"]) == ([0, 1], 15.0, 5)
    assert [row["no_noise"] for row in found] == [0.85, 0.95, None, None, None, None]


def test_rows_of_runs_from_before_iterations_were_kept(study):
    old = run_of()
    del old["iterations"]
    rows = study("release_table").rows([old])
    assert [row["iterations"] for row in rows] == [None, None]
    assert [row["no_noise"] for row in rows] == [None, None]


def test_a_classifier_that_only_later_runs_have_is_a_row_too(study):
    late = run_of(seed=1, accuracies={"logistic": 0.6, "cnn": 0.7, "discriminant": 0.5})
    rows = {row["classifier"]: row for row in study("release_table").rows([run_of(), late])}
    assert rows["discriminant"]["seeds"] == [1]


def test_the_kept_file_of_the_study_can_be_read(study):
    table = study("release_table")
    runs = json.loads(table.OUT.read_text())["runs"]
    assert len(table.rows(runs)) >= 4


def test_sizes_of_classes_fall_by_the_same_share(study):
    sizes = study("release_data").geometric_sizes(6000, 600, 10)
    assert (sizes[0], sizes[-1], len(sizes)) == (6000, 600, 10)
    shares = np.divide(sizes[1:], sizes[:-1])
    assert shares == pytest.approx(np.full(9, 0.1 ** (1 / 9)), rel=1e-3)


def test_classes_get_their_sizes_and_rows_their_order(study):
    labels = np.array([2, 0, 1, 0, 2, 2, 0, 1])
    rows = study("release_data").unevenly(labels, [3, 2, 1])
    assert rows.tolist() == [0, 1, 2, 3, 6, 7]


@dataclass(frozen=True)
class Task:
    number: int
    described: str = "first settings"

    @property
    def key(self):
        return {"kind": "task", "number": self.number}


def options(**changes):
    return argparse.Namespace(
        **{"only": "", "minutes": 1.0, "stale": False, "list": False} | changes
    )


def do(task):
    return {"accuracies": {"cnn": task.number}}


def test_what_is_kept_is_not_done_again(study, tmp_path):
    kept, path, done = study("kept_rows"), tmp_path / "rows.json", []

    def counted(task):
        done.append(task.number)
        return do(task)

    for chosen in (options(only=" 2 "), options(), options(list=True)):
        tasks = [Task(number) for number in (1, 2, 12)]
        kept.do_missing(path, tasks, counted, lambda runs: {"count": len(runs)}, chosen)
    assert done == [2, 1, 12]
    assert json.loads(path.read_text())["count"] == 3


def test_stale_runs_are_replaced_when_that_is_asked(study, tmp_path):
    kept, path = study("kept_rows"), tmp_path / "rows.json"
    for chosen in (options(), options(), options(stale=True)):
        settings = "first settings" if not path.exists() else "other settings"
        kept.do_missing(path, [Task(1, settings)], do, lambda runs: {}, chosen)
        if not chosen.stale:
            assert kept.kept(path)[0]["described"] == "first settings"
    [run] = kept.kept(path)
    assert run["described"] == "other settings"


def test_keys_are_matched_by_all_they_say(study):
    same = study("kept_rows").same_key
    assert same({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2})
    assert not same({"a": 1, "b": 2}, {"a": 1, "b": 3})
    assert not same({"a": None}, {"a": 1.0})


def test_no_two_runs_have_the_same_key(study):
    keys = [tuple(each.key.items()) for each in study("release_settings").all_runs()]
    assert len(set(keys)) == len(keys)
    rows = [tuple(each.key.items()) for each in study("release_ablations").all_ablations()]
    assert len(set(rows)) == len(rows)
    assert {row[0][1] for row in rows} == set(study("release_ablations").TITLES)


def test_stages_of_the_continual_study_are_told_apart(study):
    keys = [tuple(each.key.values()) for each in study("continual").tasks()]
    assert len(set(keys)) == len(keys) == 2 * len(study("continual").SEEDS)


def test_even_counts_keep_their_total(study):
    counts = torch.tensor([[6.0], [3.0], [0.0]])
    blocks = {f"{COUNTS}.mean": counts, "other": torch.ones(2)}
    even = study("release_making").evenly(blocks)
    assert even[f"{COUNTS}.mean"].tolist() == [[3.0], [3.0], [3.0]]
    assert even["other"] is blocks["other"]
    assert counts[0] == 6


def test_small_sets_are_seen_more_often(study):
    classifiers = study("release_classifiers")
    config = classifiers.ClassifierTraining(batch_size=100)
    epochs = [classifiers.with_steps(config, n, 600).epochs for n in (50, 1000, 10_000, 10**6)]
    assert epochs == [600, 60, 6, 1]


def test_sheets_are_small_enough(study):
    from PIL import Image

    noise = np.random.default_rng(0).integers(256, size=(300, 300, 3)).astype(np.uint8)
    sheets = study("release_sheets")
    assert len(sheets.encoded(Image.fromarray(noise))) <= sheets.MOST_BYTES


def test_candidates_of_the_screen_start_from_the_study(study):
    screen = study("release_screen")
    frozen = study("release_settings").SYSTEMS["sps-g"]
    assert screen.candidate("") == frozen
    changed = screen.candidate("deep=64,shrinkage=0.5,iterations=7")
    assert (changed.deep, changed.cleaning.shrinkage, changed.training.iterations) == (64, 0.5, 7)
    assert changed.cleaning.least_jitter == frozen.cleaning.least_jitter
