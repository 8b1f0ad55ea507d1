"""Processes that share a sum: the same sum, one noise, one ledger."""

import json
import pickle

import numpy as np
import pytest
import torch

from privet.errors import PrivacyError
from privet.hedge import (
    Alone,
    Count,
    GaussianSum,
    Helper,
    PoissonSum,
    Processes,
    assembled,
)
from privet.hedge.team import _own as own_device
from privet.privacy import Ledger
from tests.hedge.team_job import PLAN, job
from tests.processes import finished, start


@pytest.mark.parametrize("count", [2, 3])
def test_everyone_gets_what_one_process_would_have_got(tmp_path, count):
    (tmp_path / "alone").mkdir()
    (tmp_path / "together").mkdir()
    expected = job(tmp_path / "alone")
    done = finished(start(count, ["-m", "tests.hedge.team_job", str(tmp_path / "together")]))
    assert [code for code, _, _ in done] == [0] * count, done
    for _, out, _ in done:
        found = json.loads(out)
        assert len(found) == len(expected) == 4
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.keys() == theirs.keys()
            for name in ours:
                np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-12)
    [record] = Ledger.open(tmp_path / "together" / "l.db").records()
    assert record.spent == tuple(event.count for event in PLAN.events)


@pytest.mark.parametrize("other", ["1 0", "0 1"])  # one row less; one user a row, in other order
def test_a_helper_with_other_units_is_refused_and_nothing_is_spent(tmp_path, other):
    done = finished(start(2, ["-m", "tests.hedge.team_job", str(tmp_path), *other.split()]))
    assert all(code for code, _, _ in done)
    assert "Process 1 has other private rows than the first" in done[1][2]
    [record] = Ledger.open(tmp_path / "l.db").records()
    assert record.spent == (0, 0)


def test_batches_are_dealt_out_whole_and_once():
    class Third(Processes):
        def __init__(self, rank):
            self.rank, self.size, self.device = rank, 3, torch.device("cpu")

    batches = list("abcdefgh")
    dealt = [Third(rank).share(batches) for rank in range(3)]
    assert sorted(each for share in dealt for each in share) == list(enumerate(batches))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
    assert Alone().share(batches) == list(enumerate(batches))


def test_a_helper_shows_and_copies_nothing():
    helper = Helper({"x": np.arange(3)}, None)
    assert repr(helper) == "Helper()"
    with pytest.raises(PrivacyError, match="stay here"):
        pickle.dumps(helper)
    assert not {"__len__", "__iter__", "__getitem__"} & set(dir(helper))


def test_a_helper_joins_sums_of_the_kind_that_is_due():
    helper = Helper({"x": np.arange(3)}, None)
    with pytest.raises(PrivacyError, match="where a GaussianSum is due"):
        helper.release(Count(), PoissonSum(clip_norm=1, noise_multiplier=1, sampling_rate=0.5))
    with pytest.raises(PrivacyError, match="where a PoissonSum is due"):
        helper.steps(GaussianSum(clip_norm=1, noise_multiplier=1))


def test_a_clusters_own_world_size_is_not_a_team(monkeypatch):
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "8")
    with assembled(torch.device("cpu")) as team:
        assert team == Alone()


@pytest.mark.parametrize("waiting", ["listen", "step"])
def test_words_go_both_ways_and_helpers_are_sent_home(tmp_path, waiting):
    done = finished(start(2, ["-m", "tests.hedge.team_talk", str(tmp_path), waiting]))
    assert [code for code, _, _ in done] == [0, 0], done
    leader, helper = (json.loads(out) for _, out, _ in done)
    assert helper["told"] == ["hello", ""]
    assert leader["given"] == "thanks"
    assert helper["mapped"] == leader["mapped"]
    assert helper["empty"] == leader["empty"]
    assert helper["dismissed"]


def test_a_process_that_ends_is_noticed_by_the_others(tmp_path):
    leader, helper = finished(start(2, ["-m", "tests.hedge.team_talk", str(tmp_path), "leave"]))
    assert helper[0] == 3
    assert leader[0] == 1
    assert "Another process of this job has ended" in leader[2]


@pytest.mark.parametrize(
    ("device", "rank", "own"),
    [("cuda", "3", "cuda:3"), ("cuda:1", "3", "cuda:1"), ("cpu", "3", "cpu")],
)
def test_each_process_has_a_device_of_its_own(monkeypatch, device, rank, own):
    monkeypatch.setenv("LOCAL_RANK", rank)
    assert own_device(torch.device(device)) == torch.device(own)


def test_alone_there_is_nobody_to_tell():
    with assembled(torch.device("cpu")) as team:
        assert isinstance(team, Alone)
        team.tell(b"hello")
        team.call([slice(0, 3)], 3)
