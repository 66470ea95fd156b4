"""`fedcli predict` and `fedcli export model`: a run's model on files, and as a file."""

import csv
import io
import json
import os
import shutil
import warnings
import zipfile
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
import pydicom
import pytest
import torch
from hospitals import HOSPITALS, prepared, write_hospitals
from PIL import Image
from raw_folders import write_slice
from safetensors.torch import load_file
from typer.testing import CliRunner

import fedcli
from fedcli import models
from fedcli.commands.app import app
from fedcli.data import transforms
from fedcli.errors import FedcliError, UsageError
from fedcli.runs.finished import open_run
from fedcli.scores.clinical.chosen import OperatingPoint
from fedcli.scores.deploy import model_file, predict

HEAD = "file", "prob_healthy", "prob_ill", "class"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def clients(work):
    raw = write_hospitals(work / "raw", count=48)
    options = prepared(raw, work)
    return fedcli.partition(options, by=["hospital"], work=work)


@pytest.fixture(scope="module")
def run(clients, work):
    return fedcli.train("fedavg", clients, rounds=1, work=work)


@pytest.fixture(scope="module")
def alone(clients, work):
    return fedcli.train("fedavg", clients, rounds=1, single_site=True, work=work)


def typed(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def test_test_images_as_files_get_the_probabilities_that_evaluation_gave_them(run, work):
    fedcli.evaluate(run, export="csv")
    (table,) = run.path.parent.glob("scores/*/predictions.csv")
    chances = {}
    for row in csv.DictReader(table.read_text().splitlines()):
        chances[row["id"]] = float(row["prob_1"])
    prediction = fedcli.predict(run, [work / "raw" / name for name in chances])
    expected = pytest.approx(list(chances.values()), abs=1e-6)
    assert prediction.predicted.chances[:, 1] == expected
    frame = prediction.to_frame()
    assert list(frame.columns) == [*HEAD, "foreign", "unreadable"]
    assert len(frame) == len(chances)
    assert set(frame["class"]) <= {"healthy", "ill"}


def test_a_run_on_a_made_up_sample_says_so_on_stderr(run, work, monkeypatch):
    image = next((work / "raw").glob("*.png"))
    assert "SYNTHETIC" not in typed("predict", run, image).stderr
    monkeypatch.setattr(predict.manifest, "of_sample", lambda paths: paths == [run.path])
    assert (
        "SYNTHETIC data: its probabilities say nothing about patients"
        in typed("predict", run, image).stderr
    )


def test_a_folder_of_odd_files_ends_with_the_list_of_those_that_cannot_be_read(run, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    Image.new("RGB", (20, 12), (200, 100, 50)).save(folder / "good.png")
    (folder / "torn.png").write_bytes(b"\x89PNG")
    stored = np.full((9, 9), 40, np.int16)
    write_slice(folder / "slice.dcm", stored)
    (folder / "empty.dcm").write_bytes(b"")
    (folder / "note.txt").write_text("no image")
    ended = typed("predict", run, folder, "--format", "json", "--out", tmp_path / "p.json")
    assert ended.exit_code == 1
    assert "2 of 4 files cannot be read" in ended.stderr
    written = json.loads((tmp_path / "p.json").read_text())
    result = [line["file"] for line in written["predictions"]]
    expected = [str(folder / name) for name in ("good.png", "slice.dcm")]
    assert result == expected
    result = [line["file"] for line in written["unreadable"]]
    expected = [str(folder / name) for name in ("empty.dcm", "torn.png")]
    assert result == expected
    for line in written["predictions"]:
        assert sum(line["probabilities"].values()) == pytest.approx(1)
    assert "1 file is no image, such as note.txt" in ended.stderr
    rows = list(csv.reader(io.StringIO(typed("predict", run, folder / "good.png").stdout)))
    result = rows[0][-3:]
    assert result == ["class", "foreign", "unreadable"]
    assert len(rows) == 2
    rows = list(csv.DictReader(io.StringIO(typed("predict", run, folder).stdout)))
    result = {row["file"]: row["unreadable"] for row in rows if row["unreadable"]}
    expected = {line["file"]: line["why"] for line in written["unreadable"]}
    assert result == expected
    result = {(row["prob_ill"], row["class"]) for row in rows if row["unreadable"]}
    assert result == {("", "")}


@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
def test_real_slices_are_scored_and_broken_copies_are_listed(run, tmp_path):
    real = Path(os.environ["FEDCLI_REAL_DATA"]) / "ct_head"
    slices = sorted(path for path in real.rglob("I*") if path.is_file())
    whole = slices[0].read_bytes()
    other = pydicom.dcmread(slices[1])
    good = {"I30": whole, "UPPER.DCM": slices[1].read_bytes(), "sub/deep.dcm": whole}
    bad = {
        "half.dcm": whole[: len(whole) // 2],
        "head.dcm": whole[:2000],
        "empty.dcm": b"",
        "text.dcm": b"hello",
    }
    bad |= {
        "no-preamble.dcm": whole[132:],
        "syntax.dcm": whole.replace(b"1.2.840.10008.1.2", b"1.2.840.10008.9.9", 1),
    }
    for name, content in (good | bad).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    for keyword, value in {
        "Rows": 4000,
        "NumberOfFrames": 5,
        "PhotometricInterpretation": "MONOCHROME1",
    }.items():
        changed = pydicom.dcmread(slices[2])
        setattr(changed, keyword, value)
        changed.save_as(tmp_path / f"{keyword}.dcm")
    del other.PixelData
    other.save_as(tmp_path / "no-pixels.dcm")
    shutil.copy(next(real.rglob("DIRFILE")), tmp_path / "DICOMDIR")
    predicted = fedcli.predict(run, [tmp_path]).predicted
    result = {str(Path(file).relative_to(tmp_path)) for file in predicted.files}
    assert result == {
        *good,
        "PhotometricInterpretation.dcm",
    }
    unreadable = {Path(file).name for file, _ in predicted.unreadable}
    assert unreadable == {*bad, "Rows.dcm", "NumberOfFrames.dcm", "no-pixels.dcm"}


def test_a_link_out_of_a_folder_is_listed_and_a_link_that_is_named_is_read(run, work, tmp_path):
    image = next((work / "raw").glob("*.png"))
    folder = tmp_path / "new"
    folder.mkdir()
    shutil.copy(image, folder / "own.png")
    (folder / "link.png").symlink_to(image)
    predicted = fedcli.predict(run, [folder, folder / "link.png"]).predicted
    expected = [str(folder / "own.png"), str(folder / "link.png")]
    assert predicted.files == expected
    expected = [(str(folder / "link.png"), "is a link that leads out of the folder")]
    assert predicted.unreadable == expected


def test_predictions_replace_none_of_the_images_also_with_force(run, work, tmp_path):
    image = shutil.copy(next((work / "raw").glob("*.png")), tmp_path / "new.png")
    content = image.read_bytes()
    ended = typed("predict", run, tmp_path, "--out", image, "--force")
    assert ended.exit_code == 2
    assert "is one of the images" in ended.stderr
    assert image.read_bytes() == content
    broken = tmp_path / "broken.png"
    broken.write_bytes(content[:40])
    ended = typed("predict", run, tmp_path, "--out", broken, "--force")
    assert "is one of the images" in ended.stderr
    assert broken.read_bytes() == content[:40]
    broken.unlink()
    ended = typed("predict", run, tmp_path, "--out", tmp_path / "new.csv")
    assert ended.exit_code == 0
    ended = typed("predict", run, tmp_path, "--out", tmp_path / "new.csv", "--format", "json")
    assert ended.exit_code == 2
    assert "add --format csv, or let its name end in .json" in ended.stderr


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_name_that_is_no_text_is_written_in_letters(run, work, tmp_path, format):
    for name in (b"a\xff.png", b"torn\xfe.png"):
        shutil.copy(
            next((work / "raw").glob("*.png")), os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
        )
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/torn\xfe.png")).write_bytes(b"")
    text = fedcli.predict(run, [tmp_path]).to(format).encode().decode()
    assert ("a\\\\xff.png" if format == "json" else "a\\xff.png") in text


def test_what_cannot_be_predicted_is_refused(run, alone, tmp_path):
    with pytest.raises(FedcliError, match="none of 1 file can be read"):
        fedcli.predict(run, [tmp_path / "gone.png"])
    with pytest.raises(FedcliError, match="no image to score"):
        fedcli.predict(run, [tmp_path])
    with pytest.raises(UsageError, match="has no client 'nort'"):
        fedcli.predict(alone, ["a.png"], client="nort")
    with pytest.raises(UsageError, match="no global model"):
        fedcli.predict(alone, ["a.png"])
    with pytest.raises(UsageError, match="keeps no models of its clients"):
        fedcli.predict(run, ["a.png"], client="north")


def test_the_models_of_clients_that_trained_alone_differ(alone, work):
    files = sorted((work / "raw").glob("*.png"))[:4]
    tables = [fedcli.predict(alone, files, client=client).predicted.chances for client in HOSPITALS]
    assert not np.allclose(tables[0], tables[1])


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    """format -> how its export ended, and the folder that it was written to."""

    @cache
    def export(format):
        folder = tmp_path_factory.mktemp(format) / "out"
        return typed("export", "model", run, "--format", format, "-o", folder), folder

    return export


@pytest.mark.parametrize("format", model_file.FORMATS)
def test_a_model_is_written_with_its_sidecar_agrees_with_predict_and_names_no_place_on_this_machine(
    run, exported, format
):
    ended, folder = exported(format)
    assert ended.exit_code == 0, ended.stderr
    sidecar = json.loads((folder / "model.json").read_text())
    assert sidecar["largest_difference_from_predict"] <= 1e-5
    assert sidecar["classes"] == [
        "healthy",
        "ill",
    ]
    assert sidecar["input"]["shape"][0] == "batch"
    expected = str(folder / sidecar["file"])
    assert ended.stdout.strip() == expected
    for path in folder.iterdir():
        parts = [path.read_bytes()]
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as opened:
                parts += [opened.read(name) for name in opened.namelist()]
        for folder_here in {
            Path(torch.__file__).parents[1],
            Path(model_file.__file__).parents[2],
            Path.home(),
        }:
            for part in parts:
                assert os.fsencode(folder_here) + b"/" not in part
    assert "is there already" in typed("export", run, "--format", format, "-o", folder).stderr


def test_adapters_are_merged_into_the_layers_of_an_exported_model(clients, work, tmp_path):
    """It agrees with predict and has no other tensors than the network by itself."""
    run = fedcli.train(
        "fedprox+afl", clients, rounds=1, adapters="lora:2:64", optimizer="sgd", lr=0.01, work=work
    )
    prediction = fedcli.predict(run, sorted((work / "raw").glob("*.png"))[:2])
    ended = typed(
        "export", "model", run, "--format", "safetensors", "-o", tmp_path / "out.safetensors"
    )
    assert ended.exit_code == 0, ended.stderr
    assert prediction.predicted.chances.shape == (2, 2), ended.stderr
    inputs = models.Inputs(3, 2, 8)
    plain = models.build("cnn", inputs, seed=0).state_dict()
    result = load_file(tmp_path / "out.safetensors").keys()
    assert result == plain.keys()


@pytest.mark.parametrize("kind", model_file.FORMATS)
def test_those_who_may_read_other_files_may_read_a_model(run, tmp_path, kind):
    before = os.umask(0o022)
    try:
        assert typed("export", run, "--format", kind, "-o", tmp_path / "m").exit_code == 0
    finally:
        os.umask(before)
    for path in (tmp_path / "m").iterdir():
        assert oct(path.stat().st_mode)[-3:] == "644", path.name


def test_a_model_may_be_given_the_name_of_a_file(run, tmp_path):
    line = "export", run, "-o", tmp_path / "m.safetensors"
    ended = typed(*line)
    expected = f"{tmp_path / 'm.safetensors'}\n"
    assert ended.stdout == expected
    assert f"{tmp_path / 'm.json'}" in ended.stderr
    result = {path.name for path in tmp_path.iterdir()}
    assert result == {"m.safetensors", "m.json"}
    result = json.loads((tmp_path / "m.json").read_text())["file"]
    assert result == "m.safetensors"
    assert "m.safetensors is there already" in typed(*line).stderr
    (tmp_path / "m.safetensors").unlink()  # as after a kill between the two
    assert typed(*line).exit_code == 0
    assert (tmp_path / "m.safetensors").is_file()
    (tmp_path / "m.safetensors").unlink()
    (tmp_path / "m.json").write_text("mine")
    assert "m.json is there already" in typed(*line).stderr
    result = [path.read_text() for path in tmp_path.iterdir()]
    assert result == ["mine"]


def consumer(folder, file):
    """Chances [C] of an image by model.json, onnxruntime and OpenCV alone."""
    sidecar = json.loads((folder / "model.json").read_text())
    inputs = sidecar["input"]
    size = sidecar["preprocessing"]["size"]
    result = (inputs["layout"], inputs["values"], inputs["range"])
    assert result == (
        "NCHW",
        "prepared pixels / 255",
        [0, 1],
    )
    assert sidecar["preprocessing"]["resize"].startswith(
        "to size x size by INTER_AREA where the image has more than"
    )
    image = cv2.imread(str(file), cv2.IMREAD_COLOR)
    image = cv2.cvtColor(image, {"RGB": cv2.COLOR_BGR2RGB}[inputs["colour_order"]])
    how = cv2.INTER_AREA if image.shape[0] * image.shape[1] > size * size else cv2.INTER_CUBIC
    pixels = (
        cv2.resize(image, (size, size), interpolation=how)
        .transpose(2, 0, 1)[None]
        .astype(inputs["dtype"])
        / 255
    )
    session = onnxruntime.InferenceSession(str(folder / sidecar["file"]))
    logits = session.run([sidecar["output"]["name"]], {inputs["name"]: pixels})[0][0]
    chances = np.exp(logits - logits.max())
    return chances / chances.sum()


def test_onnx_runs_with_opencv_by_its_sidecar_alone(run, exported, tmp_path):
    draw = np.random.default_rng(0)
    for name, shape in {"large": (23, 31, 3), "same": (8, 8, 3), "small": (5, 7, 3)}.items():
        Image.fromarray(
            draw.integers(0, 256, shape, np.uint8) // np.array([1, 2, 4], np.uint8)
        ).save(tmp_path / f"{name}.png")
    expected = fedcli.predict(run, files := sorted(tmp_path.glob("*.png"))).predicted.chances
    folder = exported("onnx")[1]
    result = np.stack([consumer(folder, file) for file in files])
    assert result == pytest.approx(expected, abs=1e-5)


def test_a_sidecar_names_the_positive_class_the_threshold_and_its_rule_where_one_was_chosen(
    run, exported, monkeypatch
):
    sidecar = json.loads((exported("onnx")[1] / "model.json").read_text())
    assert sidecar["operating_points"] is None
    assert sidecar["decision"].startswith("no threshold was chosen")
    sha256 = "ab" * 32
    point = OperatingPoint("ill", "sensitivity=0.95", 0.4556, 108, "images", sha256)
    monkeypatch.setattr(model_file, "points", lambda *_: [point])
    opened = open_run(run.path)
    written = exported("onnx")[1] / "model.onnx"
    preprocessing = predict.Preprocessing.of(opened)
    sidecar = model_file._sidecar(opened, preprocessing, written, "onnx", None, False, 0.0)
    expected = [
        {
            "positive": "ill",
            "rule": "sensitivity=0.95",
            "threshold": 0.4556,
            "images": 108,
            "chosen_on": "validation",
            "data": "images",
            "data_sha256": "ab" * 32,
        }
    ]
    assert sidecar["operating_points"] == expected
    assert "at least the threshold" in sidecar["decision"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "format", "batch", "side"),
    [("resnet10", "torchscript", "batch", 8), ("clip-tiny", "onnx", 1, 32)],
)
def test_residual_networks_and_transformers_are_exported_too(
    work, tmp_path, model, format, batch, side
):
    """The small network above, which has batch norm too, is tried in every format."""
    raw = write_hospitals(tmp_path / "raw", count=24)
    images = prepared(raw, work, size=side)
    clients = fedcli.partition(images, by=["hospital"], work=work)
    trained = fedcli.train("fedavg", clients, rounds=1, model=model, work=work)
    result = typed("export", trained, "--format", format, "-o", tmp_path / "out").exit_code
    assert result == 0
    result = json.loads((tmp_path / "out" / "model.json").read_text())["input"]["shape"][0]
    assert result == batch


@pytest.mark.parametrize("format", ["torchscript", "torch.export"])
def test_a_network_with_a_normalisation_of_its_own_is_exported(format, tmp_path):
    """It computes the numbers of its normalisation in its first pass and keeps them."""
    transforms.by_channel.cache_clear()
    inputs = models.Inputs(3, 2, 32)
    net = models.build("efficientnet-lite0", inputs, seed=0).eval()
    module = model_file.PreparedModel(net, 3).eval()
    path = tmp_path / f"model.{model_file.SUFFIXES[format]}"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scorer = model_file._written(format, module, torch.rand(2, 3, 32, 32), path, True)
        pixels = torch.rand(3, 3, 32, 32)
        expected = module(pixels).numpy()
        np.testing.assert_allclose(scorer(pixels.numpy()), expected, rtol=0, atol=1e-5)


def test_a_file_that_differs_from_predict_is_not_kept(run, tmp_path, monkeypatch):
    write, _ = model_file.FORMATS["torchscript"]
    wrong = {
        "torchscript": (
            write,
            lambda path, module: lambda pixels: torch.zeros(len(pixels), 2).numpy(),
        )
    }
    monkeypatch.setattr(model_file, "FORMATS", model_file.FORMATS | wrong)
    ended = typed("export", run, "--format", "torchscript", "-o", tmp_path / "out")
    assert ended.exit_code == 1
    assert "differs from fedcli predict" in ended.stderr
    assert not (tmp_path / "out").exists()


MISTYPED = [
    (["modle"], "'modle' is no run"),
    (["flower"], "fedcli site job"),
    (["nvflare", "described"], "fedcli site job"),
    (["model"], "which kind"),
]


@pytest.mark.parametrize(("words", "sentence"), MISTYPED)
def test_a_mistyped_export_says_what_there_is(words, sentence, tmp_path):
    ended = typed("export", *words, "-o", tmp_path / "x")
    assert ended.exit_code == 2
    assert sentence in ended.stderr


def test_an_unfinished_run_is_not_exported_and_says_how_it_goes_on(tmp_path):
    folder = tmp_path / "runs" / "half"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text("{}")
    for words in (["half"], ["model", "half"], [str(folder)]):
        ended = typed("export", *words, "--format", "onnx", "--work", tmp_path)
        assert ended.exit_code == 1
        assert f"{folder} holds an unfinished run" in ended.stderr
        assert f"train --resume --out {folder}" in ended.stderr


class Transformed(torch.nn.Module):
    def forward(self, x):
        return torch.fft.fft2(x).real.flatten(1)


def test_what_onnx_does_not_know_is_said_in_a_sentence_and_nothing_on_stdout(tmp_path, capsys):
    module = model_file.PreparedModel(Transformed(), 1)
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(FedcliError, match="cannot be written as onnx"):
            model_file._written("onnx", module, torch.rand(2, 1, 8, 8), path, True)
    assert capsys.readouterr().out == ""


def test_predict_without_a_file_says_what_is_missing(run):
    ended = typed("predict", run)
    assert ended.exit_code == 2
    assert "predict needs FILE" in ended.stderr


def test_of_two_exports_into_one_folder_the_slower_one_is_refused(run, tmp_path, monkeypatch):
    folder = tmp_path / "m"
    sidecar = model_file._sidecar

    def slow(*arguments):
        folder.mkdir()
        (folder / "model.pt").write_text("of the other process")
        return sidecar(*arguments)

    monkeypatch.setattr(model_file, "_sidecar", slow)
    with pytest.raises(FedcliError, match="m is there already"):
        model_file.export(open_run(run.path), "torchscript", folder)
    assert (folder / "model.pt").read_text() == "of the other process"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_clients_name_leads_no_export_out_of_its_folder(tmp_path):
    hospitals = ("../../../out", "north\nsouth")
    raw = write_hospitals(tmp_path / "raw", count=48, hospitals=hospitals)
    options = prepared(raw, tmp_path / "work")
    clients = fedcli.partition(options, by=["hospital"], work=tmp_path / "work")
    run = fedcli.train("fedavg", clients, rounds=1, single_site=True, work=tmp_path / "work")
    for client, part in zip(hospitals, ("_out", "north_south"), strict=True):
        line = (
            "export",
            "model",
            run.path,
            "--client",
            client,
            "--format",
            "torchscript",
            "--work",
            tmp_path / "work",
        )
        ended = typed(*line)
        name = f"{run.path.parent.name}-{part}-torchscript"
        expected = f"{tmp_path / 'work' / 'exported' / name / 'model.pt'}\n"
        assert ended.stdout == expected
        assert Path(ended.stdout.strip()).is_file()
