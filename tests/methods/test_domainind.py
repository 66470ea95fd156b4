"""DomainInd: whose classifier answers, in training and in a test."""

import torch
import torch.nn.functional as F
from conftest import play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.methods import resolve
from fedcli.methods.contract import Batch, ClientRound
from fedcli.methods.domainind import GroupHeads
from fedcli.models.layout import Layout


def heads():
    """Two groups, three classes, of random numbers."""
    head = GroupHeads(4, 2, 3)
    generator = torch.Generator().manual_seed(1)
    torch.nn.init.normal_(head.weight, generator=generator)
    return head


def test_a_test_image_has_the_mean_of_the_groups_logits():
    head = heads()
    generator = torch.Generator().manual_seed(2)
    f = torch.randn(5, 4, generator=generator)
    theirs = torch.stack([f @ head.weight[3 * g : 3 * g + 3].T for g in range(2)], 1)  # [B, G, C]
    assert_close(head.by_group(f), theirs)
    assert_close(head(f), theirs.mean(1))
    assert (
        head(f).argmax(1).equal(theirs.sum(1).argmax(1))
    )  # the paper's sum gives the same answers


def test_in_training_each_image_has_its_own_group_s_classifier_and_an_unknown_group_the_mean():
    local = resolve("domain-ind").local
    net = toy_net(extend=local.extend).eval()
    generator = torch.Generator().manual_seed(1)
    torch.nn.init.normal_(net.head.weight, generator=generator)
    layout = Layout(net)
    shard = toy_shard("north", 6)
    client = ClientRound("north", 0, 1, 3, 0.1, layout.read(), {}, layout, shard, None, {})
    group = torch.tensor([0, 1, -1, 0, 1, -1])
    images = next(shard.in_order())
    batch = Batch(images.x, images.y, images.at, {"groups": group})
    by_group = net.head.by_group(net.features(batch.x))
    losses = [
        F.cross_entropy(by_group[i, g] if g >= 0 else by_group[i].mean(0), batch.y[i])
        for i, g in enumerate(group.tolist())
    ]
    expected = torch.stack(losses).mean()
    assert_close(local.loss(net, batch, client), expected)


def test_the_classifier_of_a_group_that_nobody_has_stays_0():
    shards = {}
    for client in ("north", "south", "east", "west"):
        shard = toy_shard(client)
        shard.groups["sex"].clamp_(min=0, max=0)
        shards[client] = shard
    net = toy_net(extend=resolve("domain-ind").local.extend)
    layout = Layout(net)
    weight = (
        play("domain-ind", shards=shards, rounds=2)
        .theta[layout.spans["head.weight"]]
        .view(2, 3, 16)
    )
    assert weight[0].any()
    assert not weight[1].any()
