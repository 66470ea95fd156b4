from dataclasses import replace

import numpy as np
import pytest
import session
import torch
import torch.nn.functional as F
from conftest import make_chain, toy_net
from made_plans import planned, train
from numpy.testing import assert_allclose
from pandas import DataFrame, concat
from torch import nn
from torch.testing import assert_close

from fedcli.commands.plot import draw as command
from fedcli.errors import FedcliError, UsageError
from fedcli.federation.client import Training
from fedcli.figures import series
from fedcli.figures import trained as moved
from fedcli.figures.drawing import drawn
from fedcli.figures.kinds import FIGURES, landscape
from fedcli.runs import finished as runs
from fedcli.seeds import derive


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of two rounds on clean and corrupted images."""
    work = tmp_path_factory.mktemp("work")
    training = Training(optimizer="sgd", lr=0.1, batch_size=8)
    plan = planned("fedavg", {}, training, 2)
    out = work / "runs" / "mine"
    data = make_chain(work, corrupted=True)
    return train(data, plan, work=work, out=out).parent


class Square(nn.Module):
    """A loss of the squared length of two filters, with a bias that must not move it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
        self.bias = nn.Parameter(torch.tensor([7.0, 7.0]))

    @torch.no_grad()
    def loss(self) -> float:
        weights = self.weight.double().square().sum()
        biases = self.bias.double().square().sum()
        return float(weights + biases - 98)


def test_each_filter_of_a_direction_is_as_long_as_the_filter_and_vectors_stay_put():
    net = toy_net()
    weights = {name: p.detach() for name, p in net.named_parameters()}
    way = moved.direction(weights, 0, 0)
    result = {name: tensor.shape for name, tensor in way.items()}
    expected = {name: p.shape for name, p in weights.items()}
    assert result == expected
    for name, weight in weights.items():
        if weight.ndim < 2:  # of batch norm, and biases
            assert not way[name].any()
            continue
        norms = [tensor.flatten(1).norm(dim=1) for tensor in (way[name], weight)]
        assert_close(*norms)
    assert {"backbone.1.weight", "backbone.1.bias", "head.bias"} < weights.keys()
    zero = moved.direction({"w": torch.zeros(2, 3)}, 0, 0)["w"]
    assert not zero.any()


def test_a_tensor_has_its_own_numbers_whatever_else_the_model_has():
    model = {"w": torch.ones(2, 3)}
    larger = {"v": torch.ones(4, 4), **model}
    direction = moved.direction(model, 0, 0)["w"]
    assert torch.equal(direction, moved.direction(larger, 0, 0)["w"])
    assert not torch.equal(direction, moved.direction(model, 1, 0)["w"])
    assert not torch.equal(direction, moved.direction(model, 0, 1)["w"])


def test_around_a_squared_length_the_curve_is_known_and_the_net_is_as_it_was():
    net = Square()
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    curve = moved.surface(net, net.loss, dims=1, seed=3, points=5)
    generator = torch.Generator().manual_seed(derive("landscape", 3, 0, "weight"))
    random = torch.randn(2, 2, generator=generator).double()
    length = random.norm(dim=1, keepdim=True)
    way = random / length * torch.tensor([[5.0], [2.0]])
    steps = np.array([-1, -0.5, 0, 0.5, 1])
    along = float((before["weight"].double() * way).sum())
    expected = 29 + 2 * steps * along + steps**2 * 29
    assert_allclose(curve, expected, rtol=1e-6)  # |d| = |w| by normalisation
    table = moved.surface(net, net.loss, dims=2, seed=3, points=5)
    assert table.shape == (5, 5)
    result = table[:, 2].tolist()
    assert result == curve.tolist()
    assert table[2, 2] == 29
    for name, p in net.named_parameters():
        assert torch.equal(before[name], p)


def test_a_loss_that_fails_leaves_the_net_as_it_was():
    net = Square()

    def fails() -> float:
        raise FedcliError("no")

    with pytest.raises(FedcliError):
        moved.surface(net, fails, dims=1, seed=0, points=3)
    assert net.loss() == 29


@pytest.mark.parametrize("version", ["clean", "corrupted"])
def test_in_the_middle_stands_the_cross_entropy_of_the_runs_last_model(trained, tmp_path, version):
    losses = landscape.frame({"run": series.read(trained)}, version=version, points=3)[
        "loss"
    ].tolist()
    run = runs.open_run(trained)
    shard = run.data.test[version]
    logits = torch.from_numpy(runs.predict(run, 2, shard))
    expected = pytest.approx(float(F.cross_entropy(logits, shard.y)), rel=1e-6)
    assert losses[1] == expected
    assert len(set(losses)) == 3


@pytest.mark.parametrize("dims", ["1d", "2d"])
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(trained, tmp_path, dims):
    paths = [tmp_path / f"{k}.png" for k in range(3)]
    for path, seed in zip(paths, (0, 0, 1), strict=True):
        options = {"dims": dims, "points": 3, "seed": seed}
        command(FIGURES["landscape"], [str(trained)], options, out=path, work=tmp_path)
    picture, repeated, other = (path.read_bytes() for path in paths)
    assert picture == repeated != other


def test_several_runs_are_moved_along_the_same_numbers(trained, tmp_path):
    record = series.read(trained)
    losses = landscape.frame({"one": record, "two": record}, dims="2d", points=3)
    run_losses, other_losses = (part["loss"].tolist() for _, part in losses.groupby("run"))
    result = list(losses["run"].unique())
    assert result == ["one", "two"]
    assert run_losses == other_losses
    expected = [-1, -1, -1, 0]
    result = losses["first"].tolist()[:4]
    assert result == expected
    expected = [
        -1,
        0,
        1,
        -1,
    ]
    result = losses["second"].tolist()[:4]
    assert result == expected


def test_corrupted_images_are_taken_where_all_runs_have_them(trained, tmp_path):
    record = series.read(trained)
    assert landscape.usual([record]) == "corrupted"
    records = [record, replace(record, data={})]
    assert landscape.usual(records) == "clean"


def test_the_levels_of_a_map_are_round_numbers_around_all_losses():
    expected = pytest.approx([0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30])
    assert landscape._levels(0.418, 24.3, True) == expected
    expected = pytest.approx([1e-3, 1e-2, 0.1, 1, 10, 100, 1000, 10000])
    assert landscape._levels(1e-3, 2000.0, True) == expected
    even = landscape._levels(0.31, 1.7, False)
    assert even[0] <= 0.31
    assert even[-1] >= 1.7
    expected = np.round(even * 10)
    assert np.allclose(even * 10, expected)


def test_what_cannot_be_drawn_is_told(trained, tmp_path):
    record = series.read(trained)
    with pytest.raises(UsageError, match="4 points have no middle"):
        landscape.frame({"run": record}, points=4)
    with pytest.raises(UsageError, match="no average test images"):
        landscape.frame({"run": record}, version="average")
    assert "--points" not in session.run("fedcli plot curves --help")
    assert "'3d' is not one of" in session.run(f"fedcli plot landscape {trained} --dims 3d")
    with pytest.raises(FedcliError, match="the same everywhere"):
        landscape.draw(a_table(a=np.ones((3, 3))))


def a_table(**losses):
    """Losses [3, 3] of runs as the figure's frame."""
    rows, columns = np.meshgrid([-1.0, 0, 1], [-1.0, 0, 1], indexing="ij")
    parts = [
        DataFrame(
            {"run": run, "first": rows.ravel(), "second": columns.ravel(), "loss": table.ravel()}
        )
        for run, table in losses.items()
    ]
    table = concat(parts, ignore_index=True)
    table.attrs |= {"dims": 2, "images": "clean test images"}
    return table


def test_a_loss_that_is_not_finite_is_a_gap_of_the_map(tmp_path):
    table = np.ones((3, 3)) + np.eye(3)
    table[0, 0] = np.inf
    resamples = landscape.draw(a_table(a=table, b=table + 1))
    figure = drawn(resamples)
    result = [axes.get_title(loc="left") for axes in figure.axes[:2]]
    assert result == ["a", "b"]
