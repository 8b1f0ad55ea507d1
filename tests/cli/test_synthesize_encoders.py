"""Several encoders: side by side in one release, or one for each stage in turn."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from privet.models import ConvEncoder
from privet.privacy import Ledger
from privet.privacy.certificate import ALWAYS_PUBLIC
from privet.runs.synthesis_config import SynthesisAsked, SynthesisConfig
from privet.runs.synthesis_stage import staged
from tests.cli.runs import SYSTEMS, names, read

TWO = "conv:epochs=1,seed=0+conv:epochs=1,seed=1"
LESSONS = "private:epochs=0.3,width=4,groups=2"


def blocks(out, name="release"):
    return {
        each.partition(".")[0].partition("@")[0]
        for each in load_file(out / "releases" / f"{name}.safetensors")
        if not each.startswith("probe")
    }


@pytest.mark.parametrize("system", ["sps-g", "dp-mepf", "sps-plus"])
def test_two_that_learned_from_public_images(synthesize, tmp_path, system):
    done = synthesize(f"--public 0.1 --encoder {TWO} --method {SYSTEMS[system]}")
    assert done.code == 0, done.err
    out = tmp_path / "run"
    assert {"encoder-0.safetensors", "encoder-1.safetensors"} <= names(out / "steps")
    one, other = (load_file(out / "steps" / f"encoder-{each}.safetensors") for each in (0, 1))
    assert not torch.equal(one["layers.0.0.weight"], other["layers.0.0.weight"])
    [record] = Ledger.open(out / "ledger.db").records()
    assert sum(record.spent) == (2 if system == "sps-plus" else 1)
    if system == "sps-g":
        assert {"networks_0_layers_1", "networks_1_layers_1", "image"} <= blocks(out)


def test_a_release_of_both_has_the_numbers_of_both(synthesize, encoder):
    def numbers(encoders):
        words = f"--method {SYSTEMS['sps-g']} --public 0.1 --dry-run --json --encoder {encoders}"
        return json.loads(synthesize(words).out)["coordinates"]

    one, both = numbers(encoder), numbers(f"{encoder}+conv:epochs=1")
    of_image_and_counts = 10 * (6 + 21) + 10
    assert both - of_image_and_counts == 2 * (one - of_image_and_counts)


def test_a_private_one_beside_a_public_one(synthesize, tmp_path, encoder):
    words = f"--encoder {encoder}+{LESSONS} --public 0.1 --method {SYSTEMS['sps-g']}"
    assert synthesize(words).code == 0
    out = tmp_path / "run"
    assert names(out / "releases") == {"learned-encoder.safetensors", "release.safetensors"}
    [record] = Ledger.open(out / "ledger.db").records()
    assert record.spent == (3, 1)
    public = read(out / "certificate.json")["public"]
    assert public == [*ALWAYS_PUBLIC, "images for components", "the weights of a saved encoder"]
    assert synthesize(f"{words} --resume --count 90").code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (f"{TWO} --method {SYSTEMS['sps']}", "2 encoders and 1 stages to take them in turn"),
        (f"conv+conv --method {SYSTEMS['sps-g']}", "names the same one twice"),
        (f"private+private:seed=1 --method {SYSTEMS['sps-g']}", "one is enough"),
        (f"conv+none --method {SYSTEMS['sps-g']}", "--encoder is 'none': choose conv"),
        (f"several --method {SYSTEMS['sps-g']}", "--encoder is 'several': choose conv"),
        (f"glyphs --channels rgb --method {SYSTEMS['sps-g']}", "is for grey images"),
        (f"conv+ --method {SYSTEMS['sps-g']}", "--encoder is 'conv+': choose conv"),
    ],
)
def test_what_makes_no_sense_is_refused(synthesize, tmp_path, words, sentence):
    refused = synthesize(f"--public 0.1 --encoder {words}")
    assert (refused.code, sentence in refused.err) == (2, True), refused.err
    assert not (tmp_path / "run").exists()


def asked_for(method, encoder):
    return SynthesisAsked(
        data="digits", method=method, epsilon=2.0, delta=1e-5, public="0.1", encoder=encoder
    )


@pytest.mark.parametrize(
    ("method", "encoder", "invert"),
    [
        ("sps-g", None, True),
        ("dp-mepf", None, True),
        ("sps", None, False),
        ("sps-plus", "conv:epochs=1", False),
        ("sps", "procedural", False),
        ("sps", "conv:invert=true", True),
        ("sps-g", "conv:invert=false", False),
    ],
)
def test_moments_over_positions_need_to_know_light_from_dark(method, encoder, invert):
    assert staged(asked_for(SYSTEMS[method], encoder)).config.encoder.invert == invert


def test_they_are_saved_and_read_again(tmp_path):
    odd = tmp_path / "a+b.safetensors"
    save_file(ConvEncoder(1).state_dict(), odd)
    for encoder, number in ((TWO, 2), (str(odd), 1), ("conv:learning_rate=1e+0", 1)):
        asked = asked_for(SYSTEMS["sps-plus"], encoder)
        config = staged(asked).config
        assert SynthesisConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
        assert len(getattr(config.encoder, "choices", (1,))) == number
        assert staged(asked.placed()).config == config


def test_the_encoder_that_comes_with_privet_needs_nothing_public(synthesize, tmp_path):
    words = f"--method {SYSTEMS['sps-g']} --encoder glyphs --count 30"
    result = synthesize(words)
    assert result.code == 0, result.err
    public = json.loads((tmp_path / "run" / "certificate.json").read_text())["public"]
    assert any("glyphs of fonts" in each for each in public)
    assert any("noise in the place of public images" in each for each in public)
