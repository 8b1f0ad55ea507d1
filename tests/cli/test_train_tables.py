"""`privet train` on tables: every command that images have, and nothing learned of private rows."""

import json

import numpy as np
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

import privet as library
from privet.errors import DataError
from privet.privacy import Ledger
from privet.runs import train_run
from tests.cli.runs import Killed, names, read

COMMON = "--target y --epsilon 2 --delta 1e-5 --sample-rate 0.2 --epochs 0.6"
SCHEMA = {
    "target": "y",
    "classes": ["high", "low"],
    "columns": [
        {"kind": "numeric", "name": "age", "low": 0, "high": 100},
        {"kind": "binary", "name": "member", "values": ["no", "yes"]},
        {"kind": "categorical", "name": "job", "categories": ["clerk", "cook", "nurse"]},
    ],
}


def rows(count=400, seed=0, **columns):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 101, count)
    found = {
        "age": [str(each) if each % 9 else "" for each in age],
        "member": rng.choice(["no", "yes"], count).tolist(),
        "job": rng.choice(["clerk", "cook", "nurse"], count).tolist(),
        "y": np.where(age > 50, "high", "low").tolist(),
        **columns,
    }
    lines = [",".join(found), *(",".join(row) for row in zip(*found.values(), strict=True))]
    return "\n".join(lines) + "\n"


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(rows())
    return path


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return path


@pytest.fixture
def train_table(privet, tmp_path, csv, one_thread):
    def run(words="", out="run", data=csv):
        return privet(f"train {data} {COMMON} --out {tmp_path / out} {words}")

    return run


@pytest.mark.parametrize("method", ["dp-sgd", "dope", "mirror", "adadps", "weight-multiplicity"])
def test_every_method_trains_on_a_table(train_table, method):
    done = train_table(f"--method {method} --public 0.2 --warm-up-epochs 2 --test 0.2 --json")
    assert done.code == 0, done.err
    body = json.loads(done.out)
    assert body["steps"]["done"] == 3
    assert body["test"]["count"] == 80
    assert (
        "public rows for bounds, categories and classes of the table's columns"
        in (body["certificate"]["public"])
    )


def test_a_run_is_told_evaluated_reported_exported_and_loaded(train_table, privet, tmp_path, csv):
    done = train_table("--method dope --public 0.2 --warm-up-epochs 2 --test 0.2 --keep-last 2")
    assert done.code == 0, done.err
    assert "public rows alone" in done.out
    assert "80 rows" in done.out
    assert "image" not in done.out + done.err
    run = tmp_path / "run"
    again = privet(f"evaluate {run} --json")
    assert json.loads(again.out)["accuracy"] == read(run / "result.json")["test"]["accuracy"]
    other = tmp_path / "other.csv"
    other.write_text(rows(50, seed=1))
    assert "50 rows" in privet(f"evaluate {run} --test {other}").out
    assert privet(f"report {run}").code == 0
    assert "50 rows" in (run / "report.html").read_text()
    exported = tmp_path / "shared"
    assert privet(f"export {run} --to safetensors --out {exported}").code == 0
    assert "for models of images" in privet(f"export {run} --to onnx --out {tmp_path}/m.onnx").err

    row = {"age": 70, "member": "yes", "job": "spy"}
    found = library.load(run)
    [first, second] = found.predict(row)
    assert {first["label"], second["label"]} == {"high", "low"}
    assert first["score"] >= second["score"]
    for [again] in library.load(exported).predict([row, row], top_k=1):
        assert again == {**first, "score": pytest.approx(first["score"], rel=1e-5)}
    assert found.probabilities(str(other)).shape == (50, 2)
    assert "TableClassifier('y' of table rows, 2 classes, ε" in repr(found)
    with pytest.raises(DataError, match="has no column 'job'"):
        found.predict({"age": 70, "member": "yes"})
    with pytest.raises(DataError, match="has a column 'zip'"):
        found.predict({**row, "zip": 1})


def test_parquet_is_the_same_table(train_table, tmp_path, csv):
    stored = tmp_path / "rows.parquet"
    pq.write_table(arrow_csv.read_csv(csv), stored)  # typed, as whoever wrote it saw fit
    words = "--method dp-sgd --public 0.2 --warm-up-epochs 2 --declared-size 300 --noise-seed 3"
    assert train_table(words, "a").code == 0
    assert train_table(words, "b", stored).code == 0
    one, other = (tmp_path / out / "model.safetensors" for out in "ab")
    assert one.read_bytes() == other.read_bytes()


def test_nothing_that_is_written_or_said_depends_on_private_rows(train_table, tmp_path, schema):
    """Another table of other values, other categories, other classes: the same before the hedge."""
    path, shown = tmp_path / "rows.csv", []
    wild = rows(400, seed=5, age=["9999"] * 400, job=["spy"] * 400, y=["?"] * 400)
    public = tmp_path / "public.csv"
    public.write_text(rows(60, seed=7))
    for text in (rows(), wild, rows(200)):
        path.write_text(text)
        done = train_table(f"--method dope --public {public} --dry-run --declared-size 400")
        assert done.code == 0, done.err
        shown.append(done)
    assert shown[0] == shown[1] == shown[2]
    for number, text in enumerate((rows(), wild)):
        path.write_text(text)
        done = train_table(
            f"--method dp-sgd --schema {schema} --declared-size 400", out=f"run{number}"
        )
        assert done.code == 0, done.err
    configs = [read(tmp_path / f"run{number}" / "config.json") for number in range(2)]
    assert configs[0]["config"] == configs[1]["config"]
    assert configs[0]["config"]["rows"]["declared"] is True


def test_a_dry_run_reads_no_private_row(train_table, tmp_path, schema, monkeypatch):
    from privet.data.table_set import TableSet

    def closed(_):
        raise AssertionError("rows were encoded")

    monkeypatch.setattr(TableSet, "columns", closed)
    done = train_table(f"--method dp-sgd --schema {schema} --declared-size 400 --dry-run")
    assert done.code == 0, done.err
    assert "80.0 expected rows" in done.out
    assert "mlp:hidden=256-128-64" in done.out
    assert names(tmp_path) == {"rows.csv", "schema.json"}


def test_a_killed_run_goes_on(train_table, privet, tmp_path, killed_at):
    killed_at(train_run, "write_results")
    with pytest.raises(Killed):
        train_table("--method dope --public 0.2 --warm-up-epochs 2 --test 0.2")
    done = privet(f"train --resume --out {tmp_path / 'run'}")
    assert done.code == 0, done.err


def test_an_owners_ledger_pays(train_table, privet, tmp_path):
    ledger = tmp_path / "owner.db"
    assert privet(f"ledger create {ledger} --epsilon 3 --delta 1e-5").code == 0
    assert train_table(f"--method dope --public 0.2 --ledger {ledger}").code == 0
    refused = train_table(f"--method dope --public 0.2 --ledger {ledger}", "second")
    assert refused.code == 3


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("--method dp-sgd", 2, "never from private ones: give --schema"),
        ("--method dp-mix --public 0.2", 2, "makes no sense for rows"),
        ("--method dp-sgd --views 4 --public 0.2", 2, "makes no sense for rows"),
        (
            "--method dp-sgd --public 0.2 --model conv-net",
            2,
            "choose linear or mlp",
        ),
        ("--method dp-sgd --public 0.2 --resize 8", 2, "--resize is for images"),
        (
            "--method dp-sgd --public 0.2 --warm-up-augment cutout",
            2,
            "Only images have views",
        ),
        (
            "--method dp-sgd --public 0.2 --target z",
            4,
            "has no column 'z' to predict",
        ),
        ("--method dp-sgd --schema nowhere.json", 4, "is no file; give a schema"),
        ("--method dp-sgd --public rows.csv", 4, "is no file; give a table"),
    ],
)
def test_refusals(train_table, tmp_path, words, code, sentence):
    done = train_table(words)
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_columns_that_do_not_fit_the_schema_are_named(train_table, tmp_path, schema):
    path = tmp_path / "rows.csv"
    path.write_text(rows(zip=["1"] * 400))
    words = f"--method dp-sgd --schema {schema}"
    assert "has a column 'zip' that the schema does not know" in train_table(words).err
    path.write_text(rows().replace("job,", "trade,", 1))
    assert "has no column 'job'" in train_table(words).err
    assert "--target is 'job' and the schema's is 'y'" in train_table(f"{words} --target job").err


def test_a_schema_is_made_of_public_rows(privet, csv, tmp_path):
    out = tmp_path / "made.json"
    made = privet(f"data schema {csv} --target y --out {out}")
    assert made.code == 0
    body = read(out)
    assert [each["kind"] for each in body["columns"]] == ["numeric", "binary", "categorical"]
    assert "exists already" in privet(f"data schema {csv} --target y --out {out}").err
    assert json.loads(privet(f"data schema {csv} --target y").out) == body


def test_trap_a_schema_of_the_private_rows_is_refused(privet, train_table, csv, tmp_path):
    made = tmp_path / "made.json"
    assert privet(f"data schema {csv} --target y --out {made}").code == 0
    refused = train_table(f"--method dp-sgd --schema {made}")
    assert (refused.code, "was made of the private table" in refused.err) == (3, True), refused.err
    assert not (tmp_path / "run").exists()
    other = tmp_path / "other.csv"
    other.write_text(rows())
    assert train_table(f"--method dp-sgd --schema {made}", data=other).code == 0
    [record] = Ledger.open(tmp_path / "run" / "ledger.db").records()
    assert record.split.others == (str(csv),)
    body = read(made)
    assert body.pop("made_of") == str(csv)
    made.write_text(json.dumps(body))  # its owner says that all of it is known
    assert train_table(f"--method dp-sgd --schema {made}", out="declared").code == 0


def test_runs_from_before_tables_are_still_read(train, tmp_path):
    assert train("--declared-size 1700").code == 0
    path = tmp_path / "run" / "config.json"
    body = read(path)
    body["config"]["image_shape"] = body["config"].pop("rows")["shape"]
    for name in ("target", "schema"):
        del body["config"]["data"][name]
    path.write_text(json.dumps(body))
    assert library.load(tmp_path / "run").image_shape == (8, 8, 1)
