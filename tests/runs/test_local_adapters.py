"""--adapters lora:2 --local-adapters lora:1: a shared and a local adapter beside each layer, of which one never leaves."""

import json

import numpy as np
import pytest
import torch
from conftest import ROSTER, interrupt_in_round, make_chain
from made_plans import TRAINING, planned, results, train
from site_federation import chain_with_tests, sites_of, train_at
from torch.testing import assert_close

from fedcli import models
from fedcli.bench.toy import toy_federation, toy_shard
from fedcli.commands.shell import declare
from fedcli.commands.shell.panels import Command
from fedcli.federation.server import Federation
from fedcli.federation.state import read_tensors
from fedcli.methods import resolve
from fedcli.models.adapted import Adapted, Adapters, merged
from fedcli.runs import train as trains
from fedcli.runs.finished import open_run, predict
from fedcli.runs.rules import adapted, check
from fedcli.runs.train_options import TrainOptions

INPUTS = models.Inputs(3, 2, 16, ["healthy", "ill"])
BOTH = dict(adapters="lora:2", local_adapters="lora:1")


def built(local="", name="cnn"):
    adapters = Adapters.of("lora:4:8", local=local)
    return models.build(name, INPUTS, seed=0, extend=adapters.put).eval()


def pairs(net):
    return [module for module in net.modules() if isinstance(module, Adapted)]


def play(method, **options):
    """The state after a round of two toy clients with four images each, and the federation."""
    chosen = check(TrainOptions(method, model="clip-tiny", **options))
    shards = {client: toy_shard(client, 4) for client in ROSTER[:2]}
    federation = toy_federation(chosen, shards=shards)
    return federation.play(federation.first(), ROSTER[:2], federation.clients).state, federation


def planned_run(rounds=3, method="fedavg", **more):
    return planned(method, {}, TRAINING, rounds, **BOTH, **more)


def test_without_a_local_part_it_is_the_network_with_shared_adapters():
    """The limit: a local pair whose A is 0, as at the start, changes no bit of an output or of a shared gradient."""
    shared = built()
    both = built("lora:3")
    x = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    for net in (shared, both):
        for number, layer in enumerate(pairs(net)):
            torch.nn.init.constant_(layer.A, 0.01 * (number + 1))
        net(x).square().sum().backward()
    assert torch.equal(shared(x), both(x))
    gradients = dict(both.named_parameters())
    for name, parameter in shared.named_parameters():
        assert torch.equal(parameter, gradients[name])
        if parameter.requires_grad:
            assert torch.equal(parameter.grad, gradients[name].grad)
    local = [layer.local_pair for layer in pairs(both)]
    assert all(pair.A.grad.any() for pair in local)


def test_a_layer_adds_both_terms():
    """y = W0 x + s x A B + s' x A' B', by hand, and merged into one weight."""
    layer = Adapted(torch.nn.Linear(2, 2, bias=False), 1, 3.0)
    layer.add_local(1, 5.0, None)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(2))
        layer.A.copy_(torch.tensor([[1.0], [0.0]]))
        layer.B.copy_(torch.tensor([[0.0, 1.0]]))
        layer.local_pair.A.copy_(torch.tensor([[0.0], [1.0]]))
        layer.local_pair.B.copy_(torch.tensor([[1.0, 1.0]]))
    x = torch.tensor([[1.0, 10.0]])
    expected = [[1.0 + 50.0, 10.0 + 3.0 + 50.0]]
    assert layer(x).tolist() == expected
    assert layer.merged()(x).tolist() == expected


@pytest.mark.parametrize("local", ["lora:3:6", "svd-lora:3", "lora"])
def test_both_are_merged_into_the_layers_of_a_file(local):
    net = built(local)
    generator = torch.Generator().manual_seed(1)
    for layer in pairs(net):
        for tensor in (layer.A, layer.local_pair.A):
            torch.nn.init.normal_(tensor, std=0.02, generator=generator)
    x = torch.randn(2, 3, 16, 16, generator=generator)
    alone = merged(net)
    names = models.build("cnn", INPUTS, seed=0).state_dict().keys()
    assert alone.state_dict().keys() == names
    assert_close(alone(x), net(x), atol=1e-4, rtol=1e-4)


def test_rank_and_alpha_are_those_of_the_shared_pair_where_none_is_given():
    layer = pairs(built("lora"))[0]
    assert layer.local_pair.A.shape == layer.A.shape
    assert layer.local_pair.scale == layer.scale == 2.0
    layer = pairs(built("lora:2"))[0]
    assert layer.local_pair.scale == 4.0


@pytest.mark.parametrize("method", ["fedavg", "fedism-plus", "fedprox+qffl", "scaffold"])
def test_the_local_part_is_trained_and_never_leaves(method):
    state, federation = play(method, **BOTH)
    shared, _ = play(method, adapters="lora:2")
    layout = federation.layout
    assert state.theta.shape == shared.theta.shape
    assert not any("local_pair" in name for name in layout.weights)
    assert all("local_pair" in name for name in layout.own_shapes)
    names = [
        name for name in layout.own_shapes if name.endswith(".A")
    ]  # B follows in the next step
    north, south = (
        layout.named(state.theta, state.clients[client]["own"]) for client in ROSTER[:2]
    )
    for name in names:
        assert not torch.equal(north[name], south[name])


# how far the shared and the local numbers moved, and how many there are
GOLDEN = [0.024895, 0.069283, 640, 1331]


def test_a_golden_round():
    """Fixed numbers of a round; they move only where the training itself does."""
    state, federation = play("fedavg", **BOTH)
    change = state.theta - federation.first().theta
    own_change = state.clients[ROSTER[0]]["own"] - federation.layout.own_start
    numbers = [float(change.norm()), float(own_change.norm()), len(own_change), len(change)]
    assert numbers == pytest.approx(GOLDEN, rel=1e-3)


def test_the_model_of_all_does_without_it_and_a_client_is_scored_with_its_own(
    tmp_path, monkeypatch
):
    data = make_chain(tmp_path)
    done = train(data, planned_run(), work=tmp_path, out=tmp_path / "runs" / "whole")
    body = json.loads(done.read_text())["body"]
    assert body["model"]["personal_models"]
    assert ", adapters lora:2, local adapters lora:1" in body["label"]
    numbers = read_tensors(done.parent / "models" / "00003.h5")
    for name, tensor in numbers.items():
        if name.endswith("local_pair.A"):
            assert not tensor.any()
    opened = open_run(done)
    images = opened.data.test["clean"]
    of_all = predict(opened, 3, images)
    own = [predict(opened, 3, images, client) for client in ROSTER[:2]]
    for layer in pairs(opened.net):
        layer.local_pair = None
    assert np.array_equal(predict(opened, 3, images), of_all)
    assert not np.array_equal(own[0], own[1])
    assert not np.array_equal(own[0], of_all)
    monkeypatch.setattr(Federation, "play", interrupt_in_round(2))
    with pytest.raises(trains.Interrupted):
        train(data, planned_run(), work=tmp_path, out=tmp_path / "runs" / "cut", checkpoint_every=1)
    monkeypatch.undo()
    cut = train(data, planned_run(), work=tmp_path, out=tmp_path / "runs" / "cut", resume=True)
    assert results(cut.parent) == results(done.parent)


def test_sites_keep_it_and_answer_with_the_shared_part(tmp_path):
    data = chain_with_tests(tmp_path)
    usual = train(data, planned_run(2), work=tmp_path, out=tmp_path / "usual")
    sites = sites_of(data, tmp_path / "sites")
    far = train_at(sites, data, planned_run(2), tmp_path, out=tmp_path / "far")
    one, other = (read_tensors(run.parent / "models" / "00002.h5") for run in (usual, far))
    assert not any(name.startswith("clients/") for name in other)
    for name, tensor in other.items():
        if name.endswith("local_pair.A"):
            assert not tensor.any()
        elif "local_pair" not in name:
            assert torch.equal(tensor, one[name])
    opened = open_run(far)
    answers = predict(opened, 2, opened.data.test["clean"])
    usual_run = open_run(usual)
    assert np.array_equal(answers, predict(usual_run, 2, usual_run.data.test["clean"]))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--local-adapters lora:4 fedavg", "lora:4"),
        ("--local-adapters svd-lora fedavg", "svd-lora"),
        ("--local-adapters=lora:4:8 fedavg", "lora:4:8"),
        ("--local-adapters all fedavg", "all"),
        ("--local-adapters fedavg", "all"),
        ("fedavg --local-adapters --rounds 3", "all"),
        ("fedavg", ""),
    ],
)
def test_the_flag_may_stand_alone_and_takes_no_word_of_others(words, expected):
    plans = []
    run = declare.with_flags(plans.append, (), TrainOptions)
    declare.built(run, cls=Command).main(words.split(), standalone_mode=False)
    assert plans[0].local_adapters == expected
    assert plans[0].method == "fedavg"


def test_a_run_of_an_earlier_version_is_read():
    """It recorded true where all adapters stay."""
    recorded = {"adapters": "lora:8", "local_adapters": True}
    assert adapted(resolve("fedavg"), recorded).adapters == Adapters("lora", 8, all_local=True)
