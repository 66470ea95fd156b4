"""FairLoRA: singular values by group, from their start to how test images are shown."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import ROSTER, client_updates, make_chain, play, toy_clip, toy_shard
from made_plans import planned, train
from numpy.testing import assert_allclose
from tables_of_numbers import rows as number_rows
from torch import nn
from torch.testing import assert_close

import fedcli.methods.fairlora as fairlora  # importing registers
from fedcli.errors import UsageError
from fedcli.federation import state as states
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.models.adapted import Adapted
from fedcli.models.clip import ClipNetwork
from fedcli.models.layout import Layout
from fedcli.models.network import Groups
from fedcli.runs.finished import load_model, logits, open_run

SGD = Training(optimizer="sgd", lr=0.1, batch_size=8)


def clip(name, settings=None, attributes=None, device="cpu"):
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(0)
        net = ClipNetwork(name, 1, ["healthy", "ill"])
        net.attributes = {"race": ["asian", "black", "white"]} if attributes is None else attributes
        resolve("fairlora", settings).local.extend(net)
    return net


def count(net, *endings):
    return sum(
        p.numel()
        for name, p in net.named_parameters()
        if p.requires_grad and name.endswith(endings)
    )


def test_the_vision_transformer_has_the_known_number_of_adapter_weights():
    net = clip("clip-vit-b16", device="meta")
    assert count(net, ".A", ".B", ".S") == 1_106_784
    assert count(net, ".S") == 864


def test_the_resnet_has_them_on_its_convolutions_and_plain_lora_in_its_pool():
    net = clip("clip-rn50", device="meta")
    numbers = sum(
        p.numel()
        for m in net.modules()
        if isinstance(m, Adapted) and m.S is not None
        for p in (m.A, m.B, m.S)
    )
    assert numbers == 1_147_904
    result = count(net, ".A", ".B", ".S")
    assert result == 1_147_904 + 491_520
    assert count(net, "weight", "bias") == 53_248


def test_singular_values_start_with_a_common_half_and_one_that_is_rotated():
    """Rank 12, three groups: h = linspace(.5, .1, 6), rotated by 0, 2 and 4."""
    h = [0.5, 0.42, 0.34, 0.26, 0.18, 0.1]
    rotated = [h, h[2:] + h[:2], h[4:] + h[:4]]
    expected = [h + half for half in rotated]
    assert_allclose(fairlora.start(12, 3, 1.0), expected, rtol=1e-6)
    result = fairlora.start(12, 3, 0.2)[0, 6:]
    expected = [0.1, 0.084, 0.068, 0.052, 0.036, 0.02]
    assert_allclose(result, expected, rtol=1e-6)
    for rule, factor in (("paper", 1.0), ("released", 0.2)):
        adapted = next(
            m for m in clip("clip-tiny", {"rule": rule}).modules() if isinstance(m, Adapted)
        )
        assert torch.equal(adapted.S, fairlora.start(12, 3, factor))


def test_more_groups_than_half_the_ranks_still_start_apart():
    starts = fairlora.start(6, 3, 1.0), fairlora.start(4, 2, 1.0), fairlora.start(8, 6, 1.0)[:4]
    for s in starts:
        assert len(s.unique(dim=0)) == len(s)
    result = fairlora.start(12, 1, 1.0).shape
    assert result == (1, 12)


@pytest.mark.parametrize(
    ("settings", "group_share", "other_share"),
    [
        ({}, 1.0, 0.0),
        ({"rule": "released"}, 0.7, 0.15),
        ({"pi": "smoothed"}, 0.7, 0.15),
        ({"rule": "released", "pi": "onehot"}, 1.0, 0.0),
    ],
)
def test_group_shares_of_an_image(settings, group_share, other_share):
    shares = resolve("fairlora", settings).local.shares(torch.tensor([1, -1, 0]), 3)
    expected = [
        [other_share, group_share, other_share],
        [1 / 3] * 3,
        [group_share, other_share, other_share],
    ]
    assert shares.dtype == torch.float32
    assert_allclose(shares, expected, rtol=1e-6)


@pytest.mark.parametrize("pi", ["onehot", "smoothed"])
def test_a_lone_group_has_all_of_it(pi):
    shares = resolve("fairlora", {"pi": pi}).local.shares(torch.tensor([0, -1]), 1)
    assert shares.tolist() == [[1.0], [1.0]]


class Two(nn.Module):
    """An adapter with three groups, a plain one, another number and the groups' prior."""

    def __init__(self):
        super().__init__()
        base = nn.Linear(3, 3)
        singular = torch.zeros(3, 2)
        self.layer = Adapted(base, 2, 1.0, singular, Groups())
        base = nn.Linear(3, 3)
        self.pool = Adapted(base, 2, 1.0)
        self.other = nn.Parameter(torch.zeros(1))
        self.register_buffer("group_prior", torch.full((3,), 1 / 3))


N = [6.0, 2.0]
COUNTS = torch.tensor(
    number_rows("3.0 1.0 0.0; 1.0 0.0 0.0")
).double()  # [K, G]; 2 images of the first are unknown
SENT = torch.tensor(
    [number_rows("1.0 2; 3 4; 5 6"), number_rows("5.0 6; 70 80; 90 100")]
)  # [K, G, r]
OLD = torch.tensor(number_rows("0.0 0; 0 0; -1 -2"))  # [G, r]


def averaged(settings=None, counts=COUNTS, t=1, memory=None, **rest):
    """New, old and sent models by name after round t of 50, with the singular values above."""
    layout = Layout(Two())
    rng = torch.Generator().manual_seed(2)
    theta = torch.randn(layout.size, generator=rng)
    sent = torch.randn(2, layout.size, generator=rng)
    span = layout.spans["layer.S"]
    theta[span] = OLD.flatten()
    sent[:, span] = SENT.flatten(1)
    table = client_updates(sent, layout=layout, t=t, rounds=50, n=N, group_counts=counts, **rest)
    memory = {} if memory is None else memory
    new, weights = resolve("fairlora", settings).aggregator.aggregate(theta, table, memory)
    assert weights.tolist() == [0.75, 0.25]
    return (
        layout.named(new),
        layout.named(theta),
        [layout.named(theta_sent) for theta_sent in sent],
        memory,
    )


def test_singular_values_are_averaged_by_the_images_of_their_group():
    """Group 0: 3/4 and 1/4; group 1 the first client alone; group 2 nobody, so its row stays."""
    new, _, (sent, other_sent), _ = averaged()
    expected = number_rows("2.0 3.0; 3.0 4.0; -1.0 -2.0")
    assert new["layer.S"].tolist() == expected
    for name in ("layer.A", "layer.B", "pool.A", "pool.B", "other"):
        expected = 0.75 * sent[name] + 0.25 * other_sent[name]
        assert_close(new[name], expected)


def test_released_shares_the_first_half_among_the_groups_that_are_there():
    new, _, _, _ = averaged({"rule": "released"})
    expected = number_rows("2.5 3.0; 2.5 4.0; -1.0 -2.0")
    assert new["layer.S"].tolist() == expected


@pytest.mark.parametrize("settings", [{}, {"rule": "released"}])
def test_where_no_group_is_known_every_row_stays(settings):
    counts = torch.zeros(2, 3).double()
    new, old, _, memory = averaged(settings, counts)
    assert torch.equal(new["layer.S"], old["layer.S"])
    assert new["layer.A"].ne(old["layer.A"]).all()
    assert not memory["group_counts"].any()


def test_the_moving_average_covers_singular_values_and_leaves_rows_of_absent_groups():
    new, old, _, _ = averaged(t=26)
    b = 0.999 / 2
    expected = (1 - b) * torch.tensor(number_rows("2.0 3.0; 3.0 4.0; -1.0 -2.0")) + b * OLD
    assert_close(new["layer.S"], expected)
    assert torch.equal(new["layer.S"][2], old["layer.S"][2])


def test_the_prior_of_groups_is_that_of_all_images_seen_so_far():
    """Two of four clients have been here: 5 known images; the next round brings the third and the first again."""
    new, _, _, memory = averaged(t=26, settings={"rule": "released"}, rows=[0, 2], roster=4)
    expected = torch.tensor([4.0, 1.0, 0.0]) / 5
    assert_close(new["group_prior"], expected)
    before = memory["group_counts"].clone()
    again = dict(memory)
    counts = torch.tensor(number_rows("3.0 1 0; 0 2 3")).double()
    new, *_ = averaged(counts=counts, memory=again, rows=[0, 3], roster=4)
    expected = torch.tensor([4.0, 3.0, 3.0]) / 10
    assert_close(new["group_prior"], expected)
    assert torch.equal(memory["group_counts"], before)  # the old round stays whole


def delta(model, group=None):
    a = model["layer.A"].double().numpy()
    b = model["layer.B"].double().numpy()
    s = model["layer.S"].double().numpy()
    return a @ np.diag(s.mean(0) if group is None else s[group]) @ b


def test_exact_takes_the_vectors_of_the_mean_and_projects_each_group_on_them():
    """An absent group is that of the old model, in the new vectors."""
    new, old, (sent, other_sent), memory = averaged({"exact": True}, t=30)
    u, _sigma, v = np.linalg.svd(0.75 * delta(sent) + 0.25 * delta(other_sent))
    true = [0.75 * delta(sent, 0) + 0.25 * delta(other_sent, 0), delta(sent, 1), delta(old, 2)]
    expected = [u[:, :2] * np.diag(u[:, :2].T @ d @ v[:2].T) @ v[:2] for d in true]
    for group in range(3):
        assert_allclose(delta(new, group), expected[group], atol=1e-4)
    pool = [
        m["pool.A"].double().numpy() @ m["pool.B"].double().numpy() for m in (sent, other_sent, new)
    ]
    p, q, r = np.linalg.svd(0.75 * pool[0] + 0.25 * pool[1])
    assert_allclose(pool[2], p[:, :2] * q[:2] @ r[:2], atol=1e-5)
    lost = sum(((t - f) ** 2).sum() for t, f in zip(true, expected)) + q[2] ** 2
    whole = sum((t**2).sum() for t in true) + (q**2).sum()
    expected = pytest.approx((lost / whole) ** 0.5, rel=1e-4)
    assert float(memory["exact_loss"]) == expected
    assert memory["exact_loss"].ndim == 0


def trained(settings=None, shard=None, training=SGD):
    """One client's report, and the network as its training left it."""
    method = resolve("fairlora", settings)
    net = toy_clip(extend=method.local.extend)
    layout = Layout(net)
    task = ClientTask("north", 0, 1, 3, 1, layout.read(), {}, {})
    return (
        run_client(method, net, layout, shard or toy_shard("north"), task, training),
        net,
        layout,
        method.local,
    )


def test_a_client_reports_its_groups_and_its_model_holds_their_shares():
    shard = toy_shard("south")
    report, net, _, _ = trained(shard=shard)
    groups = shard.groups["sex"][shard.groups["sex"] >= 0]
    counts = np.bincount(groups.numpy(), minlength=2)
    assert len(groups) < len(shard)
    assert set(report.columns) == {"group_counts"}
    result = report.columns["group_counts"].tolist()
    assert result == counts.tolist()
    assert_allclose(net.group_prior, counts / counts.sum(), rtol=1e-6)
    assert net.groups.shares is None


def test_groups_train_their_own_row_and_unknown_images_train_all_alike():
    """Two passes, since A is 0 in the first step; without weight decay rows move by gradients only."""

    def moved(group):
        shard = toy_shard("north")
        sex = torch.full_like(shard.groups["sex"], group)
        shard = replace(shard, groups={"sex": sex})
        training = replace(SGD, weight_decay=0.0)
        report, _net, layout, _ = trained(shard=shard, training=training)
        start = fairlora.start(12, 2, 1.0)
        return [
            (s - start).abs().sum(1) > 0
            for n, s in layout.named(report.theta).items()
            if n.endswith(".S")
        ]

    for rows in moved(0):
        assert rows.tolist() == [True, False]
    for rows in moved(1):
        assert rows.tolist() == [False, True]
    for rows in moved(-1):
        assert rows.tolist() == [True, True]


def shown(net, local, shard, view):
    return torch.from_numpy(logits(net, shard, local, view))


def test_images_equal_but_for_their_group_are_scored_unlike():
    """Once trained, the views differ as well; uniform and prior read no group."""
    _, net, _, local = trained(shard=toy_shard("south"))
    shard = toy_shard("test", 12)
    women, men = (replace(shard, groups={"sex": torch.full((12,), g)}) for g in (0, 1))
    other = shown(net, local, men, "group")
    assert not torch.equal(shown(net, local, women, "group"), other)
    for view in ("uniform", "prior"):
        expected = shown(net, local, men, view)
        assert torch.equal(shown(net, local, women, view), expected)
    assert not torch.equal(shown(net, local, men, "uniform"), shown(net, local, men, "prior"))
    expected = shown(net, local, women, "group")
    assert_close(shown(net, local, women, None), expected)


def test_uniform_is_the_mean_of_singular_values_and_unknown_groups_are_scored_so():
    _, net, _, local = trained()
    shard = toy_shard("test", 12)
    sex = torch.full((12,), -1)
    unknown = replace(shard, groups={"sex": sex})
    uniform = shown(net, local, shard, "uniform")
    assert_close(shown(net, local, unknown, "group"), uniform)
    with torch.no_grad():
        for module in (m for m in net.modules() if isinstance(m, Adapted)):
            module.S.copy_(module.S.mean(0).expand(2, -1))
    for view in local.views:
        assert_close(shown(net, local, shard, view), uniform, atol=1e-5, rtol=1e-4)


def test_the_slabs_of_a_volume_are_seen_as_its_group():
    """Two volumes of 16 slices, two slabs each: together they are scored as one by one."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = ClipNetwork("clip-tiny", 16, ["healthy", "ill"])
        net.attributes = {"sex": ["f", "m"]}
        resolve("fairlora").local.extend(net)
        for module in (m for m in net.eval().modules() if isinstance(m, Adapted)):
            nn.init.normal_(module.A)
    generator = torch.Generator().manual_seed(1)
    volumes = torch.randn(2, 16, 8, 8, generator=generator)
    shares = torch.eye(2)

    def seen(rows, groups):
        net.groups.shares = shares[groups]
        return net(volumes[rows])

    both = seen([0, 1], [0, 1])
    expected = torch.cat([seen([0], [0]), seen([1], [1])])
    assert_close(both, expected, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(both[1], seen([1], [0])[0], atol=1e-2)


def test_prior_gives_every_group_its_share_of_the_training_images():
    _, net, _, local = trained()
    shard = toy_shard("test", 12)
    net.group_prior.copy_(torch.tensor([1.0, 0.0]))
    sex = torch.zeros(12, dtype=torch.int64)
    women = replace(shard, groups={"sex": sex})
    expected = shown(net, local, women, "group")
    assert_close(shown(net, local, shard, "prior"), expected)


def test_the_prior_reaches_a_finished_run(tmp_path):
    """make_chain: images alternate between f and m, and each client has 20 of them."""
    plan = planned("fairlora", {}, SGD, 1, seed=3, model="clip-tiny")
    path = train(make_chain(tmp_path), plan, work=tmp_path, out=None)
    run = open_run(path)
    run.net.group_prior.zero_()
    load_model(run, 1)
    assert run.net.group_prior.tolist() == [0.5, 0.5]


def test_the_group_that_counts_is_the_datasets_first_unless_named():
    attributes = {"sex": ["f", "m"], "race": ["a", "b", "c", "d"]}
    for settings, groups in (({}, 2), ({"attribute": "race"}, 4)):
        net = clip("clip-tiny", settings, attributes)
        result = {m.S.shape for m in net.modules() if isinstance(m, Adapted)}
        assert result == {(groups, 12)}
        expected = [1 / groups] * groups
        assert net.group_prior.tolist() == expected


def test_an_attribute_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(UsageError, match="no attribute 'age'") as error:
        attributes = {"sex": ["f", "m"], "race": ["a", "b"]}
        clip("clip-tiny", {"attribute": "age"}, attributes)
    assert error.value.hint == "known: sex, race"
    with pytest.raises(UsageError, match="this dataset has none"):
        clip("clip-tiny", attributes={})
    with pytest.raises(UsageError, match="attribute"):
        resolve("fairlora", {"attribute": "no such value"})


def test_an_odd_rank_is_refused():
    with pytest.raises(UsageError, match="rank=5 has no half"):
        clip("clip-tiny", {"rank": 5})


def test_only_what_trains_and_the_prior_travels():
    extend = resolve("fairlora").local.extend
    layout = Layout(toy_clip(extend=extend))
    result = {name.rpartition(".")[2] for name in layout.shapes}
    assert result == {
        "A",
        "B",
        "S",
        "0",
        "1",
        "group_prior",
    }
    assert layout.size - layout.trainable == 2


@pytest.mark.parametrize("settings", [{}, {"rule": "released"}, {"exact": True}])
def test_it_resumes_to_the_same_bits_from_disk(settings, tmp_path):
    small = {"roster": ROSTER[:3], "rounds": 3, "participation": 0.6}
    states.save(tmp_path, play("fairlora", settings, until=1, **small), ROSTER[:3])
    path = states.saved(tmp_path)[-1]
    roster = ROSTER[:3]
    again = states.restore(path, roster, "cpu")
    result = play("fairlora", settings, state=again, **small).theta
    expected = play("fairlora", settings, **small).theta
    assert torch.equal(result, expected)


def test_the_rules_and_options_differ():
    small = {"roster": ROSTER[:2], "rounds": 2}
    settings = [{}, {"rule": "released"}, {"exact": True}, {"pi": "smoothed"}, {"ema": False}]
    thetas = [play("fairlora", options, **small).theta for options in settings]
    for theta in thetas:
        assert theta.isfinite().all()
    assert not any(torch.equal(thetas[i], thetas[j]) for i in range(5) for j in range(i))


@pytest.mark.parametrize("settings", [{}, {"exact": True}])
def test_one_image_and_a_class_and_groups_nobody_has_survive(settings):
    east = toy_shard("east", 1, absent=2)
    shards = {c: toy_shard(c, 9, absent=2) for c in ROSTER[:2]} | {"east": east}
    shards = {
        c: replace(s, groups={"sex": torch.full_like(s.groups["sex"], -1)})
        for c, s in shards.items()
    }
    roster = ROSTER[:3]
    state = play("fairlora", settings, shards=shards, roster=roster, rounds=2)
    assert state.theta.isfinite().all()
    result = state.theta[-2:].tolist()
    assert result == [0.5, 0.5]
