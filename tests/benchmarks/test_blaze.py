"""BlazeFL's side, as far as it needs no BlazeFL: what its trainers and its server are given."""

import pickle

import blaze
import torch
import torch.nn.functional as F
from problem import BATCH, LEARNING_RATE, Problem, train_epoch, weights

from fedcli.bench.measuring import threads

SMALL = Problem(size=16, clients=3, images=40, rounds=2)  # a last batch of 8 images


def loader(round: int):
    users = blaze.Users(SMALL)
    users.round = round
    return users.get_dataloader("train", 1, BATCH, None)


def test_a_loop_over_its_batches_ends_where_every_side_ends():
    with threads(1):
        net = blaze.Networks(SMALL).select_model("cnn")
        expected = SMALL.net()
        optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
        for x, y in loader(2):
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        train_epoch(expected, SMALL.shards()["client-01"], SMALL.order("client-01", 2))
    assert torch.equal(weights(net), weights(expected))


def test_batches_are_whole_and_others_each_round():
    batches = list(loader(1))
    next_batches = list(loader(2))
    assert (
        [x.shape for x, _ in batches]
        == [(32, 3, 16, 16), (8, 3, 16, 16)]
        == [x.shape for x, _ in next_batches]
    )
    assert not torch.equal(batches[0][0], next_batches[0][0])


def test_every_network_starts_where_the_first_did():
    with threads(1):
        net = blaze.Networks(SMALL).select_model("cnn")
        with torch.no_grad():
            next(net.parameters()).add_(1)
        again = blaze.Networks(SMALL).select_model("cnn")
    assert torch.equal(weights(again), weights(SMALL.net()))
    assert not torch.equal(weights(again), weights(net))


def test_whoever_asks_for_a_network_has_one_thread_as_there_is_one_for_each_core():
    with threads(2):
        blaze.Networks(SMALL).select_model("cnn")
        assert torch.get_num_threads() == 1


def test_neither_images_nor_weights_are_sent_to_processes():
    users = blaze.Users(SMALL)
    networks = blaze.Networks(SMALL)
    result = len(list(users.get_dataloader("train", 0, BATCH, None)))
    assert result == 2  # by now in memory
    assert len(pickle.dumps((users, networks))) < 1000
