"""fedcli plot: every registered figure as a command of its own."""

import re
from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_origin

import typer
from typer.core import TyperGroup

from .. import console
from ..errors import UsageError, nearest
from ..io import outputs
from ..options import Flag, Option
from .shell import common as o
from .shell.declare import built, option_of, piped, with_flags
from .shell.panels import Command
from .shell.shown import show_json

if TYPE_CHECKING:
    from ..figures.figure import Figure

RUNS = {  # what a figure is of -> help of its argument
    "runs": "runs, finished or not; default: {}; - reads stdin",
    "methods": "runs, finished or not; default: {}; - reads stdin",
    "path": (
        "a run, or a partition; default: the run under --work that trained last; - reads stdin"
    ),
    "data": "a partition or corruption, or a run of one; default: the newest under --work; - reads "
    "stdin",
    "system": "a run, or its scores; default: {}; - reads stdin",
    "systems": "runs, or their scores; default: {}; - reads stdin",
}
NEWEST = "the one under --work that trained last"
EVERY = "all under --work"
OF_EVERY_FIGURE = "work", "out", "force", "json"  # options of draw()
Out = Annotated[
    Path | None,
    "a picture, or .csv for its numbers; default: a name in plots/ under --work",
    Flag("FILE", access="writes"),
]


class Figures(TyperGroup):
    """The figures as commands, loaded where one is asked for: they need pandas."""

    def parse_args(  # type: ignore[override]  # its own click's
        self,
        ctx: typer.Context,
        args: list[str],
    ) -> list[str]:
        """Read the words; without the name of a figure the list of them is shown."""
        has_name = any(not word.startswith("-") for word in args)
        return super().parse_args(ctx, args if has_name else [*args, "--help"])

    def resolve_command(  # type: ignore[override]  # its own click's
        self,
        ctx: typer.Context,
        args: list[str],
    ) -> Any:
        """The figure, to which those defaults of the whole group apply that it has a flag for.

        Raises UsageError for a name that none has.
        """
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            hint = nearest(word, self.list_commands(ctx))
            if "?" not in hint:  # none has a similar name
                series = f"`fedcli plot curves --series {word}`"
                hint = f"{series} draws what rounds recorded; `fedcli plot` lists the figures"
            raise UsageError(f"no figure is named {word!r}", hint)
        name, command, words = super().resolve_command(ctx, args)
        if command and name and ctx.default_map:
            flags = {parameter.name for parameter in command.params}
            values = {key: value for key, value in ctx.default_map.items() if key in flags}
            ctx.default_map = {name: values}
        return name, command, words

    def format_commands(  # type: ignore[override]  # click's
        self,
        ctx: typer.Context,
        formatter: Any,
    ) -> None:
        """The questions that the figures answer, in full."""
        from ..figures.kinds import FIGURES, of_packages

        with console.shown():  # for warnings of figures of packages
            figures = {**FIGURES, **of_packages()}
        with formatter.section("Figures"):
            formatter.write_dl([(name, figure.question) for name, figure in figures.items()])

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # click's
        from ..figures.kinds import FIGURES, of_packages

        return [*FIGURES, *of_packages()]

    def get_command(  # type: ignore[override]  # click's
        self,
        ctx: typer.Context,
        cmd_name: str,
    ) -> Any:
        from ..figures.kinds import FIGURES, of_packages

        figure = FIGURES.get(cmd_name) or of_packages().get(cmd_name)
        return _command(figure) if figure else None


def plot() -> None:
    """Draw a figure of runs, such as learning curves.

    Other figures show the images of each client, what models learned, and how good they are. Each
    has its own help.

    Examples: fedcli plot curves; fedcli plot curves fedcli-work/runs/* --series loss --out
    losses.svg; fedcli plot sweep --over q --version corrupted; fedcli plot landscape
    fedcli-work/runs/qffl-*
    """


def _command(figure: "Figure") -> Any:
    """A figure as typer declares it: its runs, the options of its frame, and what all commands
    have.
    """

    def called(
        runs: Sequence[str],
        work: Path,
        out: Path | None,
        force: bool,
        json: bool,
        **options: Any,
    ) -> None:
        draw(
            figure,
            list(runs),
            options,
            work=work,
            out=out,
            force=force,
            json=json,
        )

    meaning = RUNS[figure.of].format(EVERY if figure.every else NEWEST)
    flag = Flag("RUN", argument=True, access="reads")
    options = [Option.of("runs", Annotated[Sequence[str], meaning, flag], ())]
    for parameter in figure.parameters.values():
        if get_origin(parameter.annotation) is Annotated:
            option = option_of(parameter)
            if option.kind is str:
                option = replace(option, flag=Flag("NAME"))
            options.append(option)
    parameters = signature(draw).parameters
    options += [option_of(parameters[name]) for name in OF_EVERY_FIGURE]
    run = with_flags(called, options)
    return built(run, cls=Command, name=figure.name, help=figure.question)


def draw(
    figure: "Figure",
    runs: list[str],
    options: dict[str, Any],
    *,
    work: o.Work = o.DEFAULT_WORK,
    out: Out = None,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Draw a figure of these runs, or of those under work, and print its path. Raises FedcliError,
    UsageError.
    """
    from ..data import manifest
    from ..figures import drawing
    from ..figures.figure import numbers
    from ..stages.plot import check_suffix, drawn, paths_of

    if runs == ["-"]:
        paths = [manifest.find(Path(piped()), "run")]
    else:
        paths = paths_of(figure, runs, work)
    target = out or work / "plots" / f"{_name(paths)}-{_kind(figure, options)}.png"
    check_suffix(target)
    if out:
        o.check_named(out, force=force)
    outputs.refuse_sealed(target)
    picture = drawn(figure, paths, options, runs_named=bool(runs))
    if out:
        picture.save(out, force=force)
    else:
        drawing.write(figure.draw(picture.frame), target)
    if json:
        run_paths = [str(path) for path in paths]
        show_json({"path": str(target), "runs": run_paths, "frame": numbers(picture.frame)})
        return
    print(target)


def _name(paths: list[Path]) -> str:
    """A name for the file of a figure of these runs."""
    from ..data import manifest

    folders = [path if path.is_dir() else path.parent for path in paths]
    names = [folder.resolve().name for folder in folders]
    if len(names) == 1:
        return names[0]
    return f"{names[0]}-and-{len(names) - 1}-more-{manifest.identity({'runs': names}, [])}"


def _kind(figure: "Figure", options: dict[str, Any]) -> str:
    """The figure with the texts and switches among its options, as the name of a file."""
    words = [figure.name]
    for name, value in options.items():
        if value is True:
            words.append(name)
        if isinstance(value, str) and value != figure.parameters[name].default:
            words.append(value)
    return re.sub(r"[^\w-]", "_", "-".join(words))
