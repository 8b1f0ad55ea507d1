"""What tests of equation 1 share."""

import pytest
import torch

from privet.privacy import Ledger


@pytest.fixture(scope="package", autouse=True)
def _one_thread():
    """Models here are tiny: several threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _two_lanes(request):
    """For the engine that takes units side by side: with one thread it would take them in turn."""
    side_by_side = "side by side" in request.node.name
    torch.set_num_threads(2 if side_by_side else 1)
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def roomy(tmp_path_factory):
    """One ledger for all of them, with more room than they can use."""
    path = tmp_path_factory.mktemp("learn") / "ledger.db"
    return Ledger.create(path, epsilon=1e15, delta=1e-5, relation="add-remove")
