"""Every snippet in the README and the docs runs as printed, in an empty folder."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from privet.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
API = sorted((ROOT / "docs" / "api").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


@pytest.fixture
def one_thread():
    """Models this small only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("default::DeprecationWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run_in_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for language, code in BLOCK.findall(page.read_text()):
        if language == "python":
            exec(compile(code, page.name, "exec"), names)
        elif language == "sh":
            for line in code.replace("\\\n", " ").splitlines():
                if line.startswith("privet "):
                    with pytest.raises(SystemExit) as stopped:
                        main(shlex.split(line, comments=True)[1:])
                    assert not stopped.value.code, line


def test_tables_are_those_of_the_result_files():
    command = [sys.executable, str(ROOT / "benchmarks" / "render_tables.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_api_pages_are_those_of_the_docstrings():
    wanted = runpy.run_path(str(ROOT / "docs" / "make_api.py"))["pages"]()
    there = {page.name: page.read_text(encoding="utf-8") for page in API}
    stale = [name for name in {*wanted, *there} if wanted.get(name) != there.get(name)]
    assert not stale, "run python docs/make_api.py"


@pytest.mark.parametrize("page", [*PAGES, *API], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target
