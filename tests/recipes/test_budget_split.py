"""The share of ε for a release: as typed, or by a rule that sees nothing private."""

import pytest

from privet.errors import ConfigError
from privet.privacy import Budget, Relation
from privet.recipes.budget_split import ENOUGH, Foretold, proposed, split_of
from privet.recipes.map_moments import SpsG
from privet.recipes.releases import relative_noise

SHAPE = (28, 28, 1)


def foretold(epsilon, size, shape=SHAPE, classes=10):
    def of(share):
        part = Budget(epsilon=share * epsilon, delta=1e-5)
        noise = relative_noise(part, Relation.ADD_REMOVE, size, classes)
        return Foretold(noise, SpsG().fitted(noise, shape))

    return of


def share(*situation, **others):
    return proposed(foretold(*situation, **others)).share


def test_the_proposal_is_the_least_share_with_enough_signal():
    of = foretold(2.0, 20_000)
    found = proposed(of)
    assert 0.2 < found.share < 0.8
    assert of(found.share).signal >= ENOUGH > of(found.share - 0.05).signal
    assert f"{of(found.share).signal:.2g}" in found.reason


def test_the_more_signal_there_is_the_less_is_spent_on_the_release():
    assert share(4.0, 20_000) < share(2.0, 20_000) <= share(1.0, 20_000)
    assert share(2.0, 60_000) < share(2.0, 20_000) < share(2.0, 20_000, classes=20)


def test_it_stays_within_reason_and_says_so():
    little = proposed(foretold(0.1, 1000))
    assert little.share == 0.8
    assert "no share gives" in little.reason
    assert share(10.0, 1e6) == 0.2


def test_a_share_as_typed_asks_nobody():
    assert split_of("0.3", lambda share: pytest.fail("asked")).share == 0.3


@pytest.mark.parametrize("text", ["0", "1", "-0.1", "1.5", "nan", "some", ""])
def test_other_shares_are_refused(text):
    with pytest.raises(ConfigError, match="give a share of ε between 0 and 1, or auto"):
        split_of(text, lambda share: None)


def test_nothing_is_proposed_for_what_nobody_can_foretell():
    with pytest.raises(ConfigError, match="sps-g alone: give a share"):
        split_of("auto", lambda share: None)
