"""Public data with classes of its own."""

from collections import OrderedDict

import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.public import PublicRows, final_linear, warm_up_body
from tests.public.digits import QUICK, digits, network, same, seed, state


def parity():
    """Odd or even: another label set on the same images."""
    public = digits()
    return PublicRows(public.inputs, public.targets % 2)


def named():
    body, _ = network()
    return nn.Sequential(OrderedDict(body=body, top=nn.Sequential(nn.Linear(64, 10, bias=False))))


@pytest.mark.parametrize(("make", "name"), [(network, "1"), (named, "top.0")])
def test_the_body_learns_and_the_head_comes_back(make, name):
    model = make()
    found, head = final_linear(model)
    assert found == name
    before, weights, order = state(model), state(head), [n for n, _ in model.named_modules()]
    history = warm_up_body(model, name, 2, parity(), QUICK, generator=seed())
    assert history[-1].accuracy > 0.85
    assert model.get_submodule(name) is head
    assert same(state(head), weights)
    assert [n for n, _ in model.named_modules()] == order
    trained = [n for n, value in state(model).items() if not torch.equal(value, before[n])]
    assert trained == [n for n in before if not n.startswith(name + ".")]


def test_the_classes_are_those_of_the_public_data():
    """More public classes than the head has outputs: only a head of its own can hold them."""
    with pytest.raises(ConfigError, match="warm_up_body"):
        warm_up_body(network(), "1", 9, digits(), QUICK, generator=seed())
    history = warm_up_body(network(classes=3), "1", 10, digits(), QUICK, generator=seed())
    assert history[-1].accuracy > 0.7


def test_the_generator_decides_and_the_global_state_stays():
    public = parity().select(torch.arange(200))
    before = torch.random.get_rng_state()

    def trained(number):
        model = network()
        return warm_up_body(model, "1", 2, public, QUICK, generator=seed(number)), state(model)

    first = trained(1)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(3)
    again, other = trained(1), trained(2)
    assert first[0] == again[0]
    assert same(first[1], again[1])
    assert not same(first[1], other[1])


def test_the_head_comes_back_after_a_failure():
    model = network()
    head = model[1]

    def stop(epoch, record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warm_up_body(model, "1", 2, parity(), QUICK, generator=seed(), on_epoch=stop)
    assert model[1] is head


@pytest.mark.parametrize("name", ["", "0", "2", "1.weight"])
def test_what_is_not_a_head_is_refused(name):
    with pytest.raises(ConfigError, match=f"head '{name}' is"):
        warm_up_body(network(), name, 2, parity(), QUICK, generator=seed())


def test_a_bare_linear_layer_has_no_body():
    with pytest.raises(ConfigError, match="inside the model"):
        warm_up_body(nn.Linear(64, 10), "", 2, parity(), QUICK, generator=seed())


def test_other_arguments_out_of_range_are_refused():
    with pytest.raises(ConfigError, match="num_public_classes is 0"):
        warm_up_body(network(), "1", 0, parity(), QUICK, generator=seed())
    with pytest.raises(ConfigError, match=r"Sequential has no nn\.Linear"):
        final_linear(nn.Sequential(nn.Flatten()))
