"""What `privet train` refuses: one sentence, the right exit code, nothing written or spent."""

import numpy as np
import pytest

from privet.errors import ConfigError
from privet.privacy import Ledger
from privet.recipes import training
from privet.runs.run_folder import RunFolder
from tests.cli.runs import QUICK, names

REFUSALS = [
    ("--epsilon 0", 2, "ε must be a positive number, not 0."),
    ("--epsilon -1", 2, "ε must be a positive number"),
    ("--epsilon nan", 2, "ε must be a positive number"),
    ("--delta 0", 2, "δ must lie strictly between 0 and 1"),
    ("--delta 1", 2, "δ must lie strictly between 0 and 1"),
    ("--delta 1e-6", 2, "--delta is 1e-06 and the ledger's is 1e-05: give that one."),
    ("--relation replace-one", 2, "--relation is replace-one and the ledger's is add-remove"),
    ("--relation sideways", 2, "--relation is 'sideways': choose add-remove, replace-one."),
    ("--epsilon 2.5", 3, "Asked for ε = 2.5"),
    ("--views 0", 2, "every example needs at least one view"),
    ("--views augmented:num_views=0", 2, "every example needs at least one view"),
    ("--perturb sam:radius=-0.1", 2, "The radius ρ must be 0 or more, not -0.1."),
    ("--perturb random:count=2", 2, "2 weight perturbations must divide the 1 views"),
    ("--method magic", 2, "--method is 'magic': choose dp-sgd, dp-mix, dope"),
    ("--method dope", 2, "uses public rows of the private classes in every step"),
    ("--scenario hot", 2, "--scenario is 'hot': choose cold, cold-extended, warm, warm-syn,"),
    ("--public 0.1 --scenario warm --warm-up none", 2, "--scenario warm has --warm-up public, not"),
    ("--public 0.1 --scenario warm --extended 1", 2, "--scenario warm has --extended 0, not 1"),
    ("--preset gpu", 2, "--preset is 'gpu': choose cpu, cpu-large, paper."),
    ("--model vgg", 2, "--model is 'vgg': choose conv-net"),
    ("--batch-size 100", 2, "Give either --batch-size or --sample-rate"),
    ("--sample-rate 0", 2, "The sampling rate must lie in (0, 1], not 0."),
    ("--sample-rate 1.5", 2, "The sampling rate must lie in (0, 1], not 1.5."),
    ("--epochs 0", 2, "The number of epochs must be above 0"),
    ("--learning-rate 0", 2, "The learning rate must be above 0"),
    ("--clip-norm 0", 2, "The clip norm must lie between"),
    ("--schedule linear", 2, "--schedule is 'linear': choose constant, cosine."),
    ("--ema-decay 1", 2, "decay is 1"),
    ("--keep-last -1", 2, "The number of weights to keep is 0 or more"),
    ("--public 0.1 --public-batch 0", 2, "The public batch must be at least 1"),
    ("--warm-up public", 2, "A warm-up needs public data"),
    ("--warm-up synthetic", 2, "--warm-up synthetic needs --synthetic rows"),
    ("--warm-up-epochs 3", 2, "--warm-up-epochs needs --warm-up public"),
    ("--public 0.1 --warm-up-epochs 0", 2, "epochs is 0"),
    ("--extended 0.5", 2, "Only public rows of the private classes can join them"),
    ("--extended 2", 2, "--extended is 2: give a share"),
    ("--engine warp", 2, "--engine is 'warp': choose loop, batched, ghost."),
    ("--declared-size 0", 2, "--declared-size is 0: give the number of examples"),
    ("--public digits", 2, "--public names the private data themselves"),
    ("--test digits", 2, "--test names the private data themselves"),
    ("--public 1.5", 2, "public and test shares add up to 1.5"),
    ("--test 5000", 2, "test is 5000 rows; give a count from 1 to what there are."),
    ("--test nowhere.npz", 4, "nowhere.npz does not exist"),
    ("--resize huge", 2, "'huge' is not a size"),
    ("--channels pink", 2, "--channels is 'pink': give rgb or grey."),
    ("--seed -1", 2, "seed is -1"),
    ("--noise-seed -1", 2, "--noise-seed is -1"),
    ("--device abacus", 2, "--device abacus cannot be used here"),
    ("--device meta9 ", 2, "--device meta9 cannot be used here"),
    ("--resume", 2, "holds no run to go on with"),
]


@pytest.mark.parametrize(("words", "code", "sentence"), REFUSALS)
def test_refusals_are_one_sentence_and_cost_nothing(train, tmp_path, words, code, sentence):
    owner = tmp_path / "owner.db"
    Ledger.create(owner, epsilon=2, delta=1e-5, relation="add-remove").close()
    result = train(f"--ledger {owner} {words}", out="deep/run")
    assert (result.code, result.out) == (code, "")
    assert sentence in result.err
    assert result.err.startswith("privet: ")
    assert result.err.count("\n") == 1
    assert names(tmp_path) <= {"owner.db"}
    assert Ledger.open(owner).records() == ()


def test_other_refusals(privet, tmp_path):
    def refused(words, code, sentence):
        result = privet(words)
        assert (result.code, result.out) == (code, "")
        assert sentence in result.err
        assert not (tmp_path / "run").exists()

    out = f"--out {tmp_path / 'run'}"
    refused(f"train {out}", 2, "Give --epsilon and --delta")
    refused(f"train --epsilon 1 --delta 1e-5 {out}", 2, "Give DATA")
    refused(f"train digits --epsilon 1 --delta 1e-5 {out}", 2, "Give --method: dp-sgd, dp-mix")
    refused(QUICK, 2, "Give --out")
    refused(f"{QUICK} {out} --noise-multiplier 1", 2, "No such option")
    refused(f"{QUICK} {out} --ledger {tmp_path / 'no.db'}", 3, "There is no ledger at")
    words = f"train digits --method dp-sgd --model linear --epsilon 1 --delta 1e-5 {out}"
    refused(f"{words} --batch-size 64", 2, "which is private: declare it with --declared-size")
    refused(f"{words} --preset paper", 2, "A batch of 4096 needs the number of private examples")
    refused(f"{words} --declared-size 50 --batch-size 64", 2, "give a number from 1 to 50")
    np.savez(tmp_path / "plain.npz", x=np.zeros((9, 8, 8), np.uint8))
    refused(words.replace("digits", str(tmp_path / "plain.npz")), 4, "has no labels")
    owner = tmp_path / "users.db"
    Ledger.create(owner, epsilon=2, delta=1e-5, relation="add-remove", unit="user")
    refused(f"{QUICK} {out} --ledger {owner}", 2, "the unit is example and the ledger's is user")


def test_a_large_delta_is_worth_a_sentence(train):
    assert "δ = 1e-05 is not below 1/100000" in train("--declared-size 100000 --dry-run").err
    assert train("--declared-size 1600 --dry-run").err == ""
    assert "δ = 0.2 is large" in train("--delta 0.2 --dry-run").err


def test_a_delta_that_needs_no_noise_is_refused(train):
    refused = train("--delta 0.5 --dry-run")
    assert refused.code == 2
    assert "Almost no noise is needed for this ε and δ" in refused.err


def test_a_folder_is_never_overwritten(train, tmp_path):
    assert train().code == 0
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    again = train()
    assert again.code == 2
    assert "go on with --resume, replace it with --force" in again.err
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before

    (tmp_path / "run" / "notes.txt").write_text("precious")
    forced = train("--force")
    assert forced.code == 0
    assert "stays spent" in forced.err
    assert (tmp_path / "run" / "notes.txt").read_text() == "precious"
    assert {"notes.txt", "ledger.1.db", "ledger.db"} <= names(tmp_path / "run")
    [record] = Ledger.open(tmp_path / "run" / "ledger.1.db").records()
    assert record.spent == (1, 5)

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text('{"theirs": 1}')
    foreign = train("--force", out="mine")
    assert (foreign.code, "holds something else than a run" in foreign.err) == (2, True)
    assert names(tmp_path / "mine") == {"config.json"}
    (tmp_path / "file").write_text("precious")
    assert train("--force", out="file").code == 2
    (tmp_path / "empty").mkdir()
    assert train(out="empty").code == 0


def test_a_refused_replacement_leaves_the_earlier_run(train, tmp_path):
    assert train().code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    for words in ("--epsilon 0", "--public 0.1 --warm-up-epochs 9 --engine loop --views 0"):
        assert train(f"--force {words}").code == 2
    Ledger.create(tmp_path / "o.db", epsilon=1, delta=1e-5, relation="add-remove").close()
    assert train(f"--force --ledger {tmp_path / 'o.db'}").code == 3
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_a_folder_in_use_is_refused(train, tmp_path):
    assert train().code == 0
    with RunFolder(tmp_path / "run").claimed():
        for words in ("--force", "--resume"):
            result = train(words)
            assert result.code == 2
            assert "is in use by a running process" in result.err


def test_a_warm_up_that_diverges_leaves_nothing(train, tmp_path, monkeypatch):
    def diverged(*_, **__):
        raise ConfigError("the warm-up loss is nan; lower the learning rate from 9.")

    monkeypatch.setattr(training, "warm_up", diverged)
    result = train("--public 0.1", out="deep/run")
    assert result.code == 2
    assert names(tmp_path) == set()


def test_a_test_set_of_other_classes_is_refused(train, tmp_path):
    np.savez(tmp_path / "other.npz", x=np.zeros((24, 8, 8), np.uint8), y=np.arange(24) % 12)
    result = train(f"--test {tmp_path / 'other.npz'}")
    assert (result.code, "has other classes" in result.err) == (2, True)
    assert not (tmp_path / "run").exists()
