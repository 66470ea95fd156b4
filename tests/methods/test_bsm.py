import numpy as np
import pytest
import torch
from conftest import play, toy_net, toy_shard
from made_plans import planned
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.federation.client import Training
from fedcli.methods import bsm, resolve  # noqa: F401 - importing registers
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout
from fedcli.runs.rules import check


def loss_of(spec, net, shard, settings=None):
    """The method's loss on the whole shard, and the plain logits behind it."""
    local = resolve(spec, settings).local
    layout = Layout(net)
    client = ClientRound("north", 0, 1, 3, 0.1, layout.read(), {}, layout, shard, None, {})
    local.on_round_start(net, client)
    batch = next(shard.in_order())
    return local.loss(net.eval(), batch, client), net(batch.x).detach(), batch.y


def test_the_loss_is_a_softmax_weighted_by_class_counts():
    """Theorem 1, written without logarithms: n_y e^z_y / sum_k n_k e^z_k, image by image."""
    shard = toy_shard("north")
    n = shard.class_counts.double()
    loss, z, y = loss_of("bsm", toy_net(), shard)
    likelihood = [
        n[c] * z[i, c].double().exp() / (n * z[i].double().exp()).sum()
        for i, c in enumerate(y.tolist())
    ]
    expected = -torch.stack(likelihood).log().mean()
    assert_close(loss.double(), expected, atol=1e-6, rtol=1e-6)


def test_with_an_absent_class_it_is_the_softmax_over_the_others():
    shard = toy_shard("north", absent=1)
    n = shard.class_counts.double()
    others = [0, 2]
    loss, z, y = loss_of("bsm", toy_net(), shard)
    z = z.double()[:, others] + n[others].log()
    expected = torch.nn.functional.cross_entropy(z, y // 2)
    assert_close(loss.double(), expected, atol=1e-6, rtol=1e-6)


def test_an_absent_class_counts_as_a_share_of_1e_12_and_is_not_taken_out():
    net = toy_net()
    shard = toy_shard("north", absent=1)
    layout = Layout(net)
    client = ClientRound("north", 0, 1, 3, 0.1, layout.read(), {}, layout, shard, None, {})
    resolve("bsm").local.on_round_start(net, client)
    n = shard.class_counts.numpy().astype(np.float64)
    assert n[1] == 0
    expected = pytest.approx(-27.631, abs=1e-3)
    assert client.offset[1].item() == expected
    expected = torch.from_numpy(np.log(n / n.sum() + 1e-12)).float()
    assert torch.equal(client.offset, expected)


def test_a_client_with_equal_counts_trains_as_fedavg_does():
    y = torch.arange(30) % 3
    even = {c: toy_shard(c, 30) for c in ("north", "south", "east", "west")}
    even = {
        c: type(s)(s.images, s.rows, y, s.ids, s.groups, s.classes, s.channels)
        for c, s in even.items()
    }
    expected = play("fedavg", shards=even).theta
    assert_close(play("bsm", shards=even).theta, expected, atol=1e-5, rtol=1e-4)


def test_it_sets_its_own_prior_so_another_is_refused():
    with pytest.raises(UsageError, match="bsm corrects for class counts itself"):
        training = Training(prior="fedlc")
        check(planned("bsm", {}, training, rounds=1))


def test_it_takes_a_server_rule_as_add_on_and_goes_by_its_other_names():
    assert play("bsm+afl").theta.isfinite().all()
    assert resolve("balanced-softmax").name == resolve("bsm-fl").name == "bsm"
