"""A classifier on a frozen network trains as it does with the whole network in place, whatever images that one wants."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from conftest import interrupt_in_round, make_chain
from hospitals import prepared, write_hospitals
from made_plans import TRAINING, planned, results, train
from numpy.testing import assert_allclose
from own_files import written
from PIL import Image
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from torch.testing import assert_close

import fedcli
from fedcli.data import manifest
from fedcli.federation.server import Federation
from fedcli.federation.state import read_tensors
from fedcli.runs import assembly
from fedcli.runs.finished import open_run, predict
from fedcli.runs.train import Interrupted
from fedcli.scores.deploy import model_file

NETS = '''
"""Small networks, each of which wants its images in a form of its own."""

from torch import nn

from fedcli.models.network import Network
from fedcli.models.wrapped import Fed, Prepared

HALF = (0.5, 0.5, 0.5)


def plain(channels, classes):
    return Network(_any_side(channels), 16, classes)


def one_side(channels, classes):
    return Prepared(_six_pixels(channels), 64, classes, "fp32", Fed(6))


def one_normalisation(channels, classes):
    return Prepared(_any_side(channels), 16, classes, "fp32", Fed(0, HALF, HALF))


def side_and_normalisation(channels, classes):
    return Prepared(_six_pixels(channels), 64, classes, "fp32", Fed(6, HALF, HALF))


def features_of_its_own(channels, classes):
    return Shifted(_any_side(channels), 16, classes)


class Shifted(Network):
    def features(self, x):
        return super().features(x) + 1


def _any_side(channels):
    return nn.Sequential(nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())


def _six_pixels(channels):
    return nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.Flatten())
'''
ROUNDS = 3
KINDS = [
    ("plain", "raw"),
    ("one_side", "raw"),
    ("one_normalisation", "raw"),
    ("side_and_normalisation", "raw"),
    ("features_of_its_own", "raw"),
    ("one_side", "grey"),
]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def data(work):
    hospitals = prepared(write_hospitals(work / "raw", count=48), work)
    colour = fedcli.partition(hospitals, by=["hospital"], work=work)
    return {"raw": colour.path, "grey": in_grey(work)}


def in_grey(work: Path) -> Path:
    """A copy of the images with one channel."""
    raw = work / "grey"
    shutil.copytree(work / "raw", raw)
    for file in raw.glob("*.png"):
        Image.open(file).convert("L").save(file)
    return fedcli.partition(prepared(raw, work), by=["hospital"], work=work).path


@pytest.fixture(params=KINDS, ids="-".join)
def probe(request, data, tmp_path):
    """Trains a classifier on one of the networks."""
    network, images = request.param
    file = written(tmp_path, NETS, "nets.py")
    plan = planned("fedavg", {}, TRAINING, ROUNDS, model=f"{file}:{network}", freeze_backbone=True)
    return partial(train, data[images], plan, work=tmp_path, checkpoint_every=1)


@pytest.fixture
def whole(probe, tmp_path, monkeypatch):
    """The run whose frozen network sees every image in every round."""
    with monkeypatch.context() as patch:
        patch.setattr(assembly, "with_features", lambda net, data, folder: data)
        return probe(out=tmp_path / "whole")


def model(run: Path) -> dict[str, torch.Tensor]:
    return read_tensors(run.parent / "models" / f"{ROUNDS:05d}.h5")


def test_it_ends_at_the_model_and_the_scores_of_a_run_with_the_whole_network(
    probe, whole, tmp_path
):
    run = probe(out=tmp_path / "probe")
    assert_close(model(run), model(whole), atol=1e-6, rtol=1e-5)
    tables = []
    for path in (run, whole):
        opened = open_run(path)
        tables.append(predict(opened, ROUNDS, opened.data.test["clean"]))
    assert_allclose(tables[0], tables[1], atol=1e-5)
    frames = [fedcli.evaluate(path).to_frame() for path in (run, whole)]
    pandas.testing.assert_frame_equal(*frames)


def test_it_resumes_to_the_same_bytes(probe, tmp_path, monkeypatch):
    straight = probe(out=tmp_path / "straight")
    with monkeypatch.context() as patch:
        patch.setattr(Federation, "play", interrupt_in_round(3))
        with pytest.raises(Interrupted):
            probe(out=tmp_path / "cut")
    cut = probe(out=tmp_path / "cut", resume=True)
    assert results(cut.parent) == results(straight.parent)


def test_its_model_predicts_files_and_is_exported_whole(probe, work, tmp_path, request):
    run = probe(out=tmp_path / "probe")
    opened = open_run(run)
    exported = model_file.export(opened, "safetensors", tmp_path / "out.safetensors")
    names = load_file(exported).keys()
    assert any(name.startswith("backbone.") for name in names)
    logits = torch.from_numpy(predict(opened, ROUNDS, opened.data.test["clean"]))
    images = request.node.callspec.params["probe"][1]
    files = [work / images / str(name) for name in opened.data.test["clean"].ids]
    chances = fedcli.predict(run, files).predicted.chances
    assert_allclose(chances, logits.softmax(1).numpy(), atol=1e-5)


def test_augmentation_is_said_to_be_off_unless_it_is_asked_for(tmp_path, capsys):
    data = make_chain(tmp_path, augment="flip")
    plan = planned("fedavg", {}, TRAINING, 1, freeze_backbone=True)
    run = train(data, plan, work=tmp_path, augment=None)
    assert "Augmentation is off: a frozen network sees each image once." in capsys.readouterr().err
    assert manifest.read(run).options["augment"] == "none"
    augmented = train(data, plan, work=tmp_path, augment="flip")
    assert "Augmentation" not in capsys.readouterr().err
    assert manifest.read(augmented).options["augment"] == "flip"


LINEAR = '''
"""A frozen network that passes three pixels on: each is brighter in one class, and no line separates the classes."""

from torch import nn


def three_pixels(channels, classes):
    return nn.Sequential(nn.MaxPool2d(1, stride=(3, 8)), nn.Flatten()), 3
'''


def test_federated_training_of_a_classifier_ends_at_the_logistic_regression_on_the_features(
    tmp_path,
):
    """Equal clients that take one step over all their images in each round: gradient descent on the mean loss."""
    file = written(tmp_path, LINEAR, "linear.py")
    training = replace(TRAINING, lr=3.0, momentum=0.0, batch_size=20)
    plan = planned("fedavg", {}, training, 60, model=f"{file}:three_pixels", freeze_backbone=True)
    opened = open_run(train(make_chain(tmp_path), plan, work=tmp_path))
    shards = [opened.features.shard(shard) for shard in opened.data.train.values()]
    x = torch.cat([shard.images[shard.rows] for shard in shards]).numpy()
    y = torch.cat([shard.y for shard in shards]).numpy()
    oracle = LogisticRegression(C=np.inf, max_iter=1000).fit(x, y)
    logits = np.concatenate([predict(opened, 60, shard) for shard in opened.data.train.values()])
    chances = torch.from_numpy(logits).softmax(1).numpy()
    assert log_loss(y, chances) == pytest.approx(log_loss(y, oracle.predict_proba(x)), abs=1e-3)
    test = opened.features.shard(opened.data.test["clean"])
    expected = oracle.predict_proba(test.images[test.rows].numpy())
    table = torch.from_numpy(predict(opened, 60, opened.data.test["clean"]))
    auc = partial(roc_auc_score, test.y.numpy(), multi_class="ovo")
    result = auc(table.softmax(1).numpy())
    assert result == pytest.approx(auc(expected), abs=2e-3)
