"""An odd value of an option or of an environment variable ends in a sentence, or does no harm."""

import functools
from typing import Any

import numpy as np
import pytest

from .chain import LATER, copied, expanded, files, words_of
from .judge import faults, leftovers
from .process import run

ODD = [
    "",
    " ",
    "-1",
    "0",
    "1",
    "0.5",
    "1e400",
    "-1e-400",
    "nan",
    "inf",
    "9" * 30,
    "x" * 3000,
    "é",
    "\x1b[31m",
    "a\nb",
    "../..",
    "/dev/null",
    "1,2",
    "1,2,",
    ",",
    "None",
    "[]",
    "{}",
    "--",
    "-",
    "0x10",
    "1_000",
    "\u0661",
    "½",
    "\udcff",
    "true",
    "a=b",
    "=",
    "a=",
    "=b",
    "a=b=c",
    "*",
    "%s",
    "{0}",
    "$HOME",
    "~",
    ".",
    "raw",
    "raw/labels.csv",
    "raw/im00.png",
    "nowhere/at/all",
    "own.toml",
    "fedcli-work",
    "/",
    "/proc/self/mem",
    "/dev/stdin",
    "client-00",
    "sex",
    "label",
    "sex*site",
    "a*",
    "last",
    "gaussian:9",
    "gaussian:",
    ":1",
    "1:2:3",
    "step:1:2",
    "cosine:",
    "focal:",
    "focal:nan",
    "effective:1",
    "pool:0",
    "pool:-1",
    "streams:2",
    "cuda",
    "cuda:99",
    "cpu:7",
    "meta",
    "imagenet",
    "fedavg",
    "fedavg+",
    "+fedavg",
    "fedavg+fedavg",
    "toy",
    "images",
    "paper",
    "1..5",
    "5..1",
    "1..",
    "2,1",
    "700,700",
    "e\u0301",
    "\u202eabc",
    "\ufeff1",
    " 1",
    "1 ",
    "1\t",
    "+1",
    "1e3",
    "1.0",
    "torchvision:",
    "torchvision:nothing",
    "torchvision:../x",
    "timm:",
    "timm:nothing",
    "./mine.py",
    "./mine.py:",
    ":x.py",
    "mine.py:x:y",
    "own.toml.py",
    "socket:",
    "socket:x",
    "nvflare:",
    "flower:x",
    "socket:/dev/null",
    "ray:2",
]
LONG = {
    "--rounds",
    "--epochs",
    "--clients",
    "--resamples",
    "--points",
    "--images",
    "--repeats",
    "--size",
    "--folds",
}
COMMANDS = {  # command, or a use of it -> the stage before it, and the end of a line of it that does little
    "prepare": ("prepare", []),
    "partition": ("partition", []),
    "corrupt": ("corrupt", []),
    "train": ("train", ["--rounds", "1"]),
    "evaluate": ("evaluate", []),
    "report": ("ls", ["--format", "csv"]),
    "compare": ("compare", []),
    "plot curves": ("plot", ["curves"]),
    "ls": ("ls", []),
    "inspect": ("inspect", []),
    "reproduce": ("ls", ["--dry-run"]),
    "methods": ("ls", []),
    "datasets": ("ls", []),
    "models": ("ls", []),
    "metrics": ("ls", []),
    "corruptions": ("ls", []),
    "check": ("ls", ["nothing"]),
    "new": ("ls", ["method", "my-rule"]),
    "site": ("train", ["describe", "--client", "client-00"]),
    "export": ("train", ["--format", "safetensors", "--out", "app"]),
    "corrupt labels": ("corrupt", ["labels", "--rate", "0.3"]),
    "corrupt attributes": ("corrupt", ["attributes", "--hide", "sex", "--share", "0.5"]),
    "train --dp": ("train", ["fedavg", "--rounds", "1", "--dp", "image:1", "--model", "cnn-gn"]),
    "report --choose": ("ls", ["--choose", "worst-group", "--by", "sex", "--format", "csv"]),
    "predict --positive": (
        "ls",
        ["fedcli-work/runs/fedavg-*", "raw/im00.png", "--positive", "a", "--rule", "youden"],
    ),
    "partition --hold-out": ("partition", ["--hold-out", "north", "--clients", "2"]),
    "evaluate --on": (
        "evaluate",
        ["--on", "fedcli-work/datasets/images*/dataset.json", "--all-images"],
    ),
    "evaluate --clinical": ("evaluate", ["--clinical", "--positive", "a", "--by", "sex"]),
    "predict": ("ls", ["fedcli-work/runs/fedavg-*", "raw/im00.png", "raw/im01.png"]),
    "export model": (
        "ls",
        ["model", "fedcli-work/runs/fedavg-*", "--format", "safetensors", "--out", "exported"],
    ),
    "bench": ("ls", ["--method", "fedavg", "--images", "8", "--clients", "1", "--repeats", "1"]),
}


@functools.cache
def parameters(use: str) -> list[Any]:
    import click
    import typer

    from fedcli.commands.app import app

    name, _, below = use.partition(" ")
    command: Any = typer.main.get_command(app).commands[name]
    if hasattr(command, "get_command"):  # a group, such as plot
        command = command.get_command(click.Context(command), below)
    return [p for p in command.params if p.name not in ("help", "debug")]


def typed(use: str, draw: np.random.Generator) -> tuple[str, list[str]]:
    """(the stage whose folder it needs, a line with one or two odd words)."""
    stage, words_after = COMMANDS[use]
    words = [*(words_of(use) if stage == use else use.split(" ")[:1]), *words_after]
    for _ in range(int(draw.integers(1, 3))):
        value = ODD[int(draw.integers(len(ODD)))]
        options = [p for p in parameters(use) if p.opts[0].startswith("--")]
        if draw.random() < 0.15:
            words.append(value)
            continue
        option = options[int(draw.integers(len(options)))]
        if option.is_flag:
            words.append(option.opts[0])
        elif option.opts[0] in LONG and value.replace("_", "").isdecimal() and len(value) > 4:
            words.append(f"{option.opts[0]}=-1")  # a huge number is a wish
        else:
            words += (
                [f"{option.opts[0]}={value}"] if draw.random() < 0.7 else [option.opts[0], value]
            )
    return stage, words


@pytest.mark.parametrize("command", COMMANDS)
def test_an_odd_value_of_an_option_ends_in_a_sentence(command, chain, play, tmp_path):
    for draw in play.cases():
        stage, words = typed(command, draw)
        folder = copied(chain.before(stage), tmp_path / "case")
        standing = files(folder)
        ended = run(expanded(words, folder), folder, seconds=40)
        wrong = faults(ended)
        now = files(folder)
        if ended.code:
            wrong += leftovers(standing, now)
        if lost := {
            name
            for name in standing
            if now.get(name) != standing[name] and name.startswith(("raw/", "own."))
        }:
            wrong.append(f"changes {', '.join(sorted(lost)[:3])}")
        play.judge(ended, wrong, command)


VARIABLES = [
    "FEDCLI_WORK",
    "FEDCLI_DEVICE",
    "FEDCLI_JOBS",
    "FEDCLI_RAW",
    "COLUMNS",
    "LINES",
    "TERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "TMPDIR",
    "HOME",
    "LC_ALL",
    "LANG",
    "TZ",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "MPLCONFIGDIR",
    "MPLBACKEND",
    "TORCH_HOME",
    "USER",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
    "HDF5_USE_FILE_LOCKING",
    "CUDA_VISIBLE_DEVICES",
    "PWD",
    "PATH",
    "SOURCE_DATE_EPOCH",
]


@pytest.mark.parametrize("name", ["prepare", "partition", "corrupt", "train", "evaluate", *LATER])
def test_an_odd_environment_variable_gives_the_same_bytes_or_a_sentence(
    name, chain, play, tmp_path
):
    whole = copied(chain.before(name), tmp_path / "whole")
    words = expanded(words_of(name), whole)
    assert run(words, whole).code == 0
    expected = files(whole)
    for draw in play.cases():
        folder = copied(chain.before(name), tmp_path / "case")
        variable = str(draw.choice(VARIABLES))
        value = ODD[int(draw.integers(len(ODD)))]
        ended = run(words, folder, env={variable: value})
        wrong = faults(ended)
        if ended.code == 0 and not variable.startswith("FEDCLI") and files(folder) != expected:
            wrong.append("other bytes")
        play.judge(ended, wrong, f"{variable}={value[:30]!r}")
