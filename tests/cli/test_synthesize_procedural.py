"""An encoder that learned from images of nothing, in a run where nothing is public."""

from privet.privacy import Certificate
from tests.cli.runs import SYSTEMS, names, read


def test_nothing_needs_to_be_public(synthesize, tmp_path):
    words = f"--method {SYSTEMS['sps-g']} --encoder procedural:images=3,epochs=1"
    done = synthesize(words)
    assert done.code == 0, done.err
    out = tmp_path / "run"
    assert "encoder.safetensors" in names(out / "steps")
    public = Certificate.from_json(read(out / "certificate.json")).public
    assert any("random processes" in each for each in public)
    assert any("noise in the place of public images" in each for each in public)
    assert synthesize(f"{words} --resume --count 70").code == 0


def test_settings_are_checked(synthesize, tmp_path):
    done = synthesize(f"--method {SYSTEMS['dp-mepf']} --encoder procedural:images=0")
    assert done.code == 2
    assert "give 1 or more" in done.err
    assert not (tmp_path / "run").exists()
