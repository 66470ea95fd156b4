import pytest
import torch
from conftest import client_updates, flat_layout, play
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve
from fedcli.runs.assembly import unsettled

UPDATES = [
    rows("0.4 -0.8; 0.0 0.4"),
    rows("-0.2 0.1; 0.2 0.3"),
    rows("0.1 0.1; 0.3 -0.5"),
]  # of two clients in 3 rounds
N = [3, 1]


def rounds(spec, settings=None, start=(1.0, 2.0)):
    """The model after each of three rounds, in which the clients end at theta + their update."""
    rule = resolve(spec, settings).aggregator
    memory = {}
    theta = torch.tensor(start)
    models = []
    for t, moved in enumerate(UPDATES, 1):
        updates = client_updates(theta + torch.tensor(moved), n=N, t=t)
        theta, weights = rule.aggregate(theta, updates, memory)
        models.append(theta)
    return models, weights


def means(p=(0.75, 0.25)):
    return [torch.tensor(p) @ torch.tensor(moved) for moved in UPDATES]


def test_fedavgm_is_a_momentum_of_mean_updates():
    """m = D1, 0.5 D1 + D2, 0.25 D1 + 0.5 D2 + D3, each times lr 0.1."""
    d = means()
    start = torch.tensor([1.0, 2.0])
    after_1 = start + 0.1 * d[0]
    after_2 = after_1 + 0.1 * (0.5 * d[0] + d[1])
    after_3 = after_2 + 0.1 * (0.25 * d[0] + 0.5 * d[1] + d[2])
    for model, expected in zip(
        rounds("fedavgm", {"beta": 0.5, "lr": 0.1})[0], (after_1, after_2, after_3), strict=True
    ):
        assert_close(model, expected)


@pytest.mark.parametrize("spec", ["fedadam", "fedyogi", "fedadagrad"])
def test_algorithm_2_number_by_number(spec):
    """Each coordinate by itself, in plain Python."""
    settings = {"lr": 0.1, "tau": 0.05, "beta1": 0.8} | (
        {} if spec == "fedadagrad" else {"beta2": 0.7}
    )
    models, weights = rounds(spec, settings)
    assert weights.tolist() == [0.75, 0.25]
    for i, x in enumerate([1.0, 2.0]):
        m = 0.0
        v = 0.05**2
        for model, mean in zip(models, means(), strict=True):
            d = mean[i].item()
            m = 0.8 * m + 0.2 * d
            if spec == "fedadagrad":
                v = v + d**2
            elif spec == "fedadam":
                v = 0.7 * v + 0.3 * d**2
            else:
                v = v - 0.3 * d**2 * ((v > d**2) - (v < d**2))
            x = x + 0.1 * m / (v**0.5 + 0.05)
            assert model[i].item() == pytest.approx(x, rel=1e-5)


def test_without_momentum_and_with_step_1_fedavgm_is_fedavg():
    result = play("fedavgm", {"beta": 0.0}).theta
    assert_close(result, play("fedavg").theta, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("spec", ["fedavgm", "fedadam", "fedyogi", "fedadagrad"])
def test_clients_can_count_all_the_same(spec):
    models, weights = rounds(spec, {"weights": "uniform"})
    assert weights.tolist() == [0.5, 0.5]
    theta = torch.tensor([1.0, 2.0]) + torch.tensor(UPDATES[0])
    table = client_updates(theta, n=[1, 1])
    expected = resolve(spec).aggregator.aggregate(torch.tensor([1.0, 2.0]), table, {})[0]
    assert_close(models[0], expected)


@pytest.mark.parametrize("spec", ["fedavgm", "fedadam", "fedyogi", "fedadagrad"])
def test_statistics_are_averaged_and_take_no_step(spec):
    layout = flat_layout(3)
    layout.trainable = 2
    table = client_updates(rows("1.0 0.0 4.0; 0.0 1.0 8.0"), layout=layout, n=N)
    memory = {}
    theta, _ = resolve(spec).aggregator.aggregate(torch.zeros(3), table, memory)
    assert theta[2].item() == 5.0
    for tensor in memory.values():
        assert tensor.shape == (2,)


@pytest.mark.parametrize("spec", ["fedadam", "fedyogi", "fedadagrad"])
def test_without_any_update_the_model_stays_where_it_is(spec):
    updates = client_updates(torch.ones(2, 2))
    theta, _ = resolve(spec).aggregator.aggregate(torch.ones(2), updates, {})
    assert theta.tolist() == [1.0, 1.0]


def test_they_are_add_ons_of_every_base_that_averages():
    assert resolve("moon+fedadam").label == "MOON + FedAdam"
    assert not torch.equal(play("fedprox+fedyogi").theta, play("fedprox").theta)


@pytest.mark.parametrize(
    "spec", ["feddyn+fedavgm", "feddyn+fedadam", "fedsmoo+fedyogi", "fedsmoo+fedadagrad"]
)
def test_beside_a_correction_of_the_mean_a_run_warns_that_the_pair_swings(spec):
    assert unsettled(resolve(spec)).startswith(f"{spec} adds to the server's own steps")
    method = resolve(spec.replace("feddyn", "moon").replace("fedsmoo", "moon"))
    assert not unsettled(method)


def test_a_pair_that_settles_is_not_warned_of():
    for spec, settings in (
        ("feddyn", {}),
        ("feddyn+afl", {}),
        ("feddyn+fedadam", {"rule": "released"}),
    ):
        assert not unsettled(resolve(spec, settings))
