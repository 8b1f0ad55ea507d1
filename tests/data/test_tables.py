"""Tables come in without a guess at what they hold, and become numbers as a schema says."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privet.data.public_schema import schema_of
from privet.data.schema import Binary, Categorical, Ignored, Numeric, Schema
from privet.data.schema_file import read_schema, schema_from_json, schema_to_json
from privet.data.table_set import TableSet, strata
from privet.data.tables import numbers, read_table, table_of, words
from privet.errors import ConfigError, DataError

SCHEMA = Schema(
    target="y",
    classes=("no", "yes"),
    columns=(
        Numeric(name="age", low=0, high=100),
        Binary(name="member", values=("0", "1")),
        Categorical(name="job", categories=("cook", "nurse")),
        Ignored(name="id"),
    ),
)


@pytest.fixture
def write(tmp_path):
    def written(text, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


def table(**columns):
    texts = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    return pa.table(texts)


def test_a_csv_file_is_texts_whatever_they_look_like(write):
    found = read_table(write('\ufeffa, b ,c\n1,x,2020-01-01\n,"y,z",?\n1.0,NA,true\n'))
    assert found.column_names == ["a", "b", "c"]
    assert {str(field.type) for field in found.schema} == {"string"}
    assert words(found["a"]).tolist() == ["1", None, "1"]
    assert words(found["b"]).tolist() == ["x", "y,z", None]
    assert words(found["c"]).tolist() == ["2020-01-01", None, "true"]
    assert np.array_equal(numbers(found["a"]), [1, np.nan, 1], equal_nan=True)


def test_csv_and_parquet_mean_the_same(write, tmp_path):
    columns = {"a": [1, 2, None], "b": [True, False, None], "c": [0.5, 2.0, None]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    stored = read_table(tmp_path / "t.parquet")
    typed = read_table(write("a,b,c\n1,True,0.5\n2,FALSE,2.00\n,,\n"))
    for name in columns:
        assert words(stored[name]).tolist() == words(typed[name]).tolist()
        assert np.array_equal(numbers(stored[name]), numbers(typed[name]), equal_nan=True)


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        ("", "t.csv", "t.csv is empty; its first line should name the columns."),
        ("a,b\n", "t.csv", "has no rows"),
        ("a,a\n1,2\n", "t.csv", "has two columns 'a'"),
        ("a,,c\n1,2,3\n", "t.csv", "Column 2 of .* has no name"),
        ("a,b\n1,2,3\n", "t.csv", "not a readable table"),
        (b"\xff\xfe\x00\x01" * 9, "t.csv", "not a readable table"),
        (b"PAR1 no", "t.parquet", "not a readable table"),
        ("a\n1\n", "t.tsv", "is no table that Privet reads"),
    ],
)
def test_bad_files_are_one_sentence(write, text, name, sentence):
    with pytest.raises(DataError, match=sentence):
        read_table(write(text, name))


def test_a_damaged_row_is_not_told(write):
    with pytest.raises(DataError) as error:
        read_table(write("a,b\n1,2\nsecret,2,3\n"))
    assert "secret" not in str(error.value)


def test_rows_become_numbers_as_declared():
    rows = table(
        age=["25", "-5", "1e9", None, "old"],
        member=["0", "1.0", "2", None, "1"],
        job=["nurse", "cook", "smith", None, " cook "],
        y=["yes", "no", "maybe", None, "yes"],
    )
    inputs = SCHEMA.inputs(rows)
    assert inputs.dtype == np.float32
    assert inputs[:, 0].tolist() == [-0.5, -1, 1, 0, 0]  # clamped; the middle for what is missing
    assert inputs[:, 1].tolist() == [-1, 1, 0, 0, 1]
    assert inputs[:, 2:].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0]]
    assert SCHEMA.labels(rows).tolist() == [1, 0, -1, -1, 1]


def test_missing_values_are_taken_for_what_is_declared():
    schema = Schema(
        target="y",
        classes=("a", "b"),
        columns=(
            Numeric(name="n", low=0, high=4, missing=1),
            Binary(name="b", values=("f", "m"), missing="m"),
            Categorical(name="c", categories=("x", "z"), missing="z"),
        ),
    )
    rows = table(n=[None], b=[None], c=[None], y=["a"])
    assert schema.inputs(rows).tolist() == [[-0.5, 1, 0, 1, 0]]


def test_one_row_never_changes_how_another_is_encoded():
    rows = table(age=["25", "7"], member=["0", "1"], job=["nurse", "cook"], y=["yes", "no"])
    changed = table(age=["25", "x"], member=["0", None], job=["nurse", "spy"], y=["yes", "?"])
    assert np.array_equal(SCHEMA.inputs(rows)[0], SCHEMA.inputs(changed)[0])


def test_columns_are_named_where_they_do_not_fit():
    rows = table(age=["1"], member=["0"], job=["cook"], y=["no"])
    TableSet(rows, SCHEMA)
    with pytest.raises(DataError, match="has no column 'job', which the schema has"):
        TableSet(rows.drop_columns("job"), SCHEMA)
    with pytest.raises(DataError, match="has no column 'y'"):
        TableSet(rows.drop_columns("y"), SCHEMA)
    with pytest.raises(DataError, match="has a column 'zip' that the schema does not know"):
        TableSet(rows.append_column("zip", pa.array(["1"])), SCHEMA)
    nested = rows.set_column(0, "age", pa.array([[1]]))
    with pytest.raises(DataError, match="The column 'age' cannot be read: it holds list"):
        TableSet(nested, SCHEMA).columns()


def test_public_rows_must_have_declared_classes():
    rows = table(age=["1"], member=["0"], job=["cook"], y=["maybe"])
    with pytest.raises(DataError, match="the value 'maybe' in 'y', which is no declared class"):
        TableSet(rows, SCHEMA).with_known_classes()


def test_a_schema_is_found_in_public_rows():
    many = [f"street {number}" for number in range(60)]
    rows = table(
        age=[*map(str, range(10, 69)), None],
        member=["1", "0"] * 30,
        job=["nurse", "cook", "smith"] * 20,
        address=many,
        empty=[None] * 60,
        same=["x"] * 60,
        y=["10", "9", "9"] * 20,
    )
    schema, notes = schema_of(rows, "y", "rows.csv")
    assert schema.classes == ("9", "10")
    assert schema.columns == (
        Numeric(name="age", low=10, high=68),
        Binary(name="member", values=("0", "1")),
        Categorical(name="job", categories=("cook", "nurse", "smith")),
        Ignored(name="address"),
        Ignored(name="empty"),
        Categorical(name="same", categories=("x",)),
    )
    assert [note.split(":")[0] for note in notes] == [
        "The column 'address' is ignored",
        "The column 'empty' is ignored",
    ]
    with pytest.raises(DataError, match="has no column 'z' to predict"):
        schema_of(rows, "z", "rows.csv")
    with pytest.raises(ConfigError, match="has 1 classes"):
        schema_of(rows, "same", "rows.csv")


def test_a_schema_file_comes_back_equal(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema_to_json(SCHEMA)))
    assert read_schema(path) == SCHEMA


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"columns": 3}, "where a list should be"),
        ({"columns": [{"kind": "text", "name": "a"}]}, "The column 'a' .* is of kind 'text'"),
        ({"columns": [{"kind": "numeric", "name": "a", "low": 0}]}, "has no 'high'"),
        ({"columns": [{"kind": "numeric", "name": "a", "low": "0", "high": 1}]}, "give a number"),
        ({"columns": [{"kind": "numeric", "name": "a", "low": 0, "high": None}]}, "give a number"),
        ({"columns": [{"kind": "numeric", "name": "a", "low": 1, "high": 1}]}, "has bounds from"),
        ({"columns": [{"kind": "ignored", "name": "a", "missing": 1}]}, "an unknown 'missing'"),
        ({"columns": [{"kind": "binary", "name": "a", "values": [1, 2, 3]}]}, "has 3 values"),
        ({"columns": [{"kind": "ignored", "name": "a"}]}, "no column to learn from"),
        ({"classes": ["a"]}, "has 1 classes"),
        ({"classes": ["1", 1.0]}, "has the value '1' twice"),
        ({"classes": ["a", None]}, "lists a missing value"),
        ({"more": 1}, "an unknown 'more'"),
        (None, "is no JSON object"),
    ],
)
def test_bad_schemas_are_one_sentence(change, sentence):
    body = None if change is None else {**schema_to_json(SCHEMA), **change}
    with pytest.raises((DataError, ConfigError), match=sentence):
        schema_from_json(body)


def test_strata_are_the_values_of_the_target():
    rows = table(y=["b", None, "a", "b"])
    assert strata(rows, "y", "t.csv").tolist() == [2, 0, 1, 2]


def test_rows_as_mappings():
    assert table_of({"a": 1, "b": None}).to_pylist() == [{"a": "1", "b": None}]
    assert table_of([{"a": 1}, {"a": "x"}]).num_rows == 2
    with pytest.raises(DataError, match="a row lacks the column 'b'"):
        table_of([{"a": 1, "b": 2}, {"a": 1}])
    with pytest.raises(DataError, match="no rows of a table"):
        table_of([1, 2])
