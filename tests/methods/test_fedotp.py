import math

import pytest
import torch
from conftest import ROSTER, play, toy_clip, toy_net, toy_shard
from torch import nn
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.federation import state as states
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import fedotp, resolve
from fedcli.models.clip import ClipNetwork
from fedcli.models.layout import Layout

SGD = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=8)


class Given(nn.Module):
    """Prompts whose cosines [B, S, C, M, N] are the tokens themselves."""

    scale = 10.0

    def similarity(self, tokens):
        return tokens


def head(tau=0.8, eps=0.1):
    return fedotp.TransportHead(Given(), tau, eps)


def some_cosines(*shape):
    generator = torch.Generator().manual_seed(2)
    return 0.2 + 0.1 * torch.randn(shape, generator=generator)


def test_a_logit_is_the_transported_similarity_averaged_over_slabs():
    """One prompt, two patches. Slab 1: 3 to 1 with the first full, T = (0.5, 0.3). Slab 2: alike, T = (0.4, 0.4)."""
    other = 0.6 - 0.1 * math.log(3)
    similarity = torch.tensor([[0.6, other], [0.2, 0.2]]).view(1, 2, 1, 2, 1)
    expected = 10 * ((0.5 * 0.6 + 0.3 * other) + 0.8 * 0.2) / 2
    assert_close(head()(similarity), torch.tensor([[expected]]))


def test_patches_that_all_fit_alike_score_tau_times_their_similarity():
    result = head()(torch.full((2, 1, 3, 16, 2), 0.3))
    expected = torch.full((2, 3), 10 * 0.8 * 0.3)
    assert_close(result, expected)


@pytest.mark.parametrize("prompts", [1, 2, 3])
def test_like_prompts_over_whole_images_are_the_plain_mean(prompts):
    """tau = 1 and N prompts alike: T = 1 / MN, which is how PromptFL scores."""
    similarity = some_cosines(2, 2, 3, 16, 1).expand(-1, -1, -1, -1, prompts)
    expected = 10 * similarity.mean((1, 3, 4))
    assert_close(head(tau=1.0)(similarity), expected)


def test_over_the_same_network_it_is_promptfl_with_one_prompt_and_whole_images():
    extend = resolve("promptfl").local.extend
    net = toy_clip(extend=extend).eval()
    x = next(toy_shard("north").in_order()).x
    tokens = net.backbone.tower(x)
    result = fedotp.TransportHead(net.head.prompts, 1.0, 0.1)(tokens)
    assert_close(result, net(x), atol=1e-4, rtol=1e-4)


def test_leaving_the_worst_patches_out_raises_the_score_per_mass():
    similarity = some_cosines(4, 1, 3, 16, 2)
    per_mass = [head(tau, 0.01)(similarity) / tau for tau in (1.0, 0.8, 0.5)]
    assert (per_mass[0] < per_mass[1]).all()
    assert (per_mass[1] < per_mass[2]).all()


def test_no_gradient_goes_through_the_plan():
    similarity = some_cosines(1, 1, 2, 8, 2).requires_grad_()
    head()(similarity).sum().backward()
    cost = 1 - similarity.detach()
    plan = fedotp.transport_plan(cost, 0.8, 0.1)
    assert_close(similarity.grad, 10 * plan)


def test_the_own_context_stays_and_the_shared_one_travels():
    net = toy_clip(extend=resolve("fedotp").local.extend)
    personal = resolve("fedotp").local.personal_tensors(net)
    layout = Layout(net, personal)
    assert layout.shapes == {"head.prompts.context.0": (4, 32)}
    assert layout.own_shapes == {"head.prompts.context.1": (4, 32)}
    state = play("fedotp")
    contexts = torch.stack([state.clients[client]["own"] for client in ROSTER])
    assert state.theta.isfinite().all()
    assert contexts.isfinite().all()
    result = len(contexts.unique(dim=0))
    assert result == len(ROSTER)
    assert not (contexts == layout.own_start).any(1).all()


def test_an_absent_client_keeps_its_own_context():
    early = play("fedotp", rounds=4, until=1, participation=0.5)
    participants = []
    late = play(
        "fedotp",
        rounds=4,
        until=2,
        participation=0.5,
        state=early,
        each=lambda p: participants.extend(p.clients),
    )
    for client, memory in early.clients.items():
        result = torch.equal(memory["own"], late.clients[client]["own"])
        assert result == (client not in participants)


def test_a_client_that_was_never_here_starts_from_the_initial_own_context():
    """Whoever trained before it in the same network."""
    method = resolve("fedotp")
    net = toy_clip(extend=method.local.extend)
    layout = Layout(net, method.local.personal_tensors(net))
    start = layout.read()

    def first_visit():
        task = ClientTask("west", 3, 2, 3, 1, start, {}, {})
        return run_client(
            method,
            net,
            layout,
            toy_shard("west"),
            task,
            SGD,
        )

    fresh = first_visit()
    task = ClientTask("north", 0, 1, 3, 1, start, {}, {})
    run_client(method, net, layout, toy_shard("north"), task, SGD)
    again = first_visit()
    assert torch.equal(fresh.memory["own"], again.memory["own"])
    assert torch.equal(fresh.theta, again.theta)


def test_it_resumes_to_the_same_bits_from_disk(tmp_path):
    states.save(tmp_path, play("fedotp", until=1), ROSTER)
    path = states.saved(tmp_path)[-1]
    state = states.restore(path, ROSTER, "cpu")
    again = play("fedotp", state=state)
    whole = play("fedotp")
    assert torch.equal(again.theta, whole.theta)
    for c in ROSTER:
        expected = whole.clients[c]["own"]
        assert torch.equal(again.clients[c]["own"], expected)


@pytest.mark.parametrize(
    "settings", [{"eps": 0.01}, {"tau": 1.0}, {"rule": "released", "length": 1}]
)
def test_options_run_and_change_the_result(settings):
    state = play("fedotp", settings, rounds=1)
    assert state.theta.isfinite().all()
    assert not torch.equal(state.theta, play("fedotp", rounds=1).theta)


def test_volumes_train_their_slice_projection_unless_released():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 16, 32, 32, generator=generator)
    for rule, numbers in (("paper", 603 + 4 * 32), ("released", 4 * 32)):
        net = ClipNetwork("clip-tiny", 16, ["a", "b", "c"])
        local = resolve("fedotp", {"rule": rule}).local
        local.extend(net)
        assert net(x).shape == (2, 3)
        personal = local.personal_tensors(net)
        assert Layout(net, personal).size == numbers


@pytest.mark.parametrize(("key", "value"), [("tau", 0), ("tau", 1.1), ("eps", 0), ("length", 0)])
def test_values_out_of_range_are_refused(key, value):
    with pytest.raises(UsageError, match=key):
        resolve("fedotp", {key: value})


def test_another_network_is_refused():
    with pytest.raises(UsageError, match="CLIP"):
        toy_net(extend=resolve("fedotp").local.extend)
