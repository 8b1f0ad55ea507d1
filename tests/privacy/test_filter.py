"""The Rényi filter: one order, fixed before anything is seen."""

import pytest

from privet.privacy import RDP, Budget, GaussianRelease, PoissonSteps, Relation, gaussian
from privet.privacy.filter import RenyiFilter


def release(sigma):
    return GaussianRelease(noise_multiplier=sigma)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 30.0])
class TestFilter:
    def test_order_depends_on_the_budget_alone_and_is_nearly_the_best(self, epsilon, relation):
        budget = Budget(epsilon=epsilon, delta=1e-5)
        chosen = RenyiFilter.for_budget(budget, relation)
        best = gaussian.sigma(epsilon, 1e-5) * relation.sensitivity
        while RDP().epsilon([release(best)], 1e-5, relation) > epsilon:
            best *= 1.001
        assert chosen == RenyiFilter.for_budget(budget, relation)
        assert chosen.admits([release(best * 1.1)])

    def test_admits_only_what_rdp_at_any_orders_admits(self, epsilon, relation):
        """A filter at one order is never more generous than RDP with all of them."""
        chosen = RenyiFilter.for_budget(Budget(epsilon=epsilon, delta=1e-5), relation)
        orders = RDP(orders=(*RDP().orders, float(chosen.order)))
        for sigma in (0.3, 0.7, 1.5, 4.0, 20.0, 60.0):
            events = [release(sigma), PoissonSteps(sampling_rate=0.1, noise_multiplier=3, steps=9)]
            if chosen.admits(events):
                assert orders.epsilon(events, 1e-5, relation) <= epsilon

    def test_closed_form_is_that_of_the_accountant(self, epsilon, relation):
        chosen = RenyiFilter.for_budget(Budget(epsilon=epsilon, delta=1e-5), relation)
        accountant = RDP(orders=(float(chosen.order),))
        for sigma in (0.3, 0.7, 1.5, 4.0, 20.0, 60.0):
            events = [release(sigma), GaussianRelease(noise_multiplier=3.0, releases=7)]
            expected = accountant.epsilon(events, 1e-5, relation)
            assert chosen.epsilon(events) == pytest.approx(expected, rel=1e-9)

    def test_room_is_what_fits_and_no_more(self, epsilon, relation):
        chosen = RenyiFilter.for_budget(Budget(epsilon=epsilon, delta=1e-5), relation)
        spent = [release(2 * relation.sensitivity * gaussian.sigma(epsilon, 1e-5))]
        room = chosen.room_for(spent)
        fits = gaussian.sigma(room, 1e-5) * relation.sensitivity
        assert chosen.admits([*spent, release(fits * (1 + 1e-5))])
        assert not chosen.admits([*spent, release(fits * 0.99)])


def test_no_room_after_everything_is_spent():
    chosen = RenyiFilter.for_budget(Budget(epsilon=1, delta=1e-5), Relation.ADD_REMOVE)
    assert chosen.room_for([release(0.5)]) == 0.0
