"""FedNTD: what local training keeps of the classes that are not true."""

import torch
import torch.nn.functional as F
from conftest import play, toy_net, toy_shard
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve
from fedcli.methods.contract import ClientRound
from fedcli.methods.fedntd import not_true
from fedcli.models.layout import Layout


def loss_of(settings, moved=1.0):
    """The loss of a toy client whose model is the global one, its head times `moved`; both models' logits, labels."""
    net = toy_net(dropout=0.0).eval()
    shard = toy_shard("north", 12)
    layout = Layout(net)
    local = resolve("fedntd", settings).local
    client = ClientRound("north", 0, 1, 3, 0.1, layout.read(), {}, layout, shard, None, {})
    local.on_round_start(net, client)
    batch = next(shard.in_order())
    z_g = net(batch.x).detach()
    net.head.weight.data.mul_(moved)
    return local.loss(net, batch, client).item(), net(batch.x).detach(), z_g, batch.y


def test_the_loss_by_hand():
    settings = {"beta": 0.5, "tau": 2.0}
    loss, z, z_g, y = loss_of(settings, moved=3.0)
    expected = 0.0
    for local, globally, true in zip(z.double(), z_g.double(), y.tolist(), strict=True):
        others = [c for c in range(3) if c != true]
        q, q_g = ((logits[others] / 2).softmax(0) for logits in (local, globally))
        expected += -local.log_softmax(0)[true] + 0.5 * 4 * (q_g * (q_g / q).log()).sum()
    assert_close(loss, (expected / len(y)).item(), atol=1e-6, rtol=1e-5)


def test_the_global_model_itself_and_strength_0_have_the_plain_loss():
    for settings, moved in (({}, 1.0), ({"beta": 0.0}, 3.0)):
        loss, z, _, y = loss_of(settings, moved)
        assert_close(loss, F.cross_entropy(z, y).item())
    result = play("fedntd", {"beta": 0.0}).theta
    assert torch.equal(result, play("fedavg").theta)


def test_the_true_class_is_left_out():
    result = not_true(3, torch.tensor([0, 1, 2])).tolist()
    expected = rows("1 2; 0 2; 0 1")
    assert result == expected


def test_of_two_classes_nothing_is_left_to_keep():
    net = toy_net()
    local = resolve("fedntd").local
    assert not local.warning(net, 3)
    net.class_names = ["a", "b"]
    assert "FedNTD is FedAvg" in local.warning(net, 3)


def test_the_global_model_has_the_client_s_own_statistics():
    """In a second round under --bn local: the same model twice, whose distance to itself is 0."""
    net = toy_net(dropout=0.0).eval()
    shard = toy_shard("north", 12)
    layout = Layout(net)
    local = resolve("fedntd").local
    theta = layout.read()
    for norm in net.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.running_mean += 3.0
    client = ClientRound("north", 0, 2, 3, 0.1, theta, {}, layout, shard, None, {})
    assert not torch.equal(theta, layout.read())
    local.on_round_start(net, client)
    batch = next(shard.in_order())
    loss = local.loss(net, batch, client)
    assert_close(loss, F.cross_entropy(net(batch.x), batch.y))
