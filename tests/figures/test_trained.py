"""Pictures of the images of each client and of a trained model."""

import json

import numpy as np
import pytest
import torch
from conftest import ROSTER, make_chain
from made_plans import planned, train
from pandas import DataFrame, concat
from tables_of_numbers import rows
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.federation.client import Training
from fedcli.figures import drawing, trained
from fedcli.figures.kinds import counts, features
from fedcli.runs import finished

SGD = Training(optimizer="sgd", lr=0.1, batch_size=8)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A run of Fed-MAS that recorded its divergence by class, and one of FairLoRA."""
    work = tmp_path_factory.mktemp("work")
    chain = make_chain(work)
    plan = planned("fed-mas", {"by_class": True}, SGD, 2)
    out = work / "runs" / "mas"
    train(chain, plan, work=work, out=out)
    plan = planned("fairlora", {}, SGD, 1, model="clip-tiny")
    out = work / "runs" / "lora"
    train(chain, plan, work=work, out=out)
    return work


def show(work, run, figure, *more):
    """The JSON of a picture that fedcli plot has drawn."""
    folder = str(work / "runs" / run)
    line = ["plot", figure, folder, "--work", str(work), "--json", *more]
    ended = CliRunner().invoke(app, line)
    assert ended.exit_code == 0, ended.output
    printed = json.loads(ended.stdout)
    picture = work / "plots" / f"{run}-{figure}.png"
    result = picture.read_bytes()[1:4]
    assert result == b"PNG"
    assert printed["path"].endswith(".png")
    return DataFrame(printed["frame"])


def test_counts_are_of_the_training_images_of_every_class_and_attribute(work):
    table = show(work, "mas", "counts")
    result = list(table["attribute"].unique())
    assert result == ["class", "sex"]
    result = set(table.groupby(["attribute", "client"])["images"].sum())
    assert result == {20}
    again = counts.frame(work / "partitions" / "made")
    result = list(again[again["attribute"] == "class"]["value"].unique())
    assert result == ["a", "b", "c"]


def test_a_scale_beside_counts_that_spread_far_is_in_plain_numbers():
    table = DataFrame(
        {"client": list("aabb"), "value": [0, 1, 0, 1], "images": [1, 40, 900, 0]}
    ).assign(attribute="class")
    many = concat([table.assign(value=table["value"] + 2 * k) for k in range(4)])
    many.attrs["title"] = "made"
    figure = drawing.drawn(counts.draw(many))
    figure.canvas.draw()
    ticks = [text.get_text() for text in figure.axes[1].get_yticklabels()]
    assert len(ticks) > 1
    for tick in ticks:
        assert "$" not in tick


def test_the_divergence_is_what_the_last_round_recorded(work):
    lines = (work / "runs" / "mas" / "rounds.jsonl").read_text().splitlines()
    reports = json.loads(lines[-1])["reports"]
    table = show(work, "mas", "divergence").pivot(index="client", columns="value", values="w")
    result = table.loc[ROSTER, "c"].tolist()
    expected = pytest.approx(reports["w_class_2"])
    assert result == expected
    assert table.to_numpy().min() >= 0
    assert table.to_numpy().max() <= 4


def test_a_point_is_the_mean_feature_of_a_class_at_a_client(work):
    path = work / "runs" / "mas"
    run = finished.open_run(path)
    finished.load_model(run, run.rounds[-1])
    means = trained.mean_features(run)
    result = [space for space, *_ in means]
    expected = ["features"] * 12 + ["projected"] * 12
    assert result == expected
    _, client, k, mean = means[4]
    shard = run.data.train[client]
    with torch.no_grad():
        batch = next(iter(shard.in_order()))
        features = run.net.features(batch.x)
        of_class = batch.y == run.data.classes.index(k)
        expected = features[of_class].mean(0)
    assert mean == pytest.approx(expected.numpy(), abs=1e-5)
    points = show(work, "mas", "features")
    assert len(points) == 24
    assert set(points["class"]) == {"a", "b", "c"}


def test_a_point_of_a_network_of_tokens_is_the_mean_over_their_images_and_positions(work):
    path = work / "runs" / "lora"
    run = finished.open_run(path)
    finished.load_model(run, run.rounds[-1])
    space, client, k, mean = trained.mean_features(run)[0]
    batch = next(iter(run.data.train[client].in_order()))
    with torch.no_grad():
        tokens = run.net.features(batch.x)[batch.y == run.data.classes.index(k)]
    assert space == "features"
    assert tokens.ndim == 4
    expected = pytest.approx(tokens.double().mean((0, 1, 2)).numpy())
    assert mean == expected
    assert len(show(work, "lora", "features")) == 12


def test_the_plane_keeps_the_distances_of_points_that_lie_in_one():
    points = np.random.default_rng(0).normal(size=(6, 2))
    flat = points @ np.array(rows("3.0 0 4 0; 0 1 0 0"))
    plane = features.in_the_plane(flat, "pca", 0)
    for table in (plane, -plane):
        gaps = np.linalg.norm(table[:, None] - table[None], axis=2)
        differences = flat[:, None] - flat[None]
        expected = pytest.approx(np.linalg.norm(differences, axis=2))
        assert gaps == expected
    result = features.in_the_plane(flat[:2], "pca", 0).shape
    assert result == (2, 2)
    near = features.in_the_plane(flat, "tsne", 0)
    assert near.shape == (6, 2)
    assert np.array_equal(near, features.in_the_plane(flat, "tsne", 0))


def test_classes_of_a_picture_are_of_head_middle_and_tail():
    result = trained.some_classes(np.array([5, 0, 9]))
    assert result == [2, 0]
    counts = np.arange(20, 0, -1)
    expected = [0, 1, 2, 9, 10, 11, 17, 18, 19]
    assert trained.some_classes(counts) == expected


def test_the_matrices_are_those_of_the_last_adapter(work):
    path = work / "runs" / "lora"
    run = finished.open_run(path)
    finished.load_model(run, run.rounds[-1])
    layer, *_ = trained.matrices(run)
    tables = dict(list(show(work, "lora", "adapters").groupby("matrix")))
    tensors = run.layout.named(run.layout.read())
    a, s, b = (tensors[f"{layer}.{role}"].double() for role in "ASB")
    expected = pytest.approx(s.numpy().ravel())
    assert tables["S"]["value"].to_numpy() == expected
    result = list(tables["S"]["row"].unique())
    assert result == ["f", "m"]
    for name, vectors in (("U'U", a.T), ("VV'", b)):
        lengths = vectors.norm(dim=1)
        cosines = vectors @ vectors.T / lengths / lengths[:, None]
        expected = cosines.numpy().ravel()
        assert tables[name]["value"].to_numpy() == pytest.approx(expected)


def test_directions_are_compared_whatever_their_length():
    short_and_long = torch.tensor(rows("1e-5 0.0; 0.0 40.0; 0.0 0.0"), dtype=torch.float64)
    expected = rows("1 0 0; 0 1 0; 0 0 0")
    assert trained.cosines(short_and_long).tolist() == expected


NOT_SHOWN = [
    ("mas", ["adapters"], "has no adapter with singular values"),
    ("lora", ["divergence"], "recorded no divergence by class"),
    ("mas", ["feature"], "no figure is named 'feature'"),
    ("mas", ["features", "--reduce", "umap"], "'umap' is not one of"),
    ("mas", ["counts", "--reduce", "pca"], "no such option: --reduce"),
]


@pytest.mark.parametrize(("run", "words", "message"), NOT_SHOWN)
def test_what_cannot_be_shown_is_said_in_a_sentence(work, run, words, message):
    folder = str(work / "runs" / run)
    figure, *options = words
    line = ["plot", figure, folder, *options, "--work", str(work)]
    ended = CliRunner().invoke(app, line)
    assert ended.exit_code != 0
    assert message in " ".join(ended.output.split()).lower()
