"""Kill a run of `privet synthesize` at one point after another, resume, print what became of it.

    python tests/cli/kill_at_points.py FOLDER WORDS...

WORDS are those of an uninterrupted run in FOLDER/whole first; then of one in FOLDER/killed whose
process sends itself SIGKILL at each of the points below, one point a process.
"""

import importlib
import json
import os
import signal
import sys
from pathlib import Path

import torch

from tests.cli.kill_and_resume import finished, resumed

torch.set_num_threads(1)  # threads do not survive a fork

# A module, a function in it, and the number of the call that does not happen.
POINTS = [
    ("privet.public.warm_up", "_train_mode", 2),  # the second epoch of the encoder
    ("privet.hedge.clipping", "_batch_sum", 2),  # half-way through private images
    ("privet.synthesis.generating", "_latents", 2),  # half-way through the generator's training
    ("privet.runs.synthesis_images", "write_shard", 2),
    ("privet.runs.synthesis_run", "_summary", 1),
]
PRIVATE_ENCODER = [
    ("privet.recipes.private_encoders", "prepare", 1),  # the plan is fixed
    ("privet.learn.training", "_one_step", 3),
    ("privet.learn.checkpoint", "restored", 1),
    ("privet.runs.folder_memory", "probe_of", 1),  # the encoder is learned
    *POINTS[1:],
]
NOWHERE = ("privet.runs.synthesis_run", "_summary", 0)


def killed(words, module, name, number):
    """The exit status of a process that is killed when a function is called for the n-th time."""
    child = os.fork()
    if child == 0:
        owner = importlib.import_module(module)
        function, calls = getattr(owner, name), []

        def dying(*arguments, **settings):
            calls.append(name)
            if len(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **settings)

        setattr(owner, name, dying)
        os._exit(finished(words) or 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(folder, words):
    assert finished([*words, "--out", str(folder / "whole")]) == 0  # and everything is imported
    out = folder / "killed"
    points = PRIVATE_ENCODER if any(word.startswith("private") for word in words) else POINTS
    words = [*words, "--out", str(out)]
    statuses = {
        f"{module}.{name} {number}": killed(resumed(words, out), module, name, number)
        for module, name, number in points
    }
    return {"statuses": statuses, "code": killed(resumed(words, out), *NOWHERE)}


if __name__ == "__main__":
    report = run(Path(sys.argv[1]), sys.argv[2:])
    sys.stderr.write(json.dumps(report) + "\n")
