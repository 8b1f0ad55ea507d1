"""The card and the certificate that lie with a run's images."""

import shutil

import numpy as np
import pytest

from privet.data import load
from privet.privacy.certificate import NOTHING_PRIVATE
from privet.runs import set_card, synthesis_images
from tests.cli.runs import BESIDE, SYSTEMS, Killed, card, names, read, run_snippets

ODD = ("a|b", "<b>x</b>", '"quoted": yes', "line\nbreak")


@pytest.fixture
def odd_names(tmp_path):
    """A private set whose classes have names that mean something to Markdown and YAML."""
    digits = load("digits")
    some = np.flatnonzero(digits.labels < len(ODD))
    images, labels = np.asarray(digits.images[:])[some], digits.labels[some]
    np.savez(tmp_path / "odd.npz", images=images, labels=labels, class_names=np.array(ODD))
    return tmp_path / "odd.npz"


def test_a_card_and_its_snippets(synthesize, tmp_path, datasets):
    done = synthesize(
        f"--method {SYSTEMS['sps-g']} --encoder conv:epochs=1 --public 0.1 --soft-labels --png"
    )
    assert done.code == 0, done.err
    out = tmp_path / "run"
    _, body = card(out / "synthetic")
    assert "60 synthetic images, each 8×8 pixels, grey, in 10 classes" in body
    assert body.count(" | 6 |\n") == 10
    assert "iterations = 2" in body
    assert "encoder = conv, encoder.epochs = 1" in body
    certificate = read(out / "certificate.json")
    assert f"> {certificate['statement']}" in body
    for folder in ("synthetic", "png"):
        assert (out / folder / "certificate.json").read_bytes() == (
            out / "certificate.json"
        ).read_bytes()

    found = run_snippets(body, folder=str(out / "synthetic"))
    shards = load(out / "synthetic")
    rows = found["images"]
    assert rows.features["label"].names == list(shards.class_names)
    assert np.array_equal(np.stack([row["image"] for row in rows]), shards.images[..., 0])
    assert len(rows[0]["probabilities"]) == 10
    assert found["frame"].label.tolist() == shards.labels.tolist()
    assert np.array_equal(found["first"], shards.images[0, ..., 0])
    assert found["data"].certificate.to_json() == certificate
    assert found["data"].probabilities.shape == (60, 10)

    found = run_snippets(card(out / "png")[1], folder=str(out / "png"))
    assert (len(found["images"]), len(found["data"])) == (60, 60)
    assert len(datasets.load_dataset(str(out / "png"), split="train")) == 60


def test_one_shard_beside_a_certificate_still_opens(synthesize, tmp_path, datasets):
    assert synthesize("--count 20").code == 0
    assert names(tmp_path / "run" / "synthetic") == {"part-00000.parquet", *BESIDE}
    rows = datasets.load_dataset(str(tmp_path / "run" / "synthetic"))
    assert {name: len(part) for name, part in rows.items()} == {"train": 20}


def test_odd_class_names(privet, tmp_path, odd_names, datasets, one_thread):
    out = tmp_path / "run"
    done = privet(
        f"synthesize {odd_names} --method {SYSTEMS['dp-merf']} --epsilon 2 --delta 1e-5 --count 20 "
        f"--png --out {out}"
    )
    assert done.code == 0, done.err
    _, body = card(out / "synthetic")
    assert "| 0 | a\\|b | 5 |\n| 1 | \\<b\\>x\\</b\\> | 5 |" in body
    rows = datasets.load_dataset(str(out / "synthetic"), split="train")
    assert rows.features["label"].names == list(ODD)
    rows = datasets.load_dataset("imagefolder", data_dir=str(out / "png"), split="train")
    assert len(rows) == len(load(out / "png")) == 20


def test_images_without_labels(privet, tmp_path, datasets, one_thread):
    np.savez(tmp_path / "set.npz", images=np.asarray(load("digits").images[:100]))
    out = tmp_path / "run"
    done = privet(
        f"synthesize {tmp_path / 'set.npz'} --method {SYSTEMS['dp-merf']} --epsilon 2 "
        f"--delta 1e-5 --count 20 --out {out}"
    )
    assert done.code == 0, done.err
    assert (
        "20 synthetic images, each 8×8 pixels, grey, without labels" in card(out / "synthetic")[1]
    )
    rows = datasets.load_dataset(str(out / "synthetic"), split="train")
    assert (len(rows), list(rows.features)) == (20, ["image"])


def test_public_images_promise_nothing(privet, tmp_path, one_thread):
    out = tmp_path / "run"
    settings = "edm:iterations=2,batch_size=8,widths=8-8,steps=2,at_once=20"
    assert privet(f"synthesize digits --method {settings} --count 20 --out {out}").code == 0
    _, body = card(out / "synthetic")
    assert NOTHING_PRIVATE in body
    assert "method edm" in body
    assert read(out / "synthetic" / "certificate.json")["statement"] == NOTHING_PRIVATE


def test_nothing_of_the_owners_machine_is_in_it(privet, tmp_path, encoder, one_thread):
    np.savez(tmp_path / "secret.npz", x=load("digits").images[:], y=load("digits").labels)
    done = privet(
        f"synthesize {tmp_path / 'secret.npz'} --method {SYSTEMS['sps-g']} --public 0.1 "
        f"--encoder {encoder} --epsilon 2 --delta 1e-5 --count 20 --out {tmp_path / 'run'}"
    )
    assert done.code == 0, done.err
    text = (tmp_path / "run" / "synthetic" / "README.md").read_text()
    assert "encoder = saved" in text
    assert "secret" not in text
    assert str(tmp_path) not in text
    assert str(encoder.parent) not in text


class TestWhenItIsThere:
    def test_it_grows_with_the_run(self, synthesize, tmp_path, datasets):
        assert synthesize("--png").code == 0
        assert synthesize("--resume --count 90").code == 0
        for folder in ("synthetic", "png"):
            assert "90 synthetic images" in card(tmp_path / "run" / folder)[1]
        assert len(datasets.load_dataset(str(tmp_path / "run" / "synthetic"))["train"]) == 90

    def test_not_while_images_are_being_added(self, synthesize, tmp_path, killed_at):
        assert synthesize().code == 0
        patch = killed_at(synthesis_images, "write_shard", 2)
        with pytest.raises(Killed):
            synthesize("--resume --count 150")
        assert not names(tmp_path / "run" / "synthetic") & BESIDE
        patch.undo()
        assert synthesize("--resume --count 150").code == 0
        assert "150 synthetic images" in card(tmp_path / "run" / "synthetic")[1]

    @pytest.mark.parametrize("number", [1, 2])
    def test_both_or_the_run_is_not_done(self, synthesize, tmp_path, killed_at, number):
        patch = killed_at(set_card, "_write", number)
        with pytest.raises(Killed):
            synthesize()
        there = names(tmp_path / "run" / "synthetic") & BESIDE
        assert there == ({"README.md"} if number == 2 else set())
        assert "result.json" not in names(tmp_path / "run")
        patch.undo()
        assert synthesize("--resume").code == 0
        assert names(tmp_path / "run" / "synthetic") >= BESIDE

    def test_it_goes_with_a_run_that_is_replaced(self, synthesize, tmp_path, killed_at):
        assert synthesize().code == 0
        killed_at(synthesis_images, "write_shard", 1)
        with pytest.raises(Killed):
            synthesize("--force")
        assert not names(tmp_path / "run" / "synthetic")

    def test_lost_shards_are_noticed(self, synthesize, tmp_path):
        assert synthesize().code == 0
        (tmp_path / "run" / "synthetic" / "part-00001.parquet").unlink()
        more = synthesize("--resume --count 61")
        assert more.code == 0
        assert len(load(tmp_path / "run" / "synthetic")) == 61


def test_a_shared_set_is_known_as_a_private_release(synthesize, privet, tmp_path):
    """Also where it was copied to, without its run."""
    assert synthesize().code == 0
    shutil.copytree(tmp_path / "run" / "synthetic", tmp_path / "shared")
    done = privet(
        f"train digits --method dp-sgd --epsilon 2 --delta 1e-5 --model linear --epochs 0.1 "
        f"--synthetic {tmp_path / 'shared'} --warm-up synthetic --out {tmp_path / 'model'}"
    )
    assert done.code == 0, done.err
    assert "The synthetic rows are a private release themselves" in done.err
