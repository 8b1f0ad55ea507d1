"""Ctrl-C where it does no harm."""

import signal
import threading

import pytest
import torch

from privet.hedge import PerRow
from privet.hedge.clipping import clipped_sum
from privet.recipes.interrupts import Stoppable, undisturbed
from tests.hedge.summands import units


def press():
    signal.raise_signal(signal.SIGINT)


def test_it_waits_until_the_end():
    done = []

    def work():
        with undisturbed():
            press()
            press()
            done.append("everything")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["everything"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_is_let_through_on_request():
    done = []

    def work():
        with undisturbed() as let_through:
            let_through()
            press()
            done.append("something")
            let_through()
            done.append("more")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["something"]


def test_a_failure_comes_first():
    def work():
        with undisturbed():
            press()
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        work()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_machine_that_shuts_down_waits_too():
    heard, done = [], []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with undisturbed():
            signal.raise_signal(signal.SIGTERM)
            done.append(list(heard))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (done, heard) == ([[]], [signal.SIGTERM])


def test_nothing_happens_if_nobody_presses():
    with undisturbed() as let_through:
        let_through()


def test_other_threads_have_no_signals():
    done = []

    def work():
        with undisturbed() as let_through:
            let_through()
            done.append("everything")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == ["everything"]


def test_a_sum_stops_before_its_next_batch():
    seen = []

    def rows(batch):
        seen.append(len(batch))
        if len(seen) == 2:
            press()
        return batch["x"]

    batches = [units({"x": torch.ones(3, 2).numpy()}) for _ in range(4)]
    with pytest.raises(KeyboardInterrupt), undisturbed() as let_through:
        clipped_sum(batches, Stoppable(PerRow(rows, 2), let_through), 1.0)
    assert seen == [3, 3]


def test_a_stoppable_sum_is_the_sum():
    summand = PerRow(lambda batch: batch["x"], 2)
    batches = [units({"x": torch.arange(6.0).reshape(3, 2).numpy()})]
    with undisturbed() as let_through:
        found = clipped_sum(batches, Stoppable(summand, let_through), 1.0)
    torch.testing.assert_close(found["sum"], clipped_sum(batches, summand, 1.0)["sum"])
