"""Every sentence of the threat model names tests, and all of them exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "threat-model.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_is_named_exists(file, name):
    assert re.search(rf"^\s*def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_every_sentence_of_what_is_covered_names_one():
    covered = PAGE.split("## What is covered")[1].split("## What is assumed")[0]
    sentences = re.split(r"^- ", covered, flags=re.MULTILINE)[1:]
    assert len(sentences) > 15
    assert all("::test_" in each for each in sentences)
