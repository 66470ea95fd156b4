import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import CLASSES, ROSTER, client_updates, play, toy_net, toy_shard, toy_shards
from made_plans import planned
from tables_of_numbers import rows
from torch.testing import assert_close

import fedcli.methods.fedmas as fedmas  # importing registers
from fedcli.errors import UsageError
from fedcli.federation import state as states
from fedcli.federation.client import Training
from fedcli.methods import resolve
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout
from fedcli.runs.rules import check

SGD = {"optimizer": "sgd", "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "batch_size": 8}
EQUAL = {c: toy_shard(c, 24) for c in ROSTER}  # every client weighs the same by image count


def grown(spec="fed-mas", settings=None, **rest):
    """The method and a network that it has extended."""
    method = resolve(spec, settings)
    net = toy_net(extend=method.local.extend, **rest)
    return method, net, Layout(net)


def client(layout, shard, **rest):
    return ClientRound("north", 0, 1, 3, 0.1, layout.read(), {}, layout, shard, None, {}, **rest)


def model(state, spec, settings=None):
    """Backbone and head of a played state, by tensor name."""
    tensors = grown(spec, settings)[2].named(state.theta)
    return {
        name: tensor for name, tensor in tensors.items() if name.startswith(("backbone.", "head."))
    }


def factor(received, trained, rule):
    return float(
        fedmas.rescue_factor(torch.tensor(received).double(), torch.tensor(trained).double(), rule)
    )


def test_the_rescue_factor_in_both_forms_from_known_divergences():
    """w = (0.5, 1.5, 0), what = (1, 3, 0): 0.5 + 4.5; shares (1/4, 3/4) twice give 1/16 + 9/16."""
    w = np.array([0.5, 1.5, 0.0])
    trained = np.array([1.0, 3.0, 0.0])
    assert factor(w, trained, "paper") == (w * trained).sum() == 5.0
    assert factor(w, trained, "released") == (w / w.sum() * trained / trained.sum()).sum() == 0.625


@pytest.mark.parametrize("present", [1, 2, 6, 8])
def test_flat_divergences_make_the_paper_count_classes_and_the_code_their_inverse(present):
    w, trained = ([value] * present + [0.0] * (8 - present) for value in (0.7, 1.3))
    expected = pytest.approx(present * 0.7 * 1.3)
    assert factor(w, trained, "paper") == expected
    expected = pytest.approx(1 / present)
    assert factor(w, trained, "released") == expected


FLAMBY = [  # training images of six hospitals in eight classes
    [2279, 3363, 2245, 606, 923, 97, 87, 330],
    [20, 2977, 2, 0, 96, 23, 45, 0],
    [533, 1470, 174, 20, 379, 40, 64, 11],
    [276, 649, 223, 86, 406, 20, 3, 144],
    [166, 349, 0, 0, 140, 0, 0, 0],
    [58, 276, 5, 0, 6, 4, 2, 0],
]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("paper", [0.205, 0.154, 0.205, 0.205, 0.077, 0.154]),
        ("released", [0.12, 0.16, 0.12, 0.12, 0.32, 0.16]),
    ],
)
def test_flat_divergences_at_the_six_hospitals_of_flamby(rule, expected):
    have = (torch.tensor(FLAMBY) > 0).double()  # [K, C]
    rescue = torch.stack([fedmas.rescue_factor(row, row, rule) for row in have])
    theta = torch.zeros(6, 1)
    table = client_updates(theta, n=[sum(row) for row in FLAMBY], rescue_factor=rescue)
    weights = resolve("fed-mas", {"rule": rule}).aggregator.weights(table)
    result = weights.numpy().round(3).tolist()
    assert result == expected


def test_the_code_gives_0_where_both_divergences_are_0():
    assert (
        factor([0.0, 0.0], [0.0, 0.0], "released") == factor([0.0, 0.0], [1.0, 2.0], "paper") == 0
    )


THETA = rows("1.0 0.0; 0.0 1.0; 0.0 0.0")


def test_the_whole_model_is_averaged_by_rescue_factor_and_not_by_images():
    """Factors 1, 3, 4 and images 100, 10, 10; with by_count 100, 30, 40."""
    rescue_factor = [1.0, 3.0, 4.0]
    table = client_updates(THETA, n=[100, 10, 10], rescue_factor=rescue_factor)
    theta, weights = resolve("fed-mas").aggregator.aggregate(torch.zeros(2), table, {})
    assert weights.tolist() == [0.125, 0.375, 0.5]
    assert theta.tolist() == [0.125, 0.375]
    _, weights = resolve("fed-mas", {"by_count": True}).aggregator.aggregate(
        torch.zeros(2), table, {}
    )
    expected = torch.tensor([100, 30, 40]).double() / 170
    assert_close(weights, expected)


@pytest.mark.parametrize("rescue", [[0.0, 0.0, 0.0], [1.0, math.nan, 1.0], [1.0, math.inf, 1.0]])
def test_factors_that_say_nothing_leave_the_images_to_decide(rescue):
    table = client_updates(THETA, n=[2, 1, 1], rescue_factor=rescue)
    result = resolve("fed-mas").aggregator.weights(table).tolist()
    assert result == [0.5, 0.25, 0.25]


@pytest.mark.parametrize(("t", "delayed"), [(1, True), (29, True), (30, False), (100, False)])
def test_a_delay_averages_by_image_count_first(t, delayed):
    """0.29 of 100 rounds are 29, though 0.29 * 100 is below 29 in floating point."""
    rescue_factor = [1.0, 1.0, 2.0]
    table = client_updates(THETA, t=t, rounds=100, n=[2, 1, 1], rescue_factor=rescue_factor)
    weights = resolve("fed-mas", {"delay": 0.29}).aggregator.weights(table).tolist()
    expected = [0.5, 0.25, 0.25] if delayed else [0.25, 0.25, 0.5]
    assert weights == (expected)


def divergences(net, shard, x):
    """Equation 1 by hand, in float64: 2 - 2 cos of projected and taught features."""
    with torch.no_grad():
        y = net.projector(net.features(x)).double()
        taught = net.teacher(x).double()
    return (2 - 2 * (y * taught).sum(1) / (y.norm(dim=1) * taught.norm(dim=1))).numpy()  # [B]


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_a_client_reports_the_factor_of_its_divergences_and_no_class(rule):
    """Before training from the fixed view, during it from what the steps saw; class 1 is absent and adds 0."""
    method, net, layout = grown(settings={"rule": rule})
    turn = client(layout, toy_shard("north", absent=1))
    method.local.on_round_start(net, turn)
    method.aggregator.measure_global(net, turn)
    net.eval()
    sums = np.zeros(CLASSES)
    for _ in range(2):  # two epochs without a step: the mean of each, summed
        for batch in turn.shard.in_order(7):
            method.local.loss(net, batch, turn)
            np.add.at(sums, batch.y.numpy(), divergences(net, turn.shard, batch.x))
    method.aggregator.measure_local(net, turn)

    whole = next(turn.shard.in_order())
    n = turn.shard.class_counts.numpy()
    values = divergences(net, turn.shard, whole.x)
    w = np.array([values[whole.y.numpy() == k].mean() if n[k] else 0 for k in range(CLASSES)])
    trained = sums / np.maximum(n, 1)
    assert n[1] == 0
    assert np.allclose(trained, 2 * w, atol=1e-5)
    expected = (
        (w * trained).sum() if rule == "paper" else (w / w.sum() * trained / trained.sum()).sum()
    )
    assert set(turn.report) == {"rescue_factor", "supervised_loss", "divergence_loss"}
    for value in turn.report.values():
        assert value.ndim == 0
    result = float(turn.report["rescue_factor"])
    assert result == pytest.approx(expected, rel=1e-5)


def test_a_class_that_is_drawn_more_often_than_it_has_images_weighs_no_more():
    """Under --sampling class: what_k is a mean over the draws of a class, summed over epochs."""
    _, net, layout = grown()
    turn = client(layout, toy_shard("north"))
    turn.scratch["divergence"] = torch.tensor([6.0, 4.0, 0.0]).double()
    n = len(turn.shard)
    turn.scratch["draws"] = torch.tensor([n / 2, 3 * n / 2, 0.0]).double()  # of two epochs
    turn.scratch["divergence_received"] = turn.shard.class_counts.double()  # w_k = 1
    turn.scratch["losses"] = torch.zeros(2)
    resolve("fed-mas", {"by_class": True}).aggregator.measure_local(net, turn)
    trained = [float(turn.report[f"{fedmas.TRAINED}{k}"]) for k in range(3)]
    assert trained == pytest.approx([6 / (n / 4), 4 / (3 * n / 4), 0.0])


def test_the_two_losses_are_recorded_and_the_divergence_of_every_class_where_it_is_asked_for():
    settings = {"by_class": True, "lambda_f": 3.0}
    method, net, layout = grown(settings=settings)
    turn = client(layout, toy_shard("north", absent=1))
    method.local.on_round_start(net.eval(), turn)
    method.aggregator.measure_global(net, turn)
    losses = []
    for batch in turn.shard.in_order(7):
        losses.append(method.local.loss(net, batch, turn).item())
        turn.steps += 1
    method.aggregator.measure_local(net, turn)
    sent = {name: float(value) for name, value in turn.report.items()}
    result = sent["supervised_loss"] + 3 * sent["divergence_loss"]
    expected = pytest.approx(np.mean(losses), rel=1e-5)
    assert result == expected
    w = [sent[f"{fedmas.RECEIVED}{k}"] for k in range(CLASSES)]
    trained = [sent[f"{fedmas.TRAINED}{k}"] for k in range(CLASSES)]
    assert w[1] == trained[1] == 0 < w[0]
    expected = pytest.approx(sent["rescue_factor"], rel=1e-5)
    assert np.dot(w, trained) == expected


def test_the_loss_is_equation_4_with_the_clients_own_balanced_softmax():
    method, net, layout = grown(settings={"lambda_f": 0.5})
    turn = client(layout, toy_shard("north"))
    batch = next(turn.shard.in_order())
    method.local.on_round_start(net.eval(), turn)
    shares = turn.shard.class_counts / len(turn.shard)
    supervised = F.cross_entropy(net(batch.x) + shares.log(), batch.y)
    expected = supervised.item() + 0.5 * divergences(net, turn.shard, batch.x).mean()
    result = method.local.loss(net, batch, turn).item()
    assert result == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("prior", ["none", "bsm"])
def test_the_released_loss_adds_a_classifier_on_the_projection_under_the_same_prior(prior):
    settings = {"rule": "released", "prior": prior}
    method, net, layout = grown(settings=settings)
    turn = client(layout, toy_shard("north"))
    batch = next(turn.shard.in_order())
    method.local.on_round_start(net.eval(), turn)
    shares = turn.shard.class_counts / len(turn.shard)
    added = shares.log() if prior == "bsm" else torch.zeros(CLASSES)
    extra = F.cross_entropy(net.auxiliary(net.projector(net.features(batch.x))) + added, batch.y)
    expected = (
        F.cross_entropy(net(batch.x) + added, batch.y)
        + 3 * divergences(net, turn.shard, batch.x).mean()
        + extra
    )
    result = method.local.loss(net, batch, turn).item()
    assert result == pytest.approx(expected.item(), rel=1e-5)
    assert not hasattr(grown()[1], "auxiliary")


@pytest.mark.parametrize("prior", ["bsm", "none", "fedlc", "logit-adjust"])
def test_without_distillation_the_model_is_that_of_the_prior_alone(prior):
    """Bit for bit, under FedAvg's average; bsm makes it BSM-FL."""
    settings = {"lambda_f": 0, "prior": prior}
    training = Training(**SGD, prior=prior)
    bare = play("fedavg", training=training, shards=EQUAL)
    names = Layout(toy_net()).named(bare.theta)
    state = play("kd", settings, shards=EQUAL)
    ours = model(state, "kd", settings)
    assert ours.keys() == names.keys()
    for name in names:
        assert torch.equal(ours[name], names[name])


def test_equal_factors_without_distillation_are_bsm_fl_with_uniform_weights(monkeypatch):
    def equal(self, net, turn):
        turn.report["rescue_factor"] = torch.tensor(0.3)

    monkeypatch.setattr(fedmas.Rescue, "measure_local", equal)
    weights_by_round = []
    ours = play(
        "fed-mas",
        {"lambda_f": 0},
        shards=EQUAL,
        each=lambda played: weights_by_round.append(played.weights),
    )
    state = play("kd", {"lambda_f": 0}, shards=EQUAL)
    bare = model(state, "kd")
    for weights in weights_by_round:
        assert torch.allclose(weights, torch.full((4,), 0.25).double())
    for name, tensor in model(ours, "fed-mas").items():
        assert_close(tensor, bare[name], atol=1e-5, rtol=1e-4)


def test_one_client_alone_is_kd():
    alone = {"roster": ROSTER[:1], "shards": toy_shards()}
    expected = play("kd", **alone).theta
    assert torch.equal(play("fed-mas", **alone).theta, expected)


@pytest.mark.parametrize("spec", ["fed-mas", "kd"])
def test_distillation_brings_the_projection_closer_to_the_teacher(spec):
    def mean(theta, lambda_f):
        _method, net, layout = grown(spec)
        layout.load(theta)
        return np.mean(
            [divergences(net.eval(), s, next(s.in_order()).x).mean() for s in EQUAL.values()]
        )

    distilled, free = (
        mean(play(spec, {"lambda_f": f}, rounds=6, shards=EQUAL).theta, f) for f in (3.0, 0.0)
    )
    assert distilled < 0.5 * free


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_one_image_and_a_class_nobody_has_survive(rule):
    east = toy_shard("east", 1, absent=2)
    shards = {c: toy_shard(c, absent=2) for c in ROSTER} | {"east": east}
    weights = []
    state = play(
        "fed-mas", {"rule": rule}, shards=shards, each=lambda played: weights.append(played.weights)
    )
    weights = torch.stack(weights)  # [rounds, K]
    assert state.theta.isfinite().all()
    assert (weights >= 0).all()
    assert_close(weights.sum(1), torch.ones(3).double())


def test_absent_clients_are_left_out_of_the_sum():
    weights_by_round = []
    state = play(
        "fed-mas",
        rounds=4,
        participation=0.5,
        each=lambda played: weights_by_round.append(played.weights),
    )
    assert state.theta.isfinite().all()
    result = [len(weights) for weights in weights_by_round]
    assert result == [2] * 4
    expected = torch.ones(4).double()
    assert_close(torch.stack(weights_by_round).sum(1), expected)


@pytest.mark.parametrize("spec", ["fed-mas", "kd"])
def test_it_resumes_to_the_same_bits_from_disk(spec, tmp_path):
    training = Training(optimizer="adam", lr=0.01, epochs=2, batch_size=16, bn="local")
    shards = {c: toy_shard(c, kind="flip") for c in ROSTER}
    whole, half = (play(spec, until=t, training=training, shards=shards) for t in (3, 1))
    states.save(tmp_path, half, ROSTER)
    path = states.saved(tmp_path)[-1]
    again = states.restore(path, ROSTER, "cpu")
    result = play(spec, state=again, training=training, shards=shards).theta
    assert torch.equal(result, whole.theta)


def test_the_two_rules_and_the_two_names_differ():
    thetas = [play(*chosen).theta for chosen in (("fed-mas",), ("kd",))]
    assert not torch.equal(*thetas)
    assert not torch.equal(
        *(
            model(play("kd", {"rule": r}), "kd", {"rule": r})["head.weight"]
            for r in ("paper", "released")
        )
    )


PRIORS = [("bsm", "write --set prior=bsm"), ("logit-adjust-all", "leave --prior out")]


@pytest.mark.parametrize(("prior", "hint"), PRIORS)
def test_a_run_level_prior_is_refused(prior, hint):
    with pytest.raises(UsageError, match="fed-mas corrects for class counts itself") as refusal:
        check(planned("fed-mas", {}, Training(prior=prior), rounds=2))
    assert refusal.value.hint == hint
