"""Runs that share a cache of encoders: trained once, and never by private images."""

import shutil

import numpy as np
import pytest
from safetensors.torch import load_file

from privet.data import load
from privet.models import ConvEncoder
from tests.cli.runs import SYSTEMS, names

SENTENCE = "learned from the same images before"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_run_finds_what_another_trained_and_then_needs_it_no_more(synthesize, tmp_path, cache):
    words = f"--method {SYSTEMS['sps-g']} --encoder conv:epochs=1 --public 0.1 --noise-seed 1"
    runs = {out: synthesize(words, out=out) for out in ("trained", "found")}
    assert {out: (run.code, SENTENCE in run.err) for out, run in runs.items()} == {
        "trained": (0, False),
        "found": (0, True),
    }
    assert len(names(cache)) == 1
    shutil.rmtree(cache)
    for out in runs:
        more = synthesize(f"{words} --resume --count 90", out=out)
        assert (more.code, SENTENCE in more.err) == (0, False), more.err
    assert not cache.exists()
    encoders = [tmp_path / out / "steps" / "encoder.safetensors" for out in runs]
    assert encoders[0].read_bytes() == encoders[1].read_bytes()
    images = [load(tmp_path / out / "synthetic").images[:] for out in runs]
    assert len(images[0]) == 90
    assert np.array_equal(*images)


def test_a_private_encoder_is_not_kept(synthesize, cache):
    lessons = "private:epochs=0.2,width=4,groups=2"
    done = synthesize(f"--method {SYSTEMS['sps-g']} --encoder {lessons}", out="private")
    assert done.code == 0, done.err
    assert not cache.exists()
    beside = f"--encoder conv:epochs=1+{lessons} --public 0.1"
    assert synthesize(f"--method {SYSTEMS['sps-g']} {beside}", out="both").code == 0
    [file] = cache.iterdir()
    assert load_file(file).keys() == ConvEncoder(1).state_dict().keys()


def test_a_cache_that_cannot_be_written_is_no_failure(synthesize, cache):
    cache.write_text("a file")
    done = synthesize(f"--method {SYSTEMS['sps-g']} --encoder conv:epochs=1 --public 0.1")
    assert done.code == 0, done.err
    assert "The encoder is not kept for other runs." in done.err
