"""Services of the engine that few methods use."""

import inspect

import pytest
import torch

from fedcli.methods import METHODS, mixins, resolve

MIXINS = [
    kind
    for _, kind in inspect.getmembers(mixins, inspect.isclass)
    if kind.__module__ == mixins.__name__ and kind is not mixins.ClientPart
]


@pytest.mark.parametrize("mixin", MIXINS)
def test_every_mixin_has_a_method_that_uses_it(mixin):
    assert any(
        isinstance(half, mixin) for m in METHODS.values() for half in (m.local, m.aggregator)
    )


def test_most_methods_show_test_images_in_one_way_without_a_name():
    result = mixins.views_of(resolve("fedavg").local)
    assert result == ("",)
    result = mixins.views_of(resolve("fairlora").local)
    assert result == ("group", "uniform", "prior")


def test_the_model_that_travels_is_scored_unless_the_rule_says_otherwise():
    theta = torch.zeros(3)
    rule = resolve("fedavg").aggregator
    assert mixins.scored_model(rule, theta, {}) is theta
    creff_head = torch.tensor([[5.0]])
    creff_index = torch.tensor([[1]])
    memory = {"creff_head": creff_head, "creff_index": creff_index}
    rule = resolve("creff").aggregator
    result = mixins.scored_model(rule, theta, memory).tolist()
    assert result == [
        0.0,
        5.0,
        0.0,
    ]


def test_afl_trains_a_subset_only_where_its_rule_is_the_released_one():
    assert not resolve("afl").aggregator.trains_subset
    assert resolve("afl", {"rule": "released"}).aggregator.trains_subset
