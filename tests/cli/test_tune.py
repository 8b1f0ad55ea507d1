"""`privet tune`: one guarantee for the best of trials whose number nobody learns."""

import json
import shutil
from types import SimpleNamespace

import pytest

import privet as package
from privet.hedge import SecureRandomness
from privet.learn import checkpoint
from privet.privacy import Certificate, Law, Ledger, Relation, Selection, Trials
from privet.runs import train_log, tuning, tuning_state
from tests.cli.runs import Killed, lines, names, read

# A sampling rate of 1 is accounted in no time.
TUNE = (
    "tune digits --epsilon 2 --delta 1e-5 --model linear --views plain --sample-rate 1 --epochs 3 "
    "--test 100 --engine batched --declared-size 1700 --method dp-sgd --trials 3 "
    "--try learning_rate=0.3,1"
)
FAR = " --clip-norm 1e12 --noise-seed 3"
LEFT = {
    *("config.json", "run.json", "certificate.json", "metrics.jsonl", "model.safetensors"),
    *("result.json", "ledger.db"),
}


@pytest.fixture
def tune(privet, tmp_path, one_thread):
    """A short `privet tune` into a folder of `tmp_path`; later options win."""

    def run(words="", out="run"):
        return privet(f"{TUNE} --out {tmp_path / out} {words}")

    return run


@pytest.fixture
def draws(monkeypatch):
    """Fix the number of trials."""

    def fix(number):
        monkeypatch.setattr(Trials, "draw", lambda *_: number)

    return fix


@pytest.fixture
def scores(monkeypatch):
    """Of all trials, in order."""
    score, found = tuning._score, []

    def noted(*arguments):
        found.append(score(*arguments))
        return found[-1]

    monkeypatch.setattr(tuning, "_score", noted)
    return found


def test_a_tuning_leaves_an_ordinary_run(tune, privet, tmp_path, draws, scores):
    draws(3)
    done = tune("--json")
    assert done.code == 0, done.err
    out = tmp_path / "run"
    assert names(out) == LEFT
    body = json.loads(done.out)
    assert len(scores) == 3
    assert body["test"]["accuracy"] == max(scores)
    assert body["steps"] == {"planned": 3, "done": 3, "paid_and_lost": 0}
    assert body["tuning"]["settings"]["learning_rate"] in (0.3, 1.0)
    assert body["tuning"]["trials"] == {"law": "geometric", "mean": 3.0}

    certificate = Certificate.from_json(read(out / "certificate.json"))
    assert body["certificate"] == certificate.to_json()
    assert certificate.guarantee.accountant == "RDP"
    assert 1.99 < certificate.guarantee.epsilon <= 2
    assert "best of a random number of trials (geometric, 3 on average)" in certificate.statement
    assert any("the 2 candidates that trials drew from" in each for each in certificate.public)
    assert not any(each.startswith("every setting") for each in certificate.public)
    certificate.check_events("here")
    [event] = certificate.plan.events
    assert [each.steps for each in event.candidates] == [3]
    assert body["noise_multiplier"] == event.candidates[0].noise_multiplier

    [record] = Ledger.open(out / "ledger.db").records()
    assert (record.spent, record.state.value, record.declared_size) == ((1,), "closed", 1700)
    assert {each["epsilon"] for each in lines(out / "metrics.jsonl")} == {2}

    assert privet(f"evaluate {out}").code == 0
    assert privet(f"report {out}").code == 0
    page = (out / "report.html").read_text()
    assert "best of a random number of trials (geometric, 3 on average)" in page
    assert "the guarantee covers the choice" in page
    assert "privet tune digits" in page
    assert "learning_rate=0.3;1.0" in page
    assert privet(f"export {out} --to safetensors --out {tmp_path / 'shared'}").code == 0
    assert package.load(tmp_path / "shared").certificate == certificate
    again = tune("--resume")
    assert again.code == 0
    assert "The tuning is done already." in again.err


def test_nothing_that_is_said_or_left_tells_how_many_trials_there_were(tune, tmp_path, draws):
    found = {}
    for number in (1, 5):
        draws(number)
        done = tune(out=f"run{number}")
        assert done.code == 0, done.err
        said = done.err.replace(f"run{number}", "run")
        files = sorted(names(tmp_path / f"run{number}"))
        [record] = Ledger.open(tmp_path / f"run{number}" / "ledger.db").records()
        found[number] = (said, files, record.spent, record.plan)
    assert found[1] == found[5]


@pytest.mark.parametrize(
    ("owner", "name", "number"),
    [
        (tuning_state.TuningState, "new", 1),
        (tuning, "find_or_reserve", 1),
        (tuning, "_drawn", 1),
        (checkpoint, "save", 6),
        (tuning, "_score", 3),
        (tuning, "_forget", 3),
        (tuning, "publish", 1),
        (tuning, "_tidy", 1),
        (tuning, "finished", 1),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_killed_tuning_goes_on_with_the_same_trials(
    tune, tmp_path, monkeypatch, draws, whole, owner, name, number
):
    draws(3)
    monkeypatch.setattr(train_log, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    with monkeypatch.context() as patch:
        _die_at(patch, owner, name, number)
        with pytest.raises(Killed):
            tune("--noise-seed 7")
    out = tmp_path / "run"
    done = tune("--resume --noise-seed 7")
    assert done.code == 0, done.err
    assert names(out) == LEFT
    for each in ("model.safetensors", "metrics.jsonl", "result.json"):
        assert (out / each).read_bytes() == (whole / each).read_bytes()
    [record] = Ledger.open(out / "ledger.db").records()
    assert record.spent == (1,)
    assert record.seeded


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same tuning, never killed."""
    from privet.cli import main

    out = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trials, "draw", lambda *_: 3)
        with pytest.raises(SystemExit):
            main(f"{TUNE} --noise-seed 7 --out {out}".split())
    assert read(out / "certificate.json")["private"] is False
    return out


def _die_at(patch, owner, name, number):
    function, calls = getattr(owner, name), []

    def dying(*arguments, **settings):
        calls.append(name)
        if len(calls) == number:
            raise Killed
        return function(*arguments, **settings)

    patch.setattr(owner, name, dying)


def test_neither_their_number_nor_a_finished_trial_is_drawn_again(
    tune, tmp_path, monkeypatch, draws, scores
):
    draws(4)
    monkeypatch.setattr(train_log, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    with monkeypatch.context() as patch:
        _die_at(patch, checkpoint, "save", 10)  # the first trials' are 5 each
        with pytest.raises(Killed):
            tune()
    before = read(tmp_path / "run" / "tuning.json")
    assert (before["done"], len(before["order"]), len(scores)) == (1, 4, 1)

    def no_more(*_):
        raise AssertionError("drawn again")

    monkeypatch.setattr(Trials, "draw", no_more)
    done = tune("--resume --json")
    assert done.code == 0, done.err
    assert len(scores) == 4
    body = json.loads(done.out)
    assert body["test"]["accuracy"] == max(scores)
    # A trial that was killed has all its steps, or it would be one of another law.
    assert body["steps"]["done"] == 3
    [record] = Ledger.open(tmp_path / "run" / "ledger.db").records()
    assert record.spent == (1,)


def test_trap_a_copy_of_a_tuning_makes_no_second_choice(tune, tmp_path, monkeypatch, draws):
    draws(3)
    owner = tmp_path / "owner.db"
    Ledger.create(owner, epsilon=2, delta=1e-5, relation="add-remove").close()
    with monkeypatch.context() as patch:
        _die_at(patch, tuning, "_score", 3)
        with pytest.raises(Killed):
            tune(f"--ledger {owner}")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    assert tune(f"--ledger {owner} --resume").code == 0
    second = tune(f"--ledger {owner} --resume", out="copy")
    assert (second.code, "is closed" in second.err) == (3, True)
    assert "model.safetensors" not in names(tmp_path / "copy")


def test_stopping_says_how_to_go_on(tune, tmp_path, monkeypatch, draws):
    draws(2)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("privet.runs.train_run.take_steps", interrupted)
        stopped = tune()
    assert stopped.code == 130
    assert f"go on with privet tune --out {tmp_path / 'run'} --resume" in stopped.err
    other = tune("--resume --epochs 4")
    assert other.code == 2
    assert "The setting asked.epochs is 3.0 in the run and 4.0 now" in other.err
    assert "needs the same --noise-seed" in tune("--resume --noise-seed 1").err
    assert tune("--resume").code == 0


def test_a_trial_that_gets_lost_in_the_infinite_is_the_worst(
    privet, tmp_path, one_thread, draws, scores, monkeypatch
):
    draws(2)
    order = iter([1, 0, 0, 1])
    monkeypatch.setattr(tuning.Random, "randrange", lambda *_: next(order))
    words = TUNE.replace("learning_rate=0.3,1", "learning_rate=0.3,9e29") + FAR
    for out in ("first", "last"):
        done = privet(f"{words} --out {tmp_path / out}")
        assert done.code == 0, done.err
        assert read(tmp_path / out / "result.json")["tuning"]["settings"] == {"learning_rate": 0.3}
    assert [each is None for each in scores] == [True, False, False, True]


def test_if_all_trials_get_lost_the_reservation_is_spent(privet, tmp_path, one_thread, draws):
    draws(2)
    words = TUNE.replace("learning_rate=0.3,1", "learning_rate=8e29,9e29") + FAR
    done = privet(f"{words} --out {tmp_path / 'run'}")
    assert done.code == 3
    assert "In every trial the weights grew beyond all bounds" in done.err
    [record] = Ledger.open(tmp_path / "run" / "ledger.db").records()
    assert (record.spent, record.state.value) == ((1,), "closed")
    assert list((tmp_path / "run" / "trials").iterdir()) == []
    again = privet(f"tune --out {tmp_path / 'run'} --resume --noise-seed 3")
    assert again.code == 3
    assert "In every trial" in again.err


def test_perplexity_is_better_if_lower(monkeypatch, tmp_path):
    found = iter([{"perplexity": 30.0}, {"perplexity": 20.0}, {"accuracy": 0.5}])
    monkeypatch.setattr(tuning, "train", lambda *_: SimpleNamespace(summary={"test": next(found)}))
    trials = Trials(law=Law.GEOMETRIC, mean=3)
    steps = package.privacy.PoissonSteps(sampling_rate=1, noise_multiplier=3, steps=2)
    event = Selection(candidates=(steps,), trials=trials)
    ledger = Ledger.create(tmp_path / "l.db", epsilon=9, delta=1e-5, relation="add-remove")
    reservation = ledger.reserve(plan=package.privacy.Plan((event,)))
    candidate = SimpleNamespace(steps=lambda _: steps, as_trial=None)
    session = SimpleNamespace(noise_seed=None, device="cpu")

    def score():
        folder = tuning.RunFolder(tmp_path / "run", "tune")
        return tuning._score(candidate, 0, reservation, session, folder, None)

    assert [score(), score(), score()] == [-30.0, -20.0, 0.5]


def test_an_owners_ledger_pays_for_one_tuning_and_has_its_say(tune, tmp_path, monkeypatch, draws):
    draws(2)
    path = tmp_path / "owner.db"
    Ledger.create(path, epsilon=2, delta=1e-5, relation="replace-one", secure_noise=True)
    drawn = []
    sample = SecureRandomness.sample
    monkeypatch.setattr(SecureRandomness, "sample", lambda *rest: drawn.append(1) or sample(*rest))
    done = tune(f"--ledger {path}")
    assert done.code == 0, done.err
    assert len(drawn) == 6, "noise of trials is as secure as the ledger asks for"
    [record] = Ledger.open(path).records()
    assert (record.spent, record.state.value) == ((1,), "closed")
    certificate = Certificate.from_json(read(tmp_path / "run" / "certificate.json"))
    assert certificate.guarantee.relation is Relation.REPLACE_ONE
    assert certificate.secure_noise
    assert names(tmp_path / "run") == LEFT - {"ledger.db"}
    assert read(tmp_path / "run" / "config.json")["config"]["ledger"] == str(path)
    refused = tune(f"--ledger {path}", out="second")
    assert refused.code == 3
    assert not (tmp_path / "second").exists()
    assert len(Ledger.open(path).records()) == 1


def test_force_replaces_a_tuning_and_not_its_cost(tune, tmp_path, draws):
    draws(1)
    assert tune().code == 0
    refused = tune()
    assert refused.code == 2
    assert "holds a run already" in refused.err
    assert tune("--force").code == 0
    assert names(tmp_path / "run") == LEFT | {"ledger.1.db"}


def test_a_dry_run_tells_what_tuning_costs(privet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = TUNE.replace("--epochs 3 ", "") + " --try epochs=2,4 --trials 10 --dry-run"
    body = json.loads(privet(f"{words} --json").out)
    assert [each["settings"] for each in body["candidates"]] == [
        {"learning_rate": rate, "epochs": epochs} for rate in (0.3, 1.0) for epochs in (2.0, 4.0)
    ]
    assert body["epsilon"] <= 2
    for each in body["candidates"]:
        assert each["noise_multiplier"] > 1.9 * each["noise_multiplier_of_one_run"]
    told = privet(words)
    assert "learning_rate=1.0, epochs=4.0" in told.out
    assert "for one run without tuning" in told.out
    assert "RDP" in told.out
    assert list(tmp_path.iterdir()) == []


REFUSALS = [
    ("--try speed=1,2", "--try cannot vary 'speed': choose method, model,"),
    ("--try seed=1,2", "--try cannot vary 'seed'"),
    ("--try epsilon=1,2", "--try cannot vary 'epsilon'"),
    ("--try epochs", "--try is 'epochs': give it as in"),
    ("--try epochs=", "--try is 'epochs=': give it as in"),
    ("--try clip_norm=1,many", "--try clip_norm has 'many' among its numbers."),
    ("--try clip_norm=1,1.0", "--try clip_norm names a value twice"),
    ("--try learning-rate=2,3", "--try names learning_rate twice"),
    ("--try epochs=1,2", "--epochs is given and tried as well"),
    ("--try clip_norm=1,-1", "With learning_rate=0.3, clip_norm=-1.0: The clip norm must lie"),
    ("--try update=sgd,warp", "update=warp: "),
    ("--try warm_up=none --try warm_up_epochs=3", "warm_up_epochs=3: --warm-up-epochs needs"),
    ("--try ema_decay=0,2", "ema_decay=2.0: decay is 2"),
    ("--trials 0", "The mean number of trials must be above 1 and at most 1000, not 0."),
    ("--trials 1", "must be above 1"),
    ("--trials -3", "must be above 1"),
    ("--trials nan", "must be above 1"),
    ("--shape 2", "--shape is '2': choose 0, 1, poisson."),
    ("--epsilon 0", "ε must be a positive number"),
    ("--resume", "holds no tuning to go on with"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSALS)
def test_refusals_spend_and_write_nothing(tune, tmp_path, words, sentence):
    path = tmp_path / "owner.db"
    Ledger.create(path, epsilon=2, delta=1e-5, relation="add-remove")
    done = tune(f"--ledger {path} {words}")
    assert (done.code, done.out) == (2, ""), done.err
    assert sentence in done.err
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "run").exists()
    assert Ledger.open(path).records() == ()


@pytest.mark.parametrize(
    ("left_out", "sentence"),
    [
        ("--test 100", "compared by rows that are not private: give them with --test"),
        ("--declared-size 1700", "declare it with --declared-size"),
        ("--trials 3", "Give --trials"),
        ("--try learning_rate=0.3,1", "Give --try at least once"),
        ("--method dp-sgd", "privet: Give --method"),
        ("--epsilon 2", "Give --epsilon and --delta"),
    ],
)
def test_what_is_needed_is_asked_for(privet, tmp_path, left_out, sentence):
    done = privet(f"{TUNE.replace(left_out, '')} --out {tmp_path / 'run'}")
    assert done.code == 2
    assert sentence in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("words", ["--diagnostics", "--release 0.3", "--tensorboard"])
def test_options_that_are_not_for_trials_are_unknown(tune, words):
    assert tune(words).code == 2
