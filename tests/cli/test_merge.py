"""`privet merge` and `--portion`: sets of several runs as one, and what they cost together."""

import json
import shutil

import numpy as np
import pytest

import privet as library
from privet.cli import main
from privet.data import load
from privet.data.shards import write_shard
from privet.privacy import PLD, Ledger, Relation
from tests.cli.runs import SYSTEMS, names, read

CLASSES = {"first": (0, 1), "second": (2, 3), "again": (3, 4)}
NAMES = ("zero", "one", "two", "three", "four")


def stage(folder, name, seed=0):
    """Images of a stage's own classes, by their names."""
    digits, own = load("digits"), CLASSES[name]
    rows = np.flatnonzero(np.isin(digits.labels, own))[seed::2]
    labels = np.searchsorted(own, digits.labels[rows])
    called = np.array([NAMES[each] for each in own])
    path = folder / f"{name}.npz"
    np.savez(path, images=digits.images[rows], labels=labels, class_names=called)
    return path


def words(data, out, *more):
    method = SYSTEMS["dp-merf"]
    base = f"synthesize {data} --method {method} --epsilon 1 --delta 1e-5 --count 30 --out {out}"
    return [*base.split(), *more]


def run(command):
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert not stopped.value.code


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two stages in portions, a third run on old classes, and one with a ledger of its own."""
    folder = tmp_path_factory.mktemp("stages")
    owner = str(folder / "owner.db")
    Ledger.create(owner, epsilon=2, delta=1e-5, relation="add-remove").close()
    for name in ("first", "second"):
        run(["ledger", "portion", owner, name])
        stage(folder, name)
        run(words(f"{folder}/{name}.npz", folder / name, "--ledger", owner, "--portion", name))
    stage(folder, "again", seed=1)
    run(words(f"{folder}/again.npz", folder / "again", "--ledger", owner))
    run(words(f"{folder}/first.npz", folder / "apart"))
    return folder


@pytest.fixture
def merge(privet, runs, tmp_path):
    def merged(*some, out="all", more=""):
        folders = " ".join(str(runs / each) for each in some)
        return privet(f"merge {folders} --out {tmp_path / out} {more}")

    return merged


def test_trap_rows_that_one_run_protects_are_public_in_no_other(privet, runs, tmp_path):
    data = runs / "first.npz"
    for seed in (0, 1):
        run(words(data, tmp_path / f"{seed}", "--public", "0.3", "--seed", f"{seed}"))
    done = privet(f"merge {tmp_path / '0'} {tmp_path / '1'} --out {tmp_path / 'both'}")
    assert done.code == 3
    assert "would be public in the other" in done.err
    assert not (tmp_path / "both").exists()


class TestMerge:
    def test_portions_cost_as_much_as_one(self, merge, runs, tmp_path):
        done = merge("first", "second")
        assert done.code == 0, done.err
        certificate = read(tmp_path / "all" / "certificate.json")
        assert certificate["epsilon"] == read(runs / "first" / "certificate.json")["epsilon"]
        assert [each["portion"] for each in certificate["spends"]] == ["first", "second"]
        assert "the owner's word that no example lies in two portions" in certificate["statement"]
        merged = library.load(tmp_path / "all")
        assert merged.class_names == NAMES[:4]
        assert np.bincount(merged.labels).tolist() == [15, 15, 15, 15]
        assert merged.certificate.guarantee.epsilon == certificate["epsilon"]
        assert read(tmp_path / "all" / "synthetic" / "certificate.json") == certificate

    def test_images_are_those_of_the_runs(self, merge, runs, tmp_path):
        merge("first", "second", "again")
        merged = library.load(tmp_path / "all")
        found = sorted(
            (merged.class_names[label], image.tobytes())
            for image, label in zip(merged.images[:], merged.labels, strict=True)
        )
        expected = []
        for name in ("first", "second", "again"):
            own = library.load(runs / name)
            rows = zip(own.images[:], own.labels, strict=True)
            expected += [(own.class_names[label], image.tobytes()) for image, label in rows]
        assert found == sorted(expected)
        assert merged.class_names == NAMES

    def test_a_run_outside_portions_adds_up(self, merge, runs, tmp_path):
        done = merge("first", "second", "again")
        assert done.code == 0, done.err
        certificate = library.load(tmp_path / "all").certificate
        pair = [certificate.spends[0], certificate.spends[2]]
        events = [event for each in pair for event in each.plan.events]
        cost = PLD().epsilon(events, 1e-5, Relation.ADD_REMOVE)
        assert certificate.guarantee.epsilon == pytest.approx(cost)
        assert cost > 1.2
        assert "chosen by what another had shown" in certificate.statement

    def test_ledgers_of_their_own_add_up(self, merge, tmp_path):
        assert merge("first", "apart").code == 0
        certificate = library.load(tmp_path / "all").certificate
        assert certificate.guarantee.epsilon > 1.2
        assert not any(each.portion for each in certificate.spends)

    def test_a_merge_can_grow(self, merge, runs, tmp_path, privet):
        merge("first", "second")
        out = tmp_path / "more"
        assert privet(f"merge {tmp_path / 'all'} {runs / 'again'} --out {out}").code == 0
        merge("first", "second", "again", out="at-once")
        grown, at_once = library.load(out), library.load(tmp_path / "at-once")
        assert grown.certificate == at_once.certificate
        assert len(grown) == 90

    def test_a_run_that_went_in_twice_is_paid_for_once(self, merge, runs, tmp_path, privet):
        merge("first", "second")
        out = tmp_path / "more"
        assert privet(f"merge {tmp_path / 'all'} {runs / 'first'} --out {out}").code == 0
        assert library.load(out).certificate == library.load(tmp_path / "all").certificate

    def test_report_export_and_evaluate(self, merge, runs, tmp_path, privet):
        merge("first", "second")
        folder = tmp_path / "all"
        digits = load("digits")
        rows = np.flatnonzero(digits.labels < 4)[:200]
        test = {"images": digits.images[rows], "labels": digits.labels[rows]}
        np.savez(tmp_path / "t.npz", **test, class_names=np.array(NAMES[:4]))
        done = privet(f"evaluate {folder} --test {tmp_path / 't.npz'} --json")
        assert done.code == 0, done.err
        assert json.loads(done.out)["class_names"] == list(NAMES[:4])
        for given in (runs / "first.npz", runs / "second.npz"):
            assert "names the private data" in privet(f"evaluate {folder} --test {given}").err
        assert privet(f"report {folder}").code == 0
        page = (folder / "report.html").read_text()
        assert "privet merge first second --out all" in page
        assert "in the portion second" in page
        assert str(runs) not in page
        assert privet(f"export {folder} --to npz --out {tmp_path / 'set.npz'}").code == 0
        assert load(tmp_path / "set.npz").class_names == NAMES[:4]
        assert "first" in (tmp_path / "set.README.md").read_text()

    def test_soft_labels_know_all_classes(self, runs, tmp_path, privet):
        for name in ("first", "second"):
            shutil.copytree(runs / name, tmp_path / name)
            config = read(tmp_path / name / "config.json")
            config["config"]["soft_labels"] = True
            (tmp_path / name / "config.json").write_text(json.dumps(config))
            own = library.load(runs / name)
            (tmp_path / name / "synthetic" / "part-00000.parquet").unlink()
            soft = np.eye(2)[own.labels] * 0.8 + 0.1
            place = tmp_path / name / "synthetic"
            write_shard(place, 0, own.images[:], own.labels, own.class_names, probabilities=soft)
        done = privet(f"merge {tmp_path / 'first'} {tmp_path / 'second'} --out {tmp_path / 'all'}")
        assert done.code == 0, done.err
        merged = library.load(tmp_path / "all")
        soft = merged.probabilities
        assert soft.shape == (60, 4)
        assert (soft.argmax(1) == merged.labels).all()
        assert np.allclose(np.sort(soft, 1), [0, 0, 0.1, 0.9])


class TestRefusals:
    @pytest.mark.parametrize(
        ("some", "reason"),
        [
            (["first"], "two runs or more"),
            (["first", "first"], "two runs or more"),
            (["first", "nowhere"], "holds no run"),
        ],
    )
    def test_of_runs(self, merge, runs, tmp_path, some, reason):
        refused = merge(*some)
        assert refused.code == 2
        assert reason in refused.err
        assert not (runs / "nowhere").exists()
        assert names(tmp_path) == set()

    def test_nothing_is_overwritten(self, merge, tmp_path):
        (tmp_path / "all").mkdir()
        (tmp_path / "all" / "mine.txt").write_text("mine")
        assert "holds something else" in merge("first", "second", more="--force").err
        merge("first", "second", out="other")
        assert "--force" in merge("first", "again", out="other").err
        assert merge("first", "again", out="other", more="--force").code == 0
        assert len(library.load(tmp_path / "other").class_names) == 4

    def test_a_ledger_that_is_gone(self, runs, tmp_path, privet):
        shutil.copytree(runs / "apart", tmp_path / "apart")
        (tmp_path / "apart" / "ledger.db").unlink()
        refused = privet(f"merge {tmp_path / 'apart'} {runs / 'first'} --out {tmp_path / 'all'}")
        assert refused.code == 3
        assert "bring it back" in refused.err
        assert not (tmp_path / "all").exists()

    def test_a_certificate_that_its_ledger_does_not_know(self, runs, tmp_path, privet):
        shutil.copytree(runs / "first", tmp_path / "first")
        body = read(tmp_path / "first" / "certificate.json")
        for events in (body["events"], body["spends"][0]["events"]):
            events[0]["noise_multiplier"] *= 1.001
        (tmp_path / "first" / "certificate.json").write_text(json.dumps(body))
        refused = privet(f"merge {tmp_path / 'first'} {runs / 'second'} --out {tmp_path / 'all'}")
        assert refused.code == 3
        assert "believe" in refused.err

    def test_a_certificate_that_denies_everything(self, merge, tmp_path, privet):
        merge("first", "second")
        (tmp_path / "all" / "certificate.json").write_text(
            json.dumps({"schema": "privet.public/1", "statement": ""})
        )
        assert privet(f"report {tmp_path / 'all'}").code == 3

    def test_a_portion_that_is_full(self, runs, tmp_path, privet):
        owner = tmp_path / "owner.db"
        for each in runs.glob("owner.db*"):  # what is not in the file itself yet, too
            shutil.copy(each, tmp_path)
        more = ("--ledger", str(owner), "--portion", "first", "--epsilon", "1.9")
        refused = privet(" ".join(words(runs / "first.npz", tmp_path / "run", *more)))
        assert refused.code == 3
        assert "of the portion 'first'" in refused.err
        assert not (tmp_path / "run").exists()

    def test_a_portion_without_a_ledger_or_a_word(self, runs, tmp_path, privet):
        data, out = runs / "first.npz", tmp_path / "run"
        refused = privet(" ".join(words(data, out, "--portion", "first")))
        assert (refused.code, "give --ledger too" in refused.err) == (2, True)
        more = ("--ledger", str(runs / "owner.db"), "--portion", "third")
        refused = privet(" ".join(words(data, out, *more)))
        assert (refused.code, "no portion 'third'" in refused.err) == (3, True)
        assert not out.exists()

    @pytest.mark.parametrize("terms", ["--relation replace-one", "--unit user"])
    def test_a_word_that_cannot_be_true(self, tmp_path, privet, terms):
        path = tmp_path / "l.db"
        privet(f"ledger create {path} --epsilon 2 --delta 1e-5 {terms}")
        assert privet(f"ledger portion {path} march").code == 3
        assert "march" not in privet(f"ledger show {path}").out


def test_an_owner_sees_portions(runs, privet):
    shown = privet(f"ledger show {runs / 'owner.db'}").out
    assert "portions, by the owner's word that no example lies in two portions" in shown
    assert "portion   first" in shown
