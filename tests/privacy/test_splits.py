"""Rows that one run protects are public in no other run of the same ledger."""

import pytest

from privet.errors import PrivacyError
from privet.privacy import GaussianRelease, Ledger, Plan
from privet.privacy.splits import Split

PLAN = Plan.of(GaussianRelease(noise_multiplier=20.0))
SPLIT = Split(source="scans.npz", aside="--public 0.3 --seed 0")


@pytest.fixture
def owner(tmp_path):
    return Ledger.create(tmp_path / "l.db", epsilon=10, delta=1e-5, relation="add-remove")


def test_equal_splits_other_sources_and_unknown_ones_go_together(owner):
    for split in (SPLIT, SPLIT, Split(source="others.npz"), None):
        owner.require_room(PLAN, split=split)
        owner.reserve(plan=PLAN, split=split)
    found = [each.split for each in Ledger.open(owner.path).records()]
    assert found == [SPLIT, SPLIT, Split(source="others.npz"), None]


@pytest.mark.parametrize("aside", ["--public 0.3 --seed 1", "--public 0.2 --seed 0", ""])
def test_trap_another_split_of_the_same_data_is_refused(owner, aside):
    owner.reserve(plan=PLAN, split=SPLIT, label="first")
    other = Split(source=SPLIT.source, aside=aside)
    for attempt in (owner.require_room, lambda plan, split: owner.reserve(plan=plan, split=split)):
        with pytest.raises(PrivacyError, match=r"first set --public 0\.3 --seed 0 aside"):
            attempt(PLAN, split=other)
    assert len(owner.records()) == 1


def test_a_run_that_read_nothing_binds_nobody(owner):
    owner.reserve(plan=PLAN, split=SPLIT).close()
    owner.reserve(plan=PLAN, split=Split(source=SPLIT.source))


def test_trap_the_same_data_do_not_lie_in_two_portions(owner):
    for name in ("spring", "autumn"):
        owner.declare_portion(name)
    owner.reserve(plan=PLAN, split=SPLIT, portion="spring", label="first")
    with pytest.raises(PrivacyError, match="in the portion 'spring'"):
        owner.reserve(plan=PLAN, split=SPLIT, portion="autumn")
    owner.reserve(plan=PLAN, split=SPLIT, portion="spring")
    owner.reserve(plan=PLAN, split=SPLIT)
