"""DP-MERF for tables: bounded features, one release, rows that follow the released means."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.data.schema import Binary, Categorical, Ignored, Numeric, Schema
from privet.data.table_decoding import decoded
from privet.data.table_set import TableSet
from privet.hedge import Hedge
from privet.privacy import Ledger
from privet.recipes.table_embeddings import TableMerf, mixed_features, table_merf

SCHEMA = Schema(
    target="y",
    classes=("low", "high"),
    columns=(
        Numeric(name="age", low=0, high=100),
        Ignored(name="id"),
        Categorical(name="job", categories=("cook", "nurse")),
        Binary(name="member", values=("no", "yes")),
        Numeric(name="hours", low=0, high=80),
    ),
)
value = st.none() | st.text(max_size=3) | st.floats().map(str)


def table(count, seed=0):
    rng = np.random.default_rng(seed)
    high = rng.random(count) < 0.3
    age = np.clip(rng.normal(np.where(high, 70, 30), 8), 0, 100)
    return pa.table(
        {
            "age": age,
            "id": [str(number) for number in range(count)],
            "job": np.where(rng.random(count) < np.where(high, 0.9, 0.2), "nurse", "cook").tolist(),
            "member": np.where(rng.random(count) < 0.5, "yes", "no").tolist(),
            "hours": rng.uniform(0, 80, count),
            "y": np.where(high, "high", "low").tolist(),
        }
    )


@settings(deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(("age", "job", "member", "hours"), value)))
def test_no_row_is_longer_than_one(row):
    rows = pa.table({name: pa.array([each], pa.string()) for name, each in row.items()})
    found = mixed_features(SCHEMA, TableMerf(size=20))(torch.from_numpy(SCHEMA.inputs(rows)))
    assert found.shape == (1, 20 + 2 + 3)
    assert float(found.double().norm()) <= 1 + 1e-5


@pytest.mark.parametrize("kept", [(0, 4), (2, 3)])
def test_numbers_or_categories_alone_have_length_one(kept):
    columns = tuple(SCHEMA.columns[each] for each in kept)
    schema = Schema(target="y", classes=SCHEMA.classes, columns=columns)
    rows = torch.from_numpy(schema.inputs(table(5)))
    norms = mixed_features(schema, TableMerf(size=20))(rows).norm(dim=1)
    assert torch.allclose(norms, torch.ones(5), atol=1e-5)


def test_rows_come_back_from_their_numbers():
    rows = table(50)
    labels = SCHEMA.labels(rows)
    found = decoded(SCHEMA, SCHEMA.inputs(rows), labels, np.random.default_rng(0))
    assert found.column_names == ["age", "job", "member", "hours", "y"]
    for name in ("job", "member", "y"):
        assert found[name].to_pylist() == rows[name].to_pylist()
    assert np.allclose(found["age"].to_numpy(), rows["age"].to_numpy(), atol=1e-4)


def test_one_release_makes_a_table(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=5.0, delta=1e-5, relation="add-remove")
    hedge = Hedge(TableSet(table(3000), SCHEMA), ledger.reserve(epsilon=5.0))
    made = table_merf(
        hedge, SCHEMA, settings=TableMerf(size=100, iterations=300, per_class=50, batch_size=400)
    )
    rows = made.take(1000)
    assert made.take(700).equals(rows.slice(0, 700))
    assert made.certificate.private
    assert [event.count for event in made.certificate.plan.events] == [1]
    assert rows.num_rows == 1000
    high = np.array(rows["y"].to_pylist()) == "high"
    assert 0.2 < high.mean() < 0.4
    age, job = rows["age"].to_numpy(), np.array(rows["job"].to_pylist())
    assert age[high].mean() > age[~high].mean() + 20
    assert (job[high] == "nurse").mean() > (job[~high] == "nurse").mean() + 0.3
    assert TableSet(rows, SCHEMA).inputs.shape == (1000, SCHEMA.width)
