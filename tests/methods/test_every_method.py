"""Properties of every registered method."""

from functools import cache

import pytest
import torch
from method_pairs import ADDONS, PAIRS, covering
from wire_messages import read_only

from fedcli import options
from fedcli.bench import checks
from fedcli.bench.checks import Subject
from fedcli.bench.toy import ROSTER
from fedcli.errors import UsageError
from fedcli.federation import checks as returned
from fedcli.federation import state as states
from fedcli.federation.client import ClientReport, ClientTask
from fedcli.federation.engines.wire import pack, unpack
from fedcli.methods import METHODS, resolve
from fedcli.methods.mixins import ContinuesRun

each = pytest.mark.parametrize("spec", METHODS)


# The halves of a pair share no state. So all that must hold is checked of each method; that pairs train, resume and
# differ from FedAvg, of a covering set; that they are built and rebuilt from their record, of every pair.
most = pytest.mark.parametrize("spec", [*METHODS, *covering(PAIRS)])


SHORTER = {"creff": {"features": 4, "steps": 5, "epochs": 5}}  # of the server's own training


@cache
def subject(spec) -> Subject:
    """A method with its rounds, which are played once."""
    settings = {
        key: value for name in spec.split("+") for key, value in SHORTER.get(name, {}).items()
    }
    return Subject(
        spec,
        settings,
    )


@most
def test_finite_after_all_rounds_and_unlike_fedavg(spec):
    checks.keeps_the_contract(subject(spec))
    checks.is_finite(subject(spec))
    checks.differs_from_fedavg(subject(spec))


@most
def test_resumes_to_the_same_bits_from_disk(spec):
    checks.resumes(subject(spec))


@each
def test_a_round_can_be_played_again_from_the_old_state(spec):
    checks.replays(subject(spec))


@each
def test_survives_one_image_and_a_class_nobody_has(spec):
    checks.survives_one_image(subject(spec))


@each
def test_partial_participation_works_or_is_refused_by_name(spec):
    checks.handles_partial_participation(subject(spec))


@pytest.mark.parametrize(
    "rule", [rule for rule in ADDONS if METHODS[rule].aggregator.full_participation]
)
def test_partial_participation_is_refused_for_every_pair_with_a_rule_that_needs_all_clients(rule):
    for pair in (pair for pair in PAIRS if pair.endswith(f"+{rule}")):
        checks.handles_partial_participation(Subject(pair))


@each
def test_adam_momentum_and_several_epochs_work(spec):
    checks.trains_as_asked(subject(spec))


@each
def test_reported_columns_have_the_same_shapes_every_round(spec):
    checks.reports_the_same_columns(subject(spec))


@each
def test_clients_may_run_in_any_order_behind_messages(spec):
    """Their tasks and reports are packed as for another machine, where clients keep their memory themselves."""
    played = subject(spec)
    memories = {}
    federation = played.federation()

    def messages_backwards(tasks):
        reports = []
        for task in reversed(tasks):
            memory = memories.get(task.client, {})
            report = federation.clients.run_one(unpack(ClientTask, read_only(pack(task)), memory))
            memories[task.client] = memory if task.part == "measure" else report.memory
            reports.append(unpack(ClientReport, read_only(pack(report))))
        return reports[::-1]

    state = federation.first()
    while state.round < 2:
        state = federation.play(state, ROSTER, messages_backwards).state
    expected = played.rounds[1].state
    assert torch.equal(state.theta, expected.theta)
    assert not state.clients
    for part in ("shared", "server"):
        other = getattr(expected, part)
        assert states.equal(getattr(state, part), other), part
    assert all(
        states.equal(memories[client], memory) for client, memory in expected.clients.items()
    )


@each
def test_weights_sum_to_one_far_within_the_tolerance(spec):
    if isinstance(METHODS[spec].aggregator, ContinuesRun):
        pytest.skip("it goes on from a finished run")
    sums = [float(each_round.weights.sum()) for each_round in subject(spec).rounds]
    expected = pytest.approx([1.0] * len(sums), abs=returned.ROUNDING / 10)
    assert sums == expected


@pytest.mark.parametrize("base", METHODS)
def test_recorded_settings_build_the_same_method(base):
    """A run is resumed from its name and settings: halves that differ in an option of one name stay distinct."""
    for spec in (base, *(pair for pair in PAIRS if pair.startswith(f"{base}+"))):
        checks.is_rebuilt_from_its_record(Subject(spec))


@pytest.mark.parametrize("name", METHODS)
def test_every_option_has_a_meaning_and_refuses_what_is_no_value(name):
    checks.explains_its_options(subject(name))
    for half in (METHODS[name].local, METHODS[name].aggregator):
        for option in options.describe(half).values():
            if option.kind is str and not option.choices:
                continue  # any text may be the name of a client
            with pytest.raises(UsageError, match=option.name):
                resolve(name, {option.name: "no such value"})


@pytest.mark.parametrize("name", METHODS)
def test_the_module_names_its_source(name):
    text = METHODS[name].documentation
    assert "Source:" in text
    assert "arXiv" in text or "doi" in text.lower()


@pytest.mark.parametrize("name", METHODS)
def test_the_module_says_where_it_differs_from_paper_or_code(name):
    assert "differ" in METHODS[name].documentation
