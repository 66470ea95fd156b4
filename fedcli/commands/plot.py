"""fedcli plot: every registered figure as a command of its own."""

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_origin

import typer
from typer.core import TyperGroup

from ..errors import UsageError
from ..options import Flag, Option
from .shell import common as o
from .shell.declare import option_of, piped, with_flags
from .shell.panels import Command
from .shell.shown import show_json

if TYPE_CHECKING:
    from ..figures.figure import Figure

SUFFIXES = ".png", ".svg", ".pdf", ".csv"
RUNS = {  # what a figure is of -> help of its argument
    "runs": "runs, finished or not; default: {}; - reads stdin",
    "methods": "runs, finished or not; default: {}; - reads stdin",
    "path": "a run, or a partition; default: the run under --work that played last; - reads stdin",
    "system": "a run, or its scores; default: {}; - reads stdin",
    "systems": "runs, or their scores; default: {}; - reads stdin",
}
NEWEST, EVERY = "the one under --work that played last", "all under --work"


class Figures(TyperGroup):
    """The figures as commands, loaded where one is asked for: they need pandas.

    Options that were not typed, see defaults.py, are those of every figure that has them.
    """

    common = ("work",)

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # its own click's
        """A line without the name of a figure shows the list of them."""
        words = [word for word in args if not word.startswith("-")]
        return super().parse_args(ctx, args if words else [*args, "--help"])

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """The figure, to which defaults of the whole group apply."""
        name, command, rest = super().resolve_command(ctx, args)
        if command and name and ctx.default_map:
            own = {parameter.name for parameter in command.params}
            ctx.default_map = {
                name: {key: value for key, value in ctx.default_map.items() if key in own}
            }
        return name, command, rest

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # its own click's
        """The questions that the figures answer, in full."""
        from ..figures.kinds import FIGURES

        with formatter.section("Figures"):
            formatter.write_dl([(name, figure.question) for name, figure in FIGURES.items()])

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # its own click's
        from ..figures.kinds import FIGURES

        return list(FIGURES)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        from ..figures.kinds import FIGURES

        return _command(FIGURES[cmd_name]) if cmd_name in FIGURES else None


def plot() -> None:
    """Draw a figure of runs, such as learning curves.

    Others show which client holds which images, what models learned and how often they are right. Each has its own
    help.

    Examples: fedcli plot curves; fedcli plot curves fedcli-work/runs/* --series loss --out losses.svg; fedcli plot
    sweep --over q --version corrupted; fedcli plot landscape fedcli-work/runs/qffl-*
    """


def _command(figure: "Figure") -> Any:
    """A figure as typer declares it: its runs, the options of its frame, and what all commands have."""
    frame = [
        option_of(p) for p in figure.parameters.values() if get_origin(p.annotation) is Annotated
    ]
    frame = [
        replace(option, flag=Flag("NAME")) if option.kind is str else option for option in frame
    ]
    about = RUNS[figure.of].format(EVERY if figure.every else NEWEST)
    runs = Option.of(
        "runs", Annotated[Sequence[str], about, Flag("RUN", argument=True, access="reads")], ()
    )

    def called(
        runs: Sequence[str],
        work: Path,
        out: Path | None,
        force: bool,
        json: bool,
        **options: Any,
    ) -> None:
        draw(figure, list(runs), options, work=work, out=out, force=force, json=json)

    line = typer.Typer(add_completion=False, rich_markup_mode=None)
    shared = [
        option_of(p)
        for p in signature(draw).parameters.values()
        if p.name in ("work", "out", "force", "json")
    ]
    line.command(figure.name, cls=Command, help=figure.question)(
        with_flags(called, [runs, *frame, *shared])
    )
    return typer.main.get_command(line)


def draw(
    figure: "Figure",
    runs: list[str],
    options: dict[str, Any],
    *,
    work: o.Work = o.DEFAULT_WORK,
    out: Annotated[
        Path | None,
        "a picture, or .csv for its numbers; default: a name in plots/ under --work",
        Flag("FILE", access="writes"),
    ] = None,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Draw a figure of these runs, or of those under work, and print where it lies. Raises FedcliError, UsageError."""
    from ..data import manifest
    from ..figures import drawing
    from ..figures.figure import numbers
    from ..stages.plot import drawn, runs_of

    paths = (
        [manifest.find(Path(piped()), "run")]
        if runs == ["-"]
        else runs_of(runs, work, figure.every)
    )
    target = out or work / "plots" / f"{_name(paths)}-{_kind(figure, options)}.png"
    if target.suffix.lower() not in SUFFIXES:
        endings = " or ".join(SUFFIXES)
        raise UsageError(
            f"--out {target} is no picture that fedcli draws", f"let its name end in {endings}"
        )
    if out:
        o.check_named(out, force=force)
    o.refuse_sealed(target)
    frame = drawn(figure, paths, options, runs_named=bool(runs)).frame
    if target.suffix.lower() == ".csv":
        o.write_named(target, frame.to_csv(index=False).encode(), force=force)
    elif out:
        o.write_named(out, drawing.picture_bytes(figure.draw(frame), out.suffix), force=force)
    else:
        drawing.write(figure.draw(frame), target)
    if json:
        show_json(
            {"path": str(target), "runs": [str(path) for path in paths], "frame": numbers(frame)}
        )
        return
    print(target)


def _name(paths: list[Path]) -> str:
    from ..data import manifest

    folders = [path if path.is_dir() else path.parent for path in paths]
    names = [folder.resolve().name for folder in folders]
    if len(names) == 1:
        return names[0]
    return f"{names[0]}-and-{len(names) - 1}-more-{manifest.identity({'runs': names}, [])}"


def _kind(figure: "Figure", options: dict[str, Any]) -> str:
    """The figure with the texts that were asked of it, as the name of a file."""
    asked = [value for name, value in options.items() if value != figure.parameters[name].default]
    text = "-".join([figure.name, *(value for value in asked if isinstance(value, str))])
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in text)
