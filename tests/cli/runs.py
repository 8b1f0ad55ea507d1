"""Short runs, and how to look at what they left."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]

QUICK = (
    "train digits --method dp-sgd --epsilon 2 --delta 1e-5 --model linear --views plain "
    "--sample-rate 0.1 --epochs 0.5 --test 100 --engine batched"
)
SYSTEMS = {
    "dp-merf": "dp-merf:size=20,iterations=2,per_class=2,widths=4-4-4-4,batch_size=40",
    "dp-mepf": "dp-mepf:iterations=2,per_class=2,widths=4-4-4-4,batch_size=40,checks=2",
    "sps": "sps:iterations=2,global_size=4,class_size=4,per_class=2",
    "sps-plus": "sps-plus:iterations=2,later_iterations=2,global_size=4,class_size=4,per_class=2",
    "sps-g": "sps-g:iterations=2,per_class=2,early=6,middle=6,deep=6,pixels=6,shared=6,"
    "everywhere=4,widths=4-4-4-4,batch_size=40,agreement=false",
}
BESIDE = {"README.md", "certificate.json"}
"""What lies with the shards of a finished run."""
QUICK_SYNTHESIS = (
    f"synthesize digits --method {SYSTEMS['dp-merf']} --epsilon 2 --delta 1e-5 --count 60"
)


CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Killed(BaseException):
    """Stands in for SIGKILL: nobody catches it."""


def read(path):
    return json.loads(Path(path).read_text())


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def names(folder):
    return {path.name for path in folder.iterdir()}


def killed_everywhere(words, folder):
    """Two folders of one run: whole, and killed wherever it can be and resumed as often."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.cli.kill_at_points", str(folder), *words.split()],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
    )
    report = json.loads(result.stderr.splitlines()[-1])
    assert report["code"] == 0, result.stderr
    assert set(report["statuses"].values()) == {-signal.SIGKILL}, report
    return folder / "whole", folder / "killed"


def card(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    _, matter, body = text.split("---\n", 2)
    return yaml.safe_load(matter), body


def run_snippets(body, **given):
    """What a card says of loading, run as printed."""
    found = dict(given)
    for code in CODE.findall(body):
        exec(compile(code, "README.md", "exec"), found)
    return found
