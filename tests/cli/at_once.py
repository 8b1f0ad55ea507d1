"""Two commands at once, and one that a machine ends: one process imports, others run.

python -m tests.cli.at_once FOLDER WORDS...
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from privet.hedge import Steps
from privet.privacy import Ledger
from tests.cli.kill_and_resume import count_lines, finished, forked


def codes(*commands):
    children = [forked(words) for words in commands]
    return [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]


def with_ledger(folder, name, epsilon, outs, words):
    """Exit codes of runs that draw on one ledger, and what it counts."""
    path = folder / f"{name}.db"
    Ledger.create(path, epsilon=epsilon, delta=1e-5, relation="add-remove").close()
    found = codes(*[[*words, "--ledger", str(path), "--out", str(folder / out)] for out in outs])
    ledger = Ledger.open(path)
    spent = [sum(each.spent) for each in ledger.records()]
    ledger.close()
    return {"codes": found, "spent": spent}


def stopped(folder, words):
    """SIGTERM in the middle of a run, and the rest of it."""
    out, log = folder / "stopped", folder / "stopped.log"
    child = os.fork()
    if child == 0:
        os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY), 2)
        step = Steps.step
        Steps.step = lambda *some: (time.sleep(0.1), step(*some))[1]
        os._exit(finished([*words, "--out", str(out)]) or 0)
    until = time.monotonic() + 60
    while count_lines(out / "metrics.jsonl") < 2 and time.monotonic() < until:
        time.sleep(0.001)
    os.kill(child, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    [then] = codes(["train", "--out", str(out), "--resume"])
    return {"code": code, "said": log.read_text(), "then": then}


def run(folder, words):
    assert finished([*words, "--out", str(folder / "whole")]) == 0  # and everything is imported
    return {
        "one folder": with_ledger(folder, "folder", 20, ["same", "same"], words),
        "room for both": with_ledger(folder, "both", 20, ["a", "b"], words),
        "room for one": with_ledger(folder, "one", 2, ["c", "d"], words),
        "SIGTERM": stopped(folder, words),
    }


if __name__ == "__main__":
    report = run(Path(sys.argv[1]), sys.argv[2:])
    sys.stderr.write(json.dumps(report) + "\n")
