"""--adapters: any method trains adapters in a frozen network, and says where that has no meaning."""

import json

import numpy as np
import pytest
import torch
from conftest import CLASSES, ROSTER, interrupt_in_round, make_chain
from made_plans import TRAINING, planned, results, train
from torch.testing import assert_close

from fedcli import models
from fedcli.bench.toy import toy_federation, toy_shard
from fedcli.errors import UsageError
from fedcli.federation.client import Training
from fedcli.federation.server import Federation
from fedcli.federation.state import read_tensors
from fedcli.methods import METHODS, resolve
from fedcli.models.adapted import Adapted, Adapters, merged
from fedcli.runs import train as trains
from fedcli.runs.finished import open_run, predict
from fedcli.runs.rules import check
from fedcli.runs.train_options import TrainOptions

ANY = [
    name
    for name, method in METHODS.items()
    if not (method.local.freezes or method.local.all_weights)
]


def run(folder, method="fedavg", settings=None, rounds=1, **options):
    data = (
        make_chain(folder)
        if not (folder / "partition").exists()
        else next(folder.rglob("partition.json"))
    )
    plan = planned(method, settings or {}, TRAINING, rounds, **options)
    return train(data, plan, work=folder, out=None)


def made(name="cnn", text="lora:4", layers="", trained=True, side=32):
    """A network with adapters, their A no longer 0 where it was trained, and the same network without."""
    inputs = models.Inputs(3, 2, side, ["healthy", "ill"])
    with torch.random.fork_rng():
        torch.manual_seed(1)
        net = models.build(name, inputs, seed=0, extend=Adapters.of(text, layers).put)
        for layer in (m for m in net.modules() if isinstance(m, Adapted) and trained):
            torch.nn.init.normal_(layer.A, std=0.01)
        return net.eval(), models.build(name, inputs, seed=0).eval(), torch.randn(2, 3, side, side)


def play(method, training=None, **options):
    """The model after a round of two toy clients with four images each, and the federation."""
    chosen = check(TrainOptions(method, **{"model": "clip-tiny"} | options))
    shards = {client: toy_shard(client, 4) for client in ROSTER[:2]}
    federation = toy_federation(chosen, shards=shards, training=training)
    return federation.play(federation.first(), ROSTER[:2], federation.clients).state, federation


@pytest.mark.parametrize("method", ANY)
def test_every_method_trains_a_round_of_adapters(method):
    state, federation = play(method, adapters="lora:2")
    trained = {name.rpartition(".")[2] for name in federation.layout.weights if ".visual." in name}
    assert state.theta.isfinite().all()
    assert trained == {"A", "B"}
    assert (
        federation.layout.size < 4000 < sum(p.numel() for p in federation.clients.net.parameters())
    )


@pytest.mark.parametrize("option", [{"adapters": "lora:2"}, {"freeze_backbone": True}])
def test_a_method_that_changes_all_weights_is_refused_where_most_are_frozen(option):
    with pytest.raises(UsageError, match="fcu changes all weights") as raised:
        check(TrainOptions("fcu", **option))
    assert raised.value.hint.startswith("leave --")


@pytest.mark.parametrize("method", ["lora", "svd-lora"])
def test_fedavg_on_adapters_is_the_method_without_its_moving_average(method, tmp_path):
    """To the bit; the layers of the small CNN have 8 * 9 * 16 and 16 * 9 * 32 weights, its classifier 32 * 3."""
    option_folder = tmp_path / "option"
    method_folder = tmp_path / "named"
    option_folder.mkdir(), method_folder.mkdir()
    of_option = run(option_folder, adapters=f"{method}:4:2")
    of_method = run(method_folder, method, {"rank": 4, "alpha": 2, "ema": False})
    for name in ("00001.h5", "frozen.h5"):
        with_option, with_method = (
            read_tensors(path.parent / "models" / name) for path in (of_option, of_method)
        )
        assert with_option.keys() == with_method.keys()
        for key in with_option:
            assert torch.equal(with_option[key], with_method[key])
    record = json.loads(of_option.read_text())
    assert record["options"]["adapters"] == f"{method}:4:2"
    assert "local_adapters" not in record["options"]
    assert f", adapters {method}:4:2" in record["body"]["label"]


def test_fedavg_on_prompts_is_promptfl():
    (option, _) = play("fedavg", adapters="prompt:4")
    (method, _) = play("promptfl")
    assert torch.equal(option.theta, method.theta)
    assert option.theta.numel() == 4 * 32


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_private_steps_are_of_what_trains_alone():
    private = Training(optimizer="sgd", lr=0.1, batch_size=4, dp_sgd=1.0)
    state, federation = play("fedavg", private, adapters="lora:2", dp_sgd=1.0)
    moved = federation.layout.named(state.theta - federation.first().theta)
    for change in moved.values():
        assert change.any()
        assert change.isfinite().all()


def test_a_run_sends_less_leaves_what_is_frozen_and_is_scored_and_resumed(tmp_path, monkeypatch):
    whole = json.loads(run(tmp_path).read_text())["body"]
    done = run(tmp_path, "fedheal", rounds=3, adapters="svd-lora:2", local_adapters="all")
    body = json.loads(done.read_text())["body"]
    assert body["bytes_up"] < whole["bytes_up"] / 5
    assert body["model"]["personal"]
    for name in body["model"]["personal"]:
        assert name.endswith((".A", ".B", ".S"))
    assert body["model"]["personal_models"]
    assert "adapters" not in json.dumps(whole)
    opened = open_run(done)
    inputs = models.Inputs(1, CLASSES, 8)
    start = models.build("cnn", inputs, seed=0).state_dict()
    frozen = read_tensors(done.parent / "models" / "frozen.h5")
    assert frozen
    for name, tensor in frozen.items():
        assert torch.equal(tensor, start[name.removeprefix("model/")])
    logits, other_logits = (
        predict(opened, 3, opened.data.test["clean"], client) for client in ROSTER[:2]
    )
    assert np.isfinite(logits).all()
    assert not np.array_equal(logits, other_logits)
    numbers = read_tensors(done.parent / "models" / "00003.h5")
    assert not torch.equal(numbers["clients/0/own"], numbers["clients/1/own"])
    plan = planned("fedheal", {}, TRAINING, 3, adapters="svd-lora:2", local_adapters="all")
    data = next(tmp_path.rglob("partition.json"))
    monkeypatch.setattr(Federation, "play", interrupt_in_round(2))
    with pytest.raises(trains.Interrupted):
        train(data, plan, work=tmp_path, out=tmp_path / "runs" / "cut", checkpoint_every=1)
    monkeypatch.undo()
    cut = train(data, plan, work=tmp_path, out=tmp_path / "runs" / "cut", resume=True)
    assert results(cut.parent) == results(done.parent)


@pytest.mark.parametrize(
    ("name", "text"), [("cnn", "svd-lora:4"), ("clip-tiny", "lora:2:4"), ("timm:test_vit", "lora")]
)
def test_merged_into_the_layers_it_is_the_same_network_under_its_own_names(name, text):
    if name.startswith("timm:"):
        pytest.importorskip("timm")
    net, base, x = made(name, text)
    alone = merged(net)
    assert alone.state_dict().keys() == base.state_dict().keys()
    assert not torch.equal(alone(x), base(x))
    assert_close(alone(x), net(x), atol=1e-5, rtol=1e-4)
    untrained = merged(made(name, text, trained=False)[0]).state_dict()
    for key, tensor in base.state_dict().items():
        assert torch.equal(tensor, untrained[key])


def test_alpha_scales_what_adapters_add():
    (once, base, _) = made(text="lora:4:2")
    (thrice, _, _) = made(text="lora:4:6")
    of_once = merged(once).state_dict()
    of_thrice = merged(thrice).state_dict()
    for name, tensor in base.state_dict().items():
        expected = 3 * (of_once[name] - tensor)
        assert_close(of_thrice[name] - tensor, expected, atol=1e-5, rtol=1e-4)


def test_layers_are_chosen_by_the_ends_of_their_names():
    pytest.importorskip("timm")
    names = {
        name
        for name, m in made("timm:test_vit", layers="qkv,mlp.fc1")[0].named_modules()
        if isinstance(m, Adapted)
    }
    assert len(names) == 12
    result = {name.rpartition(".")[2] for name in names}
    assert result == {"qkv", "fc1"}
    with pytest.raises(UsageError, match="no layer that takes an adapter is named 'q'") as error:
        made("timm:test_vit", layers="q")
    assert "qkv" in error.value.hint


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"adapters": "lora:0"}, "'lora:0' is not a rank from 1 to 4096"),
        ({"adapters": "lora:x"}, "'lora:x' has no number where one belongs"),
        ({"adapters": "lora:8:0"}, "alpha is not above 0"),
        ({"adapters": "lora:8:1:2"}, "is not a rank"),
        ({"adapters": "dora"}, "'dora' is unknown"),
        (
            {"adapters": "prompt:4", "adapter_layers": "qkv"},
            "layers= of --adapters is for lora and svd-lora",
        ),
        ({"local_adapters": "all"}, "--local-adapters needs adapters"),
        ({"local_adapters": "lora:4"}, "--local-adapters needs adapters"),
        (
            {"adapters": "lora", "local_adapters": "lora:0"},
            "--local-adapters 'lora:0' is not a rank from 1 to 4096",
        ),
        ({"adapters": "lora", "local_adapters": "dora"}, "--local-adapters 'dora' is unknown"),
        ({"adapters": "prompt", "local_adapters": "lora:4"}, "low-rank adapters on both sides"),
        ({"adapters": "lora", "local_adapters": "prompt"}, "low-rank adapters on both sides"),
        (
            {"adapters": "lora", "freeze_backbone": True},
            "--freeze-backbone freezes the network itself",
        ),
        ({"adapters": "lora", "method": "fairlora"}, "fairlora freezes the network itself"),
        (
            {"adapters": "prompt", "method": "moon"},
            "moon needs a linear classifier, which prompts replace",
        ),
        (
            {"adapters": "lora", "local_adapters": "all", "single_site": True},
            "--single-site never sends",
        ),
        (
            {"adapters": "lora", "local_adapters": "all", "method": "ditto"},
            "ditto has its own rule for what stays",
        ),
        (
            {"adapters": "lora", "local_adapters": "all", "data": "nonsense"},
            "no value of --local-adapters: nonsense",
        ),
        ({"adapters": "lora", "then": "crt"}, "needs a backbone that --adapters does not train"),
    ],
)
def test_what_has_no_meaning_is_refused_in_a_sentence(options, sentence):
    with pytest.raises(UsageError, match=sentence):
        check(TrainOptions(**{"method": "fedavg", "model": "clip-tiny"} | options))


def test_where_all_that_trains_would_stay_at_the_clients_nothing_is_left_to_share():
    with pytest.raises(UsageError, match="nothing would be shared"):
        play("fedavg", adapters="prompt", local_adapters="all")


def test_an_option_that_is_off_is_not_recorded():
    assert (
        not {"adapters", "adapter_layers", "local_adapters"}
        & planned("fedavg", {}, TRAINING).decided().keys()
    )
    on = planned("fedavg", {}, TRAINING, adapters="lora:8", local_adapters="all", engine=None)
    assert TrainOptions.of(on.decided()) == on
    assert resolve("fedavg").adapters is None
