"""Headers that promise terabytes, files that want to run code, JSON that readers disagree on."""

import json
import os
import pickle
import struct
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import privet
from privet.cli import main
from privet.data import load
from privet.data.encoded import EncodedFiles
from privet.data.schema_file import read_schema
from privet.errors import ConfigError, DataError, PrivacyError, PrivetError
from privet.federate.messages import Answer
from privet.plain_json import WRONG_VALUES, parsed, read, require
from privet.privacy import Certificate, GaussianRelease, Ledger, Plan
from privet.runs.train_config import read_model
from privet.runs.trained_network import saved_tensors
from privet.runs.weights import require_room

TERABYTE = 2**40


class Bomb:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def test_pickled_objects_are_never_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.array([Bomb(tmp_path / "ran")] * 2, dtype=object))
    with pytest.raises(DataError, match="unpickling"):
        load(tmp_path / "a.npz")
    weights = {"weight": torch.zeros(2), "x": Bomb(tmp_path / "ran")}
    torch.save(weights, tmp_path / "model.safetensors")
    with pytest.raises(DataError):
        saved_tensors(tmp_path / "model.safetensors")
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
    with pytest.raises(DataError):
        load(tmp_path / "b.npz")
    assert not (tmp_path / "ran").exists()


def npy(shape, content=b""):
    header = repr({"descr": "|u1", "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content


def test_an_array_of_terabytes_is_refused_before_memory_is_taken(tmp_path):
    import zipfile

    for packed in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "a.npz", "w", packed) as archive:
            archive.writestr("images.npy", npy((TERABYTE, 8, 8), bytes(64)))
        with pytest.raises(DataError, match=r"promises .* bytes and has 64"):
            load(tmp_path / "a.npz")


def test_a_zip_bomb_is_refused(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", npy((2**25, 1, 1), bytes(2**25)))
    with pytest.raises(DataError, match="which no set of images does"):
        load(tmp_path / "a.npz")


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@pytest.mark.parametrize(("side", "why"), [(9000, "stored ones"), (2**31 - 1, "pixels")])
def test_a_picture_that_its_bytes_cannot_hold_is_refused(tmp_path, side, why):
    header = struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0)
    content = (
        chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")
    )
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    with pytest.raises(DataError, match=why):
        load(tmp_path)


@pytest.mark.parametrize(
    "offsets",
    [[[0, 8], [4, 12]], [[0, 8], [0, 8]], [[0, 8], [8, TERABYTE]], [[0, 8], [16, 24]]],
)
def test_tensors_that_overlap_or_lie_outside_are_refused(tmp_path, offsets):
    header = json.dumps(
        {
            name: {"dtype": "F32", "shape": [2], "data_offsets": place}
            for name, place in zip("ab", offsets, strict=True)
        }
    ).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    with pytest.raises(DataError, match="cannot be read"):
        saved_tensors(path)


def test_a_header_of_terabytes_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(TERABYTE.to_bytes(8, "little") + b"{}" + bytes(64))
    with pytest.raises(DataError, match="cannot be read"):
        saved_tensors(path)


def test_weights_of_another_network_take_no_memory(model):
    """Sizes in a configuration are compared with the weights before a network is made."""
    body = json.loads((model / "config.json").read_text())
    body["config"]["rows"]["shape"] = [2**20, 2**20, 1]
    (model / "config.json").write_text(json.dumps(body))
    with pytest.raises(PrivetError, match="differ in"):
        privet.load(model)


def test_weights_of_another_shape_are_refused(model):
    weights = load_file(model / "model.safetensors")
    save_file(
        {name: each[:1].clone() for name, each in weights.items()}, model / "model.safetensors"
    )
    with pytest.raises(PrivetError, match="differ in"):
        privet.load(model)


@pytest.mark.parametrize(
    "text", ["mlp:hidden=1000000-1000000", "vit:depth=1000000000", "lm:width=99999999999999999999"]
)
def test_a_model_that_no_machine_holds_is_refused(text):
    with pytest.raises(ConfigError, match=r"choose a smaller|give 1 to"):
        require_room(read_model(text), (28, 28, 1), 10)


@pytest.mark.parametrize(
    "columns",
    [
        {"image": [1, 2]},
        {"image": [b"x", None]},
        {"image": [{"bytes": "text"}] * 2},
        {"image": [[1.0]] * 2},
        {"label": [0, 1]},
        {},
    ],
)
def test_parquet_of_another_schema_is_refused(tmp_path, columns):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(DataError):
        load(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "'a' is in it twice"),
        ('{"a": {"b": 1, "b": 1}}', "'b' is in it twice"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"a": ' * 50_000 + "1" + "}" * 50_000, "nested too deeply"),
        ("9" * 5000, "64 bits"),
        ("-99999999999999999999", "64 bits"),
        (b"\xff\xfe", "utf"),
        ("{", "Expecting"),
    ],
)
def test_json_that_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        parsed(text)


def test_a_file_of_json_is_not_read_if_it_is_huge(tmp_path):
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(TERABYTE)  # of which nothing is stored
    with pytest.raises(ValueError, match="over the limit"):
        read(tmp_path / "a.json")


def test_json_as_it_should_be(tmp_path):
    body = {"a": [1, 2.5, None, True, "é"], "seed": 2**64 - 1, "loss": [1e-300]}
    assert parsed(json.dumps(body)) == body


@pytest.fixture
def certificate(ledger):
    from privet.privacy import certify

    return certify(ledger.reserve(plan=Plan.of(GaussianRelease(noise_multiplier=4.0))))


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.1},
        {"epsilon": float("nan")},
        {"epsilon": -1},
        {"delta": float("nan")},
        {"delta": 0},
        {"accountant": "none"},
        {"events": []},
        {"events": [{"kind": "gaussian-release", "noise_multiplier": 9.0, "releases": 1}]},
        {"events": [{"kind": "gaussian-release", "noise_multiplier": 4.0, "releases": 2**63}]},
        {"public": "everything"},
        {"declared": {"units": "many"}},
        {"relation": ["add-remove"]},
    ],
)
def test_an_edited_certificate_is_refused(certificate, changes):
    body = {**certificate.to_json(), **changes}
    with pytest.raises((PrivacyError, ConfigError)):
        Certificate.from_json(body).check_events("certificate.json")


def test_an_answer_is_refused_by_whoever_sent_it(certificate):
    words = Answer(party="ant", certificate=certificate, noise_scale=1.0).words()
    assert Answer.read(words, {}, "Node 1").party == "ant"
    for old, new in (('"party"', '"refusal": null, "party"'), ("1.0", "[" * 10**5 + "]" * 10**5)):
        with pytest.raises(DataError, match="Node 1"):
            Answer.read(words.replace(old, new, 1), {}, "Node 1")


@pytest.mark.parametrize(
    ("name", "value"),
    [("epsilon", float("nan")), ("spent", [True]), ("label", 3), ("portion", ["a"]), ("seeded", 0)],
)
def test_a_ledger_whose_record_was_sealed_again_is_refused(tmp_path, name, value):
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path, epsilon=8, delta=1e-5, relation="add-remove")
    record = ledger.reserve(plan=Plan.of(GaussianRelease(noise_multiplier=4.0))).id
    ledger.close()
    reseal(path, record, name, value)
    with pytest.raises(PrivacyError, match="cannot read"):
        Ledger.open(path)


@pytest.mark.parametrize("order", [0, 2**31, 1e300], ids=str)
def test_a_ledger_of_an_order_that_no_filter_has_is_refused(tmp_path, order):
    path = tmp_path / "ledger.db"
    Ledger.create(path, epsilon=8, delta=1e-5, relation="add-remove").close()
    reseal(path, "promise", "filter_order", order)
    with pytest.raises(PrivacyError, match="cannot read"):
        Ledger.open(path)


def reseal(path, record, name, value):
    """Another value, with the seal that belongs to it."""
    import sqlite3

    from privet.privacy.store import _seal

    connection = sqlite3.connect(path)
    [[body]] = connection.execute("SELECT body FROM records WHERE key = ?", (record,))
    body = json.dumps({**json.loads(body), name: value})
    connection.execute(
        "UPDATE records SET body = ?, seal = ? WHERE key = ?", (body, _seal(record, body), record)
    )
    connection.commit()
    connection.close()


@pytest.mark.parametrize("asked", [3, "train", [], None, {"data": "a\0b"}], ids=str)
def test_a_set_that_does_not_say_what_was_asked_for_is_refused(sets, capsys, asked):
    config = sets / "one" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "asked": asked}))
    with pytest.raises(PrivetError):
        privet.load(sets / "one")
    with pytest.raises(SystemExit) as ended:
        main(["synthesize", "--out", str(sets / "one"), "--resume"])
    assert ended.value.code in (2, 4)
    assert "Unexpected" not in capsys.readouterr().err


def test_a_schema_with_half_a_character_is_refused(tmp_path):
    column = {"name": "a", "kind": "categorical", "categories": ["\ud800", "b"]}
    body = {"target": "y", "classes": ["0", "1"], "columns": [column]}
    (tmp_path / "schema.json").write_text(json.dumps(body))
    with pytest.raises(DataError, match="no text"):
        read_schema(tmp_path / "schema.json")


@pytest.mark.parametrize(
    "body", [{}, {"step": "5"}, {"step": True}, {"step": None}, {"step": [5]}], ids=str
)
def test_values_of_other_types_are_refused(body):
    with pytest.raises(WRONG_VALUES):
        require(body, step=int)
    require({"step": 5, "more": "x"}, step=int | None)


def test_a_chunk_that_promises_gigabytes_takes_no_memory_for_them(tmp_path):
    """The length of a chunk stands in eight bytes before it, and Pillow asks for that many."""
    path = tmp_path / "a.png"
    Image.new("L", (8, 8)).save(path)
    encoded = EncodedFiles((path,))
    with pytest.raises(MemoryError), path.open("rb") as plain:
        plain.read(1024 * TERABYTE)
    with encoded.open(0) as file:
        assert file.read(1024 * TERABYTE) == path.read_bytes()
        assert file.read(5) == b""
    with encoded.open(0) as file:
        assert (file.read(4), file.read()) == (path.read_bytes()[:4], path.read_bytes()[4:])
