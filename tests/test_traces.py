"""What a run leaves behind: no private row in a file, no memory on the disk, no values shown."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from privet.data import load

COMMON = "--epsilon 2 --delta 1e-5 --public {public} --test {public} --declared-size 300"
COMMANDS = {
    "train": "train {data} --method dp-sgd --model linear --epochs 1 --sample-rate 0.2 "
    "--warm-up-epochs 1 --tensorboard " + COMMON,
    "synthesize": "synthesize {data} --method sps-g:iterations=5 --count 40 "
    + COMMON.replace("--test {public} ", ""),
}


def privet(words, **environment):
    command = [sys.executable, "-m", "privet", *words.split()]
    return subprocess.run(
        command, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, capture_output=True
    )


@pytest.fixture
def rows(tmp_path):
    """Private images of noise, so that eight bytes of one are in no other file by chance."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (300, 8, 8), np.uint8)
    np.savez(tmp_path / "private.npz", images=images, labels=np.arange(300) % 10)
    digits = load("digits").take(slice(0, 400))
    np.savez(tmp_path / "public.npz", images=digits.images[:], labels=digits.labels)
    return images


@pytest.mark.parametrize("command", COMMANDS)
def test_no_private_row_is_left_in_any_file(tmp_path, rows, command):
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    temporary.mkdir()
    places = {"data": tmp_path / "private.npz", "public": tmp_path / "public.npz"}
    words = f"{COMMANDS[command].format(**places)} --out {out}"
    done = privet(words, TMPDIR=str(temporary), HOME=str(temporary))
    assert done.returncode == 0, done.stderr
    files = [path for place in (out, temporary) for path in place.rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in files) + done.stdout + done.stderr
    drawn = [np.asarray(Image.open(path)).tobytes() for path in files if path.suffix == ".png"]
    assert len(files) > 5
    assert not [row for row in rows if any(line.tobytes() in written for line in row)]
    floats = (each.astype(np.float32).tobytes() for each in (rows / 255)[:, 3])
    assert not [each for each in floats if each in written]
    assert not [row for row in rows if any(row[3].tobytes() in picture for picture in drawn)]


def test_a_crash_of_the_command_line_leaves_no_core(tmp_path):
    """A process that a signal ends may write all its memory to the disk, unless told not to."""
    script = (
        "import resource, privet.cli as c\n"
        "_, most = resource.getrlimit(resource.RLIMIT_CORE)\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (most, most))\n"
        "print('before', resource.getrlimit(resource.RLIMIT_CORE)[0])\n"
        "try: c.main(['--version'])\n"
        "except SystemExit: print('soft', resource.getrlimit(resource.RLIMIT_CORE)[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    if "before 0" in done.stdout:
        pytest.skip("this machine writes no memory to the disk whatever anyone does")
    assert "soft 0" in done.stdout


def test_a_traceback_shows_no_values(tmp_path, rows):
    """Some tracebacks print the values of local variables, which may be private rows."""
    script = (
        "import sys, torch, privet.cli as c\n"
        "from privet.hedge import Hedge\n"
        "def steps(self, *_, **__):\n"
        "    own = torch.full((3,), 0.123456)\n"
        "    raise RuntimeError(f'{len(own)} rows cannot be read')\n"
        "Hedge.steps = steps\n"
        "c.main(sys.argv[1].split())\n"
    )
    places = {"data": tmp_path / "private.npz", "public": tmp_path / "public.npz"}
    words = f"{COMMANDS['train'].format(**places)} --out {tmp_path / 'out'} --debug"
    done = subprocess.run([sys.executable, "-c", script, words], capture_output=True, text=True)
    assert "3 rows cannot be read" in done.stderr
    assert "Traceback" in done.stderr
    assert "0.1235" not in done.stderr
