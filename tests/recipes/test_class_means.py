import numpy as np
import pytest

from privet.data import ImageSet, load
from privet.errors import ConfigError, PrivacyError
from privet.hedge import Hedge
from privet.privacy import Ledger
from privet.recipes.class_means import private_class_means, public_discriminant


@pytest.fixture(scope="module")
def digits():
    return load("digits").split(public=0.2, test=0.3, seed=0)


def accuracy(model, test):
    return (model.predict(np.asarray(test.images[:])) == test.labels).mean()


def run(digits, tmp_path, epsilon):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=epsilon, delta=1e-5, relation="add-remove")
    hedge = Hedge(digits.private, ledger.reserve(epsilon=epsilon))
    return private_class_means(hedge, digits.public, num_components=20)


def test_more_budget_gives_better_means(digits, tmp_path):
    good = run(digits, tmp_path / "good", 8.0)
    bad = run(digits, tmp_path / "bad", 0.01)
    assert accuracy(good.model, digits.test) > 0.9
    assert accuracy(good.model, digits.test) > accuracy(bad.model, digits.test) + 0.1
    assert good.model.pictures().shape == (10, 8, 8, 1)


def test_the_whole_reservation_is_spent_once_and_certified(digits, tmp_path):
    result = run(digits, tmp_path, 1.0)
    assert result.certificate.guarantee.epsilon == pytest.approx(1.0, abs=1e-6)
    assert "components" in " ".join(result.certificate.public)
    [record] = Ledger.open(tmp_path / "l.db").records()
    assert record.spent == (1,)


def test_a_reservation_with_a_plan_is_refused(digits, tmp_path):
    from privet.privacy import GaussianRelease, Plan

    ledger = Ledger.create(tmp_path / "l.db", epsilon=1, delta=1e-5, relation="add-remove")
    plan = Plan.of(GaussianRelease(noise_multiplier=9.0))
    hedge = Hedge(digits.private, ledger.reserve(plan=plan))
    with pytest.raises(PrivacyError, match="has its plan already"):
        private_class_means(hedge, digits.public)


def test_public_images_must_cover_every_class(digits):
    few = digits.public.take(np.flatnonzero(digits.public.labels != 3))
    with pytest.raises(ConfigError, match="Every class needs"):
        public_discriminant(few, 20)
    with pytest.raises(ConfigError, match="labelled public images"):
        public_discriminant(ImageSet(digits.public.images), 20)
    with pytest.raises(ConfigError, match="labelled public images"):
        public_discriminant(digits.public.take(slice(0, 15)), 20)
