"""How users reach what is fuzzed: each function reads the files of one case as they would."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

OUT = "out"


def warm() -> None:
    """Import what readers import when they need it, once for all processes."""
    import datasets  # noqa: F401
    import flwr.app  # noqa: F401
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.datasets  # noqa: F401
    import torch._dynamo  # networks that are made import it, and it makes a folder  # noqa: F401
    from PIL import JpegImagePlugin, PngImagePlugin, WebPImagePlugin  # noqa: F401


def images(folder: Path, **more: Any) -> object:
    """Images of any layout, and their classes."""
    from privet.data import load

    data = load(folder, **more)
    return data.images[: min(len(data), 8)], data.class_counts()


def npz(folder: Path) -> object:
    """Archives, stored and compressed."""
    return [images(folder / name, resize=4) for name in ("stored.npz", "packed.npz")]


def idx(folder: Path) -> object:
    """Both parts of a folder of IDX files."""
    return images(folder, part="train"), images(folder, part="test")


def shards(folder: Path) -> object:
    """A synthetic set, and two of its exports."""
    from privet.data.shard_exports import copy_shards, write_npz
    from privet.data.shards import class_counts, num_rows

    shards = folder / "set"
    _ = images(shards), num_rows(shards), class_counts(shards, 4)
    copy_shards(shards, folder / OUT, beside={})
    return write_npz(shards, folder / "out.npz", certificate="{}")


def png_folders(folder: Path) -> object:
    """A synthetic set as folders of PNG files."""
    from privet.data.png_folders import write_png_folders

    return write_png_folders(folder / "set", folder / OUT, beside={})


def tables(folder: Path) -> object:
    """Rows of all three formats, by a schema."""
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


def schema_of(folder: Path) -> object:
    """What public rows say of columns."""
    from privet.data.public_schema import schema_of
    from privet.data.tables import read_table

    return [
        schema_of(read_table(folder / f"rows.{each}"), "y", each) for each in ("csv", "parquet")
    ]


def text(folder: Path) -> object:
    """Sequences of words."""
    from privet.data.text import TextSet, read_sequences, read_texts, vocabulary_of

    found = read_sequences(folder / "words.txt")
    texts = read_texts(folder / "words.jsonl", "text", "user")
    rows = TextSet(found, vocabulary_of(texts.sequences), causal=True)
    return rows.columns()


def certificate(folder: Path) -> object:
    """Of a run, in words too."""
    from privet.privacy.certificate import promise
    from privet.runs.run_certificate import certificate_of
    from privet.runs.run_folder import RunFolder

    found = certificate_of(RunFolder(folder / "run"))
    assert found is not None
    return found.statement, found.dumps(), promise(found)


def run_config(folder: Path) -> object:
    """What a run of `privet train` was and knew."""
    from privet.runs.run_folder import STATE, RunFolder
    from privet.runs.train_config import RunConfig
    from privet.runs.train_state import RunState
    from privet.runs.trained_network import finished_config

    run = RunFolder(folder / "run")
    config = finished_config(run)
    state = RunState.from_json(run.read(STATE))
    return RunConfig.from_json(config.to_json()), RunState.from_json(state.to_json())


def set_config(folder: Path) -> object:
    """What a synthetic set and a merge were."""
    from privet.runs.finished_set import finished_set_config, set_folder

    return [finished_set_config(set_folder(folder / name)) for name in ("one", "both")]


def table_config(folder: Path) -> object:
    """Synthetic rows."""
    import privet

    return privet.load(folder / "run")


def checkpoint(folder: Path) -> object:
    """Progress of a run."""
    from privet.learn.checkpoint import load

    return load(folder / "run/checkpoint.safetensors")


def release_file(folder: Path) -> object:
    """A kept release is read, and one that is not this run's is refused."""
    from privet.runs.folder_memory import FolderMemory
    from privet.runs.run_folder import RunFolder

    memory = FolderMemory(RunFolder(folder / "run"), (8, 8, 1))
    names = [each.stem for each in (folder / "run/releases").glob("*.safetensors")]
    steps = [each.stem for each in (folder / "run/steps").glob("*.safetensors")]
    made = [memory.once(each, dict) for each in steps]
    return made, [memory._read(f"releases/{each}.safetensors", "none") for each in names]


def ledger(folder: Path) -> object:
    """All that `privet ledger show` shows."""
    from privet.privacy import Ledger
    from privet.privacy.overview import overview

    with closing(Ledger.open(folder / "ledger.db")) as ledger:
        return overview(ledger), [(each.label, each.spent) for each in ledger.records()]


def messages(folder: Path) -> object:
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


def noised_sums(folder: Path) -> object:
    """What a client sends as a sum, against what was agreed on."""
    from privet.federate.messages import Answer, Ask
    from privet.federate.sums import added, checked_sum
    from privet.runs.trained_network import saved_tensors

    ask = Ask.read((folder / "ask.json").read_text(), saved_tensors(folder / "ask.safetensors"))
    sent = saved_tensors(folder / "answer.safetensors")
    answer = Answer.read((folder / "answer.json").read_text(errors="replace"), sent, "Node 1")
    return added([checked_sum(answer, _release_of(ask, folder))] * 2)


def _release_of(ask: Any, folder: Path) -> Any:
    """Like the server's: what has the shapes of a valid answer, made once."""
    if str(folder) not in _RELEASES:
        from types import SimpleNamespace

        from privet.runs.trained_network import saved_tensors

        valid = saved_tensors(
            Path(os.environ["PRIVET_FUZZ_SAMPLES"]) / "messages/answer.safetensors"
        )
        zeros = {name: each * 0 for name, each in valid.items()}
        _RELEASES[str(folder)] = SimpleNamespace(
            embedding=SimpleNamespace(zeros=lambda: zeros), clip_norm=1.0
        )
    return _RELEASES[str(folder)]


_RELEASES: dict[str, Any] = {}


def flower(folder: Path) -> object:
    """Bytes of arrays in a message of Flower."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    from privet.federate.flower import _unpacked

    content = (folder / "one.npy").read_bytes()
    arrays = {"one": Array("uint8", (4, 8, 8, 3), "numpy.ndarray", content)}
    message = {"words": ConfigRecord({"json": "{}"}), "tensors": ArrayRecord(arrays)}
    return _unpacked(RecordDict(message))


def load_model(folder: Path) -> object:
    """A model, which then predicts."""
    import privet

    found = privet.load(folder / "run")
    return found.predict(np.zeros((2, 8, 8, 1), np.uint8))  # type: ignore[union-attr]


def load_set(folder: Path) -> object:
    """Synthetic images."""
    import privet

    found = privet.load(folder / "one")
    return found.data.images[:4]  # type: ignore[union-attr]


def report_model(folder: Path) -> object:
    """A page on one run."""
    from privet.runs.run_reports import report

    return report([folder / "run"], folder / "page.html")


def report_sets(folder: Path) -> object:
    """A page on two runs."""
    from privet.runs.run_reports import report

    return report([folder / "one", folder / "both"], folder / "page.html")


def report_federation(folder: Path) -> object:
    """A page on a federation."""
    from privet.runs.run_reports import report

    return report([folder / "run"], folder / "page.html")


def export_model(folder: Path) -> object:
    """Weights in a folder."""
    from privet.runs.run_export import export

    return export(folder / "run", "safetensors", folder / OUT)


def export_set(folder: Path) -> object:
    """Images as one file and as many."""
    from privet.runs.run_export import export

    export(folder / "one", "png", folder / OUT)
    shutil.rmtree(folder / OUT)  # what is refused now is not to be blamed for it
    return export(folder / "one", "npz", folder / "out.npz")


def merge(folder: Path) -> object:
    """Two sets as one."""
    from privet.runs.merging import merge

    return merge([folder / "one", folder / "two"], folder / OUT)


def evaluate(folder: Path) -> object:
    """Accuracy of a model."""
    from privet.runs.model_evaluation import evaluate

    return evaluate(folder / "run")


def resume(folder: Path) -> object:
    """The rest of a run."""
    return _typed(["train", "--out", str(folder / "run"), "--resume"], folder)


def encoder(folder: Path) -> object:
    """Weights of an encoder."""
    from privet.recipes.encoder_names import encoder_choice

    choice = encoder_choice(str(folder / "encoder.safetensors"))
    return choice.outline((8, 8, 1), None)


def read_words(folder: Path, kind: str, read: Callable[[str], object]) -> object:
    """What was typed; all of them where nothing was damaged."""
    text = (folder / kind).read_text(encoding="utf-8", errors="replace")
    return [read(each) for each in text.split("\n")]


def model_words(text: str) -> object:
    """The network too, for rows that the model takes: a size that nothing holds is refused."""
    from privet.runs.train_config import read_model
    from privet.runs.weights import require_room

    model = read_model(text)
    shape = {"images": (28, 28, 1), "rows": (20,), "sequences": (35,)}[model.takes[0]]
    return require_room(model, shape, 10)


def slot_words(text: str) -> object:
    """What fills a slot of equation 1."""
    from privet.augment import CropFlip
    from privet.recipes.slots import SLOT_NAMES, read_slot, slot_text

    name, _, rest = text.partition("=")
    if name not in SLOT_NAMES:
        name, rest = "views", text
    return slot_text(name, read_slot(name, rest, CropFlip()))


def method_words(text: str) -> object:
    """A method of `privet synthesize`."""
    from privet.recipes.choices import Situation
    from privet.runs.synthesis_config import chosen_system

    situation = Situation(relative_noise=0.1, size=600.0, num_classes=3, image_shape=(8, 8, 1))
    return chosen_system(text, "auto", situation, 1.0)


def encoder_words(text: str) -> object:
    """What looks at images."""
    from privet.recipes.encoder_names import encoder_choice

    return encoder_choice(text)


def warm_up_words(text: str) -> object:
    """How a warm-up steps."""
    from privet.recipes.warm_ups import warm_up_steps

    return warm_up_steps(text)


def command(folder: Path) -> object:
    """A command line, which trains and makes nothing."""
    words = json.loads((folder / "commands.json").read_bytes())
    if words and isinstance(words[0], list):
        words = words[0]
    words = [each.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for each in words]
    words = [each.partition("\0")[0] for each in words]  # what a system hands over ends there
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
