"""What is fuzzed: everything that reads a file, a message or what somebody typed.

A target has a folder of valid files, made by the real writers, of which one is damaged at a time,
and a function that reads them as a user would.
"""

from __future__ import annotations

import fnmatch
import gzip
import io
import json
import os
import random
import struct
from collections.abc import Callable, Mapping
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fuzz_mutations as damage

OUT = "out"
_PICTURES = (np.arange(4 * 8 * 8 * 3) % 251).astype(np.uint8).reshape(4, 8, 8, 3)
_TRAIN = (
    "train digits --method dp-sgd --epsilon 2 --delta 1e-5 --model linear --views plain "
    "--sample-rate 0.1 --epochs 0.5 --test 100 --engine batched --declared-size 1600"
)
_SET = (
    "synthesize digits --method dp-merf:size=20,iterations=2,per_class=2,widths=4-4-4-4,"
    "batch_size=40 --epsilon 2 --delta 1e-5 --count 20"
)
_SMALL_SPS = "sps-g:early=3,middle=3,deep=0,pixels=3,shared=0,everywhere=2,iterations=2"


@dataclass(frozen=True, kw_only=True)
class Target:
    """Something that reads.

    Args:
        name: of it.
        sample: the name of the folder of valid files.
        read: what is called with a folder of which one file is damaged.
        damages: how files are damaged, by patterns of their names; others stay as they are.
        cases: how many.
        chunk: how many a process does before its counts are kept.
        whole: whether what is refused must leave nothing.
    """

    name: str
    sample: str
    read: Callable[[Path], object]
    damages: Mapping[str, damage.Damage]
    cases: int
    chunk: int = 2000
    whole: bool = True

    def files(self, folder: Path) -> list[tuple[str, damage.Damage]]:
        """Names of files that are damaged, and how."""
        found = sorted(
            str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()
        )
        pairs = []
        for name in found:
            how = next((d for p, d in self.damages.items() if fnmatch.fnmatch(name, p)), None)
            if how is not None:
                pairs.append((name, how))
        return pairs

    def case(self, folder: Path, number: int) -> tuple[str, bytes]:
        """The file that is damaged, and its content."""
        draw = random.Random(f"{self.name} {number}")
        name, how = draw.choice(self.files(folder))
        return name, how((folder / name).read_bytes(), draw)


# Samples


def _picture(form: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(_PICTURES[0]).save(file, form)
    return file.getvalue()


def _make_pictures(folder: Path) -> None:
    for name, form in (("a/1.png", "PNG"), ("b/1.jpg", "JPEG"), ("b/2.webp", "WEBP")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(_picture(form))


def _make_npz(folder: Path) -> None:
    arrays = {"x": _PICTURES, "y": np.arange(4), "class_names": np.array(list("abcd"))}
    np.savez(folder / "stored.npz", **arrays)
    np.savez_compressed(folder / "packed.npz", **arrays)


def _make_idx(folder: Path) -> None:
    images = bytes((0, 0, 8, 3)) + struct.pack(">3I", 4, 8, 8) + _PICTURES[..., 0].tobytes()
    labels = bytes((0, 0, 8, 1)) + struct.pack(">I", 4) + bytes(range(4))
    for name, content in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", labels)):
        (folder / f"train-{name}").write_bytes(content)
        (folder / f"t10k-{name}.gz").write_bytes(gzip.compress(content, mtime=0))


def _make_shards(folder: Path) -> None:
    from privet.data.shards import write_shard

    write_shard(folder / "set", 0, _PICTURES, np.arange(4), tuple("abcd"))


def _make_arrays(folder: Path) -> None:
    np.save(folder / "one.npy", _PICTURES)


def _make_saved(folder: Path) -> None:
    import datasets
    from PIL import Image

    datasets.disable_progress_bars()
    kinds = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list("abcd"))}
    )
    rows = {"image": [Image.fromarray(each) for each in _PICTURES], "label": list(range(4))}
    datasets.Dataset.from_dict(rows, features=kinds).save_to_disk(str(folder))


def _make_tables(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from privet.data.schema import Binary, Categorical, Numeric, Schema
    from privet.data.schema_file import schema_to_json

    rows = [
        {"age": 20 + n, "job": "ab"[n % 2], "sex": "fm"[n % 2], "user": n // 2, "y": "01"[n % 2]}
        for n in range(12)
    ]
    names = list(rows[0])
    lines = [",".join(names), *(",".join(str(row[name]) for name in names) for row in rows)]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    schema = Schema(
        target="y",
        classes=("0", "1"),
        columns=(
            Numeric(name="age", low=0.0, high=100.0),
            Categorical(name="job", categories=("a", "b")),
            Binary(name="sex", values=("f", "m")),
        ),
    )
    (folder / "schema.json").write_text(json.dumps(schema_to_json(schema)))


def _make_text(folder: Path) -> None:
    words = [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "the",
        "lazy",
        "dog",
        "while",
        "all",
        "of",
        "us",
        "sleep",
        "at",
        "night",
    ]
    text = "\n".join(" ".join(words[n % 5 :]) for n in range(12)) + "\n"
    (folder / "words.txt").write_text(text)
    rows = [json.dumps({"user": n // 3, "text": text}) for n in range(6)]
    (folder / "words.jsonl").write_text("\n".join(rows) + "\n")


def _make_ledger(folder: Path) -> None:
    from privet.privacy import GaussianRelease, Ledger, Plan, PoissonSteps

    with closing(
        Ledger.create(folder / "ledger.db", epsilon=8, delta=1e-5, relation="add-remove")
    ) as ledger:
        ledger.declare_portion("2026")
        ledger.reserve(plan=Plan.of(GaussianRelease(noise_multiplier=4.0)), label="one")
        steps = PoissonSteps(sampling_rate=0.1, noise_multiplier=2.0, steps=50)
        ledger.reserve(plan=Plan.of(steps), label="two", portion="2026")
    _one_file(folder / "ledger.db")


def _one_file(path: Path) -> None:
    """Without a log beside it."""
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


def _privet(words: str) -> None:
    from privet.cli import main

    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
            main(words.split())
    except SystemExit as end:
        if end.code:
            raise RuntimeError(said.getvalue()) from None


def _make_model(folder: Path) -> None:
    _privet(f"{_TRAIN} --out {folder / 'run'}")
    _privet(f"evaluate {folder / 'run'}")
    _one_file(folder / "run/ledger.db")


def _make_unfinished(folder: Path) -> None:
    """As a kill leaves it: a checkpoint, and no result."""
    from privet.recipes import run_folder

    discard, kept = run_folder.RunFolder.discard, run_folder.CHECKPOINT
    run_folder.RunFolder.discard = (  # type: ignore[method-assign]
        lambda self, name: None if name == kept else discard(self, name)
    )
    _privet(f"{_TRAIN} --out {folder / 'run'}")
    run_folder.RunFolder.discard = discard  # type: ignore[method-assign]
    for name in ("result.json", "model.safetensors", "certificate.json"):
        (folder / "run" / name).unlink()
    _one_file(folder / "run/ledger.db")


def _make_set(folder: Path) -> None:
    for name in ("one", "two"):
        _privet(f"{_SET} --out {folder / name}")
        _one_file(folder / name / "ledger.db")
    _privet(f"merge {folder / 'one'} {folder / 'two'} --out {folder / 'both'}")


def _make_table_set(folder: Path) -> None:
    rows = [f"{20 + n % 50},{'ab'[n % 2]},{'01'[n % 2]}" for n in range(200)]
    (folder / "rows.csv").write_text("\n".join(["age,job,y", *rows]) + "\n")
    _privet(
        f"synthesize {folder / 'rows.csv'} --target y --public 50 --method "
        "dp-merf:size=20,iterations=2 "
        f"--epsilon 2 --delta 1e-5 --count 20 --declared-size 150 --out {folder / 'run'}"
    )


def _make_messages(folder: Path) -> None:
    """What a server asks and a party answers, as it travels: words, and tensors."""
    from safetensors.torch import save_file

    from privet.federate import Ask, Party, Reply, Server, answer, conduct
    from privet.recipes.synthesis_stage import Silent

    draw = np.random.default_rng(0)
    for name, count in (("public", 80), ("one", 30), ("two", 30)):
        labels = np.arange(count) % 3
        images = draw.integers(0, 90, (count, 8, 8, 1)) + 60 * labels[:, None, None, None]
        np.savez(
            folder / f"{name}.npz",
            images=images.astype(np.uint8),
            labels=labels,
            class_names=np.array(list("abc")),
        )
    same: dict[str, Any] = {
        "public": str(folder / "public.npz"),
        "delta": 1e-5,
        "encoder": "untrained:width=8,groups=4",
        "epsilon": 2.0,
    }
    parties = {
        name: Party(
            name=name,
            data=str(folder / f"{name}.npz"),
            relation="add-remove",
            out=str(folder / f"party-{name}"),
            **same,
        )
        for name in ("one", "two")
    }
    (folder / "party.json").write_text(json.dumps(parties["one"].to_json()))

    def ask_all(ask: Ask, nodes: Any) -> list[Reply]:
        found = []
        for name, party in parties.items():
            made = answer(party, ask)
            for kind, each in (("ask", ask), ("answer", made)):
                (folder / f"{kind}.json").write_text(each.words())
                tensors = each.tensors() if isinstance(each, Ask) else each.tensors
                save_file(
                    {k: v.contiguous() for k, v in tensors.items()}, folder / f"{kind}.safetensors"
                )
            found.append(Reply(name, made))
        return found

    server = Server(
        out=str(folder / "run"),
        method=f"{_SMALL_SPS},batch_size=30",
        count=12,
        parties=2,
        declared_size=60,
        seconds=60,
        **same,
    )
    conduct(server, ask_all, Silent())


def _make_encoder(folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    from privet.models import ConvEncoder

    torch.manual_seed(0)
    save_file(ConvEncoder(1).state_dict(), folder / "encoder.safetensors")


_MODELS = (
    "conv-net:width=8,strided=true mlp:hidden=20-10 linear resnet9:width=8 wrn-16-4 "
    "vit:patch=4,width=24,depth=1,heads=3 lm:width=16,depth=1,heads=2 mlm:width=16,depth=1,heads=2 "
    "glyphs:image_size=28,hidden=20 efficientnet-lite0:image_size=64"
)
_SLOTS = (
    "views=augmented:num_views=4,padding=2,flip=true views=mixed:num_base=4,num_self=2,num_diff=2,"
    "alpha=0.2 views=plain views=8 perturb=sam:radius=0.05,count=2 perturb=random:radius=0.1 "
    "scale=public-moments:damping=0.1,decay=0.9 origin=public:limit=0.5 origin=last:decay=0.5,"
    "limit=0.5 update=sgd:momentum=0.9 update=adam:beta1=0.9 update=mirror:alpha=0.7,"
    "schedule=cosine,base=sgd"
)
_METHODS = (
    "sps-g:deep=64,iterations=800 dp-mepf:iterations=2,per_class=2 dp-merf:size=20,iterations=2 "
    "sps:iterations=2,global_size=4,class_size=4 sps-plus:iterations=2,later_iterations=2 "
    "dp-merf:widths=4-4-4-4,batch_size=40 sps-g:early=6,middle=6,pixels=6,shared=6,everywhere=4"
)
_ENCODERS = (
    "conv:epochs=2 private:share=0.5 procedural glyphs untrained:width=8,groups=4 "
    "efficientnet-lite0:image_size=64 conv+glyphs"
)
_WARM_UPS = "sgd sam:radius=0.1 asam:radius=0.1 gsam pgd:radius=0.008,steps=10"


def _make_words(folder: Path) -> None:
    lists = {"model": _MODELS, "slot": _SLOTS, "method": _METHODS, "encoder": _ENCODERS}
    for name, words in {**lists, "warm-up": _WARM_UPS}.items():
        (folder / name).write_text("\n".join(words.split()))


def _make_commands(folder: Path) -> None:
    _make_npz(folder)
    _make_tables(folder)
    _make_ledger(folder)
    (folder / "commands.json").write_text(json.dumps([each.split() for each in _COMMANDS]))


_COMMANDS = (
    "account --epsilon 1 --delta 1e-5 --releases 3 --json",
    "account --noise-multiplier 2 --delta 1e-5 --releases 2 --relation replace-one",
    "account --noise-multiplier 1 --delta 1e-5 --sample-rate 0.1 --steps 10 --accountant rdp",
    "ledger create new.db --epsilon 1 --delta 1e-5 --unit user",
    "ledger show ledger.db --json",
    "ledger portion ledger.db 2027",
    "data inspect stored.npz --resize 4x4 --channels grey --part train --json",
    "data schema rows.csv --target y --out new.json",
    f"{_TRAIN} --out out",
    "train rows.csv --target y --schema schema.json --method dp-sgd --epsilon 1 --delta 1e-5 "
    "--declared-size 10 --epochs 1 --sample-rate 0.5 --out out",
    f"{_SET} --out out",
    "synthesize digits --method sps --encoder untrained --public 0.1 --test 50 --epsilon 1 "
    "--delta 1e-5 --count 10 --out out --declared-size 1500 --relation replace-one",
    "report nowhere --out page.html",
    "export nowhere --to npz --out set.npz",
    "evaluate nowhere --test stored.npz --panel all",
    "merge nowhere elsewhere --out out",
    "--version",
    "federate simulate --help",
)


def _arguments(content: bytes, draw: random.Random) -> bytes:
    """One command, with words changed, dropped, doubled or taken from other commands."""
    commands = json.loads(content)
    chosen = list(draw.choice(commands))
    for _ in range(draw.choice((1, 1, 2, 3))):
        place = draw.randrange(1, len(chosen)) if len(chosen) > 1 else 0
        kind = draw.randrange(6)
        other = draw.choice(draw.choice(commands))
        if kind == 0:
            chosen[place] = other
        elif kind == 1:
            chosen.insert(place, other)
        elif kind == 2:
            del chosen[place]
        elif kind == 3:
            chosen[place] = damage.words(chosen[place].encode(), draw).decode("utf-8", "replace")
        elif kind == 4:
            chosen[place] = str(damage.odd_value(draw, chosen[place]))
        else:
            chosen.insert(place, chosen[draw.randrange(len(chosen))])
        chosen = chosen or ["account"]
    return json.dumps(chosen).encode("utf-8", "surrogatepass")


SAMPLES: Mapping[str, Callable[[Path], None]] = {
    "pictures": _make_pictures,
    "npz": _make_npz,
    "idx": _make_idx,
    "shards": _make_shards,
    "arrays": _make_arrays,
    "saved": _make_saved,
    "tables": _make_tables,
    "text": _make_text,
    "ledger": _make_ledger,
    "model": _make_model,
    "unfinished": _make_unfinished,
    "sets": _make_set,
    "table-set": _make_table_set,
    "messages": _make_messages,
    "encoder": _make_encoder,
    "words": _make_words,
    "commands": _make_commands,
}


# Readers


def warm() -> None:
    """Import what readers import when they need it, once for all processes."""
    import datasets  # noqa: F401
    import flwr.app  # noqa: F401
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.datasets  # noqa: F401
    from PIL import JpegImagePlugin, PngImagePlugin, WebPImagePlugin  # noqa: F401

    import privet.cli
    import privet.federate.deployed
    import privet.recipes.loading
    import privet.recipes.merging
    import privet.recipes.run
    import privet.recipes.run_evaluation
    import privet.recipes.run_export
    import privet.recipes.run_reports
    import privet.recipes.set_evaluation
    import privet.recipes.synthesis_run
    import privet.recipes.warm_ups  # noqa: F401


def _images(folder: Path, **more: Any) -> object:
    from privet.data import load

    data = load(folder, **more)
    return data.images[: min(len(data), 8)], data.class_counts()


def _npz(folder: Path) -> object:
    return [_images(folder / name, resize=4) for name in ("stored.npz", "packed.npz")]


def _idx(folder: Path) -> object:
    return _images(folder, part="train"), _images(folder, part="test")


def _shards(folder: Path) -> object:
    from privet.data.shard_exports import copy_shards, write_npz
    from privet.data.shards import class_counts, num_rows

    shards = folder / "set"
    _ = _images(shards), num_rows(shards), class_counts(shards, 4)
    copy_shards(shards, folder / OUT, beside={})
    return write_npz(shards, folder / "out.npz", certificate="{}")


def _png_folders(folder: Path) -> object:
    from privet.data.png_folders import write_png_folders

    return write_png_folders(folder / "set", folder / OUT, beside={})


def _tables(folder: Path) -> object:
    from privet.data.schema_file import read_schema
    from privet.data.table_set import TableSet
    from privet.data.tables import read_table
    from privet.data.users import user_ids

    schema = read_schema(folder / "schema.json").without("user")
    for suffix in ("csv", "jsonl", "parquet"):
        table = read_table(folder / f"rows.{suffix}")
        _ = user_ids(table, "user", "rows")
        rows = TableSet(table, schema, f"rows.{suffix}").with_known_classes()
        _ = {name: each[:] for name, each in rows.columns().items()}
    return rows


def _schema_of(folder: Path) -> object:
    from privet.data.public_schema import schema_of
    from privet.data.tables import read_table

    return [
        schema_of(read_table(folder / f"rows.{each}"), "y", each) for each in ("csv", "parquet")
    ]


def _text(folder: Path) -> object:
    from privet.data.text import TextSet, read_sequences, read_texts, vocabulary_of

    found = read_sequences(folder / "words.txt")
    texts = read_texts(folder / "words.jsonl", "text", "user")
    rows = TextSet(found, vocabulary_of(texts.sequences), causal=True)
    return rows.columns()


def _certificate(folder: Path) -> object:
    from privet.privacy.certificate import promise
    from privet.recipes.run_certificate import certificate_of
    from privet.recipes.run_folder import RunFolder

    found = certificate_of(RunFolder(folder / "run"))
    assert found is not None
    return found.statement, found.dumps(), promise(found)


def _run_config(folder: Path) -> object:
    from privet.recipes.run_config import RunConfig
    from privet.recipes.run_folder import STATE, RunFolder
    from privet.recipes.run_state import RunState
    from privet.recipes.trained_network import finished_config

    run = RunFolder(folder / "run")
    config = finished_config(run)
    state = RunState.from_json(run.read(STATE))
    return RunConfig.from_json(config.to_json()), RunState.from_json(state.to_json())


def _set_config(folder: Path) -> object:
    from privet.recipes.finished_set import finished_set_config, set_folder

    return [finished_set_config(set_folder(folder / name)) for name in ("one", "both")]


def _table_config(folder: Path) -> object:
    import privet

    return privet.load(folder / "run")


def _checkpoint(folder: Path) -> object:
    from privet.learn.checkpoint import load

    return load(folder / "run/checkpoint.safetensors")


def _release_file(folder: Path) -> object:
    """A kept release is read, and one that is not this run's is refused."""
    from privet.recipes.folder_memory import FolderMemory
    from privet.recipes.run_folder import RunFolder

    memory = FolderMemory(RunFolder(folder / "run"), (8, 8, 1))
    names = [each.stem for each in (folder / "run/releases").glob("*.safetensors")]
    steps = [each.stem for each in (folder / "run/steps").glob("*.safetensors")]
    made = [memory.once(each, dict) for each in steps]
    return made, [memory._read(f"releases/{each}.safetensors", "none") for each in names]


def _ledger(folder: Path) -> object:
    from privet.privacy import Ledger
    from privet.privacy.overview import overview

    with closing(Ledger.open(folder / "ledger.db")) as ledger:
        return overview(ledger), [(each.label, each.spent) for each in ledger.records()]


def _messages(folder: Path) -> object:
    """Words by themselves: tensors come through Flower."""
    from safetensors.torch import load_file

    from privet.federate.messages import Answer, Ask
    from privet.federate.party import Party
    from privet.federate.sums import checked_certificate, checked_images

    ask = Ask.read(
        (folder / "ask.json").read_text(errors="replace"), load_file(folder / "ask.safetensors")
    )
    answer = Answer.read(
        (folder / "answer.json").read_text(errors="replace"),
        load_file(folder / "answer.safetensors"),
        "Node 1",
    )
    _ = checked_certificate(answer)
    if answer.tensors.keys() & {"images"}:
        _ = checked_images(answer, ask.agreement)
    from privet.federate.deployed import read_settings

    return Party.from_json(read_settings(str(folder / "party.json"))).terms


def _noised_sums(folder: Path) -> object:
    """What a client sends as a sum, against what was agreed on."""
    from privet.federate.messages import Answer, Ask
    from privet.federate.sums import added, checked_sum
    from privet.recipes.trained_network import saved_tensors

    ask = Ask.read((folder / "ask.json").read_text(), saved_tensors(folder / "ask.safetensors"))
    sent = saved_tensors(folder / "answer.safetensors")
    answer = Answer.read((folder / "answer.json").read_text(errors="replace"), sent, "Node 1")
    return added([checked_sum(answer, _release_of(ask, folder))] * 2)


def _release_of(ask: Any, folder: Path) -> Any:
    """Like the server's: what has the shapes of a valid answer, made once."""
    if str(folder) not in _RELEASES:
        from types import SimpleNamespace

        from privet.recipes.trained_network import saved_tensors

        valid = saved_tensors(
            Path(os.environ["PRIVET_FUZZ_SAMPLES"]) / "messages/answer.safetensors"
        )
        zeros = {name: each * 0 for name, each in valid.items()}
        _RELEASES[str(folder)] = SimpleNamespace(
            embedding=SimpleNamespace(zeros=lambda: zeros), clip_norm=1.0
        )
    return _RELEASES[str(folder)]


_RELEASES: dict[str, Any] = {}


def _flower(folder: Path) -> object:
    """Bytes of arrays in a message of Flower."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    from privet.federate.flower import _unpacked

    content = (folder / "one.npy").read_bytes()
    arrays = {"one": Array("uint8", (4, 8, 8, 3), "numpy.ndarray", content)}
    message = {"words": ConfigRecord({"json": "{}"}), "tensors": ArrayRecord(arrays)}
    return _unpacked(RecordDict(message))


def _load_model(folder: Path) -> object:
    import privet

    found = privet.load(folder / "run")
    return found.predict(np.zeros((2, 8, 8, 1), np.uint8))  # type: ignore[union-attr]


def _load_set(folder: Path) -> object:
    import privet

    found = privet.load(folder / "one")
    return found.data.images[:4]  # type: ignore[union-attr]


def _report_model(folder: Path) -> object:
    from privet.recipes.run_reports import report

    return report([folder / "run"], folder / "page.html")


def _report_sets(folder: Path) -> object:
    from privet.recipes.run_reports import report

    return report([folder / "one", folder / "both"], folder / "page.html")


def _report_federation(folder: Path) -> object:
    from privet.recipes.run_reports import report

    return report([folder / "run"], folder / "page.html")


def _export_model(folder: Path) -> object:
    from privet.recipes.run_export import export

    return export(folder / "run", "safetensors", folder / OUT)


def _export_set(folder: Path) -> object:
    from privet.recipes.run_export import export

    export(folder / "one", "npz", folder / "out.npz")
    return export(folder / "one", "png", folder / OUT)


def _merge(folder: Path) -> object:
    from privet.recipes.merging import merge

    return merge([folder / "one", folder / "two"], folder / OUT)


def _evaluate(folder: Path) -> object:
    from privet.recipes.run_evaluation import evaluate

    return evaluate(folder / "run")


def _resume(folder: Path) -> object:
    return _typed(["train", "--out", str(folder / "run"), "--resume"], folder)


def _encoder(folder: Path) -> object:
    from privet.recipes.encoder_names import encoder_choice

    choice = encoder_choice(str(folder / "encoder.safetensors"))
    return choice.outline((8, 8, 1), None)


def _one_setting(content: bytes, draw: random.Random) -> bytes:
    return damage.words(draw.choice(content.splitlines()), draw)


def _read_words(folder: Path, kind: str, read: Callable[[str], object]) -> object:
    """What was typed; all of them where nothing was damaged."""
    text = (folder / kind).read_text(encoding="utf-8", errors="replace")
    return [read(each) for each in text.split("\n")]


def _model_words(text: str) -> object:
    """The network too, for rows that the model takes: a size that nothing holds is refused."""
    from privet.recipes.models import require_room
    from privet.recipes.run_config import read_model

    model = read_model(text)
    shape = {"images": (28, 28, 1), "rows": (20,), "sequences": (35,)}[model.takes[0]]
    return require_room(model, shape, 10)


def _slot_words(text: str) -> object:
    from privet.augment import CropFlip
    from privet.recipes.slots import SLOT_NAMES, read_slot, slot_text

    name, _, rest = text.partition("=")
    if name not in SLOT_NAMES:
        name, rest = "views", text
    return slot_text(name, read_slot(name, rest, CropFlip()))


def _method_words(text: str) -> object:
    from privet.recipes.choices import Situation
    from privet.recipes.synthesis_config import chosen_system

    situation = Situation(relative_noise=0.1, size=600.0, num_classes=3, image_shape=(8, 8, 1))
    return chosen_system(text, "auto", situation, 1.0)


def _encoder_words(text: str) -> object:
    from privet.recipes.encoder_names import encoder_choice

    return encoder_choice(text)


def _warm_up_words(text: str) -> object:
    from privet.recipes.warm_ups import warm_up_steps

    return warm_up_steps(text)


def _command(folder: Path) -> object:
    words = json.loads((folder / "commands.json").read_bytes())
    if words and isinstance(words[0], list):
        words = words[0]
    words = [each.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for each in words]
    if words[:1] in (["train"], ["synthesize"]):
        words.append("--dry-run")
    return _typed(words, folder)


class UnexpectedError(Exception):
    """The command line itself met something that it did not expect."""


def _typed(words: list[str], folder: Path) -> object:
    from privet.cli import main
    from privet.errors import PrivetError

    before = Path.cwd()
    os.chdir(folder)
    said = io.StringIO()
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            main(words)
    except SystemExit as end:
        text = said.getvalue()
        if "Unexpected " in text or "Traceback" in text:
            raise UnexpectedError(text) from None
        if end.code:
            raise PrivetError(text) from None
    finally:
        os.chdir(before)
    return None


_JSON = {"*.json": damage.json_text}
_RUN = {
    "run/config.json": damage.json_text,
    "run/result.json": damage.json_text,
    "run/run.json": damage.json_text,
    "run/certificate.json": damage.json_text,
}


def _words_target(kind: str, read: Callable[[str], object], cases: int) -> Target:
    return Target(
        name=f"words of --{kind}",
        sample="words",
        read=lambda folder: _read_words(folder, kind, read),
        damages={kind: _one_setting},
        cases=cases,
        chunk=10_000,
    )


TARGETS = (
    Target(
        name="folders of images",
        sample="pictures",
        read=_images,
        damages={"*.png": damage.png, "*": damage.raw},
        cases=60_000,
        chunk=10_000,
    ),
    Target(
        name=".npz archives",
        sample="npz",
        read=_npz,
        damages={"*": damage.zip_archive},
        cases=60_000,
        chunk=10_000,
    ),
    Target(
        name="IDX files",
        sample="idx",
        read=_idx,
        damages={"*.gz": damage.gzipped, "*": damage.raw},
        cases=60_000,
        chunk=10_000,
    ),
    Target(
        name="Parquet images and their exports",
        sample="shards",
        read=_shards,
        damages={"*.parquet": damage.parquet},
        cases=20_000,
    ),
    Target(
        name="PNG folders of Parquet images",
        sample="shards",
        read=_png_folders,
        damages={"*.parquet": damage.parquet},
        cases=20_000,
    ),
    Target(
        name="folders of datasets",
        sample="saved",
        read=_images,
        damages={"*.json": damage.json_text, "*.arrow": damage.raw},
        cases=10_000,
    ),
    Target(
        name="tables and schemas",
        sample="tables",
        read=_tables,
        damages={
            "*.csv": damage.raw,
            "*.jsonl": damage.json_lines,
            "*.parquet": damage.parquet,
            **_JSON,
        },
        cases=60_000,
        chunk=5000,
    ),
    Target(
        name="schemas of public tables",
        sample="tables",
        read=_schema_of,
        damages={"*.csv": damage.raw, "*.parquet": damage.parquet},
        cases=20_000,
    ),
    Target(
        name="text",
        sample="text",
        read=_text,
        damages={"*.txt": damage.raw, "*.jsonl": damage.json_lines},
        cases=60_000,
        chunk=10_000,
    ),
    Target(
        name="certificates",
        sample="model",
        read=_certificate,
        damages={"run/certificate.json": damage.json_text},
        cases=60_000,
        chunk=5000,
    ),
    Target(
        name="certificates of federations",
        sample="messages",
        read=_certificate,
        damages={"run/certificate.json": damage.json_text},
        cases=20_000,
    ),
    Target(
        name="configurations and states of training",
        sample="model",
        read=_run_config,
        damages={"run/config.json": damage.json_text, "run/run.json": damage.json_text},
        cases=100_000,
        chunk=10_000,
    ),
    Target(
        name="configurations of synthetic sets",
        sample="sets",
        read=_set_config,
        damages={"one/config.json": damage.json_text, "both/config.json": damage.json_text},
        cases=60_000,
        chunk=5000,
    ),
    Target(
        name="privet.load of tables",
        sample="table-set",
        read=_table_config,
        damages={**_RUN, "run/synthetic/*.parquet": damage.parquet},
        cases=10_000,
    ),
    Target(
        name="checkpoints",
        sample="unfinished",
        read=_checkpoint,
        damages={"run/checkpoint.safetensors": damage.safetensors_file},
        cases=60_000,
        chunk=10_000,
    ),
    Target(
        name="kept steps and releases",
        sample="messages",
        read=_release_file,
        damages={
            "run/*.safetensors": damage.safetensors_file,
            "run/*/*.safetensors": damage.safetensors_file,
        },
        cases=20_000,
        chunk=5000,
    ),
    Target(
        name="ledgers",
        sample="ledger",
        read=_ledger,
        damages={"ledger.db": damage.ledger},
        cases=20_000,
    ),
    Target(
        name="messages of federations",
        sample="messages",
        read=_messages,
        damages=dict.fromkeys(("ask.json", "answer.json", "party.json"), damage.json_text),
        cases=60_000,
        chunk=5000,
    ),
    Target(
        name="noised sums of clients",
        sample="messages",
        read=_noised_sums,
        damages={"answer.json": damage.json_text, "answer.safetensors": damage.safetensors_file},
        cases=20_000,
    ),
    Target(
        name="arrays through Flower",
        sample="arrays",
        read=_flower,
        damages={"one.npy": damage.npy_header},
        cases=20_000,
        chunk=5000,
    ),
    Target(
        name="privet.load of models",
        sample="model",
        read=_load_model,
        damages={**_RUN, "run/model.safetensors": damage.safetensors_file},
        cases=20_000,
    ),
    Target(
        name="privet.load of sets",
        sample="sets",
        read=_load_set,
        damages={"one/*.json": damage.json_text, "one/synthetic/*.parquet": damage.parquet},
        cases=10_000,
    ),
    Target(
        name="reports of models",
        sample="model",
        read=_report_model,
        damages={
            **_RUN,
            "run/evaluation.json": damage.json_text,
            "run/metrics.jsonl": damage.json_lines,
            "run/ledger.db": damage.ledger,
        },
        cases=6000,
        chunk=1000,
    ),
    Target(
        name="reports of sets",
        sample="sets",
        read=_report_sets,
        damages={
            "one/*.json": damage.json_text,
            "both/*.json": damage.json_text,
            "one/metrics.jsonl": damage.json_lines,
        },
        cases=3000,
        chunk=1000,
    ),
    Target(
        name="reports of federations",
        sample="messages",
        read=_report_federation,
        damages=_RUN,
        cases=3000,
        chunk=1000,
    ),
    Target(
        name="exports of models",
        sample="model",
        read=_export_model,
        damages={**_RUN, "run/model.safetensors": damage.safetensors_file},
        cases=6000,
        chunk=1000,
    ),
    Target(
        name="exports of sets",
        sample="sets",
        read=_export_set,
        damages={"one/*.json": damage.json_text, "one/synthetic/*.parquet": damage.parquet},
        cases=6000,
        chunk=1000,
    ),
    Target(
        name="merges",
        sample="sets",
        read=_merge,
        damages={
            "one/*.json": damage.json_text,
            "one/ledger.db": damage.ledger,
            "one/synthetic/*.parquet": damage.parquet,
        },
        cases=4000,
        chunk=1000,
    ),
    Target(
        name="evaluations of models",
        sample="model",
        read=_evaluate,
        damages={**_RUN, "run/model.safetensors": damage.safetensors_file},
        cases=4000,
        chunk=1000,
    ),
    Target(
        name="runs that are resumed",
        sample="unfinished",
        read=_resume,
        damages={
            "run/config.json": damage.json_text,
            "run/run.json": damage.json_text,
            "run/checkpoint.safetensors": damage.safetensors_file,
            "run/metrics.jsonl": damage.json_lines,
            "run/ledger.db": damage.ledger,
        },
        cases=2000,
        chunk=250,
    ),
    Target(
        name="files of encoders",
        sample="encoder",
        read=_encoder,
        damages={"*": damage.safetensors_file},
        cases=6000,
    ),
    _words_target("model", _model_words, 30_000),
    _words_target("slot", _slot_words, 60_000),
    _words_target("method", _method_words, 30_000),
    _words_target("encoder", _encoder_words, 30_000),
    _words_target("warm-up", _warm_up_words, 30_000),
    Target(
        name="command lines",
        sample="commands",
        read=_command,
        damages={"commands.json": _arguments},
        cases=10_000,
        chunk=1000,
    ),
)
