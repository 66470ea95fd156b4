"""Rules that weigh by sums, at sites that add masked numbers: the plain run, up to the quantization of the updates."""

import json

import h5py
import numpy as np
import pytest
from made_plans import planned, train
from site_federation import TRAINING, chain_with_tests, engine_of, lines_of, plan, sites_of
from summed_sites import Added, model, quantized_mean

from fedcli.errors import FedcliError
from fedcli.sites.engine import SummedSites
from fedcli.sites.policy import Policy
from fedcli.sites.transport import secagg
from fedcli.sites.transport.relay import LOSS, MASKED, SUM, TOTAL, UPDATE

METHODS = [
    ("fedism-plus", {}),
    ("fedprox+qffl", {"q": 5.0}),
    ("term", {"t": 3.0}),
    ("fairfed", {"beta": 3.0}),
    ("fedsnr", {}),
]
SUMS = {"fairfed": 3}


@pytest.fixture
def data(tmp_path):
    return chain_with_tests(tmp_path)


def summed(data, folder, configuration, *, resume=False, policy=None, transport=Added):
    """A training over sites whose answers are added, and what the coordinator saw of them."""
    transport = transport(sites_of(data, folder / "sites", policy=policy))
    with engine_of(lambda federation: SummedSites(federation, transport)) as engine:
        out = folder / "run"
        run = train(data, configuration, work=folder, engine=engine, out=out, resume=resume)
    return run, transport.seen


def assert_models_agree(run, other, round):
    """Rounding in one round moves the steps of the next."""
    expected = model(other, round)
    for name, array in model(run, round).items():
        np.testing.assert_allclose(array, expected[name], atol=1e-4)


@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_the_model_is_that_of_the_plain_run_within_the_quantization(
    data, tmp_path, method, settings
):
    """Rounding to steps of 16 / 2^29 moves each of K updates, and each of K weights, by a step at most."""
    plans = planned(method, settings, TRAINING, 2)
    usual = train(data, plans, work=tmp_path, out=tmp_path / "usual")
    run, seen = summed(data, tmp_path / "far", plans)
    sums = SUMS.get(method, 1) + 1
    assert [list(arrays) for arrays in seen[:sums]] == [[TOTAL]] * (sums - 1) + [[UPDATE, LOSS]]
    step = 2 * secagg.RANGE / 2 ** secagg.bits(4)
    longest = np.abs(seen[sums - 1][UPDATE]).max()
    bound = 4 * step * (1 + longest)
    first = model(usual)
    for name, array in model(run).items():
        rounding = np.abs(array) * 2**-23
        assert (np.abs(array - first[name]) <= bound + rounding).all(), name
    assert_models_agree(run, usual, 2)


def test_nothing_of_one_client_is_recorded(data, tmp_path):
    run, seen = summed(data, tmp_path, plan("fedism-plus", 2))
    lines = lines_of(run)
    assert [line["weights"] for line in lines] == [[None] * 4] * 2
    assert [line["reports"] for line in lines] == [{}] * 2
    assert len({str(line["loss"]) for line in lines}) == 2
    assert all(len(set(line["loss"])) == 1 for line in lines)
    assert [arrays[TOTAL].shape for arrays in seen[::2]] == [(1,)] * 2


class Lost(Added):
    """Ends without a sum after so many."""

    sums = 5

    def __call__(self, messages, timeout):
        if len(self.seen) == self.sums:
            return [(client, "no sum") for client, _ in messages]
        return super().__call__(messages, timeout)


def test_the_past_weight_stays_at_the_site_and_a_resumed_run_has_it(data, tmp_path):
    """The moving average of FedISM+ is the client's, and a site that is started anew goes on with it."""
    expected, _ = summed(data, tmp_path / "whole", plan("fedism-plus", 3))
    with pytest.raises(FedcliError, match="no sum"):  # in the last round, between its two
        summed(data, tmp_path / "lost", plan("fedism-plus", 3), transport=Lost)
    run, seen = summed(data, tmp_path / "lost", plan("fedism-plus", 3), resume=True)
    assert len(seen) == 2
    assert_models_agree(run, expected, 3)
    memory = next((tmp_path / "lost" / "sites" / "south" / "memory").glob("*/00003.h5"))
    with h5py.File(memory) as file:
        assert 0 < file["saga_weight"][()] < 1


def trained_once(data, folder, policy=None):
    """A site that has trained and given its number, with the question that it answered."""
    site = sites_of(data, folder, policy=policy)["south"]
    questions = []

    def transport(messages, timeout):
        answers = []
        for client, (scalars, arrays) in messages:
            if client == "south":
                questions.append((scalars, arrays))
            sent = {**scalars, MASKED: 4} if SUM in scalars else scalars
            answer = sites[client].answer(sent, arrays)
            answers.append((client, answer))
        return answers

    sites = {**sites_of(data, folder / "more"), "south": site}
    with (
        engine_of(lambda federation: SummedSites(federation, transport)) as engine,
        pytest.raises(FedcliError),
    ):
        train(data, plan("qffl"), work=folder, engine=engine, out=folder / "run")
    return site, questions[-1]


def weighed(question, total=1.0, **more):
    scalars, _ = question
    asked = {key: scalars[key] for key in ("run", "round", "client", SUM)}
    return {**asked, "ask": "weigh", MASKED: 4, **more}, {TOTAL: np.array([total])}


def test_a_report_is_weighed_once_and_by_the_sum_that_was_asked_for(data, tmp_path):
    site, question = trained_once(data, tmp_path)
    answer, arrays = site.answer(*weighed(question, round=2))
    assert "a round that it has not trained" in answer["error"]
    scalars, _ = weighed(question)
    answer, _ = site.answer(scalars, {TOTAL: np.ones((2, 2))})
    assert "a sum of another shape" in answer["error"]
    answer, arrays = site.answer(*weighed(question))
    assert sorted(arrays) == ["loss", "update", "weight"]
    answer, arrays = site.answer(*weighed(question))
    assert "a round that it has not trained" in answer["error"]
    assert not arrays


def test_a_sum_that_makes_no_weight_is_refused(data, tmp_path):
    site, question = trained_once(data, tmp_path)
    answer, _ = site.answer(*weighed(question, total=0.0))
    assert answer["error"] == "its weight in the sum is below 0, too large or not finite"


def test_a_number_beyond_what_a_sum_carries_is_refused(data, tmp_path):
    plans = planned("term", {"t": 1000.0}, TRAINING, 1)
    with pytest.raises(FedcliError, match="number in the sum is below 0, too large or not finite"):
        summed(data, tmp_path, plans)


def test_a_policy_on_masks_holds_for_numbers_too(data, tmp_path):
    site, question = trained_once(data, tmp_path, Policy(secure_aggregation=True))
    answer, _ = site.answer(*weighed(question, **{MASKED: None}))
    assert "only masked models" in answer["error"]
    scalars, arrays = question
    answer, _ = site.answer(scalars, arrays)
    assert "only masked models" in answer["error"]


def test_columns_that_a_policy_keeps_back_are_in_no_sum(data, tmp_path):
    policy = Policy(columns=())
    with pytest.raises(FedcliError, match="does not allow the column 'loss_before'"):
        summed(data, tmp_path, plan("qffl"), policy=policy)


NUMBERS = [
    [0.0, 1.0, 3.5],
    [1e-30, 1e-30, 2e-30],
    [1e60, 1.0, 1e-60],
    [0.1, 0.2, 0.3],
]


@pytest.mark.parametrize("numbers", NUMBERS)
def test_the_sum_of_numbers_is_exact(numbers):
    """Of any size, as a weight is the number over its sum."""
    added = []
    for number in numbers:
        digits = secagg.digits(np.array([number, 1.0]), 3)
        assert np.abs(digits).max() <= secagg.RANGE
        added.append(([digits], 20))
    result = secagg.total_of(quantized_mean(added, 20)[0], 3)
    assert result.tolist() == [pytest.approx(sum(numbers), rel=1e-15), 3.0]


def test_digits_of_a_sum_do_not_show_where_they_carry():
    """255 + 1 carries, 128 + 128 too; without random carries the digits would be 256 and 0, and 256 of others."""
    of_numbers = set()
    for _ in range(20):
        digits = [secagg.digits(np.array([number]), 2) for number in (255.0, 1.0)]
        of_numbers.add(json.dumps(np.add(*digits).tolist()))
    assert len(of_numbers) == 20
