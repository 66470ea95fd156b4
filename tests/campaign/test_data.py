"""Data that nobody prepared: odd names, classes, sizes and tables. Every stage gives a result or a sentence."""

import json
import string
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from raw_folders import write_csv

from .judge import faults
from .play import Play
from .process import Ended, run

Draw = np.random.Generator

WORDS = [
    "a",
    "b",
    "nan",
    "None",
    "0",
    "1",
    "1.0",
    "-1",
    "all",
    "test",
    "train",
    "clean",
    "corrupted",
    "average",
    "é",
    "e\u0301",
    "Ä",
    "ä",
    "A",
    "a b",
    "a/b",
    "a,b",
    'a"b',
    "a;b",
    "a\tb",
    "=1+1",
    "x" * 90,
    "ß",
    "ẞ",
    "日本",
    "\u200bz",
    "\u202eabc",
    "%s",
    "{0}",
    "$x",
    "<b>",
    "&amp;",
    "\\alpha",
    "_",
    "*",
    "?",
    ".",
    "..",
    "-",
    "--",
    "true",
    "NULL",
    "N/A",
    "unknown",
    "mean",
    "std",
    "worst",
    "gap",
    "client-00",
    "models",
    "#",
    "'",
    "1e5",
    "1_0",
    "\u0661",
    "²",
    "Ⅷ",
    "ﬁ",
    "I",
    "\u0131",
    "İ",
    "\u017f",
    "K",
    "\u00a0",
    "a\u00a0b",
]
COLUMNS = [
    "label",
    "image",
    "sex",
    "site",
    "patient",
    "age",
    "clean",
    "corrupted",
    "average",
    "all",
    "overall",
    "worst",
    "gap",
    "count",
    "Label",
    "LABEL",
    "label ",
    "é",
    "a b",
    "a,b",
    "a*b",
    "0",
    "nan",
    "race*sex",
    "x" * 90,
    "<b>",
    "=1",
    "client",
    "split",
    "fold",
]
SCHEMES = [
    ["--dirichlet", "0.1"],
    ["--dirichlet", "1", "--balanced"],
    ["--iid"],
    ["--shards", "1"],
    ["--by", "SITE"],
    ["--fedmrl", "0.5"],
    ["--by", "SEX"],
    ["--by", "SITE", "--portion", "0.7"],
    ["--iid", "--keep-units"],
    ["--fedism", "1"],
    ["--shards", "2"],
    [],
    ["--dirichlet", "1e-9"],
    ["--dirichlet", "1e9"],
    ["--by", "SITE", "--shares", "0.9,0.1"],
    ["--scheme", "quantity"],
]
METHODS = [
    "fedavg",
    "fedprox",
    "fedheal",
    "fedism-plus",
    "fed-mas",
    "scaffold",
    "feddyn",
    "fednova",
    "moon",
    "creff",
    "ldam",
    "afl",
    "qffl",
    "fedfv",
    "fedga",
    "fedce",
    "fedmrl",
    "fedproto",
    "fedproc",
    "ditto",
    "fedbn",
    "fedlc",
    "fairfed",
    "bsm",
    "logit-adjust",
    "fedmgda-plus",
    "fedavgm",
    "fedprox+fedheal",
    "salt",
    "saga",
    "kd",
]


def words(draw: Draw, count: int) -> list[str]:
    return [WORDS[int(i)] for i in draw.integers(len(WORDS), size=count)]


def name(draw: Draw, i: int) -> str:
    """The name of an image's file, without suffix."""
    odd = [
        f"im {i}",
        f"im,{i}",
        f'im"{i}',
        f"-im{i}",
        f"im{i}.tar",
        f"É{i}",
        unicodedata.normalize("NFD", f"é{i}"),
        f"IM{i}",
        f"{'x' * 150}{i}",
        f"im;{i}",
        f"im'{i}",
        f"日{i}",
        f"1.2.840.{i}",
        f"#{i}",
        f"im{i}%",
        f"im\u00a0{i}",
        f"=im{i}",
        f"{i}",
    ]
    return odd[int(draw.integers(len(odd)))] if draw.random() < 0.5 else f"im{i}"


def picture(path: Path, draw: Draw) -> None:
    """Writes a picture of any size, mode and content."""
    side = draw.choice([1, 2, 7, 16, 16, 16, 33], size=2)
    kind = str(draw.choice(["L", "RGB", "RGB", "RGBA", "P", "1", "I;16", "CMYK"]))
    values = draw.integers(0, 256, size=(*side, 3)).astype(np.uint8) * int(
        draw.choice([0, 1, 1, 1])
    )
    image = Image.fromarray(values)
    if kind == "I;16":
        image = Image.fromarray(values[..., 0].astype(np.uint16) * 257)
    else:
        image = image.convert(kind)
    image.save(path, format="TIFF" if kind == "CMYK" else "PNG")


def federation(folder: Path, draw: Draw) -> tuple[list[str], list[str]]:
    """Writes a folder of images with a table or a folder per class; (the line of prepare, names of its attributes)."""
    raw = folder / "raw"
    raw.mkdir()
    count = int(draw.choice([1, 2, 3, 8, 20, 40, 40]))
    names = list(dict.fromkeys(f"{name(draw, i)}.png" for i in range(count)))
    few = [
        [*"ab"],
        [*"abc"],
        words(draw, 2),
        words(draw, 3),
        words(draw, 8),
        list(string.ascii_letters),
        ["a"],
    ]
    classes = few[int(draw.integers(len(few)))]
    labels = [classes[int(i)] for i in draw.integers(len(classes), size=len(names))]
    line = [
        "prepare",
        "images",
        "--raw",
        "raw",
        "--size",
        "8",
        "--jobs",
        "1",
        "--seed",
        str(int(draw.integers(3))),
    ]
    if draw.random() < 0.25:
        for file, label in zip(names, labels, strict=True):
            class_folder = raw / (label.replace("/", "_").strip(".") or "dot")
            class_folder.mkdir(exist_ok=True)
            picture(class_folder / file, draw)
        return line, []
    for file in names:
        picture(raw / file, draw)
    head = ["image", "label", "sex", "site", "patient"]
    if draw.random() < 0.5:
        head = ["image", "label", *(COLUMNS[int(i)] for i in draw.integers(len(COLUMNS), size=3))]
    sites = words(draw, int(draw.choice([1, 2, 4, 30])))
    people = int(draw.choice([1, 3, len(names), 2 * len(names)]))
    rows = [
        [
            file,
            label,
            str(draw.choice(["f", "m", "", *words(draw, 1)])),
            sites[int(draw.integers(len(sites)))],
            f"p{draw.integers(people)}",
        ]
        for file, label in zip(names, labels, strict=True)
    ]
    write_csv(raw / "labels.csv", head, rows)
    for flag, column in zip(("--group", "--site", "--patient"), head[2:], strict=True):
        line += [flag, column] if draw.random() < 0.7 else []
    line += [
        [],
        ["--test", "0.5"],
        ["--split", "image"],
        ["--fit", "pad"],
        ["--fit", "clahe"],
        ["--fold", "1"],
    ][draw.integers(6)]
    return line, head[2:4]


def lines(attributes: list[str], draw: Draw) -> list[list[str]]:
    """Lines typed after prepare."""
    sex, site = attributes or ("sex", "site")
    scheme = []
    for word in SCHEMES[int(draw.integers(len(SCHEMES)))]:
        scheme.append({"SEX": sex, "SITE": site}.get(word, word))
    clients = (
        []
        if "--by" in scheme and "--portion" not in scheme
        else ["--clients", str(draw.choice([1, 2, 3, 10]))]
    )
    method = METHODS[int(draw.integers(len(METHODS)))]
    kind = str(draw.choice(["gaussian", "contrast", "jpeg", "pixelate", "shot-noise"]))
    return [
        ["inspect"],
        [
            "partition",
            *scheme,
            *clients,
            *[["--val", "0.3"], ["--materialize"], [], []][draw.integers(4)],
        ],
        ["partition", "--iid", "--clients", "2"] if draw.random() < 0.3 else ["ls"],
        *(
            [["corrupt", kind, "--ratio", str(draw.choice([0, 0.5, 1])), "--jobs", "1"]]
            if draw.random() < 0.5
            else []
        ),
        [
            "train",
            method,
            "--rounds",
            "2",
            "--batch-size",
            str(draw.choice([1, 4, 64])),
            "--engine",
            "in-process",
            *[["--eval-every", "1"], ["--participation", "0.5"], ["--personal"], [], []][
                draw.integers(5)
            ],
        ],
        [
            "evaluate",
            *([] if draw.random() < 0.5 else ["--by", f"{sex}*{site}"]),
            "--export",
            "csv",
        ],
        [
            "report",
            "--format",
            str(draw.choice(["table", "markdown", "latex", "csv", "html", "json"])),
        ],
        [["ls"], ["plot", "curves"], ["inspect"], ["report", "--by", sex], ["plot", "convergence"]][
            draw.integers(5)
        ],
    ]


def counted(folder: Path) -> list[str]:
    """Faults of a partition that does not hold the images of the dataset, each once."""
    paths_by_kind = []
    for kind in ("dataset", "partition"):
        paths_by_kind.append(sorted(folder.glob(f"fedcli-work/{kind}s/*/{kind}.json")))
    if not all(paths_by_kind):
        return []
    dataset, partition = (json.loads(paths[-1].read_text())["body"] for paths in paths_by_kind)
    images_held = sum(client[part] for client in partition["roster"] for part in ("train", "val"))
    trained = dataset["split"].get("train") if isinstance(dataset["split"], dict) else None
    return (
        []
        if trained is None or images_held == trained
        else [f"clients hold {images_held} of {trained} training images"]
    )


@pytest.mark.parametrize("part", range(6))
def test_odd_data_go_through_every_stage_or_end_in_a_sentence(part, chain, play: Play, tmp_path):
    for draw in play.cases():
        folder = tmp_path / str(play.case)
        folder.mkdir()
        prepare_line, attributes = federation(folder, draw)
        typed: list[str] = []
        for line in [prepare_line, *lines(attributes, draw)]:
            ended: Ended = run(line, folder)
            typed.append(" ".join(line))
            wrong = faults(ended)
            if line[0] == "partition" and not ended.code and "to no client" not in ended.err:
                wrong += counted(folder)
            play.judge(ended, wrong, f"{folder}: {'; '.join(typed)}")
            if ended.code and line is prepare_line:
                break  # else it goes on with what there is
