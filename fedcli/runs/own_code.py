"""Methods and networks from outside the package: what a run records of their code, and a run without it.

A file is run only where a command line names it. So an unfinished run is not resumed from its folder alone, and
`evaluate` asks for the file where the network cannot be built without it.
"""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import extensions, options
from ..data.manifest import Manifest
from ..errors import HashError, UsageError
from ..methods import Method, resolve
from ..methods.contract import Local
from ..methods.mixins import GroupViews
from ..models import outside
from ..provenance import LONG

Recorded = dict[str, dict[str, str]]  # half of a method, or network -> what Code.recorded says
DIGITS = 12  # of a sha256 in a sentence


def typed(name: str, code: Recorded) -> str:
    """A method, or a half of one, as a command line says it."""
    halves = name.split("+")
    files = [code.get(half, {}).get("file") for half in halves]
    return "+".join(
        f"{file}:{half}" if file else half for file, half in zip(files, halves, strict=True)
    )


def recorded(method: Method, model: str) -> Recorded:
    """Of every half of a method and of the network that are not fedcli's own."""
    code = dict(method.code)
    if own := outside.code_of(model):
        code |= {own[0]: replace(own[1], revision=outside.revision(model))}
    return {what: code[what].recorded for what in code}


def needed(method: Method, model: str) -> list[str]:
    """Without whose code the network of a run cannot be built or shown an image: a half of its method, its network."""
    base, local = method.name.split("+")[0], method.local
    builds = type(local).extend is not Local.extend or isinstance(local, GroupViews)
    own = outside.code_of(model)
    return [base] * (base in method.code and builds) + ([own[0]] if own and own[1].path else [])


def model_of(run: Manifest) -> str:
    """The network of a finished run, by the name under which it is built here. Raises UsageError, HashError."""
    name = run.body["model"]["name"]
    recorded = run.options.get("code", {}).get(name, {})
    if "file" in recorded:
        return f"{file_of(name, recorded)}:{name.rpartition(':')[2]}"
    return outside.pinned(name, recorded.get("revision", ""))


def method_of(run: Manifest) -> Method:
    """The method of a finished run as scoring needs it; where its code is not needed, plain clients stand for it.

    Raises UsageError for code that is needed and that no command line has given, HashError for another file.
    """
    body, code = run.body, run.options.get("code", {})
    base = body["method"].split("+")[0]
    if not code:
        return resolve(body["method"], body["settings"])
    if base in run.body.get("needs_code", []):
        named = f"{file_of(base, code[base])}:{base}" if "file" in code[base] else ""
        method = extensions.pick(named, "methods") if named else resolve(base)
    else:
        method = resolve("fedavg" if base in code else base)
    known = options.values(method.local)
    settings = {key.removeprefix("local."): value for key, value in body["settings"].items()}
    for key in known.keys() & settings.keys():
        method = replace(method, local=options.change(method.local, key, settings[key]))
    return replace(method, name=body["method"], label=body["label"])


def file_of(what: str, recorded: dict[str, str]) -> Path:
    """The file that the command names whose code a run recorded. Raises FedcliError, HashError."""
    name, digest = recorded["file"], recorded.get("sha256", "")
    files = extensions.files_named()
    if same := [path for path in files if extensions.digest(path) == digest]:
        return same[0]
    hint = f"give the file as it was (sha256 {digest[:DIGITS]}...): --code {name}"
    if other := [path for path in files if path.name == name]:
        raise HashError(f"{other[0]} is not the {name} that this run was trained with", hint)
    whose = what if ":" in what else f"{what} of {name}"
    raise UsageError(f"this was made with {whose}, which the command does not name", hint)


def opens_files(method: str, model: str) -> bool:
    """Tell whether a plan names a file of code, or a network whose description would be fetched."""
    return any(
        re.search(r"\.py($|[:+])|(^|:)(hf[-_]hub|local-dir):", name) for name in (method, model)
    )


def refuse_bare_resume(folder: Path, begun: dict[str, Any], command: list[str]) -> None:
    """Refuse to go on with a run whose code is in a file, which nobody has named. Raises UsageError."""
    if files := [code["file"] for code in begun.get("code", {}).values() if "file" in code]:
        line = shlex.join(["fedcli", *command, "--resume", "--out", str(folder)])
        what = (
            f"{folder} was begun with {files[0]}, and a file is run only where a command names it"
        )
        raise UsageError(
            what, line if len(line) <= 2 * LONG else "give the same command with --resume"
        )
