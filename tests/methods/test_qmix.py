from itertools import product

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from fedcli.methods import qmix
from fedcli.methods.qmix import Learner, Qmix, Transitions

TEAM = Qmix(agents=3, actions=3, gamma=0.9)


def weights(seed: int, team: Qmix = TEAM) -> torch.Tensor:
    return Learner.start(team.layers, seed).weights


def states(count: int, agents: int = 3, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, agents, 4, generator=generator)


def some(count: int, seed: int = 0) -> Transitions:
    """Transitions of the team of three, of random numbers."""
    draw = torch.Generator().manual_seed(seed)
    last, action = torch.randint(3, (2, count, 3), generator=draw)
    return Transitions(
        states(count, seed=1),
        last,
        action,
        torch.rand(count, generator=draw),
        states(count, seed=2),
    )


def rounds(team: Qmix, count: int, memory=None, *, start=1, warmup=10, total=60, seed=0):
    """Play rounds; in round t the state is t everywhere, and the reward of the round before t - 1."""
    memory = {} if memory is None else memory
    for t in range(start, count + 1):
        state = torch.full((team.agents, 4), float(t))
        reward = torch.tensor(t - 1.0)
        now = qmix.Moment(t, total, warmup, seed)
        qmix.next_actions(team, memory, state, reward, start=1, now=now)
    return memory


def test_the_mixer_is_two_layers_with_absolute_weights_from_the_state():
    """Against numpy, with the hypernetworks written out."""
    flat = weights(1)
    state = states(1)
    chosen = torch.tensor([[0.3, -1.2, 0.8]])
    layer = {}
    for name, (matrix, bias) in qmix.unpacked(flat, TEAM.layers).items():
        layer[name] = [matrix.numpy(), bias.numpy()]
    s = state.numpy().reshape(-1)

    def hyper(into, out):
        inner = np.maximum(layer[into][0] @ s + layer[into][1], 0)
        return layer[out][0] @ inner + layer[out][1]

    mixing = np.abs(hyper("mix_in", "mix_out")).reshape(3, 32)
    inner = chosen.numpy()[0] @ mixing + layer["bias"][0] @ s + layer["bias"][1]
    inner = np.where(inner > 0, inner, np.exp(np.minimum(inner, 0)) - 1)
    expected = inner @ np.abs(hyper("sum_in", "sum_out")) + hyper("value_in", "value_out")[0]
    result = TEAM.total(flat, chosen, state).item()
    expected = pytest.approx(expected, abs=1e-5)
    assert result == expected


def test_the_total_rises_with_the_value_of_each_agent():
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.randn(20, 3, generator=generator).requires_grad_()
        TEAM.total(weights(seed), chosen, states(20, seed=seed)).sum().backward()
        assert (chosen.grad >= 0).all()
        assert (chosen.grad > 0).any()


def test_the_best_joint_action_is_everybodys_own_best():
    """All 27 joint actions of three agents."""
    joint = torch.tensor(list(product(range(3), repeat=3)))  # [27, 3]
    for seed in range(10):
        state = states(1, seed=seed)
        last = torch.tensor([[0, 2, 1]])
        q = TEAM.utilities(weights(seed), state, last)[0]  # [3, 3]
        values = TEAM.total(weights(seed), q[torch.arange(3), joint], state.expand(27, -1, -1))
        expected = q.argmax(1).tolist()
        assert joint[values.argmax()].tolist() == expected


def test_agents_share_a_network_but_know_who_they_are_and_what_they_did():
    alike = torch.zeros(1, 3, 4)
    q = TEAM.utilities(weights(0), alike, torch.tensor([[0, 0, 0]]))[0]
    assert not torch.equal(q[0], q[1])
    other = TEAM.utilities(weights(0), alike, torch.tensor([[0, 0, 1]]))[0, 2]
    assert not torch.equal(q[2], other)


def test_targets_let_the_new_weights_choose_and_the_old_ones_value():
    """r + 0.9 Q_tot^-(s', argmax Q(s')), transition by transition."""
    new = weights(0)
    old = weights(5)
    transitions = some(20)
    best = TEAM.utilities(new, transitions.after, transitions.action).argmax(2)
    values = TEAM.utilities(old, transitions.after, transitions.action)
    assert not torch.equal(best, values.argmax(2))  # or this could not tell
    for m in range(20):
        worth = TEAM.total(
            old, values[m, torch.arange(3), best[m]][None], transitions.after[m : m + 1]
        )
        expected = transitions.reward[m] + 0.9 * worth[0]
        assert_close(TEAM.target(new, old, transitions)[m], expected)


def test_the_target_is_held_constant():
    """With the target network equal to the online one, only the value of the chosen actions has a gradient."""
    transitions = some(8)
    flat = weights(0).requires_grad_()
    target = TEAM.target(flat, flat, transitions)
    assert not target.requires_grad
    (gradient,) = torch.autograd.grad(TEAM.loss(flat, flat, transitions), flat)
    q = TEAM.utilities(flat, transitions.state, transitions.last).gather(
        2, transitions.action[:, :, None]
    )[:, :, 0]
    error = TEAM.total(flat, q, transitions.state) - target
    far = (
        error.abs() > 1
    )  # Huber's loss is half the square up to 1, and the distance less a half beyond
    assert far.any()
    assert not far.all()
    (expected,) = torch.autograd.grad(
        torch.where(far, error.abs() - 0.5, error.square() / 2).mean(), flat
    )
    assert_close(gradient, expected)


def test_steps_are_those_of_adam_with_clipped_gradients():
    flat = weights(0)
    expected = torch.nn.Parameter(weights(0))
    optimizer = torch.optim.Adam([expected], lr=1e-3)
    learner = Learner.start(TEAM.layers, 0)
    for scale in (0.1, 30.0, 0.0, 0.001, 2.0):
        loss = lambda w, scale=scale: scale * (w - 1).square().sum() / 2  # noqa: E731
        learner, value = learner.descend(loss, 10.0)
        optimizer.zero_grad()
        loss(expected).backward()
        torch.nn.utils.clip_grad_norm_([expected], 10.0)
        optimizer.step()
        assert not value.requires_grad
    assert_close(learner.weights, expected.detach(), atol=1e-6, rtol=1e-5)
    assert learner.steps == 5
    assert not torch.equal(learner.weights, flat)


def test_a_round_s_steps_follow_gradients_of_norm_10_at_most():
    """All eight transitions are in every batch, so torch's Adam can take the same sixteen steps."""
    transitions = some(8)
    draw = torch.Generator().manual_seed(3)
    state = 100 * transitions.state
    after = 100 * transitions.after
    transitions = Transitions(
        state,
        transitions.last,
        transitions.action,
        transitions.reward,
        after,
    )
    older = weights(5)
    expected = torch.nn.Parameter(weights(0))
    norms = []
    optimizer = torch.optim.Adam([expected], lr=1e-3)
    for _ in range(16):
        optimizer.zero_grad()
        TEAM.loss(expected, older, transitions[torch.randperm(8, generator=draw)]).backward()
        norms.append(torch.nn.utils.clip_grad_norm_([expected], 10.0))
        optimizer.step()
    learner, _ = TEAM.train(Learner.start(TEAM.layers, 0), older, transitions, 3)
    assert min(norms) > 10
    assert_close(learner.weights, expected.detach(), atol=1e-5, rtol=1e-4)
    assert_close(learner.mean, optimizer.state[expected]["exp_avg"], atol=1e-5, rtol=1e-4)


def test_a_transition_joins_a_choice_with_the_reward_it_led_to():
    """The action of round t is chosen on the state of round t - 1; its reward arrives in round t + 1."""
    memory = rounds(TEAM, 5)
    actions = memory["qmix_actions"]  # of rounds 1 to 6
    assert actions.shape == (6, 3)
    assert actions[0].tolist() == [1, 1, 1]
    transitions = qmix.transitions(memory["qmix_states"], memory["qmix_rewards"], actions[:-1])
    assert len(transitions) == 3  # rounds 2, 3 and 4
    result = transitions.state[:, 0, 0].tolist()
    assert result == [1, 2, 3]
    result = transitions.after[:, 0, 0].tolist()
    assert result == [2, 3, 4]
    assert transitions.reward.tolist() == [2, 3, 4]
    assert torch.equal(transitions.action, actions[1:4])
    assert torch.equal(transitions.last, actions[:3])


def test_only_the_newest_transitions_are_kept(monkeypatch):
    monkeypatch.setattr(qmix, "CAPACITY", 3)
    memory = rounds(TEAM, 9)
    actions = memory["qmix_actions"][:-1]
    transitions = qmix.transitions(memory["qmix_states"], memory["qmix_rewards"], actions)
    assert transitions.reward.tolist() == [6, 7, 8]
    result = transitions.state[:, 0, 0].tolist()
    assert result == [5, 6, 7]


def test_agents_learn_after_the_warm_up_and_targets_follow_every_fifth_round():
    """They learn from round 4 on; rounds 5 and 10 copy, and those around them do not."""
    start = rounds(TEAM, 1)["qmix_weights"]
    memory = rounds(TEAM, 3, warmup=3)
    assert torch.equal(memory["qmix_weights"], start)
    assert "qmix_loss" not in memory
    rounds(TEAM, 4, memory, start=4, warmup=3)
    assert memory["qmix_steps"] == qmix.STEPS
    assert memory["qmix_loss"].ndim == 0
    assert memory["qmix_loss"].isfinite()
    assert torch.equal(memory["qmix_target"], start)
    assert not torch.equal(memory["qmix_weights"], start)
    rounds(TEAM, 5, memory, start=5, warmup=3)
    fifth = memory["qmix_weights"].clone()
    assert torch.equal(memory["qmix_target"], fifth)
    for t in range(6, 10):
        rounds(TEAM, t, memory, start=t, warmup=3)
        assert torch.equal(memory["qmix_target"], fifth)
        assert not torch.equal(memory["qmix_weights"], fifth)
    rounds(TEAM, 10, memory, start=10, warmup=3)
    assert torch.equal(memory["qmix_target"], memory["qmix_weights"])


def test_exploration_falls_in_a_line_over_the_first_half():
    result = [qmix.exploration(t, 60, 10) for t in (1, 10, 20, 35, 60)]
    expected = pytest.approx([1.0, 1.0, 0.62, 0.05, 0.05])
    assert result == expected


def test_each_round_explores_as_much_as_its_own_number_says(monkeypatch):
    """Two rounds of warm-up, then ten, the first five of which bring it down."""
    epsilons = []
    choose = Qmix.choose

    def watched(self, *given, epsilon, **rest):
        epsilons.append(epsilon)
        return choose(self, *given, epsilon=epsilon, **rest)

    monkeypatch.setattr(Qmix, "choose", watched)
    memory = rounds(TEAM, 8, warmup=2, total=12)
    expected = pytest.approx([1.0, 1.0, 0.81, 0.62, 0.43, 0.24, 0.05, 0.05])
    assert epsilons == expected
    assert memory["epsilon"].item() == epsilons[-1]


def test_two_rounds_explore_differently():
    """While nothing is learned all is drawn: of 100 agents with 8 actions a few agree by chance."""
    team = Qmix(100, 8, 0.9)
    actions = rounds(team, 4)["qmix_actions"][1:]  # drawn in rounds 1 to 4
    assert all((actions[i] == actions[j]).float().mean() < 0.4 for i in range(4) for j in range(i))


def test_two_rounds_learn_from_transitions_in_another_order(monkeypatch):
    """Four are kept, so that the places are the same ones in each round."""
    batches = []
    pick = Transitions.__getitem__

    def watched(self, rows):
        batches.append(rows.tolist())
        return pick(self, rows)

    monkeypatch.setattr(qmix, "CAPACITY", 4)
    monkeypatch.setattr(Transitions, "__getitem__", watched)
    rounds(TEAM, 8, warmup=6)
    assert len(batches) == 2 * qmix.STEPS
    for places in batches:
        assert sorted(places) == [0, 1, 2, 3]
    assert batches[: qmix.STEPS] != batches[qmix.STEPS :]


def test_without_exploration_the_best_known_is_chosen_and_with_nothing_else_anything():
    team = Qmix(100, 8, 0.9)
    generator = torch.Generator().manual_seed(3)
    state = torch.randn(100, 4, generator=generator)
    last = torch.zeros(100, dtype=torch.int64)
    best = team.utilities(weights(0, team), state[None], last[None])[0].argmax(1)
    result = team.choose(weights(0, team), state, last, epsilon=0.0, seed=1)
    assert torch.equal(result, best)
    anything = team.choose(weights(0, team), state, last, epsilon=1.0, seed=1)
    assert anything.bincount(minlength=8).min() >= 3  # 12.5 expected of each
    expected = team.choose(weights(5, team), state, last, epsilon=1.0, seed=1)
    assert torch.equal(anything, expected)


def test_a_bandit_in_which_one_agent_matters_is_solved():
    """Reward 1 for action 2 of agent 1, else 0, whatever the others do."""
    team = Qmix(3, 3, 0.0)
    draw = torch.Generator().manual_seed(0)
    last, action = torch.randint(3, (2, 60, 3), generator=draw)
    reward = (action[:, 1] == 2).float()
    state = states(60, seed=1)
    after = states(60, seed=2)
    transitions = Transitions(state, last, action, reward, after)
    learner = Learner.start(team.layers, 0)
    for t in range(12):
        learner, loss = team.train(learner, learner.weights, transitions, t)
    fresh = team.utilities(
        learner.weights, states(50, seed=7), torch.randint(3, (50, 3), generator=draw)
    )
    result = (fresh[:, 1].argmax(1) == 2).float().mean()
    assert result > 0.9
    assert loss < 0.05


@pytest.mark.parametrize("agents", [1, 100])
def test_any_number_of_agents_learns(agents):
    team = Qmix(agents, 11, 0.99)
    memory = rounds(team, 5, warmup=3)
    assert memory["qmix_steps"] == 2 * qmix.STEPS
    for value in memory.values():
        assert value.isfinite().all()
        assert value.numel()
    assert memory["qmix_actions"].max() < 11


def test_the_same_seed_gives_the_same_bits_and_no_global_numbers_are_drawn():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    memory = rounds(TEAM, 5, warmup=2)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    repeated = rounds(TEAM, 5, warmup=2)
    other_seed = rounds(TEAM, 5, warmup=2, seed=1)
    for name in memory:
        assert torch.equal(memory[name], repeated[name])
    assert not torch.equal(memory["qmix_weights"], other_seed["qmix_weights"])
