import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import CLASSES, ROSTER, client_updates, play, toy_net, toy_shard
from torch import nn
from torch.testing import assert_close

from fedcli.errors import FedcliError
from fedcli.federation import state as states
from fedcli.methods import bsm, resolve  # noqa: F401 - importing registers
from fedcli.methods.contract import ClientRound
from fedcli.methods.creff import (
    class_gradients,
    directions,
    head_index,
    mismatch,
    trained_head,
    with_one,
)
from fedcli.models.layout import Layout

QUICK = {"steps": 10, "epochs": 5, "features": 8}


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def autograd_gradients(f, y, head):
    """Gradients of the classifier by autograd through a real linear layer, class by class."""
    layer = nn.Linear(f.shape[1], len(head))
    layer.weight.data = head[:, :-1].clone()
    layer.bias.data = head[:, -1].clone()
    out = torch.zeros(len(head), *head.shape)
    for c in y.unique().tolist():
        w, b = torch.autograd.grad(
            F.cross_entropy(layer(f[y == c]), y[y == c]), list(layer.parameters())
        )
        out[c] = torch.cat([w, b[:, None]], 1)
    return out


def test_class_gradients_are_those_of_autograd_and_zero_for_an_absent_class():
    f = random(30, 5)
    y = torch.tensor([0, 3, 1] * 10)
    head = random(4, 6, seed=1)
    gradients = class_gradients(f, y, head)
    assert_close(gradients, autograd_gradients(f, y, head), atol=1e-6, rtol=1e-5)
    assert not gradients[2].any()


def test_the_mismatch_is_one_minus_cosine_row_by_row():
    """Against autograd's gradients and numpy's cosines; a class nobody has adds nothing."""
    features = random(3, 7, 5)
    head = random(3, 6, seed=1)
    gradients = random(3, 3, 6, seed=2)
    gradients[1] = 0
    ours = (
        autograd_gradients(features.flatten(0, 1), torch.arange(3).repeat_interleave(7), head)
        .double()
        .numpy()
    )
    theirs = gradients.double().numpy()
    cos = lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b)  # noqa: E731
    expected = sum(1 - cos(ours[c, r, :-1], theirs[c, r, :-1]) for c in (0, 2) for r in range(3))
    expected += sum(1 - cos(ours[c, :, -1], theirs[c, :, -1]) for c in (0, 2))
    result = mismatch(features, head, directions(gradients)).item()
    assert result == pytest.approx(expected, rel=1e-5)


def test_matching_lowers_the_mismatch_and_leaves_alone_a_class_without_gradients():
    features = random(3, 20, 5)
    head = random(3, 6, seed=1)
    gradients = class_gradients(random(40, 5, seed=2) + 1, torch.tensor([0, 2] * 20), head)
    rule = resolve("creff", {"steps": 50}).aggregator
    moved = rule.matched(features, head, directions(gradients))
    before, after = (mismatch(f, head, directions(gradients)).item() for f in (features, moved))
    assert after < 0.8 * before
    assert torch.equal(moved[1], features[1])
    assert not moved.requires_grad


def test_a_saturated_classifier_and_dead_features_stay_finite():
    rule = resolve("creff", {"steps": 5}).aggregator
    head = 200 * random(3, 6, seed=1)
    gradients = class_gradients(torch.zeros(6, 5), torch.tensor([0, 1, 2] * 2), head)
    assert rule.matched(random(3, 4, 5), head, directions(gradients)).isfinite().all()


def test_the_classifier_is_what_sgd_on_the_features_gives():
    """The closed-form steps against torch.optim.SGD on the same features in the same order."""
    features = random(3, 10, 5)
    present = torch.tensor([True, False, True])
    head = trained_head(features, present, 7, epochs=3, batch=8, lr=0.5)

    stream = torch.Generator().manual_seed(7)
    layer = nn.Linear(5, 3)
    start = (2 * torch.rand(3, 6, generator=stream) - 1) / 5**0.5
    layer.weight.data = start[:, :-1].clone()
    layer.bias.data = start[:, -1].clone()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    f = features[present].flatten(0, 1)
    y = torch.tensor([0] * 10 + [2] * 10)
    for _ in range(3):
        for batch in torch.randperm(20, generator=stream).split(8):
            optimizer.zero_grad()
            F.cross_entropy(layer(f[batch]), y[batch]).backward()
            optimizer.step()
    expected = torch.cat([layer.weight, layer.bias[:, None]], 1).detach()
    assert_close(head, expected, atol=1e-5, rtol=1e-5)


def test_a_client_reports_the_gradients_of_the_classifier_it_was_told():
    """The received one before there is another; on the fixed view in eval mode, and nothing moves."""
    net = toy_net()
    shard = toy_shard("north", absent=1)
    layout = Layout(net)
    rule = resolve("creff").aggregator
    other = random(CLASSES, 17)
    for shared in ({}, {"creff_head": other}):
        client = ClientRound("north", 0, 1, 3, 0.1, layout.read(), shared, layout, shard, None, {})
        rule.measure_global(net.train(), client)
        batch = next(shard.in_order())
        f = toy_net().eval().features(batch.x).detach()
        head = shared.get(
            "creff_head", torch.cat([net.head.weight, net.head.bias[:, None]], 1).detach()
        )
        expected = autograd_gradients(f, batch.y, head)
        assert_close(client.report["creff_gradient"], expected, atol=1e-5, rtol=1e-4)
        assert client.report["creff_has"].tolist() == [True, False, True]
        assert torch.equal(layout.read(), client.theta)


def head_only(width=4):
    """The layout of a network that is nothing but a classifier."""
    net = nn.Module()
    net.head = nn.Linear(width, CLASSES)
    return Layout(net)


def table(layout, gradient, has, **rest):
    theta = random(len(has), layout.size)
    creff_has = torch.tensor(has)
    return client_updates(
        theta, layout=layout, creff_gradient=gradient, creff_has=creff_has, **rest
    )


def test_the_server_averages_gradients_over_the_clients_that_sent_a_class():
    """A client without a class counts for nothing in it, whatever it sent; nor does how many images it has."""
    layout = head_only()
    sent = random(3, CLASSES, CLASSES, 5)
    has = [[True, False, False], [True, True, False], [False, True, False]]
    rule = resolve("creff", QUICK).aggregator
    memory = {}
    memory_of_mean = {}
    mean = torch.stack(
        [(sent[0, 0] + sent[1, 0]) / 2, (sent[1, 1] + sent[2, 1]) / 2, torch.zeros(CLASSES, 5)]
    )
    rule.aggregate(torch.zeros(layout.size), table(layout, sent, has), memory)
    rule.aggregate(
        torch.zeros(layout.size), table(layout, mean[None], [[True, True, False]]), memory_of_mean
    )
    assert_close(memory["creff_features"], memory_of_mean["creff_features"])
    assert memory["creff_seen"].tolist() == [True, True, False]


def test_a_class_unseen_this_round_keeps_its_features_and_stays_in_training():
    layout = head_only()
    sent = random(1, CLASSES, CLASSES, 5)
    rule = resolve("creff", QUICK).aggregator
    memory = {}
    has = [[True, True, False]]
    rule.aggregate(torch.zeros(layout.size), table(layout, sent, has), memory)
    before = dict(memory)
    features = before["creff_features"].clone()
    has = [[True, False, False]]
    rule.aggregate(torch.zeros(layout.size), table(layout, sent, has), memory)
    assert torch.equal(memory["creff_features"][1], before["creff_features"][1])
    assert not torch.equal(memory["creff_features"][0], before["creff_features"][0])
    assert memory["creff_seen"].tolist() == [True, True, False]
    assert torch.equal(before["creff_features"], features)  # replaced, not written into


def test_each_round_draws_a_classifier_of_its_own():
    """With features that stay where they are nothing else differs between two rounds."""
    layout = head_only()
    sent = random(1, CLASSES, CLASSES, 5)
    memory = {}
    heads = []
    rule = resolve("creff", QUICK | {"steps": 0}).aggregator
    for t in (1, 2):
        has = [[True] * CLASSES]
        rule.aggregate(torch.zeros(layout.size), table(layout, sent, has, t=t), memory)
        heads.append((memory["creff_head"], memory["creff_features"]))
    assert torch.equal(heads[0][1], heads[1][1])
    result = (heads[0][0] - heads[1][0]).abs().max()
    assert result > 0.1


def test_the_travelling_model_is_fedavg_s_and_the_scored_one_has_another_head():
    rule = resolve("creff", QUICK).aggregator
    state = play("creff", QUICK)
    assert torch.equal(state.theta, play("fedavg").theta)
    scored = rule.scored(state.theta, state.server)
    layout = Layout(toy_net())
    tensors = layout.named(scored)
    before = layout.named(state.theta)
    expected = state.server["creff_head"][:, :-1]
    assert torch.equal(tensors["head.weight"], expected)
    expected = state.server["creff_head"][:, -1]
    assert torch.equal(tensors["head.bias"], expected)
    assert not torch.equal(tensors["head.weight"], before["head.weight"])
    assert all(torch.equal(tensors[k], before[k]) for k in tensors if not k.startswith("head."))
    assert rule.scored(state.theta, {}) is state.theta


def test_place_follows_the_head_wherever_the_layout_puts_it():
    def crowd(net):
        net.projector = nn.Linear(16, 4)

    net = toy_net(extend=crowd)
    layout = Layout(net)
    classifier = layout.read()[head_index(layout)]
    expected = torch.cat([net.head.weight, net.head.bias[:, None]], 1)
    assert torch.equal(classifier, expected)


def test_it_is_deterministic_and_resumes_to_the_same_bits(tmp_path):
    whole = play("creff", QUICK)
    half = play("creff", QUICK, until=2)
    states.save(tmp_path, half, ROSTER)
    path = states.saved(tmp_path)[-1]
    state = states.restore(path, ROSTER, "cpu")
    again = play("creff", QUICK, state=state)
    assert whole.server.keys() == again.server.keys()
    for k in whole.server:
        assert torch.equal(whole.server[k], again.server[k])
    result = play("creff", QUICK, seed=2).server["creff_head"]
    assert not torch.equal(result, whole.server["creff_head"])


def test_it_works_with_absent_clients_and_with_a_class_nobody_has():
    east = toy_shard("east", 1, absent=2)
    shards = {c: toy_shard(c, absent=2) for c in ROSTER} | {"east": east}
    state = play("creff", QUICK, rounds=4, participation=0.5, shards=shards)
    assert state.server["creff_head"].isfinite().all()
    result = state.server["creff_seen"].tolist()
    assert result == [
        True,
        True,
        False,
    ]


def test_the_re_trained_head_tells_the_classes_apart():
    """On the toy's own test images it does far better than chance, although it never saw a feature of them."""
    state = play("creff", rounds=6, dropout=0.0)
    net = toy_net(dropout=0.0)
    layout = Layout(net)
    layout.load(resolve("creff").aggregator.scored(state.theta, state.server))
    batch = next(toy_shard("test", 300).in_order())
    result = (net.eval()(batch.x).argmax(1) == batch.y).float().mean()
    assert result > 0.8


def test_the_mismatch_is_recorded_as_a_mean():
    mismatch = play("creff", QUICK).server["creff_mismatch"]
    assert mismatch.ndim == 0
    assert 0 < mismatch < 2


def test_it_is_an_add_on_to_local_methods():
    state = play("bsm+creff", QUICK)
    assert torch.equal(state.theta, play("bsm").theta)
    assert "creff_head" in state.server


def test_a_classifier_that_is_not_finite_is_told():
    """The features of a client may overflow on the fixed view."""
    layout = head_only()
    sent = random(1, CLASSES, CLASSES, 5)
    sent[0, 1, 2, 3] = torch.nan
    with pytest.raises(FedcliError, match="classifier is not finite after round 1"):
        has = [[True] * CLASSES]
        resolve("creff", QUICK).aggregator.aggregate(
            torch.zeros(layout.size), table(layout, sent, has), {}
        )


def test_no_random_state_outside_is_touched():
    rule = resolve("creff", QUICK).aggregator
    state = torch.random.get_rng_state()
    features = rule.noise(torch.zeros(3, 6), 0)
    present = torch.tensor([True] * 3)
    trained_head(features, present, 1, epochs=1, batch=32, lr=0.01)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_with_one_appends_the_input_of_the_bias():
    result = with_one(torch.tensor([[2.0, 3.0]])).tolist()
    assert result == [[2, 3, 1]]


def test_gradients_do_not_depend_on_the_order_of_images():
    f = random(30, 5)
    y = torch.arange(30) % 4
    head = random(4, 6, seed=1)
    turned = class_gradients(f.flip(0), y.flip(0), head)
    assert_close(class_gradients(f, y, head), turned, atol=1e-6, rtol=1e-5)
