"""Code from outside the package that a manifest records, taken from the command that names it."""

from pathlib import Path

from .. import extensions
from ..data.corruption import kinds as corruptions
from ..data.manifest import Manifest
from ..errors import HashError, UsageError

DIGITS = 12  # of a sha256 in a sentence


def file_of(name: str, recorded: dict[str, str]) -> Path:
    """The file that the command names whose code a run recorded. Raises FedcliError, HashError.

    name: of the method or network.
    """
    file_name = recorded["file"]
    digest = recorded.get("sha256", "")
    hint = f"give the file as it was (sha256 {digest[:DIGITS]}...): --code {file_name}"
    paths = extensions.files_named()
    for path in paths:
        if extensions.digest(path) == digest:
            return path
    for path in paths:
        if path.name == file_name:
            raise HashError(f"{path} is not the {file_name} that this run was trained with", hint)
    owner = name if ":" in name else f"{name} of {file_name}"
    raise UsageError(f"this was made with {owner}, which the command does not name", hint)


def load_corruptions(data: Manifest) -> None:
    """Load the corruptions from outside the package by which images were changed.

    Raises UsageError for code that no command line has given, HashError for another file.
    """
    codes = data.options.get("code", {}) if data.kind == "corruption" else {}
    for name, recorded in codes.items():
        if "file" in recorded:
            corruptions.named(f"{file_of(name, recorded)}:{name}")
        else:
            corruptions.named(name)
