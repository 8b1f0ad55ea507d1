"""Kills, races and forks: what one ledger promises to several processes, and to dead ones."""

import importlib.util
import json
import math
import os
import select
import sys
import traceback
from itertools import chain
from pathlib import Path

import pytest
import torch

from privet.errors import BudgetExceeded, PrivacyError
from privet.privacy import RDP, GaussianRelease, Ledger, Plan, PoissonSteps
from privet.privacy.filter import RenyiFilter
from privet.privacy.records import State

# From Python 3.12 on, a fork beside threads warns; these children use none of them.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
TERMS = {"epsilon": 1.0, "delta": 1e-5, "relation": "add-remove"}
PROCESSES = 8


@pytest.fixture
def ledger_path(tmp_path):
    """A new ledger that nobody holds open."""
    torch.set_num_threads(1)
    path = tmp_path / "ledger.db"
    Ledger.create(path, **TERMS).close()
    return path


def gaussian(sigma, releases=1):
    return Plan.of(GaussianRelease(noise_multiplier=sigma, releases=releases))


def small_plan(sigma):
    return Plan.of(
        GaussianRelease(noise_multiplier=sigma, releases=2),
        PoissonSteps(sampling_rate=0.1, noise_multiplier=sigma, steps=3),
    )


def epsilon_by_hand(events, order, delta):
    """Mironov, Talwar and Zhang, 2019, Section 3.3; Canonne et al., 2020, Proposition 12."""
    conversion = math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
    return conversion + sum(event.count * divergence(event, order) for event in events)


def divergence(event, order):
    if isinstance(event, GaussianRelease):
        return order / (2 * event.noise_multiplier**2)
    q, sigma = event.sampling_rate, event.noise_multiplier
    moment = math.fsum(
        math.comb(order, k) * (1 - q) ** (order - k) * q**k * math.exp(k * (k - 1) / 2 / sigma**2)
        for k in range(order + 1)
    )
    return math.log(moment) / (order - 1)


def fork(work):
    """Run `work()` in a child; returns a function that waits for its JSON answer."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            answer = {"value": work()}
        except BaseException:
            answer = {"failure": traceback.format_exc()}
        with os.fdopen(writing, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writing)

    def answer():
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        found = json.loads(said)
        assert "failure" not in found, found["failure"]
        return found["value"]

    return answer


def race(work):
    """Let children run `work(number)` from one starting signal; their answers."""
    waiting, go = os.pipe()

    def start(number):
        os.close(go)  # or the signal, which is the end of the pipe, would never come
        os.read(waiting, 1)
        return work(number)

    answers = [fork(lambda number=number: start(number)) for number in range(PROCESSES)]
    os.close(go)
    os.close(waiting)
    return [answer() for answer in answers]


class Turns:
    """Two processes that take turns."""

    def __init__(self):
        self._to_child, self._to_parent = os.pipe(), os.pipe()

    def to_child(self):
        os.write(self._to_child[1], b".")

    def to_parent(self):
        os.write(self._to_parent[1], b".")

    def wait_in_child(self):
        self._wait(self._to_child[0])

    def wait_in_parent(self):
        self._wait(self._to_parent[0])

    def _wait(self, descriptor):
        if not select.select([descriptor], [], [], 60)[0]:
            raise TimeoutError("the other process did not take its turn")
        os.read(descriptor, 1)


def test_killed_processes_never_take_a_result_out_of_the_books(tmp_path):
    found = crash_ledger().storm(tmp_path, kills=48, seed=1)
    assert found["child_errors"] == []
    assert found["violations"] == []
    assert found["kills"] == 48
    assert found["witnessed_results"] > 5  # fewer than usual on a busy machine
    assert found["counted_results"] >= found["witnessed_results"]
    assert found["counted_results"] <= found["witnessed_results"] + found["kills"]
    assert found["resumed_reservations"] > 5
    assert found["killed_while"]["reserving"] > 0
    assert found["killed_while"]["releasing"] > 0


def test_racing_processes_never_jointly_overspend(ledger_path):
    def reserve_until_refused(number):
        ledger, grants = Ledger.open(ledger_path), []
        while True:
            sigma = 20.0 + 3 * number + len(grants) % 5
            plan = small_plan(sigma)
            try:
                reservation = ledger.reserve(plan=plan, label=f"process {number}")
            except BudgetExceeded:
                return grants
            reservation.spend(plan.events[0])
            grants.append(reservation.id)
            if len(grants) % 4 == 0:  # opening and closing is part of the race
                ledger.close()
                ledger = Ledger.open(ledger_path)

    grants = race(reserve_until_refused)  # each process ends by a refusal, or fails the test
    ledger = Ledger.open(ledger_path)
    records = ledger.records()
    assert sorted(record.id for record in records) == sorted(chain.from_iterable(grants))
    assert all(record.spent == (1, 0) and record.state is State.OPEN for record in records)
    assert not any(record.alone for record in records)
    assert sum(map(bool, grants)) > 1, "only one process was ever granted anything"

    renyi = RenyiFilter.for_budget(ledger.budget, ledger.relation)
    events = [event for record in records for event in record.plan.events]
    counted = RDP(orders=(float(renyi.order),)).epsilon(events, 1e-5, ledger.relation)
    assert counted <= ledger.budget.epsilon
    assert counted == pytest.approx(epsilon_by_hand(events, renyi.order, 1e-5), rel=1e-6)
    assert renyi.admits(events)
    assert not renyi.admits([*events, *small_plan(20.0).events])  # it is full
    ledger.close()


def test_racing_processes_share_one_reservation_exactly(ledger_path):
    count = 120
    event = GaussianRelease(noise_multiplier=500.0)
    ledger = Ledger.open(ledger_path)
    reservation_id = ledger.reserve(plan=gaussian(500.0, count)).id
    ledger.close()

    def spend_until_refused(_):
        reservation, numbers = Ledger.open(ledger_path).resume(reservation_id), []
        while True:
            try:
                numbers.append(reservation.spend(event).number)
            except PrivacyError as refusal:
                if "are spent" not in str(refusal):
                    raise
                return numbers

    numbers = race(spend_until_refused)
    assert sorted(chain.from_iterable(numbers)) == list(range(count))
    assert Ledger.open(ledger_path).resume(reservation_id).record.spent == (count,)


def test_a_ledger_opened_before_a_fork_serves_both_sides_in_turn(ledger_path):
    ledger, turns = Ledger.open(ledger_path), Turns()
    shared = ledger.reserve(plan=gaussian(500.0, 20))
    event = shared.plan.events[0]

    def child():
        seen = []
        for _ in range(5):
            turns.wait_in_child()
            ledger.reserve(plan=gaussian(800.0), label="child")
            seen.append([len(ledger.records()), shared.spend(event).number])
            turns.to_parent()
        return seen

    answer, seen = fork(child), []
    for _ in range(5):
        ledger.reserve(plan=gaussian(900.0), label="parent")
        seen.append([len(ledger.records()), shared.spend(event).number])
        turns.to_child()
        turns.wait_in_parent()
    assert seen == [[2 + 2 * i, 2 * i] for i in range(5)]
    assert answer() == [[3 + 2 * i, 2 * i + 1] for i in range(5)]
    ledger.close()
    assert len(Ledger.open(ledger_path).records()) == 11


@pytest.mark.parametrize("closing", ["parent", "child"])
def test_one_side_of_a_fork_may_close_the_ledger_while_the_other_goes_on(ledger_path, closing):
    ledger, turns = Ledger.open(ledger_path), Turns()
    ledger.reserve(plan=gaussian(900.0))

    def child():
        ledger.reserve(plan=gaussian(901.0))
        if closing == "child":
            ledger.close()
        turns.to_parent()
        turns.wait_in_child()
        if closing == "parent":
            ledger.reserve(plan=gaussian(902.0)).spend(GaussianRelease(noise_multiplier=902.0))

    answer = fork(child)
    turns.wait_in_parent()
    if closing == "parent":
        ledger.close()
    else:
        ledger.reserve(plan=gaussian(902.0)).spend(GaussianRelease(noise_multiplier=902.0))
    turns.to_child()
    answer()
    records = fork(lambda: [list(r.spent) for r in Ledger.open(ledger_path).records()])()
    assert records == [[0], [0], [1]], "a granted reservation or a spend was lost"
    ledger.close()


def crash_ledger():
    """The machinery that the benchmark of the same name runs for longer."""
    if "crash_ledger" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "crash_ledger", BENCHMARKS / "crash_ledger.py"
        )
        sys.modules["crash_ledger"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["crash_ledger"])
    return sys.modules["crash_ledger"]
