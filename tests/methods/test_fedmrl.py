"""FedMRL on the server: entropy, reward, agents and the map."""

import math

import pytest
import torch
import torch.nn.functional as F
from conftest import ROSTER, client_updates, flat_layout, play, toy_net
from tables_of_numbers import rows as number_rows
from torch.testing import assert_close

from fedcli.federation import state as states
from fedcli.federation.client import Training
from fedcli.methods import fedmrl, qmix, resolve, som
from fedcli.models.layout import Layout

# images of each class that the authors' four clients have of ISIC 2018
COUNTS = torch.tensor(
    number_rows(
        "896 584 568 337 248 100 75; 913 575 569 343 247 101 76; 919 585 579 338 251 101 76; 910 569 558 340 248 101 77"
    )
)


SOON = {"warmup": 1}  # agents learn from the third round on, when there is something to learn from


COLUMNS = {
    "validation_accuracy": 0.5,
    "training_accuracy": 0.5,
    "training_loss": 1.0,
    "label_entropy": 0.9,
    "loss_before": 1.0,
}


def table(theta, t=1, **rest):
    """A round's table with the columns that FedMRL's clients send."""
    columns = {name: rest.pop(name, [usual] * len(theta)) for name, usual in COLUMNS.items()}
    return client_updates(
        theta, t=t, **rest, **{k: torch.tensor(v, dtype=torch.float64) for k, v in columns.items()}
    )


def server(**settings):
    return resolve("fedmrl", settings).aggregator


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_entropy_and_shares_of_the_authors_clients():
    entropy = [float(fedmrl.label_entropy(counts)) * math.log(7) for counts in COUNTS]
    expected = pytest.approx([1.6987, 1.6975, 1.6959, 1.6992], abs=5e-5)
    assert entropy == expected
    released = [float(fedmrl.released_entropy(counts)) for counts in COUNTS]
    expected = pytest.approx([-1.14, -1.13, -1.13, -1.13], abs=6e-3)
    assert released == expected
    memory = {}
    rule = server(parts="qmix")
    theta = torch.zeros(4, 2)
    rule.aggregate(torch.zeros(2), table(theta, n=COUNTS.sum(1).tolist()), memory)
    result = memory["qmix_states"][0, :, 1].tolist()
    expected = pytest.approx([0.2488, 0.2503, 0.2525, 0.2484], abs=5e-5)
    assert result == expected


def test_entropy_of_one_class_is_zero_and_of_equal_classes_one():
    assert (
        fedmrl.label_entropy(torch.tensor([0, 9, 0]))
        == 0
        == fedmrl.label_entropy(torch.tensor([4]))
    )
    counts = torch.tensor([3, 3, 3, 3])
    result = fedmrl.label_entropy(counts)
    assert result == pytest.approx(1)


@pytest.mark.parametrize(
    ("accuracy", "reward"),
    [(0.0, -0.613), (0.5, -0.362), (0.73, -0.197), (0.95, 0.0), (1.0, 0.051)],
)
def test_the_reward_is_equation_8(accuracy, reward):
    memory = {}
    validation_accuracy = [accuracy] * 3
    theta = torch.zeros(3, 2)
    server(parts="qmix").aggregate(
        torch.zeros(2), table(theta, validation_accuracy=validation_accuracy), memory
    )
    expected = pytest.approx(reward, abs=6e-4)
    assert memory["reward"].item() == expected


def test_the_reward_counts_clients_by_their_images():
    memory = {}
    theta = torch.zeros(2, 2)
    table_ = table(theta, validation_accuracy=[0.2, 0.6], n=[30.0, 10.0])
    server(parts="qmix", zeta=0.3).aggregate(torch.zeros(2), table_, memory)
    expected = pytest.approx(0.0, abs=1e-12)
    assert memory["reward"].item() == expected  # 0.75 * 0.2 + 0.25 * 0.6 = 0.3


def test_the_mean_loss_is_over_images_and_told_to_all():
    rule = server(parts="fair")
    memory = {}
    theta = torch.zeros(2, 2)
    rule.aggregate(torch.zeros(2), table(theta, n=[30.0, 10.0], loss_before=[0.4, 2.0]), memory)
    result = rule.broadcast(memory)["mean_loss"].item()
    assert result == pytest.approx(0.8)
    assert "mu" not in rule.broadcast(memory)


def test_without_its_parts_it_is_fedavg_to_the_bit():
    adam = Training(optimizer="adam", lr=0.01, weight_decay=5e-4, epochs=2, batch_size=8)
    for training in (None, adam):
        result = play("fedmrl", {"parts": "none"}, training=training).theta
        expected = play("fedavg", training=training).theta
        assert torch.equal(result, expected)


def test_every_choice_of_parts_differs():
    names = ("qmix+fair+som", "qmix+fair", "qmix+som", "fair+som", "qmix", "fair", "som", "none")
    result = len(
        {tuple(play("fedmrl", {"parts": parts, "mu": 0.01}).theta.tolist()) for parts in names}
    )
    assert result == len(names)


def test_parts_that_are_off_leave_no_trace_on_the_server():
    result = set(play("fedmrl", {"parts": "fair"}).server)
    assert result == {"mean_loss"}
    result = set(play("fedmrl", {"parts": "som"}).server)
    assert result == {"som"}
    assert play("fedmrl", {"parts": "none"}).server == {}


def test_mu_of_the_next_round_comes_from_the_grid():
    coefficients = []
    play(
        "fedmrl",
        {"grid": "linear"},
        rounds=4,
        each=lambda played: coefficients.append(played.columns["mu"]),
    )
    assert coefficients[0].tolist() == [1e-5] * 4
    later = torch.stack(coefficients[1:])
    assert torch.equal((later * 10).round() / 10, later)
    assert len(later.unique()) > 2
    expected = (0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.4, 1)
    assert fedmrl.GRIDS["log"] == expected


def test_an_absent_clients_agent_sees_its_last_numbers():
    rule = server(parts="qmix")
    memory = {}
    theta = torch.zeros(3, 2)
    training_accuracy = [0.1, 0.2, 0.3]
    rule.aggregate(
        torch.zeros(2),
        table(theta, n=[10.0, 20.0, 10.0], training_accuracy=training_accuracy),
        memory,
    )
    theta = torch.zeros(2, 2)
    later = table(
        theta,
        2,
        rows=[0, 2],
        roster=3,
        n=[10.0, 10.0],
        training_accuracy=[0.5, 0.7],
        training_loss=[0.0, 1.0],
    )
    rule.aggregate(torch.zeros(2), later, memory)
    assert memory["qmix_states"].shape == (2, 3, 4)
    assert memory["mu"].shape == (3,)
    log2 = math.log(2)
    expected = torch.tensor([[0.9, 0.25, 0.5, 0.0], [0.9, 0.5, 0.2, log2], [0.9, 0.25, 0.7, log2]])
    assert_close(memory["qmix_states"][1], expected)


def test_identical_clients_weigh_the_same_and_the_model_does_not_shrink():
    """Eq. 10's further 1/H would leave a third of it."""
    model = normal(2000)
    updates = client_updates(model.repeat(3, 1))
    theta, weights = server(parts="som").aggregate(torch.zeros(2000), updates, {})
    expected = pytest.approx([1 / 3] * 3, abs=1e-15)
    assert weights.tolist() == expected
    assert_close(theta, model)


@pytest.mark.parametrize(("grid", "choice"), [("log", 1), ("linear", 0)])
def test_the_agents_remember_the_first_round_as_the_choice_that_is_nearest_to_its_mu(grid, choice):
    """The second of 0, 1e-5, 1e-4, .. and the first of 0, 0.1, .."""
    memory = {}
    theta = torch.zeros(3, 2)
    server(parts="qmix", grid=grid).aggregate(torch.zeros(2), table(theta), memory)
    result = memory["qmix_actions"][0].tolist()
    assert result == [choice] * 3


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"som_input": "weights"},
        {"alpha_by_size": True},
        {"alpha_temperature": 0.3},
        {"alpha_floor": 0.4},
    ],
)
def test_weights_sum_to_one_and_follow_the_client_not_its_place(settings):
    models = normal(4, 1500)
    n = [5.0, 9.0, 2.0, 4.0]
    memory = {}
    turned = {}
    for t in (1, 2):
        updates = client_updates(models, n=n, t=t)
        _, weights = server(parts="som", **settings).aggregate(
            normal(1500, seed=9), updates, memory
        )
        assert weights.sum().item() == pytest.approx(1)
        assert (weights >= settings.get("alpha_floor", 0) / 4).all()
    assert weights.max() - weights.min() > 1e-4
    by_size = server(parts="som", alpha_by_size=True).aggregate(
        torch.zeros(1500), client_updates(models, n=n), turned
    )[1]
    even = server(parts="som").aggregate(torch.zeros(1500), client_updates(models, n=n), {})[1]
    expected = even * torch.tensor(n).double()
    assert_close(by_size, expected / expected.sum())


def test_weights_are_nearness_to_the_map_times_likeness_to_the_mean_update():
    """Round 2 of three clients out of five, of the parts in som.py, which their own tests write out.

    The mean update is uniform, however many images each client has.
    """
    start = normal(40)
    models = normal(3, 40, seed=1)
    neurons = normal(25, 40, seed=2).double()
    memory = {"som": neurons}
    rows = torch.tensor([0, 2, 3])
    updates = client_updates(models, t=2, rows=rows, roster=5, n=[5.0, 1.0, 9.0])
    _, weights = server(parts="som").aggregate(start, updates, memory)
    delta = (models - start).double()
    likeness = (1 + F.cosine_similarity(delta, delta.mean(0)[None])) / 2
    turn = som.order(rows, 5, seed=0, round=2)
    assert turn.tolist() != [0, 1, 2]  # or the order would not show
    trained = som.train(neurons, delta[turn], likeness[turn], 2)
    expected = som.nearness(trained, delta) * likeness
    assert_close(memory["som"], trained, atol=1e-6, rtol=1e-6)
    assert_close(weights, expected / expected.sum(), atol=1e-6, rtol=1e-6)


def test_who_moves_with_the_others_weighs_more_than_who_moves_against_them():
    along = normal(1, 300) + 0.3 * normal(4, 300, seed=1)
    models = torch.cat([along, -normal(1, 300)])
    _, weights = server(parts="som").aggregate(torch.zeros(300), client_updates(models), {})
    assert weights[:4].min() > 2 * weights[4]


def test_buffers_are_averaged_with_the_same_weights():
    net = toy_net()
    layout = Layout(net)
    models = normal(3, layout.size)
    theta, weights = server(parts="som").aggregate(
        layout.read(), client_updates(models, layout=layout), {}
    )
    expected = weights @ models.double()
    assert_close(theta.double(), expected, atol=1e-6, rtol=1e-5)
    other = models.clone()
    other[:, layout.trainable :] += 5.0 * normal(3, layout.size - layout.trainable, seed=4)
    again = server(parts="som").aggregate(layout.read(), client_updates(other, layout=layout), {})[
        1
    ]
    assert torch.equal(again, weights)  # statistics are averaged, but do not weigh


def test_clients_who_did_not_move_and_a_lone_client_are_survived():
    start = normal(1500)
    for memory in ({}, {"som": torch.zeros(25, 1024, dtype=torch.float64)}):
        updates = client_updates(start.repeat(3, 1))
        theta, weights = server(parts="som").aggregate(start, updates, memory)
        expected = pytest.approx([1 / 3] * 3)
        assert weights.tolist() == expected
        assert_close(theta, start)
    updates = client_updates(normal(1, 1500))
    result = server(parts="som").aggregate(start, updates, {})[1].tolist()
    assert result == [1.0]


def test_resumes_to_the_same_bits_with_agents_that_have_learned(tmp_path):
    for settings in (SOON, {**SOON, "rule": "released"}):
        whole = play("fedmrl", settings, rounds=6)
        half = play("fedmrl", settings, rounds=6, until=4)
        assert half.server["released_steps" if "rule" in settings else "qmix_steps"] > 0
        states.save(tmp_path, half, ROSTER)
        path = states.saved(tmp_path)[-1]
        state = states.restore(path, ROSTER, "cpu")
        again = play(
            "fedmrl",
            settings,
            rounds=6,
            state=state,
        )
        assert torch.equal(again.theta, whole.theta)
        assert again.server.keys() == whole.server.keys()
        for name, value in whole.server.items():
            assert torch.equal(again.server[name], value), name
            assert again.server[name].dtype == value.dtype, name


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_absent_clients_do_no_harm(rule):
    settings = {**SOON, "rule": rule}
    state = play("fedmrl", settings, rounds=6, participation=0.5)
    assert state.theta.isfinite().all()
    for value in state.server.values():
        assert value.isfinite().all()


def test_what_is_logged_is_a_scalar_and_finite():
    server = play("fedmrl", SOON, rounds=4).server
    scalars = {
        name: value
        for name, value in server.items()
        if value.ndim == 0 and value.is_floating_point()
    }
    assert set(scalars) == {"mean_loss", "epsilon", "reward", "qmix_loss"}
    assert "qmix_loss" not in play("fedmrl", rounds=4).server  # still warming up


def still(agents: int, bias: float = 0.0) -> dict:
    """Server memory of the released rule whose nets all say sigmoid(bias)."""
    layers = fedmrl.Released(agents, 0.99).layers
    learner = qmix.Learner.start(layers, 0)
    weights = torch.zeros_like(learner.weights)
    qmix.unpacked(weights, layers)["agent_out"][1].fill_(bias)
    memory = {"released_state": torch.zeros(agents, 4)}
    qmix.Learner(weights, learner.mean, learner.square, learner.steps).keep(memory, "released")
    return memory


@pytest.mark.parametrize(("bias", "mu"), [(0.0, 0.622459), (-50.0, 0.5), (50.0, 0.731059)])
def test_the_released_step_is_a_part_of_the_uniform_mean(bias, mu):
    """sigmoid of a sigmoid: mu in [0.5, 0.7311], so the step is 0.27 to 0.5 of FedAvg's."""
    models = normal(4, 6)
    start = normal(6, seed=1)
    theta, weights = server(rule="released").aggregate(
        start, table(models, n=[1.0, 2.0, 3.0, 4.0]), still(4, bias)
    )
    expected = start + (1 - mu) * (models - start).mean(0)
    assert_close(theta, expected, atol=1e-5, rtol=1e-5)
    expected = pytest.approx([0.25] * 4)
    assert weights.tolist() == expected


def test_released_clients_are_each_drawn_back_by_a_mu_of_their_own():
    """Client h is seen as the first client's row with the numbers of whoever trained before h."""
    models = normal(2, 6)
    start = normal(6, seed=1)
    memory = {}
    label_entropy = [-1.0, -2.0]
    columns = {
        "label_entropy": label_entropy,
        "training_accuracy": [0.3, 0.6],
        "training_loss": [1.5, 0.7],
        "n": [30.0, 10.0],
    }
    theta, weights = server(rule="released").aggregate(start, table(models, **columns), memory)
    nets = fedmrl.Released(2, 0.99)
    net = memory["released_weights"]
    before = torch.tensor(number_rows("-1.0 0.75 0.0 0.0; -1.0 0.75 0.3 1.5"))
    mu = nets.outputs(net, torch.cat([before, before], 1)).mean(1).sigmoid()
    assert mu[0] != mu[1]
    assert ((mu > 0.5) & (mu < 0.7311)).all()
    expected = start + ((1 - mu)[:, None] * (models - start)).mean(0)
    assert_close(theta, expected)
    expected = (1 - mu) / (1 - mu).sum()
    assert_close(weights.float(), expected)
    expected = pytest.approx(mu.mean().item())
    assert memory["mean_mu"].item() == expected
    written = torch.tensor(number_rows("-1.0 0.75 0.6 0.7; -2.0 0.25 0.0 0.0"))
    assert_close(memory["released_state"], written)  # everybody writes into the first row


def test_the_released_nets_learn_from_round_eleven_on_and_their_target_learns_with_them():
    memory = {}
    for t in range(1, 13):
        theta = torch.zeros(2, 2)
        server(rule="released").aggregate(torch.zeros(2), table(theta, t), memory)
        expected = 1 if t == 12 else 0
        assert memory["released_steps"] == expected  # the reward of round 11 comes in round 12
    nets = fedmrl.Released(2, 0.99)
    state = memory["released_state"]
    weights = memory["released_weights"].clone().requires_grad_()
    loss = nets.loss(weights, state, torch.tensor(0.5))
    (gradient,) = torch.autograd.grad(loss, weights)
    parts = qmix.unpacked(gradient, nets.layers)
    for name in ("agent_in", "critic_in", "mixer_in", "mixer_out"):
        assert parts[name][0].any()


def test_released_statistics_are_the_uniform_mean():
    layout = Layout(toy_net())
    models = normal(3, layout.size)
    start = layout.read()
    theta, _ = server(rule="released").aggregate(
        start, table(models, layout=layout, n=[1.0, 5.0, 9.0]), {}
    )
    expected = models.mean(0)[layout.trainable :]
    assert_close(theta[layout.trainable :], expected)


def test_the_map_of_a_long_model_is_of_its_sketch():
    memory = {}
    layout = flat_layout(3, 2000)
    updates = client_updates(normal(2, 2003), layout=layout)
    server(parts="som").aggregate(torch.zeros(2003), updates, memory)
    assert memory["som"].shape == (25, 1024)
