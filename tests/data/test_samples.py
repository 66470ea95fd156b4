"""Every synthetic sample goes the whole way, from its folder to scores, as its dataset would."""

import contextlib
import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import forked
import numpy as np
import pytest
from made_plans import planned, train
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.data import manifest, shared_patients, sources
from fedcli.data.pool import read_pool
from fedcli.data.preparation.raw_folder import usual_sample
from fedcli.data.sources import SOURCES, make_sample
from fedcli.errors import FedcliError, UsageError
from fedcli.federation.client import Training
from fedcli.scores.evaluate import evaluate
from fedcli.scores.scores import RunScores
from fedcli.scores.statistics import intervals
from fedcli.stages.corrupt import corrupt

LARGEST = 2_000_000  # bytes
SAMPLES = [name for name, source in SOURCES.items() if source.files]


def files(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_all_datasets_but_those_made_or_embedded_here_have_a_synthetic_sample():
    result = set(SOURCES) - set(SAMPLES)
    assert result == {"phantom", "toy"}


@dataclass(frozen=True)
class Made:
    """A sample, and what is made of it by the lines that its making prints."""

    name: str
    raw: Path
    dataset: Path
    partition: Path


@pytest.fixture(scope="module")
def sample(request, tmp_path_factory):
    name = request.param
    folder = tmp_path_factory.mktemp(request.param)
    with contextlib.chdir(folder):
        output = (
            CliRunner().invoke(app, ["datasets", name, "--make-sample", "a sample"]).stderr.strip()
        )
        assert output.startswith(
            f"next: fedcli prepare {name} --raw 'a sample'; then fedcli partition --"
        )
        paths = []
        for line in output.removeprefix("next: ").removesuffix(" (it is small)").split("; then "):
            words = [
                *shlex.split(line)[1:],
                *(["--size", "16", "--jobs", "1"] if "prepare" in line else []),
            ]
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, done.stderr
            paths.append(folder / done.stdout.strip())
    return Made(name, folder / "a sample", *paths)


@pytest.mark.parametrize("sample", SAMPLES, indirect=True)
def test_a_sample_is_small_and_has_the_same_bytes_every_time(sample, tmp_path):
    contents = files(sample.raw)
    folder = make_sample(sample.name, tmp_path / "again")
    contents_again = files(folder)
    assert contents == contents_again
    assert 0 < sum(map(len, contents.values())) < LARGEST


@pytest.mark.parametrize("sample", SAMPLES, indirect=True)
def test_no_patient_of_a_sample_is_on_both_sides_by_default(sample):
    """Every dataset that knows its patients or lesions is prepared without a word about its split."""
    for data in (sample.dataset, sample.partition):
        body = manifest.read(data).body
        assert shared_patients.of_body(body) == ""


@pytest.fixture(scope="module")
def trained():
    """Kinds of datasets that have been trained on: their labels, channels, and whether they have sites."""
    return set()


@pytest.mark.parametrize("sample", SAMPLES, indirect=True)
def test_a_sample_goes_the_whole_way_to_scores_by_the_lines_that_its_making_prints(
    sample, trained, monkeypatch
):
    """To clients and corrupted images every sample; to scores one of each kind of dataset."""
    monkeypatch.setattr(intervals, "RESAMPLES", 20)
    body = manifest.read(sample.dataset).body
    work = sample.dataset.parent.parent.parent
    assert body["name"] == sample.name
    assert body["split"]["train"]
    assert body["split"]["test"]
    data = corrupt(sample.partition, "gaussian", ratio=0.5, work=work, jobs=1).path
    kind = body.get("task"), body["channels"], bool(body["sites"])
    if kind in trained:
        return
    trained.add(kind)
    training = Training(lr=1e-3, batch_size=16)
    plan = planned("fedavg", {}, training, rounds=1)
    run = train(data, plan, work=work, out=None)
    scores = RunScores.read(evaluate(run))
    assert set(scores.versions) == {"clean", "corrupted", "average"}
    assert set(scores.groups) == set(body["attributes"])


@pytest.mark.parametrize("sample", SAMPLES, indirect=True)
def test_both_parts_of_a_sample_have_every_class_and_every_value(sample):
    body = manifest.read(sample.dataset).body
    path = sample.dataset.parent / "pool.h5"
    pool = read_pool(path)
    for part in (0, 1):
        y = pool.y[pool.split == part]
        result = set(y.nonzero()[1] if y.ndim == 2 else y)
        assert result == set(range(len(body["classes"])))  # several labels, or one
    for name, values in body["attributes"].items():
        result = set(range(len(values)))
        assert result <= set(pool.groups[name]), name


@pytest.mark.parametrize("sample", SAMPLES, indirect=True)
def test_a_samples_images_all_differ_and_its_classes_do_so_too(sample):
    path = sample.dataset.parent / "pool.h5"
    pool = read_pool(path)
    pixels = pool.pixels().astype(float)  # [N, H, W, C]
    result = len(np.unique(pixels.reshape(len(pixels), -1), axis=0))
    assert result == len(pixels)
    axis = (1, 2, 3)
    assert pixels.std(axis=axis).min() > 2  # each image shows something
    of_class = (
        [y == 1 for y in pool.y.T]
        if pool.y.ndim == 2
        else [pool.y == label for label in np.unique(pool.y)]
    )
    means = np.stack([pixels[images].mean(0) for images in of_class])
    apart = [np.abs(mean - other).mean() for i, mean in enumerate(means) for other in means[:i]]
    assert min(apart) > 1


@pytest.mark.parametrize("exists", [True, False])
def test_a_sample_that_was_not_made_to_its_end_is_made_again(tmp_path, monkeypatch, exists):
    folder = tmp_path / "sample"
    if exists:
        folder.mkdir()

    def dies(new_folder):
        (new_folder / "half").touch()
        os._exit(9)

    def work():
        monkeypatch.setattr(sources, "source", lambda name: replace(SOURCES[name], sample=dies))
        make_sample("isic2018", folder)

    assert forked.run(work, tmp_path).returncode == 9
    assert list(tmp_path.rglob("half"))
    make_sample("isic2018", folder)
    assert not list(tmp_path.rglob("half"))
    assert not list(tmp_path.rglob("*.lock"))
    assert sources.is_sample(folder)


def test_the_lock_of_a_sample_that_was_renamed_is_removed_later(tmp_path):
    folder = usual_sample("isic2018", tmp_path)
    lock = folder.with_name(f".{folder.name}.0123abcd.lock")
    lock.touch()
    usual_sample("isic2018", tmp_path)
    assert not lock.exists()


def test_a_sample_needs_a_new_folder_and_a_dataset_with_files(tmp_path):
    (tmp_path / "own.txt").write_text("mine")
    with pytest.raises(FedcliError, match="is not an empty folder"):
        make_sample("isic2018", tmp_path)
    with pytest.raises(FedcliError, match="is not an empty folder"):
        make_sample("isic2018", tmp_path / "own.txt")
    result = [p.name for p in tmp_path.iterdir()]
    assert result == ["own.txt"]
    with pytest.raises(FedcliError, match="toy reads no files, so it has no synthetic sample"):
        make_sample("toy", tmp_path / "new")
    with pytest.raises(UsageError, match="unknown dataset 'isic2081'"):
        make_sample("isic2081", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_command_prints_the_folder_for_the_next_one(tmp_path):
    done = CliRunner().invoke(
        app, ["datasets", "images", "--make-sample", str(tmp_path / "sample")]
    )
    expected = (0, str(tmp_path / "sample"))
    assert (done.exit_code, done.stdout.strip()) == expected
    done = CliRunner().invoke(app, ["datasets", "--make-sample", str(tmp_path / "other")])
    assert done.exit_code == 2
    assert "--make-sample needs a dataset" in done.stderr
