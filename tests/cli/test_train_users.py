"""`privet train --user`: all rows of a user are one unit, in tables, text and images."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file

import privet as library
from privet.data import load
from privet.data.tables import table_of
from privet.data.text import read_texts
from privet.data.users import user_ids
from privet.errors import DataError, PrivacyError
from privet.privacy import Ledger, Unit
from privet.runs.data_choice import DataChoice
from privet.runs.sets import read_sets
from privet.runs.table_sets import read_table_sets
from privet.runs.text_sets import read_text_sets
from tests.cli.runs import read
from tests.cli.test_train_tables import SCHEMA, rows, schema  # noqa: F401 - a fixture

TABLE = "--target y --epsilon 2 --delta 1e-5 --sample-rate 0.2 --epochs 0.6 --method dp-sgd"
TEXT = (
    "--task lm --target body --epsilon 2 --delta 1e-5 --sample-rate 0.2 --epochs 0.4 "
    "--method dp-sgd --model lm:width=8,heads=2,depth=1 --learning-rate 0.01 --warm-up-epochs 1"
)


def people(count=400, users=80, **columns):
    return rows(count, who=[f"u{number % users}" for number in range(count)], **columns)


def posts(path, count=120, users=30):
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for number in range(count):
            words = " ".join(f"w{each}" for each in rng.integers(0, 20, 20))
            file.write(json.dumps({"body": words, "author": f"a{number % users}"}) + "\n")
    return path


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(people())
    return path


@pytest.fixture
def run(privet, tmp_path, one_thread):
    def command(data, words, out="run"):
        return privet(f"train {data} --out {tmp_path / out} {words}")

    return command


def test_a_table_of_users_is_protected_user_by_user(run, privet, table, tmp_path):
    done = run(table, f"{TABLE} --user who --public 0.2 --test 0.2 --warm-up-epochs 1")
    assert done.code == 0, done.err
    certificate = read(tmp_path / "run" / "certificate.json")
    assert certificate["unit"] == "user"
    assert "one user" in certificate["statement"]
    assert Ledger.open(tmp_path / "run" / "ledger.db").unit is Unit.USER
    assert "loop" in done.err
    other = tmp_path / "other.csv"
    for text in (rows(30, seed=1), people(30, seed=1)):
        other.write_text(text)
        assert privet(f"evaluate {tmp_path / 'run'} --test {other}").code == 0
    row = {"age": 70, "member": "yes", "job": "cook"}
    model = library.load(tmp_path / "run")
    assert model.predict(row) == model.predict({**row, "who": "u1"})


def test_a_user_counts_once_however_many_rows_there_are(run, tmp_path, schema):  # noqa: F811
    """The same rows three times each: users of three rows learn what users of one row do."""
    header, *lines = people(60, users=60).splitlines()
    once, thrice = tmp_path / "once.csv", tmp_path / "thrice.csv"
    once.write_text("\n".join([header, *lines]) + "\n")
    thrice.write_text("\n".join([header, *lines, *lines, *lines]) + "\n")
    words = f"{TABLE} --user who --schema {schema} --declared-size 60 --noise-seed 1"
    assert run(once, words, "a").code == 0
    assert run(thrice, words, "b").code == 0
    one, other = (load_file(tmp_path / out / "model.safetensors") for out in "ab")
    assert all(torch.allclose(one[name], other[name], atol=1e-5) for name in one)
    assert run(thrice, words.replace("--user who", ""), "c").code == 4


def test_no_user_is_split(table):
    choice = DataChoice(source=str(table), target="y", user="who", public="0.2", test="0.2")
    sets = read_table_sets(choice)
    parts = {
        name: set(getattr(sets, name).table["who"].to_pylist())
        for name in ("private", "public", "test")
    }
    assert set(sets.users) == parts["private"]
    assert len(sets.users) == len(sets.private)
    assert [len(parts[name]) for name in ("private", "public", "test")] == [48, 16, 16]
    assert not parts["private"] & (parts["public"] | parts["test"])
    assert not parts["public"] & parts["test"]


def test_a_dry_run_counts_users(run, table):
    done = run(table, f"{TABLE} --user who --public 0.2 --declared-size 60 --dry-run --json")
    body = json.loads(done.out)
    assert (body["unit"], body["expected_batch"]) == ("user", pytest.approx(12))
    done = run(table, f"{TABLE} --user who --public 0.2 --declared-size 60 --dry-run")
    assert "12.0 expected users" in done.out


def test_a_ledger_of_users_pays_for_users_alone(run, privet, table, tmp_path):
    ledger = tmp_path / "owner.db"
    privet(f"ledger create {ledger} --epsilon 3 --delta 1e-5 --unit user")
    words = f"{TABLE} --public 0.2 --ledger {ledger} --dry-run"
    refused = run(table, words)
    assert (refused.code, "name the column of users with --user" in refused.err) == (2, True)
    assert run(table, f"{words} --user who").code == 0


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("--user y", 2, "--user and --target both name the column 'y'"),
        ("--user nobody", 4, "has no column 'nobody' of users"),
        ("--user who --extended 0.5", 2, "leave one of them out"),
        ("--user who --engine ghost", 2, "--engine ghost takes single rows"),
        ("--user age", 4, "has rows without a value in the column 'age' of users"),
    ],
)
def test_refusals(run, table, tmp_path, words, code, sentence):
    done = run(table, f"{TABLE} --public 0.2 {words}")
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_one_user_is_one_whatever_the_type_of_the_column():
    whole = 2**53 - 1
    values = (whole, float(whole), str(whole))
    tables = [pa.table({"who": [each]}) for each in values]
    tables += [table_of({"who": each}) for each in values]
    assert {str(user_ids(each, "who", "it")[0]) for each in tables} == {str(whole)}
    for large in (-(2.0**53), math.inf):
        with pytest.raises(DataError, match="may have been rounded"):
            user_ids(pa.table({"who": [1.0, None, large]}), "who", "it")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([16777216.0, 16777217.0], pa.float32()),
        pa.array([np.float16(2048)], pa.float16()),
        pa.array(["7", "1.4375128790934077e+18"]),
        pa.array(["12345678901234568.0"]),
        pa.array([" 1e+16", "1.4375128790934077E18"]).dictionary_encode(),
        pa.array([16777216.0, 3.0], pa.float32()).dictionary_encode(),
    ],
)
def test_trap_rounded_ids_that_could_merge_two_users_are_refused(column):
    with pytest.raises(DataError, match="may have been rounded"):
        user_ids(pa.table({"who": column}), "who", "it")


def test_lists_are_no_ids():
    with pytest.raises(DataError, match="no plain values"):
        user_ids(pa.table({"who": [[1], [2]]}), "who", "it")


def test_trap_rounded_ids_in_json_lines_are_refused():
    with pytest.raises(DataError, match="may have been rounded"):
        user_ids(table_of([{"who": 10**16}, {"who": 1e16}]), "who", "it")


@pytest.mark.parametrize("text", ["12e45", "1E2", "3.5", "ward+7", "16777217", "90071992547409931"])
def test_ids_that_only_look_like_rounded_ones_are_texts(text):
    assert user_ids(pa.table({"who": [text]}), "who", "it").tolist() == [text]


def test_a_column_of_users_is_no_feature(run, table, tmp_path):
    path = tmp_path / "schema.json"
    feature = {"kind": "categorical", "name": "who", "categories": ["u1", "u2"]}
    path.write_text(json.dumps({**SCHEMA, "columns": [*SCHEMA["columns"], feature]}))
    done = run(table, f"{TABLE} --schema {path} --user who --dry-run")
    assert (done.code, "learns from the column 'who', which --user names" in done.err) == (2, True)
    ignored = {"kind": "ignored", "name": "who"}
    path.write_text(json.dumps({**SCHEMA, "columns": [*SCHEMA["columns"], ignored]}))
    assert run(table, f"{TABLE} --schema {path} --user who --dry-run").code == 0


def test_images_of_users_are_protected_user_by_user(run, tmp_path):
    digits = load("digits").take(slice(0, 600))
    data = tmp_path / "scans.npz"
    np.savez(data, images=digits.images[:], labels=digits.labels, patient=np.arange(600) % 150)
    words = "--method dp-sgd --model linear --epsilon 2 --delta 1e-5 --epochs 0.4 --sample-rate 0.2"
    done = run(data, f"{words} --user patient --public 0.2 --test 0.2 --warm-up-epochs 1")
    assert done.code == 0, done.err
    certificate = read(tmp_path / "run" / "certificate.json")
    assert certificate["unit"] == "user"
    assert "one user" in certificate["statement"]
    assert Ledger.open(tmp_path / "run" / "ledger.db").unit is Unit.USER
    choice = DataChoice(source=str(data), user="patient", public="0.2", test="0.2")
    sets = read_sets(choice)
    assert len(sets.users) == len(sets.private) == 360
    assert len(set(sets.users)) == 90


def test_images_that_say_of_nobody_are_refused(run):
    done = run("digits", "--method dp-sgd --epsilon 1 --delta 1e-5 --user who")
    assert (done.code, "digits does not say whose its images are" in done.err) == (2, True)


def test_texts_of_users_are_protected_user_by_user(run, privet, tmp_path):
    data = posts(tmp_path / "posts.jsonl")
    done = run(data, f"{TEXT} --user author --public 0.2 --test 0.2")
    assert done.code == 0, done.err
    assert read(tmp_path / "run" / "certificate.json")["unit"] == "user"
    # Six users of four posts, whose 84 words are two sequences and a half.
    assert read(tmp_path / "run" / "result.json")["test"]["count"] == 6 * 3
    assert read(tmp_path / "run" / "result.json")["test"]["words"] == 6 * 4 * 21
    other = posts(tmp_path / "other.jsonl", 20)
    assert privet(f"evaluate {tmp_path / 'run'} --test {other}").code == 0


def test_no_sequence_has_words_of_two_users(tmp_path):
    data = posts(tmp_path / "posts.jsonl")
    sets = read_text_sets(
        DataChoice(source=str(data), target="body", user="author", public="6", task="lm")
    )
    assert len(sets.users) == len(sets.private) == 24 * 3
    columns = sets.private.columns()
    padded = columns["labels"] == -100
    assert padded.sum() == 24 * 21
    assert (columns["images"][:, 1:][padded[:, :-1]] == 1).all()
    assert "" not in sets.private.class_names
    plain = read_text_sets(DataChoice(source=str(data), target="body", public="0.2", task="lm"))
    assert plain.users is None
    assert (plain.private.columns()["labels"] >= 0).sum() == 21 * len(plain.private)


def test_a_text_of_nobody_leaves_the_sequences_of_others_as_they_are(run, tmp_path):
    data = posts(tmp_path / "posts.jsonl")
    shorter = tmp_path / "shorter.jsonl"
    shorter.write_text("".join(data.read_text().splitlines(keepends=True)[1:]))
    all_texts, others = (read_texts(each, "body").sequences for each in (data, shorter))
    assert len(all_texts) == 120
    assert np.array_equal(all_texts[1:], others)
    done = run(data, f"{TEXT} --public 0.2")
    assert done.code == 0, done.err
    cut = "where text was cut into sequences of 35 words, of which each is one example"
    assert cut in read(tmp_path / "run" / "certificate.json")["public"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("--user body", 2, "--user and --target both name the column 'body'"),
        ("--user nobody", 4, "has no column 'nobody' of users"),
        ("--target nothing", 4, "has no column 'nothing' of texts"),
        ("--user author --schema s.json", 2, "--schema is not for text"),
    ],
)
def test_refusals_of_text(run, tmp_path, words, code, sentence):
    done = run(posts(tmp_path / "posts.jsonl"), f"{TEXT} --public 0.2 {words}")
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err
    assert not (tmp_path / "run").exists()


def test_a_table_of_texts_says_which_column_it_learns(run, tmp_path):
    words = TEXT.replace("--target body ", "")
    done = run(posts(tmp_path / "posts.jsonl"), f"{words} --public 0.2")
    assert (done.code, "name its column of texts with --target" in done.err) == (2, True)
    plain = tmp_path / "plain.txt"
    plain.write_text("w1 w2\n" * 100)
    done = run(plain, f"{words} --public 0.2 --user author")
    assert (done.code, "give --target too" in done.err) == (2, True)


def posted(folder):
    source, other = posts(folder / "a.jsonl"), posts(folder / "b.jsonl", count=40, users=40)
    return read_text_sets, {"source": str(source), "task": "lm", "target": "body"}, other, "author"


def pictured(folder):
    images, labels = np.zeros((60, 8, 8), np.uint8), np.arange(60) % 3
    for name, first in (("a", 0), ("b", 59)):
        np.savez(folder / f"{name}.npz", images=images, labels=labels, who=np.arange(60) + first)
    return read_sets, {"source": str(folder / "a.npz")}, folder / "b.npz", "who"


@pytest.mark.parametrize("make", [posted, pictured])
@pytest.mark.parametrize("part", ["public", "test"])
def test_trap_other_texts_and_images_are_of_no_private_user(tmp_path, make, part):
    read_all, words, other, user = make(tmp_path)
    parts = {"public": "0.1"} | {part: str(other)}
    with pytest.raises(PrivacyError, match="users whose other rows are private"):
        read_all(DataChoice(**words, **parts, user=user))
    read_all(DataChoice(**words, **parts))


def test_images_that_do_not_say_whose_they_are_are_taken_on_somebodys_word(tmp_path):
    read_all, words, _, user = pictured(tmp_path)
    np.savez(tmp_path / "c.npz", images=np.ones((9, 8, 8), np.uint8), labels=np.arange(9) % 3)
    notes = read_all(DataChoice(**words, public=str(tmp_path / "c.npz"), user=user)).notes
    assert "The public rows do not say whose they are" in " ".join(notes)
