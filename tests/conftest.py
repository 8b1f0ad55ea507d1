"""Fixtures that several rooms share."""

import os
import signal

import pytest

from privet.privacy import GaussianRelease, Ledger, Plan, PoissonSteps

# Tests leave the user's cache alone, and train their encoders whatever ran before them. Set here,
# since some copy the environment when they are imported.
os.environ["PRIVET_CACHE"] = ""

LONG = {
    "test_flower.py",
    "test_docs.py",
    "test_synthesize_together.py",
    "test_train_together.py",
    "test_demo.py",
    "test_onnx_model.py",
    "test_evaluate_sets.py",
    "test_train_resume.py",
}


def pytest_collection_modifyitems(items):
    """Long files first: one that begins last is waited for by every other worker."""
    items.sort(key=lambda item: item.path.name not in LONG)


@pytest.fixture
def ledger(tmp_path):
    """A roomy ledger: tests spend freely."""
    return Ledger.create(tmp_path / "ledger.db", epsilon=100, delta=1e-5, relation="add-remove")


@pytest.fixture
def reserve(ledger):
    """Reserve a plan of the given events."""

    def reserved(*events):
        return ledger.reserve(plan=Plan(events))

    return reserved


@pytest.fixture
def release_event():
    return GaussianRelease(noise_multiplier=2.0, releases=50)


@pytest.fixture
def step_event():
    return PoissonSteps(sampling_rate=0.3, noise_multiplier=2.0, steps=50)


@pytest.fixture(autouse=True)
def interruptible():
    """Ctrl-C as on a terminal: a shell's background jobs ignore it, and so would these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
