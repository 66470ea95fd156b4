"""Source inference: the hospital of a training image, given its class."""

import numpy as np
import pytest
import torch
from conftest import make_chain
from made_plans import planned, train

from fedcli.federation.training import Training
from fedcli.runs import finished
from fedcli.scores.audit import audited, source

PATIENTS = 60  # of each of two hospitals
HOSPITAL = np.repeat([0, 1], PATIENTS)
UNITS = np.arange(2 * PATIENTS)
ILL = np.concatenate([np.arange(PATIENTS) < 45, np.arange(PATIENTS) < 15]) * 1  # 75 % and 25 %
ONCE = np.ones((1, 2 * PATIENTS), np.int16)


def test_shares_by_hand():
    """Class 0: A is named for 1 of its 2 and for 1 of 4 of B's, so B is named for 3 of 4 and 1 of 2."""
    hospital = np.array([0, 0, 1, 1, 1, 1, 0])
    guesses = np.array([0, 1, 0, 1, 1, 1, source.NOBODY])
    classes = np.array([0, 0, 0, 0, 0, 0, 1])
    weights = np.ones((1, 7), np.int16)
    numbers = source.measured(guesses, classes, hospital, weights)
    assert numbers["images"] == 6
    assert numbers["own"]["value"] == pytest.approx((1 / 2 + 3 / 4) / 2)
    assert numbers["others"]["value"] == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert numbers["difference"]["value"] == pytest.approx(1 / 4)
    of_b = source.measured(guesses, classes, hospital, weights, only=1)
    assert of_b["images"] == 4
    assert of_b["own"]["value"] == pytest.approx(3 / 4)
    assert of_b["others"]["value"] == pytest.approx(1 / 2)


def test_a_weight_of_two_is_an_image_twice():
    hospital = np.array([0, 0, 1])
    guesses = np.array([0, 1, 1])
    twice = source.measured(guesses, np.zeros(3, int), hospital, np.array([[2, 1, 1]]))
    assert twice["own"]["value"] == pytest.approx((2 / 3 + 1) / 2)


def test_a_guess_by_class_alone_is_as_frequent_for_others():
    by_class = 1 - ILL  # the hospital with more of the class
    numbers = source.measured(by_class, ILL, HOSPITAL, ONCE)
    assert numbers["difference"]["value"] == 0
    assert (by_class == HOSPITAL).mean() == 0.75


def test_losses_that_depend_on_hospital_and_class_name_nobody_and_a_memory_does():
    stream = np.random.default_rng(0)
    noise = stream.normal(size=(2 * PATIENTS, 2))
    by_case_mix = 2.0 * np.eye(2)[ILL] + noise
    memory = by_case_mix - 4 * np.eye(2)[HOSPITAL]
    differences = []
    for table in (by_case_mix, memory):
        names = source.named(source.by_losses(table, HOSPITAL), ILL, HOSPITAL, UNITS)
        differences.append(source.measured(names, ILL, HOSPITAL, ONCE)["difference"]["value"])
    assert abs(differences[0]) < 0.25
    assert differences[1] > 0.9


def test_answers_with_a_mark_of_the_scanner_name_the_hospital():
    noise = np.random.default_rng(1).normal(size=(2 * PATIENTS, 2))
    marked = noise + 5 * np.eye(2)[HOSPITAL]
    names = source.named(source.by_answers(marked, HOSPITAL, UNITS, 0), ILL, HOSPITAL, UNITS)
    assert (names == HOSPITAL).mean() > 0.9


def test_a_class_that_one_hospital_has_is_left_out():
    namer = source.by_losses(np.zeros((2 * PATIENTS, 2)), HOSPITAL)
    names = source.named(namer, HOSPITAL, HOSPITAL, UNITS)
    assert (names == source.NOBODY).all()
    assert source.measured(names, HOSPITAL, HOSPITAL, ONCE) is None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    training = Training(optimizer="sgd", lr=0.05, batch_size=8)
    plan = planned("fedavg", {}, training, 2, model="cnn-gn", augment="none")
    return finished.open_run(train(make_chain(work), plan, work=work))


def test_models_of_the_last_round_are_those_whose_mean_is_the_last_model(run):
    total = 0
    images = sum(len(shard) for shard in run.data.train.values())
    for row, client in enumerate(run.data.roster):
        finished.load_model(run, run.rounds[-2])
        local = source._local_model(run, row, client)
        total = total + len(run.data.train[client]) / images * local
    finished.load_model(run, run.rounds[-1])
    torch.testing.assert_close(total, run.layout.read(), atol=1e-6, rtol=1e-5)


def test_an_audit_has_a_row_for_each_server_client_and_group(run):
    images = audited._images(run, False)
    rows = list(audited._sources(run, images, 0))
    servers = {row["server"] for row in rows}
    assert servers == {source.MODELS, source.MEAN}
    parts = {(row["attribute"], row["group"]) for row in rows}
    assert ("", "") in parts
    assert {group for attribute, group in parts if attribute == "client"} <= set(run.data.roster)
    for row in rows:
        difference = row["own"]["value"] - row["others"]["value"]
        assert row["difference"]["value"] == pytest.approx(difference)
