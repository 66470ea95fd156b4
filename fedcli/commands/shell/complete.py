"""Completion in a shell: methods, datasets, recipes, networks, corruptions, clients, and manifests under --work."""

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from ...common_options import WORK
from ...errors import FedcliError
from ...options import Option
from .. import method_facts

Completer = Callable[..., list[str]]


def methods(incomplete: str) -> list[str]:
    """A method by its name, or by its label once a letter is typed; of a pair the second half."""
    known = method_facts.all_facts()
    base, plus, addon = incomplete.rpartition("+")
    names = [f"{base}{plus}{facts['name']}" for facts in known if facts["name"].startswith(addon)]
    return [
        *names,
        *_beginning(
            (facts["label"] for facts in known if " " not in facts["label"]), incomplete or "-"
        ),
    ]


def datasets(incomplete: str) -> list[str]:
    from ...data.sources import ALIASES, SOURCES

    return _beginning((*SOURCES, *ALIASES), incomplete) if incomplete else list(SOURCES)


def recipes(incomplete: str) -> list[str]:
    from ...reproduction.recipe import names

    return [
        *_beginning(names(), incomplete),
        *_beginning(map(str, Path().glob("*.toml")), incomplete),
    ]


def names_in(module: str, *tables: str) -> Completer:
    """Names in tables of a module, which is imported when it is asked for."""

    def names(incomplete: str) -> list[str]:
        found = import_module(f"fedcli.{module}")
        return _beginning((name for table in tables for name in getattr(found, table)), incomplete)

    return names


def one_of(*words: str) -> Completer:
    return lambda incomplete: _beginning(words, incomplete)


def attributes(context: typer.Context, incomplete: str) -> list[str]:
    """Of the newest dataset."""
    return _beginning(_newest(context, "dataset").get("attributes", {}), incomplete)


def clients(context: typer.Context, incomplete: str) -> list[str]:
    """Of the newest partition."""
    return _beginning(
        [client["client"] for client in _newest(context, "partition").get("roster", [])], incomplete
    )


def made(*kinds: str) -> Completer:
    """Manifests of these kinds under --work."""

    def manifests(context: typer.Context, incomplete: str) -> list[str]:
        paths = [
            path for kind in kinds for path in sorted(_work(context).glob(f"{kind}s/*/{kind}.json"))
        ]
        return _beginning(map(str, paths), incomplete)

    return manifests


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Runs under --work, by path, by the name of their folder, and by that without the signs that end it."""
    folders = [path.parent.name for path in sorted(_work(context).glob("runs/*/run.json"))]
    names = dict.fromkeys([*(name.rpartition("-")[0] for name in folders), *folders])
    return [*_beginning(filter(None, names), incomplete), *made("run")(context, incomplete)]


def methods_and_data(context: typer.Context, incomplete: str) -> list[str]:
    """Methods, and behind the first word manifests too."""
    data = (
        made("corruption", "partition", "dataset")(context, incomplete)
        if context.params.get("methods")
        else []
    )
    return [*methods(incomplete), *data]


def _newest(context: typer.Context, kind: str) -> dict[str, Any]:
    """The body of the newest manifest of a kind, empty where none can be read: the command says why when it is run."""
    from ...data import last_used, manifest

    try:
        return manifest.read(last_used.newest(_work(context), kind), kind, whole=True).body
    except FedcliError:
        return {}


def _work(context: typer.Context) -> Path:
    return Path(context.params.get("work") or WORK)


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


corruptions = names_in("data.corruption.corrupt", "KINDS", "ALIASES")
metrics = names_in("metrics", "METRICS", "PARITY")
OF: dict[tuple[str, str], Completer] = {  # (command, parameter) -> what completes it
    ("prepare", "name"): datasets,
    ("prepare", "corrupt"): corruptions,
    ("partition", "dataset"): made("dataset"),
    ("corrupt", "kind"): corruptions,
    ("corrupt", "partition"): made("partition"),
    ("corrupt", "on"): clients,
    ("train", "methods"): methods_and_data,
    ("train", "model"): names_in("models", "MODELS"),
    ("train", "then"): one_of("crt"),
    ("evaluate", "run"): runs,
    ("evaluate", "corrupt"): corruptions,
    ("evaluate", "by"): attributes,
    ("partition", "by"): attributes,
    ("report", "runs"): runs,
    ("report", "by"): attributes,
    ("report", "metric"): metrics,
    ("report", "format"): one_of(
        "table", "markdown", "latex", "csv", "json", "html", "svg", "pdf", "png"
    ),
    ("compare", "runs"): runs,
    ("predict", "run"): runs,
    ("compare", "metric"): metrics,
    ("reproduce", "recipe"): recipes,
    ("run", "recipe"): recipes,
    ("sweep", "methods"): methods_and_data,
    ("methods", "name"): methods,
    ("check", "method"): methods,
    ("datasets", "name"): datasets,
}


def of(command: str, option: Option) -> Completer | None:
    """The completer of a command's flag; None for one that has none."""
    return OF.get((command, option.name)) or (
        one_of(*map(str, option.choices)) if option.choices else None
    )
