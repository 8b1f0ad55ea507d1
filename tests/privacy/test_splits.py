"""Rows that one run protects are public in no other run of the same ledger."""

from dataclasses import replace

import pytest

from privet.errors import PrivacyError
from privet.privacy import GaussianRelease, Ledger, Plan
from privet.privacy.splits import Split

PLAN = Plan.of(GaussianRelease(noise_multiplier=20.0))
SPLIT = Split(source="scans.npz", aside="--public 0.3 --seed 0", digest="abcd")


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
    other = replace(SPLIT, aside=aside)
    for attempt in (owner.require_room, lambda plan, split: owner.reserve(plan=plan, split=split)):
        with pytest.raises(PrivacyError, match=r"first set --public 0\.3 --seed 0 aside"):
            attempt(PLAN, split=other)
    assert len(owner.records()) == 1


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(SPLIT, user="clinic"), "protected rows of the same data, and this run the users"),
        (replace(SPLIT, digest="ef01"), "set other rows of the same data aside"),
        (Split(source="x.npz", others=("scans.npz",)), "Rows of scans.npz are protected in one"),
    ],
)
def test_trap_other_users_other_rows_and_other_roles_are_refused(owner, other, said):
    owner.reserve(plan=PLAN, split=SPLIT, label="first")
    with pytest.raises(PrivacyError, match=said):
        owner.reserve(plan=PLAN, split=other)
    assert len(owner.records()) == 1


def test_trap_rows_that_were_public_once_are_never_private(owner):
    owner.reserve(plan=PLAN, split=replace(SPLIT, others=("letters.npz",)), label="first")
    with pytest.raises(PrivacyError, match=r"Rows of letters\.npz are protected in one of both"):
        owner.reserve(plan=PLAN, split=Split(source="letters.npz"))


def test_trap_a_folder_and_a_file_in_it_are_the_same_data(owner, tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    (folder / "train-images").write_bytes(b"")
    (tmp_path / "link").hardlink_to(folder / "train-images")
    for name in ("spring", "autumn"):
        owner.declare_portion(name)
    owner.reserve(plan=PLAN, split=Split(source=str(folder)), portion="spring", label="first")
    for place in (folder / "train-images", tmp_path / "link", tmp_path):
        other = Split(source=str(place))
        with pytest.raises(PrivacyError, match="read the same data in the portion 'spring'"):
            owner.reserve(plan=PLAN, split=other, portion="autumn")
        with pytest.raises(PrivacyError, match="name the data as it did"):
            owner.reserve(plan=PLAN, split=replace(other, aside="--public 9 --seed 0"))
    owner.reserve(plan=PLAN, split=Split(source=str(tmp_path)))  # adds up with all of them


def test_files_are_looked_at_once_and_while_nobody_waits(owner, tmp_path, monkeypatch):
    looked, places = [], [tmp_path / name for name in ("a", "b", "c")]
    monkeypatch.setattr("privet.paths._files", lambda place: looked.append(place) or {(0, place)})
    for place in places:
        owner.reserve(plan=PLAN, split=Split(source=str(place), others=(str(tmp_path / "p"),)))
        assert len(looked) == len(set(looked))
        looked.clear()


def test_a_digest_that_is_not_known_says_nothing(owner):
    owner.reserve(plan=PLAN, split=replace(SPLIT, digest=""))
    owner.reserve(plan=PLAN, split=SPLIT)


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


def test_trap_a_share_is_public_where_it_was_set_aside_and_nowhere_else(owner):
    own = replace(SPLIT, digest="public abcd")
    taught = Split(source="others.npz", shares=(("scans.npz", "abcd"),))
    owner.reserve(plan=PLAN, split=own, label="first")
    owner.reserve(plan=PLAN, split=taught)
    assert [each.split for each in Ledger.open(owner.path).records()] == [own, taught]
    for rows in ("ef01", ""):
        with pytest.raises(PrivacyError, match=r"Rows of scans\.npz are protected in one of both"):
            owner.reserve(plan=PLAN, split=replace(taught, shares=(("scans.npz", rows),)))


@pytest.mark.parametrize("split", [replace(SPLIT, digest=""), Split(source="scans.npz")])
def test_trap_a_share_that_taught_something_is_not_protected_later(owner, split):
    taught = Split(source="others.npz").with_others(shares=[("scans.npz", "abcd")])
    owner.reserve(plan=PLAN, split=taught, label="first")
    with pytest.raises(PrivacyError, match=r"Rows of scans\.npz are protected in one of both"):
        owner.reserve(plan=PLAN, split=split)
