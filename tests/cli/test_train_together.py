"""`privet train` in several processes, as `torchrun -m privet train` starts them."""

import signal
import time

import pytest
import torch
from safetensors.torch import load_file

from privet.privacy import Certificate, Ledger
from tests.cli.runs import QUICK, lines, names, read
from tests.processes import finished, start

WORDS = f"{QUICK} --declared-size 1700 --model linear --views 2 --engine loop".split()


def together(count, out, *words):
    return start(count, ["-m", "privet", *WORDS, "--out", str(out), *words])


def test_the_same_model_whatever_the_number_of_processes(train, tmp_path):
    alone = train(" ".join([*WORDS[len(QUICK.split()) :], "--noise-seed 4"]))
    assert alone.code == 0, alone.err
    done = finished(together(3, tmp_path / "three", "--noise-seed", "4"))
    assert [code for code, _, _ in done] == [0, 0, 0], done
    assert [bool(out or err) for _, out, err in done] == [True, False, False]
    one, three = (load_file(tmp_path / each / "model.safetensors") for each in ("run", "three"))
    assert one.keys() == three.keys()
    for name in one:
        torch.testing.assert_close(one[name], three[name], rtol=0, atol=1e-6)
    assert names(tmp_path / "run") == names(tmp_path / "three")
    [record] = Ledger.open(tmp_path / "three" / "ledger.db").records()
    assert record.spent == (5,)


def test_a_process_that_dies_ends_the_job_and_another_number_goes_on(tmp_path):
    out = tmp_path / "run"
    processes = together(2, out, "--epochs", "4")
    metrics = out / "metrics.jsonl"
    while not metrics.exists() or len(lines(metrics)) < 2:
        assert all(each.poll() is None for each in processes)
        time.sleep(0.05)
    processes[1].send_signal(signal.SIGKILL)
    (code, _, said), _ = finished(processes)
    assert code == 1
    assert "Another process of this job has ended" in said
    [record] = Ledger.open(out / "ledger.db").records()
    assert 2 <= record.spent[0] < 40

    done = finished(start(3, ["-m", "privet", "train", "--out", str(out), "--resume"]))
    assert [code for code, _, _ in done] == [0, 0, 0], done
    certificate = Certificate.from_json(read(out / "certificate.json"))
    assert certificate.private
    [record] = Ledger.open(out / "ledger.db").records()
    assert record.spent == (40,)


@pytest.mark.parametrize("words", ["--views 0", "--dry-run"])
def test_helpers_go_home_when_there_is_nothing_to_do(tmp_path, words):
    done = finished(together(2, tmp_path / "run", *words.split()))
    assert done[1] == (0, "", "")
    assert done[0][0] == (0 if words == "--dry-run" else 2)
    assert not (tmp_path / "run").exists()
