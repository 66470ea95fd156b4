"""fedcli methods."""

from typing import Annotated, Any

import typer

from .. import terminal
from . import complete, method_list
from . import options as o


def methods(
    name: Annotated[
        str | None, typer.Argument(help="one method, or base+addon; default: the list", autocompletion=complete.methods)
    ] = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """List the methods, or show one: its source, how it differs from the paper, and its options."""
    if not name and not json:
        terminal.table(["method", "name", "rule", "what it does"], list(map(list, method_list.listed())))
        print("\nA method without its own server rule can use another's as an add-on: fedcli train BASE+ADDON.")
        return
    from ..methods import METHODS, resolve

    if name:
        method = resolve(name)
        o.show_json(_about(method)) if json else _print(method)
        return
    o.show_json([_about(method) for method in METHODS.values()])


def _about(method: Any) -> dict[str, Any]:
    from .. import options
    from ..federation.graphs import no_graph_reason

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
        "needs_every_client": method.aggregator.full_participation,
        "not_recorded": no_graph_reason(method.local),
    }  # fmt: skip


def _print(method: Any) -> None:
    about = _about(method)
    print(f"{about['name']} ({about['label']}), rule {about['rule']}\n\n{about['documentation']}\n")
    if about["not_recorded"]:
        print(f"On a GPU its local steps are not recorded and replayed: {about['not_recorded']}.\n")
    if about["options"]:
        print("Options, changed with --set:")
        rows = [[f["name"], f["type"], str(f["default"]), f["meaning"]] for f in about["options"]]
        terminal.table(["option", "type", "default", "meaning"], rows)
        return
    print("No options.")
