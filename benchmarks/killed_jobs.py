"""Claim: a killed rank, party or server costs nothing twice, and the job finishes or goes on.

    python benchmarks/killed_jobs.py [--kills 50] [--only rank|party|server]

Processes are forked from one that has imported everything and are killed (SIGKILL) at random
moments. Two ranks of a training run: one of them is killed; the other ends by itself or, where both
had not met yet, by the SIGTERM that torchrun would send; and the run goes on with one to three
ranks. A party of a federation: it is killed while it answers, and is asked again. The server of
one: it is killed while it asks, and is started again. In the end every ledger must count each
result that anyone has seen, and none twice. Each kill is kept when it is done.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

import machine
from privet.cli import main as privet
from privet.federate import Answer, Ask, Party, Reply, Server, answer, conduct
from privet.privacy import Certificate, Ledger
from privet.runs import train_log
from privet.runs.listening import Silent

OUT = machine.RESULTS / "killed_jobs.json"
FORK = multiprocessing.get_context("fork")
PLAIN: dict[str, Any] = {"delta": 1e-5, "encoder": "untrained:width=8,groups=4"}
METHOD = "sps-g:early=3,middle=3,deep=0,pixels=3,shared=0,everywhere=2,iterations=2,batch_size=30"
NAMES = ("ant", "bee", "cow")
STEPS = 40
TRAINING = (
    "train digits --method dp-sgd --epsilon 2 --delta 1e-5 --declared-size 1700 --model linear "
    f"--views 2 --sample-rate 0.1 --epochs {STEPS // 10} --test 100 --engine loop"
).split()
PATIENCE = 5.0  # seconds for the others of a job to notice, until they are told as torchrun does
LONGEST = 120.0  # seconds for a run that nobody kills

Found = dict[str, Any]


def rank_kills(folder: Path, kills: int, draw: random.Random) -> list[Found]:
    """Of runs of two ranks; each run is killed a few times, then left to end."""
    found: list[Found] = []
    number = 0
    while len(found) < kills:
        out, number = folder / f"run-{number}", number + 1
        mine = [each for _ in range(4) if (each := _kill_rank(out, draw)) is not None]
        codes = _together(1 + number % 3, out)
        record = _record(out / "ledger.db")
        certificate = Certificate.from_json(json.loads((out / "certificate.json").read_text()))
        planned = sum(event.count for event in certificate.plan.events)
        finished = codes == [0] * len(codes) and sum(record.spent) == planned
        found += [each | {"finished": finished} for each in mine]
        if mine:
            found[-1]["steps_paid_and_lost"] = planned - _seen(out)
    return found


def _kill_rank(out: Path, draw: random.Random) -> Found | None:
    """One of two; what the other does, and what the books say. None if it came too late."""
    ranks = _started(2, out)
    victim = draw.randrange(2)
    wanted, until = _seen(out) + draw.randrange(0, 6), time.monotonic() + 20
    while _seen(out) < wanted and time.monotonic() < until and ranks[0].is_alive():
        time.sleep(0.002)
    time.sleep(draw.uniform(0, 0.1))
    seen = _seen(out)
    ranks[victim].kill()
    ranks[victim].join()
    start = time.monotonic()
    other = ranks[1 - victim]
    other.join(PATIENCE)
    by_itself = other.exitcode is not None
    if not by_itself:
        other.terminate()
        other.join(PATIENCE)
    gone = other.exitcode is not None
    other.kill()
    other.join()
    if ranks[victim].exitcode == 0 or other.exitcode == 0:
        return None
    spent = _spent(out / "ledger.db")
    fair = seen <= _seen(out) <= spent <= STEPS
    return {
        "what": "rank",
        "led": victim == 0,
        "before_the_first_step": seen == 0,
        "other_ended_by_itself": by_itself,
        "other_ended_when_told": gone and not by_itself,
        "seconds": round(time.monotonic() - start, 2),
        "violation": "" if fair and gone else f"{seen} seen, {spent} spent, ended: {gone}",
    }


def _started(count: int, out: Path) -> list[Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [*TRAINING, "--out", str(out)]
    if (out / "config.json").exists():
        words = ["train", "--out", str(out), "--resume"]
    ranks = [
        FORK.Process(target=_as_rank, args=(words, rank, count, port)) for rank in range(count)
    ]
    for each in ranks:
        each.start()
    return ranks


def _together(count: int, out: Path) -> list[int | None]:
    ranks = _started(count, out)
    for each in ranks:
        each.join(LONGEST)
        each.kill()
        each.join()
    return [each.exitcode for each in ranks]


def _as_rank(words: list[str], rank: int, count: int, port: int) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    _silenced()
    privet(words)


def _seen(out: Path) -> int:
    metrics = out / "metrics.jsonl"
    return metrics.read_text().count("\n") if metrics.exists() else 0


def party_kills(folder: Path, kills: int, draw: random.Random) -> list[Found]:
    """Of a party while it answers; it is asked again until it does."""
    found: list[Found] = []
    while len(found) < kills:
        place = folder / f"federation-{len(list(folder.iterdir()))}"
        parties, server = _federation(place)
        lives: list[float] = [draw.uniform(0, 0.6) for _ in range(2)]
        done: list[bool] = []

        def ask_all(
            ask: Ask,
            nodes: list[str] | None,
            parties: dict[str, Party] = parties,
            lives: list[float] = lives,
            done: list[bool] = done,
        ) -> list[Reply]:
            return [
                _asked(parties[name], ask, lives if name == "bee" else [], done)
                for name in nodes or parties
            ]

        result = conduct(server, ask_all, Silent())
        took_part = "bee" not in result.summary["left_out"]
        spent = _spent(place / "bee" / "ledger.db")
        violation = "" if spent == 1 or (spent == 0 and not took_part) else f"{spent} spent"
        found += [
            {
                "what": "party",
                "took_part": took_part,
                "violation": violation,
                "finished": result.certificate is not None,
            }
            for late in done
            if not late
        ]
    return found[:kills]


def _asked(party: Party, ask: Ask, lives: list[float], done: list[bool]) -> Reply:
    """By a process of its own, which may not live long enough to answer."""
    here, there = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_answering, args=(party, ask, there))
    child.start()
    there.close()
    if lives:
        child.join(lives.pop())
        done.append(not child.is_alive())
        child.kill()
    try:
        words, arrays = here.recv()
    except EOFError:  # killed before it said anything
        return Reply(party.name)
    finally:
        child.join()
    tensors = {name: torch.from_numpy(each) for name, each in arrays.items()}
    return Reply(party.name, Answer.read(words, tensors, party.name))


def _answering(party: Party, ask: Ask, there: Connection) -> None:
    made = answer(party, ask)
    there.send((made.words(), {name: each.numpy() for name, each in made.tensors.items()}))


def server_kills(folder: Path, kills: int, draw: random.Random) -> list[Found]:
    """Of a server, over and over, until it is done."""
    found: list[Found] = []
    while len(found) < kills:
        place = folder / f"federation-{len(list(folder.iterdir()))}"
        parties, server = _federation(place)
        mine: list[Found] = []
        for _ in range(3):
            child = FORK.Process(target=_serving, args=(server, parties))
            child.start()
            child.join(draw.uniform(0, 0.7))
            if child.is_alive():  # else it came too late
                mine.append({"what": "server"})
            child.kill()
            child.join()
        child = FORK.Process(target=_serving, args=(server, parties))
        child.start()
        child.join()
        spent = {name: _spent(place / name / "ledger.db") for name in NAMES}
        twice = [name for name, count in spent.items() if count > 1]
        finished = child.exitcode == 0
        found += [each | {"violation": ", ".join(twice), "finished": finished} for each in mine]
    return found[:kills]


def _serving(server: Server, parties: dict[str, Party]) -> None:
    _silenced()

    def ask_all(ask: Ask, nodes: list[str] | None) -> list[Reply]:
        return [Reply(name, answer(parties[name], ask)) for name in nodes or parties]

    conduct(server, ask_all, Silent())


def _federation(place: Path) -> tuple[dict[str, Party], Server]:
    """Three parties with a few random images each, and their server."""
    place.mkdir()
    for number, name in enumerate(("public", *NAMES)):
        rng = np.random.default_rng(number)
        labels = np.arange(45) % 3
        images = rng.integers(0, 80, (45, 12, 12, 1), np.uint8) + (60 * labels)[:, None, None, None]
        np.savez(
            place / f"{name}.npz",
            images=images.astype(np.uint8),
            labels=labels,
            class_names=np.array(["a", "b", "c"]),
        )
    parties = {
        name: Party(
            name=name,
            data=str(place / f"{name}.npz"),
            public=str(place / "public.npz"),
            epsilon=2.0,
            relation="add-remove",
            out=str(place / name),
            **PLAIN,
        )
        for name in NAMES
    }
    server = Server(
        out=str(place / "server"),
        public=str(place / "public.npz"),
        epsilon=2.0,
        method=METHOD,
        count=30,
        parties=3,
        at_least=2,
        declared_size=135,
        seconds=60,
        **PLAIN,
    )
    return parties, server


def _spent(path: Path) -> int:
    """In a ledger that a process may not have lived to make."""
    record = _record(path) if path.exists() else None
    return 0 if record is None else sum(record.spent)


def _record(path: Path) -> Any:
    ledger = Ledger.open(path)
    records = ledger.records()
    ledger.close()
    if len(records) > 1:
        raise SystemExit(f"{path} has {len(records)} reservations for one run.")
    return records[0] if records else None


def _silenced() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


KINDS = {"rank": rank_kills, "party": party_kills, "server": server_kills}


def main() -> None:
    """All kinds, or one of them."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--kills", type=int, default=50)
    options.add_argument("--only", choices=KINDS)
    asked = options.parse_args()
    torch.set_num_threads(1)  # threads do not survive a fork
    train_log.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    body: Found = json.loads(OUT.read_text()) if OUT.exists() else {"name": "killed_jobs"}
    for kind in [asked.only] if asked.only else list(KINDS):
        with tempfile.TemporaryDirectory() as folder:
            _warm(Path(folder))
            start = time.monotonic()
            kills = KINDS[kind](Path(folder), asked.kills, random.Random(7))
        body[kind] = _summary(kills) | {"seconds": round(time.monotonic() - start)}
        body[kind]["commit"] = machine.COMMIT
        OUT.write_text(json.dumps(body, indent=1) + "\n")
        print(kind, json.dumps(body[kind]), flush=True)
    if any(body[kind]["violations"] for kind in KINDS if kind in body):
        sys.exit(1)


def _warm(folder: Path) -> None:
    """Everything is imported and accounted for once, so that children are killed in what is theirs.

    What a plan costs takes an accountant seconds, and it remembers: a child that had to work it out
    would be killed there.
    """
    parties, server = _federation(folder / "warm")
    conduct(
        server,
        lambda ask, nodes: [Reply(each, answer(parties[each], ask)) for each in nodes or parties],
        Silent(),
    )
    import torch.distributed  # noqa: F401

    try:
        privet([*TRAINING, "--out", str(folder / "run-warm")])
    except SystemExit as done:
        if done.code:
            raise


def _summary(kills: list[Found]) -> Found:
    counts: Counter[str] = Counter()
    for each in kills:
        counts.update(name for name, value in each.items() if value is True)
    lost = sum(each.get("steps_paid_and_lost", 0) for each in kills)
    return {
        "kills": len(kills),
        "violations": [each["violation"] for each in kills if each["violation"]],
        **dict(sorted(counts.items())),
        **({"steps_paid_and_lost": lost} if "led" in counts else {}),
    }


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
