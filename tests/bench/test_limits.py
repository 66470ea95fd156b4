"""Counts of a training, and a run's sentences about its limits."""

import json

import pytest
import torch
from conftest import make_chain
from made_plans import planned

from fedcli.bench import limits
from fedcli.federation.training import Training
from fedcli.reporting import timing
from fedcli.runs.assembly import assemble
from fedcli.runs.rules import check

ROUND = {
    "round": 1,
    "seconds": 10.0,
    "client_seconds": 8.0,
    "evaluation_seconds": 1.0,
    "writing_seconds": 0.5,
    "images_per_second": 200.0,
    "peak_bytes": 10**9,
}
LIMITS = {
    "flops_per_image": 1e8,
    "bytes_per_image": 1e7,
    "flops_per_second": 45e9,
    "bytes_per_second": 9e9,
}


def federation_of(folder, method, settings=None):
    plan = planned(method, settings or {}, Training(batch_size=4), rounds=3)
    return assemble(make_chain(folder), plan, check(plan))


def test_a_product_has_two_operations_for_each_pair_and_a_sum_moves_three_arrays():
    a = torch.ones(3, 5)
    b = torch.ones(5, 7)
    expected = (2 * 3 * 5 * 7, 4 * (15 + 35 + 21))
    result = limits.counted(lambda: a @ b)
    assert result == expected
    result = limits.counted(lambda: a + a)
    expected = (0, 4 * 3 * 15)
    assert result == expected
    result = limits.counted(lambda: a.t()[1:3].view(2, 3))
    assert result == (0, 0)


def test_training_costs_a_forward_pass_and_at_most_two_more_going_back(tmp_path):
    federation = federation_of(tmp_path, "fedavg")
    shard = next(iter(federation.data.train.values()))
    batch = shard.batch(torch.arange(4))
    forward, _ = limits.counted(lambda: federation.net(batch.x))
    operations, moved = limits.cost(federation)
    assert 2 * forward / 4 < operations < 3 * forward / 4  # the images themselves need no gradient
    assert moved > 4 * batch.x[0].numel()


def test_perturbed_steps_cost_twice_as_much_and_more(tmp_path):
    plain, _ = limits.cost(federation_of(tmp_path / "plain", "fedavg"))
    perturbed, _ = limits.cost(federation_of(tmp_path / "perturbed", "fedism-plus"))
    assert perturbed > 2 * plain


def test_what_the_server_computes_is_no_part_of_it(tmp_path):
    fedavg = limits.cost(federation_of(tmp_path / "fedavg", "fedavg"))
    fedadam = limits.cost(federation_of(tmp_path / "fedadam", "fedadam"))
    assert fedavg == fedadam  # whose clients do the same


def test_a_short_run_and_one_whose_rule_selects_clients_are_not_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SECONDS", 0.001)
    monkeypatch.setattr(limits, "LEAST", 5.0)
    federation = federation_of(tmp_path / "plain", "fedavg")
    assert limits.measure(federation, limits.LEAST - 0.1) is None
    for value in limits.measure(federation, limits.LEAST).values():
        assert value > 0
    selecting = federation_of(tmp_path / "selecting", "afl", {"rule": "released"})
    assert limits.measure(selecting, limits.LEAST) is None


def write_clocks(folder, *lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "timing.jsonl").write_text(text)


def test_a_run_says_its_share_of_both_limits_and_where_the_time_went(tmp_path):
    write_clocks(tmp_path, ROUND, ROUND | {"round": 2}, LIMITS)
    # 200 images/s in 9 s each round are 3600 images in 16 s of clients: 225 a second, 22.5 GFLOP/s, 2.25 GB/s
    assert timing.speed(tmp_path) == (
        "Speed: 225 images a second while clients train. This uses 50 % of the arithmetic that a large matrix product "
        "reaches here (45 GFLOP/s) and 25 % of the bandwidth of a large copy (9 GB/s). "
        "Time: clients 80 %, evaluation 10 %, writing 5 %, server 5 %."
    )
    write_clocks(tmp_path, ROUND | {"joules": 900.0}, LIMITS)
    assert timing.speed(tmp_path).endswith(
        "server 5 %. Energy: 0.25 Wh by the processors, including all other programs."
    )


@pytest.mark.parametrize(
    "lines",
    [
        [ROUND],
        [LIMITS],
        [ROUND, LIMITS | {"flops_per_second": 0}],
        [ROUND, LIMITS | {"bytes_per_image": "many"}],
        [{name: value for name, value in ROUND.items() if name != "client_seconds"}, LIMITS],
        [ROUND | {"client_seconds": 0}, LIMITS],
    ],
)
def test_a_run_without_whole_clocks_says_nothing_of_them(tmp_path, lines):
    write_clocks(tmp_path, *lines)
    assert timing.speed(tmp_path) == ""


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("kind", [torch.nn.Conv2d, torch.nn.ConvTranspose2d])
def test_each_gradient_of_a_convolution_costs_as_much_as_its_forward_pass(kind, groups):
    layer = kind(6, 12, 3, groups=groups, bias=False)
    images = torch.ones(2, 6, 8, 8)
    forward, _ = limits.counted(lambda: layer(images))
    multiplied = 12 // groups * 6 * 9  # of a pixel
    pixels = 2 * (36 if kind is torch.nn.Conv2d else 64)
    assert forward == 2 * pixels * multiplied
    step, _ = limits.counted(lambda: layer(images).sum().backward())
    assert step == 2 * forward  # the images need no gradient
    images.requires_grad_()
    step, _ = limits.counted(lambda: layer(images).sum().backward())
    assert step == 3 * forward
