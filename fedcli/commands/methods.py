"""fedcli methods."""

from typing import Annotated, Any

from .. import extensions
from ..common_options import FAMILIES, NAME
from ..errors import UsageError
from ..options import Flag
from ..system import terminal
from . import method_facts
from .shell.common import Json
from .shell.shown import show_json

HEAD = ["method", "in papers", "what it does"]
PRIVACY = (
    "privacy"  # of every method that can be trained with one of its means, whatever it is made for
)
MEANS = {"--dp-sgd": "DP-SGD", "--engine flower-secagg:DIR": "secure aggregation"}


def methods(
    name: Annotated[str | None, "one method, base+addon, or a file such as ./mine.py", NAME] = None,
    purpose: Annotated[
        str | None,
        f"only those for one purpose: {', '.join(FAMILIES)} or {PRIVACY}",
        Flag("PURPOSE", typed="for"),
    ] = None,
    json: Json = False,
) -> None:
    """List the methods by purpose, or show one.

    Of one method: the paper, how the code differs from it, what it can be trained with, its options.

    Examples: fedcli methods --for groups; fedcli methods fedheal
    """
    if purpose and purpose not in (*FAMILIES, PRIVACY):
        raise UsageError(
            f"--for {purpose}: no such purpose", f"give one of {', '.join(FAMILIES)}, {PRIVACY}"
        )
    if name and purpose:
        raise UsageError(f"--for {purpose} lists methods, and {name} is one", "give one of the two")
    if not name and not json:
        _list(purpose)
        return
    if name and (facts := method_facts.named(name)):
        show_json(facts) if json else _print(facts)
        return
    from ..methods import METHODS, resolve
    from ..methods.registry import installed

    several: list[Any] = []
    if (
        name and extensions.is_file(name) and not extensions.split(name)[1]
    ):  # a file, without one of its methods
        several = list(
            extensions.load(extensions.split(name)[0]).tables.get("methods", {}).values()
        )
    if len(several) > 1 and not json:
        terminal.table(HEAD, [_line(method_facts.facts_of(method)) for method in several])
        return
    if name and len(several) <= 1:
        facts = method_facts.facts_of(resolve(name))
        show_json(facts) if json else _print(facts)
        return
    all_of = [
        method_facts.facts_of(method)
        for method in several or (*METHODS.values(), *installed().values())
    ]
    show_json([facts for facts in all_of if not purpose or _is_for(facts, purpose)])


def _list(purpose: str | None) -> None:
    """Print fedcli's own methods and those of installed packages, each under its first family or that asked for."""
    known, packages = method_facts.all_facts(), {}
    if extensions.packages("methods"):
        from ..methods.registry import installed

        packages = {m.name: ", ".join(map(str, m.code.values())) for m in installed().values()}
        known = known + [method_facts.facts_of(method) for method in installed().values()]
    lines: list[list[str]] = []
    needed: dict[str, str] = {}
    for family in [purpose] if purpose else [*FAMILIES, ""]:
        members = [
            f
            for f in known
            if (_is_for(f, family) if purpose else (f["families"] or [""])[0] == family)
        ]
        lines += (
            [[family.upper() or "OTHERS", "", FAMILIES.get(family, ""), ""]]
            if members and not purpose
            else []
        )
        lines += [
            [*_line(facts, purpose or ""), packages.get(facts["name"], "fedcli")]
            for facts in members
        ]
        needed |= {word: meaning for facts in members for word, meaning in facts["wants"].items()}
    shown = len(HEAD) + bool(packages)
    terminal.table([*HEAD, "from"][:shown], [line[:shown] for line in lines])
    if purpose != PRIVACY:
        print(*(f"needs {word}: {meaning}" for word, meaning in sorted(needed.items())), sep="\n")
    print(f"{len(known)} methods. `fedcli methods NAME` shows one, --for those for one purpose:")
    print(f"{', '.join(FAMILIES)} or {PRIVACY}.")
    print("Some take the server rule of another: fedcli train BASE+ADDON.")


def _is_for(facts: method_facts.Facts, purpose: str) -> bool:
    return bool(_means(facts)) if purpose == PRIVACY else purpose in facts["families"]


def _means(facts: method_facts.Facts) -> list[str]:
    return [
        MEANS[fit["what"]] for fit in facts["trains_with"] if fit["fits"] and fit["what"] in MEANS
    ]


def _line(facts: method_facts.Facts, purpose: str = "") -> list[str]:
    """A line of the list of methods: with what it needs, or among those for privacy the means that it fits."""
    if purpose == PRIVACY:
        more = f" ({', '.join(_means(facts))})"
    else:
        more = f" (needs {', '.join(facts['wants'])})" if facts["wants"] else ""
    return [facts["name"], facts["label"], facts["about"] + more]


def _print(about: method_facts.Facts) -> None:
    print(f"{about['name']} ({about['label']}), rule {about['rule']}\n\n{about['documentation']}\n")
    if about["families"]:
        print(f"Made for {'; '.join(FAMILIES[family] for family in about['families'])}.\n")
    for half, code in about["code"].items():
        named = " ".join(filter(None, [code.get("file") or code["package"], code.get("version")]))
        print(f"{half} is from {named}, sha256 {code.get('sha256', '')[:12]}...\n")
    if about["wants"]:
        print(
            f"It needs {'; '.join(f'{word} ({meaning})' for word, meaning in about['wants'].items())}.\n"
        )
    if about["needs_one_label"]:
        print(f"One label per image, because {about['needs_one_label']}.\n")
    print(f"The server must see {about['server_sees']}.\n")
    if about["not_recorded"]:
        print(f"On a GPU its local steps are not recorded and replayed: {about['not_recorded']}.\n")
    rows = [
        [fit["what"], "yes" if fit["fits"] else "no", fit["why"]] for fit in about["trains_with"]
    ]
    terminal.table(["trains with", "", "why not"], rows)
    print()
    if about["options"]:
        print("Options, changed with --set:")
        rows = [[f["name"], f["type"], str(f["default"]), f["meaning"]] for f in about["options"]]
        terminal.table(["option", "type", "default", "meaning"], rows)
        return
    print("No options.")
