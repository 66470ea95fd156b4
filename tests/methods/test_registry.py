"""Names, pairs and options become methods."""

import pytest

from fedcli.errors import UsageError
from fedcli.methods import METHODS, resolve
from fedcli.methods.registry import register


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(UsageError, match="fedhael") as error:
        resolve("fedhael")
    assert "fedheal" in error.value.hint
    with pytest.raises(UsageError, match="no option 'taus'") as error:
        resolve("fedheal", {"taus": 1})
    assert "'tau'" in error.value.hint


@pytest.mark.parametrize(
    "spec", ["fedism-plus+fedheal", "fedavg+salt", "fedavg+fedism-plus", "salt+fedavg", "fedavg+"]
)
def test_pairs_that_make_no_sense_are_refused_with_a_reason(spec):
    with pytest.raises(UsageError) as error:
        resolve(spec)
    assert error.value.hint


@pytest.mark.parametrize(
    ("key", "value"),
    [("tau", "1"), ("tau", "-0.1"), ("beta", "1.5"), ("beta", "nan"), ("tau", "inf")],
)
def test_values_out_of_range_are_refused(key, value):
    with pytest.raises(UsageError, match=key):
        resolve("fedheal", {key: value})


def test_a_pair_has_the_client_of_its_base_and_the_rule_of_its_add_on():
    pair = resolve("fedprox+afl")
    expected = (METHODS["fedprox"].local, METHODS["afl"].aggregator)
    assert (pair.local, pair.aggregator) == expected
    assert pair.label == "FedProx + AFL"


def test_an_option_of_both_halves_of_a_pair_needs_the_half_named():
    with pytest.raises(UsageError, match="both halves of salt\\+fedheal have an option 'tau'"):
        resolve("salt+fedheal", {"tau": 0.2})
    pair = resolve("salt+fedheal", {"server.tau": 0.2})
    result = (pair.settings["local.tau"], pair.settings["server.tau"])
    assert result == (0.5, 0.2)


def test_one_name_cannot_be_registered_twice():
    fedavg = METHODS["fedavg"]
    with pytest.raises(ValueError, match="'fedavg' is registered twice"):
        register("fedavg", fedavg.local, fedavg.aggregator, label="again", about="again")
