"""Messages to a person: those of the logger "fedcli", and how far work is.

say() and warn() are that logger's info() and warning(), so a program that imports fedcli shows them
where it configures logging. The command line shows both, and progress, on stderr, with shown(); so
does a call from Python on a terminal or in a notebook, with watched(). The only module that knows
rich.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from .errors import FedcliError

T = TypeVar("T")
LONGEST = 400  # characters of a sentence
NOTEBOOK = 99  # characters of a line that is replaced in a notebook
EVERY = 10  # seconds between two lines of progress where there is no terminal

_log = logging.getLogger("fedcli")
say = _log.info
warn = _log.warning
detail = _log.debug  # shown with --verbose alone
RESULT = "result"  # mark of a record that is a command's result

# shown() and muted() set it
_reporter: ContextVar["_Stderr | _Listener | None"] = ContextVar("reporter", default=None)


def progress(
    items: Iterable[T],
    *,
    label: str,
    total: int,
    done: int = 0,
) -> Iterator[T]:
    """Yield items; on the command line under a bar with the time left, or a line every 10
    seconds.
    """
    reporter = _reporter.get()
    if reporter is not None:
        items = reporter.progress(items, label, total, done)
    yield from items


def beside(text: str, *, in_lines: bool = False) -> None:
    """Show a few words beside the bar of progress from now on, such as a loss; in_lines: also where
    there is no bar.
    """
    reporter = _reporter.get()
    if isinstance(reporter, _Stderr):
        reporter.beside = text
        reporter.in_lines = in_lines


def result(text: str) -> None:
    """Print what a command made on stdout, and tell the logger of it."""
    print(text)
    _log.info(text, extra={RESULT: True})


def status(message: str) -> None:
    """Show one line that the next message replaces; without a terminal, one every ten seconds at
    most.
    """
    _log.info(message, extra={"passing": True})


def fail(sentence: str, hint: str = "") -> None:
    """Report an error and what to do about it; --quiet does not silence it."""
    _log.error(shortened(sentence), extra={"hint": hint})


@contextmanager
def shown() -> Iterator[None]:
    """Print messages and progress on stderr, as the command line does, for as long as it lasts."""
    stderr = _Stderr()
    handlers = _log.handlers
    level = _log.level
    token = _reporter.set(stderr)
    _log.handlers = [stderr]
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.handlers = handlers
        _log.setLevel(level)
        _reporter.reset(token)


@contextmanager
def watched() -> Iterator[None]:
    """Print as shown() does where a person looks on: on a terminal or in a notebook, where the
    program has set up no logging.
    """
    handlers = list(logging.getLogger().handlers)
    for handler in _log.handlers:
        if not isinstance(handler, logging.NullHandler):
            handlers.append(handler)
    looks_on = sys.stderr and (sys.stderr.isatty() or in_notebook())
    is_set_up = _log.level or handlers or _reporter.get() is not None
    with shown() if looks_on and not is_set_up else nullcontext():
        yield


def in_notebook() -> bool:
    """Tell whether stderr is a notebook's, where a line can be replaced as on a terminal."""
    return type(sys.stderr).__module__.startswith("ipykernel")


@contextmanager
def logged(path: Path) -> Iterator[None]:
    """Append messages to a file as well, each with its time.

    Raises OSError where the file cannot be opened, FedcliError for a pipe, which would be waited
    for.
    """
    if path.is_fifo():
        sentence = f"{path} is a pipe, and messages are appended to a file"
        raise FedcliError(sentence, "give --log-file the name of one")
    handler = _LogFile(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(lambda record: not getattr(record, "passing", False))
    _log.addHandler(handler)
    try:
        yield
    finally:
        _log.removeHandler(handler)
        handler.close()


def be_quiet() -> None:
    """Print errors only, until shown() ends."""
    for handler in _log.handlers:
        if isinstance(handler, _Stderr):
            handler.setLevel(logging.ERROR)


@contextmanager
def warnings_kept() -> Iterator[list[str]]:
    """The warnings that are said from now on, printed or not."""
    warnings: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        if record.levelno == logging.WARNING:
            warnings.append(printable(record.getMessage()))
        return True  # it goes on to the handlers

    _log.addFilter(keep)
    try:
        yield warnings
    finally:
        _log.removeFilter(keep)


def be_verbose() -> None:
    """Print details too, until shown() ends."""
    _log.setLevel(logging.DEBUG)


@contextmanager
def muted(listener: Callable[[int, int], None] | None = None) -> Iterator[None]:
    """Report progress to listener(done, total) or nowhere, and keep messages silent; status() and
    errors are shown.
    """
    token = _reporter.set(_Listener(listener or (lambda done, total: None)))
    try:
        yield
    finally:
        _reporter.reset(token)


def counted(count: int, singular: str, plural: str) -> str:
    """A number with the noun that fits it, such as "1 image" or "2 images"."""
    return f"{count} {singular if count == 1 else plural}"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names in a sentence, such as "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def shortened(text: str) -> str:
    """Text of at most LONGEST characters: a name of a thousand letters would hide what is said of
    it.
    """
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2 - 2
    return f"{text[:half]} … {text[-half:]}"


def capital(words: str) -> str:
    """Words as a sentence begins."""
    return words[:1].upper() + words[1:]


def printable(text: str) -> str:
    """Text with control characters escaped: names from files and images must not drive a person's
    terminal.
    """
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


class _LogFile(logging.FileHandler):
    """A file that gets no more once it cannot be written, a full disk's for example; the command
    goes on.
    """

    def handleError(self, record: logging.LogRecord) -> None:
        _log.removeHandler(self)
        error = sys.exc_info()[1]
        reason = getattr(error, "strerror", None) or error
        warn(f"nothing more is written to {self.baseFilename}: {reason}")

    def close(self) -> None:
        with suppress(OSError):  # of what could not be written, which was said
            super().close()


class _Listener:
    def __init__(self, listener: Callable[[int, int], None]):
        self.listener = listener

    def progress(
        self,
        items: Iterable[T],
        label: str,
        total: int,
        done: int,
    ) -> Iterator[T]:
        for count, item in enumerate(items, done + 1):
            yield item
            self.listener(count, total)


class _Stderr(logging.Handler):
    """Plain lines on stderr, warnings and errors named as such, and a line of status that the next
    one replaces.
    """

    def __init__(self) -> None:
        super().__init__()
        # when the last status was written, in seconds of the monotonic clock
        self.passed = -float(EVERY)
        self.beside = ""  # what stands beside the bar
        self.in_lines = False  # whether it stands in lines too
        self.open = False  # whether a status is the terminal's last line

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, RESULT, False):
            return  # it stands on stdout
        message = printable(record.getMessage())
        if getattr(record, "passing", False):
            self._pass(message)
        elif record.levelno >= logging.ERROR:
            coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
            self._line(f"\x1b[31merror:\x1b[0m {message}" if coloured else f"error: {message}")
            hint = getattr(record, "hint", "")
            if hint:
                self._line(f"  hint: {printable(hint)}")
        elif not isinstance(_reporter.get(), _Listener):
            self._line(f"warning: {message}" if record.levelno >= logging.WARNING else message)

    def _line(self, message: str) -> None:
        if self.open:
            print(
                f"\r{' ' * NOTEBOOK}\r" if in_notebook() else "\r\x1b[K",
                end="",
                file=sys.stderr,
            )
            self.open = False
        print(message, file=sys.stderr, flush=True)

    def _pass(self, message: str) -> None:
        if in_notebook():
            print(
                f"\r{message[:NOTEBOOK]:{NOTEBOOK}}",
                end="",
                file=sys.stderr,
                flush=True,
            )
            self.open = True
        elif sys.stderr.isatty():
            # some terminals report none
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            print(
                f"\r\x1b[K{message[: width - 1]}",
                end="",
                file=sys.stderr,
                flush=True,
            )
            self.open = True
        elif time.monotonic() - self.passed > EVERY:
            self._line(message)
            self.passed = time.monotonic()

    def progress(
        self,
        items: Iterable[T],
        label: str,
        total: int,
        done: int,
    ) -> Iterator[T]:
        if self.level > logging.INFO:
            return iter(items)
        shown_by = self._bar if sys.stderr.isatty() else self._lines
        return shown_by(items, printable(label), total, done)

    def _lines(
        self,
        items: Iterable[T],
        label: str,
        total: int,
        done: int,
    ) -> Iterator[T]:
        start = last = time.monotonic()
        pause = 0.5 if in_notebook() else EVERY
        for count, item in enumerate(items, done + 1):
            yield item
            now = time.monotonic()
            if now - last <= pause and count != total:
                continue
            show = self._pass if in_notebook() and count < total else self._line
            words = f", {self.beside}" if self.in_lines else ""
            show(f"{label} {count}/{total} ({now - start:.0f} s){words}")
            last = now

    def _bar(
        self,
        items: Iterable[T],
        label: str,
        total: int,
        done: int,
    ) -> Iterator[T]:
        from rich import progress as rich
        from rich.console import Console

        columns = [
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TimeElapsedColumn(),
            rich.TimeRemainingColumn(),
            rich.TextColumn("{task.fields[beside]}", markup=False),
        ]
        with rich.Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(label, total=total, completed=done, beside="")
            for item in items:
                yield item
                bar.update(task, advance=1, beside=self.beside)
        self.beside = ""
        self.in_lines = False
