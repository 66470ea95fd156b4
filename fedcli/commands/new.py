"""fedcli new."""

import ast
import keyword
import os
import re
from pathlib import Path
from typing import Annotated, Literal

from .. import console
from ..common_options import NAME
from ..errors import FedcliError, UsageError
from ..io.files import write_text
from ..options import Flag

TEMPLATES = Path(__file__).parent / "templates"
TRY = {  # kind -> what tries such a file
    "method": "fedcli check ./{file}",
    "dataset": "fedcli prepare ./{file} --sample",
    "partition": "fedcli partition --scheme ./{file}",
    "model": "fedcli train fedavg --model ./{file}:build",
    "metric": "fedcli evaluate --metric ./{file}",
    "corruption": "fedcli check ./{file}",
}


Kind = Annotated[
    Literal["method", "dataset", "partition", "model", "metric", "corruption"],
    "what is written",
    NAME,
]
Name = Annotated[str, "its name, such as my-rule", NAME]
Out = Annotated[Path, "folder of the two files", Flag(access="writes")]


def new(
    kind: Kind,
    name: Name,
    out: Out = Path(),
) -> None:  # the current folder
    """Write a template for code of your own.

    It is a method, dataset, partition scheme, network, metric or corruption that works unchanged,
    with a test.

    Example: fedcli new method my-rule
    """
    from ..metrics import better_low

    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name) or len(name) > 60:
        hint = "small letters and digits, with - between words, such as my-rule"
        raise UsageError(f"{name!r} is no name for it", hint)
    snake = name.replace("-", "_")
    class_name = "".join(word.capitalize() for word in snake.split("_"))
    template = "cost" if kind == "metric" and better_low(snake) else kind
    _check_name(template, name, {snake, class_name})
    code_path = out / f"{snake}.py"
    test_path = out / f"test_{snake}.py"
    for path in (code_path, test_path):
        if os.path.lexists(path):
            hint = "give another name, or another --out"
            raise FedcliError(f"{path} is there already", hint)
    out.mkdir(parents=True, exist_ok=True)
    words = {
        "__NAME__": name,
        "__SNAKE__": snake,
        "__FILE__": code_path.name,
        "__CLASS__": class_name,
    }
    for path, text in zip((code_path, test_path), _texts(template), strict=True):
        for word, value in words.items():
            text = text.replace(word, value)
        write_text(path, text)
        print(path)
    console.say(f"try it: {TRY[kind].format(file=code_path)}; its test: pytest {test_path}")


def _texts(template: str) -> list[str]:
    """The code of a template and its test."""
    paths = [TEMPLATES / f"{name}.py.txt" for name in (template, f"test_{template}")]
    return [path.read_text(encoding="utf-8") for path in paths]


def _check_name(template: str, name: str, names: set[str]) -> None:
    """Refuse a name that Python, the template or fedcli uses for something else. Raises UsageError.

    names: of the module and the class that it becomes.
    """
    from ..data.corruption.kinds import is_taken as is_corruption
    from ..scores.own_metrics import is_taken

    hint = f"give another name, such as my-{name}"
    if any(keyword.iskeyword(word) for word in names):
        raise UsageError(f"{name!r} is a word of Python itself", hint)
    module = name.replace("-", "_")
    if template in ("metric", "cost") and is_taken(module):
        raise UsageError(f"fedcli has a metric {module!r} already", hint)
    if template == "corruption" and is_corruption(name):
        raise UsageError(f"fedcli has a corruption {name!r} already", hint)
    used = set()
    for text in _texts(template):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.alias):
                used |= {node.name, node.asname}
            elif isinstance(node, ast.ImportFrom):
                used.add((node.module or "").partition(".")[0])
    if names & used:
        raise UsageError(f"{name!r} is a name that the file itself imports", hint)
