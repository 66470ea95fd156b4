"""Completion in a shell: methods, datasets, recipes, networks, corruptions, clients, and manifests
under --work.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from ...common_options import WORK
from ...errors import FedcliError
from ...options import Option
from .. import method_facts
from .common import DRAWN, FORMATS

Completer = Callable[..., list[str]]


def methods(incomplete: str) -> list[str]:
    """Methods by name, or by label once a letter is typed; of a pair the second half."""
    base, plus, addon = incomplete.rpartition("+")
    names = []
    labels = []
    for facts in method_facts.all_facts():
        if facts["name"].startswith(addon):
            names.append(f"{base}{plus}{facts['name']}")
        if incomplete and " " not in facts["label"]:
            labels.append(facts["label"])
    return [*names, *_beginning(labels, incomplete)]


def datasets(incomplete: str) -> list[str]:
    from ...data.sources import ALIASES, SOURCES

    return _beginning((*SOURCES, *ALIASES), incomplete) if incomplete else list(SOURCES)


def recipes(incomplete: str) -> list[str]:
    from ...reproduction.recipe import names

    files = map(str, Path().glob("*.toml"))
    return _beginning([*names(), *files], incomplete)


def names_in(module: str, *tables: str) -> Completer:
    """A completer of the names in tables of a module, which is imported when it is needed."""

    def names(incomplete: str) -> list[str]:
        imported = import_module(f"fedcli.{module}")
        matches = []
        for table in tables:
            matches += _beginning(getattr(imported, table), incomplete)
        return matches

    return names


def one_of(*words: str) -> Completer:
    return lambda incomplete: _beginning(words, incomplete)


def attributes(context: typer.Context, incomplete: str) -> list[str]:
    """Attributes of the newest dataset."""
    return _beginning(_newest(context, "dataset").get("attributes", {}), incomplete)


def clients(context: typer.Context, incomplete: str) -> list[str]:
    """Clients of the newest partition."""
    roster = _newest(context, "partition").get("roster", [])
    return _beginning([client["client"] for client in roster], incomplete)


def manifests_of(*kinds: str) -> Completer:
    """A completer of the manifests of these kinds under --work."""

    def manifests(context: typer.Context, incomplete: str) -> list[str]:
        paths: list[Path] = []
        for kind in kinds:
            paths += sorted(_work(context).glob(f"{kind}s/*/{kind}.json"))
        return _beginning(map(str, paths), incomplete)

    return manifests


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Runs under --work: by the name of the folder, without the signs that end it or whole, and by
    path.
    """
    folders = [path.parent.name for path in sorted(_work(context).glob("runs/*/run.json"))]
    shortened = [name.rpartition("-")[0] for name in folders]
    names = dict.fromkeys(filter(None, [*shortened, *folders]))
    return [*_beginning(names, incomplete), *manifests_of("run")(context, incomplete)]


def methods_and_data(context: typer.Context, incomplete: str) -> list[str]:
    """Methods, and behind the first word manifests too."""
    if not context.params.get("methods"):
        return methods(incomplete)
    data = manifests_of("corruption", "partition", "dataset")
    return [*methods(incomplete), *data(context, incomplete)]


def _newest(context: typer.Context, kind: str) -> dict[str, Any]:
    """The body of the newest manifest of a kind, empty where none can be read: the command says why
    when it is run.
    """
    from ...data import last_used, manifest

    try:
        return manifest.read(last_used.newest(_work(context), kind), kind, whole=True).body
    except FedcliError:
        return {}


def _work(context: typer.Context) -> Path:
    return Path(context.params.get("work") or WORK)


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


corruptions = names_in("data.corruption.kinds", "KINDS", "ALIASES")
metrics = names_in("metrics", "METRICS", "PARITY")
OF: dict[tuple[str, str], Completer] = {  # (command, parameter) -> what completes it
    ("prepare", "name"): datasets,
    ("prepare", "corrupt"): corruptions,
    ("partition", "dataset"): manifests_of("dataset"),
    ("corrupt", "kind"): corruptions,
    ("corrupt", "partition"): manifests_of("partition"),
    ("corrupt", "on"): clients,
    ("train", "methods"): methods_and_data,
    ("train", "model"): names_in("models", "MODELS"),
    ("train", "then"): one_of("crt"),
    ("evaluate", "run"): runs,
    ("evaluate", "corrupt"): names_in("data.corruption.kinds", "KINDS", "ALIASES", "MODALITIES"),
    ("report", "corrupt"): names_in("data.corruption.kinds", "KINDS", "ALIASES", "MODALITIES"),
    ("evaluate", "by"): attributes,
    ("partition", "by"): attributes,
    ("report", "runs"): runs,
    ("report", "by"): attributes,
    ("report", "metric"): metrics,
    ("report", "format"): one_of(*FORMATS, *DRAWN),
    ("compare", "runs"): runs,
    ("predict", "run"): runs,
    ("compare", "metric"): metrics,
    ("reproduce", "recipe"): recipes,
    ("methods", "name"): methods,
    ("check", "method"): methods,
    ("datasets", "name"): datasets,
}


def of(command: str, option: Option) -> Completer | None:
    """The completer of a command's flag; None for one that has none."""
    if (command, option.name) in OF:
        return OF[command, option.name]
    return one_of(*map(str, option.choices)) if option.choices else None
