"""Rules whose weights need sums over the clients alone: each client's own weight is that of a server that sees all."""

import pytest
import torch
from conftest import client_updates
from torch.testing import assert_close

from fedcli.methods import METHODS, resolve
from fedcli.methods.mixins import ClientPart, WeighsBySums

RULES = {  # every such rule, with options; the plain rule's own small constants are below the tolerance
    "fedism-plus": [{}, {"q": 0.5, "beta": 0.9}, {"state": "loss", "q": 5.0}, {"beta": 0.0}],
    "fedism": [{}],
    "saga": [{}],
    "qffl": [{}, {"q": 5.0}, {"rule": "released", "q": 2.0}, {"q": 0.0}],
    "term": [{}, {"t": -2.0}, {"t": 20.0}],
    "fairfed": [{}, {"beta": 5.0}, {"rule": "released"}],
    "fedsnr": [{}, {"weights": "samples"}],
}
CASES = []
for method, settings in RULES.items():
    CASES += [(method, options) for options in settings]
N = [90.0, 10.0, 35.0, 200.0]


def columns_of(generator, count):
    """Reports of clients to any of these rules."""
    draws = {}
    for name in ("sharpness", "loss", "loss_before", "accuracy", "snr"):
        draws[name] = torch.rand(count, generator=generator) + 1e-3
    return draws


def added(rule, parts):
    """The weights [K] that the clients of a round find by sums, as secure aggregation plays it."""
    sums = []
    for _ in range(rule.sums):
        numbers = [rule.number(part, sums) for part in parts]
        sums.append(torch.stack(numbers).sum(0))
    weights = torch.stack([rule.weight(part, sums) for part in parts])
    return weights / weights.sum()


def test_every_such_rule_is_tried():
    rules = {
        name for name, method in METHODS.items() if isinstance(method.aggregator, WeighsBySums)
    }
    assert rules == RULES.keys()


@pytest.mark.parametrize(("method", "settings"), CASES)
def test_clients_find_the_weights_of_a_server_that_sees_their_numbers(method, settings):
    rule = resolve(method, settings).aggregator
    generator = torch.Generator().manual_seed(3)
    server = {}
    clients = [{} for _ in N]
    for t, rows in enumerate([[0, 1, 2, 3], [0, 2, 3], [0, 1, 2, 3], [1, 2]], 1):
        columns = columns_of(generator, len(rows))
        n = [N[row] for row in rows]
        theta = torch.eye(len(rows))
        updates = client_updates(theta, t=t, rows=rows, roster=4, n=n, **columns)
        _, expected = rule.aggregate(theta[0], updates, server)
        parts = []
        for k, row in enumerate(rows):
            of_client = {name: column[k] for name, column in columns.items()}
            parts.append(ClientPart(t, len(rows), updates.base[k], of_client, clients[row]))
        assert_close(added(rule, parts), expected, rtol=1e-6, atol=1e-7)


def test_a_step_that_needs_more_has_no_sums():
    assert resolve("qffl", {"rule": "original"}).aggregator.sums == 0
    assert resolve("fairfed", {"gap": "eod"}).aggregator.sums == 0
    with pytest.raises(TypeError, match="has no number"):
        WeighsBySums().number(None, ())
