"""`privet train --task`: language models, with a vocabulary of public words alone."""

import json

import numpy as np
import pytest

import privet as library
from privet.errors import ConfigError
from privet.runs import train_run
from tests.cli.runs import Killed, lines, read

COMMON = (
    "--epsilon 2 --delta 1e-5 --sample-rate 0.2 --epochs 0.4 --learning-rate 0.01 "
    "--model {task}:width=8,heads=2,depth=1"
)


def text(count=120, seed=0, words=20):
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, words, (count, 34))
    return "\n".join(" ".join(f"w{number}" for number in line) for line in drawn) + "\n"


@pytest.fixture
def train_text(privet, tmp_path, one_thread):
    path = tmp_path / "text.txt"
    path.write_text(text())

    def run(words="", out="run", task="lm", common=COMMON):
        told = common.format(task=task)
        return privet(f"train {path} --task {task} {told} --out {tmp_path / out} {words}")

    return run


PUBLIC = "--public 0.2 --warm-up-epochs 1 --test 0.2"


@pytest.mark.parametrize("task", ["lm", "mlm"])
@pytest.mark.parametrize("method", ["dp-sgd", "dope", "mirror", "adadps", "weight-multiplicity"])
def test_every_method_trains_on_text(train_text, method, task):
    done = train_text(f"--method {method} {PUBLIC} --json", task=task)
    assert done.code == 0, done.err
    body = json.loads(done.out)
    assert body["steps"]["done"] == 2
    assert 1 < body["test"]["perplexity"] < 100
    assert body["test"]["count"] == 24
    assert "public text for the vocabulary" in body["certificate"]["public"]


def test_a_run_is_told_evaluated_reported_and_loaded(train_text, privet, tmp_path):
    done = train_text(f"--method dope {PUBLIC}")
    assert done.code == 0, done.err
    assert "public sequences alone  test perplexity" in done.out
    run = tmp_path / "run"
    assert "test_perplexity" in lines(run / "metrics.jsonl")[-1]
    again = json.loads(privet(f"evaluate {run} --json").out)
    assert again["perplexity"] == pytest.approx(read(run / "result.json")["test"]["perplexity"])
    other = tmp_path / "other.txt"
    other.write_text(text(10, seed=1))
    assert "350 words of 10 sequences" in privet(f"evaluate {run} --test {other}").out
    assert privet(f"report {run}").code == 0
    assert "A private language model" in (run / "report.html").read_text()
    shared = tmp_path / "shared"
    assert privet(f"export {run} --to safetensors --out {shared}").code == 0
    model = library.load(run)
    found = model.predict("w1 w2 unheard", top_k=3)
    assert len(found) == 3
    assert found[0]["score"] >= found[1]["score"]
    assert library.load(shared).predict("w1 w2 unheard", top_k=3) == found
    assert len(model.predict(" ".join(["w1"] * 90))) == 5
    assert "WordModel(the next word, 23 words, ε" in repr(model)


def test_a_masked_model_fills_a_gap(train_text, tmp_path):
    assert train_text(f"--method dp-sgd {PUBLIC}", task="mlm").code == 0
    model = library.load(tmp_path / "run")
    assert len(model.predict("w1 <blank> w3", top_k=2)) == 2
    with pytest.raises(ConfigError, match="has no <blank>"):
        model.predict("w1 w2")


def test_the_vocabulary_is_that_of_public_text(train_text, tmp_path):
    """Whatever private text holds, the same is decided, said and saved before the hedge."""
    public = tmp_path / "public.txt"
    public.write_text(text(20, seed=2, words=10))
    shown = []
    for number, private in enumerate((text(), text(60, seed=3, words=500))):
        (tmp_path / "text.txt").write_text(private)
        words = f"--method dope --public {public} --warm-up-epochs 1 --declared-size 100"
        quote = train_text(f"{words} --dry-run")
        assert quote.code == 0, quote.err
        assert train_text(words, out=f"run{number}").code == 0
        shown.append((quote, read(tmp_path / f"run{number}" / "config.json")["config"]))
    assert shown[0] == shown[1]
    vocabulary = shown[0][1]["class_names"]
    assert set(vocabulary[3:]) == {f"w{number}" for number in range(10)}


def test_a_killed_run_goes_on(train_text, privet, tmp_path, killed_at):
    killed_at(train_run, "write_results")
    with pytest.raises(Killed):
        train_text(f"--method dope {PUBLIC}")
    done = privet(f"train --resume --out {tmp_path / 'run'}")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--method dp-sgd", "The vocabulary comes from public text"),
        ("--method dp-mix --public 0.2", "--views mixed makes no sense for sequences"),
        ("--method dp-sgd --public 0.2 --views 4", "--views augmented makes no sense"),
        ("--method dp-sgd --public 0.2 --views masked", "--views masked makes no sense"),
        ("--method dp-sgd --public 0.2 --model mlp", "cannot learn from sequences: choose lm"),
        ("--method dp-sgd --public 0.2 --model mlm", "give both alike"),
        ("--method dp-sgd --public 0.2 --resize 8", "--resize is not for text"),
        ("--method dp-sgd --public 0.2 --diagnostics", "--diagnostics is for classifiers"),
        ("--method dp-sgd --public 0.2 --warm-up-steps pgd", "words cannot be"),
        ("--method dp-sgd --public 0.2 --task spam", "--task is 'spam': give lm"),
    ],
)
def test_refusals(train_text, tmp_path, words, sentence):
    done = train_text(words)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert not (tmp_path / "run").exists()


def test_what_is_no_text_is_bad_data(train_text, tmp_path):
    (tmp_path / "text.txt").write_text("a line that never ends " * 40)
    done = train_text("--method dp-sgd --public 0.2")
    assert done.code == 4
    assert "has no newline" in done.err


def test_a_gpt2_from_a_folder_is_fine_tuned(train_text, privet, tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "gpt2"
    config = transformers.GPT2Config(vocab_size=30, n_positions=40, n_embd=8, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    done = train_text(f"--method dope {PUBLIC} --model {folder}")
    assert done.code == 0, done.err
    run = tmp_path / "run"
    assert any("pretrained weights" in each for each in read(run / "certificate.json")["public"])
    assert "batched" in done.err or "ghost" in done.err
    folder.rename(tmp_path / "gone")
    assert privet(f"evaluate {run}").code == 0
    assert len(library.load(run).predict("w1 w2")) == 5
    done = train_text(f"--method dope {PUBLIC} --model {tmp_path / 'gone'}", "other", "mlm")
    assert "give both alike" in done.err
