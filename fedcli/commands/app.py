"""The command line: every subcommand, and the one place where errors end.

Exit codes: 0 done; 1 an error that names its cause; 2 wrong usage; 3 a hash that does not match;
4 a score beyond a limit of --fail-if; 130 interrupted, with everything saved.
"""

import codecs
import io
import os
import resource
import sys
import traceback
import warnings
from collections import deque
from importlib import import_module
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from .. import __version__, console, extensions
from ..errors import FedcliError, of_system
from ..system import interrupts
from ..system.interrupts import INTERRUPTED
from . import (
    bench,
    cells,
    check,
    compare,
    datasets,
    demo,
    export,
    inspect,
    lists,
    ls,
    methods,
    new,
    plot,
    reproduce,
    stages,
    version,
)
from .shell import declare, defaults
from .shell.panels import ANYWHERE, Command

AGAIN = "run the same command again (train: with --resume); finished stages are not made twice"
LIMITED = "give the process more memory (ulimit -v), or install fedcli and its packages again"
UNEXPECTED = "a manifest may have been edited by hand, or this is a fault of fedcli; --debug shows the traceback"


class Commands(TyperGroup):
    """A group whose commands end in one sentence, one hint and an exit code, never in a traceback."""

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # its own click's
        """First sentences of all commands, under headings."""
        for group in GROUPS:
            lines = [
                (name, " ".join((command.help or "").split("\n\n")[0].split()))
                for name, command in self.commands.items()
                if getattr(command, "rich_help_panel", None) == group
            ]
            with formatter.section(group):
                formatter.write_dl(lines)

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # its own click's
        """--log-file and --code may stand anywhere in the line."""
        flags, words = [flag.split()[0] for flag, _ in ANYWHERE], deque(args)
        ours: list[str] = []
        others: list[str] = []
        while words:
            word = words.popleft()
            into = ours if word.partition("=")[0] in flags and ("=" in word or words) else others
            into += [word, words.popleft()] if into is ours and "=" not in word else [word]
        try:
            return super().parse_args(ctx, [*ours, *others])
        except Exception as error:
            _refuse(ctx, error)
            raise

    def make_context(self, *args: Any, **more: Any) -> Any:
        try:
            return super().make_context(*args, **more)
        except KeyboardInterrupt:  # of which typer would say nothing
            _nothing_begun()
            raise typer.Exit(INTERRUPTED) from None

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # its own click's
        ctx.with_resource(console.shown())
        try:
            return self._called(ctx)
        except BrokenPipeError:
            raise typer.Exit(0) from None  # the reader of our output has seen enough
        except (typer.Exit, typer.Abort):
            raise
        except BaseException as error:
            if isinstance(error, SystemExit | GeneratorExit) and not extensions.fault(error):
                raise
            _refuse(ctx, error)
            told = _told(error)
            _end(ctx, told.sentence, told.hint, told.code)

    def _called(self, ctx: typer.Context) -> object:
        """Result of the command. Raises KeyboardInterrupt also where a library made another error of it."""
        try:
            ctx.default_map = defaults.read(self.commands)
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if interrupts.came() and getattr(error, "code", None) != INTERRUPTED:
                raise KeyboardInterrupt from error
            raise


def _told(error: BaseException) -> FedcliError:
    """An error as a person is told of it: a sentence, a hint and an exit code."""
    if isinstance(error, FedcliError):
        return error
    if isinstance(error, KeyboardInterrupt):
        told = FedcliError("interrupted", AGAIN)
        told.code = INTERRUPTED
        return told
    if fault := extensions.fault(error):
        return fault
    if isinstance(
        error, ImportError | MemoryError
    ):  # a limit on memory ends the loading of a library too
        what = f"too little memory, or a damaged package: {str(error) or 'memory is used up'}"
        return FedcliError(what, LIMITED)
    if known := of_system(error):
        return known
    where = "".join(f", {note}" for note in getattr(error, "__notes__", []))
    return FedcliError(f"unexpected {type(error).__name__}: {error}{where}", UNEXPECTED)


def _refuse(ctx: typer.Context, error: BaseException) -> None:
    """End where an error is the parser's own, such as a wrong option; a bare `fedcli` shows its help."""
    if hasattr(error, "format_message") and type(error).__name__ != "NoArgsIsHelpError":
        sentence = error.format_message().rstrip(".") + "".join(getattr(error, "__notes__", []))
        command = " ".join(filter(None, [ctx.command_path, ctx.invoked_subcommand]))
        line = getattr(getattr(error, "ctx", None), "command_path", None) or command
        with console.shown():  # where the line of the whole program is wrong, nothing is shown yet
            _end(
                ctx,
                f"{sentence[:1].lower()}{sentence[1:]}",
                f"`{line} --help` lists what can be given",
                2,
            )


def _nothing_begun() -> None:
    with console.shown():
        console.fail("interrupted before anything was begun", "run the same command again")


def _end(ctx: typer.Context, sentence: str, hint: str, code: int) -> NoReturn:
    if ctx.meta.get(declare.DEBUG):
        traceback.print_exc(file=sys.stderr)
    console.fail(sentence, hint)
    raise typer.Exit(code)


app = typer.Typer(
    name="fedcli",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

GROUPS = {  # heading in help -> its commands
    "Begin": (demo.demo,),
    "Data": (
        stages.prepare,
        stages.partition,
        stages.corrupt,
        stages.attack,
        datasets.datasets,
        lists.corruptions,
    ),
    "Train and score": (
        stages.train,
        stages.evaluate,
        stages.predict,
        compare.audit,
        cells.sweep,
        reproduce.run,
        reproduce.reproduce,
        methods.methods,
        lists.models,
    ),
    "Compare": (stages.report, compare.compare, plot.plot, ls.ls, inspect.inspect, lists.metrics),
    "More": (
        import_module("fedcli.sites.command").site,
        export.export,
        new.new,
        check.check,
        bench.bench,
        version.version,
    ),
}
for group, functions in GROUPS.items():
    for function in functions:
        kind: Any = plot.Figures if function is plot.plot else Command  # a group is a command too
        app.command(cls=kind, rich_help_panel=group)(declare.command(function))


def _version(value: bool) -> None:
    if value:
        print(f"fedcli {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    shows_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
    log_file: Annotated[Path | None, typer.Option(metavar="FILE", help=ANYWHERE[0][1])] = None,
    code: Annotated[list[str] | None, typer.Option(metavar="FILE", help=ANYWHERE[1][1])] = None,
) -> None:
    """Fair federated learning on medical images.

    The way to a table: prepare, partition, corrupt, train, report. Try `fedcli demo` first.
    """
    context.with_resource(extensions.allowed(code or []))
    if log_file:
        context.with_resource(console.logged(log_file))


def _replaced(error: UnicodeError) -> tuple[bytes, int]:
    """Bytes for text that the output's encoding lacks: the bytes of a file's name that is no text, else "?"."""
    assert isinstance(error, UnicodeEncodeError)
    codes = [ord(c) for c in error.object[error.start : error.end]]
    return bytes(
        code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else ord("?") for code in codes
    ), error.end


def _open_streams() -> None:
    """Have three streams that take any text: a file would else be opened in place of one that the shell has closed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nothing = os.open(
                os.devnull, os.O_RDWR
            )  # the lowest number that is free, which is this stream's
            setattr(sys, name, os.fdopen(nothing, "w" if number else "r"))
    codecs.register_error("fedcli", _replaced)
    for stream, errors in (
        (sys.stdin, "surrogateescape"),
        (sys.stdout, "fedcli"),
        (sys.stderr, "fedcli"),
    ):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


NEEDED = (
    4 << 30
)  # bytes of addresses; with less, torch's libraries were seen to end the process and to wait for ever


class BeforeTorch(MetaPathFinder):
    """Finds no module; raises MemoryError where torch is looked for under such a limit."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "torch":
            limit = resource.getrlimit(resource.RLIMIT_AS)[0]
            if limit != resource.RLIM_INFINITY and limit < NEEDED:
                raise MemoryError(
                    f"{limit / 2**30:.1f} GB are allowed, and torch's libraries need {NEEDED >> 30}"
                )


def main() -> None:
    _open_streams()
    if not sys.warnoptions:  # of libraries, for programmers: python -W shows them
        warnings.simplefilter("ignore")
    # idle threads that spin take the cores from whatever else runs here: up to ten times slower when shared
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    interrupts.listen()
    sys.meta_path.insert(0, BeforeTorch())
    try:
        app()
    except KeyboardInterrupt:  # before a command has begun
        _nothing_begun()
        sys.exit(INTERRUPTED)
