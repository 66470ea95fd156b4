"""Command lines with --device cuda, as they are typed, on the pretended GPU (pretend.py)."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import interrupt_in_round, make_chain
from PIL import Image
from pretend import Graph, pretended
from site_federation import chain_with_tests, plan, sites_of, train_at
from torchvision.models import resnet18
from typed_lines import fedcli, path_of

from fedcli.bench import limits
from fedcli.federation.server import Federation
from fedcli.runs.settings import begun, environment

RECIPE = """
title = "own"
seeds = [0]
[data.plain]
dataset = "toy"
partition = { dirichlet = 1.0, clients = 2 }
[train]
rounds = 1
batch-size = 256
[[row]]
name = "FedAvg"
method = "fedavg"
[[column]]
name = "accuracy"
data = "plain"
score = "versions/clean/accuracy"
"""
FAST = "--rounds 2 --batch-size 8 --optimizer sgd --lr 0.05"
TRAINED = [
    "fedavg",
    "fedheal --augment affine-flip --sampling group-class:sex",
    "fedprox --jobs 2 --augment crop",
    "moon --precision bf16 --participation 0.5",
    "scaffold --personal --bn local --optimizer sgd:momentum=0.9,nesterov,keep --schedule cosine:warmup=1",
    "fedavg --dp client:1",
    "fedavg --dp image:1 --model cnn-gn",
    "fedprox+fedadam --class-weights balanced --loss cross-entropy:smoothing=0.1 --optimizer clip=5,backbone=0.5",
    "group-dro --precision tf32 --eval-every 1",
    "fedavg --precision auto",
    "fedbn --single-site",
    "lora --model clip-tiny",
    "fedavg --then crt",
    "fedavg --dry-run",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_chain(tmp_path_factory.mktemp("data"))


def typed(line, free=80 << 30):
    """The output of a line that ends well on the pretended GPU."""
    with pretended(free):
        code, out, err = fedcli(*shlex.split(line), "--device", "cuda")
    assert code == 0, err
    return out.strip()


def train(options, data, folder, **rest):
    return typed(f"train {FAST} {options} {data} --work {folder}", **rest)


@pytest.mark.parametrize("options", TRAINED)
def test_a_training_is_one_on_a_gpu(options, data, tmp_path):
    train(options, data, tmp_path)
    runs = [
        json.loads(path.read_text())["body"]["environment"]
        for path in tmp_path.glob("runs/*/run.json")
    ]
    for recorded in runs:
        assert recorded["device_name"] == "pretended GPU"
    expected = 1 + options.count("--then") - (options.count("--dry-run"))
    assert len(runs) == expected


def test_a_run_is_scored_and_shown(data, tmp_path):
    run = train("fedheal", data, tmp_path)
    torch.set_deterministic_debug_mode("default")
    scores = typed(f"evaluate {run} --by sex --work {tmp_path}")
    assert torch.get_deterministic_debug_mode() == 2
    assert scores.endswith("scores.json")
    assert "FedHEAL" in fedcli("report", scores, "--work", tmp_path)[1]


def test_one_that_was_stopped_goes_on_where_it_was(data, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    line = f"train fedheal {data} {FAST} --rounds 3"
    whole = typed(f"{line} --out {tmp_path / 'whole'}")
    with monkeypatch.context() as patch, pretended():
        patch.setattr(Federation, "play", interrupt_in_round(3))
        assert fedcli(*shlex.split(line), "--out", folder, "--device", "cuda")[0] == 130
    with pretended():
        code, out, err = fedcli("train", "--resume", "--out", folder)
    assert code == 0, err
    assert models(out.strip()) == models(whole)


def test_a_run_of_the_second_gpu_goes_on_there(data, tmp_path):
    settings = tmp_path / "run" / "settings.json"
    with pretended():
        torch.cuda.device_count = lambda: 2
        code, _, err = fedcli(
            *shlex.split(f"train fedavg {data} {FAST} --out {tmp_path / 'run'}"),
            "--device",
            "cuda:1",
        )
        assert code == 0, err
        assert environment("cuda:1")["device"] == "cuda"  # bytes are those of any of them
    assert json.loads(settings.read_text())["device"] == begun(settings.parent).device == "cuda:1"


def test_images_that_do_not_fit_are_copied_batch_by_batch_and_give_the_same_model(data, tmp_path):
    on_gpu, on_host = (
        train("fedprox", data, tmp_path / str(free), free=free) for free in (80 << 30, 1000)
    )
    assert models(on_gpu) == models(on_host)
    assert train("fedavg --freeze-backbone", data, tmp_path / "frozen", free=1000)


def models(run):
    return {path.name: path.read_bytes() for path in (Path(run).parent / "models").iterdir()}


def test_a_pipeline_has_threads_that_touch_no_gpu(data, tmp_path):
    """They begin on the default stream, which waits for no worker's."""
    flip = {"__class_fullname__": "HorizontalFlip", "p": 0.5}
    (tmp_path / "own.json").write_text(json.dumps({"__version__": "2.0.8", "transform": flip}))
    assert train(f"fedprox --jobs 2 --augment {tmp_path / 'own.json'}", data, tmp_path)


def test_a_teacher_from_a_file(data, tmp_path):
    net = resnet18()
    torch.save(net.state_dict(), tmp_path / "teacher.pth")
    assert train(f"kd --teacher {tmp_path / 'teacher.pth'} --rounds 1", data, tmp_path)


def test_several_labels_and_a_prediction(tmp_path):
    raw = fedcli("datasets", "chestmnist", "--make-sample", tmp_path / "raw")[1].strip()
    where = f"--work {tmp_path} --quiet"
    dataset = path_of(fedcli(*shlex.split(f"prepare chestmnist --raw {raw} --size 8 {where}")))
    partition = path_of(
        fedcli(*shlex.split(f"partition {dataset} --dirichlet 1 --clients 2 {where}"))
    )
    run = train("fedprox --class-weights balanced --optimizer adam", partition, tmp_path)
    Image.fromarray(np.full((8, 8), 90, np.uint8)).save(tmp_path / "one.png")
    assert "one.png" in typed(f"predict {run} {tmp_path / 'one.png'}")


def test_a_sweep_and_a_recipe(data, tmp_path):
    with pretended():
        words = shlex.split(f"train qffl {data} --over q=0.5,2 --device cuda --work {tmp_path}")
        code, _, err = fedcli(*words, "--rounds", 1)
        assert code == 0, err
        (tmp_path / "own.toml").write_text(RECIPE)
        code, _, err = fedcli(
            "reproduce", tmp_path / "own.toml", "--device", "cuda", "--work", tmp_path / "recipe"
        )
        assert code == 0, err
    result = [len([*folder.glob("runs/*/run.json")]) for folder in (tmp_path, tmp_path / "recipe")]
    assert result == [2, 1]


def test_sites_train_on_their_gpus(tmp_path):
    data = chain_with_tests(tmp_path)
    usual = train("scaffold", data, tmp_path)
    with pretended():
        sites = sites_of(data, tmp_path / "sites", device="cuda")
        run_path = train_at(sites, data, plan("scaffold"), tmp_path / "work")
        assert usual
        assert run_path.exists()
        for site in sites.values():
            assert site.device == "cuda"


def test_a_forecast_records_a_step_once(data, tmp_path):
    with pretended():
        words = shlex.split(f"train fedheal {data} {FAST} --dry-run --work {tmp_path}")
        assert fedcli(*words, "--device", "cuda")[0] == 0
        assert Graph.captures == 1


def test_a_finished_training_is_not_lost_to_a_measurement(data, tmp_path, monkeypatch):
    def full(*_):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(limits, "LEAST", 0.0)
    monkeypatch.setattr(limits, "copy_speed", full)
    monkeypatch.setattr(limits, "SIDE", {"cuda": 8})
    assert train("fedavg", data, tmp_path).endswith("run.json")
    monkeypatch.setattr(
        limits, "matrix_speed", lambda *_: 1 / 0
    )  # any other error comes after the manifest
    with pretended():
        words = shlex.split(f"train fedprox {data} {FAST} --work {tmp_path} --device cuda")
        assert fedcli(*words)[0] != 0
    assert len([*tmp_path.glob("runs/fedprox*/run.json")]) == 1
