"""Items of reporting guidelines, and which field of which manifest answers each.

An item is filled where a field of a manifest behind the scores answers it, which is named with the manifest's sha256;
whether that is enough for a reviewer is for a person to judge. All others say that a person must write them. Items are
paraphrased under their numbers: read the guideline itself before you submit.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...data import manifest
from ...data.sources import card
from ...errors import UsageError
from ...scores.existing import with_operating_points
from ...scores.nested import nested
from ...scores.scores import Scores

ITEMS = Path(__file__).parent / "items.toml"
PERSON = "a person must write this"
KINDS = "dataset", "partition", "corruption", "run", "scores"
CLINICAL = "clinical"  # scores that `evaluate --clinical` made of the same run, perhaps others than those reported
SHORT = 200  # characters of a value that is repeated; a longer one is read in the manifest


@dataclass(frozen=True)
class Answer:
    """A field that answers an item. manifest: its folder's name and file; value: "" where it is long."""

    manifest: str
    sha256: str
    field: str
    value: str


@dataclass(frozen=True)
class Item:
    """An item of a guideline with what answers it."""

    number: str
    asks: str
    answers: list[Answer]

    @property
    def filled(self) -> bool:
        return bool(self.answers)


@dataclass(frozen=True)
class Guideline:
    """A guideline and its items in order."""

    name: str
    source: str
    items: list[Item]

    @property
    def filled(self) -> int:
        return sum(item.filled for item in self.items)


@dataclass(frozen=True)
class _Source:
    """A source of answers: a manifest, or the card of the dataset."""

    name: str
    sha256: str
    content: Mapping[str, Any]


def guidelines(path: Path, scores: Scores) -> list[Guideline]:
    """Every guideline, answered from the manifests behind a scores.json."""
    sources = _sources(path, scores)
    known = tomllib.loads(ITEMS.read_text(encoding="utf-8"))["guideline"]
    return [
        Guideline(
            each["name"], each["source"],
            [Item(number, asks, list(_answers(fields, sources))) for number, asks, fields in each["items"]],
        )
        for each in known
    ]  # fmt: skip


def as_json(made: list[Guideline]) -> str:
    """Stable JSON: equal manifests give equal bytes."""
    body = [
        {
            "guideline": each.name, "source": each.source, "filled": each.filled, "items": [
                {"item": item.number, "asks": item.asks, "state": "filled" if item.filled else PERSON,
                 "answers": [asdict(answer) for answer in item.answers]}
                for item in each.items
            ],
        }
        for each in made
    ]  # fmt: skip
    return json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _sources(path: Path, scores: Scores) -> dict[str, _Source]:
    """By kind: those above the scores, and the dataset's card where fedcli has one."""
    above = {kind: manifest.parent(path, kind) for kind in KINDS[:-1]} | {"scores": path}
    above[CLINICAL] = with_operating_points(path)
    made = {
        kind: _Source(f"{place.parent.name}/{place.name}", manifest.sha256(place), asdict(manifest.read(place)))
        for kind, place in above.items()
        if place
    }
    made["scores"].content["body"] = nested(scores)
    try:
        known = card(scores.dataset)
    except UsageError:  # images of one's own, whose card is a person's
        return made
    text = json.dumps(known, sort_keys=True, ensure_ascii=False)
    return made | {
        "card": _Source(f"{scores.dataset}.json of fedcli", hashlib.sha256(text.encode()).hexdigest(), known)
    }


def _answers(fields: list[str], sources: Mapping[str, _Source]) -> Iterator[Answer]:
    for field in fields:
        kind, _, path = field.partition(":")
        kind = CLINICAL if path.startswith("body.clinical") and CLINICAL in sources else kind
        value = _value(sources[kind].content, path) if kind in sources else None
        if kind in sources and value not in (None, {}, "", False):  # an empty list says that there are none
            text = json.dumps(value, sort_keys=True, ensure_ascii=False)
            short = text if len(text) <= SHORT else ""
            yield Answer(sources[kind].name, sources[kind].sha256, path, short)


def _value(content: Any, path: str) -> Any:
    """The content at a dotted path; the name of a file may hold dots itself."""
    if not isinstance(content, Mapping):
        return None
    if path in content:
        return content[path]
    first, _, rest = path.partition(".")
    return _value(content.get(first), rest) if rest else None
