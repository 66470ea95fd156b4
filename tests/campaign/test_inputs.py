"""Files that people bring: tables, pictures, archives, weights, experiments. What is changed does no harm."""

import shutil
from pathlib import Path

import albumentations
import numpy as np
import pytest
import torch
import torchvision
from raw_folders import write_csv, write_slice

from fedcli.models import Inputs, build

from .chain import PREPARE, Chain, copied, expanded, files, raw_images
from .judge import faults, leftovers
from .mutations import mutate
from .process import run
from .test_sites import POLICY

LAYOUTS = [
    "bcn20000",
    "digits",
    "fairfedmed-oct",
    "fairfedmed-slo",
    "fed-isic",
    "fedchexmimic",
    "hyper-kvasir",
    "images",
    "isic-skin-tone",
    "isic2018",
    "isic2019",
    "medmnist",
    "messidor2",
    "office-caltech",
    "rsna-ich",
]
PRETRAINED = ["--model", "torchvision:shufflenet_v2_x0_5", "--weights", "pretrained.pt"]
PREDICT = ["predict", "fedcli-work/runs/fedprox-*", "scan.dcm", "scan.png"]
BROUGHT = {  # a file -> (what stands before, lines that read it)
    "raw/labels.csv": ("prepare", [PREPARE]),
    "raw/im07.png": ("prepare", [PREPARE, [*PREPARE, "--strict"]]),
    "attributes.csv": ("prepare", [[*PREPARE, "--attributes", "attributes.csv"]]),
    "split.csv": ("prepare", [[*PREPARE, "--split-file", "split.csv"]]),
    "folds.csv": ("prepare", [[*PREPARE, "--split-file", "folds.csv", "--fold", "1"]]),
    "clients.csv": ("partition", [["partition", "--clients-file", "clients.csv"]]),
    "clients.json": ("partition", [["partition", "--clients-file", "clients.json"]]),
    "clients.npy": ("partition", [["partition", "--clients-file", "clients.npy"]]),
    "order.csv": (
        "partition",
        [["partition", "--clients-file", "clients.npy", "--order-file", "order.csv"]],
    ),
    "policy.toml": (
        "train",
        [
            ["site", "check", "--client", "client-00", "--policy", "policy.toml"],
            [
                "site",
                "describe",
                "--client",
                "client-00",
                "--policy",
                "policy.toml",
                "--out",
                "d.json",
            ],
        ],
    ),
    "site.json": (
        "train",
        [
            ["site", "job", "flower", "site.json", "-o", "app"],
            ["site", "job", "nvflare", "site.json", "-o", "job"],
            ["train", "fedavg", "--sites", "site.json", "--engine", "socket:s", "--dry-run"],
        ],
    ),
    "augment.json": ("train", [["train", "fedavg", "--rounds", "1", "--augment", "augment.json"]]),
    "augment.yaml": ("train", [["train", "fedavg", "--rounds", "1", "--augment", "augment.yaml"]]),
    "weights.pt": ("train", [["train", "fedavg", "--rounds", "1", "--weights", "weights.pt"]]),
    "pretrained.pt": ("train", [["train", "fedavg", "--rounds", "1", *PRETRAINED]]),
    "teacher.pt": ("train", [["train", "fed-mas", "--rounds", "1", "--teacher", "teacher.pt"]]),
    "own.toml": (
        "run",
        [["reproduce", "own.toml", "--raw", "raw", "--dry-run"]],
    ),
    "classes.csv": (
        "evaluate",
        [["evaluate", "--on", "foreign", "--all-images", "--map-classes", "classes.csv"]],
    ),
    "foreign/dataset.json": ("evaluate", [["evaluate", "--on", "foreign", "--all-images"]]),
    "foreign/pool.h5": ("evaluate", [["evaluate", "--on", "foreign"]]),
    "scan.dcm": ("evaluate", [PREDICT]),
    "scan.png": ("evaluate", [PREDICT, [*PREDICT, "--format", "json"]]),
    "chest/labels.csv": (
        "prepare",
        [
            [
                "prepare",
                "images",
                "--raw",
                "chest",
                "--size",
                "8",
                "--multi-label",
                "--label-column",
                "signs",
            ],
            [
                "prepare",
                "images",
                "--raw",
                "chest",
                "--size",
                "8",
                "--multi-label",
                "--label-column",
                "mass",
                "--label-column",
                "nodule",
                "--set",
                "uncertain=ignore",
            ],
        ],
    ),
    "fedcli.toml": ("train", [["train", "fedavg"], ["ls"], ["partition"], ["report"]]),
}
DEFAULTS = """
work = "fedcli-work"
device = "cpu"
jobs = 1
[train]
rounds = 1
batch-size = 16
set = { }
prior = "bsm"
resume = true
[partition]
dirichlet = 1.0
by = ["sex"]
"""


BESIDE = {  # what a file is read with
    "order.csv": ["clients.npy"],
    "classes.csv": ["foreign"],
    "scan.dcm": ["scan.png"],
    "scan.png": ["scan.dcm"],
}


@pytest.fixture(scope="module")
def brought(chain, tmp_path_factory) -> Path:
    """One file of each kind."""
    folder = tmp_path_factory.mktemp("brought")
    names = [f"im{i:02d}.png" for i in range(60)]
    ages = [[name, str(20 + i), "xyz"[i % 3]] for i, name in enumerate(names)]
    write_csv(folder / "attributes.csv", ["image", "age", "race"], ages)
    write_csv(
        folder / "split.csv",
        ["image", "split"],
        [[n, ["train", "test"][i % 5 == 0]] for i, n in enumerate(names)],
    )
    write_csv(
        folder / "folds.csv", ["image", "fold"], [[n, str(i // 2 % 3)] for i, n in enumerate(names)]
    )
    write_csv(
        folder / "clients.csv",
        ["image", "client"],
        [[n, ["n", "s"][i % 2]] for i, n in enumerate(names)],
    )
    (folder / "clients.json").write_text(
        '{"north": ["im01.png", "im02.png"], "south": ["im03.png", "im04.png", "im05"]}'
    )
    np.save(
        folder / "clients.npy", np.array({0: [0, 1, 2], 1: [3, 4]}, dtype=object), allow_pickle=True
    )
    steps = albumentations.Compose(
        [albumentations.HorizontalFlip(p=0.5), albumentations.RandomBrightnessContrast(p=0.3)]
    )
    albumentations.save(steps, folder / "augment.json", data_format="json")
    albumentations.save(steps, folder / "augment.yaml", data_format="yaml")
    inputs = Inputs(3, 2, 16, ["a", "b"], {"sex": ["f", "m"]})
    torch.save(build("cnn", inputs, seed=1, precision="fp32").state_dict(), folder / "weights.pt")
    torch.save(
        build("resnet10", inputs, seed=1, precision="fp32").state_dict(), folder / "teacher.pt"
    )
    published = torchvision.models.shufflenet_v2_x0_5(num_classes=1000)  # as it is downloaded
    torch.save(published.state_dict(), folder / "pretrained.pt")
    (folder / "fedcli.toml").write_text(DEFAULTS)
    (folder / "policy.toml").write_text(POLICY)
    write_csv(folder / "order.csv", ["id", "age"], [[name, "7"] for name in names[::-1]])
    site_folder = copied(chain.before("train"), tmp_path_factory.mktemp("site") / "here")
    assert (
        run(["site", "describe", "--client", "client-00", "--out", "site.json"], site_folder).code
        == 0
    )
    shutil.copy(site_folder / "site.json", folder)
    raw_images(site_folder / "others", seed=12)
    ended = run(
        [
            "prepare",
            "images",
            "--raw",
            "others",
            "--size",
            "16",
            "--group",
            "sex",
            "--out",
            "foreign",
        ],
        site_folder,
    )
    assert ended.code == 0, ended.err
    shutil.copytree(site_folder / "foreign", folder / "foreign")
    write_csv(folder / "classes.csv", ["theirs", "ours"], [["a", "b"], ["b", ""]])
    raw_images(folder / "chest", seed=13)
    signs = []
    for i, name in enumerate(names):
        signs.append([name, ["Mass", "Mass|Nodule", "None"][i % 3], i % 2, i // 2 % 3 - 1])
    write_csv(folder / "chest" / "labels.csv", ["image", "signs", "mass", "nodule"], signs)
    write_slice(folder / "scan.dcm", np.arange(256, dtype=np.int16).reshape(16, 16))
    shutil.copy(folder / "chest" / "im03.png", folder / "scan.png")
    return folder


def with_file(name: str, brought: Path, chain: Chain, target: Path) -> Path:
    """A copy of the chain with a file of one's own beside it."""
    folder = copied(chain.before(BROUGHT[name][0]), target)
    if "/" in name and (brought / name).exists():
        shutil.copytree(brought / Path(name).parent, folder / Path(name).parent)
    elif (brought / name).is_file():
        shutil.copy(brought / name, folder / name)
    for other in BESIDE.get(name, ()):
        (shutil.copytree if (brought / other).is_dir() else shutil.copy)(
            brought / other, folder / other
        )
    return folder


@pytest.mark.parametrize("name", BROUGHT)
def test_a_changed_file_of_ones_own_ends_in_a_sentence(name, brought, chain, play, tmp_path):
    lines = [expanded(line, chain.before(BROUGHT[name][0])) for line in BROUGHT[name][1]]
    if name != "teacher.pt":
        whole = run(lines[0], with_file(name, brought, chain, tmp_path / "case"))
        assert whole.code == 0, whole.err
    for draw in play.cases():
        folder = with_file(name, brought, chain, tmp_path / "case")
        note = f"{name}: {mutate(folder / name, draw)}"
        if draw.random() < 0.3 and (folder / name).stat().st_size:
            note += f", and {mutate(folder / name, draw)}" if name.endswith("yaml") else ""
        standing = set(files(folder))
        ended = run(lines[int(draw.integers(len(lines)))], folder)
        wrong = faults(ended)
        if ended.code:
            wrong += leftovers(standing, files(folder))
        play.judge(ended, wrong, note)


@pytest.fixture(scope="module")
def layouts(chain, tmp_path_factory) -> Path:
    """A synthetic sample of every public dataset, in its layout."""
    folder = tmp_path_factory.mktemp("layouts")
    for name in LAYOUTS:
        assert run(["datasets", name, "--make-sample", name], folder).code == 0
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_changed_file_of_a_public_layout_ends_in_a_sentence(layout, layouts, play, tmp_path):
    """Or the stages after it go on to the end."""
    suffixes = sorted(
        {path.suffix for path in (layouts / layout).rglob("*") if path.is_file()} - {".txt"}
    )
    for draw in play.cases():
        folder = copied(layouts / layout, tmp_path / layout).parent
        suffix = str(draw.choice(suffixes))
        paths = sorted((folder / layout).rglob(f"*{suffix}"))
        path = paths[int(draw.integers(len(paths)))]
        note = f"{path.relative_to(folder)}: {_changed(path, draw)}"
        shutil.rmtree(folder / "fedcli-work", ignore_errors=True)
        standing = set(files(folder))
        strict = ["--strict"] if draw.random() < 0.3 else []
        ended = run(
            ["prepare", layout, "--raw", layout, "--size", "8", "--jobs", "1", *strict], folder
        )
        wrong = faults(ended)
        if ended.code == 0:
            for words in (["partition", "--dirichlet", "1", "--clients", "2"], ["inspect"]):
                ended = run(words, folder)
                wrong += faults(ended)
        if ended.code:
            wrong += leftovers(standing, files(folder))
        play.judge(ended, wrong, note)


def _changed(path: Path, draw: np.random.Generator) -> str:
    how = str(
        draw.choice(
            [
                "mutated",
                "mutated",
                "mutated",
                "mutated",
                "removed",
                "a folder",
                "capitals",
                "copied",
            ]
        )
    )
    match how:
        case "removed":
            path.unlink()
        case "a folder":
            path.unlink()
            path.mkdir()
        case "capitals":
            path.rename(path.with_name(path.name.upper()))
        case "copied":
            shutil.copy(path, path.with_name(f"copy of {path.name}"))
        case _:
            how = mutate(path, draw)
    return how
