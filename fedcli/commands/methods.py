"""fedcli methods."""

from typing import Annotated, Any

import typer

from .. import extensions
from ..system import terminal
from . import complete, method_cache, method_fits, method_list
from . import options as o

HEAD = ["method", "name", "rule", "server needs", "what it does", "labels per image"]


def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="one method, base+addon, or a file such as ./mine.py", autocompletion=complete.methods),
    ] = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """List the methods, or show one: source, how it differs from the paper, what it fits, its options."""
    if not name and not json:
        _list()
        return
    if name and (about := method_cache.read(name)):
        o.show_json(about) if json else _print(about)
        return
    from ..methods import METHODS, resolve
    from ..methods.registry import installed

    several = _of_file(name) if name else []
    if len(several) > 1 and not json:
        terminal.table(HEAD, [list(method_list.of(method)) for method in several])
        return
    if name and len(several) <= 1:
        method = resolve(name)
        o.show_json(_about(method)) if json else _print(_about(method))
        if method is METHODS.get(method.name):
            method_cache.keep(_own)
        return
    o.show_json([_about(method) for method in several or (*METHODS.values(), *installed().values())])


def _list() -> None:
    """fedcli's own methods, read from their files, and those of installed packages."""
    lines, head = list(map(list, method_list.listed())), HEAD
    if packages := extensions.packages("methods"):
        from ..methods.registry import installed

        lines = [[*line, "fedcli"] for line in lines]
        more = installed().values()
        lines += [[*method_list.of(m), ", ".join(map(str, m.code.values()))] for m in more]
    terminal.table(head + ["from"] * bool(packages), lines)
    print(
        "\nThe server needs sums over the clients (which secure aggregation computes), scalars of each, or its update."
    )
    print("A method without its own server rule can use another's as an add-on: fedcli train BASE+ADDON.")


def _needs_one_label(method: Any) -> str:
    """Why images may have one label only; "" where they may have several."""
    return method.local.needs_one_label or method.aggregator.needs_one_label


def _of_file(name: str) -> list[Any]:
    """Every method of a file that is named without one of them."""
    if not extensions.is_file(name) or extensions.split(name)[1]:
        return []
    return list(extensions.load(extensions.split(name)[0]).tables.get("methods", {}).values())


def _own() -> method_cache.Kept:
    """What is shown of every method of fedcli, by its names without regard to case."""
    from ..methods.registry import ALIASES, METHODS

    about = {name: _about(method) for name, method in METHODS.items()}
    spelt = {method.label: name for name, method in METHODS.items()} | ALIASES | {name: name for name in METHODS}
    return {text.lower(): about[name] for text, name in spelt.items()}


def _about(method: Any) -> dict[str, Any]:
    from .. import options
    from ..federation.graphs import no_graph_reason
    from ..methods.contract import NEEDS

    halves = {"local": options.describe(method.local), "server": options.describe(method.aggregator)}
    named = [
        (name if name in method.settings else f"{half}.{name}", o)
        for half in halves
        for o in halves[half]
        for name in [o.name]
    ]
    unique = {name: {**vars(option), "name": name} for name, option in named}
    return {
        "name": method.name, "label": method.label, "about": method.about, "rule": method.rule,
        "documentation": method.documentation,
        "options": list(unique.values()),
        "code": {half: code.recorded for half, code in method.code.items()},
        "needs": method.needs, "server_sees": NEEDS[method.needs],
        "needs_every_client": method.aggregator.full_participation,
        "needs_one_label": _needs_one_label(method),
        "not_recorded": no_graph_reason(method.local),
        "trains_with": [fit._asdict() for fit in method_fits.fits(method)],
    }  # fmt: skip


def _print(about: dict[str, Any]) -> None:
    print(f"{about['name']} ({about['label']}), rule {about['rule']}\n\n{about['documentation']}\n")
    for half, code in about["code"].items():
        named = " ".join(filter(None, [code.get("file") or code["package"], code.get("version")]))
        print(f"{half} is from {named}, sha256 {code.get('sha256', '')[:12]}...\n")
    if about["needs_one_label"]:
        print(f"It needs one label per image: {about['needs_one_label']}.\n")
    print(f"The server must see {about['server_sees']}.\n")
    if about["not_recorded"]:
        print(f"On a GPU its local steps are not recorded and replayed: {about['not_recorded']}.\n")
    rows = [[fit["what"], "yes" if fit["fits"] else "no", fit["why"]] for fit in about["trains_with"]]
    terminal.table(["trains with", "", "why not"], rows)
    print()
    if about["options"]:
        print("Options, changed with --set:")
        rows = [[f["name"], f["type"], str(f["default"]), f["meaning"]] for f in about["options"]]
        terminal.table(["option", "type", "default", "meaning"], rows)
        return
    print("No options.")
