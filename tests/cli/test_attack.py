import json

import numpy as np
import pytest

from privet.audit import shadows
from privet.audit.attacks import AttackPlan, attack
from privet.audit.extraction import SetMaking
from privet.audit.shadows import ShadowTraining
from privet.data import load
from tests.cli.test_report import words_of

QUICK = "--epsilon 1 --delta 1e-5 --models 4 --examples 60"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What a quick attack wrote."""
    plan = AttackPlan(
        epsilons=(1.0,),
        delta=1e-5,
        models=4,
        examples=60,
        training=ShadowTraining(hidden=8, epochs=1.0),
        making=SetMaking(images=20, iterations=1),
    )
    path = tmp_path_factory.mktemp("attack") / "attack.json"
    body = attack(load("digits"), "di<b>gits", plan, lambda name: lambda done, total: None)
    path.write_text(json.dumps(body))
    return path


def test_an_attack_is_told_and_written_down(privet, tmp_path, one_thread):
    out = tmp_path / "attack.json"
    result = privet(f"audit attack digits {QUICK} --images 0 --out {out}")
    assert result.code == 0
    for words in ("not private", "LiRA", "one threshold", "is allowed", "declared public"):
        assert words in result.out
    assert "Nothing private" in result.err
    body = json.loads(out.read_text())
    assert [each["level"] for each in body["membership"]] == ["not private", "ε = 1"]
    assert "add or remove one example, PLD" in body["membership"][1]["guarantee"]
    assert body["extraction"] == []


def test_a_page_shows_it(privet, train, found, tmp_path):
    assert train("--epochs 1").code == 0
    run = tmp_path / "run"
    result = privet(f"report {run} --attack {found}")
    assert (result.code, result.err) == (0, "")
    page, words = (run / "report.html").read_text(), words_of(run / "report.html")
    for part in ("Attacks", "Not on this run", "planted copies", "no noise", "nearest member"):
        assert part in words
    assert 'class="line bound line1"' in page
    assert "The bound of ε = 1 goes from" in page
    assert 'alt="8 images, nearest member, ε = 1"' in page
    assert "di<b>gits" not in page
    assert privet(f"report {run}").code == 0
    assert "Attacks" not in words_of(run / "report.html")


def test_a_page_on_several_runs_refuses_it(privet, train, found, tmp_path):
    result = privet(f"report {tmp_path / 'a'} {tmp_path / 'b'} --attack {found}")
    assert result.code == 2
    assert "a page on one run" in result.err


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body.update(schema="privet.attack/0"),
        lambda body: body.pop("membership"),
        lambda body: body["membership"][0]["attacks"]["LiRA"].update(curve=[[0, 0]]),
        lambda body: body["membership"][1].update(epsilon=-1),
        lambda body: body["membership"][0].update(accuracy_on_others=float("nan")),
        lambda body: body["extraction"][0]["pairs"].update(pixels="=="),
        lambda body: body["extraction"][0]["pairs"].update(shape=[1 << 40, 3, 1, 1, 1]),
        lambda body: body["extraction"][0]["pairs"].update(shape=[8, 3, 8, 8, 2]),
    ],
)
def test_other_files_are_refused(privet, train, found, tmp_path, spoil):
    body = json.loads(found.read_text())
    spoil(body)
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(body))
    assert train("--epochs 0.1").code == 0
    result = privet(f"report {tmp_path / 'run'} --attack {bad}")
    assert result.code == 4
    assert len(result.err.splitlines()) == 1
    assert not (tmp_path / "run" / "report.html").exists()


def test_a_missing_file_is_refused(privet, train, tmp_path):
    assert train("--epochs 0.1").code == 0
    result = privet(f"report {tmp_path / 'run'} --attack {tmp_path / 'nowhere.json'}")
    assert (result.code, "cannot be read" in result.err) == (4, True)


@pytest.mark.parametrize("force", ["", "--declare-public"])
def test_ledgers_and_what_they_guard_are_refused(privet, tmp_path, force):
    ledger = tmp_path / "owner.db"
    assert privet(f"ledger create {ledger} --epsilon 1 --delta 1e-5").code == 0
    for place in (ledger, tmp_path):
        result = privet(f"audit attack {place} {QUICK} {force}")
        assert result.code == 3
        assert "attack public images alone" in result.err


def test_data_must_be_declared_public(privet, tmp_path):
    path = tmp_path / "images.npz"
    np.savez(path, images=np.zeros((80, 8, 8, 1), np.uint8), labels=np.arange(80) % 2)
    result = privet(f"audit attack {path} {QUICK}")
    assert result.code == 3
    assert "--declare-public" in result.err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("--models 3", 2, "needs 4 or more"),
        ("--examples 5", 2, "give 40 or more"),
        ("--images 1", 2, "give 2 images or more"),
        ("--resize 10", 2, "multiple of 4"),
        ("--seed -1", 2, "A seed"),
        ("--out {}/nowhere/attack.json", 2, "give another --out"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(privet, tmp_path, words, code, sentence):
    result = privet(f"audit attack digits {QUICK} {words.format(tmp_path)}")
    assert result.code == code
    assert sentence in result.err.splitlines()[-1]


def test_one_class_or_too_few_images_are_refused(privet, tmp_path):
    for count, classes, sentence in ((80, 1, "one class only"), (30, 2, "50 images or more")):
        path = tmp_path / f"{count}.npz"
        labels = np.arange(count) % classes
        np.savez(path, images=np.zeros((count, 8, 8, 1), np.uint8), labels=labels)
        result = privet(f"audit attack {path} {QUICK} --declare-public --images 0")
        assert result.code == 4
        assert sentence in result.err


def test_ctrl_c_leaves_nothing(privet, tmp_path, monkeypatch):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(shadows, "warm_up", pressed)
    out = tmp_path / "attack.json"
    result = privet(f"audit attack digits {QUICK} --out {out}")
    assert result.code == 130
    assert "nothing was written" in result.err
    assert not out.exists()
