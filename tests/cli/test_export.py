"""`privet export`: every form, what travels with it, and every refusal."""

import itertools
import json
import shutil
from contextlib import suppress

import numpy as np
import pytest
import torch

import privet as library
from privet.cli import main
from privet.data import load
from privet.data.shards import write_shard
from privet.errors import PrivetError
from privet.privacy.certificate import NOTHING_PRIVATE
from privet.runs import run_export
from privet.share import onnx_model
from tests.cli.runs import BESIDE, SYSTEMS, card, names, read, run_snippets

SET_FORMS = {"parquet": "set", "png": "pictures", "npz": "set.npz"}
MODEL_FORMS = {"onnx": "model.onnx", "safetensors": "model"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One run of each kind, which no test changes."""
    folder = tmp_path_factory.mktemp("runs")
    for name, words in {
        "model": "train digits --method dp-sgd --epsilon 2 --delta 1e-5 --model mlp:hidden=9 "
        "--views plain --sample-rate 0.1 --epochs 0.5 --test 100 --engine batched",
        "set": f"synthesize digits --method {SYSTEMS['sps-g']} --encoder conv:epochs=1 "
        "--public 0.1 --epsilon 2 --delta 1e-5 --count 60 --soft-labels",
        "public": "synthesize digits --count 20 "
        "--method edm:iterations=2,batch_size=8,widths=8-8,steps=2,at_once=20",
    }.items():
        with pytest.raises(SystemExit) as stopped:
            main([*words.split(), "--out", str(folder / name)])
        assert not stopped.value.code
    return folder


@pytest.fixture
def export(privet, runs, tmp_path):
    """Export a run into a folder of `tmp_path`."""

    def run(name, to, out, words="", folder=None):
        return privet(f"export {folder or runs / name} --to {to} --out {tmp_path / out} {words}")

    return run


class TestSets:
    def test_parquet(self, export, runs, tmp_path, datasets):
        done = export("set", "parquet", "set")
        assert (done.code, done.err) == (0, "")
        assert f"60 images as parquet to {tmp_path / 'set'}" in done.out
        assert "ε = 2 at δ = 1e-05 (add or remove one example, PLD)" in done.out
        for each in (runs / "set" / "synthetic").iterdir():
            assert (tmp_path / "set" / each.name).read_bytes() == each.read_bytes()
        assert names(tmp_path / "set") == names(runs / "set" / "synthetic")
        found = run_snippets(card(tmp_path / "set")[1], folder=str(tmp_path / "set"))
        assert len(found["images"]) == 60
        assert found["data"].certificate.to_json() == read(runs / "set" / "certificate.json")
        assert found["data"].probabilities.shape == (60, 10)

    def test_png(self, export, runs, tmp_path, datasets):
        assert export("set", "png", "pictures").code == 0
        assert names(tmp_path / "pictures") >= {*"0123456789", *BESIDE}
        found = run_snippets(card(tmp_path / "pictures")[1], folder=str(tmp_path / "pictures"))
        assert len(found["images"]) == len(found["data"]) == 60
        assert np.bincount(found["images"]["label"][:]).tolist() == [6] * 10
        assert read(tmp_path / "pictures" / "certificate.json")["epsilon"] == 2.0

    def test_npz(self, export, runs, tmp_path):
        assert export("set", "npz", "set.npz").code == 0
        assert names(tmp_path) == {"set.npz", "set.README.md"}
        text = (tmp_path / "set.README.md").read_text()
        found = run_snippets(text, file=str(tmp_path / "set.npz"))
        stored = load(runs / "set" / "synthetic")
        assert np.array_equal(found["arrays"]["images"], stored.images[:])
        assert found["arrays"]["probabilities"].shape == (60, 10)
        found["arrays"].close()
        assert found["certificate"] == read(runs / "set" / "certificate.json")
        assert found["data"].class_names == stored.class_names
        assert found["data"].labels.tolist() == stored.labels.tolist()

    @pytest.mark.parametrize("to", SET_FORMS)
    def test_json(self, export, runs, tmp_path, to):
        body = json.loads(export("set", to, SET_FORMS[to], "--json").out)
        out = tmp_path / SET_FORMS[to]
        beside = "set.README.md" if to == "npz" else f"{SET_FORMS[to]}/README.md"
        assert (body["run"], body["format"]) == (str(runs / "set"), to)
        assert (body["out"], body["card"]) == (str(out), str(tmp_path / beside))
        assert body["images"] == 60
        assert body["certificate"] == read(runs / "set" / "certificate.json")

    def test_public_images_say_so(self, export, tmp_path):
        done = export("public", "parquet", "set")
        assert (done.code, NOTHING_PRIVATE in done.out) == (0, True)
        assert NOTHING_PRIVATE in card(tmp_path / "set")[1]
        assert library.load(tmp_path / "set").certificate is None
        assert library.load(tmp_path / "set").statement == NOTHING_PRIVATE

    def test_runs_of_earlier_versions_get_a_card_on_their_way(self, export, runs, tmp_path):
        shutil.copytree(runs / "set", tmp_path / "old")
        for name in BESIDE:
            (tmp_path / "old" / "synthetic" / name).unlink()
        assert export("set", "parquet", "set", folder=tmp_path / "old").code == 0
        assert names(tmp_path / "set") >= BESIDE

    @pytest.mark.parametrize("to", SET_FORMS)
    def test_a_known_release_wherever_it_went(self, export, privet, tmp_path, one_thread, to):
        assert export("set", to, SET_FORMS[to]).code == 0
        done = privet(
            f"train digits --method dp-sgd --epsilon 2 --delta 1e-5 --model linear --epochs 0.1 "
            f"--synthetic {tmp_path / SET_FORMS[to]} --warm-up synthetic --out {tmp_path / 'run'}"
        )
        assert done.code == 0, done.err
        assert "The synthetic rows are a private release themselves" in done.err


class TestModels:
    def test_safetensors(self, export, runs, tmp_path):
        done = export("model", "safetensors", "model")
        assert (done.code, done.err) == (0, "")
        assert names(tmp_path / "model") == {"model.safetensors", "config.json", "certificate.json"}
        text = (tmp_path / "model" / "config.json").read_text()
        assert json.loads(text)["config"]["model"] == {"kind": "mlp", "hidden": [9]}
        assert str(runs) not in text
        found, wanted = library.load(tmp_path / "model"), library.load(runs / "model")
        assert found.certificate.to_json() == read(runs / "model" / "certificate.json")
        images = load("digits").images[:20]
        assert found.predict(images) == wanted.predict(images)

    def test_onnx(self, export, runs, tmp_path):
        onnxruntime = pytest.importorskip("onnxruntime")
        done = export("model", "onnx", "model.onnx")
        assert (done.code, done.err) == (0, "")
        session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
        properties = session.get_modelmeta().custom_metadata_map
        assert json.loads(properties["privet.certificate"]) == read(
            runs / "model" / "certificate.json"
        )
        assert json.loads(properties["privet.class_names"]) == list("0123456789")
        assert json.loads(properties["privet.image_shape"]) == [8, 8, 1]
        assert "divided by 127.5, minus 1" in properties["privet.input"]
        assert "logits" in properties["privet.output"]
        images = load("digits").images[:20]
        inputs = np.moveaxis(images / 127.5 - 1, 3, 1).astype(np.float32)
        [logits] = session.run(None, {"images": inputs})
        wanted = library.load(runs / "model").probabilities(images)
        np.testing.assert_allclose(torch.tensor(logits).softmax(1), wanted, atol=1e-5)

    def test_json(self, export, tmp_path):
        body = json.loads(export("model", "safetensors", "model", "--json").out)
        assert (body["format"], body["card"], body["images"]) == ("safetensors", None, None)

    def test_what_was_measured_is_what_is_loaded(self, runs):
        model, told = library.load(runs / "model"), read(runs / "model" / "result.json")["test"]
        test = load("digits").split(test=100, seed=0).test
        right = model.probabilities(test.images).argmax(1) == test.labels
        assert right.mean() == pytest.approx(told["accuracy"])

    def test_a_model_from_a_folder_of_transformers(self, train, export, tmp_path):
        """Its export needs that folder no more, and does not name its place."""
        pytest.importorskip("transformers")
        from privet.models import tiny_vit

        source = tmp_path / "secret" / "vit"
        tiny_vit(10, 8, 4, 12, 1, 2, channels=1).network.save_pretrained(source)
        assert train(f"--model {source} --epochs 0.1 --sample-rate 0.05").code == 0
        wanted = library.load(tmp_path / "run")
        shutil.rmtree(tmp_path / "secret")
        assert export("", "safetensors", "model", folder=tmp_path / "run").code == 0
        assert "secret" not in (tmp_path / "model" / "config.json").read_text()
        images = load("digits").images[:5]
        assert library.load(tmp_path / "model").predict(images) == wanted.predict(images)

    def test_a_head_needs_its_encoder_again(self, train, export, tmp_path):
        pytest.importorskip("efficientnet_lite_pytorch")
        done = train(
            "--model efficientnet-lite0:image_size=32 --resize 4 --epochs 0.02 --sample-rate 0.02"
        )
        assert done.code == 0, done.err
        assert export("", "safetensors", "model", folder=tmp_path / "run").code == 0
        model = library.load(tmp_path / "model")
        assert model.module(torch.zeros(2, 1, 4, 4)).shape == (2, 10)


class TestRefusals:
    @pytest.mark.parametrize(
        ("run", "to", "complaint"),
        [
            ("set", "onnx", "--to is onnx: for a run of 'privet synthesize' choose one of parquet"),
            ("model", "png", "--to is png: for a run of 'privet train' choose one of onnx"),
            ("model", "pickle", "--to is pickle: "),
            ("nowhere", "npz", "holds no run of 'privet train', 'tune', 'synthesize', 'merge'"),
        ],
    )
    def test_forms_that_do_not_fit(self, export, tmp_path, run, to, complaint):
        refused = export(run, to, "out")
        assert (refused.code, complaint in refused.err) == (2, True), refused.err
        assert names(tmp_path) == set()

    def test_words_that_are_missing(self, privet, runs, tmp_path):
        for words in (f"{runs / 'set'} --to npz", f"{runs / 'set'} --out x.npz", ""):
            assert privet(f"export {words}").code == 2

    @pytest.mark.parametrize(("run", "to"), [("set", "npz"), ("model", "onnx")])
    def test_files_by_other_names(self, export, tmp_path, run, to):
        refused = export(run, to, "out.zip")
        assert (refused.code, f"does not end in .{to}" in refused.err) == (2, True)
        (tmp_path / f"out.{to}").mkdir()
        refused = export(run, to, f"out.{to}", "--force")
        assert (refused.code, "is a folder; give the path of a file" in refused.err) == (2, True)

    @pytest.mark.parametrize("to", [*SET_FORMS, *MODEL_FORMS])
    def test_what_exists_is_replaced_only_with_force(self, export, tmp_path, to):
        run = "set" if to in SET_FORMS else "model"
        out = (SET_FORMS | MODEL_FORMS)[to]
        assert export(run, to, out).code == 0
        before = {path: path.stat().st_ino for path in tmp_path.rglob("*")}
        refused = export(run, to, out)
        assert (refused.code, "exists; give another path, or --force" in refused.err) == (2, True)
        assert {path: path.stat().st_ino for path in tmp_path.rglob("*")} == before
        assert export(run, to, out, "--force").code == 0
        assert {path.name for path in tmp_path.rglob("*")} == {path.name for path in before}

    @pytest.mark.parametrize("to", ["parquet", "png", "safetensors"])
    def test_other_folders_are_spared_also_with_force(self, export, tmp_path, to):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "thesis.tex").write_text("precious")
        refused = export("model" if to == "safetensors" else "set", to, "out", "--force")
        assert (refused.code, "holds something else" in refused.err) == (2, True)
        assert (tmp_path / "out" / "thesis.tex").read_text() == "precious"

    def test_a_card_that_is_not_ours(self, export, tmp_path):
        (tmp_path / "set.README.md").write_text("mine")
        refused = export("set", "npz", "set.npz")
        assert (refused.code, "set.README.md exists" in refused.err) == (2, True)
        assert names(tmp_path) == {"set.README.md"}

    @pytest.mark.parametrize("place", ["", "synthetic", "synthetic/x", "png", "deep/below"])
    def test_runs_stay_as_they_are(self, export, runs, tmp_path, place):
        shutil.copytree(runs / "set", tmp_path / "other")
        refused = export("set", "parquet", f"other/{place}", "--force")
        assert (refused.code, "lies in the folder of a run" in refused.err) == (2, True)
        assert names(tmp_path / "other") == names(runs / "set")

    @pytest.mark.parametrize("run", ["set", "model"])
    def test_runs_that_are_not_done(self, export, runs, tmp_path, run):
        shutil.copytree(runs / run, tmp_path / "half")
        (tmp_path / "half" / "result.json").unlink()
        to = "parquet" if run == "set" else "safetensors"
        refused = export("", to, "out", folder=tmp_path / "half")
        assert (refused.code, "is not done: go on with privet" in refused.err) == (2, True)
        assert not (tmp_path / "out").exists()

    def test_a_set_that_is_growing(self, export, runs, tmp_path):
        shutil.copytree(runs / "set", tmp_path / "half")
        config = read(tmp_path / "half" / "config.json")
        (tmp_path / "half" / "config.json").write_text(json.dumps({**config, "count": 99}))
        refused = export("", "parquet", "out", folder=tmp_path / "half")
        assert (refused.code, "is not done" in refused.err) == (2, True)

    def test_a_run_that_somebody_works_in(self, export, runs, tmp_path):
        from privet.runs.run_folder import RunFolder

        with RunFolder(runs / "set", "synthesize").claimed():
            refused = export("set", "parquet", "out")
        assert (refused.code, "is in use by a running process" in refused.err) == (2, True)

    @pytest.mark.parametrize("to", SET_FORMS)
    def test_images_that_are_missing(self, export, runs, tmp_path, to):
        shutil.copytree(runs / "set", tmp_path / "half")
        (tmp_path / "half" / "synthetic" / "part-00001.parquet").unlink()
        refused = export("", to, SET_FORMS[to], folder=tmp_path / "half")
        assert (refused.code, "holds 40 images and the run made 60" in refused.err) == (4, True)
        assert names(tmp_path) == {"half"}

    @pytest.mark.parametrize("to", SET_FORMS)
    def test_images_that_are_damaged(self, export, runs, tmp_path, to):
        shutil.copytree(runs / "set", tmp_path / "half")
        shard = tmp_path / "half" / "synthetic" / "part-00001.parquet"
        content = bytearray(shard.read_bytes())
        content[200] ^= 0x40
        shard.write_bytes(content)
        refused = export("", to, SET_FORMS[to], folder=tmp_path / "half")
        assert (refused.code, "part-00001.parquet is damaged" in refused.err) == (4, True)
        assert names(tmp_path) == {"half"}

    @pytest.mark.parametrize(
        ("content", "code"), [(None, 4), ("{", 4), ('{"schema": "odd"}', 3), ("{}", 3)]
    )
    @pytest.mark.parametrize("run", ["set", "model"])
    def test_certificates_that_are_none(self, export, runs, tmp_path, run, content, code):
        shutil.copytree(runs / run, tmp_path / "odd")
        path = tmp_path / "odd" / "certificate.json"
        path.unlink() if content is None else path.write_text(content)
        to = "parquet" if run == "set" else "safetensors"
        refused = export("", to, "out", folder=tmp_path / "odd")
        assert (refused.code, "certificate" in refused.err) == (code, True)
        assert not (tmp_path / "out").exists()

    def test_weights_that_are_damaged(self, export, runs, tmp_path):
        shutil.copytree(runs / "model", tmp_path / "odd")
        (tmp_path / "odd" / "model.safetensors").write_bytes(b"garbage")
        for to, out in MODEL_FORMS.items():
            refused = export("", to, out, folder=tmp_path / "odd")
            assert (refused.code, "model.safetensors cannot be read" in refused.err) == (4, True)
            assert not (tmp_path / out).exists()

    def test_without_the_packages_for_onnx(self, export, tmp_path, monkeypatch):
        monkeypatch.setattr(onnx_model, "_PACKAGES", ("onnx_of_tomorrow",))
        refused = export("model", "onnx", "model.onnx")
        assert refused.code == 2
        assert "is not installed; run pip install 'privet[onnx]' to get it." in refused.err
        assert names(tmp_path) == set()

    @pytest.mark.parametrize("to", [*SET_FORMS, *MODEL_FORMS])
    def test_a_full_disk(self, export, tmp_path, monkeypatch, to):
        free = shutil._ntuple_diskusage(9, 0, 9)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
        run, out = ("set", SET_FORMS[to]) if to in SET_FORMS else ("model", MODEL_FORMS[to])
        refused = export(run, to, out)
        assert (refused.code, "its disk has 9 left" in refused.err) == (2, True)
        assert names(tmp_path) == set()


def test_exported_twice_they_are_the_same(export, tmp_path):
    for name in ("a", "b"):
        assert export("set", "npz", f"{name}.npz").code == 0
        assert export("model", "safetensors", name).code == 0
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    for path in (tmp_path / "a").iterdir():
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes()


def test_a_set_of_somebody_else_is_no_export(runs, tmp_path):
    """Shards and a README are not enough for --force."""
    write_shard(tmp_path, 0, np.zeros((2, 4, 4, 1), np.uint8), None, None)
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(run_export.ConfigError, match="holds something else"):
        run_export.export(runs / "set", "parquet", tmp_path, force=True)


@pytest.mark.parametrize(
    ("run", "file"),
    [
        *itertools.product(["set", "public", "model"], ["config.json", "result.json"]),
        *itertools.product(["set", "model"], ["run.json"]),
    ],
)
def test_files_that_lack_something_are_refused_in_a_sentence(privet, runs, tmp_path, run, file):
    """By every command that reads a run; or nobody needed it."""
    body, folder = read(runs / run / file), tmp_path / "run"
    command = "train" if run == "model" else "synthesize"
    for missing in body:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(runs / run, folder)
        less = {key: value for key, value in body.items() if key != missing}
        (folder / file).write_text(json.dumps(less))
        with suppress(PrivetError):
            library.load(folder)
        for words in (
            f"export {folder} --to {'safetensors' if run == 'model' else 'npz'} "
            f"--out {tmp_path / 'out.npz'} --force",
            f"report {folder} --force",
            f"{command} --out {folder} --resume",
        ):
            done = privet(words)
            assert done.code in {0, 2, 3, 4}, (missing, words, done.err)
            assert "Traceback" not in done.err
