"""Valid files of every kind that Privet reads, made by what writes them."""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Callable, Mapping
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

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


def _make_unfinished(folder: Path) -> None:
    """As a kill leaves it: a checkpoint, and no result."""
    from privet.runs import run_folder

    discard, kept = run_folder.RunFolder.discard, run_folder.CHECKPOINT
    run_folder.RunFolder.discard = (  # type: ignore[method-assign]
        lambda self, name: None if name == kept else discard(self, name)
    )
    _privet(f"{_TRAIN} --out {folder / 'run'}")
    run_folder.RunFolder.discard = discard  # type: ignore[method-assign]
    for name in ("result.json", "model.safetensors", "certificate.json"):
        (folder / "run" / name).unlink()


def _make_set(folder: Path) -> None:
    for name in ("one", "two"):
        _privet(f"{_SET} --out {folder / name}")
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
    from privet.runs.listening import Silent

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
