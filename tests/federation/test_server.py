import pytest
import torch
from conftest import ROSTER, play, toy_net, toy_shard, toy_shards
from torch.testing import assert_close

from fedcli.errors import FedcliError
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.federation.server import all_finite, cohort, cohort_size
from fedcli.methods import resolve
from fedcli.models.layout import Layout


def test_a_client_depends_on_its_task_and_nothing_else():
    net = toy_net()
    layout = Layout(net)
    task = ClientTask("north", 0, 1, 3, 5, layout.read(), {}, {})

    def run():
        training = Training(lr=0.01, batch_size=8)
        return run_client(resolve("fedism-plus"), net, layout, toy_shard("north"), task, training)

    report = run()
    torch.manual_seed(999)
    layout.flat.normal_()
    repeated = run()
    assert torch.equal(report.theta, repeated.theta)
    assert torch.equal(report.columns["sharpness"], repeated.columns["sharpness"])


def test_the_global_random_stream_is_left_alone():
    torch.manual_seed(4)
    expected = torch.rand(1)
    torch.manual_seed(4)
    play("fedavg", rounds=1)
    assert torch.equal(torch.rand(1), expected)


def test_a_round_matches_a_loop_written_by_hand():
    """One round of FedAvg with SGD over the toy clients, against bare PyTorch in the engine's batch order."""
    from fedcli.seeds import derive

    got = play("fedavg", rounds=1, dropout=0.0)
    models = []
    counts = []
    for client, shard in toy_shards().items():
        net = toy_net(dropout=0.0).train()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        generator = torch.Generator().manual_seed(derive("shuffle", 1, 1, client, 0))
        order = torch.randperm(len(shard), generator=generator)
        whole = next(shard.in_order())
        for images in order.split(8):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(whole.x[images]), whole.y[images]).backward()
            optimizer.step()
        models.append(Layout(net).read())
        counts.append(len(shard))
    share = torch.tensor(counts) / sum(counts)
    expected = share @ torch.stack(models)
    assert_close(got.theta, expected, atol=1e-6, rtol=1e-5)


def test_cohorts_are_drawn_from_seed_and_round():
    expected = cohort(20, 0.3, seed=1, round=4)
    assert cohort(20, 0.3, seed=1, round=4) == expected
    result = cohort(20, 0.3, seed=1, round=4)
    other = cohort(20, 0.3, seed=1, round=5)
    assert result != other
    assert len(cohort(20, 0.3, seed=1, round=4)) == 6
    assert cohort(20, 0.001, seed=1, round=1) != []
    assert cohort(4, 1.0, seed=1, round=1) == [
        0,
        1,
        2,
        3,
    ]


def test_an_update_that_is_not_finite_is_refused_by_name():
    with pytest.raises(FedcliError, match="client north"):
        play("fedavg", training=Training(optimizer="sgd", lr=1e30, batch_size=4))


def test_a_client_that_raises_names_itself_and_the_round():
    broken = toy_shard("east")
    object.__setattr__(broken, "y", broken.y + 99)
    with pytest.raises(Exception) as error:
        play("fedavg", shards=toy_shards(east=broken))
    assert any("client east in round 1" in note for note in error.value.__notes__)


def test_local_statistics_stay_with_the_client():
    training = Training(optimizer="sgd", lr=0.1, batch_size=8, bn="local")
    state = play("fedavg", training=training)
    statistics = [state.clients[c]["statistics"] for c in ROSTER]
    assert not torch.equal(statistics[0], statistics[1])


def test_frozen_statistics_do_not_move():
    training = Training(optimizer="sgd", lr=0.1, batch_size=8, bn="freeze")
    state = play("fedavg", training=training)
    expected = pytest.approx([0.0] * 4 + [1.0] * 4)
    assert state.theta[-8:].tolist() == expected


def test_augmentation_depends_on_the_image_not_on_its_batch():
    shard = toy_shard("north", kind="affine-flip")
    by_index = {}
    for size in (4, 7):
        for batch in shard.epoch(size, shuffle=size, augment=11):
            for index, x in zip(batch.at.tolist(), batch.x, strict=True):
                assert torch.equal(by_index.setdefault(index, x), x)
    assert len(by_index) == len(shard)


def test_rows_that_are_not_finite_are_those_with_nan_or_infinity():
    """A sum of finite numbers may overflow, and infinities of both signs cancel into NaN."""
    inf = torch.inf
    nan = torch.nan
    large = 3e38
    table = torch.tensor(
        [
            [1.0, 2, 3],
            [nan, 0, 0],
            [0, inf, 0],
            [inf, -inf, 0],
            [large, large, 0],
            [large, 0, -large],
        ]
    )
    assert all_finite(table) == [True, False, False, False, True, True]


@pytest.mark.parametrize(
    ("roster", "participation", "size"),
    [(5, 0.5, 3), (10, 0.25, 3), (10, 0.24, 2), (100, 0.29, 29), (3, 0.1, 1), (4, 1.0, 4)],
)
def test_the_size_of_a_cohort_is_rounded_half_up_and_at_least_one(roster, participation, size):
    assert cohort_size(roster, participation) == size
    assert len(cohort(roster, participation, seed=0, round=1)) == size
