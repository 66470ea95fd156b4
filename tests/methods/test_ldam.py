import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import ROSTER, play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.methods import creff, resolve  # noqa: F401 - importing registers
from fedcli.methods.contract import ClientRound
from fedcli.methods.ldam import margins
from fedcli.methods.losses import effective_weights
from fedcli.models.layout import Layout


def begun(settings=None, *, shard, round=1, rounds=10):
    """The method, its network in eval mode and a visit that has begun."""
    local = resolve("ldam", settings).local
    net = toy_net(extend=local.extend).eval()
    layout = Layout(net)
    client = ClientRound("north", 0, round, rounds, 0.1, layout.read(), {}, layout, shard, None, {})
    local.on_round_start(net, client)
    return local, net, client


def test_margins_are_inverse_fourth_roots_and_the_rarest_class_has_the_largest():
    counts = torch.tensor([81, 16, 0, 1296])
    values = margins(counts, 0.5)  # n^-1/4: 1/3, 1/2, -, 1/6
    expected = torch.tensor([1 / 3, 1 / 2, 0, 1 / 6])
    assert_close(values, expected)


def test_weights_are_effective_numbers_that_sum_to_the_classes_present():
    n = np.array([1000.0, 10.0, 1.0])
    raw = (1 - 0.9999) / (1 - 0.9999**n)
    counts = torch.tensor([1000, 10, 0, 1])
    values = effective_weights(counts, 0.9999)
    expected = 3 * raw / raw.sum()
    expected = pytest.approx([expected[0], expected[1], 0, expected[2]], rel=1e-6)
    assert values.tolist() == expected
    counts = torch.tensor([1000, 10, 0, 1])
    result = effective_weights(counts, 0.0).tolist()
    assert result == [1, 1, 0, 1]


def test_the_loss_is_the_paper_s_image_by_image():
    """Cosines, margin and weights in float64 numpy; a class is absent and the weighted rounds have begun."""
    shard = toy_shard("north", absent=1)
    settings = {"beta": 0.9, "scale": 7.0, "max_margin": 0.3}
    local, net, client = begun(settings, shard=shard, round=9)
    batch = next(shard.in_order())
    z = net.features(batch.x).detach().double().numpy()
    w = net.head.weight.detach().double().numpy()
    n = shard.class_counts.numpy()

    present = n > 0
    root = np.where(present, np.maximum(n, 1) ** -0.25, 0)
    m = 0.3 * root / root.max()
    v = np.where(present, 0.1 / (1 - 0.9 ** np.maximum(n, 1)), 0)
    v = v / v.sum() * present.sum()
    total = 0.0
    for i, y in enumerate(batch.y.tolist()):
        logits = 7 * (w @ z[i]) / (np.linalg.norm(w, axis=1) * np.linalg.norm(z[i]))
        logits[y] -= 7 * m[y]
        total += v[y] * (np.log(np.exp(logits).sum()) - logits[y])
    expected = total / v[batch.y].sum()
    result = local.loss(net, batch, client).item()
    expected = pytest.approx(expected, rel=1e-5)
    assert result == expected


@pytest.mark.parametrize(
    ("start", "rounds", "first_round"),
    [
        (0.8, 10, 9),
        (0.8, 3, 3),
        (0.8, 1, 1),
        (0.7, 10, 8),
        (0.0, 5, 1),
        (1.0, 5, 6),
        (0.29, 100, 30),
    ],
)
def test_weights_come_in_after_their_share_of_the_rounds_as_in_the_authors_code(
    start, rounds, first_round
):
    """Where int(start T) > 0 it is their epoch // int(start T), from epoch 0; start 1 is never.

    0.29 of 100 rounds are 29, though 0.29 * 100 is below 29 in floating point.
    """
    shard = toy_shard("north")
    weighted = [
        t
        for t in range(1, rounds + 1)
        if not begun({"start": start, "beta": 0.9}, shard=shard, round=t, rounds=rounds)[2]
        .scratch["weight"]
        .eq(1)
        .all()
    ]
    expected = list(range(first_round, rounds + 1))
    assert weighted == expected
    switch = round(start * rounds, 9) // 1
    assert not switch or weighted == [epoch + 1 for epoch in range(rounds) if epoch // switch]


def test_a_warning_says_when_weights_come_late_and_none_where_they_never_come():
    late, never = (
        resolve("ldam", {"start": start}).local.warning(None, 10) for start in (0.8, 1.0)
    )
    assert late == "classes are weighted from round 9 on, and scores are means over rounds 6 to 10"
    assert not never


def test_without_margin_and_weights_it_is_cross_entropy_of_scaled_cosines():
    shard = toy_shard("north")
    settings = {"max_margin": 0.0, "beta": 0.0}
    local, net, client = begun(settings, shard=shard)
    batch = next(shard.in_order())
    cosines = F.cosine_similarity(net.features(batch.x)[:, None], net.head.weight[None], dim=2)
    assert_close(net(batch.x), 30 * cosines)
    expected = F.cross_entropy(30 * cosines, batch.y)
    assert_close(local.loss(net, batch, client), expected)


def test_the_head_keeps_the_shape_of_a_linear_one_and_is_seeded():
    local = resolve("ldam", {"scale": 5.0}).local
    head, other_head = (toy_net(extend=local.extend).head for _ in range(2))
    result = (head.in_features, head.out_features, head.bias)
    assert result == (16, 3, None)
    assert torch.equal(head.weight, other_head.weight)
    assert_close(head.weight.norm(dim=1), torch.ones(3))
    result = head(torch.zeros(1, 16)).tolist()
    assert result == [[0, 0, 0]]


def test_the_length_of_a_class_s_vector_says_nothing():
    extend = resolve("ldam").local.extend
    head = toy_net(extend=extend).head
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(5, 16, generator=generator)
    before = head(z).detach()
    head.weight.data *= 3
    assert_close(head(z).detach(), before)


def test_a_zero_feature_has_a_finite_gradient():
    extend = resolve("ldam").local.extend
    head = toy_net(extend=extend).head
    z = torch.zeros(1, 16, requires_grad=True)
    F.cross_entropy(head(z.relu()), torch.tensor([1])).backward()
    assert z.grad.isfinite().all()
    assert head.weight.grad.isfinite().all()


def test_it_trains_with_clients_of_one_class_and_one_image():
    shards = {c: toy_shard(c, absent=2) for c in ROSTER} | {"east": toy_shard("east", 1)}
    assert play("ldam", shards=shards).theta.isfinite().all()


def test_a_rule_that_needs_a_linear_head_is_refused_by_name():
    with pytest.raises(
        UsageError, match="ldam has a cosine classifier, which creff cannot work with"
    ) as error:
        resolve("ldam+creff")
    assert error.value.hint == "train each by itself"
    assert resolve("ldam+afl").label == "LDAM-DRW + AFL"
