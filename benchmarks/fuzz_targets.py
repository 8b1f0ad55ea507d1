"""What is fuzzed: everything that reads a file, a message or what somebody typed.

A target has a folder of valid files, made by the real writers, of which one is damaged at a time,
and a function that reads them as a user would.
"""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import fuzz_mutations as damage
import fuzz_readers as readers

_FILES: dict[tuple[str, Path], list[tuple[str, damage.Damage]]] = {}


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
        if (self.name, folder) not in _FILES:
            _FILES[self.name, folder] = self._files(folder)
        return _FILES[self.name, folder]

    def _files(self, folder: Path) -> list[tuple[str, damage.Damage]]:
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
        read=lambda folder: readers.read_words(folder, kind, read),
        damages={kind: damage.one_setting},
        cases=cases,
        chunk=10_000,
    )


TARGETS = (
    Target(
        name="folders of images",
        sample="pictures",
        read=readers.images,
        damages={"*.png": damage.png, "*": damage.raw},
        cases=60_000,
        chunk=10_000,
    ),
    Target(
        name=".npz archives",
        sample="npz",
        read=readers.npz,
        damages={"*": damage.zip_archive},
        cases=60_000,
        chunk=10_000,
    ),
    Target(
        name="IDX files",
        sample="idx",
        read=readers.idx,
        damages={"*.gz": damage.gzipped, "*": damage.raw},
        cases=60_000,
        chunk=10_000,
    ),
    Target(
        name="Parquet images and their exports",
        sample="shards",
        read=readers.shards,
        damages={"*.parquet": damage.parquet},
        cases=20_000,
    ),
    Target(
        name="PNG folders of Parquet images",
        sample="shards",
        read=readers.png_folders,
        damages={"*.parquet": damage.parquet},
        cases=20_000,
    ),
    Target(
        name="folders of datasets",
        sample="saved",
        read=readers.images,
        damages={"*.json": damage.json_text, "*.arrow": damage.raw},
        cases=10_000,
    ),
    Target(
        name="tables and schemas",
        sample="tables",
        read=readers.tables,
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
        read=readers.schema_of,
        damages={"*.csv": damage.raw, "*.parquet": damage.parquet},
        cases=20_000,
    ),
    Target(
        name="text",
        sample="text",
        read=readers.text,
        damages={"*.txt": damage.raw, "*.jsonl": damage.json_lines},
        cases=60_000,
        chunk=10_000,
    ),
    Target(
        name="certificates",
        sample="model",
        read=readers.certificate,
        damages={"run/certificate.json": damage.json_text},
        cases=60_000,
        chunk=5000,
    ),
    Target(
        name="certificates of federations",
        sample="messages",
        read=readers.certificate,
        damages={"run/certificate.json": damage.json_text},
        cases=20_000,
    ),
    Target(
        name="configurations and states of training",
        sample="model",
        read=readers.run_config,
        damages={"run/config.json": damage.json_text, "run/run.json": damage.json_text},
        cases=100_000,
        chunk=10_000,
    ),
    Target(
        name="configurations of synthetic sets",
        sample="sets",
        read=readers.set_config,
        damages={"one/config.json": damage.json_text, "both/config.json": damage.json_text},
        cases=60_000,
        chunk=5000,
    ),
    Target(
        name="privet.load of tables",
        sample="table-set",
        read=readers.table_config,
        damages={**_RUN, "run/synthetic/*.parquet": damage.parquet},
        cases=10_000,
    ),
    Target(
        name="checkpoints",
        sample="unfinished",
        read=readers.checkpoint,
        damages={"run/checkpoint.safetensors": damage.safetensors_file},
        cases=60_000,
        chunk=10_000,
    ),
    Target(
        name="kept steps and releases",
        sample="messages",
        read=readers.release_file,
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
        read=readers.ledger,
        damages={"ledger.db": damage.ledger},
        cases=20_000,
    ),
    Target(
        name="messages of federations",
        sample="messages",
        read=readers.messages,
        damages=dict.fromkeys(("ask.json", "answer.json", "party.json"), damage.json_text),
        cases=60_000,
        chunk=5000,
    ),
    Target(
        name="noised sums of clients",
        sample="messages",
        read=readers.noised_sums,
        damages={"answer.json": damage.json_text, "answer.safetensors": damage.safetensors_file},
        cases=20_000,
    ),
    Target(
        name="arrays through Flower",
        sample="arrays",
        read=readers.flower,
        damages={"one.npy": damage.npy_header},
        cases=20_000,
        chunk=5000,
    ),
    Target(
        name="privet.load of models",
        sample="model",
        read=readers.load_model,
        damages={**_RUN, "run/model.safetensors": damage.safetensors_file},
        cases=20_000,
    ),
    Target(
        name="privet.load of sets",
        sample="sets",
        read=readers.load_set,
        damages={"one/*.json": damage.json_text, "one/synthetic/*.parquet": damage.parquet},
        cases=10_000,
    ),
    Target(
        name="reports of models",
        sample="model",
        read=readers.report_model,
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
        read=readers.report_sets,
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
        read=readers.report_federation,
        damages=_RUN,
        cases=3000,
        chunk=1000,
    ),
    Target(
        name="exports of models",
        sample="model",
        read=readers.export_model,
        damages={**_RUN, "run/model.safetensors": damage.safetensors_file},
        cases=6000,
        chunk=1000,
    ),
    Target(
        name="exports of sets",
        sample="sets",
        read=readers.export_set,
        damages={"one/*.json": damage.json_text, "one/synthetic/*.parquet": damage.parquet},
        cases=6000,
        chunk=1000,
    ),
    Target(
        name="merges",
        sample="sets",
        read=readers.merge,
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
        read=readers.evaluate,
        damages={**_RUN, "run/model.safetensors": damage.safetensors_file},
        cases=4000,
        chunk=1000,
    ),
    Target(
        name="runs that are resumed",
        sample="unfinished",
        read=readers.resume,
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
        read=readers.encoder,
        damages={"*": damage.safetensors_file},
        cases=6000,
    ),
    _words_target("model", readers.model_words, 30_000),
    _words_target("slot", readers.slot_words, 60_000),
    _words_target("method", readers.method_words, 30_000),
    _words_target("encoder", readers.encoder_words, 30_000),
    _words_target("warm-up", readers.warm_up_words, 30_000),
    Target(
        name="command lines",
        sample="commands",
        read=readers.command,
        damages={"commands.json": damage.arguments},
        cases=10_000,
        chunk=1000,
    ),
)
