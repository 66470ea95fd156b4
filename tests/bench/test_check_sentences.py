"""Sentences of the checks that a method does not hold."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from own_files import RULE, written

from fedcli.bench import checks
from fedcli.bench.checks import CHECKS, CheckFailed, Subject
from fedcli.errors import FedcliError, UsageError
from fedcli.methods.registry import METHODS

TWO_MODELS = (
    "        return theta.lerp(average(updates.theta, updates.base), self.share), updates.base\n"
)
NOT_FINITE = "        return theta * float('nan'), updates.base\n"


def subject_of(**parts):
    """A stand-in with the parts that a check reads."""
    return SimpleNamespace(**parts)


def played(theta=None, **columns):
    state = SimpleNamespace(theta=theta, clients={}, server={}, shared={}, round=1)
    return SimpleNamespace(state=state, columns=columns)


def test_every_check_has_a_sentence_that_fits_in_a_table():
    sentences = [check.__doc__ for check in CHECKS]
    assert len(set(sentences)) == len(CHECKS)
    for sentence in sentences:
        assert "\n" not in sentence
        assert len(sentence) < 100


def test_a_model_that_is_not_finite_is_named(tmp_path):
    assert RULE.count(TWO_MODELS) == 1
    path = written(tmp_path, RULE.replace(TWO_MODELS, NOT_FINITE))
    reason = checks.outcome(checks.is_finite, Subject(str(path)))
    assert reason == "the global model is not finite after round 1"


def test_a_kept_model_of_a_client_that_is_not_finite_is_named():
    last = played(theta=torch.zeros(2))
    last.state.clients = {"north": {"model": torch.tensor([float("inf")])}}
    fedavg = METHODS["fedavg"]
    with pytest.raises(CheckFailed, match=r"^the model holds NaN or infinity after three rounds$"):
        checks.is_finite(subject_of(method=fedavg, rounds=[last]))


def test_columns_that_change_are_named_with_their_shapes():
    before = played(loss=torch.zeros(4), norm=torch.zeros(4, 2))
    after = played(loss=torch.zeros(4))
    with pytest.raises(CheckFailed) as failure:
        checks.reports_the_same_columns(subject_of(rounds=[before, after]))
    assert str(failure.value) == ("round 1 had loss [4], norm [4, 2], a later one loss [4]")


def test_a_round_without_columns_has_none():
    with pytest.raises(CheckFailed, match=r"^round 1 had none, a later one loss \[4\]$"):
        checks.reports_the_same_columns(subject_of(rounds=[played(), played(loss=torch.zeros(4))]))


def test_fewer_rounds_than_three_are_a_fault():
    with pytest.raises(CheckFailed, match=r"^not every round was trained$"):
        checks.keeps_the_contract(subject_of(rounds=[played()]))


@pytest.mark.parametrize("part", ["theta", "shared", "server", "clients"])
def test_the_part_of_the_state_that_differs_is_named(part):
    state = SimpleNamespace(
        theta=torch.zeros(2),
        shared={"a": torch.zeros(1)},
        server={"b": torch.zeros(1)},
        clients={"north": {"c": torch.zeros(1)}},
    )
    checks._compare(state, state, "what to do")
    other = torch.ones(2) if part == "theta" else {"z": torch.ones(1)}
    changed = SimpleNamespace(**vars(state) | {part: other})
    with pytest.raises(CheckFailed) as failure:
        checks._compare(changed, state, "what to do")
    assert str(failure.value) == f"{part} differs: what to do"


@pytest.mark.parametrize("method", ["fedavg", "fltrust"])
def test_half_of_the_clients_are_trained_or_refused_by_name(method):
    assert checks.outcome(checks.handles_partial_participation, Subject(method)) == ""


def refuse(sentence):
    def check(plan):
        raise UsageError(sentence, "a hint")

    return check


@pytest.mark.parametrize(
    ("check_plan", "reason"),
    [
        (
            lambda plan: None,
            "it needs every client, and is trained with half of them",
        ),
        (refuse("--rounds must be at least 1"), "--rounds must be at least 1"),
        (refuse("FLTrust needs every client in every round"), ""),
    ],
)
def test_a_method_that_needs_every_client_is_refused_for_that_alone(
    check_plan, reason, monkeypatch
):
    monkeypatch.setattr(checks.rules, "check", check_plan)
    assert checks.outcome(checks.handles_partial_participation, Subject("fltrust")) == reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (CheckFailed("theta differs"), "theta differs"),
        (FedcliError("no such file", "name another"), "no such file"),
    ],
)
def test_the_reason_is_the_sentence_of_the_error(error, reason):
    def check(subject):
        raise error

    assert checks.outcome(check, Subject("fedavg")) == reason


def divide(subject):
    raise ZeroDivisionError("by zero")


@pytest.fixture
def no_file_to_blame(monkeypatch):
    monkeypatch.setattr(checks.extensions, "fault", lambda error: None)


@pytest.mark.usefixtures("no_file_to_blame")
def test_an_error_of_fedcli_itself_is_no_fault_of_the_method():
    with pytest.raises(ZeroDivisionError):
        checks.outcome(divide, Subject("fedavg"))


@pytest.mark.usefixtures("no_file_to_blame")
def test_an_error_in_code_of_ones_own_that_no_line_explains_is_its_kind_and_text():
    subject = subject_of(method=SimpleNamespace(code="a digest"))
    assert checks.outcome(divide, subject) == "ZeroDivisionError: by zero"


def test_an_error_in_a_file_of_ones_own_names_the_file(tmp_path):
    path = written(tmp_path, RULE)
    subject = Subject(str(path))
    assert subject.method.code
    assert checks.outcome(divide, subject) == "ZeroDivisionError: by zero, while mine.py was used"


def test_a_method_that_is_not_rebuilt_from_its_record_is_named(monkeypatch):
    method = METHODS["fedprox"]
    monkeypatch.setattr(checks, "resolve", lambda spec, settings: replace(method, label="other"))
    reason = checks.outcome(checks.is_rebuilt_from_its_record, subject_of(spec="", method=method))
    assert reason == "an option's value is another after it was recorded and read"


@pytest.mark.parametrize(
    ("method", "pairs"),
    [
        ("fedprox", ["fedprox+fedheal", "moon+fedprox"]),
        ("fedprox+fedheal", []),
    ],
)
def test_a_method_is_paired_where_it_can_be_and_a_pair_is_not(method, pairs):
    assert set(checks.pairs_of(method)) <= set(pairs)
    assert bool(checks.pairs_of(method)) == bool(pairs)
