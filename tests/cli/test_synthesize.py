"""`privet synthesize` in one process: what it does, writes and says."""

import json
import re
import shutil
from dataclasses import asdict

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from privet.cli.progress import Watch
from privet.data import load
from privet.privacy import PLD, Certificate, Ledger, Relation
from privet.recipes import synthesis_run
from privet.recipes.sps_g import SpsG
from privet.release import Cleaning
from tests.cli.runs import QUICK_SYNTHESIS, SYSTEMS, names, read


def records(out):
    return Ledger.open(out / "ledger.db").records()


def images(out):
    data = load(out / "synthetic")
    return np.asarray(data.images[:]), data.labels


def test_a_run_and_everything_it_leaves(synthesize, tmp_path):
    done = synthesize(
        f"--method {SYSTEMS['sps-g']} --encoder conv:epochs=1 --public 0.1 --test 100 "
        "--declared-size 1500 --json"
    )
    assert done.code == 0, done.err
    out = tmp_path / "run"
    assert names(out) == {
        *("config.json", "run.json", "certificate.json", "result.json", "ledger.db"),
        *("samples.png", "steps", "releases", "synthetic"),
    }
    assert names(out / "steps") == {"encoder.safetensors", "generator.safetensors"}
    assert names(out / "releases") == {"release.safetensors"}
    assert names(out / "synthetic") == {"part-00000.parquet", "part-00001.parquet"}

    found, labels = images(out)
    assert found.shape == (60, 8, 8, 1)
    assert np.bincount(labels).tolist() == [6] * 10
    with Image.open(out / "samples.png") as sheet:
        assert min(sheet.size) > 8

    body = json.loads(done.out)
    assert (body["method"], body["images"], body["png"]) == ("sps-g", 60, False)
    assert (body["folder"], body["ledger"]) == (str(out), str(out / "ledger.db"))
    certificate = Certificate.from_json(read(out / "certificate.json"))
    assert body["certificate"] == certificate.to_json()
    assert certificate.private
    assert 1.99 < certificate.guarantee.epsilon <= 2
    assert certificate.declared == {"units": 1500.0}
    assert {
        "images for components",
        "public images that the encoder was trained on",
        "test rows, declared non-private and left out",
    } <= set(certificate.public)

    [record] = records(out)
    assert record.spent == (1,)
    assert (record.state.value, record.outside, record.seeded) == ("closed", (), False)
    assert record.label.startswith("synthesize run ")


@pytest.mark.parametrize(
    ("method", "spent", "noise"),
    [
        (SYSTEMS["dp-merf"], (1,), [1]),
        (SYSTEMS["dp-mepf"], (1,), [1]),
        (SYSTEMS["dp-mepf"] + ",stopping=true", (1, 1), [1, 10]),
        (SYSTEMS["sps"], (1,), [1]),
        (SYSTEMS["sps-plus"], (2,), [1]),
        (SYSTEMS["sps-g"].replace("false", "true") + " --public 0.1", (1,), [1]),
    ],
)
def test_every_method_pays_for_its_releases_once(
    synthesize, tmp_path, encoder, method, spent, noise
):
    done = synthesize(f"--encoder {encoder} --method {method}")
    assert done.code == 0, done.err
    out = tmp_path / "run"
    [record] = records(out)
    assert record.spent == spent
    assert len(names(out / "releases")) == sum(spent)
    events = record.plan.events
    ratios = [each.noise_multiplier / events[0].noise_multiplier for each in events]
    assert ratios == pytest.approx(noise)
    assert PLD().epsilon(events, 1e-5, Relation.ADD_REMOVE) == pytest.approx(2, rel=1e-3)
    found, labels = images(out)
    assert found.shape == (60, 8, 8, 1)
    assert found.std() > 0
    assert np.bincount(labels).tolist() == [6] * 10
    for file in (*(out / "releases").iterdir(), *(out / "steps").iterdir()):
        assert all(each.isfinite().all() for each in load_file(file).values())


def test_replace_one_doubles_the_noise(synthesize, tmp_path):
    noise = {}
    for relation in ("add-remove", "replace-one"):
        done = synthesize(f"--relation {relation} --json", out=relation)
        [event] = json.loads(done.out)["certificate"]["events"]
        noise[relation] = event["noise_multiplier"]
        [record] = records(tmp_path / relation)
        assert record.plan.events[0].noise_multiplier == noise[relation]
        dry = json.loads(synthesize(f"--relation {relation} --dry-run --json").out)
        assert dry["noise_multiplier"] == noise[relation]
    assert noise["replace-one"] == pytest.approx(2 * noise["add-remove"], rel=1e-3)


def test_the_summary_says_what_was_promised_and_where_things_are(synthesize, tmp_path):
    done = synthesize()
    assert "guarantee    ε = 2 at δ = 1e-05 (add or remove one example, PLD)" in done.out
    assert f"images       60 in {tmp_path / 'run' / 'synthetic'}" in done.out
    assert str(tmp_path / "run" / "samples.png") in done.out
    assert "Summarising private images" in done.err


def test_settings_start_from_those_of_the_method(synthesize, encoder):
    """Nested ones too: what SPS-G does to covariances is not what SPS does."""

    def cleaning(method):
        words = f"--encoder {encoder} --public 0.1 --dry-run --json --method {method}"
        return json.loads(synthesize(words).out)["cleaning"]

    assert cleaning(SYSTEMS["sps"])["jitter"] == Cleaning().jitter == 2.0
    assert cleaning(SYSTEMS["sps-g"]) == asdict(SpsG().cleaning)
    assert cleaning(SYSTEMS["sps-g"] + ",jitter=0.3") == {**asdict(SpsG().cleaning), "jitter": 0.3}


def test_the_noise_seed_is_nowhere(synthesize, tmp_path):
    done = synthesize("--noise-seed 918273645")
    assert done.code == 0
    assert "NOT private" in done.err
    assert "NOT private" in done.out
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not any(b"918273645" in path.read_bytes() for path in files)
    assert not Certificate.from_json(read(tmp_path / "run" / "certificate.json")).private


def test_seeded_runs_repeat_and_others_do_not(synthesize, tmp_path):
    def release(words, out):
        assert synthesize(words, out=out).code == 0
        shards = [path.read_bytes() for path in sorted((tmp_path / out / "synthetic").iterdir())]
        return (tmp_path / out / "releases" / "release.safetensors").read_bytes(), shards

    first = release("--noise-seed 1", "a")
    assert first == release("--noise-seed 1", "b")
    assert first[0] != release("--noise-seed 2", "c")[0]
    assert release("", "d")[0] != release("", "e")[0]


class TestDryRun:
    @pytest.fixture(autouse=True)
    def closed(self, monkeypatch, tmp_path):
        """No hedge, and nothing in the folder where the command runs."""
        import privet.hedge.hedge as boundary

        def refused(*_, **__):
            raise AssertionError("a hedge was made")

        monkeypatch.setattr(boundary.Hedge, "__init__", refused)
        monkeypatch.chdir(tmp_path)

    def test_it_foretells_noise_and_signal(self, privet, tmp_path, encoder, one_thread):
        words = (
            f"{QUICK_SYNTHESIS} --method {SYSTEMS['sps-g']} --encoder {encoder} --public 0.1 "
            "--declared-size 1600 --out run --dry-run"
        )
        shown = privet(words)
        assert shown.code == 0, shown.err
        assert re.search(r"noise multiplier +1\.9939\n", shown.out)
        for part in (
            "1 × Gaussian release",
            "ε = 2 at δ = 1e-05 (add or remove one example, PLD)",
            "predicted from public images",
            "  counts.mean",
        ):
            assert part in shown.out
        body = json.loads(privet(f"{words} --json").out)
        assert {"epsilon", "delta", "relation", "unit", "accountant"} <= body.keys()
        ratios = body["signal_to_noise"]
        assert len(ratios) == 11  # means and second moments of five parts, and counts
        assert all(0 < ratio < 1000 for ratio in ratios.values())
        less = json.loads(privet(f"{words} --json --declared-size 160").out)["signal_to_noise"]
        assert all(less[name] == pytest.approx(each / 10) for name, each in ratios.items())
        assert list(tmp_path.iterdir()) == []

    def test_without_a_size_there_is_nothing_to_foretell(self, synthesize, encoder):
        for words in ("--declared-size 1600", f"--public 0.1 --encoder {encoder}"):
            shown = synthesize(f"{words} --dry-run --json")
            assert shown.code == 0
            assert "Give --declared-size and public images" in shown.err
            assert json.loads(shown.out)["signal_to_noise"] == {}

    def test_it_does_not_depend_on_private_pixels(self, privet, tmp_path, encoder, one_thread):
        rng, labels = np.random.default_rng(0), np.arange(60) % 3
        np.savez(tmp_path / "public.npz", x=rng.integers(0, 256, (60, 8, 8), np.uint8), y=labels)
        words = QUICK_SYNTHESIS.replace("digits", str(tmp_path / "data.npz"))
        words = (
            f"{words} --method {SYSTEMS['sps-g']} --public {tmp_path / 'public.npz'} "
            f"--encoder {encoder} --declared-size 60 --dry-run --json"
        )
        shown = []
        for value in (0, 255):
            np.savez(tmp_path / "data.npz", x=np.full((60, 8, 8), value, np.uint8), y=labels)
            shown.append(privet(words))
        assert shown[0] == shown[1]
        assert shown[0].code == 0

    def test_it_refuses_what_a_ledger_has_no_room_for(self, synthesize, tmp_path):
        Ledger.create(tmp_path / "o.db", epsilon=1, delta=1e-5, relation="add-remove").close()
        assert synthesize(f"--ledger {tmp_path / 'o.db'} --dry-run").code == 3


def test_what_noise_swamps_is_said_before_it_is_paid_for(synthesize, encoder, monkeypatch):
    said, reserve = [], synthesis_run.find_or_reserve

    def reserved(*words):
        said.append("reserved")
        return reserve(*words)

    def before_the_reservation(words, out):
        said.clear()
        method = f"--encoder {encoder} --public 0.1 --declared-size 1400 --method"
        assert synthesize(f"{method} {words}", out=out).code == 0
        return said[: said.index("reserved")]

    monkeypatch.setattr(synthesis_run, "find_or_reserve", reserved)
    monkeypatch.setattr(Watch, "note", lambda _, sentence: said.append(sentence))
    [everything] = before_the_reservation(f"{SYSTEMS['sps-g']} --epsilon 0.001", "a")
    assert "At ε = 0.001 noise swamps every block of this release (signal over" in everything
    large = SYSTEMS["sps-g"].replace("deep=6", "deep=100")
    [one] = before_the_reservation(f"{large} --epsilon 0.3", "b")
    assert one.startswith("Noise swamps layers_4@4-100-class.second (signal over noise 0.0")
    assert before_the_reservation(f"{SYSTEMS['sps-g']} --epsilon 10", "c") == []


class TestMoreImages:
    @pytest.mark.parametrize("method", ["dp-merf", "sps-plus"])
    def test_they_cost_nothing_and_are_those_of_a_larger_run(
        self, synthesize, privet, tmp_path, encoder, method
    ):
        words = f"--method {SYSTEMS[method]} --encoder {encoder} --noise-seed 3"
        out = tmp_path / "run"
        assert synthesize(f"{words} --count 30").code == 0
        before, release = records(out), (out / "releases").iterdir()
        contents = {path.name: path.read_bytes() for path in release}
        first, _ = images(out)
        more = privet(f"synthesize --out {out} --resume --count 90 --noise-seed 3 --json")
        assert more.code == 0, more.err
        assert json.loads(more.out)["images"] == read(out / "result.json")["images"] == 90
        assert records(out) == before
        assert all((out / "releases" / name).read_bytes() == b for name, b in contents.items())
        found, labels = images(out)
        assert len(found) == 90
        assert np.array_equal(found[:30], first)
        assert np.bincount(labels).tolist() == [9] * 10
        if method == "dp-merf":  # stages of SPS are centred on as many images as were asked for
            assert synthesize(f"{words} --count 90", out="whole").code == 0
            assert np.array_equal(images(tmp_path / "whole")[0], found)

    def test_no_private_image_is_read_for_them(self, synthesize, tmp_path, monkeypatch):
        from privet.hedge.units import Rows

        assert synthesize().code == 0

        def read_again(*_):
            raise AssertionError("private rows were read")

        monkeypatch.setattr(Rows, "batch", read_again)
        assert synthesize("--resume --count 100").code == 0
        assert len(images(tmp_path / "run")[0]) == 100

    def test_a_finished_run_stays_as_it_is(self, synthesize, privet, tmp_path):
        assert synthesize().code == 0
        out = tmp_path / "run"
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        again = privet(f"synthesize --out {out} --resume --json")
        assert again.code == 0
        assert "The run is done already." in again.err
        assert json.loads(again.out)["images"] == 60
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before

    def test_there_cannot_be_fewer(self, synthesize, tmp_path):
        assert synthesize().code == 0
        refused = synthesize("--resume --count 59")
        assert (refused.code, "ask for as many or more" in refused.err) == (2, True)
        assert len(images(tmp_path / "run")[0]) == 60


class TestPng:
    def test_folders_of_classes_that_grow_with_the_run(self, synthesize, privet, tmp_path):
        done = synthesize("--png")
        assert done.code == 0
        assert f"60 in {tmp_path / 'run' / 'synthetic'} and {tmp_path / 'run' / 'png'}" in done.out
        unpacked = load(tmp_path / "run" / "png")
        assert len(unpacked) == 60
        assert unpacked.class_names == tuple("0123456789")
        assert privet(f"synthesize --out {tmp_path / 'run'} --resume --count 90").code == 0
        assert len(load(tmp_path / "run" / "png")) == 90

    def test_they_may_be_asked_for_later(self, synthesize, privet, tmp_path):
        assert synthesize().code == 0
        before = records(tmp_path / "run")
        assert privet(f"synthesize --out {tmp_path / 'run'} --resume --png").code == 0
        assert len(load(tmp_path / "run" / "png")) == 60
        assert records(tmp_path / "run") == before

    def test_they_go_with_a_run_that_is_replaced(self, synthesize, tmp_path):
        assert synthesize("--png").code == 0
        assert synthesize("--force").code == 0
        assert "png" not in names(tmp_path / "run")


def test_an_owners_ledger_pays_for_runs_until_it_is_empty(synthesize, tmp_path):
    owner = tmp_path / "owner.db"
    Ledger.create(owner, epsilon=3, delta=1e-5, relation="replace-one").close()
    first = synthesize(f"--ledger {owner} --epsilon 1", out="a")
    assert first.code == 0
    assert "replace one example" in first.out
    assert "ledger.db" not in names(tmp_path / "a")
    refused = synthesize(f"--ledger {owner} --epsilon 2.9", out="b")
    assert (refused.code, "would fit" in refused.err) == (3, True)
    assert not (tmp_path / "b").exists()
    [record] = Ledger.open(owner).records()
    assert record.spent == (1,)


class TestOddData:
    def save(self, path, counts, shape=(8, 8, 1), classes=None):
        """Noise around a grey of each class's own."""
        rng = np.random.default_rng(0)
        labels = np.repeat(np.arange(len(counts)), counts)
        pixels = rng.integers(0, 100, (len(labels), *shape)) + 15 * labels[:, None, None, None]
        extra = {} if classes is None else {"class_names": np.array(classes)}
        np.savez(path, x=pixels.astype(np.uint8), y=labels, **extra)
        return f"synthesize {path} --epsilon 1 --delta 1e-5 --count 12 --out {path.parent / 'run'}"

    @pytest.mark.parametrize("method", list(SYSTEMS))
    def test_a_class_of_nobody_and_one_of_three(
        self, privet, tmp_path, encoder, one_thread, method
    ):
        """Counts are released, so the run goes through and says nothing of either."""
        words = self.save(tmp_path / "data.npz", [60, 3, 0, 40], classes=["a", "b", "none", "d"])
        public = np.random.default_rng(1).integers(0, 256, (40, 8, 8, 1), np.uint8)
        np.savez(tmp_path / "public.npz", x=public, y=np.arange(40) % 4)
        settings = SYSTEMS[method] + (",pseudo_count=4" if method == "sps-plus" else "")
        done = privet(
            f"{words} --public {tmp_path / 'public.npz'} --encoder {encoder} --method {settings}"
        )
        assert done.code == 0, done.err
        found = load(tmp_path / "run" / "synthetic")
        assert found.class_names == ("a", "b", "none", "d")
        assert np.bincount(found.labels).tolist() == [3, 3, 3, 3]
        for file in (tmp_path / "run" / "steps").iterdir():
            assert all(each.isfinite().all() for each in load_file(file).values())

    def test_colour_and_a_public_set_of_another_size(self, privet, tmp_path, one_thread):
        words = self.save(tmp_path / "data.npz", [30, 30], shape=(8, 8, 3))
        self.save(tmp_path / "public.npz", [10, 10, 10], shape=(12, 10, 1))
        done = privet(
            f"{words} --encoder-data {tmp_path / 'public.npz'} --encoder conv:epochs=1 "
            f"--method {SYSTEMS['sps-g']}"
        )
        assert done.code == 0, done.err
        assert load(tmp_path / "run" / "synthetic").image_shape == (8, 8, 3)

    def test_pixels_have_any_sides(self, privet, tmp_path, encoder, one_thread):
        words = self.save(tmp_path / "data.npz", [30, 30], shape=(9, 6, 1))
        done = privet(f"{words} --encoder {encoder} --method {SYSTEMS['sps']}")
        assert done.code == 0, done.err
        assert load(tmp_path / "run" / "synthetic").image_shape == (9, 6, 1)


def test_the_encoder_of_one_run_serves_another(synthesize, tmp_path, monkeypatch):
    words = f"--method {SYSTEMS['sps-g']} --public 0.1"
    assert synthesize(f"{words} --encoder conv:epochs=1", out="a").code == 0
    monkeypatch.chdir(tmp_path / "a")
    assert synthesize(f"{words} --encoder steps/encoder.safetensors", out="b").code == 0
    certificate = read(tmp_path / "b" / "certificate.json")
    assert "the weights of a saved encoder" in certificate["public"]
    odd = tmp_path / "x,y=1.safetensors"
    shutil.copy(tmp_path / "a" / "steps" / "encoder.safetensors", odd)
    for typed in (f"'{odd}'", "saved:file=steps/encoder.safetensors"):
        assert synthesize(f"{words} --dry-run --encoder {typed}").code == 0
