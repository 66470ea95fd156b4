"""fedcli new."""

import re
from pathlib import Path
from typing import Annotated

import typer

from .. import console
from ..errors import FedcliError, UsageError, nearest
from ..files import write_text
from ..metrics import better_low
from . import complete
from . import options as o

TEMPLATES = Path(__file__).parent / "templates"
TRY = {  # kind -> what tries such a file
    "method": "fedcli check ./{file}", "dataset": "fedcli prepare ./{file} --sample",
    "partition": "fedcli partition --scheme ./{file}", "model": "fedcli train fedavg --model ./{file}:build",
    "metric": "fedcli evaluate --metric ./{file}",
}  # fmt: skip


def new(
    kind: Annotated[str, typer.Argument(help=", ".join(TRY), autocompletion=complete.one_of(*TRY))],
    name: Annotated[str, typer.Argument(help="its name, such as my-rule")],
    out: Annotated[Path, typer.Option(help="folder of the two files")] = Path(),
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Write a working file of your own, with a test beside it, to be changed: a method, dataset, partition scheme,
    network or metric.

    Example: fedcli new method my-rule
    """
    if kind not in TRY:
        raise UsageError(f"{kind!r} is nothing that can be written", nearest(kind, TRY))
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name) or len(name) > 60:
        raise UsageError(
            f"{name!r} is no name for it", "small letters and digits, with - between words, such as my-rule"
        )
    snake = name.replace("-", "_")
    words = {"__NAME__": name, "__SNAKE__": snake, "__FILE__": f"{snake}.py"}
    words["__CLASS__"] = "".join(word.capitalize() for word in snake.split("_"))
    template = "cost" if kind == "metric" and better_low(snake) else kind
    made = {out / f"{snake}.py": f"{template}.py.txt", out / f"test_{snake}.py": f"test_{template}.py.txt"}
    if there := [path for path in made if path.exists() or path.is_symlink()]:
        raise FedcliError(f"{there[0]} is there already", "give another name, or another --out")
    out.mkdir(parents=True, exist_ok=True)
    for path, template in made.items():
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        write_text(path, text)
        print(path)
    console.say(
        f"try it: {TRY[kind].format(file=out / f'{snake}.py' if out != Path() else f'{snake}.py')}; "
        f"its test: pytest {out / f'test_{snake}.py'}"
    )
