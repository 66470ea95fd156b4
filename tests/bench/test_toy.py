"""The toy federation: what the checks of methods rely on."""

import pytest
import torch

from fedcli.bench.toy import CLASSES, ROSTER, toy_clip, toy_federation, toy_net, toy_shard
from fedcli.methods import resolve


def test_a_client_has_the_same_images_each_time_and_no_other_client_has_them():
    shard = toy_shard("north")
    again = toy_shard("north")
    other = toy_shard("south", count=len(shard))
    assert torch.equal(shard.images, again.images)
    assert torch.equal(shard.groups["sex"], again.groups["sex"])
    assert not torch.equal(shard.images, other.images)


def test_every_client_has_20_to_49_images_unless_a_number_is_named():
    sizes = [len(toy_shard(client)) for client in ROSTER]
    assert min(sizes) >= 20
    assert max(sizes) < 50
    assert len(set(sizes)) > 1
    assert len(toy_shard("north", 5)) == 5


@pytest.mark.parametrize("absent", range(CLASSES))
def test_no_image_has_the_class_that_is_absent(absent):
    labels = toy_shard("north", 40, absent=absent).y.tolist()
    assert set(labels) == set(range(CLASSES)) - {absent}


def test_the_rows_of_its_class_are_the_brightest_of_an_image():
    shard = toy_shard("north", 200)
    for label in range(CLASSES):
        images = shard.images[shard.y == label].float()
        by_row = images.mean(dim=(0, 1, 3))  # [8]
        bands = [by_row[2 * c : 2 * c + 3].mean().item() for c in range(CLASSES)]
        assert bands.index(max(bands)) == label


@pytest.mark.parametrize("build", [toy_net, toy_clip])
def test_the_seed_decides_the_network_and_torch_goes_on_as_before(build):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    net = build(seed=1)
    assert torch.equal(torch.rand(1), expected)
    same = build(seed=1)
    other = build(seed=2)
    weights = torch.cat([tensor.flatten() for tensor in net.parameters()])
    assert torch.equal(weights, torch.cat([tensor.flatten() for tensor in same.parameters()]))
    assert not torch.equal(weights, torch.cat([tensor.flatten() for tensor in other.parameters()]))


def test_layers_that_a_method_adds_draw_from_a_seed_of_their_own():
    def extend(net):
        net.extra = torch.nn.Linear(2, 2)

    plain = toy_net(seed=1)
    extended = toy_net(seed=1, extend=extend)
    for name, weights in plain.named_parameters():
        assert torch.equal(weights, dict(extended.named_parameters())[name])
    assert torch.equal(extended.extra.weight, toy_net(seed=1, extend=extend).extra.weight)


@pytest.mark.parametrize(
    ("method", "network"), [("fedavg", "Network"), ("promptfl", "ClipNetwork")]
)
def test_a_method_that_trains_prompts_has_a_transformer(method, network):
    federation = toy_federation(resolve(method))
    assert type(federation.clients.net).__name__ == network
    assert list(federation.clients.shards) == ROSTER
