"""fedcli beside other frameworks: what every side trains, and that no ratio is given for different work."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import frameworks
import loops
import peers
import pytest
import shell
import torch
from peers import Peer, check_same_model, compare, fedcli_side, fedcli_training
from problem import Problem, in_worker, train_epoch, weights

from fedcli.bench.engine import Timing
from fedcli.bench.measuring import threads
from fedcli.data import transforms
from fedcli.errors import FedcliError

SMALL = Problem(size=16, clients=3, images=40, rounds=2)  # a last batch of 8 images


def by_hand(problem: Problem) -> torch.Tensor:
    """The peers' training in plain PyTorch, as their users would write it."""
    net = problem.net()
    shards = problem.shards()
    theta = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    for round in range(1, problem.rounds + 1):
        ends = []
        for client in problem.names:
            net.load_state_dict(theta)
            train_epoch(net, shards[client], problem.order(client, round))
            ends.append(
                {name: tensor.clone().double() for name, tensor in net.state_dict().items()}
            )
        for name, tensor in theta.items():
            mean = sum(end[name] for end in ends) / len(ends)
            theta[name] = mean.to(tensor.dtype)
    net.load_state_dict(theta)
    return weights(net)


def test_a_problem_is_the_same_wherever_it_is_made():
    again = dataclasses.replace(SMALL)
    assert torch.equal(weights(SMALL.net()), weights(again.net()))
    for client, shard in SMALL.shards().items():
        expected = again.shards()[client].images[again.shards()[client].rows]
        assert torch.equal(shard.images[shard.rows], expected)
        assert torch.equal(shard.y, again.shards()[client].y)
    assert list(SMALL.shards()) == SMALL.names


def test_an_order_is_every_image_once_and_another_each_round():
    order = SMALL.order("client-00", 1)
    next_order = SMALL.order("client-00", 2)
    assert order.sort().values.tolist() == list(range(40)) == next_order.sort().values.tolist()
    assert order.tolist() != next_order.tolist()


def test_fedclis_side_trains_as_a_loop_by_hand_on_the_same_batches():
    with threads(1):
        check_same_model("the loop", weights(SMALL.net()), fedcli_training(SMALL)(), by_hand(SMALL))


def test_fedclis_side_starts_afresh_each_time():
    train = fedcli_training(SMALL)
    with threads(1):
        assert torch.equal(train(), train())


def test_other_batches_give_another_model():
    class Unshuffled(Problem):
        def order(self, client: str, round: int) -> torch.Tensor:
            return torch.arange(self.images)

    other = Unshuffled(**dataclasses.asdict(SMALL))
    with threads(1), pytest.raises(FedcliError, match="did not train as fedcli did"):
        check_same_model("the loop", weights(SMALL.net()), fedcli_training(SMALL)(), by_hand(other))


def test_ends_that_differ_by_rounding_are_the_same():
    check_same_model("peer", torch.zeros(2), torch.tensor([3.0, 4.0]), torch.tensor([3.0, 4.0001]))


def test_ends_that_differ_are_refused_with_both_norms():
    with pytest.raises(FedcliError, match=r"peer .* is 13\.000000, fedcli's is 5\.000000"):
        check_same_model(
            "peer", torch.zeros(2), torch.tensor([3.0, 4.0]), torch.tensor([5.0, 12.0])
        )


def test_equal_norms_are_not_enough():
    with pytest.raises(FedcliError, match=r"5\.000000, fedcli's is 5\.000000"):
        check_same_model("peer", torch.zeros(2), torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0]))


def test_what_fedcli_itself_is_apart_on_other_threads_is_allowed_and_no_more(monkeypatch):
    def nearly(problem, measure):
        theta = by_hand(problem)
        measure(lambda: theta + 0.02 * (theta - weights(problem.net())))

    monkeypatch.setitem(peers.PEERS, "near", Peer("in this process", "torch", ("torch",), nearly))
    monkeypatch.setattr(peers, "_rounding", lambda problem, start: 0.011)
    assert compare("near", SMALL, repeats=1).timing.ours
    monkeypatch.setattr(peers, "_rounding", lambda problem, start: 0.009)
    with pytest.raises(FedcliError, match=r"their distance is 0.02 of that from the start"):
        compare("near", SMALL, repeats=1)


def test_nothing_trained_is_refused():
    start = torch.tensor([3.0, 4.0])
    with pytest.raises(FedcliError):
        check_same_model("peer", start, start, start)


def test_weights_that_are_not_numbers_are_refused():
    with pytest.raises(FedcliError, match="is nan"):
        check_same_model(
            "peer", torch.zeros(2), torch.tensor([3.0, 4.0]), torch.tensor([torch.nan, 4.0])
        )


def test_a_peer_that_trains_the_same_gets_a_row(monkeypatch):
    same = Peer(
        "in this process",
        "torch",
        ("torch",),
        lambda problem, measure: measure(lambda: by_hand(problem)),
    )
    monkeypatch.setitem(peers.PEERS, "same", same)
    before = torch.get_num_threads()
    compared = compare("same", SMALL, repeats=2)
    assert len(compared.timing.ours) == len(compared.timing.bare) == 2
    assert compared.timing.images == 3 * 40 * 2
    assert compared.timing.what.startswith("fedavg beside same ")
    assert "(in this process)" in compared.timing.what
    assert min(compared.start_seconds) > 0
    assert torch.get_num_threads() == before


def test_what_each_side_takes_to_start_stands_beside_the_ratio(monkeypatch, capsys):
    timing = Timing("fedavg beside same", [1.0], [2.0], images=100)
    monkeypatch.setattr(
        peers, "rows", lambda *asked: [peers.Compared("same", timing, (1.25, 14.0))]
    )
    peers.main()
    output = capsys.readouterr().out
    assert "1.2 s, 14.0 s" in output
    assert "0.500" in output
    peers.main(json=True)
    (body,) = json.loads(capsys.readouterr().out)
    assert body["start_seconds"] == [1.25, 14.0]
    assert body["ratio"] == 0.5


def test_a_peer_is_chosen_by_how_its_name_begins():
    assert peers.named(None) == peers.named([]) == list(peers.PEERS)
    assert peers.named(["flower"]) == ["Flower"]
    assert peers.named(["a plain", "BLAZE"]) == ["BlazeFL", "BlazeFL, threads", "a plain loop"]


def test_a_peer_that_there_is_not_is_refused_before_anything_is_timed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["peers.py", "--beside", "fedml"])
    with pytest.raises(SystemExit) as ended:
        shell.run(peers.main)
    assert ended.value.code == 2
    assert "no peer's name begins so" in capsys.readouterr().err


def test_the_asked_size_reaches_the_peers(monkeypatch):
    calls = []
    monkeypatch.setattr(peers, "rows", lambda *arguments: calls.append(arguments) or [])
    peers.main(["flower"], rounds=2, clients=4)
    ((beside, problem, repeats),) = calls
    assert beside == ["flower"]
    assert repeats == 7
    result = (problem.rounds, problem.clients, problem.images, problem.model)
    assert result == (2, 4, 256, "cnn")


def test_a_peer_that_trains_otherwise_gets_no_row(monkeypatch):
    def run(problem, measure):
        measure(lambda: by_hand(dataclasses.replace(problem, rounds=1)))

    monkeypatch.setitem(peers.PEERS, "lazy", Peer("in this process", "torch", ("torch",), run))
    with pytest.raises(FedcliError, match="lazy did not train as fedcli did"):
        compare("lazy", dataclasses.replace(SMALL, clients=1, images=8), repeats=1)


def test_a_peer_that_is_not_installed_gets_a_sentence(monkeypatch, capsys):
    absent = Peer("nowhere", "nothing", ("torch", "no_such_module_anywhere"), peers.run_flower)
    monkeypatch.setattr(peers, "PEERS", {"absent": absent})
    assert list(peers.rows(None, SMALL, 1)) == []
    assert (
        "no row for absent: it is not installed, pip install 'fedcli[peers]'"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("name", [name for name, peer in peers.PEERS.items() if peer.package])
def test_a_real_peer_ends_at_the_same_model(name):
    if not peers.PEERS[name].installed:
        pytest.skip("fedcli[peers] is not installed")
    code = f"from peers import *; print(compare({name!r}, {SMALL!r}, 1).timing.what)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )  # ray changes the process it runs in
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"fedavg beside {name} ")


def test_a_worker_of_flower_has_one_thread_as_there_is_one_for_each_core():
    with threads(2):
        net, shards = in_worker(SMALL)
        assert net.training
        assert list(shards) == SMALL.names
        assert torch.get_num_threads() == 1


def test_fedclis_side_on_processes_trains_as_in_this_one():
    with threads(1), fedcli_side(SMALL) as train:
        assert torch.equal(train(), fedcli_training(SMALL)())


def test_the_sums_of_a_plain_loops_processes_are_those_of_a_loop_by_hand():
    problem = dataclasses.replace(SMALL, rounds=1)
    theta = {name: tensor.numpy().copy() for name, tensor in problem.net().state_dict().items()}
    with threads(1):
        sums = [
            loops._sum_of_models(problem, names, theta, 1)
            for names in (problem.names[:1], problem.names[1:])
        ]
        net = problem.net()
        net.load_state_dict(
            {name: torch.as_tensor((sums[0][name] + sums[1][name]) / 3) for name in theta}
        )
        check_same_model("the loop", weights(problem.net()), weights(net), by_hand(problem))


def test_a_loop_as_papers_release_it_reads_the_same_pixels_and_ends_at_the_same_model(tmp_path):
    problem = dataclasses.replace(SMALL, rounds=1, cores=0)  # no worker process of a DataLoader
    shards = problem.shards()
    files = {client: loops._files(tmp_path / client, shard) for client, shard in shards.items()}
    shard = shards["client-01"]
    x, y = files["client-01"][7]
    expected = transforms.to_input(shard.images[shard.rows[7:8]], channels=3)[0]
    assert y == shard.y[7]
    assert torch.allclose(x, expected, atol=1e-5)
    assert len(files["client-01"]) == 40
    with threads(1):
        check_same_model(
            "it", weights(problem.net()), weights(loops._released(problem, files)), by_hand(problem)
        )


def test_a_framework_whose_processes_end_at_once_is_a_sentence(monkeypatch):
    monkeypatch.setattr(frameworks.sys, "executable", "false")
    with (
        pytest.raises(FedcliError, match="pfl-research did not start"),
        frameworks._torchrun(Path("no_such"), SMALL, 1),
    ):
        pass
