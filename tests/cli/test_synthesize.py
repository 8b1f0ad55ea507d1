"""`privet synthesize` in one process: what it does, writes and says."""

import json
import shutil
from dataclasses import asdict

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from privet.data import load
from privet.privacy import PLD, Certificate, Ledger, Relation
from privet.privacy.certificate import ALWAYS_PUBLIC
from privet.recipes.map_moments import SpsG
from privet.release import Cleaning
from tests.cli.runs import BESIDE, SYSTEMS, names, read


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
        *("metrics.jsonl", "samples.png", "steps", "releases", "synthetic"),
    }
    steps = {"encoder.safetensors", "components.safetensors", "generator.safetensors"}
    assert names(out / "steps") == steps
    assert names(out / "releases") == {"release.safetensors"}
    assert names(out / "synthetic") == {"part-00000.parquet", "part-00001.parquet", *BESIDE}

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


def test_a_seed_is_the_methods_own(synthesize, encoder):
    """Not that of its training, which has the same name."""
    for method in ("sps-g", "dp-merf"):
        words = f"--encoder {encoder} --public 0.1 --dry-run --json --method {SYSTEMS[method]}"
        body = json.loads(synthesize(f"{words},seed=1").out)
        assert (body["seed"], body["training"]["seed"]) == (1, 0)


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


@pytest.mark.parametrize("given", [False, True])
def test_public_images_are_named_if_a_length_scale_came_from_them(synthesize, tmp_path, given):
    words = f"{SYSTEMS['dp-merf']}{',length_scale=3' * given}"
    assert synthesize(f"--public 0.1 --method {words}").code == 0
    public = read(tmp_path / "run" / "certificate.json")["public"]
    assert public == [*ALWAYS_PUBLIC, *["images for a length scale"] * (not given)]
