"""A generator's training goes on from where it was, to the same end."""

import pytest

from privet.data import load
from privet.recipes import releases
from privet.synthesis import generating
from tests.cli.runs import SYSTEMS, Killed, names

UNFINISHED = "unfinished-generator.safetensors"


def content(out):
    return {
        path.relative_to(out): path.read_bytes()
        for place in ("steps", "releases", "synthetic")
        for path in (out / place).iterdir()
    }


@pytest.mark.parametrize(
    "method",
    [
        SYSTEMS["sps-g"].replace("iterations=2", "iterations=6") + " --public 0.05",
        SYSTEMS["sps-g"].replace("iterations=2", "iterations=6") + ",refine=2 --public 0.05",
        SYSTEMS["dp-mepf"].replace("iterations=2", "iterations=6") + ",stopping=true",
        SYSTEMS["dp-merf"].replace("iterations=2", "iterations=6"),
    ],
)
def test_a_killed_training_goes_on_to_the_same_end(
    synthesize, tmp_path, encoder, monkeypatch, killed_at, method
):
    monkeypatch.setattr(releases, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    words = f"--encoder {encoder} --noise-seed 3 --method {method}"
    assert synthesize(words, out="whole").code == 0
    assert UNFINISHED not in names(tmp_path / "whole" / "steps")
    steps, latents = [], generating._latents
    with monkeypatch.context() as patch:

        def dying(count, size, seed, number):
            if number == 4:
                raise Killed
            return latents(count, size, seed, number)

        patch.setattr(generating, "_latents", dying)
        with pytest.raises(Killed):
            synthesize(words)
    assert UNFINISHED in names(tmp_path / "run" / "steps")

    def noted(count, size, seed, number):
        steps.append(number)
        return latents(count, size, seed, number)

    monkeypatch.setattr(generating, "_latents", noted)
    assert synthesize(f"{words} --resume").code == 0
    assert steps[0] == 4
    assert content(tmp_path / "run") == content(tmp_path / "whole")


def test_checkpoints_are_rare(synthesize, tmp_path, encoder, killed_at):
    patch = killed_at(generating, "_latents", 2)
    with pytest.raises(Killed):
        synthesize()
    patch.undo()
    assert not (tmp_path / "run" / "steps").exists()


def test_pixels_can_be_refined_for_nothing(synthesize, tmp_path, encoder):
    words = f"--encoder {encoder} --public 0.05 --noise-seed 3 --method {SYSTEMS['sps-g']}"
    assert synthesize(words, out="plain").code == 0
    assert synthesize(f"{words},refine=3,refine_rate=0.1").code == 0
    plain, refined = (tmp_path / each for each in ("plain", "run"))
    release = "releases/release.safetensors"
    assert (plain / release).read_bytes() == (refined / release).read_bytes()
    one, other = (load(each / "synthetic").images[:] for each in (plain, refined))
    assert one.shape == other.shape
    assert (one != other).any()
    assert synthesize(f"{words},refine=3,refine_rate=0.1 --resume --count 90").code == 0
    assert (load(refined / "synthetic").images[:60] == other).all()


@pytest.mark.parametrize("setting", ["refine=-1", "refine_rate=0"])
def test_refinement_is_checked(synthesize, encoder, setting):
    words = f"--encoder {encoder} --public 0.05 --method {SYSTEMS['sps-g']},{setting}"
    refused = synthesize(words)
    assert (refused.code, "refine is 0 or more" in refused.err) == (2, True)
