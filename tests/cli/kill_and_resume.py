"""Run, kill, resume, over and over, and print what became of it: one process imports, many run.

    python tests/cli/kill_and_resume.py FOLDER KILLS WORDS...

WORDS are those of an uninterrupted run in FOLDER/whole first; then of one in FOLDER/killed that is
killed at random moments.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from privet.cli import main
from privet.runs import train_log

torch.set_num_threads(1)  # threads do not survive a fork
train_log.SECONDS_BETWEEN_CHECKPOINTS = 0.0


def finished(words):
    """The exit code of a command, in this process."""
    try:
        main(words)
    except SystemExit as stopped:
        return stopped.code or 0


def forked(words):
    child = os.fork()
    if child == 0:
        os._exit(finished(words) or 0)
    return child


def resumed(words, out):
    return [*words, "--resume"] if (out / "config.json").exists() else words


def run(folder, kills, words):
    assert finished([*words, "--out", str(folder / "whole")]) == 0  # and everything is imported
    out, draw, steps = folder / "killed", random.Random(7), []
    words = [*words, "--out", str(out)]
    for _ in range(kills):
        child = forked(resumed(words, out))
        wait_a_while(draw, out / "metrics.jsonl")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        steps.append(count_lines(out / "metrics.jsonl"))
    code = os.waitstatus_to_exitcode(os.waitpid(forked(resumed(words, out)), 0)[1])
    return {"code": code, "steps": steps}


def wait_a_while(draw, metrics):
    """For some steps more, or for none: a kill may come before the first."""
    wanted, deadline = count_lines(metrics) + draw.randint(0, 5), time.monotonic() + 2
    while count_lines(metrics) < wanted and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(draw.uniform(0, 0.02))


def count_lines(path):
    return path.read_text().count("\n") if path.exists() else 0


if __name__ == "__main__":
    report = run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    sys.stderr.write(json.dumps(report) + "\n")
