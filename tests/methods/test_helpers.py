"""Computations that several methods share, on numbers that can be checked by hand."""

import pytest
import torch
from conftest import client_updates
from tables_of_numbers import rows
from torch import nn
from torch.testing import assert_close

from fedcli.methods import resolve
from fedcli.methods.helpers import average, by_row, gram, late_start, normalised, still_batchnorm


def test_the_average_is_the_weighted_sum_of_models():
    models = torch.tensor(rows("1.0 2.0; 3.0 6.0"))
    result = average(models, torch.tensor([0.25, 0.75], dtype=torch.float64)).tolist()
    assert result == [2.5, 5.0]


def test_shares_are_normalised_without_what_is_below_zero():
    result = normalised(torch.tensor([-1.0, 1.0, 3.0])).tolist()
    assert result == [0.0, 0.25, 0.75]


def test_shares_that_sum_to_nothing_become_uniform():
    result = normalised(torch.zeros(4)).tolist()
    assert result == [0.25] * 4
    result = normalised(torch.tensor([1e-10, 0.0]), smallest=1e-9).tolist()
    assert result == [0.5, 0.5]


def test_a_column_over_the_roster_is_a_copy_or_its_start():
    theta = [[0.0]] * 2
    table = client_updates(theta, rows=[0, 2], roster=3)
    memory = {}
    column = by_row(memory, "weights", table, 0.5)
    assert column.tolist() == [0.5] * 3
    assert memory == {}
    memory["weights"] = column
    by_row(memory, "weights", table, 0.5)[0] = 9.0
    assert memory["weights"].tolist() == [0.5] * 3


def test_gram_is_the_same_by_blocks(monkeypatch):
    torch.manual_seed(0)
    theta = torch.randn(50)
    table = client_updates(torch.randn(3, 50))
    further = [torch.randn(50)]
    g = torch.stack([*(theta - table.theta), *further]).double()
    assert_close(gram(theta, table, further), g @ g.T)
    split = torch.Tensor.split
    monkeypatch.setattr(torch.Tensor, "split", lambda self, size: split(self, 7))
    assert_close(gram(theta, table, further), g @ g.T)


def test_batch_norm_stands_still_even_where_the_pass_fails():
    norm = nn.BatchNorm1d(2)
    with still_batchnorm(norm):
        norm(torch.randn(8, 2))
    assert norm.running_mean.tolist() == [0.0, 0.0]
    assert norm.momentum == 0.1
    with pytest.raises(RuntimeError), still_batchnorm(norm):
        raise RuntimeError("diverged")
    assert norm.momentum == 0.1


@pytest.mark.parametrize(
    ("start", "rounds", "warned"), [(6, 10, False), (7, 10, True), (1, 3, False), (2, 3, True)]
)
def test_what_starts_within_the_averaged_rounds_is_worth_a_warning(start, rounds, warned):
    """Scores are means over the last five rounds, 6 to 10 of ten."""
    assert bool(late_start(start, rounds, "weights apply")) == warned


def test_warnings_say_what_a_table_would_hide():
    assert "learn from round 11" in resolve("fedmrl").aggregator.warning(12, True)
    released = resolve("fedmrl", {"rule": "released"}).aggregator
    assert (
        released.warning(12, True) == "its nets learn from round 12 on and answer untrained before"
    )
    assert "--val" in resolve("fedmrl").aggregator.warning(60, False)
    assert not resolve("fedmrl").aggregator.warning(60, True)
    assert "snr=immerkaer" in resolve("fedsnr").aggregator.warning(60, True)
    assert not resolve("fedsnr", {"snr": "immerkaer"}).aggregator.warning(60, True)
    assert "--val" in resolve("fedga").aggregator.warning(60, False)
    assert "from round 9 on" in resolve("ldam").local.warning(None, 10)
    assert not resolve("ldam").local.warning(None, 60)
    assert not resolve("fed-mas").aggregator.warning(10, True)
    assert "from round 9 on" in resolve("fed-mas", {"delay": 0.8}).aggregator.warning(10, True)
