"""`privet federate`: what is refused before anything starts."""

import pytest

from privet.cli import main
from privet.federate import requirements

CLIENT = "federate client digits --party a --public digits --epsilon 1 --delta 1e-5 --out a"
SERVER = "federate server --public digits --epsilon 1 --delta 1e-5 --out s --count 10 --parties 2"
SIMULATE = "federate simulate --party a=digits --public digits --epsilon 1 --delta 1e-5 --count 9"


@pytest.fixture
def refused(capsys, monkeypatch, tmp_path):
    """What a command says on stderr, and its exit code."""
    monkeypatch.chdir(tmp_path)
    for name in requirements.QUIET:
        monkeypatch.setenv(name, "")

    def run(words, *, installed=True):
        monkeypatch.setattr(requirements, "find_spec", lambda name: installed or None)
        with pytest.raises(SystemExit) as stopped:
            main(words.split())
        assert not list(tmp_path.iterdir())
        return stopped.value.code, capsys.readouterr().err

    return run


@pytest.mark.parametrize("words", [CLIENT, SERVER, f"{SIMULATE} --out o"])
def test_without_flower_there_is_one_sentence(refused, words):
    code, said = refused(words, installed=False)
    assert code == 2
    assert said.count("\n") == 1
    assert "pip install 'privet[distributed]'" in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (CLIENT, "--root-certificates"),
        (f"{CLIENT} --insecure --address here", "HOST:PORT"),
        (f"{CLIENT} --insecure --relation twins", "--relation is 'twins'"),
        (CLIENT.replace("--public digits", "--public 0.2"), "not a share"),
        (f"{SERVER} --insecure --at-least 3", "--at-least 3"),
        (f"{SERVER} --root-certificates ca.pem", "--certificate and --key"),
        (SIMULATE.replace("a=digits", "a") + " --out o", "NAME=PATH"),
    ],
)
def test_words_that_cannot_be(refused, words, expected):
    code, said = refused(words)
    assert code == 2
    assert expected in said


def test_a_share_of_ones_own_images_is_no_common_public_set(refused):
    code, said = refused(CLIENT.replace("--public digits", "--public 100"))
    assert code == 2
    assert "name a set that all parties have" in said
