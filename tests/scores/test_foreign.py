"""New images that are unlike the training images of a run."""

import csv
import io
import json
from types import SimpleNamespace

import numpy as np
import torch
from hospitals import prepared, write_hospitals
from PIL import Image
from raw_folders import write_slice
from typer.testing import CliRunner

import fedcli
from fedcli.commands.app import app
from fedcli.scores.deploy import foreign


def typed(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def test_images_unlike_the_training_images_are_flagged_and_others_are_not(tmp_path, monkeypatch):
    work = tmp_path / "work"
    raw = write_hospitals(tmp_path / "raw", count=240)
    options = prepared(raw, work)
    clients = fedcli.partition(options, by=["hospital"], work=work)
    trained = fedcli.train("fedavg", clients, rounds=2, work=work)
    raw = tmp_path / "new"
    usual = sorted(write_hospitals(raw, count=100, seed=1).glob("*.png"))
    Image.new("RGB", (8, 8)).save(tmp_path / "black.png")
    halves = np.zeros((8, 8, 3), np.uint8)
    halves[:, 4:] = 255
    Image.fromarray(halves).save(tmp_path / "halves.png")
    ended = typed("predict", trained, *usual, tmp_path / "black.png", tmp_path / "halves.png")
    rows = list(csv.DictReader(io.StringIO(ended.stdout)))
    result = sum(bool(row["foreign"]) for row in rows[:100])
    assert result <= 2
    assert "darker than every training image" in rows[100]["foreign"]
    assert "with more contrast than every training image" in rows[101]["foreign"]
    flagged = [row for row in rows if row["foreign"]]
    assert f"{len(flagged)} of 102 images are foreign to the training images" in " ".join(
        ended.stderr.split()
    )
    reasons = differences_of_files(trained, tmp_path)
    assert (
        "a DICOM CT file, while the training images are PNG or JPEG files; grey, while"
        in reasons["head.dcm"]
    )
    assert reasons["grey.png"].startswith("grey, while every training image is coloured")
    assert "its shorter side has 3 pixels, of the training images 8 or more" in reasons["small.png"]
    written = json.loads(
        typed("predict", trained, usual[0], tmp_path / "black.png", "--format", "json").stdout
    )
    result = [line["foreign"] for line in written["predictions"]]
    assert result == [None, rows[100]["foreign"]]
    images = torch.zeros(0, 3, 8, 8)
    shard = SimpleNamespace(rows=torch.zeros(0, dtype=torch.long), images=images)
    data = SimpleNamespace(train={"a": shard}, roster=["a"])
    empty = SimpleNamespace(data=data)
    none = foreign.Known.of(empty)
    monkeypatch.setattr(foreign.Known, "of", lambda *_: none)
    reasons = " ".join(typed("predict", trained, usual[0]).stderr.split())
    assert "new images cannot be compared with the training data" in reasons
    assert "fewer than" not in reasons


def differences_of_files(trained, folder):
    """The column foreign of a slice, a grey image and a small one in a model of coloured ones, by name."""
    odd = folder / "odd"
    odd.mkdir()
    stored = np.arange(64, dtype=np.int16).reshape(8, 8)
    path = odd / "head.dcm"
    write_slice(path, stored, Modality="CT")
    noise = np.random.default_rng(0).integers(0, 255, (8, 8, 3), np.uint8)
    Image.fromarray(noise).convert("L").save(odd / "grey.png")
    Image.fromarray(noise[:3]).save(odd / "small.png")
    rows = csv.DictReader(io.StringIO(typed("predict", trained, odd).stdout))
    return {row["file"].rpartition("/")[2]: row["foreign"] for row in rows}


def test_features_far_from_all_training_features_are_foreign():
    draw = np.random.default_rng(0)
    features = (draw.normal(0, 0.1, (400, 4)) + np.array([1, 0, 0, 0])).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    train = features[:300]
    new = np.concatenate([features[300:], [[0, 1, 0, 0]], [[np.nan] * 4]]).astype(np.float32)
    farthest = np.quantile(foreign._distances(train, train, 1), 1 - foreign.ALARMS)
    low = np.full(3, -np.inf)
    high = np.full(3, np.inf)
    facts = foreign.Known(low, high, train, farthest)
    reasons = facts.reasons(np.zeros((len(new), 3)), new)
    result = sum(map(bool, reasons[:100]))
    assert result <= 2
    expected = [[foreign.FAR]] * 2
    assert reasons[100:] == expected


def test_colours_in_a_model_of_grey_images_are_foreign():
    draw = np.random.default_rng(0)
    grey = draw.integers(0, 255, (60, 4, 4, 1), dtype=np.uint8).repeat(3, 3)
    facts = foreign.pixel_facts(grey)
    features = np.zeros((0, 1), np.float32)
    low = facts.min(0) - 1
    high = facts.max(0) + 1
    training_facts = foreign.Known(low, high, features)
    images = grey[:1] // np.array([1, 2, 4], np.uint8)
    coloured = foreign.pixel_facts(images)
    assert not facts[:, 2].any()
    assert training_facts.reasons(facts, grey) == [[]] * 60
    assert (
        "with more colour than every training image"
        in training_facts.reasons(coloured, grey[:1])[0]
    )
