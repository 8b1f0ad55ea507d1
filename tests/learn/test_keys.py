"""Randomness outside the hedge: repeatable where it is public, unknown where rows get views."""

import numpy as np
import pytest
import torch

from privet.learn.keys import Keys, Purpose


def draws(keys, purpose=Purpose.VIEWS, step=0):
    return torch.randint(2**31, (8,), generator=keys.generator(purpose, step))


@pytest.mark.parametrize("purpose", Purpose)
def test_the_same_key_purpose_and_step_give_the_same_draws(purpose):
    one, other = Keys(3, view_seed=4), Keys(3, view_seed=4)
    assert torch.equal(draws(one, purpose, 7), draws(other, purpose, 7))


def test_purposes_and_steps_have_draws_of_their_own():
    keys = Keys(3, view_seed=3)
    every = [draws(keys, purpose, step) for purpose in Purpose for step in range(3)]
    assert len(torch.stack(every).unique(dim=0)) == len(every)


def test_views_are_drawn_from_a_key_that_no_seed_gives_away():
    assert not torch.equal(draws(Keys(3)), draws(Keys(3)))
    assert torch.equal(draws(Keys(3), Purpose.WARM_UP), draws(Keys(3), Purpose.WARM_UP))
    assert repr(Keys(3)) == "Keys(seed=3)"


def test_the_generator_starts_from_all_of_its_state():
    """`torch.Generator.manual_seed` reads 32 bits: so few that views could be found by trying."""
    words = np.random.SeedSequence([4, Purpose.VIEWS, 0]).generate_state(624)
    twister = np.random.MT19937()
    twister.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": 624}}
    possible = twister.random_raw(32) % 2**31
    assert np.isin(draws(Keys(3, view_seed=4)), possible).all()
