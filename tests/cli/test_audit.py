import json

import pytest


def test_an_audit_passes_and_is_written_down(privet, tmp_path):
    out = tmp_path / "audit.json"
    result = privet(
        "audit synthesize --method dp-merf --canaries 32 --epsilon 1 --epsilon 4 --delta 1e-5 "
        f"--out {out} --json"
    )
    assert result.code == 0
    found = json.loads(result.out)
    assert found == json.loads(out.read_text())
    assert [each["epsilon"] for each in found["findings"]] == pytest.approx([1, 4], rel=1e-3)
    assert {"delta", "relation", "unit", "accountant", "confidence"} <= set(found["findings"][0])
    assert not found["broken"]
    assert "spends nothing" in result.err


def test_a_planted_bug_is_an_exit_code(privet):
    result = privet("audit hedge --epsilon 2 --delta 1e-5 --runs 80 --plant 0")
    assert result.code == 3
    assert "the guarantee is broken" in result.out
    assert "do not use it on private data" in result.err


@pytest.mark.parametrize("mechanism", ["step", "training"])
def test_other_mechanisms(privet, mechanism):
    result = privet(
        f"audit hedge --mechanism {mechanism} --sample-rate 1 --row mislabelled --epsilon 4 "
        "--delta 1e-5 --runs 40"
    )
    assert result.code == 0
    assert "PASS" in result.out
    assert "label" in result.out


def test_training(privet):
    result = privet(
        "audit train --method dope --epsilon 2 --delta 1e-5 --canaries 16 --epochs 1 --json"
    )
    assert result.code == 0
    assert json.loads(result.out)["findings"][0]["subject"].startswith("dope, 2 steps")


@pytest.mark.parametrize("place", ["audit.json", "nowhere/audit.json"])
def test_output_is_never_overwritten(privet, tmp_path, place):
    (tmp_path / "audit.json").write_text("kept")
    result = privet(
        f"audit train --method dp-sgd --epsilon 1 --delta 1e-5 --out {tmp_path / place}"
    )
    assert result.code == 2
    assert "give another --out" in result.err
    assert (tmp_path / "audit.json").read_text() == "kept"
