"""The options of local training that any method can use."""

from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from conftest import ROSTER, play, toy_net, toy_shard
from made_plans import planned
from tapes import AT_CLIENTS, RECORDED, Strict, federation, recorded
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.federation import state as states
from fedcli.federation.client import ClientTask, run_client
from fedcli.federation.engines.in_process import InProcess
from fedcli.federation.engines.pool import WorkerPool
from fedcli.federation.engines.streams import Streams
from fedcli.federation.server import Federation
from fedcli.federation.training import Training
from fedcli.methods import METHODS, resolve
from fedcli.models.layout import Layout
from fedcli.options import describe, values
from fedcli.runs import record, settings
from fedcli.runs.rules import check
from fedcli.runs.train_options import TrainOptions

SGD = Training(optimizer="sgd", lr=0.05, momentum=0.9, weight_decay=0.01, batch_size=8)
EVERYTHING = replace(
    SGD,
    nesterov=True,
    clip_norm=0.5,
    backbone=0.5,
    keep_optimizer=True,
    schedule="step:1:0.5",
    warmup=2,
    loss="focal:2",
    class_weights="balanced",
    label_smoothing=0.1,
)
OF_LOSS = "label_smoothing", "class_weights", "loss"
UNLEARNING = {"fcu"}  # whose first rounds train by no loss on labels
OWN_LOSS = [name for name, method in METHODS.items() if method.local.own_loss]


def training_of(spec: str, training: Training = EVERYTHING) -> Training:
    """The training with the options that the method takes; others have their defaults."""
    usual = {name: getattr(Training, name) for name in OF_LOSS}
    return replace(training, **usual) if resolve(spec).local.own_loss else training


def rates(training, rounds):
    return [training.at(t, rounds).lr for t in range(1, rounds + 1)]


def test_a_step_schedule_multiplies_after_each_of_its_rounds():
    result = rates(Training(lr=1.0, schedule="step:2:0.1"), 4)
    assert result == pytest.approx([1, 1, 0.1, 0.1])
    result = rates(Training(lr=1.0, schedule="step:1,3:0.5"), 4)
    assert result == pytest.approx([1, 0.5, 0.5, 0.25])
    result = rates(Training(lr=1.0), 3)
    assert result == [1.0] * 3


def test_warmup_rises_in_a_line_and_goes_with_every_schedule():
    result = rates(Training(lr=1.0, warmup=4), 6)
    assert result == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])
    result = rates(Training(lr=1.0, warmup=2, schedule="step:1:0.1"), 3)
    assert result == pytest.approx([0.5, 0.1, 0.1])
    cosine = rates(Training(lr=1.0, schedule="cosine"), 4)
    result = rates(Training(lr=1.0, warmup=2, schedule="cosine"), 4)
    expected = [cosine[0] / 2, *cosine[1:]]
    assert result == expected


@pytest.mark.parametrize("warmup", [-1, 10**400])
def test_a_warmup_is_a_number_of_rounds(warmup):
    with pytest.raises(UsageError, match=r"--schedule warmup=.* is out of range"):
        check(planned("fedavg", {}, Training(warmup=warmup)))


def by_torch(kind, *, clip=0.0, rounds=1, keep_state=False, **options):
    """Three full-batch steps a round by torch's own optimizer; the weights after the last round."""
    net = toy_net(dropout=0.0).train()
    batch = next(toy_shard("north").in_order())
    params = list(net.parameters())
    optimizer = kind(params, **options)
    for t in range(rounds):
        optimizer = optimizer if keep_state or not t else kind(params, **options)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(net(batch.x), batch.y).backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(params, clip)
            optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in params])


def by_us(training, rounds=1):
    """Three full-batch steps a round by the client loop; (trained numbers, memory) after the last round."""
    net = toy_net(dropout=0.0)
    layout = Layout(net)
    memory = {}
    theta = layout.read()
    for t in range(1, rounds + 1):
        task = ClientTask("north", 0, t, rounds, 0, theta, {}, memory)
        report = run_client(resolve("fedavg"), net, layout, toy_shard("north"), task, training)
        theta = report.theta
        memory = report.memory
    return theta[: layout.trainable], memory


FULL = {"batch_size": 10_000, "epochs": 3}


@pytest.mark.parametrize(
    ("training", "kind", "options"),
    [
        (
            Training(optimizer="adamw", lr=0.01, weight_decay=0.1, **FULL),
            torch.optim.AdamW,
            {"lr": 0.01, "weight_decay": 0.1},
        ),
        (
            Training(
                optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True, **FULL
            ),
            torch.optim.SGD,
            {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
        ),
        (
            Training(
                optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.0, clip_norm=0.2, **FULL
            ),
            torch.optim.SGD,
            {"lr": 0.1, "momentum": 0.9, "clip": 0.2},
        ),
    ],
)
def test_each_optimizer_is_torchs(training, kind, options):
    assert_close(by_us(training)[0], by_torch(kind, **options), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("training", "kind", "options"),
    [
        (
            Training(optimizer="adam", lr=0.01, weight_decay=0.0, **FULL),
            torch.optim.Adam,
            {"lr": 0.01},
        ),
        (
            Training(optimizer="adamw", lr=0.01, weight_decay=0.1, **FULL),
            torch.optim.AdamW,
            {"lr": 0.01, "weight_decay": 0.1},
        ),
        (
            Training(optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.0, **FULL),
            torch.optim.SGD,
            {"lr": 0.1, "momentum": 0.9},
        ),
    ],
)
def test_a_kept_optimizer_goes_on_where_a_fresh_one_starts_anew(training, kind, options):
    continued, memory = by_us(replace(training, keep_optimizer=True), rounds=2)
    expected = by_torch(kind, rounds=2, keep_state=True, **options)
    assert_close(continued, expected, atol=1e-6, rtol=1e-5)
    fresh, nothing = by_us(training, rounds=2)
    expected = by_torch(kind, rounds=2, **options)
    assert_close(fresh, expected, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(continued, fresh, atol=1e-4)
    assert memory
    for name in memory:
        assert name.startswith("optimizer_")
    assert not nothing


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_a_resumed_run_has_the_kept_optimizers_to_the_bit(optimizer, tmp_path):
    momentum = 0.9 if optimizer == "sgd" else 0.0
    training = replace(SGD, optimizer=optimizer, momentum=momentum, lr=0.01, keep_optimizer=True)
    half = {"training": training, "rounds": 4, "participation": 0.5}
    states.save(tmp_path, play("scaffold", until=2, **half), ROSTER)
    again = states.restore(tmp_path / "00002.h5", ROSTER, "cpu")
    resumed = play("scaffold", state=again, **half)
    whole = play("scaffold", **half)
    assert torch.equal(resumed.theta, whole.theta)
    assert any("optimizer_" in name for memory in whole.clients.values() for name in memory)
    for client, memory in whole.clients.items():
        for name in memory:
            assert torch.equal(memory[name], resumed.clients[client][name])


def test_a_client_with_another_optimizers_state_starts_afresh():
    """That is how a client begins after --resume --force with another optimizer."""
    net = toy_net()
    layout = Layout(net)
    old = {"optimizer_momentum": torch.ones(layout.trainable)}
    training = Training(optimizer="adam", lr=0.01, keep_optimizer=True)
    begun = []
    for memory in (old, {}):
        task = ClientTask("north", 0, 2, 3, 0, Layout(toy_net()).read(), {}, memory)
        report = run_client(resolve("fedavg"), net, layout, toy_shard("north"), task, training)
        begun.append(report)
    assert torch.equal(begun[0].theta, begun[1].theta)
    expected = begun[1].memory.keys()
    assert begun[0].memory.keys() == expected


@pytest.mark.parametrize("spec", AT_CLIENTS)
def test_every_method_trains_with_all_of_them_and_a_recording_has_the_same_bits(spec, monkeypatch):
    """No step of the recording waits for the device; test_steps.py records without these options."""
    training = training_of(spec)
    shards = federation("affine-flip")
    usual = play(spec, training=training, shards=shards, dropout=0.0, until=2)
    assert usual.theta.isfinite().all()
    for client in ROSTER:
        assert "optimizer_momentum" in usual.clients[client]
    if spec in RECORDED:
        state, captures = recorded(
            monkeypatch, Strict, spec, training=training, shards=shards, dropout=0.0, until=2
        )
        assert captures >= 1
        assert torch.equal(state.theta, usual.theta)
        assert states.equal(state.clients, usual.clients)


@pytest.mark.parametrize("spec", AT_CLIENTS)
def test_every_method_takes_another_loss_or_refuses_it(spec):
    """Each method is refused, or takes, every option; it trains with one, methods taking turns, and FedAvg with all."""
    for turn, name in enumerate(OF_LOSS):
        trained = spec == "fedavg" or turn == AT_CLIENTS.index(spec) % len(OF_LOSS)
        takes_or_refuses(spec, name, trained)


def takes_or_refuses(spec, name, trained):
    value = {"label_smoothing": 0.1, "class_weights": "effective:0.9", "loss": "focal:2"}[name]
    training = replace(SGD, **{name: value})
    model = "clip-tiny" if resolve(spec).local.model else "cnn"
    if spec in OWN_LOSS:
        typed = describe(TrainOptions)[name].typed
        with pytest.raises(UsageError, match=f"{spec} has its own loss, so --{typed}"):
            check(planned(spec, {}, training, 1, model=model))
        return
    check(planned(spec, {}, training, 1, model=model))
    if trained and spec not in UNLEARNING:
        assert not torch.equal(after_a_round(spec, training), after_a_round(spec, SGD))


@cache
def after_a_round(spec, training):
    shards = {client: toy_shard(client, 12) for client in ROSTER}
    return play(spec, training=training, rounds=1, dropout=0.0, shards=shards).theta


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "step:40"}, "--schedule 'step:40' is not step:ROUND"),
        ({"schedule": "step:0:0.1"}, "--schedule 'step:0:0.1' is not step:ROUND"),
        ({"schedule": "linear"}, "--schedule 'linear' is unknown"),
        ({"loss": "focal"}, "--loss 'focal' is unknown"),
        ({"loss": "focal:x"}, "--loss focal:x: 'x' is not a number above 0"),
        ({"loss": "hinge"}, "--loss 'hinge' is unknown"),
        ({"class_weights": "effective:1"}, "--class-weights effective:1: '1' is not in"),
        ({"class_weights": "inverse"}, "--class-weights 'inverse' is unknown"),
        ({"label_smoothing": 1.0}, "--loss smoothing=1.0 is out of range"),
        ({"clip_norm": -1.0}, "--optimizer clip=-1.0 is out of range"),
        ({"warmup": -1}, "--schedule warmup=-1 is out of range"),
        ({"nesterov": True}, "nesterov needs a momentum"),
        ({"momentum": 0.9}, "momentum needs the optimizer sgd"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options, message):
    with pytest.raises(UsageError) as error:
        check(planned("fedavg", {}, Training(**options)))
    assert str(error.value).startswith(message)
    assert error.value.hint


@pytest.mark.parametrize(
    ("loss", "hint"),
    [
        ("focal", "focal needs a number: focal:2"),
        ("fokal:2", "did you mean 'focal'? (focal needs a number: focal:2)"),
        ("cross-entropy:2", "cross-entropy takes no number; focal needs a number: focal:2"),
    ],
)
def test_the_hint_for_a_loss_says_which_part_is_wrong(loss, hint):
    with pytest.raises(UsageError) as error:
        check(planned("fedavg", {}, Training(loss=loss)))
    assert error.value.hint == hint


def test_a_run_records_every_option_that_decides_its_bytes_and_reads_it_again():
    everything = replace(
        EVERYTHING, sampling="class", dp_clip=2.0, dp_noise=0.5, dp_delta=1e-6, dp_sgd=1.5
    )
    plan = planned("fedavg", {}, everything, 3, engine=None)
    recorded = settings.options(plan, resolve("fedavg"), None)
    expected = values(everything)
    del expected["dp"]  # a way to write the other four
    assert {name: recorded[name] for name in expected} == expected
    assert settings.plan_of(recorded) == plan
    words = settings.command(recorded)
    assert "focal:2" in words[words.index("--loss") + 1]
    of_optimizer = words[words.index("--optimizer") + 1]
    assert of_optimizer.startswith("sgd:momentum=")
    assert {"nesterov", "keep"} <= set(of_optimizer.split(":")[1].split(","))
    assert words[words.index("--dp") + 1] == "client:0.5,image=1.5,clip=2.0,delta=1e-06"


def test_where_optimizers_are_kept_every_client_trains_also_under_a_rule_that_keeps_one_model():
    state = play("afl", {"rule": "released"}, training=replace(SGD, keep_optimizer=True), rounds=1)
    assert set(state.clients) == set(ROSTER)


@pytest.mark.parametrize(
    "open_engine",
    [lambda clients: WorkerPool(clients, 2, len(ROSTER)), lambda clients: Streams.of(clients, 3)],
)
def test_every_engine_comes_to_the_same_bits(open_engine):
    method = resolve("scaffold")
    shards = federation("flip")
    usual = play("scaffold", training=EVERYTHING, shards=shards)
    net = toy_net(extend=method.local.extend)
    clients = InProcess(method, net, Layout(net), shards, EVERYTHING)
    engine = open_engine(clients)
    together = Federation(clients, rounds=3, seed=1)
    state = together.first()
    with engine if isinstance(engine, WorkerPool) else nullcontext():
        for _ in range(3):
            state = together.play(state, engine=engine).state
    assert torch.equal(state.theta, usual.theta)
    for client in ROSTER:
        for name, value in usual.clients[client].items():
            assert torch.equal(state.clients[client][name], value)


def test_a_run_with_another_loss_says_so_in_its_label():
    plain, other = (
        SimpleNamespace(
            plan=planned("fedavg", {}, training, 3),
            method=resolve("fedavg"),
            data=SimpleNamespace(body={}),
        )
        for training in (SGD, EVERYTHING)
    )
    assert record._label(plain) == "FedAvg"
    assert (
        record._label(other) == "FedAvg, focal:2 loss, balanced class weights, 0.1 label smoothing"
    )


@pytest.mark.parametrize("spec", METHODS)
def test_a_method_of_one_learning_rate_refuses_a_smaller_one_of_the_backbone(spec):
    method = resolve(spec)
    if not (method.local.one_rate or method.aggregator.one_rate):
        return
    options = TrainOptions(spec, optimizer="sgd", backbone=0.5)
    with pytest.raises(UsageError, match=f"{spec} leaves the backbone no learning rate"):
        check(options)
    check(replace(options, backbone=1.0))


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"freeze_backbone": True}, "--freeze-backbone"),
        ({"adapters": "lora:8"}, "--adapters"),
    ],
)
def test_a_backbone_that_does_not_train_has_no_learning_rate(options, culprit):
    with pytest.raises(UsageError, match=f"{culprit} leaves the backbone"):
        check(TrainOptions("fedavg", backbone=0.5, **options))
