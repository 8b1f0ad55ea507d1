"""`privet synthesize` in several processes: the same images, one release, one ledger."""

import signal
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from privet.data import load
from privet.privacy import Ledger
from tests.cli.runs import SYSTEMS, names
from tests.processes import finished, start

COMMON = "--epsilon 2 --delta 1e-5 --count 130 --declared-size 1800 --noise-seed 4"
METHODS = {
    "sps-g": f"--method {SYSTEMS['sps-g']} --public 200 --encoder untrained",
    "sps-plus": f"--method {SYSTEMS['sps-plus']} --public 200 --encoder untrained",
    "dp-mepf": f"--method {SYSTEMS['dp-mepf']} --public 200 --encoder untrained",
}


def words(method, out):
    return f"synthesize digits {METHODS[method]} {COMMON} --out {out}"


def made(folder):
    images = load(folder / "synthetic")
    return images.images[:], np.asarray(images.labels)


def test_public_images_too(privet, one_thread, tmp_path):
    method = "edm:iterations=4,batch_size=8,widths=8-8,steps=3,at_once=20"
    given = f"synthesize digits --method {method} --count 50 --out {tmp_path}"
    assert privet(f"{given}/one").code == 0
    done = finished(start(2, ["-m", "privet", *f"{given}/two".split()]))
    assert [code for code, _, _ in done] == [0, 0], done
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])


@pytest.mark.parametrize("method", METHODS)
def test_the_same_images_whatever_the_number_of_processes(privet, one_thread, tmp_path, method):
    assert privet(words(method, tmp_path / "one")).code == 0
    done = finished(start(3, ["-m", "privet", *words(method, tmp_path / "three").split()]))
    assert [code for code, _, _ in done] == [0, 0, 0], done
    assert not any(out or err for _, out, err in done[1:])
    one, three = made(tmp_path / "one"), made(tmp_path / "three")
    np.testing.assert_array_equal(one[1], three[1])
    assert np.abs(one[0].astype(int) - three[0].astype(int)).max() <= 1
    assert names(tmp_path / "one") == names(tmp_path / "three")
    [record] = Ledger.open(tmp_path / "three" / "ledger.db").records()
    assert record.spent == tuple(event.count for event in record.plan.events)


def test_trap_a_user_is_the_same_in_every_process(tmp_path):
    """Ids in the order of no row: a helper without them would count some users twice."""
    digits, data = load("digits").take(slice(0, 600)), tmp_path / "scans.npz"
    who = np.arange(600)[::-1]
    np.savez(data, images=digits.images[:], labels=(who >= 300).astype(int), who=who)
    given = f"synthesize {data} --user who --method {SYSTEMS['dp-merf']} --epsilon 900 "
    given += f"--delta 1e-5 --count 20 --declared-size 600 --out {tmp_path / 'run'}"
    done = finished(start(2, ["-m", "privet", *given.split()]))
    assert [code for code, _, _ in done] == [0, 0], done
    released = load_file(tmp_path / "run" / "releases" / "release.safetensors")
    counts = released["counts.mean"].flatten()
    torch.testing.assert_close(counts / counts.sum(), torch.full((2,), 0.5), atol=0.01, rtol=0)


def test_a_process_that_dies_ends_the_job_and_one_alone_goes_on(privet, one_thread, tmp_path):
    out = tmp_path / "run"
    processes = start(2, ["-m", "privet", *words("sps-plus", out).split()])
    while not (out / "steps" / "stage-0-batch-00000.safetensors").exists():
        assert all(each.poll() is None for each in processes)
        time.sleep(0.02)
    processes[1].send_signal(signal.SIGKILL)
    (code, _, said), _ = finished(processes)
    assert code == 1
    assert "Another process of this job has ended" in said
    [record] = Ledger.open(out / "ledger.db").records()
    assert 1 <= sum(record.spent) < sum(event.count for event in record.plan.events)
    done = privet(f"{words('sps-plus', out)} --resume")
    assert done.code == 0, done.err
    assert len(made(out)[1]) == 130
    [record] = Ledger.open(out / "ledger.db").records()
    assert record.spent == tuple(event.count for event in record.plan.events)


def test_an_encoder_that_private_images_teach_has_one_teacher(tmp_path):
    method = METHODS["sps-g"].replace("untrained", "private:epochs=0.1")
    given = f"synthesize digits {method} {COMMON} --out {tmp_path / 'run'}".split()
    done = finished(start(2, ["-m", "privet", *given]))
    assert [code for code, _, _ in done] == [2, 0], done
    assert "start it without torchrun" in done[0][2]
    assert not (tmp_path / "run").exists()
