"""The methods' names, labels, rules and one-line descriptions, read from their files: importing them imports torch."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent.parent / "methods"
NEEDS = ["", "sums", "scalars", "updates"]  # as methods.contract.NEEDS, from the least to the most


class Listed(NamedTuple):
    """One line of `fedcli methods`; labels: whether an image may have several."""

    name: str
    label: str
    rule: str
    needs: str
    about: str
    labels: str


@cache
def listed() -> tuple[Listed, ...]:
    """Every method, in the order of its registration."""
    try:
        return tuple(line for module in _modules() for line in _registered(module))
    except (ValueError, KeyError, TypeError):  # a file says something by a name or a call, which only Python reads
        from ..methods import METHODS

        place = {name: k for k, name in enumerate(_modules())}
        return tuple(map(of, sorted(METHODS.values(), key=lambda each: place[each.module.rpartition(".")[2]])))


def of(method: Any) -> Listed:
    """The line of a method that was imported."""
    needs_one = method.local.needs_one_label or method.aggregator.needs_one_label
    return Listed(method.name, method.label, method.rule, method.needs, method.about, labels_of(needs_one))


def _modules() -> list[str]:
    """The files of methods in the order in which the package imports them."""
    first = next(node for node in _tree("__init__").body if isinstance(node, ast.ImportFrom) and node.module is None)
    return [name.name for name in first.names]


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))


def _registered(module: str) -> Iterator[Listed]:
    for node in _tree(module).body:
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "register":
            words = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg in ("label", "about")}
            rules = [rule for half in call.args[1:3] if (rule := _rule(module, half))]
            needs = max((_of_class(module, half, "needs") for half in call.args[1:3]), key=NEEDS.index)
            why = any(_of_class(module, half, "needs_one_label") for half in call.args[1:3])
            name, rule = ast.literal_eval(call.args[0]), " + ".join(dict.fromkeys(rules)) or "paper"
            yield Listed(name, words["label"], rule, needs, words["about"], labels_of(why))


def labels_of(why: object) -> str:
    """Whether images may have several labels, in a word. why: why they may not."""
    return "one" if why else "several"


def _rule(module: str, half: ast.expr) -> str:
    """The rule of a half, from its call or its class's default; "" where it has no such option."""
    if isinstance(half, ast.Call) and isinstance(half.func, ast.Name):
        given = [word.value for word in half.keywords if word.arg == "rule"]
        return ast.literal_eval(given[0]) if given else _default(module, half.func.id, "rule")
    return ""


def _of_class(module: str, half: ast.expr, attribute: str) -> str:
    return (
        _default(module, half.func.id, attribute)
        if isinstance(half, ast.Call) and isinstance(half.func, ast.Name)
        else ""
    )


def _default(module: str, name: str, attribute: str) -> str:
    """What a class says of an attribute, or one that it extends."""
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and name in [part.name for part in node.names]:
            return _default(node.module or "", name, attribute)
        if isinstance(node, ast.ClassDef) and node.name == name:
            for line in node.body:
                targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
                if [target.id for target in targets if isinstance(target, ast.Name)] == [attribute]:
                    return ast.literal_eval(line.value) if line.value else ""  # type: ignore[attr-defined]
            bases = (_default(module, base.id, attribute) for base in node.bases if isinstance(base, ast.Name))
            return next(filter(None, bases), "")
    return ""
