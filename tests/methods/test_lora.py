"""LoRA and SVD-LoRA on CLIP: what trains, what travels, how it is averaged."""

import numpy as np
import pytest
import torch
from conftest import CLASSES, ROSTER, client_updates, make_chain, play, toy_clip, toy_net, toy_shard
from made_plans import planned, train
from numpy.testing import assert_allclose
from torch import nn
from torch.testing import assert_close

import fedcli.methods.lora  # noqa: F401 - importing registers
from fedcli import models
from fedcli.errors import UsageError
from fedcli.federation import state as states
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.models.adapted import Adapted, adaptable
from fedcli.models.clip import ClipNetwork
from fedcli.models.layout import Layout
from fedcli.runs.finished import logits, open_run
from fedcli.scores.answering import predictions

BOTH = pytest.mark.parametrize("spec", ["lora", "svd-lora"])


def clip(name, spec, settings=None, channels=1, device="cpu"):
    """A CLIP network of this name as the method extends it."""
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(0)
        net = ClipNetwork(name, channels, ["healthy", "ill"])
        net.attributes = {"race": ["asian", "black", "white"]}
        resolve(spec, settings).local.extend(net)
    return net


def count(net, *endings, inside=""):
    """Numbers that train in tensors with these endings, below some modules."""
    return sum(
        p.numel()
        for n, p in net.named_parameters()
        if p.requires_grad and n.endswith(endings) and inside in n
    )


@pytest.mark.parametrize(("spec", "adapters"), [("lora", 1_105_920), ("svd-lora", 1_106_208)])
def test_the_vision_transformer_has_24_adapters_of_the_known_size(spec, adapters):
    """Shapes alone, no memory: 24 adapters of rank 12, two contexts of 4 x 512."""
    net = clip("clip-vit-b16", spec, channels=3, device="meta")
    result = sum(isinstance(m, Adapted) for m in net.modules())
    assert result == 24
    assert count(net, ".A", ".B", ".S") == adapters
    expected = adapters + 2 * 4 * 512
    assert count(net, "") == expected


def test_the_resnet_has_adapters_on_convolutions_and_pool_and_trains_its_norms():
    net = clip("clip-rn50", "lora", channels=3, device="meta")
    result = sum(isinstance(m, Adapted) for m in net.modules())
    assert result == 32 + 4
    assert count(net, ".A", ".B", inside="attnpool") == 491_520
    assert count(net, "weight", "bias") == 53_248
    result = net.backbone.visual.layer1[0].conv1.scale
    assert result == 8 / 32
    result = count(clip("clip-rn50", "svd-lora", device="meta"), ".S")
    assert result == 32 * 32  # the pool stays plain


def test_of_a_volume_the_projection_of_slices_trains_as_well():
    net = clip("clip-tiny", "lora", channels=16)
    assert count(net, "", inside="slices") == 603
    net.eval()
    generator = torch.Generator().manual_seed(0)
    result = net(torch.randn(2, 16, 8, 8, generator=generator)).shape
    assert result == (2, 2)


@BOTH
def test_only_what_trains_travels(spec):
    extend = resolve(spec).local.extend
    layout = Layout(toy_clip(extend=extend))
    ends = {name.rpartition(".")[2] for name in layout.shapes}
    expected = {"A", "B", "0", "1"} | ({"S"} if spec == "svd-lora" else set())
    assert ends == expected
    assert layout.size == layout.trainable
    assert layout.own_shapes == {}


def test_what_is_frozen_stays_to_the_last_bit():
    method = resolve("lora")
    net = toy_clip(extend=method.local.extend)
    layout = Layout(net)
    still = {name: p.clone() for name, p in net.named_parameters() if not p.requires_grad}
    task = ClientTask("north", 0, 1, 1, 0, layout.read(), {}, {})
    training = Training(optimizer="sgd", lr=0.1)
    report = run_client(method, net, layout, toy_shard("north"), task, training)
    now = dict(net.named_parameters())
    assert still
    for name, p in still.items():
        assert torch.equal(now[name], p)
    changed = layout.named(report.theta - task.theta)
    assert all(
        change.any() for name, change in changed.items() if name.endswith((".A", ".0", ".1"))
    )


@pytest.mark.parametrize(
    ("name", "settings", "rank", "scale"),
    [
        ("clip-tiny", {}, 12, 2 / 12),
        ("clip-tiny-rn", {}, 32, 8 / 32),
        ("clip-tiny", {"rank": 4}, 4, 2 / 4),
        ("clip-tiny-rn", {"rank": 4, "alpha": 1}, 4, 1 / 4),
    ],
)
def test_rank_and_alpha_are_the_backbones_usual_unless_given(name, settings, rank, scale):
    layers = [m for m in clip(name, "lora", settings).modules() if isinstance(m, Adapted)]
    result = {(m.A.shape[1], m.B.shape[0], m.scale) for m in layers}
    assert result == {(rank, rank, scale)}


def test_singular_values_start_from_1_down_to_a_tenth():
    net = clip("clip-tiny", "svd-lora", {"rank": 4})
    expected = torch.tensor([1.0, 0.7, 0.4, 0.1])
    starts = [m.S for m in net.modules() if isinstance(m, Adapted)]
    assert len(starts) == 4
    for s in starts:
        assert torch.allclose(s, expected)


@BOTH
@pytest.mark.parametrize("name", ["clip-tiny", "clip-tiny-rn"])
def test_before_training_the_adapters_change_no_logit(spec, name):
    net = clip(name, spec).eval()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 1, 8, 8, generator=generator)
    logits = net(x)
    with torch.no_grad():
        for module in (m for m in net.modules() if isinstance(m, Adapted)):
            module.scale = 0.0
    assert torch.equal(net(x), logits)


def other(name, spec, side=32, settings=None):
    """Any network under a method, and what it is built for."""
    attributes = {"race": ["asian", "black", "white"]}
    inputs = models.Inputs(3, 2, side, ["healthy", "ill"], attributes)
    extend = resolve(spec, settings).local.extend
    return models.build(name, inputs, seed=0, extend=extend), inputs


@pytest.mark.parametrize(
    ("name", "adapters", "spec"),
    [
        ("cnn", 2, "lora"),
        ("resnet10", 11, "svd-lora"),
        ("torchvision:shufflenet_v2_x0_5", 36, "fairlora"),
        ("torchvision:squeezenet1_1", 24, "lora"),
        ("timm:test_vit", 24, "lora"),
        ("timm:test_vit", 24, "svd-lora"),
        ("timm:test_vit", 24, "fairlora"),
        ("timm:test_convnext", 21, "fairlora"),
        ("timm:test_efficientnet", 14, "fairlora"),
        ("timm:test_resnet", 14, "fairlora"),
    ],
)
def test_on_any_network_adapters_stand_beside_its_layers(name, adapters, spec):
    if name.startswith("timm:"):
        pytest.importorskip("timm")
    net, inputs = other(name, spec)
    plain = models.build(name, inputs, seed=0)
    result = sum(isinstance(module, Adapted) for module in net.modules())
    assert result == adapters
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, 32, 32, generator=generator)
    assert torch.equal(net.eval()(x), plain.eval()(x))  # A starts at 0
    norms = [n for n, m in plain.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    trains = {n for n, p in net.named_parameters() if p.requires_grad}
    for n in trains:
        assert n.endswith((".A", ".B", ".S")) or n.startswith(("head.", *norms))
    assert {"head.weight", "head.bias"} <= trains
    assert {f"{norm}.weight" for norm in norms} <= trains
    for norm in norms:
        nn.init.ones_(net.get_submodule(norm).weight)  # timm starts the last of each block at 0
    net.train()(x).square().sum().backward()
    assert all(p.grad.any() for n, p in net.named_parameters() if n.endswith(".A")), (
        "every adapter is used"
    )


@pytest.mark.parametrize(("name", "adapters"), [("vit_b_16", 24), ("swin_t", 27)])
@pytest.mark.filterwarnings("ignore")
def test_layers_whose_tensors_others_read_get_no_adapter(name, adapters):
    """Shapes alone: torchvision's attention reads the weights of its projections and does not call them."""
    with torch.device("meta"):
        net, _ = other(f"torchvision:{name}", "lora")
    result = sum(isinstance(module, Adapted) for module in net.modules())
    assert result == adapters
    assert not [
        n
        for n, m in net.named_modules()
        if isinstance(m, Adapted) and n.endswith(("qkv", "out_proj"))
    ]


def test_rank_and_alpha_are_those_of_the_kind_of_network_that_most_layers_make():
    ranks = {name: other(name, "lora")[0] for name in ("cnn", "clip-tiny")}
    scales = {}
    for name, net in ranks.items():
        adapted = next(module for module in net.modules() if isinstance(module, Adapted))
        scales[name] = adapted.scale
    expected = {"cnn": 8 / 32, "clip-tiny": 2 / 12}
    assert scales == expected


def test_a_layer_that_takes_images_in_its_second_dimension_gets_no_adapter():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.turned = nn.Linear(4, 4)
            self.straight = nn.Linear(4, 4)

        def forward(self, x):
            rows = x.flatten(2).transpose(0, 1)  # [C, B, 4]
            return self.straight(self.turned(rows).transpose(0, 1)).mean(1)

    net = models.Network(Turned(), 4, 2)
    net.channels, net.side = 3, 2
    assert adaptable(net)["mlp"] == ["straight"]


@BOTH
def test_a_network_without_a_layer_for_adapters_is_refused(spec):
    with pytest.raises(
        UsageError, match="no linear layer or convolution that an adapter could be added to"
    ) as error:
        toy_net(extend=resolve(spec).local.extend)
    assert "--model" in error.value.hint


class Two(nn.Module):
    """An adapter and one other number."""

    def __init__(self, singular=None):
        super().__init__()
        base = nn.Linear(3, 3)
        self.layer = Adapted(base, 2, 1.0, singular)
        self.other = nn.Parameter(torch.zeros(1))


def averaged(settings, t, spec="lora", singular=None):
    """New, old and sent models by tensor name after round t of 50, of clients with 3 images and 1."""
    layout = Layout(Two(singular))
    rng = torch.Generator().manual_seed(t)
    theta = torch.randn(layout.size, generator=rng)
    sent = torch.randn(2, layout.size, generator=rng)
    memory = {}
    table = client_updates(sent, layout=layout, t=t, rounds=50, n=[3.0, 1.0])
    new, weights = resolve(spec, settings).aggregator.aggregate(theta, table, memory)
    assert weights.tolist() == [0.75, 0.25]
    return (
        layout.named(new),
        layout.named(theta),
        [layout.named(theta_sent) for theta_sent in sent],
        memory,
    )


@pytest.mark.parametrize(("t", "beta"), [(1, 0.0), (2, 0.01998), (26, 0.4995), (50, 0.97902)])
@pytest.mark.parametrize(
    ("settings", "everything"),
    [
        ({"rule": "paper"}, False),
        ({"rule": "released"}, True),
        ({"ema_of": "all"}, True),
        ({"rule": "released", "ema_of": "factors"}, False),
    ],
)
def test_the_moving_average_by_hand(t, beta, settings, everything):
    """b = 0.999 (t - 1) / T: of the factors, or of all."""
    new, old, (sent, other_sent), _ = averaged(settings, t)
    for name in new:
        b = beta if everything or name != "other" else 0
        expected = (1 - b) * (0.75 * sent[name] + 0.25 * other_sent[name]) + b * old[name]
        assert_close(new[name], expected, atol=1e-6, rtol=1e-5)


def test_without_it_the_average_is_fedavgs():
    new, _, (sent, other_sent), _ = averaged({"ema": False}, 30)
    for name in new:
        expected = 0.75 * sent[name] + 0.25 * other_sent[name]
        assert torch.allclose(new[name], expected)


def delta(model):
    a = model["layer.A"].double().numpy()
    b = model["layer.B"].double().numpy()
    return a @ np.diag(model["layer.S"].double().numpy() if "layer.S" in model else np.ones(2)) @ b


@pytest.mark.parametrize("singular", [None, torch.tensor([1.0, 0.1])])
def test_exact_averages_the_products_and_has_no_moving_average(singular):
    spec = "svd-lora" if singular is not None else "lora"
    new, _, (sent, other_sent), memory = averaged({"exact": True}, 30, spec, singular)
    u, sigma, v = np.linalg.svd(0.75 * delta(sent) + 0.25 * delta(other_sent))
    expected = u[:, :2] * sigma[:2] @ v[:2]
    assert_allclose(delta(new), expected, atol=1e-5)
    expected = 0.75 * sent["other"] + 0.25 * other_sent["other"]
    assert_close(new["other"], expected)
    assert memory["exact_loss"].ndim == 0
    expected = pytest.approx(sigma[2] / np.sqrt((sigma**2).sum()), rel=1e-4)
    assert float(memory["exact_loss"]) == expected


@BOTH
def test_exact_with_one_client_is_its_own_product(spec):
    alone = {"roster": ROSTER[:1], "rounds": 1}
    extend = resolve(spec).local.extend
    layout = Layout(toy_clip(extend=extend))
    exact, plain = (
        layout.named(play(spec, settings, **alone).theta) for settings in ({"exact": True}, {})
    )
    for stem in (name.removesuffix(".A") for name in layout.shapes if name.endswith(".A")):
        models = []
        for tensors in (exact, plain):
            roles = [role for role in "ABS" if f"{stem}.{role}" in tensors]
            file = {f"layer.{role}": tensors[f"{stem}.{role}"] for role in roles}
            models.append(file)
        products = [
            m["layer.A"] @ torch.diag(m.get("layer.S", torch.ones(12))) @ m["layer.B"]
            for m in models
        ]  # each [in, out]
        assert products[1].any()
        assert_close(*products, atol=1e-5, rtol=1e-4)


@BOTH
@pytest.mark.parametrize("settings", [{}, {"exact": True, "rule": "released"}])
def test_it_resumes_to_the_same_bits_from_disk(spec, settings, tmp_path):
    small = {"roster": ROSTER[:2], "rounds": 2}
    states.save(tmp_path, play(spec, settings, until=1, **small), ROSTER[:2])
    path = states.saved(tmp_path)[-1]
    roster = ROSTER[:2]
    again = states.restore(path, roster, "cpu")
    result = play(spec, settings, state=again, **small).theta
    expected = play(spec, settings, **small).theta
    assert torch.equal(result, expected)


def test_the_resnet_trains_and_its_statistics_travel():
    method = resolve("svd-lora")
    net = clip("clip-tiny-rn", "svd-lora")
    layout = Layout(net)
    result = {n.rpartition(".")[2] for n in layout.shapes}
    assert result >= {
        "running_mean",
        "running_var",
        "A",
        "B",
        "S",
    }
    start = layout.read()
    shard = toy_shard("north", 8, absent=2)
    task = ClientTask("north", 0, 1, 1, 0, start, {}, {})
    training = Training(optimizer="sgd", lr=0.01)
    report = run_client(method, net, layout, shard, task, training)
    moved = layout.named(report.theta - start)
    assert report.theta.isfinite().all()
    assert all(
        moved[n].any()
        for n in moved
        if n.endswith(("attnpool.v_proj.A", "layer1.0.conv3.A", "running_mean"))
    )


@pytest.mark.parametrize(("model", "spec"), [("clip-tiny", "lora"), ("cnn", "fairlora")])
def test_a_run_opened_again_scores_as_the_network_that_trained(model, spec, tmp_path):
    """Whatever is frozen comes back, from another seed: single tensors of a module that trains in part as well."""
    training = Training(optimizer="sgd", lr=0.1, batch_size=8)
    plan = planned(spec, {}, training, 1, seed=3, model=model)
    path = train(make_chain(tmp_path), plan, work=tmp_path, out=None)
    run = open_run(path)
    attributes = {"sex": ["f", "m"]}
    inputs = models.Inputs(1, CLASSES, 8, run.data.classes, attributes)
    extend = run.method.local.extend
    net = models.build(model, inputs, seed=3, extend=extend)
    scored = predictions(run)["clean"][0][0]
    layout = Layout(net)
    layout.load(run.layout.read())
    classes = run.data.test["clean"]
    expected = logits(net, classes, run.method.local)
    assert_allclose(scored, expected, atol=1e-5)
