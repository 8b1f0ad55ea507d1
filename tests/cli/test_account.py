import json

import pytest


def test_trap_epsilon_and_noise_together_are_refused(privet):
    """Known bug: a fixed σ silently overrides the target ε."""
    result = privet("account --epsilon 1 --noise-multiplier 2 --delta 1e-5 --releases 1")
    assert result.code == 2
    assert result.err == (
        "privet: Give either --epsilon or --noise-multiplier: one follows from the other.\n"
    )


@pytest.mark.parametrize(("accountant", "noise"), [("--accountant rdp", 4.045), ("", 3.731)])
def test_one_release(privet, accountant, noise):
    result = privet(f"account --epsilon 1 --delta 1e-5 --releases 1 {accountant} --json")
    assert result.code == 0
    assert result.err == ""
    body = json.loads(result.out)
    assert body["noise_multiplier"] == pytest.approx(noise, abs=0.002)
    assert {"epsilon", "delta", "relation", "unit", "accountant"} <= set(body)


def test_cost_of_given_noise(privet):
    words = "account --noise-multiplier 1 --delta 1e-5 --sample-rate 0.01 --steps 1000"
    body = json.loads(privet(f"{words} --json").out)
    assert body["epsilon"] == pytest.approx(1.83, abs=0.01)
    printed = privet(words).out
    assert "ε = 1.829 at δ = 1e-05 (add or remove one example, PLD)" in printed


def test_there_and_back(privet):
    words = "--delta 1e-6 --sample-rate 0.05 --steps 500 --relation replace-one --json"
    noise = json.loads(privet(f"account --epsilon 3 {words}").out)["noise_multiplier"]
    body = json.loads(privet(f"account --noise-multiplier {noise!r} {words}").out)
    assert 2.99 < body["epsilon"] <= 3


def test_printed_noise_is_rounded_up(privet):
    line = privet("account --epsilon 1 --delta 1e-5 --releases 1").out.splitlines()[0]
    assert float(line.split()[-1]) >= 3.73063


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--delta 1e-5 --releases 1", "Give either --epsilon or --noise-multiplier"),
        ("--epsilon 1 --delta 1e-5", "Give either --releases, or --sample-rate together"),
        ("--epsilon 1 --delta 1e-5 --sample-rate 0.1", "Give either --releases, or"),
        ("--epsilon 1 --delta 1e-5 --releases 1 --steps 4", "Give either --releases, or"),
        ("--epsilon 0 --delta 1e-5 --releases 1", "ε must be a positive number, not 0."),
        ("--epsilon nan --delta 1e-5 --releases 1", "ε must be a positive number, not nan."),
        ("--epsilon 1 --delta 1 --releases 1", "δ must lie strictly between 0 and 1"),
        ("--epsilon 1 --delta 1e-5 --releases 0", "The number of releases must be"),
        ("--epsilon 1 --delta 1e-5 --sample-rate 2 --steps 4", "The sampling rate must be"),
        ("--noise-multiplier -1 --delta 1e-5 --releases 1", "The noise multiplier must lie"),
        ("--noise-multiplier 1e200 --delta 1e-5 --releases 1", "The noise multiplier must lie"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(privet, words, sentence):
    result = privet(f"account {words}")
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith(f"privet: {sentence}")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("words", ["account --bogus", "account", "nonsense", "account --delta x"])
def test_usage_errors_exit_with_2(privet, words):
    assert privet(words).code == 2


def test_a_delta_beyond_the_accountant_is_a_refusal(privet):
    words = "account --noise-multiplier 1 --delta 1e-25 --sample-rate 0.1 --steps 9"
    assert privet(f"{words} --json").code == 3
    assert privet(f"{words} --accountant rdp --json").code == 0
