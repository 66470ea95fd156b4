"""fedcli new."""

import ast
import keyword
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
}


def new(
    kind: Annotated[
        Literal["method", "dataset", "partition", "model", "metric"], "what is written", NAME
    ],
    name: Annotated[str, "its name, such as my-rule", NAME],
    out: Annotated[Path, "folder of the two files", Flag(access="writes")] = Path(),
) -> None:
    """Write a template for code of your own.

    It is a method, dataset, partition scheme, network or metric that works as it stands, with a test beside it.

    Example: fedcli new method my-rule
    """
    from ..metrics import better_low

    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name) or len(name) > 60:
        raise UsageError(
            f"{name!r} is no name for it",
            "small letters and digits, with - between words, such as my-rule",
        )
    snake = name.replace("-", "_")
    words = {"__NAME__": name, "__SNAKE__": snake, "__FILE__": f"{snake}.py"}
    words["__CLASS__"] = "".join(word.capitalize() for word in snake.split("_"))
    template = "cost" if kind == "metric" and better_low(snake) else kind
    _check_name(template, name, words)
    made = {
        out / f"{snake}.py": f"{template}.py.txt",
        out / f"test_{snake}.py": f"test_{template}.py.txt",
    }
    if there := [path for path in made if path.exists() or path.is_symlink()]:
        raise FedcliError(f"{there[0]} is there already", "give another name, or another --out")
    out.mkdir(parents=True, exist_ok=True)
    for path, source in made.items():
        text = (TEMPLATES / source).read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        write_text(path, text)
        print(path)
    own, test = made
    console.say(f"try it: {TRY[kind].format(file=own)}; its test: pytest {test}")


def _check_name(template: str, name: str, words: dict[str, str]) -> None:
    """Refuse a name that Python, the template or fedcli uses for something else. Raises UsageError."""
    from ..scores.own_metrics import is_taken

    snake, hint = words["__SNAKE__"], f"give another name, such as my-{name}"
    if keyword.iskeyword(snake) or keyword.iskeyword(words["__CLASS__"]):
        raise UsageError(f"{name!r} is a word of Python itself", hint)
    if template in ("metric", "cost") and is_taken(snake):
        raise UsageError(f"fedcli has a metric {snake!r} already", hint)
    for file in (template, f"test_{template}"):
        tree = ast.parse((TEMPLATES / f"{file}.py.txt").read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        used = {
            name for node in imports for alias in node.names for name in (alias.name, alias.asname)
        }
        used |= {
            (node.module or "").partition(".")[0]
            for node in imports
            if isinstance(node, ast.ImportFrom)
        }
        if snake in used or words["__CLASS__"] in used:
            raise UsageError(f"{name!r} is a name that the file itself imports", hint)
