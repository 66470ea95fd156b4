"""Facts of methods, as `fedcli methods` shows them; those of fedcli's own are kept beside the compiled files.

Asking a method imports torch: it is asked the first time, and again when any file of fedcli has changed.
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
Facts = dict[str, Any]


def places() -> list[Path]:
    """Where facts may be kept: with the package, or where that may not be written, with the user."""
    stats = [
        (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(PACKAGE.rglob("*.py"))
    ]
    key = hashlib.sha256(repr((__version__, stats)).encode()).hexdigest()[:16]
    folders = [PACKAGE / "methods" / "__pycache__"]
    user = user_cache()
    if user:
        folders.append(user)
    return [folder / f"methods-{key}.json" for folder in folders]


def all_facts() -> list[Facts]:
    """Facts of every method of fedcli, in the order in which the package imports them."""
    for path in places():
        with contextlib.suppress(
            OSError, ValueError, KeyError, TypeError
        ):  # absent, or changed by somebody
            return json.loads(path.read_text(encoding="utf-8"))["methods"]
    from ..methods import METHODS

    facts = [
        facts_of(method) for method in sorted(METHODS.values(), key=lambda method: method.module)
    ]
    _keep(facts)
    return facts


def named(name: str) -> Facts | None:
    """Facts of the method with this name, label or alias, in letters of any case."""
    return next((facts for facts in all_facts() if name.lower() in facts["names"]), None)


def lookup() -> Callable[[str], Facts]:
    """A function from a name to facts: of one method, of a pair by its halves, or as the registry says them."""
    known = {name: facts for facts in all_facts() for name in facts["names"]}

    def facts(name: str) -> Facts:
        if name.lower() in known:
            return known[name.lower()]
        base, addon = (known.get(half) for half in f"{name.lower()}+".split("+")[:2])
        if base and addon:
            return base | {
                "halves": {"local": base["halves"]["local"], "server": addon["halves"]["server"]}
            }
        from ..methods import resolve

        return facts_of(resolve(name))

    return facts


def _keep(facts: list[Facts]) -> None:
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

    settings, halves = {}, {"local": method.local, "server": method.aggregator}
    for half, part in halves.items():
        for option in options.describe(part).values():
            name = option.name if option.name in method.settings else f"{half}.{option.name}"
            settings[name] = option.about() | {"name": name}
    aliases = [alias for alias, usual in ALIASES.items() if usual == method.name]
    return {
        "name": method.name,
        "label": method.label,
        "about": method.about,
        "rule": method.rule,
        "families": list(method.families),
        "wants": wants(method),
        "names": [name.lower() for name in (method.name, method.label, *aliases)],
        "documentation": method.documentation,
        "options": list(settings.values()),
        "halves": {
            half: {"passes": part.cost, "options": [*options.values(part)]}
            for half, part in halves.items()
        },
        "training": method.default_training,
        "network": method.local.model,
        "code": {half: code.recorded for half, code in method.code.items()},
        "needs": method.needs,
        "server_sees": NEEDS[method.needs],
        "needs_every_client": method.aggregator.full_participation,
        "needs_one_label": method.local.needs_one_label or method.aggregator.needs_one_label,
        "not_recorded": no_graph_reason(method.local),
        "trains_with": [fit._asdict() for fit in fits(method)],
    }


def wants(method: Any) -> dict[str, str]:
    """Each thing that a method needs and FedAvg does not, and what that means."""
    from .. import options
    from ..methods.mixins import ContinuesRun

    local, server = method.local, method.aggregator
    words = [
        (
            "groups",
            "the sex, age or other attribute of training images",
            "attribute" in options.values(local),
        ),
        ("CLIP", "a CLIP network, such as --model clip-vit-b16", local.model == "clip"),
        ("two classes", "a dataset with no more than two", bool(local.needs_two_classes)),
        ("a finished run", "it continues one, as after --then", isinstance(server, ContinuesRun)),
        ("all clients", "no hospital may miss a round", server.full_participation),
        (
            "one label",
            "images with several labels are refused",
            bool(local.needs_one_label or server.needs_one_label),
        ),
        (
            "each update",
            "the server must see every client's own update: no secure aggregation",
            method.needs == "updates",
        ),
    ]
    return {word: meaning for word, meaning, wanted in words if wanted}


class Fit(NamedTuple):
    """One thing that a method fits or not; why: the reason where it does not."""

    what: str
    fits: bool
    why: str


def fits(method: Any) -> list[Fit]:
    """Everything that a method can or cannot be trained with, by the checks that `train` makes itself."""
    from ..federation.engines import registered
    from ..methods import resolve
    from ..runs.rules import UNCOVERED
    from ..runs.train_options import TrainOptions

    alone = method.local.works_without_server and method.aggregator.works_without_server
    fits = [Fit("--single-site", alone, "" if alone else "its clients need what others send")]
    private = UNCOVERED.culprit(TrainOptions(), method, {})
    fits.append(
        Fit("--dp-sgd", not private, UNCOVERED.sentence.format(m=method) if private else "")
    )
    secagg: Any = registered("flower-secagg")
    fits.append(_tried("--engine flower-secagg:DIR", lambda: secagg.check(method, 0)))
    if "+" in method.name:
        return fits
    as_base = _tried("an add-on, as in BASE+ADDON", lambda: resolve(f"{method.typed}+fedheal"))
    as_addon = _tried("a base method, as its add-on", lambda: resolve(f"fedprox+{method.typed}"))
    return [as_base, as_addon, *fits]


def _tried(what: str, check: Callable[[], object]) -> Fit:
    try:
        check()
    except UsageError as error:
        return Fit(what, False, error.sentence)
    return Fit(what, True, "")
