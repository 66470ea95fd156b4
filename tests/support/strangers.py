"""Words that name somebody's code or a network of a hub, put where a file says a text; did anything run?"""

import contextlib
import hashlib
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import forked

CODE = """
from pathlib import Path

Path({ran!r}).touch()


def build(channels, classes):
    raise SystemExit
"""
KINDS = "methods", "datasets", "partitions", "models", "metrics"
OBJECTS = {"methods": ":build", "models": ":build", "metrics": ":build"}
POINTS = "".join(
    f"[fedcli.{kind}]\nstranger = strangers_code{OBJECTS.get(kind, '')}\n" for kind in KINDS
)
PROBES = (
    "./evil.py",
    "./evil.py:build",
    "timm:hf-hub:somebody/network",
    "open_clip:hf-hub:somebody/network",
    "stranger",
)
ABOVE = (
    "datasets/*",
    "partitions/*",
    "corruptions/*",
    "runs/*",
    "runs/*/scores/*",
)  # each before what is made from it
RUN, OTHER, BEGUN = (f"fedcli-work/runs/{name}" for name in ("fedavg", "other", "begun"))
ONE = ["--rounds", "1", "--engine", "in-process"]
FILES = {  # a file -> commands that read it
    "datasets/*/dataset.json": [
        ["predict", RUN, "image.png"],
        ["partition", "--iid", "--clients", "2"],
        ["train", "fedavg", *ONE],
        ["report"],
    ],
    "partitions/*/partition.json": [
        ["train", "fedavg", "--over", "hold-out=all", "--dry-run=scripts"],
        ["corrupt", "contrast", "--jobs", "1"],
        ["report"],
        ["train", "fedavg", *ONE],
    ],
    "corruptions/*/corruption.json": [["train", "fedavg", *ONE], ["evaluate", RUN], ["inspect"]],
    "runs/fedavg/run.json": [
        ["evaluate", RUN],
        ["report"],
        ["predict", RUN, "image.png"],
        ["compare", RUN, OTHER],
        ["export", "model", RUN, "--format", "safetensors"],
        ["plot", "landscape", RUN, "--points", "3"],
        ["train", "fedprox", "--weights", RUN, *ONE],
    ],
    "runs/fedavg/scores/*/scores.json": [
        ["report"],
        ["compare", RUN, OTHER],
        ["report", "--metric", "accuracy"],
    ],
    "runs/begun/settings.json": [["train", "--resume", "--out", BEGUN]],
}
EXPERIMENT = """
title = "Two methods"
seeds = [0]
[data.own]
dataset = "toy"
prepare = { size = 8, fit = "stretch" }
partition = { scheme = "iid", clients = 2 }
[train]
rounds = 1
model = "cnn"
[[row]]
name = "FedAvg"
method = "fedavg"
[[row]]
name = "FedProx"
method = "fedprox"
set = { mu = "0.1" }
[[column]]
name = "accuracy"
score = "versions/clean/accuracy"
"""
POLICY = 'methods = ["fedavg"]\ncolumns = ["moved"]\n'
DEFAULTS = """
[train]
model = "cnn"
prior = "none"
[partition]
scheme = "iid"
[report]
metric = ["accuracy"]
[evaluate]
metric = ["accuracy"]
[prepare]
corrupt = "gaussian"
"""
TOML = {  # a file -> its text, and commands that read it
    "fedcli.toml": (
        DEFAULTS,
        [["train", "fedavg", *ONE], ["partition", "--clients", "2"], ["report"], ["evaluate"]],
    ),
    "own.toml": (EXPERIMENT, [["reproduce", "own.toml", "--dry-run"]]),
    "policy.toml": (
        POLICY,
        [["site", "check", "--client", "client-00", "--policy", "policy.toml"]],
    ),
}
Place = tuple[str | int, ...]


def strange(folder: Path) -> None:
    """A file of code, and an installed package with an entry point of every kind; both leave a file where they run."""
    info = folder / "installed" / "strangers-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: strangers\nVersion: 1\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    for path in (folder / "evil.py", folder / "installed" / "strangers_code.py"):
        path.write_text(CODE.format(ran=str(folder / "RAN")), encoding="utf-8")


def federation() -> None:
    """Every stage of a small federation in the folder at hand, and a run that Ctrl-C has ended."""
    from conftest import interrupt_in_round
    from PIL import Image

    from fedcli.federation.server import Federation

    Image.new("L", (8, 8)).save("image.png")
    cases = (
        ["prepare", "toy", "--size", "8", "--sample-images", "80", "--jobs", "1"],
        ["partition", "--iid", "--clients", "2"],
        ["corrupt", "contrast", "--ratio", "0.5", "--jobs", "1"],
        ["train", "fedavg", *ONE, "--out", RUN],
        ["train", "fedavg", *ONE, "--lr", "0.01", "--out", OTHER],
        ["evaluate", RUN],
        ["evaluate", OTHER],
    )
    for line in cases:
        assert command(line) == 0, line
    Federation.play = interrupt_in_round(2)
    assert (
        command(["train", "fedavg", "--rounds", "3", "--engine", "in-process", "--out", BEGUN])
        == 130
    )


def command(words: Sequence[str]) -> int:
    """The exit code of a command, played in this process."""
    from fedcli.commands.app import app

    return forked.exit_code(lambda: app(list(words), prog_name="fedcli"))


def made(folder: Path) -> Path:
    """A small federation, and beside it code that says when it runs."""
    strange(folder)
    ended = forked.run(federation, folder)
    assert ended.returncode == 0, ended.stderr
    return folder


def alike(value: Any) -> list[Place]:
    """Where a JSON value holds a text; of those with one key at one depth of one part of it the last."""
    keyed = {}
    for path in places(value):
        keyed[tuple("*" if isinstance(key, int) else key for key in path)] = path
    last = {}
    for key, path in keyed.items():
        if "legend" not in key:
            last[key[0], len(key), key[-1]] = path
    return list(last.values())


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    if isinstance(value, str):
        yield above
    for key, item in items_of(value):
        yield from places(item, (*above, key))


def items_of(value: Any) -> Iterable[tuple[Any, Any]]:
    """Keys and items of a dict or a list; none of another value."""
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def put(value: Any, path: Place, text: str) -> Any:
    """A JSON value with another text in one place."""
    if not path:
        return text
    items = enumerate(value) if isinstance(value, list) else value.items()
    items_now = {key: put(item, path[1:], text) if key == path[0] else item for key, item in items}
    return list(items_now.values()) if isinstance(value, list) else items_now


def changed(path: Path, json_path: Place, text: str, work: Path) -> None:
    """Put a text into a manifest, and mend the digests below it as somebody who hands the folder on would."""
    path.write_text(
        json.dumps(put(json.loads(path.read_text(encoding="utf-8")), json_path, text)),
        encoding="utf-8",
    )
    for pattern in ABOVE:
        for file in sorted(work.glob(f"{pattern}/*.json")):
            content = json.loads(file.read_text(encoding="utf-8"))
            above = {name: file.parent / name for name in content.get("parents", ())}
            if digests := {
                name: hashlib.sha256(p.read_bytes()).hexdigest()
                for name, p in above.items()
                if p.is_file()
            }:
                content["parents"] |= digests
                file.write_text(json.dumps(content), encoding="utf-8")


LINES = {  # a command -> what is typed of it, where all else may come from fedcli.toml
    "prepare": ["toy", "--size", "8", "--jobs", "1"],
    "partition": ["--clients", "2"],
    "corrupt": ["contrast"],
    "train": ["fedavg", *ONE],
    "evaluate": [RUN],
    "predict": [RUN, "image.png"],
    "report": [],
    "compare": [RUN, OTHER],
    "ls": [],
    "inspect": [RUN],
    "reproduce": [],
    "export": ["model", RUN],
    "methods": [],
    "datasets": [],
    "models": [],
    "metrics": [],
    "new": ["metric", "mine"],
    "site": ["check", "--client", "client-00"],
}


def defaults() -> list[tuple[str, str, Sequence[str]]]:
    """Every parameter of these commands: the command, the parameter, and what is typed."""
    from typer.main import get_command

    from fedcli.commands.app import app

    commands = get_command(app).commands  # type: ignore[attr-defined]
    return [
        (name, parameter.name, [name, *typed])
        for name, typed in LINES.items()
        for parameter in commands[name].params
    ]


def texts(toml: str) -> list[tuple[int, int]]:
    """Where a TOML text holds texts."""
    return [match.span() for match in re.finditer(r'"[^"\n]*"', toml)]


Case = tuple[
    str, Place | str, str, Sequence[str]
]  # a file, where in it or its text, what is put there, a command


def played(whole: Path, folder: Path, cases: Sequence[Case]) -> tuple[list[dict], str]:
    """The end of each case, and all messages."""
    ended = forked.run(lambda: play(whole, cases), folder)
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"wrong"')]
    assert len(lines) == len(cases), ended.stderr[-2000:]
    assert ended.returncode == 0, ended.stderr[-2000:]
    return lines, ended.stderr


def play(whole: Path, cases: Sequence[Case]) -> None:
    """In a process of its own: play each case on a copy of a federation, and print what ran or was asked for.

    A file that is no JSON has a place of two numbers: what stands between them is replaced.
    """
    sys.path.insert(0, str(whole / "installed"))
    events: list[str] = []

    def hook(event: str, values: tuple) -> None:
        if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
            events.append(event)

    sys.addaudithook(hook)
    case_folder = Path("case").absolute()
    ran = whole / "RAN"
    for name, json_path, probe, words in cases:
        shutil.rmtree(case_folder, ignore_errors=True)
        shutil.copytree(whole / "fedcli-work", case_folder / "fedcli-work")
        for path in (whole / "evil.py", whole / "image.png"):
            shutil.copy(path, case_folder)
        if name in FILES:
            (path,) = case_folder.glob(f"fedcli-work/{name}")
            changed(path, json_path, probe, case_folder / "fedcli-work")
        elif isinstance(json_path, str):
            (case_folder / name).write_text(json_path, encoding="utf-8")
        else:
            text = TOML[name][0]
            (case_folder / name).write_text(
                f'{text[: json_path[0]]}"{probe}"{text[json_path[1] :]}', encoding="utf-8"
            )
        with contextlib.chdir(case_folder):
            code = command(words)
        wrong = ["ran", *events] if ran.exists() else [*events]
        if code not in (0, 1, 2, 3):
            wrong.append("no exit code of fedcli")
        print(
            json.dumps(
                {"wrong": wrong, "code": code, "case": [name, json_path, probe, " ".join(words)]}
            )
        )
        ran.unlink(missing_ok=True)
        events.clear()
