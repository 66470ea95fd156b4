"""A stage as Python calls it: the options as arguments, checked as they are on the command line."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast, get_type_hints

from .. import console, extensions
from ..data import last_used, manifest
from ..errors import UsageError
from ..extensions import CODE
from ..options import Options, Source, describe, path_of

Arguments = ParamSpec("Arguments")
OptionsOfStage = TypeVar("OptionsOfStage", bound=Options)
ResultOfStage = TypeVar("ResultOfStage")


def called_with(
    name: str,
    options: Callable[Arguments, OptionsOfStage],
    run: Callable[[OptionsOfStage], ResultOfStage],
) -> Callable[Arguments, ResultOfStage]:
    """The function `name`: run() with the fields of its options as arguments, as on the command
    line or by name.

    It also takes code=, and may run what its arguments name, as the command line may.
    """
    fields = signature(options)
    options_of_stage = cast(type[Options], options)

    @wraps(run)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> ResultOfStage:
        code: Any = kwargs.pop("code", ())
        try:
            arguments = fields.bind(*args, **kwargs)
        except TypeError as error:
            form = _form(name, options_of_stage)
            raise TypeError(f"fedcli.{name}() {error}; call it as {form}") from None
        texts = _texts([code, *arguments.arguments.values()])
        with console.watched(), extensions.allowed(texts):
            return run(options(*arguments.args, **arguments.kwargs))

    call.__name__ = name
    call.__qualname__ = name
    _describe(call, options_of_stage, get_type_hints(run)["return"])
    return call


def _form(name: str, options: type[Options]) -> str:
    """The form of a call, such as "fedcli.compare([runs, ...], by=...)"; where a list is taken, as
    one.
    """
    arguments = []
    keywords = []
    for option in describe(options).values():
        if not option.flag.argument:
            keywords.append(f"{option.name}=...")
        elif option.shape == "several":
            arguments.append(f"[{option.name}, ...]")
        else:
            arguments.append(option.name)
    return f"fedcli.{name}({', '.join(arguments + keywords[:1])})"


def _texts(values: Iterable[Any]) -> Iterator[str]:
    """The texts and paths among arguments, and within their lists and tables."""
    for value in values:
        if isinstance(value, str | os.PathLike):
            yield str(value)
        elif isinstance(value, Mapping):
            yield from _texts(value.values())
        elif isinstance(value, Sequence):
            yield from _texts(value)


def _describe(call: Any, options: type[Options], result: Any) -> None:
    """Give a function the signature and the words that help() and notebooks show."""
    types = get_type_hints(options)
    parameters = [
        parameter.replace(annotation=types[parameter.name])
        for parameter in signature(options).parameters.values()
    ]
    code = Parameter(
        "code",
        Parameter.KEYWORD_ONLY,
        default=(),
        annotation=Sequence[Source],
    )
    call.__signature__ = Signature([*parameters, code], return_annotation=result)
    annotations = {name: types[name] for name in options.__dataclass_fields__}
    call.__annotations__ = annotations | {"return": result}
    lines = [cleandoc(call.__doc__ or ""), "", "Args:"]
    lines += [f"    {option.name}: {option.meaning}" for option in options.declared()]
    lines.append(f"    code: {CODE}")
    call.__doc__ = "\n".join(lines)


def destination(options: Any, always: Sequence[str] = ()) -> manifest.Destination:
    """The place that a stage's options give its result, and the command that the manifest records.

    always: flags that the command says even where they have their default.
    """
    made_by = options.made_by(always)
    return manifest.Destination(
        Path(options.work),
        path_of(options.out),
        made_by,
    )


def source(path: Source | None, work: Source, *kinds: str) -> Path:
    """The manifest a stage reads: the given one, a run also by its name, or the newest under the
    work folder.

    Raises FedcliError.
    """
    work = Path(work)
    if path is None:
        newest = last_used.newest(work, *kinds)
        console.say(f"using {newest}")
        unfinished = last_used.unfinished(work / "runs")
        if "run" in kinds and unfinished:
            _warn_of_unfinished(unfinished[-1], newest)
        return newest
    if not os.fspath(path):
        hint = "leave it out to use the newest under --work"
        raise UsageError("the path of the manifest is empty", hint)
    from . import named_runs  # numpy, which --help does not need

    if "run" in kinds and named_runs.is_name(path):
        return named_runs.newest(path, work)
    return manifest.find(Path(path), *kinds)


def _warn_of_unfinished(settings: Path, run: Path) -> None:
    """Warn of a run that has begun later than this one and has not finished."""
    if last_used.age(settings) > last_used.age(run):
        folder = settings.parent
        console.warn(f"{folder} has not finished and is left out; {manifest.next_step(folder)}")


def listed(value: Any) -> list[Any]:
    """One value, or several, as a list."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return [value]
