import io
import pickle
import sys

import numpy as np
import pytest

from privet.data import load
from privet.data.parallel import for_each
from privet.errors import DataError


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize("count", [0, 1, 100])
def test_results_keep_their_order(threads, count):
    assert for_each(lambda row: row * row, count, threads=threads) == [
        row * row for row in range(count)
    ]


@pytest.mark.parametrize("threads", [True, False])
def test_the_first_error_stops_the_rest(threads):
    done = []

    def work(row):
        if row == 3:
            raise DataError("row 3")
        done.append(row)

    with pytest.raises(DataError, match="row 3"):
        for_each(work, 100_000, threads=threads)
    assert len(done) < 100_000


def test_the_bar_is_for_terminals_only(monkeypatch, capsys):
    for_each(abs, 100, threads=False, label="decoding images")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", Terminal())
    for_each(abs, 100, threads=False, label="decoding images")
    assert "decoding images" in sys.stderr.getvalue()


def test_lazy_images_can_be_sent_to_another_process(class_folders):
    folder, pictures = class_folders
    data = pickle.loads(pickle.dumps(load(folder, memory_limit=0).take([5, 2])))  # noqa: S301
    assert np.array_equal(data.images[:], pictures[[5, 2]])
