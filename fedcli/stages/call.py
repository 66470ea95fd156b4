"""A stage as Python calls it: the options as arguments, checked as they are on the command line."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast, get_origin, get_type_hints

from .. import console, extensions
from ..data import last_used, manifest
from ..errors import UsageError
from ..extensions import CODE
from ..options import Options, Source

P = ParamSpec("P")
Asked = TypeVar("Asked", bound=Options)
Made = TypeVar("Made")


def called_with(
    name: str, options: Callable[P, Asked], run: Callable[[Asked], Made]
) -> Callable[P, Made]:
    """The function `name`: run() with the fields of its options as arguments, as on the command line or by name.

    It also takes code=, and may run what its arguments name, as the command line may.
    """

    @wraps(run)
    def call(*args: P.args, **kwargs: P.kwargs) -> Made:
        code: Any = kwargs.pop("code", ())
        try:
            given = signature(options).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"fedcli.{name}() {error}; call it as {_form(name, options)}") from None
        with console.watched(), extensions.allowed(_words([code, *given.arguments.values()])):
            return run(options(*given.args, **given.kwargs))

    call.__name__ = call.__qualname__ = name
    _describe(call, cast(type[Options], options), get_type_hints(run)["return"])
    return call


def _form(name: str, options: Any) -> str:
    """The form of a call, such as "fedcli.compare([runs, ...], by=...)"; where a list is taken, as one."""
    plain, asked = get_type_hints(options), [*signature(options).parameters.values()]
    first = (each.name for each in asked if each.kind is Parameter.POSITIONAL_OR_KEYWORD)
    shown = (f"[{each}, ...]" if get_origin(plain[each]) is Sequence else each for each in first)
    named = [f"{each.name}=..." for each in asked if each.kind is Parameter.KEYWORD_ONLY][:1]
    return f"fedcli.{name}({', '.join([*shown, *named])})"


def _words(values: Iterable[Any]) -> Iterator[str]:
    """The texts and paths among arguments, and within their lists and tables."""
    for value in values:
        if isinstance(value, str | os.PathLike):
            yield str(value)
        elif isinstance(value, Mapping):
            yield from _words(value.values())
        elif isinstance(value, Sequence):
            yield from _words(value)


def _describe(call: Any, options: type[Options], made: Any) -> None:
    """Give a function the signature and the words that help() and notebooks show."""
    plain, asked = get_type_hints(options), signature(options).parameters.values()
    parameters = [parameter.replace(annotation=plain[parameter.name]) for parameter in asked]
    parameters.append(
        Parameter("code", Parameter.KEYWORD_ONLY, default=(), annotation=Sequence[Source])
    )
    call.__signature__ = Signature(parameters, return_annotation=made)
    call.__annotations__ = {
        **{name: plain[name] for name in options.__dataclass_fields__},
        "return": made,
    }
    lines = [f"    {option.name}: {option.meaning}" for option in options.declared()] + [
        f"    code: {CODE}"
    ]
    call.__doc__ = "\n".join([cleandoc(call.__doc__ or ""), "", "Args:", *lines])


def source(path: Source | None, work: Source, *kinds: str) -> Path:
    """The manifest a stage reads: the given one, a run also by its name, or the newest under the work folder.

    Raises FedcliError.
    """
    if path is not None:
        if not os.fspath(path):
            raise UsageError(
                "the path of the manifest is empty", "leave it out to use the newest under --work"
            )
        from . import named_runs  # numpy, which --help does not need

        named = "run" in kinds and named_runs.is_name(path)
        return named_runs.newest(path, Path(work)) if named else manifest.find(Path(path), *kinds)
    newest = last_used.newest(Path(work), *kinds)
    console.say(f"using {newest}")
    begun = [
        path
        for path in Path(work).glob("runs/*/settings.json")
        if not (path.parent / "run.json").exists()
    ]
    if "run" in kinds and (
        later := [path for path in begun if last_used.age(path) > last_used.age(newest)]
    ):
        folder = max(later, key=last_used.age).parent
        console.warn(
            f"{folder} has not finished and is left out; fedcli train --resume --out {folder} goes on"
        )
    return newest


def listed(given: Any) -> list[Any]:
    """One value, or several."""
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
