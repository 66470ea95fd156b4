"""Code from outside the package: a file that a command line names, or an entry point of an
installed package.

Only the words of a command, or the arguments of a call from Python, may name code: allow() takes
them, and what any file says beyond them (a manifest, settings, a recipe, fedcli.toml, a message) is
refused here. What a file of code registers goes into tables of its own, so that two files, or a
file and fedcli, may use the same name.

    ./mine.py         the one method, dataset, ... that the file registers
    ./mine.py:NAME    the one of that name
"""

import hashlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from . import console
from .allowed import allow as allow
from .allowed import allowed as allowed
from .allowed import check_file
from .allowed import check_named as check_named
from .allowed import files_named as files_named
from .allowed import named_by as named_by
from .allowed import words as words
from .errors import FedcliError, UsageError, nearest, of_system
from .provenance import Code, OwnCodeError, in_line, message_of

_METHOD = "call register(NAME, LOCAL, AGGREGATOR, ...) of fedcli.methods.registry in it"
_SCHEME = "put @register(NAME) of fedcli.data.partition over a class in it"
_NETWORK = "write a function build(channels, classes) that returns one, and name it: ./net.py:build"
_METRIC = "write a function (probabilities, labels, groups) that returns a number"
_CORRUPTION = "write a function (image, severity, stream) that returns the changed image"
# kind, which is also the entry-point group fedcli.KIND -> in words, and how a file offers one
KINDS = {
    "methods": ("method", _METHOD),
    "datasets": ("dataset", "call register(NAME, SOURCE, CARD) of fedcli.data.sources in it"),
    "partitions": ("partition scheme", _SCHEME),
    "models": ("network", _NETWORK),
    "engines": ("engine", "call register(NAME, ENGINE) of fedcli.federation.engines in it"),
    "metrics": ("metric", _METRIC),
    "corruptions": ("corruption", _CORRUPTION),
    "commands": ("command", "name a function with declared parameters, or a typer app"),
    "figures": ("figure", "call register(Figure(...)) of fedcli.figures.figure in it"),
    "sections": ("section", "name a function (systems) that returns a Section"),
}
FILE = re.compile(r"(?P<path>.*\.py)(?::(?P<name>[^/:+]*))?", re.S)
RETURNED = (
    "it may return or register something of another form than fedcli expects; --debug shows where "
    "it was used"
)
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
PACKAGE = "fedcli."  # begins the names of its own modules
MODULE = "fedcli_file_"  # begins the name of the module of a file
CODE = (  # help of --code
    "allow code that a run, a recipe or fedcli.toml names: this file, or this network of a "
    "package or a hub; may be repeated"
)


@dataclass(frozen=True)
class Loaded:
    """A file or package that is run: its module, and kind -> name -> what it registers."""

    code: Code
    module: ModuleType
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)


_filling: ContextVar[Loaded | None] = ContextVar("filling", default=None)
# by path and sha256: one module for equal bytes, so that its classes stay the same objects
_loaded: dict[tuple[Path, str], Loaded] = {}


def is_file(text: str) -> bool:
    """Tell whether a word names a file of code, such as ./mine.py or ./mine.py:name."""
    return FILE.fullmatch(text) is not None


def split(text: str) -> tuple[Path, str]:
    """Path and name, "" where it has none, of a word that names a file of code."""
    match = FILE.fullmatch(text)
    assert match is not None
    return Path(match["path"]), match["name"] or ""


def table(kind: str, usual: dict[str, Any]) -> dict[str, Any]:
    """Where to register: in the tables of the file or package that is being run, else in the usual
    one, as a module of fedcli does that such a file is the first to import.
    """
    filling = _filling.get()
    if filling is None or _importing_module().startswith(PACKAGE):
        return usual
    return filling.tables.setdefault(kind, {})


def origin() -> Code | None:
    """The code that is being run, None for what fedcli itself imports."""
    filling = _filling.get()
    if filling is None or _importing_module().startswith(PACKAGE):
        return None
    return filling.code


def _importing_module() -> str:
    """Name of the module whose own lines run at the moment, "" outside of an import."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def check_name(name: str) -> None:
    """Refuse a name for a registered thing that no command line could say. Raises ValueError."""
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name: letters, digits, and - _ . after the first")


def load(path: Path) -> Loaded:
    """Run a file and return what it registered; a file that did not change is run once.

    Raises FedcliError, UsageError for a file that the command does not name.
    """
    source, sha256 = _read(path)
    check_file(path)
    key = path.resolve(), sha256
    if key not in _loaded:
        _loaded[key] = _run(
            path,
            source,
            Code(path.name, sha256, path=path.resolve()),
        )
    return _loaded[key]


def loaded_files() -> list[Path]:
    """The files of code that this process has run, for another one that is sent what is of them."""
    return [path for path, _ in _loaded]


def digest(path: Path) -> str:
    """sha256 of a file of code. Raises FedcliError."""
    return _read(path)[1]


def _read(path: Path) -> tuple[bytes, str]:
    hint = "give the path of a Python file, such as ./mine.py"
    if path.is_dir():
        raise FedcliError(f"{path} is a folder, not a file", hint)
    if path.is_symlink() and not path.exists():
        raise FedcliError(f"{path} is a link to {path.readlink()}, which is not there", hint)
    if not path.is_file():  # a pipe would be waited for
        raise FedcliError(f"no such file: {path}", hint)
    try:
        source = path.read_bytes()
    except OSError as error:
        sentence = f"{path} cannot be read: {error.strerror}"
        raise FedcliError(sentence, "see to its permissions") from None
    return source, hashlib.sha256(source).hexdigest()


def _run(path: Path, source: bytes, code: Code) -> Loaded:
    file = str(path.resolve())
    folder = hashlib.sha256(os.fsencode(file)).hexdigest()
    module = ModuleType(f"{MODULE}{path.stem}_{folder[:6]}{code.sha256[:6]}")
    module.__file__ = file
    sys.modules[module.__name__] = module  # dataclasses and pickle look it up
    try:
        with _collecting(code, module) as loaded:
            exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        del sys.modules[module.__name__]
        raise _refused(path, module, error) from error
    return loaded


def _refused(
    path: Path,
    module: ModuleType,
    error: BaseException,
) -> BaseException:
    if isinstance(error, KeyboardInterrupt):
        return error
    if isinstance(error, SyntaxError):
        line = error.lineno if error.filename == module.__file__ else None
        return OwnCodeError(f"{path}{in_line(line)}: {message_of(error)}", "mend that line")
    if isinstance(error, SystemExit):
        sentence = f"{path} ends the program instead of registering something"
        return OwnCodeError(sentence, "take sys.exit out of it")
    return _in_file(path, error)


@contextmanager
def _collecting(code: Code, module: ModuleType) -> Iterator[Loaded]:
    loaded = Loaded(code, module)
    before = _filling.set(loaded)
    try:
        yield loaded
    finally:
        _filling.reset(before)


def pick(
    text: str,
    kind: str,
    spelled: Callable[[str, dict[str, Any]], str | None] | None = None,
) -> Any:
    """The thing that PATH.py or PATH.py:NAME registered of a kind. spelled: finds the name that
    another spelling means.

    Raises FedcliError, UsageError.
    """
    path, name = split(text)
    registered = load(path).tables.get(kind, {})
    word, how = KINDS[kind]
    if not registered:
        raise UsageError(f"{path} registers no {word}", how)
    if not name:
        name, *others = registered
        if others:
            sentence = f"{path} registers several: {', '.join(registered)}"
            raise UsageError(sentence, f"name one: {path}:{name}")
    key: str | None = name
    if name not in registered:
        key = spelled(name, registered) if spelled else None
    if key is None:
        raise UsageError(f"{path} registers no {word} {name!r}", nearest(name, registered))
    return registered[key]


def functions_in(loaded: Loaded) -> dict[str, Callable[..., Any]]:
    """The functions that a loaded file defines itself, without those that begin with _."""
    functions = {}
    for key, value in vars(loaded.module).items():
        if key.startswith("_") or not callable(value):
            continue
        if getattr(value, "__module__", "") == loaded.module.__name__:
            functions[key] = value
    return functions


def function(
    text: str,
    kind: str,
    usual: str = "",
) -> tuple[Callable[..., Any], Code]:
    """The function that PATH.py:NAME names, with where it comes from; usual: NAME where it is left
    out.

    Raises FedcliError, UsageError.
    """
    path, name = split(text)
    loaded = load(path)
    functions = functions_in(loaded)
    if not name:
        name = next(iter(functions)) if len(functions) == 1 else usual
    if not name and functions:
        sentence = f"{path} has several functions: {', '.join(functions)[:200]}"
        raise UsageError(sentence, f"name one: {path}:{next(iter(functions))}")
    if name not in functions:
        word, how = KINDS[kind]
        missing = f" {name!r} that makes a {word}" if name else ""
        raise UsageError(f"{path} has no function{missing}", how)
    return functions[name], loaded.code


@cache
def packages(kind: str) -> dict[str, EntryPoint]:
    """A kind's entry points by name, without loading them: reading what is installed takes
    milliseconds.
    """
    entries = entry_points(group=f"fedcli.{kind}")
    in_order = sorted(entries, key=lambda entry: (entry.name, entry.value))
    return {entry.name: entry for entry in in_order}


def loads(kind: str, name: str) -> bool:
    """Tell whether installed packages may be looked into for a name: the command says it.

    Raises UsageError where it does not and the name is an entry point's.
    """
    try:
        check_named(name, f"a {KINDS[kind][0]} of an installed package")
    except UsageError:
        if name in packages(kind):
            raise
        return False
    return bool(packages(kind))


def offered(kind: str, name: str) -> tuple[Any, Code] | None:
    """The thing that an installed package offers under a name that the command says; None where
    none does.

    Raises UsageError.
    """
    return installed(kind).get(name) if loads(kind, name) else None


@cache
def installed(kind: str) -> Mapping[str, tuple[Any, Code]]:
    """Everything that installed packages offer of a kind: name -> it and where it comes from.

    A package whose entry point fails is named in a warning and left out, so that it stops nobody
    else.
    """
    offered: dict[str, tuple[Any, Code]] = {}
    for entry in packages(kind).values():
        code = Code(entry.module, _digest(entry))
        if entry.dist:
            code = replace(
                code,
                name=entry.dist.name,
                version=entry.dist.version,
            )
        try:
            registered = _registered_by(entry.module, code).get(kind, {})
            loaded = entry.load()
        except (Exception, SystemExit) as error:
            thing = f"the {KINDS[kind][0]} {entry.name} of {code}"
            console.warn(f"{thing} cannot be loaded: {message_of(error)}")
            continue
        if not registered and callable(loaded):
            registered = {entry.name: loaded}
        if not registered:
            kind_in_words, way_to_offer = KINDS[kind]
            console.warn(f"{entry.name} of {code} offers no {kind_in_words}: {way_to_offer}")
        for name, thing in registered.items():
            offered[name] = thing, code
    return offered


@cache
def _registered_by(module: str, code: Code) -> dict[str, dict[str, Any]]:
    """Tables that a package's module fills when it is imported, which happens once, of any kind."""
    with _collecting(code, ModuleType(module)) as loaded:
        import_module(module)
    return loaded.tables


def _digest(entry: EntryPoint) -> str:
    """sha256 of an entry point's module; "" where it is no single file."""
    from importlib.util import find_spec

    try:
        spec = find_spec(entry.module)
        if spec and spec.origin:
            return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    except (ImportError, OSError, ValueError):
        return ""
    return ""


def fault(error: BaseException) -> OwnCodeError | None:
    """The sentence for an error of code from outside the package, or of what it returned; None for
    any other.
    """
    if isinstance(error, FedcliError):
        return None
    files = {loaded.module.__file__: loaded.code.name for loaded in _loaded.values()}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in files:
            own = _in_file(Path(files[frame.filename]), error, frame.filename)
            notes = [f", {note}" for note in getattr(error, "__notes__", [])]
            return OwnCodeError(own.sentence + "".join(notes), own.hint)
    if not files or isinstance(error, ImportError | MemoryError) or of_system(error):
        return None
    used = ", ".join(dict.fromkeys(files.values()))
    return OwnCodeError(f"{message_of(error)}, while {used} was used", RETURNED)


def _in_file(
    path: Path,
    error: BaseException,
    file: str | None = None,
) -> OwnCodeError:
    """The sentence with the line of a file where an error was raised, or where it called what
    raised it.
    """
    file = file or str(path.resolve())
    line = None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == file:
            line = frame.lineno
    hint = "mend it; --debug shows the traceback"
    if isinstance(error, SystemExit):
        hint = "take sys.exit out of it"
    return OwnCodeError(f"{path}{in_line(line)}: {message_of(error)}", hint)
