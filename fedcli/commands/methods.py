"""fedcli methods."""

from typing import Annotated, Any

from .. import extensions
from ..common_options import FAMILIES, NAME
from ..errors import UsageError, nearest
from ..options import Flag
from ..system import terminal
from . import method_facts
from .method_facts import Facts
from .shell.common import Json
from .shell.shown import show_json

HEAD = ["method", "in papers", "what it does"]
# of every method that can be trained with one of its means, whatever it is made for
PRIVACY = "privacy"
MEASURED = "noise", "domain", "rare", "groups", "hostile", "hospital", "drift"  # on the page
MEANS = {"--dp image": "DP-SGD", "--engine flower-secagg:DIR": "secure aggregation"}
Name = Annotated[str | None, "one method, base+addon, or a file such as ./mine.py", NAME]
Purpose = Annotated[
    str | None,
    f"only those for one purpose: {', '.join(FAMILIES)} or {PRIVACY}",
    Flag("PURPOSE", typed="for"),
]


def methods(
    name: Name = None,
    purpose: Purpose = None,
    json: Json = False,
) -> None:
    """List the methods by purpose, or show one.

    For one method: its paper, how the code differs from it, what it can be trained with, and its
    options.

    Examples: fedcli methods --for groups; fedcli methods fedheal
    """
    purposes = (*FAMILIES, PRIVACY)
    if purpose and purpose not in purposes:
        raise UsageError(f"--for {purpose}: no such purpose", nearest(purpose, purposes))
    if name and purpose:
        raise UsageError(f"--for {purpose} lists methods, and {name} is one", "give one of the two")
    if name:
        _show(name, json)
    elif json:
        _show_all(purpose)
    else:
        _list(purpose)


def _show(name: str, as_json: bool) -> None:
    """Print the facts of a method, or a list of the methods of a file that registers several."""
    facts = method_facts.named(name)
    if facts is None:
        from ..methods import resolve

        registered = _registered_by(name)
        if len(registered) > 1:
            all_facts = [method_facts.facts_of(method) for method in registered]
            if as_json:
                show_json(all_facts)
            else:
                terminal.table(HEAD, [_line(facts) for facts in all_facts])
            return
        facts = method_facts.facts_of(resolve(name))
    if as_json:
        show_json(facts)
    else:
        _print(facts)


def _registered_by(name: str) -> list[Any]:
    """The methods of a file that is named without one of them; none for another name."""
    if not extensions.is_file(name):
        return []
    path, method = extensions.split(name)
    return [] if method else list(extensions.load(path).tables.get("methods", {}).values())


def _show_all(purpose: str | None) -> None:
    """Print the facts of all methods, or of those for one purpose, as JSON."""
    from ..methods import METHODS
    from ..methods.registry import installed

    methods = [*METHODS.values(), *installed().values()]
    all_facts = [method_facts.facts_of(method) for method in methods]
    show_json([facts for facts in all_facts if not purpose or _is_for(facts, purpose)])


def _list(purpose: str | None) -> None:
    """Print fedcli's own methods and those of installed packages, each under its first family or
    the purpose.
    """
    all_facts = method_facts.all_facts()
    packages: dict[str, str] = {}
    if extensions.packages("methods"):
        from ..methods.registry import installed

        for method in installed().values():
            packages[method.name] = ", ".join(map(str, method.code.values()))
            all_facts.append(method_facts.facts_of(method))
    rows: list[list[str]] = []
    needs: dict[str, str] = {}
    for family in [purpose] if purpose else [*FAMILIES, ""]:
        members = _members(all_facts, family, purpose)
        if members and not purpose:
            rows.append([family.upper() or "OTHERS", "", FAMILIES.get(family, ""), ""])
        for facts in members:
            rows.append([*_line(facts, purpose), packages.get(facts["name"], "fedcli")])
            needs |= facts["wants"]
    heads = [*HEAD, "from"] if packages else HEAD
    terminal.table(heads, [row[: len(heads)] for row in rows])
    print("* the best-known method for its purpose.")
    if purpose != PRIVACY:
        print(*(f"needs {word}: {meaning}" for word, meaning in sorted(needs.items())), sep="\n")
    print(
        f"{len(all_facts)} methods. `fedcli methods NAME` shows one, --for lists the "
        "methods for one purpose:"
    )
    print(f"{', '.join(FAMILIES)} or {PRIVACY}.")
    print("Some take the server rule of another: fedcli train BASE+ADDON.")
    if purpose in MEASURED:
        print("docs/which-method.md compares methods with FedAvg on real images:")
        print("one that was made for another purpose may be better.")


def _members(
    all_facts: list[Facts],
    family: str,
    purpose: str | None,
) -> list[Facts]:
    """The methods for a purpose; without one those of which a family is the first."""
    if purpose:
        return [facts for facts in all_facts if _is_for(facts, purpose)]
    return [facts for facts in all_facts if (facts["families"] or [""])[0] == family]


def _is_for(facts: Facts, purpose: str) -> bool:
    return bool(_means(facts)) if purpose == PRIVACY else purpose in facts["families"]


def _means(facts: Facts) -> list[str]:
    """The means of privacy with which a method can be trained."""
    names = [fit["what"] for fit in facts["trains_with"] if fit["fits"]]
    return [MEANS[name] for name in names if name in MEANS]


def _line(facts: Facts, purpose: str | None = None) -> list[str]:
    """A line of the list of methods: with what it needs, or among those for privacy the means that
    it fits.
    """
    meaning = facts["about"]
    if purpose == PRIVACY:
        meaning += f" ({', '.join(_means(facts))})"
    elif facts["wants"]:
        meaning += f" (needs {', '.join(facts['wants'])})"
    mark = " *" if facts["is_first"] else ""
    return [facts["name"] + mark, facts["label"], meaning]


def _print(facts: Facts) -> None:
    """Print the facts of one method for a person."""
    print(f"{facts['name']} ({facts['label']}), rule {facts['rule']}\n\n{facts['documentation']}\n")
    if facts["families"]:
        print(f"Made for {'; '.join(FAMILIES[family] for family in facts['families'])}.\n")
    for half, code in facts["code"].items():
        source = f"{code.get('file') or code['package']} {code.get('version', '')}".rstrip()
        print(f"{half} is from {source}, sha256 {code.get('sha256', '')[:12]}...\n")
    if facts["wants"]:
        needs = [f"{word} ({meaning})" for word, meaning in facts["wants"].items()]
        print(f"It needs {'; '.join(needs)}.\n")
    if facts["needs_one_label"]:
        print(f"One label per image, because {facts['needs_one_label']}.\n")
    print(f"The server must see {facts['server_sees']}.\n")
    if facts["not_recorded"]:
        print(f"On a GPU its local steps are not recorded and replayed: {facts['not_recorded']}.\n")
    rows = []
    for fit in facts["trains_with"]:
        rows.append([fit["what"], "yes" if fit["fits"] else "no", fit["why"]])
    terminal.table(["trains with", "", "why not"], rows)
    print()
    if not facts["options"]:
        print("No options.")
        return
    print("Options, changed with --set:")
    heads = ["option", "type", "default", "meaning"]
    rows = []
    for option in facts["options"]:
        rows.append([option["name"], option["type"], str(option["default"]), option["meaning"]])
    terminal.table(heads, rows)
