# ruff: noqa: F811 - a fixture that is imported
"""What other commands make of a federation's folder: its set, with every party's guarantee."""

import json
import shutil

import pytest

import privet as library
from privet.federate import conduct
from privet.privacy.federated import FederatedCertificate
from tests.cli.conftest import privet  # noqa: F401 - a fixture
from tests.federate.small import CLASSES, Audience, directly, parties_in, server_in, write
from tests.recipes.small import pictures

PROMISES = ("ant: ε = 2 at", "bee: ε = 5 at", "cow: ε = 1 at")


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    conduct(server_in(folder), directly(parties_in(folder)), Audience())
    write(folder / "test.npz", pictures(60, seed=9))
    return folder


def test_a_report_names_every_party(privet, merged, tmp_path):
    done = privet(f"report {merged / 'server'} --out {tmp_path / 'page.html'}")
    assert done.code == 0, done.err
    page = (tmp_path / "page.html").read_text()
    for each in PROMISES:
        assert each in page
    assert "noised sums of several parties" in page
    assert str(merged) not in page


def test_the_card_of_the_set_has_a_table_for_each_party(merged):
    card = (merged / "server" / "synthetic" / "README.md").read_text()
    for name in ("ant", "bee", "cow"):
        assert f"### Party {name}" in card
    assert "`privet federate`" in card
    assert "differential-privacy" in card


@pytest.mark.parametrize("form", ["parquet", "png", "npz"])
def test_exports_carry_the_certificate_of_all(privet, merged, tmp_path, form):
    out = tmp_path / ("set.npz" if form == "npz" else "set")
    done = privet(f"export {merged / 'server'} --to {form} --out {out} --json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["images"] == 30
    assert list(FederatedCertificate.from_json(found["certificate"]).parties) == [
        "ant",
        "bee",
        "cow",
    ]
    assert all(each in found["guarantee"] for each in PROMISES)


def test_the_set_can_be_loaded(merged, privet, tmp_path):
    privet(f"export {merged / 'server'} --to parquet --out {tmp_path / 'set'}")
    for place in (merged / "server", tmp_path / "set"):
        found = library.load(place)
        assert len(found) == 30
        assert isinstance(found.certificate, FederatedCertificate)
        assert "ant: ε = 2" in repr(found)


def test_the_set_can_be_evaluated(privet, merged):
    words = f"evaluate {merged / 'server'} --extractor glyphs --json"
    assert "give some with --test" in privet(words).err
    done = privet(f"{words} --test {merged / 'test.npz'}")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["synthetic_count"] == 30
    assert len(found["class_names"]) == CLASSES
    assert all(each in found["guarantee"] for each in PROMISES)
    refused = privet(f"{words} --test {merged / 'test.npz'} --panel logistic --real")
    assert refused.code == 2
    assert "lie with the parties" in refused.err


@pytest.mark.parametrize("words", ["report", "evaluate", "export --to npz --out x.npz"])
def test_a_partys_own_folder_holds_no_set(privet, merged, words):
    command, _, rest = words.partition(" ")
    refused = privet(f"{command} {merged / 'ant'} {rest}")
    assert refused.code == 2
    assert "give the server's folder" in refused.err


def test_an_edited_certificate_is_refused(privet, merged, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(merged / "server", copy)
    body = json.loads((copy / "certificate.json").read_text())
    body["parties"]["bee"]["epsilon"] = 0.5
    (copy / "certificate.json").write_text(json.dumps(body))
    refused = privet(f"report {copy}")
    assert refused.code == 3
    assert "party 'bee' promises" in refused.err
