import numpy as np
import pytest
import torch
from torch.testing import assert_close

from fedcli.methods import som


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def sketched(x: torch.Tensor, seed: int) -> torch.Tensor:
    return som.sketch(x, *som.projection(len(x), seed, x.device))


def test_one_round_is_kohonens_rule_written_out():
    """Three clients met one by one, in numpy, neuron by neuron; round 4 is t = 3."""
    neurons = numbers(25, 6)
    x = numbers(3, 6, seed=1)
    similarity = torch.tensor([0.9, 0.4, 0.7], dtype=torch.float64)
    m = neurons.numpy().copy().reshape(5, 5, 6)
    sigma = 2 * np.exp(-0.3)
    rate = 0.5 * np.exp(-0.3)
    for h in range(3):
        client = x[h].numpy()
        bi, bj = divmod(int(np.argmin(((m - client) ** 2).sum(-1))), 5)
        for i in range(5):
            for j in range(5):
                near = np.exp(-((i - bi) ** 2 + (j - bj) ** 2) / (2 * sigma**2))
                m[i, j] += rate * float(similarity[h]) * near * (client - m[i, j])
    expected = torch.from_numpy(m.reshape(25, 6))
    assert_close(som.train(neurons, x, similarity, 4), expected)


def test_the_pull_of_a_late_round_is_narrow_and_weak_but_there():
    """From round 24 on sigma is 0.5 and the rate 0.05: the nearest neuron moves by 5 %, its neighbour by e^-2 of it."""
    neurons = torch.zeros(25, 1, dtype=torch.float64)
    x = torch.ones(1, 1, dtype=torch.float64)
    moved = som.train(neurons, x, torch.ones(1, dtype=torch.float64), 100)
    expected = pytest.approx([0.05, 0.05 * np.exp(-2)])
    result = moved[:2, 0].tolist()
    assert result == expected


def test_the_first_of_equal_neurons_row_by_row_is_the_nearest():
    neurons = torch.full((25, 1), 3.0, dtype=torch.float64)
    neurons[[7, 12, 21]] = 1.0
    moved = som.train(
        neurons, torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, dtype=torch.float64), 100
    )
    assert moved[7, 0] == pytest.approx(0.95)
    assert moved[21, 0] > 0.99


def test_nearness_is_in_units_of_the_median_distance():
    neurons = numbers(25, 6)
    x = numbers(3, 6, seed=1)
    distance = ((neurons.numpy()[None] - x.numpy()[:, None]) ** 2).sum(-1)  # [3, 25]
    expected = np.exp(-distance / (2 * np.median(distance))).mean(1)
    assert_close(som.nearness(neurons, x), torch.from_numpy(expected))
    result = som.nearness(1000 * neurons, 1000 * x)
    assert_close(result, som.nearness(neurons, x))


def test_clients_on_the_spot_are_all_near():
    neurons = torch.zeros(25, 4).double()
    result = som.nearness(neurons, torch.zeros(3, 4).double()).tolist()
    assert result == [
        1,
        1,
        1,
    ]


def test_a_short_vector_is_its_own_sketch():
    x = torch.randn(1024, generator=torch.Generator().manual_seed(0))
    assert torch.equal(sketched(x, 0), x.double())


def test_inner_products_of_sketches_are_right_on_average():
    """200 sketches of two vectors of 3000 numbers: the mean lies within four of its standard errors."""
    x = 1 + numbers(3000)
    y = 1 + numbers(3000, seed=1)  # with a mean, which only the signs take out
    products = torch.stack([sketched(x, seed) @ sketched(y, seed) for seed in range(200)])
    error = products.std() / 200**0.5
    result = (products.mean() - x @ y).abs()
    assert result < 4 * error
    assert (
        products.std() < 0.05 * x.norm() * y.norm()
    )  # one alone is near as well: sqrt(2 / 1024) is 0.044


def test_a_sketch_is_linear_and_depends_on_the_seed_alone():
    x = numbers(3000)
    y = numbers(3000, seed=1)
    result = sketched(x + 2 * y, 5)
    expected = sketched(x, 5) + 2 * sketched(y, 5)
    assert_close(result, expected)
    assert sketched(x, 5).shape == (1024,)
    assert not torch.equal(sketched(x, 5), sketched(x, 6))
    hit = sketched(torch.eye(1, 3000)[0], 5)
    assert hit.abs().sum() == 1
    assert hit.count_nonzero() == 1


def test_similarity_is_half_of_one_plus_the_cosine_and_half_where_there_is_none():
    x = torch.tensor([3.0, 4.0])
    similarities = [
        som.similarity(x, torch.tensor(to))
        for to in ([6.0, 8.0], [-4.0, 3.0], [-3.0, -4.0], [0.0, 0.0])
    ]
    expected = pytest.approx([1, 0.5, 0, 0.5])
    assert [float(s) for s in similarities] == expected


def test_the_first_map_lies_about_the_first_clients():
    x = numbers(2, 40)
    neurons = som.start(x, 0)
    assert neurons.shape == (25, 40)
    noise = (neurons - x[torch.arange(25) % 2]).square().mean().sqrt()
    expected = pytest.approx(0.1 * float(x.square().mean().sqrt()), rel=0.1)
    assert noise == expected


def test_the_first_map_scales_with_the_clients():
    x = numbers(2, 40)
    result = som.start(100 * x, 0)
    expected = 100 * som.start(x, 0)
    assert_close(result, expected)


def test_the_order_of_a_round_is_drawn_and_follows_the_clients_not_their_places():
    rows = torch.tensor([0, 2, 3, 5])
    turn = som.order(rows, 6, seed=1, round=1)
    result = turn.sort().values.tolist()
    assert result == [0, 1, 2, 3]
    result = rows.flip(0)[som.order(rows.flip(0), 6, seed=1, round=1)]
    assert torch.equal(result, rows[turn])
    result = len({tuple(som.order(rows, 6, seed=1, round=t).tolist()) for t in range(1, 9)})
    assert result > 1


def test_shares_sum_to_one_whatever_evens_them_out():
    weight = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    expected = pytest.approx([1 / 8, 2 / 8, 5 / 8])
    result = som.shares(weight, temperature=1.0, floor=0.0).tolist()
    assert result == expected
    expected = pytest.approx([1 / 30, 4 / 30, 25 / 30])
    result = som.shares(weight, temperature=0.5, floor=0.0).tolist()
    assert result == expected
    result = som.shares(weight, temperature=1.0, floor=0.6).tolist()
    assert result == pytest.approx([0.25, 0.3, 0.45])
    result = som.shares(weight, temperature=1.0, floor=1.0).tolist()
    expected = pytest.approx([1 / 3] * 3)
    assert result == expected


def test_weights_that_are_all_zero_or_nearly_are_shared_out():
    nothing = torch.zeros(4, dtype=torch.float64)
    result = som.shares(nothing, temperature=1.0, floor=0.0).tolist()
    assert result == [0.25] * 4
    result = som.shares(nothing + 1e-250, temperature=0.1, floor=0.0).tolist()
    assert result == [0.25] * 4
