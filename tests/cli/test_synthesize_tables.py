"""`privet synthesize` of tables: every part of a run that images have, and rows of the schema."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import privet as library
from privet.data.schema_file import schema_from_json
from privet.data.table_set import TableSet
from privet.data.tables import read_table
from privet.privacy import Ledger
from privet.recipes import table_embeddings
from privet.runs import synthesis_course, table_run
from tests.cli.runs import Killed, lines, names, read
from tests.cli.test_train_tables import SCHEMA, csv, rows, schema  # noqa: F401 - fixtures

QUICK = "--method dp-merf:size=20,iterations=3,per_class=4,batch_size=40 --epsilon 2 --delta 1e-5"


@pytest.fixture
def make(privet, tmp_path, csv, one_thread):  # noqa: F811
    def run(words="--public 0.2", out="run", count="--count 100"):
        return privet(f"synthesize {csv} --target y {QUICK} {count} --out {tmp_path / out} {words}")

    return run


def made(tmp_path, out="run"):
    return read_table(tmp_path / out / "synthetic" / "table.csv")


def test_rows_come_as_csv_and_parquet_of_the_schema(make, tmp_path, schema):  # noqa: F811
    done = make(f"--schema {schema} --declared-size 400 --json")
    assert done.code == 0, done.err
    body = json.loads(done.out)
    assert (body["rows"], body["certificate"]["unit"]) == (100, "example")
    assert len(body["releases"]) == 1
    table, stored = made(tmp_path), pq.read_table(tmp_path / "run" / "synthetic" / "table.parquet")
    assert table.column_names == stored.column_names == ["age", "member", "job", "y"]
    age = stored["age"].to_numpy()
    assert ((age >= 0) & (age <= 100)).all()
    assert set(stored["y"].to_pylist()) <= {"high", "low"}
    assert set(stored["job"].to_pylist()) <= {"clerk", "cook", "nurse", None}
    known = schema_from_json(SCHEMA)
    one, other = (TableSet(each, known) for each in (table, stored))
    assert np.allclose(one.inputs, other.inputs)
    assert (one.labels == other.labels).all()
    beside = read(tmp_path / "run" / "synthetic" / "certificate.json")
    assert beside["epsilon"] == pytest.approx(2, abs=1e-3)
    assert any("as declared" in each for each in body["certificate"]["public"])


def test_more_rows_cost_nothing_and_begin_with_the_same(make, privet, tmp_path):
    assert make().code == 0
    before, certificate = made(tmp_path), read(tmp_path / "run" / "certificate.json")
    spent = Ledger.open(tmp_path / "run" / "ledger.db").records()
    grown = privet(f"synthesize --resume --out {tmp_path / 'run'} --count 130 --json")
    assert grown.code == 0, grown.err
    assert json.loads(grown.out)["rows"] == 130
    assert made(tmp_path).slice(0, 100).equals(before)
    assert read(tmp_path / "run" / "certificate.json") == certificate
    assert Ledger.open(tmp_path / "run" / "ledger.db").records() == spent
    again = privet(f"synthesize --resume --out {tmp_path / 'run'}")
    assert "done already" in again.err
    fewer = privet(f"synthesize --resume --out {tmp_path / 'run'} --count 5")
    assert (fewer.code, "ask for as many or more" in fewer.err) == (2, True)


@pytest.mark.parametrize(
    ("owner", "name", "number"),
    [
        (synthesis_course, "replace", 1),
        (table_embeddings, "_trained", 1),
        (table_run, "_write_csv", 1),
        (table_run, "_summary", 1),
    ],
)
def test_a_killed_run_goes_on_and_pays_once(make, privet, tmp_path, killed_at, owner, name, number):
    patch = killed_at(owner, name, number)
    with pytest.raises(Killed):
        make("--public 0.2 --noise-seed 1")
    patch.undo()
    done = privet(f"synthesize --resume --out {tmp_path / 'run'} --noise-seed 1")
    assert done.code == 0, done.err
    assert make("--public 0.2 --noise-seed 1", "whole").code == 0
    assert made(tmp_path).equals(made(tmp_path, "whole"))
    [record] = Ledger.open(tmp_path / "run" / "ledger.db").records()
    assert list(record.spent) == [1]


def test_a_lost_release_is_not_made_again(make, privet, tmp_path):
    assert make().code == 0
    (tmp_path / "run" / "releases" / "release.safetensors").unlink()
    refused = privet(f"synthesize --resume --out {tmp_path / 'run'} --count 200")
    assert (refused.code, "cannot go on" in refused.err) == (3, True)


def test_a_dry_run_foretells_and_reads_no_private_row(make, tmp_path, monkeypatch, schema):  # noqa: F811
    public = tmp_path / "public.csv"
    public.write_text(rows(60, seed=7))
    encode = TableSet.columns

    def closed(self):
        assert "public" in self.where.lower(), "private rows were encoded"
        return encode(self)

    monkeypatch.setattr(TableSet, "columns", closed)
    words = f"--schema {schema} --public {public} --declared-size 400 --dry-run"
    body = json.loads(make(f"{words} --json", count="").out)
    assert set(body["signal_to_noise"]) == {"numbers.mean", "categories.mean", "counts.mean"}
    assert all(each > 0 for each in body["signal_to_noise"].values())
    assert (body["kind"], body["unit"], body["coordinates"]) == ("dp-merf", "example", 54)
    assert "predicted from public rows" in make(words, count="").out
    told = make(f"--schema {schema} --dry-run", count="")
    assert "Give --declared-size and public rows" in told.err
    assert names(tmp_path) == {"rows.csv", "schema.json", "public.csv"}


def test_noise_that_swamps_everything_is_said_before_it_is_paid_for(make):
    done = make("--public 0.2 --declared-size 20 --epsilon 0.01 --dry-run")
    assert "noise swamps every block" in done.err


def test_classes_are_as_large_as_released_or_alike(make, tmp_path):
    assert make("--public 0.2 --classes balanced").code == 0
    labels = made(tmp_path)["y"].to_pylist()
    assert (labels.count("high"), labels.count("low")) == (50, 50)


def test_a_user_is_the_unit_where_rows_have_users(make, csv, tmp_path):  # noqa: F811
    csv.write_text(rows(400, who=[f"u{number % 50}" for number in range(400)]))
    done = make("--public 0.2 --user who --json")
    assert done.code == 0, done.err
    certificate = json.loads(done.out)["certificate"]
    assert certificate["unit"] == "user"
    assert "one user" in certificate["statement"]
    assert "who" not in made(tmp_path).column_names


@pytest.mark.parametrize("name", ["public", "test"])
def test_trap_a_private_user_has_no_rows_in_another_set(make, csv, tmp_path, name):  # noqa: F811
    csv.write_text(rows(400, who=[f"u{number % 50}" for number in range(400)]))
    (tmp_path / "other.csv").write_text(rows(40, who=[f"u{number + 49}" for number in range(40)]))
    words = {"public": "0.2", "test": "0.2"} | {name: tmp_path / "other.csv"}
    said = " ".join(f"--{each} {part}" for each, part in words.items())
    done = make(f"{said} --user who")
    assert (done.code, "users whose other rows are private" in done.err) == (3, True), done.err
    (tmp_path / "other.csv").write_text(rows(40, who=[f"v{number}" for number in range(40)]))
    assert make(f"{said} --user who").code == 0
    (tmp_path / "other.csv").write_text(rows(40))
    done = make(f"{said} --user who", out="unsaid")
    assert (done.code, f"The {name} rows do not say whose they are" in done.err) == (0, True)


def test_trap_a_schema_of_released_rows_says_so(make, privet, tmp_path):
    assert make(out="first").code == 0
    file, table = tmp_path / "made.json", tmp_path / "first" / "synthetic" / "table.csv"
    assert privet(f"data schema {table} --target y --out {file}").code == 0
    (tmp_path / "first" / "certificate.json").unlink()
    (tmp_path / "first" / "synthetic" / "certificate.json").unlink(missing_ok=True)
    done = make(f"--schema {file} --declared-size 400")
    assert done.code == 0, done.err
    assert "rows of the schema are a private release themselves" in done.err
    public = read(tmp_path / "run" / "certificate.json")["public"]
    assert any("rows of the schema that are a private release" in each for each in public)


def test_a_run_is_reported_and_loaded_and_its_files_are_the_export(make, privet, tmp_path):
    assert make().code == 0
    run = tmp_path / "run"
    assert privet(f"report {run}").code == 0
    assert "A private synthetic table" in (run / "report.html").read_text()
    found = library.load(run)
    assert len(found) == 100
    assert "SyntheticRows(100 rows of 4 columns, ε" in repr(found)
    assert found.schema.target == "y"
    assert lines(run / "metrics.jsonl")[-1]["part"] == "matching"
    for command in (f"export {run} --to csv --out {tmp_path / 'x'}", f"evaluate {run}"):
        refused = privet(command)
        assert (refused.code, "made a table, not images" in refused.err) == (2, True)
    more = f"--target y --synthetic {run}/synthetic/table.csv --method dp-sgd --dry-run"
    told = privet(f"train {tmp_path / 'rows.csv'} {more} --public 0.2 --epsilon 1 --delta 1e-5")
    assert told.code == 0, told.err
    assert "a private release themselves" in told.err


def test_force_replaces_a_table_by_another(make, tmp_path):
    assert make().code == 0
    before = made(tmp_path)
    assert make().code == 2
    assert make("--public 0.2 --force").code == 0
    assert not made(tmp_path).equals(before)
    assert (tmp_path / "run" / "ledger.1.db").exists()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("", 2, "never from private ones: give --schema"),
        ("--public 0.2 --encoder conv", 2, "--encoder is for images"),
        ("--public 0.2 --preset paper", 2, "--preset is for images"),
        ("--public 0.2 --soft-labels", 2, "--soft-labels is for images"),
        ("--public 0.2 --resize 8", 2, "--resize is for images"),
        ("--public 0.2 --png", 2, "--png is for images"),
        ("--public 0.2 --method sps-g", 2, "for a table choose dp-merf"),
        ("--public 0.2 --method dp-merf:size=3", 2, "Fourier features come in pairs"),
        ("--public 0.2 --method dp-merf:widths=3", 2, "has no setting 'widths'"),
        ("--public 0.2 --method dp-merf:count_share=0", 2, "count_share is 0"),
        ("--public 0.2 --target z", 4, "has no column 'z' to predict"),
        ("--public 0.2 --user y", 2, "both name the column 'y'"),
        ("--public 0.2 --user nobody", 4, "has no column 'nobody' of users"),
        ("--public 0.2 --count 0", 2, "--count is 0"),
    ],
)
def test_refusals(make, tmp_path, words, code, sentence):
    done = make(words)
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_columns_that_do_not_fit_the_schema_are_named(make, csv, tmp_path, schema):  # noqa: F811
    csv.write_text(rows(zip=["1"] * 400))
    assert "has a column 'zip' that the schema does not know" in make(f"--schema {schema}").err
    csv.write_text(rows().replace("job,", "trade,", 1))
    assert "has no column 'job'" in make(f"--schema {schema}").err
    assert not (tmp_path / "run").exists()


def test_nothing_that_is_said_depends_on_private_rows(make, csv, tmp_path, schema):  # noqa: F811
    wild = rows(400, seed=5, age=["9999"] * 400, job=["spy"] * 400, y=["?"] * 400)
    said = []
    for number, text in enumerate((rows(), wild, rows(200))):
        csv.write_text(text)
        done = make(f"--schema {schema} --declared-size 400", f"run{number}")
        assert done.code == 0, done.err
        config = read(tmp_path / f"run{number}" / "config.json")["config"]
        said.append((done.err, config, read(tmp_path / f"run{number}" / "certificate.json")))
    assert said[0] == said[1] == said[2]
