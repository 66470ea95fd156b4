"""What is made from a synthetic sample says so: in its folder's name, and by `sample: true` in its manifest."""

from pathlib import Path
from typing import Any

from . import manifest


def of_sample(parents: list[Path]) -> bool:
    """Whether one of these manifests was made from a synthetic sample."""
    return any(manifest.read(path).body.get("sample") for path in parents)


def titled(slug: str, parents: list[Path]) -> str:
    """The beginning of a folder's name."""
    return f"{slug[:70]}-SYNTHETIC" if of_sample(parents) else slug


def marked(body: dict[str, Any], parents: list[Path]) -> dict[str, Any]:
    """A manifest's body."""
    return body | ({"sample": True} if of_sample(parents) else {})
