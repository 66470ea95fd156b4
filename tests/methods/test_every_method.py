"""What must hold for every registered name."""

from functools import cache

import pytest

from fedcli import options
from fedcli.bench import checks
from fedcli.bench.checks import Failed, Subject
from fedcli.errors import UsageError
from fedcli.methods import METHODS, resolve
from fedcli.methods.mixins import LinearHeadOnly

BASES = [name for name, m in METHODS.items() if isinstance(m.aggregator, type(METHODS["fedavg"].aggregator))]
ADDONS = [name for name, m in METHODS.items() if type(m.local) is type(METHODS["fedavg"].local) and name not in BASES]
PAIRS = [
    f"{base}+{addon}"
    for base in BASES
    for addon in ADDONS
    if METHODS[base].local.head == "linear" or not isinstance(METHODS[addon].aggregator, LinearHeadOnly)
]
every = pytest.mark.parametrize("spec", [*METHODS, *PAIRS])
each = pytest.mark.parametrize("spec", METHODS)
# The halves of a pair share no state and see the same hooks in every pair. So all that must hold is checked of each
# method; that pairs train, resume and differ from FedAvg, of each base under one rule and each rule over one base. Of
# the other pairs every base and every rule trains once, and every pair is built and rebuilt from its record.
MOST = [*METHODS, *(pair for pair in PAIRS if pair.endswith("+fedheal") or pair.startswith("scaffold+"))]
most = pytest.mark.parametrize("spec", MOST)
OTHERS = [pair for pair in PAIRS if pair not in MOST]


def covering(pairs: list[str]) -> list[str]:
    """Some of these pairs, in which every base and every rule of theirs occurs."""
    chosen: list[str] = []
    left = {half for pair in pairs for half in pair.split("+")}
    for base, addon in sorted((pair.split("+") for pair in pairs), key=diagonal):
        if left & {base, addon}:
            chosen.append(f"{base}+{addon}")
            left -= {base, addon}
    return chosen


def diagonal(pair: list[str]) -> int:
    """Sorts pairs so that neighbours have other bases and other rules."""
    return (ADDONS.index(pair[1]) - BASES.index(pair[0])) % len(ADDONS)


SHORTER = {"creff": {"features": 4, "steps": 5, "epochs": 5}}  # of the server's own training


@cache
def subject(spec) -> Subject:
    """A method with its rounds, which are played once."""
    return Subject(spec, {key: value for name in spec.split("+") for key, value in SHORTER.get(name, {}).items()})


def test_a_method_comes_to_another_model_than_fedavg_without_which_a_check_means_nothing():
    with pytest.raises(Failed, match="its model is FedAvg's to the last bit"):
        checks.differs_from_fedavg(subject("fedavg"))


@most
def test_finite_after_all_rounds_and_unlike_fedavg(spec):
    checks.keeps_the_contract(subject(spec))
    checks.is_finite(subject(spec))
    if spec != "fedavg":
        checks.differs_from_fedavg(subject(spec))


@pytest.mark.parametrize("spec", covering(OTHERS))
def test_every_half_trains_in_another_pair(spec):
    assert subject(spec).train(until=1).theta.isfinite().all()


@most
def test_resumes_to_the_same_bits_from_disk(spec):
    checks.resumes(subject(spec))


@each
def test_a_round_can_be_played_again_from_the_old_state(spec):
    checks.replays(subject(spec))


@each
def test_survives_one_image_and_a_class_nobody_has(spec):
    checks.survives_one_image(subject(spec))


@every
def test_partial_participation_is_refused_by_name_where_it_cannot_work(spec):
    if resolve(spec).aggregator.full_participation or spec in METHODS:
        checks.handles_partial_participation(subject(spec))


@each
def test_adam_momentum_and_several_epochs_work(spec):
    checks.trains_as_asked(subject(spec))


@each
def test_reported_columns_have_the_same_shapes_every_round(spec):
    checks.reports_the_same_columns(subject(spec))


@each
def test_clients_may_run_in_any_order(spec):
    checks.takes_clients_in_any_order(subject(spec))


@every
def test_recorded_settings_build_the_same_method(spec):
    """A run is resumed from its name and settings: halves that differ in an option of one name stay distinct."""
    checks.is_rebuilt_from_its_record(subject(spec))


@pytest.mark.parametrize("name", METHODS)
def test_every_option_has_a_meaning_and_refuses_what_is_no_value(name):
    checks.explains_its_options(subject(name))
    for half in (METHODS[name].local, METHODS[name].aggregator):
        for option in options.describe(half):
            with pytest.raises(UsageError, match=option.name):
                resolve(name, {option.name: "no such value"})


@pytest.mark.parametrize("name", METHODS)
def test_the_module_names_its_source(name):
    text = METHODS[name].documentation
    assert "Source:" in text and ("arXiv" in text or "doi" in text.lower())
