"""Sites whose models are only seen as a mean; Flower's own protocol is played by tests/consortium."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from made_plans import train
from site_federation import chain_with_tests, engine_of, plan, sites_of
from summed_sites import Added, model, quantized_mean

from fedcli.errors import FedcliError, UsageError
from fedcli.methods import METHODS, resolve
from fedcli.sites import engines
from fedcli.sites.engine import Sites, SummedSites
from fedcli.sites.policy import Policy, Privacy, Refusal
from fedcli.sites.transport import secagg
from fedcli.sites.transport.relay import SUM, Question

QUESTION = {"run": "r", "round": 1, SUM: {"clients": ["north", "south"], "largest": 20}}


def trained(data, folder, configuration, *, policy=None, kind=SummedSites):
    more = {"policy": policy} if policy else {}
    sites = sites_of(data, folder / "sites", **more)
    with engine_of(lambda federation: kind(federation, Added(sites))) as engine:
        return train(data, configuration, work=folder, engine=engine, out=folder / "run")


@pytest.fixture
def data(tmp_path):
    return chain_with_tests(tmp_path)


@pytest.mark.parametrize("method", ["fedavg", "fedprox", "fedadam"])
def test_the_model_is_that_of_all_sites_seen(data, tmp_path, method):
    usual = train(data, plan(method, 2), work=tmp_path, out=tmp_path / "usual")
    far = trained(data, tmp_path / "far", plan(method, 2))
    summed_up = model(far)
    for name, array in model(usual).items():
        np.testing.assert_allclose(summed_up[name], array, atol=1e-5)


def test_policies_that_ask_for_it_allow_nothing_else(data, tmp_path):
    policy = Policy(secure_aggregation=True)
    assert trained(data, tmp_path / "summed", plan(), policy=policy).exists()
    with pytest.raises(FedcliError, match="its policy allows only masked models"):
        trained(data, tmp_path / "seen", plan(), policy=policy, kind=Sites)
    with pytest.raises(Refusal):
        policy.check_masked(None)
    with pytest.raises(Refusal, match="sums over at least 3 sites, not 2"):
        Policy(smallest_sum=3).check_masked(2)
    with pytest.raises(Refusal):
        Policy().check_masked(True)


def test_masks_are_of_the_whole_key():
    pytest.importorskip("cryptography")
    shapes = [(), (3, 2), (4000,)]
    masks = secagg.masks(b"k" * 32, 2**32, shapes)
    again = secagg.masks(b"k" * 32, 2**32, shapes)
    assert [array.shape for array in masks] == shapes
    assert masks[0].dtype == np.int64
    for mask, other in zip(masks, again, strict=True):
        assert (mask == other).all()
    assert 0 <= masks[2].min()
    assert masks[2].max() < 2**32
    result = abs(masks[2].mean() / 2**31 - 1)
    assert result < 0.1
    # these keys are one under flwr's generator, whose seed is the exclusive or of a key's words
    (one_mask,) = secagg.masks(b"aaaabbbb", 2**32, [(8,)])
    (other_mask,) = secagg.masks(b"bbbbaaaa", 2**32, [(8,)])
    assert (one_mask != other_mask).any()


def test_noise_at_the_sites_goes_with_it_and_leaves_no_loss(data, tmp_path):
    policy = Policy(privacy=Privacy(noise=1.0, epsilon=1000.0))
    run = trained(data, tmp_path, plan(), policy=policy)
    line = json.loads((run.parent / "rounds.jsonl").read_text().splitlines()[0])
    assert set(line["loss"]) == {None}
    for array in model(run).values():
        assert np.isfinite(array).all()


def test_methods_whose_server_takes_more_are_refused():
    fitting = set()
    refusals = []
    for name in METHODS:
        try:
            engines.check(resolve(name), 0)
        except UsageError as error:
            refusals.append(f"{error.sentence} {error.hint}")
        else:
            fitting.add(name)
    for refusal in refusals:
        assert "secure aggregation" in refusal
    assert {"fedavg", "fedprox", "moon", "fedavgm", "fedadam"} <= fitting
    assert {"fedism-plus", "qffl", "term", "fairfed", "fedsnr"} <= fitting
    assert not fitting & {
        "fedheal",
        "scaffold",
        "feddyn",
        "afl",
        "gifair-clients",
        "fedexp",
        "creff",
    }
    with pytest.raises(UsageError, match="server of qffl needs more"):
        engines.check(resolve("qffl", {"rule": "original"}), 0)
    with pytest.raises(UsageError, match="server of fedadam needs more"):
        engines.check(resolve("fedadam", {"weights": "uniform"}), 0)
    with pytest.raises(UsageError, match="all clients of a round"):
        engines.check(resolve("fedavg"), 2)


def answer(**more):
    arrays = {"theta": np.full(3, 1.5, np.float32), "loss": np.float32(32)} | more
    scalars = {"n": arrays.pop("n", 10)}
    return scalars, {name: np.asarray(a) for name, a in arrays.items() if a is not None}


def test_what_a_site_adds_is_its_update_and_its_loss():
    question = QUESTION, {"theta": np.ones(3, np.float32)}
    update, loss = secagg.update_of(question, answer(), 20)
    assert update.tolist() == [0.5] * 3
    assert update.dtype == np.float64
    assert loss.tolist() == [0.5, 1]
    result = secagg.update_of(question, answer(loss=np.float32("nan")), 20)[1].tolist()
    assert result == [0, 0]
    mean = secagg.mean_of([update, np.array([0.25, 0.5])])  # one of two sites of a size says a loss
    assert mean["loss"] == 32
    assert np.isnan(secagg.mean_of([update, np.zeros(2)])["loss"])


NOT_SUMMED = [
    ({"n": 21}, "more training images"),
    ({"theta": np.array([1, 1, 10], np.float32)}, "beyond 8"),
    ({"theta": np.array([1, 1, np.nan], np.float32)}, "beyond 8"),
    ({"columns/control": np.zeros(3)}, "'columns/control' in addition to its model"),
]


@pytest.mark.parametrize(("odd", "sentence"), NOT_SUMMED)
def test_what_the_sum_does_not_carry_is_refused_at_the_site(odd, sentence):
    question = QUESTION, {"theta": np.ones(3, np.float32)}
    with pytest.raises(ValueError, match=sentence):
        secagg.update_of(question, answer(**odd), 20)
    with pytest.raises(ValueError, match="no disk"):
        secagg.parts_of(question, ({"error": "no disk"}, {}), 2)


@pytest.mark.parametrize(("clients", "expected"), [(2, 30), (4, 29), (5, 29), (8, 28), (20, 27)])
def test_the_sum_of_all_clients_is_below_32_bits(clients, expected):
    """Four clients of a size with 30 bits would have weights in sum 2^32, which is 0."""
    assert secagg.bits(clients) == expected
    assert clients * 2**expected < 2**32
    parts = [np.zeros(1)]
    assert quantized_mean([(parts, 20)] * clients, 20)[0] == pytest.approx(0, abs=1e-6)


def test_questions_of_a_sum_that_was_given_up_are_dropped():
    north, south = (Question(client, (QUESTION, {})) for client in ("north", "south"))
    again = Question("north", ({**QUESTION, "round": 2}, {}))
    assert secagg.gathered({"north": north}, south) == {"north": north, "south": south}
    assert secagg.gathered({"south": south}, again) == {"north": again}


def test_a_sum_over_one_client_is_refused():
    federation = SimpleNamespace(method=resolve("fedavg"), cohort_size=1, min_clients=0)
    with (
        pytest.raises(UsageError, match="over one client hides nothing"),
        engines.open_summed(federation, "x", 0.0),
    ):
        pass
