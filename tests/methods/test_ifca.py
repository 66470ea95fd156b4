"""IFCA: what clients choose, and what each cluster becomes."""

import torch
from conftest import ROSTER, client_updates, play, toy_net, toy_shards
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from fedcli.data.shard import Shard
from fedcli.methods import resolve
from fedcli.models.layout import Layout


def test_each_cluster_is_the_mean_of_its_clients_and_the_largest_is_the_global_model():
    rule = resolve("ifca", {"clusters": 3}).aggregator
    memory = {}
    one_hot = torch.eye(3, dtype=torch.long)[[0, 2, 2]]
    updates = client_updates([[1.0], [2.0], [6.0]], n=[4.0, 1.0, 4.0], cluster=one_hot)
    theta, weights = rule.aggregate(torch.tensor([9.0]), updates, memory)
    assert_close(theta, torch.tensor([5.2]))
    assert weights.tolist() == [0, 0.2, 0.8]
    assert memory["ifca_others"].tolist() == [[1.0], [9.0]]  # nobody picked the second
    assert memory["ifca_largest"] == 2
    again = rule.models(theta, rule.broadcast(memory), updates.layout, 0)
    assert_close(again, torch.tensor([[1.0], [9.0], [5.2]]))


def test_shared_features_are_averaged_over_all():
    layout = Layout(toy_net())
    rule = resolve("ifca", {"shared": "features"}).aggregator
    memory = {}
    generator = torch.Generator().manual_seed(1)
    thetas = torch.randn(2, layout.size, generator=generator)
    cluster = torch.eye(2, dtype=torch.long)
    updates = client_updates(thetas, layout=layout, cluster=cluster, n=[1.0, 3.0])
    largest, weights = rule.aggregate(torch.zeros(layout.size), updates, memory)
    other = memory["ifca_others"][0]
    mean = 0.25 * thetas[0] + 0.75 * thetas[1]
    for name, span in layout.spans.items():
        head = name.startswith("head.")
        expected = thetas[1][span] if head else mean[span]
        assert_close(largest[span], expected)
        expected = thetas[0][span] if head else mean[span]
        assert_close(other[span], expected)
    assert weights.tolist() == [0.25, 0.75]


def test_one_cluster_is_fedavg():
    result = play("ifca", {"clusters": 1}).theta
    assert torch.equal(result, play("fedavg").theta)


def test_starts_have_the_same_numbers_in_another_order():
    layout = Layout(toy_net())
    models = resolve("ifca").local.models(layout.read(), {}, layout, 3)
    assert not torch.equal(*models)
    for span in layout.spans.values():
        assert torch.equal(*(model[span].sort().values for model in models))


def test_clients_whose_labels_disagree_part():
    """Two clients name the same images otherwise: with one model for each of two kinds they come apart."""
    shards = {}
    for client, shard in toy_shards().items():
        y = shard.y if client in ROSTER[:2] else (shard.y + 1) % 3
        shards[client] = Shard(shard.images, shard.rows, y, shard.ids, shard.groups, 3, 1)
    rounds = []
    play(
        "ifca",
        shards=shards,
        rounds=6,
        dropout=0.0,
        each=lambda played: rounds.append(played.columns["cluster"]),
    )
    result = rounds[-1].argmax(1).tolist()
    assert result in ([0, 0, 1, 1], [1, 1, 0, 0])


def test_a_client_chooses_the_received_model_with_the_lowest_loss():
    state = play("ifca", rounds=1)
    net = toy_net().eval()
    shards = toy_shards()
    layout = Layout(net)
    models = resolve("ifca").local.models(layout.read(), {}, layout, 1)
    for client, memory in state.clients.items():
        losses = []
        for model in models:
            layout.load(model)
            with torch.no_grad():
                losses.append(
                    sum(
                        cross_entropy(net(b.x), b.y, reduction="sum")
                        for b in shards[client].in_order()
                    )
                )
        assert losses[0] != losses[1]
        expected = models[torch.stack(losses).argmin()]
        assert torch.equal(memory["model"], expected)
