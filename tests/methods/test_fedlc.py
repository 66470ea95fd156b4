import pytest
import torch
from conftest import play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.methods import fedlc, resolve  # noqa: F401 - importing registers
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout


def loss_of(net, shard, settings=None):
    local = resolve("fedlc", settings).local
    layout = Layout(net)
    client = ClientRound("north", 0, 1, 3, 0.1, layout.read(), {}, layout, shard, None, {})
    local.on_round_start(net, client)
    batch = next(shard.in_order())
    return local.loss(net.eval(), batch, client), net(batch.x).detach().double(), batch.y


def test_the_loss_lowers_each_logit_by_tau_over_the_fourth_root_of_its_count():
    shard = toy_shard("north")
    loss, z, y = loss_of(toy_net(), shard, {"tau": 2.0})
    e = (z - 2 * shard.class_counts.double() ** -0.25).exp()  # [N, C]
    expected = -(e[torch.arange(len(y)), y] / e.sum(1)).log().mean()
    assert_close(loss.double(), expected, atol=1e-6, rtol=1e-6)


def test_the_paper_s_pairwise_form_is_the_same_up_to_the_true_class_in_the_denominator():
    """-log of 1 / (1 + sum over i != y of e^(z_i - z_y + tau (n_y^-1/4 - n_i^-1/4))); the paper leaves out the 1."""
    shard = toy_shard("south")
    loss, z, y = loss_of(toy_net(), shard)
    margin = 0.5 * shard.class_counts.double() ** -0.25
    pairs = (z - z[torch.arange(len(y)), y, None] + margin[y][:, None] - margin).exp()
    others = pairs.sum(1) - 1
    expected = (1 + others).log().mean()
    assert_close(loss.double(), expected, atol=1e-6, rtol=1e-6)


def test_without_a_margin_it_is_fedavg():
    result = play("fedlc", {"tau": 0.0}).theta
    assert torch.equal(result, play("fedavg").theta)


def test_large_logits_do_not_overflow():
    net = toy_net()
    net.head.weight.data.mul_(1e4)
    assert loss_of(net, toy_shard("north"))[0].isfinite()


def test_an_absent_class_is_lowered_or_taken_out():
    """By 50 the two are the same to float32 here; by 5, with a tenth of tau, they are not."""
    shard = toy_shard("north", absent=1)
    far = [loss_of(toy_net(), shard, {"absent": absent})[0] for absent in ("floor", "mask")]
    near = [
        loss_of(toy_net(), shard, {"absent": absent, "tau": 0.05})[0]
        for absent in ("floor", "mask")
    ]
    assert_close(*far)
    assert near[0] > near[1] + 1e-4


def test_values_it_cannot_take_are_refused():
    for key, value in (("tau", "-1"), ("absent", "drop")):
        with pytest.raises(UsageError, match=key):
            resolve("fedlc", {key: value})
