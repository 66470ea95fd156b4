import math

import pytest
import torch
import torch.nn.functional as F
from conftest import CLASSES, play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.methods import fedproc, resolve  # noqa: F401 - importing registers
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout

PROTOTYPES = torch.randn(CLASSES, 16, generator=torch.Generator().manual_seed(3))


def loss_at(round, rounds, has_prototype=(True, True, True), **settings):
    """The method's loss on north's images, with its features, logits and labels."""
    net = toy_net(dropout=0.0).eval()
    shard = toy_shard("north")
    shared = {"prototypes": PROTOTYPES, "prototype_known": torch.tensor(has_prototype)}
    layout = Layout(net)
    batch = next(shard.in_order())
    client = ClientRound(
        "north", 0, round, rounds, 0.1, layout.read(), shared, layout, shard, None, {}
    )
    local = resolve("fedproc", settings).local
    local.on_round_start(net, client)
    return (
        local.loss(net, batch, client),
        net.features(batch.x),
        net(batch.x),
        batch.y,
    )


def contrast(z, y, classes):
    """-log softmax over cosines with the known prototypes, image by image, without temperature."""
    terms = []
    for feature, c in zip(z, y.tolist(), strict=True):
        cosines = {k: F.cosine_similarity(feature, PROTOTYPES[k], dim=0).item() for k in classes}
        if c in classes:
            terms.append(
                -math.log(math.exp(cosines[c]) / sum(math.exp(v) for v in cosines.values()))
            )
    return sum(terms) / len(terms)


@pytest.mark.parametrize(("round", "share"), [(2, 0.75), (3, 0.5), (5, 0.0)])
def test_the_loss_goes_from_contrast_to_cross_entropy_in_a_straight_line(round, share):
    """a_t = 1 - t/(T-1) with t from 0: of five rounds the second has 3/4, the last 0."""
    loss, z, logits, y = loss_at(round, 5)
    classes = (0, 1, 2)
    expected = share * contrast(z, y, classes) + (1 - share) * F.cross_entropy(logits, y).item()
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_images_of_a_class_without_a_prototype_are_left_out_of_the_mean():
    has_prototype = (True, False, True)
    loss, z, _, y = loss_at(1, 5, has_prototype=has_prototype)
    expected = pytest.approx(contrast(z, y, (0, 2)), rel=1e-5)
    assert loss.item() == expected


def test_a_batch_without_any_known_class_has_a_finite_loss_and_gradient():
    net = toy_net()
    shard = toy_shard("north", 4)
    layout = Layout(net)
    shard.y[:] = 1
    prototype_known = torch.tensor([True, False, False])
    shared = {"prototypes": PROTOTYPES, "prototype_known": prototype_known}
    client = ClientRound("north", 0, 1, 5, 0.1, layout.read(), shared, layout, shard, None, {})
    local = resolve("fedproc").local
    local.on_round_start(net, client)
    loss = local.gradient(net.train(), next(shard.in_order()), client)
    assert loss == 0
    assert not layout.grad.any()


def test_the_first_round_is_fedavg():
    expected = play("fedavg", until=1).theta
    assert torch.equal(play("fedproc", until=1).theta, expected)


def test_the_last_round_is_fedavg_from_there():
    before = play("fedproc", until=2)
    expected = play("fedavg", state=before).theta
    assert torch.equal(play("fedproc", state=before).theta, expected)


def test_released_rule_learns_nothing_in_its_first_round_ours_does():
    start = Layout(toy_net()).read()[:95]
    trained = slice(95)
    result = play("fedproc", {"rule": "released"}, until=1).theta[trained]
    assert_close(result, start)
    result = play("fedproc", until=1).theta[trained]
    assert not torch.allclose(result, start)


def test_a_run_of_one_round_works():
    expected = play("fedavg", rounds=1).theta
    assert torch.equal(play("fedproc", rounds=1).theta, expected)


def test_clients_without_a_class_or_absent_do_no_harm():
    shards = {
        c: toy_shard(c, absent=k % 3) for k, c in enumerate(("north", "south", "east", "west"))
    }
    assert play("fedproc", rounds=4, participation=0.5, shards=shards).theta.isfinite().all()
