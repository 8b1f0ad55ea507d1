"""A short run, and how to look at what it left."""

import json
from pathlib import Path

QUICK = (
    "train digits --method dp-sgd --epsilon 2 --delta 1e-5 --model linear --views plain "
    "--sample-rate 0.1 --epochs 0.5 --test 100 --engine batched"
)


def read(path):
    return json.loads(Path(path).read_text())


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def names(folder):
    return {path.name for path in folder.iterdir()}
