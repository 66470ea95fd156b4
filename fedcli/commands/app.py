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
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from .. import console, extensions
from ..errors import NO_ROOM, FedcliError, UsageError, of_system
from ..provenance import OwnCodeError, message_of
from ..system import interrupts
from ..system.interrupts import INTERRUPTED
from . import registry
from .shell import declare, defaults
from .shell.panels import ANYWHERE, HELP, SHOWS_ALL, WHOLE_HELP

AGAIN = "run the same command again (train: with --resume); finished stages are not made twice"
LIMITED = "give the process more memory (ulimit -v), or install fedcli and its packages again"
STDERR = 2  # its file descriptor
HELP_FLAGS = {"-h", HELP}
WHOLE = (f"{HELP}, {WHOLE_HELP}", "show the options that are used most, or all of them")
MEND = "mend it, or tell its authors; --debug shows the traceback"
UNEXPECTED = (
    "a manifest may have been edited by hand, or this is a fault of fedcli; --debug shows the "
    "traceback"
)
OTHER_WAYS = {  # options of other tools -> what says the same here
    "--latex": "--format latex, of report",
    "--html": "--format html, of report",
    "--csv": "`fedcli report --format csv`; evaluate writes scores.csv next to scores.json",
    "--limit": "--sample-images 1000, of prepare",
    "--subset": "--sample-images 1000, of prepare",
    "--num-clients": "--clients 20, of partition",
    "--learning-rate": "--lr 1e-3, of train",
    "--pretrained": "--weights pretrained, of train",
    "--gpu": "--device cuda, of train",
}


class Commands(TyperGroup):
    """A group whose commands end in one sentence, one hint and an exit code, never in a
    traceback.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = registry.CommandsByName()

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # click's
        """Names alone, so that no command is imported for them."""
        return list(self.commands)

    def format_commands(  # type: ignore[override]  # click's
        self,
        ctx: typer.Context,
        formatter: Any,
    ) -> None:
        """Options of every command, and first sentences of all commands under headings."""
        switches = [(f"--{name}", meaning) for name, meaning in declare.MEANINGS.items()]
        with formatter.section("Options of every command"):
            formatter.write_dl([*switches, WHOLE])
        with console.shown():  # for warnings of commands of packages
            sections = self.commands.sections()
        for heading, lines in sections.items():
            with formatter.section(heading):
                formatter.write_dl(lines)

    def parse_args(  # type: ignore[override]  # its own click's
        self,
        ctx: typer.Context,
        args: list[str],
    ) -> list[str]:
        """Read the words; --log-file, --code and --help=all may be anywhere in the line."""
        flags = [flag.split()[0] for flag, _ in ANYWHERE]
        words = deque(args)
        global_words: list[str] = []
        other_words: list[str] = []
        while words:
            word = words.popleft()
            name, equals, _ = word.partition("=")
            if word == WHOLE_HELP:
                ctx.meta[SHOWS_ALL] = True
                other_words.append(HELP)
            elif name not in flags or not (equals or words):
                other_words.append(word)
            elif equals:
                global_words.append(word)
            else:
                global_words += [word, words.popleft()]
        try:
            return super().parse_args(ctx, [*global_words, *other_words])
        except Exception as error:
            _refuse(ctx, error)
            raise

    def make_context(self, *args: Any, **settings: Any) -> Any:
        try:
            return super().make_context(*args, **settings)
        except KeyboardInterrupt:  # of which typer would say nothing
            _nothing_begun()
            raise typer.Exit(INTERRUPTED) from None

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]  # its own click's
        """The command that the words call, with its options from variables and from the file."""
        name, command, rest = super().resolve_command(ctx, args)
        if name:  # none where a line is completed
            is_help = not HELP_FLAGS.isdisjoint(rest)
            ctx.default_map = defaults.read(name, command, list(self.commands), forgiving=is_help)
        return name, command, rest

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # its own click's
        ctx.with_resource(console.shown())
        try:
            return self._result(ctx)
        except BrokenPipeError:
            raise typer.Exit(0) from None  # the reader of our output has seen enough
        except (typer.Exit, typer.Abort):
            raise
        except BaseException as error:
            if isinstance(error, SystemExit | GeneratorExit) and not extensions.fault(error):
                raise
            _refuse(ctx, error)
            _end(ctx, _in_words(error, ctx.invoked_subcommand))

    def _result(self, ctx: typer.Context) -> object:
        """The result of the command. Raises KeyboardInterrupt also where a library made another
        error of it.
        """
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if interrupts.came() and getattr(error, "code", None) != INTERRUPTED:
                raise KeyboardInterrupt from error
            raise


def _in_words(error: BaseException, command: str | None) -> FedcliError:
    """An error of a command as a sentence, a hint and an exit code."""
    if isinstance(error, FedcliError):
        return error
    if isinstance(error, KeyboardInterrupt):
        interrupted = FedcliError("interrupted", AGAIN)
        interrupted.code = INTERRUPTED
        return interrupted
    fault = extensions.fault(error)
    if fault:
        return fault
    if isinstance(error, ImportError | MemoryError):  # a limit on memory also ends loading
        cause = str(error) or "memory is used up"
        return FedcliError(f"too little memory, or a damaged package: {cause}", LIMITED)
    system_error = of_system(error)
    if system_error:
        return system_error
    if command and command not in registry.COMMANDS:
        return OwnCodeError(f"{message_of(error)}, in {command}, a command of a package", MEND)
    notes = "".join(f", {note}" for note in getattr(error, "__notes__", []))
    return FedcliError(f"unexpected {type(error).__name__}: {error}{notes}", UNEXPECTED)


def _refuse(ctx: typer.Context, error: BaseException) -> None:
    """End where an error is the parser's own, such as a wrong option; a bare `fedcli` shows its
    help.
    """
    if not hasattr(error, "format_message") or type(error).__name__ == "NoArgsIsHelpError":
        return
    sentence = error.format_message().rstrip(".") + "".join(getattr(error, "__notes__", []))
    command = " ".join(filter(None, [ctx.command_path, ctx.invoked_subcommand]))
    line = getattr(getattr(error, "ctx", None), "command_path", None) or command
    hint = _of_part(error) or f"`{line} --help` lists what can be given"
    word = str(getattr(error, "option_name", ""))
    if word in OTHER_WAYS:
        hint = f"write {OTHER_WAYS[word]}"
    with console.shown():  # where the line of the whole program is wrong, nothing is shown yet
        _end(ctx, UsageError(f"{sentence[:1].lower()}{sentence[1:]}", hint))


def _of_part(error: BaseException) -> str:
    """A hint on an option that is written in the text of another, "" for any other."""
    command = getattr(getattr(error, "ctx", None), "command", None)
    options = getattr(getattr(command, "callback", None), defaults.OPTIONS, {})
    word = str(getattr(error, "option_name", "")).lstrip("-")
    for option in options.values():
        for part in option.parts:
            if word in (part.word, part.key):
                text = part.word if part.shape == "switch" else f"{part.word}=VALUE"
                return f"it is a part of --{option.typed}: write --{option.typed} {text}"
    return ""


def _nothing_begun() -> None:
    with console.shown():
        console.fail("interrupted before anything was begun", "run the same command again")


def _end(ctx: typer.Context, error: FedcliError) -> NoReturn:
    if ctx.meta.get(declare.DEBUG):
        traceback.print_exc(file=sys.stderr)
    console.fail(error.sentence, error.hint)
    raise typer.Exit(error.code)


app = typer.Typer(
    name="fedcli",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": sorted(HELP_FLAGS), "max_content_width": 100},
)


def _version(context: typer.Context, value: bool) -> None:
    if value:
        from . import version

        version.show(with_packages=context.params.get("with_packages", False))
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, help="print the version")]
Packages = Annotated[
    bool,
    typer.Option(
        "--verbose", is_eager=True, help="with --version: also of Python and of the packages"
    ),
]
LogFile = Annotated[Path | None, typer.Option(metavar="FILE", help=ANYWHERE[0][1])]
CodeFiles = Annotated[list[str] | None, typer.Option(metavar="FILE", help=ANYWHERE[1][1])]


@app.callback()
def root(
    context: typer.Context,
    shows_version: Version = False,  # noqa: ARG001  # its callback prints
    with_packages: Packages = False,  # noqa: ARG001  # read by the callback of --version
    log_file: LogFile = None,
    code: CodeFiles = None,
) -> None:
    """Fair federated learning on medical images.

    Five commands lead to a table: prepare, partition, corrupt, train, report. Try `fedcli demo`
    first.
    """
    context.with_resource(extensions.allowed(code or []))
    if log_file:
        context.with_resource(console.logged(log_file))


def _replaced(error: UnicodeError) -> tuple[bytes, int]:
    """Bytes for text that the output's encoding lacks: the bytes of a file's name that is no text,
    else "?".
    """
    assert isinstance(error, UnicodeEncodeError)
    replacement = bytearray()
    for character in error.object[error.start : error.end]:
        code = ord(character)
        replacement.append(code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else ord("?"))
    return bytes(replacement), error.end


class Messages(io.RawIOBase):
    """stderr. What a full disk does not take is lost: the work that it tells of goes on, and ends
    with the same exit code.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self.stream = stream  # which closes its file once nobody has it

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.stream.fileno()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def write(self, text: Any) -> int:
        try:
            return os.write(self.fileno(), text)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            return len(text)


def _open_streams() -> None:
    """Have three streams that take any text: a file would else be opened in place of one that the
    shell has closed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # the lowest number that is free, which is this stream's
            descriptor = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "w" if number else "r"))
    codecs.register_error("fedcli", _replaced)
    errors = {
        "stdin": "surrogateescape",
        "stdout": "fedcli",
        "stderr": "fedcli",
    }
    for name, handler in errors.items():
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=handler)
    stream = sys.stderr
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(stream.buffer, io.BufferedWriter):
        return
    if stream.fileno() == STDERR:
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(Messages(stream)),
            encoding=stream.encoding,
            errors=errors["stderr"],
            line_buffering=True,
        )


# bytes of addresses; with less, torch's libraries were seen to end the process and to wait for ever
NEEDED = 4 << 30


class BeforeTorch(MetaPathFinder):
    """Finds no module; raises MemoryError where torch is looked for under such a limit."""

    def find_spec(
        self,
        fullname: str,
        path: object,
        target: object = None,
    ) -> None:  # of its base
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if fullname == "torch" and limit != resource.RLIM_INFINITY and limit < NEEDED:
            allowed = f"{limit / 2**30:.1f} GB are allowed"
            raise MemoryError(f"{allowed}, and torch's libraries need {NEEDED >> 30}")


def main() -> None:
    _open_streams()
    if not sys.warnoptions:  # of libraries, for programmers: python -W shows them
        warnings.simplefilter("ignore")
    # idle threads that spin take the cores from whatever else runs here: up to ten times slower
    # when shared
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    interrupts.listen()
    sys.meta_path.insert(0, BeforeTorch())
    try:
        app()
    except KeyboardInterrupt:  # before a command has begun
        _nothing_begun()
        sys.exit(INTERRUPTED)
