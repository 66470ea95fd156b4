"""What a shell completes: methods, datasets, recipes, networks, corruptions, clients, and manifests under --work."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import typer

from . import method_list
from .options import DEFAULT_WORK

Completer = Callable[..., list[str]]


def methods(incomplete: str) -> list[str]:
    """A method, or of a pair the second half."""
    base, plus, addon = incomplete.rpartition("+")
    return [f"{base}{plus}{line.name}" for line in method_list.listed() if line.name.startswith(addon)]


def datasets(incomplete: str) -> list[str]:
    from ..data.sources import SOURCES

    return _beginning(SOURCES, incomplete)


def recipes(incomplete: str) -> list[str]:
    from ..reproduce.recipe import names

    return [*_beginning(names(), incomplete), *_beginning(map(str, Path().glob("*.toml")), incomplete)]


def corruptions(incomplete: str) -> list[str]:
    from ..data.corrupt import ALIASES, KINDS

    return _beginning((*KINDS, *ALIASES), incomplete)


def models(incomplete: str) -> list[str]:
    from ..models import MODELS

    return _beginning(MODELS, incomplete)


def clients(context: typer.Context, incomplete: str) -> list[str]:
    """Of the newest partition."""
    partitions = sorted(_work(context).glob("partitions/*/partition.json"), key=lambda path: path.stat().st_mtime_ns)
    roster = json.loads(partitions[-1].read_text(encoding="utf-8"))["body"]["roster"] if partitions else []
    return _beginning([client["client"] for client in roster], incomplete)


def made(*kinds: str) -> Completer:
    """Manifests of these kinds under --work."""

    def manifests(context: typer.Context, incomplete: str) -> list[str]:
        paths = [path for kind in kinds for path in sorted(_work(context).glob(f"{kind}s/*/{kind}.json"))]
        return _beginning(map(str, paths), incomplete)

    return manifests


def _work(context: typer.Context) -> Path:
    return Path(context.params.get("work") or DEFAULT_WORK)


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


OF: dict[tuple[str, str], Completer] = {  # (command, parameter) -> what completes it
    ("prepare", "name"): datasets, ("prepare", "corrupt"): corruptions, ("partition", "dataset"): made("dataset"),
    ("corrupt", "kind"): corruptions, ("corrupt", "partition"): made("partition"), ("corrupt", "on"): clients,
    ("train", "method"): methods, ("train", "data"): made("corruption", "partition", "dataset"),
    ("train", "model"): models, ("evaluate", "run"): made("run"), ("report", "runs"): made("run"),
}  # fmt: skip
