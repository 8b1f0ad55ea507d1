"""Whatever is in a file, a message or an option, it is taken or refused by an error of ours.

The same targets as in `benchmarks/fuzz.py`, which runs a million cases of them.
"""

import shutil
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privet.errors import PrivetError

QUICK = [
    "folders of images",
    ".npz archives",
    "IDX files",
    "Parquet images and their exports",
    "tables and schemas",
    "text",
    "ledgers",
    "certificates",
    "configurations and states of training",
    "configurations of synthetic sets",
    "words of --model",
    "words of --slot",
    "words of --method",
    "words of --encoder",
    "words of --warm-up",
]
SLOW = [
    "privet.load of models",
    "privet.load of sets",
    "reports of models",
    "exports of models",
    "merges",
]


def target_of(fuzz, name):
    [target] = [each for each in fuzz.TARGETS if each.name == name]
    return target


def check(fuzz, samples, place, name, number):
    target = target_of(fuzz, name)
    original = samples(target.sample)
    if not place.exists():
        shutil.copytree(original, place)
    file, content = target.case(original, number)
    (place / file).write_bytes(content)
    before = set(fuzz._listed(place))
    refused = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(place)
    except PrivetError as error:
        refused = str(error)
    left = {each for each in set(fuzz._listed(place)) - before if not each.endswith(fuzz._LEFT)}
    fuzz.put_back(place, original)
    assert refused is None or (refused.strip() and not left)


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_what_is_valid_is_taken(fuzz, samples, tmp_path, name):
    target = target_of(fuzz, name)
    place = tmp_path / "case"
    shutil.copytree(samples(target.sample), place)
    target.read(place)


@pytest.mark.parametrize("name", QUICK)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(number=st.integers(0, 2**40))
def test_damage_is_taken_or_refused(fuzz, samples, tmp_path, name, number):
    check(fuzz, samples, tmp_path / "case", name, number)


@pytest.mark.parametrize("name", SLOW)
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(number=st.integers(0, 2**40))
def test_damage_to_runs_is_taken_or_refused(fuzz, samples, tmp_path, name, number):
    check(fuzz, samples, tmp_path / "case", name, number)


def test_a_case_can_be_made_again(fuzz, samples):
    target = target_of(fuzz, "tables and schemas")
    folder = samples("tables")
    found = [target.case(folder, number) for number in range(40)]
    assert found == [target.case(folder, number) for number in range(40)]
    assert len({content for _, content in found}) > 30


def test_the_check_can_fail(fuzz, samples, tmp_path, monkeypatch):
    def careless(folder):
        raise KeyError("schema")

    careful = target_of(fuzz, "text")
    monkeypatch.setattr(fuzz, "TARGETS", [fuzz.Target(**{**vars(careful), "read": careless})])
    with pytest.raises(KeyError):
        check(fuzz, samples, tmp_path / "case", "text", 0)
