"""The cards that come with fedcli: what a person should know of a dataset, a JSON file each."""

import json
from pathlib import Path
from typing import Any

import fedcli

from ...errors import FedcliError

_PACKAGE = Path(fedcli.__file__).parent
_FOLDERS = _PACKAGE / "data_manifests", _PACKAGE.parent / "data_manifests"  # installed, or in a checkout


def read(name: str) -> dict[str, Any]:
    """A dataset's card: title, classes, attributes, files expected, licence, defaults. Raises FedcliError."""
    for folder in _FOLDERS:
        if (path := folder / f"{name}.json").is_file():
            return json.loads(path.read_text(encoding="utf-8"))
    raise FedcliError(f"the card {name}.json is missing from {_FOLDERS[0]}", "install fedcli again")


def defaults(card: dict[str, Any]) -> dict[str, str]:
    """The dataset's own options with their usual values."""
    return {key: about["default"] for key, about in sorted(card.get("options", {}).items())}
