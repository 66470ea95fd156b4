"""fedcli methods."""

from typing import Annotated, Any

from .. import extensions
from ..common_options import NAME
from ..system import terminal
from . import method_cache
from .shell.common import Json
from .shell.shown import show_json

HEAD = ["method", "name", "rule", "server needs", "what it does", "labels per image"]


def methods(
    name: Annotated[str | None, "one method, base+addon, or a file such as ./mine.py", NAME] = None, json: Json = False
) -> None:
    """List the methods, or show one: source, how it differs from the paper, what it fits, its options."""
    if not name and not json:
        _list()
        return
    if name and (facts := method_cache.named(name)):
        show_json(facts) if json else _print(facts)
        return
    from ..methods import METHODS, resolve
    from ..methods.registry import installed

    several = _of_file(name) if name else []
    if len(several) > 1 and not json:
        terminal.table(HEAD, [_line(method_cache.facts_of(method)) for method in several])
        return
    if name and len(several) <= 1:
        facts = method_cache.facts_of(resolve(name))
        show_json(facts) if json else _print(facts)
        return
    show_json([method_cache.facts_of(method) for method in several or (*METHODS.values(), *installed().values())])


def _list() -> None:
    """Print fedcli's own methods and those of installed packages."""
    lines, head = [_line(facts) for facts in method_cache.all_facts()], HEAD
    if packages := extensions.packages("methods"):
        from ..methods.registry import installed

        lines = [[*line, "fedcli"] for line in lines]
        more = installed().values()
        lines += [[*_line(method_cache.facts_of(m)), ", ".join(map(str, m.code.values()))] for m in more]
    terminal.table(head + ["from"] * bool(packages), lines)
    print(
        "\nThe server needs sums over the clients (which secure aggregation computes), scalars of each, or its update."
    )
    print("A method without its own server rule can use another's as an add-on: fedcli train BASE+ADDON.")


def _line(facts: method_cache.Facts) -> list[str]:
    """A line of the list of methods."""
    words = [facts[key] for key in ("name", "label", "rule", "needs", "about")]
    return [*words, "one" if facts["needs_one_label"] else "several"]


def _of_file(name: str) -> list[Any]:
    """Every method of a file that is named without one of them."""
    if not extensions.is_file(name) or extensions.split(name)[1]:
        return []
    return list(extensions.load(extensions.split(name)[0]).tables.get("methods", {}).values())


def _print(about: method_cache.Facts) -> None:
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
