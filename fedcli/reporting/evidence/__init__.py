"""Items of reporting guidelines, and which field of which manifest answers each.

An item is filled where a field of a manifest behind the scores answers it, which is named with the manifest's sha256;
whether that is enough for a reviewer is for a person to judge. All others say that a person must write them. Items are
paraphrased under their numbers: read the guideline itself before you submit.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
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
Guideline = dict[str, Any]  # as evidence.json has it
Source = tuple[
    str, str, Mapping[str, Any]
]  # a manifest's folder and file, or the dataset's card; sha256; content


def guidelines(path: Path, scores: Scores) -> list[Guideline]:
    """Every guideline, answered from the manifests behind a scores.json.

    guideline, source, filled: how many of its items are; items: item, asks, state, and answers, each a manifest, its
    sha256, the field in it, and its value where that is short.
    """
    sources, made = _sources(path, scores), []
    for guideline in tomllib.loads(ITEMS.read_text(encoding="utf-8"))["guideline"]:
        items = []
        for number, asks, fields in guideline["items"]:
            answers = [answer for field in fields for answer in _answers(field, sources)]
            state = "filled" if answers else PERSON
            items.append({"item": number, "asks": asks, "state": state, "answers": answers})
        filled = sum(bool(item["answers"]) for item in items)
        made.append(
            {
                "guideline": guideline["name"],
                "source": guideline["source"],
                "filled": filled,
                "items": items,
            }
        )
    return made


def as_json(made: list[Guideline]) -> str:
    """Stable JSON: equal manifests give equal bytes."""
    return json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def card_of(scores: Scores) -> dict[str, Any]:
    """The card of the dataset that fedcli has; {} of images of one's own, whose card is a person's."""
    try:
        return card(scores.dataset)
    except UsageError:
        return {}


def _sources(path: Path, scores: Scores) -> dict[str, Source]:
    """By kind: those above the scores, and the dataset's card where fedcli has one."""
    above = {kind: manifest.parent(path, kind) for kind in KINDS[:-1]}
    above |= {"scores": path, CLINICAL: with_operating_points(path)}
    made: dict[str, Source] = {}
    for kind, place in above.items():
        if place:
            content = asdict(manifest.read(place)) | (
                {"body": nested(scores)} if kind == "scores" else {}
            )
            made[kind] = f"{place.parent.name}/{place.name}", manifest.sha256(place), content
    if known := card_of(scores):
        digest = hashlib.sha256(
            json.dumps(known, sort_keys=True, ensure_ascii=False).encode()
        ).hexdigest()
        made["card"] = f"{scores.dataset}.json of fedcli", digest, known
    return made


def _answers(field: str, sources: Mapping[str, Source]) -> Iterator[dict[str, str]]:
    """The answer of a field such as run:body.rounds, where it has a value."""
    kind, _, path = field.partition(":")
    kind = CLINICAL if path.startswith("body.clinical") and CLINICAL in sources else kind
    if kind not in sources:
        return
    name, digest, content = sources[kind]
    if (value := _value(content, path)) not in (
        None,
        {},
        "",
        False,
    ):  # an empty list says that there are none
        text = json.dumps(value, sort_keys=True, ensure_ascii=False)
        yield {
            "manifest": name,
            "sha256": digest,
            "field": path,
            "value": text if len(text) <= SHORT else "",
        }


def _value(content: Any, path: str) -> Any:
    """The content at a dotted path; the name of a file may hold dots itself."""
    if not isinstance(content, Mapping):
        return None
    if path in content:
        return content[path]
    first, _, rest = path.partition(".")
    return _value(content.get(first), rest) if rest else None
