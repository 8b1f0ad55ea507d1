"""What is installed and what is shipped: pinned, hashed, reproducible, and nothing else."""

import base64
import hashlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PIN = re.compile(
    r"(?P<name>[\w.-]+)==(?P<version>\S+)(?P<hashes>( \\\n +--hash=sha256:[0-9a-f]{64})+)"
)


def pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    found = list(PIN.finditer(text))
    assert "\n".join(each[0] for each in found) == text, "a line is no hashed pin"
    return {canonicalize_name(each["name"]): each["version"] for each in found}


def wheel(folder):
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(built)


def test_everything_that_is_installed_is_pinned_with_its_hashes():
    pins = pinned()
    for each in distributions():
        name = canonicalize_name(each.name)
        if name not in ("privet", "setuptools"):  # itself, and what Python brings along
            assert each.version.split("+")[0] == pins.get(name), name


def test_everything_that_is_asked_for_is_pinned_within_its_range():
    pins, project, groups = pinned(), PROJECT["project"], PROJECT["dependency-groups"]
    asked = [
        *PROJECT["build-system"]["requires"],
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
        *groups["test"],
        *groups["lint"],
    ]
    for each in map(Requirement, asked):
        assert each.specifier.contains(pins[canonicalize_name(each.name)]), each


def test_a_wheel_built_twice_is_the_same_to_the_byte(tmp_path, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    first, second = wheel(tmp_path / "a"), wheel(tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()


def test_a_wheel_holds_the_package_and_nothing_else(tmp_path):
    path = wheel(tmp_path)
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    about = {name for name in names if name.startswith("privet-") and ".dist-info/" in name}
    source = ROOT / "src"
    files = {
        file.relative_to(source).as_posix()
        for file in (source / "privet").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert names - about == files
    assert {name.split("/", 1)[1] for name in about} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }


@pytest.mark.parametrize("needle", [str(Path.home()), str(ROOT)])
def test_a_wheel_says_nothing_of_the_machine_that_built_it(tmp_path, needle):
    with zipfile.ZipFile(wheel(tmp_path)) as archive:
        assert not [name for name in archive.namelist() if needle.encode() in archive.read(name)]


def test_a_bill_lists_every_pin_with_its_hashes_and_licence(tmp_path):
    path = tmp_path / "bill.json"
    subprocess.run([sys.executable, ROOT / "scripts" / "sbom.py", path], check=True)
    body = json.loads(path.read_text())
    assert (body["bomFormat"], body["metadata"]["component"]["name"]) == ("CycloneDX", "privet")
    parts = {canonicalize_name(each["name"]): each for each in body["components"]}
    assert {name: each["version"] for name, each in parts.items()} == pinned()
    assert all(each["hashes"] for each in parts.values())
    assert parts["torch"]["licenses"]


def test_a_file_that_was_changed_after_it_was_installed_is_found(tmp_path):
    about = tmp_path / "thing-1.0.dist-info"
    about.mkdir()
    (tmp_path / "thing.py").write_text("x = 1\n")
    digest = hashlib.sha256(b"x = 1\n").digest()
    told = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    (about / "RECORD").write_text(f"thing.py,sha256={told},6\nthing-1.0.dist-info/RECORD,,\n")
    command = [sys.executable, "-S", ROOT / "scripts" / "check_installed.py"]
    asked = {"env": {"PYTHONPATH": str(tmp_path)}, "capture_output": True, "text": True}
    assert subprocess.run(command, **asked).returncode == 0
    (tmp_path / "thing.py").write_text("x = 2\n")
    done = subprocess.run(command, **asked)
    assert (done.returncode, "thing: thing.py" in done.stdout) == (1, True)


@pytest.mark.parametrize(
    ("listed", "there", "passes"),
    [(b"torch", True, True), (b"other", True, False), (b"", False, False)],
)
def test_a_build_of_torch_is_installed_only_by_a_hash_that_is_listed(
    tmp_path, listed, there, passes
):
    """By the Makefile's own line, in the shell that make takes."""
    [check] = [each for each in (ROOT / "Makefile").read_text().splitlines() if "grep -qE" in each]
    (tmp_path / "venv" / "torch").mkdir(parents=True)
    if there:
        (tmp_path / "venv" / "torch" / "torch.whl").write_bytes(b"torch")
    digest = hashlib.sha256(listed).hexdigest()
    (tmp_path / "constraints.txt").write_text(f"torch==1 \\\n    --hash=sha256:{digest}\n")
    line = check.strip().replace("$(VENV)", "venv").replace("$$", "$")
    done = subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode == 0) == passes, done.stderr
