"""Methods and networks from outside the package: the record of their code, and runs without it.

A file is run only where a command line names it. So an unfinished run is not resumed from its
folder alone, and `evaluate` asks for the file where the network cannot be built without it.
"""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import extensions, options
from ..data.manifest import Manifest
from ..errors import UsageError
from ..methods import Method, resolve
from ..methods.contract import Local
from ..methods.mixins import GroupViews
from ..models import outside
from ..provenance import LONG
from .recorded_code import file_of

Recorded = dict[str, dict[str, str]]  # half of a method, or network -> what Code.recorded says


def typed(name: str, code: Recorded) -> str:
    """A method, or a half of one, as a command line says it."""
    words = []
    for half in name.split("+"):
        file = code.get(half, {}).get("file")
        words.append(f"{file}:{half}" if file else half)
    return "+".join(words)


def recorded(method: Method, model: str) -> Recorded:
    """The record of the code of each half of a method and of the network that is not fedcli's."""
    code = dict(method.code)
    network_code = outside.code_of(model)
    if network_code:
        name, source = network_code
        code[name] = replace(source, revision=outside.revision(model))
    return {name: source.recorded for name, source in code.items()}


def needed(method: Method, model: str) -> list[str]:
    """The names of code without which a run's network cannot be built or shown an image.

    They are of a half of its method, and of its network.
    """
    names = []
    base = method.name.split("+")[0]
    local = method.local
    builds = type(local).extend is not Local.extend or isinstance(local, GroupViews)
    if builds and base in method.code:
        names.append(base)
    network_code = outside.code_of(model)
    if network_code:
        name, source = network_code
        if source.path:
            names.append(name)
    return names


def model_of(run: Manifest) -> str:
    """The name under which the network of a finished run is built. Raises UsageError, HashError."""
    name = run.body["model"]["name"]
    recorded = run.options.get("code", {}).get(name, {})
    if "file" in recorded:
        return f"{file_of(name, recorded)}:{name.rpartition(':')[2]}"
    return outside.pinned(name, recorded.get("revision", ""))


def method_of(run: Manifest) -> Method:
    """The method of a finished run as scoring needs it.

    Plain clients take its place where its code is not needed. Raises UsageError for code that is
    needed and that no command line has given, HashError for another file.
    """
    name = run.body["method"]
    settings = run.body["settings"]
    code = run.options.get("code", {})
    if not code:
        return resolve(name, settings)
    base = name.split("+")[0]
    method = _base_of(base, code, base in run.body.get("needs_code", []))
    local_options = options.values(method.local)
    for key, value in settings.items():
        option = key.removeprefix("local.")
        if option in local_options:
            method = replace(method, local=options.change(method.local, option, value))
    return replace(method, name=name, label=run.body["label"])


def _base_of(base: str, code: Recorded, is_needed: bool) -> Method:
    if not is_needed:
        return resolve("fedavg" if base in code else base)
    if "file" in code[base]:
        return extensions.pick(f"{file_of(base, code[base])}:{base}", "methods")
    return resolve(base)


def opens_files(method: str, model: str) -> bool:
    """Tell whether a plan names a file of code, or a network whose description would be fetched."""
    pattern = r"\.py($|[:+])|(^|:)(hf[-_]hub|local-dir):"
    return any(re.search(pattern, name) for name in (method, model))


def refuse_bare_resume(
    folder: Path,
    options: dict[str, Any],
    command: list[str],
) -> None:
    """Raise UsageError for an unfinished run whose code is in a file that no command names."""
    for code in options.get("code", {}).values():
        if "file" not in code:
            continue
        line = shlex.join(["fedcli", *command, "--resume", "--out", str(folder)])
        hint = line if len(line) <= 2 * LONG else "give the same command with --resume"
        raise UsageError(
            f"{folder} was begun with {code['file']}, and a file is run only where a command "
            "names it",
            hint,
        )
