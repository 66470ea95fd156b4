"""Pictures of who holds what and of what a trained model holds."""

import json

import numpy as np
import pytest
import torch
from conftest import ROSTER, make_chain
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.federation.client import Training
from fedcli.reporting import holders, trained
from fedcli.runs import finished
from fedcli.runs.train import Plan, train

SGD = Training(optimizer="sgd", lr=0.1, batch_size=8)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A run of Fed-MAS that recorded its divergence by class, and one of FairLoRA."""
    work = tmp_path_factory.mktemp("work")
    chain = make_chain(work)
    train(chain, Plan("fed-mas", {"by_class": True}, SGD, 2), work=work, out=work / "runs" / "mas")
    train(chain, Plan("fairlora", {}, SGD, 1, model="clip-tiny"), work=work, out=work / "runs" / "lora")
    return work


def show(work, run, what, *more):
    """The JSON of a picture that fedcli plot has drawn."""
    line = ["plot", str(work / "runs" / run), "--show", what, "--work", str(work), "--json", *more]
    ended = CliRunner().invoke(app, line)
    assert ended.exit_code == 0, ended.output
    drawn = json.loads(ended.stdout)
    assert (work / "plots" / f"{run}-{what}.png").read_bytes()[1:4] == b"PNG" and drawn["path"].endswith(".png")
    return drawn[what]


def test_counts_are_of_the_training_images_of_every_class_and_attribute(work):
    counts = show(work, "mas", "counts")
    assert list(counts) == ["class", "sex"]
    assert all(sum(clients.values()) == 20 for name in counts for clients in counts[name].values())
    assert holders.counts(holders.partition_of(work / "partitions" / "made"))["class"][1] == ["a", "b", "c"]


def test_the_divergence_is_what_the_last_round_recorded(work):
    lines = (work / "runs" / "mas" / "rounds.jsonl").read_text().splitlines()
    reports = json.loads(lines[-1])["reports"]
    shown = show(work, "mas", "divergence")
    assert [shown[client][2] for client in ROSTER] == pytest.approx(reports["w_class_2"])
    assert all(0 <= value <= 4 for row in shown.values() for value in row)


def test_a_point_is_the_mean_feature_of_a_class_at_a_client(work):
    run = finished.open_run(work / "runs" / "mas")
    finished.load_model(run, run.rounds[-1])
    means = trained.mean_features(run)
    assert set(means.features) == {"features", "projected"} and len(means.at) == 12
    client, k = means.at[4]
    shard = list(run.data.train.values())[client]
    with torch.no_grad():
        batch = next(iter(shard.in_order()))
        expected = run.net.features(batch.x)[batch.y == k].mean(0)
    assert means.features["features"][4] == pytest.approx(expected.numpy(), abs=1e-5)
    points = show(work, "mas", "features")
    assert len(points["projected"]) == 12 and points["features"][0]["class"] in "abc"


def test_the_plane_keeps_the_distances_of_points_that_lie_in_one():
    flat = np.random.default_rng(0).normal(size=(6, 2)) @ np.array([[3.0, 0, 4, 0], [0, 1, 0, 0]])
    plane = trained.in_the_plane(flat, "pca", 0)
    for table in (plane, -plane):
        gaps = np.linalg.norm(table[:, None] - table[None], axis=2)
        assert gaps == pytest.approx(np.linalg.norm(flat[:, None] - flat[None], axis=2))
    assert trained.in_the_plane(flat[:2], "pca", 0).shape == (2, 2)
    near = trained.in_the_plane(flat, "tsne", 0)
    assert near.shape == (6, 2) and np.array_equal(near, trained.in_the_plane(flat, "tsne", 0))


def test_classes_of_a_picture_are_of_head_middle_and_tail():
    assert trained.some_classes(np.array([5, 0, 9])) == [2, 0]
    counts = np.arange(20, 0, -1)
    assert trained.some_classes(counts) == [0, 1, 2, 9, 10, 11, 17, 18, 19]


def test_the_matrices_are_those_of_the_last_adapter(work):
    run = finished.open_run(work / "runs" / "lora")
    finished.load_model(run, run.rounds[-1])
    shown = show(work, "lora", "adapters")
    tensors = run.layout.named(run.layout.read())
    a, s, b = (tensors[f"{shown['layer']}.{role}"].double() for role in "ASB")
    assert np.array(shown["S"]) == pytest.approx(s.numpy()) and shown["groups"] == ["f", "m"]
    for name, vectors in (("U'U", a.T), ("VV'", b)):
        lengths = vectors.norm(dim=1)
        assert np.array(shown[name]) == pytest.approx((vectors @ vectors.T / lengths / lengths[:, None]).numpy())


def test_directions_are_compared_whatever_their_length():
    short_and_long = torch.tensor([[1e-5, 0.0], [0.0, 40.0], [0.0, 0.0]], dtype=torch.float64)
    assert trained._cosines(short_and_long).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("run", "words", "said"),
    [
        ("mas", ["--show", "adapters"], "has no adapter with singular values"),
        ("lora", ["--show", "divergence"], "recorded no divergence by class"),
        ("mas", ["--show", "feature"], "did you mean 'features'?"),
        ("mas", ["--show", "features", "--reduce", "umap"], "--reduce 'umap' is unknown"),
        ("mas", ["--show", "counts", "--reduce", "pca"], "--reduce belongs to --show features"),
        ("mas", ["--show", "counts", "--histograms"], "--histograms"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_sentence(work, run, words, said):
    ended = CliRunner().invoke(app, ["plot", str(work / "runs" / run), *words, "--work", str(work)])
    assert ended.exit_code != 0 and said in " ".join(ended.output.split())
