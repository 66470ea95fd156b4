"""Facts of methods, as `fedcli methods` shows them; those of fedcli's own are kept beside the
compiled files.

Asking a method imports torch: it is asked the first time, and again when any file of fedcli has
changed.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .. import __version__
from ..errors import UsageError
from ..io.files import write_text
from ..io.outputs import user_cache

PACKAGE = Path(__file__).parent.parent
EACH_UPDATE = "the server must see every client's own update: no secure aggregation"
Facts = dict[str, Any]


def places() -> list[Path]:
    """Where facts may be kept: with the package, or where that may not be written, with the
    user.
    """
    stats = [path.stat() for path in sorted(PACKAGE.rglob("*.py"))]
    version = __version__, [(stat.st_mtime_ns, stat.st_size) for stat in stats]
    key = hashlib.sha256(repr(version).encode()).hexdigest()[:16]
    folders = [PACKAGE / "methods" / "__pycache__", user_cache()]
    return [folder / f"methods-{key}.json" for folder in folders if folder]


def all_facts() -> list[Facts]:
    """Facts of every method of fedcli, in the order in which the package imports them."""
    for path in places():
        # absent, or changed by somebody
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            cached: list[Facts] = json.loads(path.read_text(encoding="utf-8"))["methods"]
            return cached
    from ..methods import METHODS

    methods = sorted(METHODS.values(), key=lambda method: method.module)
    facts = [facts_of(method) for method in methods]
    _keep(facts)
    return facts


def named(name: str) -> Facts | None:
    """Facts of the method with this name, label or alias, in letters of any case."""
    return by_name().get(name.lower())


def by_name() -> dict[str, Facts]:
    """Facts of every method of fedcli, by its names in small letters."""
    return {name: facts for facts in all_facts() for name in facts["names"]}


def lookup() -> Callable[[str], Facts]:
    """A function from a name to facts: of one method, of a pair by its halves, or as the registry
    says them.
    """
    facts_by_name = by_name()

    def facts(name: str) -> Facts:
        if name.lower() in facts_by_name:
            return facts_by_name[name.lower()]
        base, _, addon = name.lower().partition("+")
        if base in facts_by_name and addon in facts_by_name:
            pair = facts_by_name[base]
            server = facts_by_name[addon]["halves"]["server"]
            return pair | {"halves": {"local": pair["halves"]["local"], "server": server}}
        from ..methods import resolve

        return facts_of(resolve(name))

    return facts


def _keep(facts: list[Facts]) -> None:
    """Write facts to the first of the places that may be written, over those of another version."""
    for path in places():
        with contextlib.suppress(OSError):  # may not be written there
            for old in path.parent.glob("methods-*.json"):
                old.unlink()
            write_text(path, json.dumps({"methods": facts}))
            return


def facts_of(method: Any) -> Facts:
    """Facts of an imported method."""
    from .. import options
    from ..federation.graphs import no_graph_reason
    from ..methods.contract import NEEDS
    from ..methods.registry import ALIASES

    local = method.local
    server = method.aggregator
    settings = {}
    halves = {}
    for half, part in (("local", local), ("server", server)):
        halves[half] = {"passes": part.cost, "options": list(options.values(part))}
        for option in options.describe(part).values():
            name = option.name if option.name in method.settings else f"{half}.{option.name}"
            settings[name] = option.about() | {"name": name}
    aliases = [alias for alias, name in ALIASES.items() if name == method.name]
    return {
        "name": method.name,
        "label": method.label,
        "about": method.about,
        "rule": method.rule,
        "families": list(method.families),
        "is_first": method.is_first,
        "wants": wants(method),
        "names": [name.lower() for name in (method.name, method.label, *aliases)],
        "documentation": method.documentation,
        "options": list(settings.values()),
        "halves": halves,
        "training": method.default_training,
        "network": local.model,
        "code": {half: code.recorded for half, code in method.code.items()},
        "needs": method.needs,
        "server_sees": NEEDS[method.needs],
        "needs_every_client": server.full_participation,
        "needs_one_label": local.needs_one_label or server.needs_one_label,
        "not_recorded": no_graph_reason(local),
        "trains_with": [fit._asdict() for fit in fits(method)],
    }


def wants(method: Any) -> dict[str, str]:
    """Each thing that a method needs and FedAvg does not, and what that means."""
    from .. import options
    from ..methods.mixins import StartsFromRun

    local = method.local
    server = method.aggregator
    needs = {}
    if "attribute" in options.values(local):
        needs["groups"] = "the sex, age or other attribute of training images"
    if local.model == "clip":
        needs["CLIP"] = "a CLIP network, such as --model clip-vit-b16"
    if local.needs_two_classes:
        needs["two classes"] = "a dataset with no more than two"
    if isinstance(server, StartsFromRun):
        needs["a finished run"] = "it continues the one in --weights"
    if server.full_participation:
        needs["all clients"] = "no hospital may miss a round"
    if local.needs_one_label or server.needs_one_label:
        needs["one label"] = "images with several labels are refused"
    if method.needs == "updates":
        needs["each update"] = EACH_UPDATE
    return needs


class Fit(NamedTuple):
    """One thing that a method fits or not; why: the reason where it does not."""

    what: str
    fits: bool
    why: str


def fits(method: Any) -> list[Fit]:
    """Everything that a method can or cannot be trained with, by the checks that `train` makes
    itself.
    """
    from ..federation.engines import registered
    from ..methods import resolve
    from ..runs.rules import UNCOVERED
    from ..runs.train_options import TrainOptions

    results = []
    if "+" not in method.name:
        name = method.typed
        results = [
            _tried("an add-on, as in BASE+ADDON", lambda: resolve(f"{name}+fedheal")),
            _tried("a base method, as its add-on", lambda: resolve(f"fedprox+{name}")),
        ]
    alone = method.local.works_without_server and method.aggregator.works_without_server
    results.append(
        Fit("--single-site", alone, "" if alone else "its clients need what others send")
    )
    uncovered = UNCOVERED.culprit(TrainOptions(), method, {})
    reason = UNCOVERED.sentence.format(m=method) if uncovered else ""
    results.append(Fit("--dp image", not uncovered, reason))
    secagg: Any = registered("flower-secagg")
    if secagg is not None:
        results.append(_tried("--engine flower-secagg:DIR", lambda: secagg.check(method, 0)))
    return results


def _tried(name: str, check: Callable[[], object]) -> Fit:
    try:
        check()
    except UsageError as error:
        return Fit(name, False, error.sentence)
    return Fit(name, True, "")
