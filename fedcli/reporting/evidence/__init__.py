"""Items of reporting guidelines, and which field of which manifest is material for each.

There is material for an item where a field of a manifest behind the scores has a value, which is
quoted with the manifest's sha256; whether that is enough for a reviewer is for a person to judge.
An item that asks for several things is half where some of them have none. Values that say nothing,
such as "none", an empty object or a dataset's "your own folder", are no material. All others say
that a person must write them. Items are paraphrased under their numbers: read the guideline itself
before you submit.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...data import manifest
from ...runs.train_options import used
from ...scores.existing import with_operating_points
from ...scores.nested import nested
from ...scores.scores import RunScores
from ..dataset_card import card_of, is_placeholder

ITEMS = Path(__file__).parent / "items.toml"
PERSON = "a person must write this"
MATERIAL, HALF = "there is material", "half"
KINDS = "dataset", "partition", "corruption", "run", "scores"
# scores that `evaluate --clinical` made of the same run, perhaps others than those reported
CLINICAL = "clinical"
SHORT = 200  # characters of a value that is quoted; of a longer one its parts are named
AGAINST = "!"  # before a field whose value speaks against what is asked
NOTHING = "none", "off", ""
Guideline = dict[str, Any]  # as evidence.json has it
Item = dict[str, Any]
# a manifest's folder and file, or the dataset's card; its sha256; its content
Source = tuple[str, str, Mapping[str, Any]]
Sources = dict[str, Source]  # by kind of manifest


def guidelines(path: Path, scores: RunScores) -> list[Guideline]:
    """Every guideline, answered from the manifests behind a scores.json.

    guideline, source; material and half: how many of its items have it; items: item, asks, state,
    without (the parts of the item that have no material), and answers, each a manifest, its sha256,
    the field in it, and its value.
    """
    sources = _sources(path, scores)
    answered = []
    for guideline in tomllib.loads(ITEMS.read_text(encoding="utf-8"))["guideline"]:
        items = [
            _item(number, asks, fields, sources) for number, asks, fields in guideline["items"]
        ]
        states = [item["state"] for item in items]
        answered.append(
            {
                "guideline": guideline["name"],
                "source": guideline["source"],
                "material": states.count(MATERIAL),
                "half": states.count(HALF),
                "items": items,
            }
        )
    return answered


def _item(
    number: str,
    asks: str,
    fields: Sequence[Any],
    sources: Sources,
) -> Item:
    """One item with its state. fields: of the whole item, or of each of its parts after the part's
    name.
    """
    answers: list[dict[str, str]] = []
    without = []
    for name, part in parts_of(fields):
        against = _answers_of([field[1:] for field in part if field[0] == AGAINST], sources)
        answers_of_part = _answers_of([field for field in part if field[0] != AGAINST], sources)
        answers += [answer for answer in answers_of_part + against if answer not in answers]
        if against or not answers_of_part:
            without.append(name)
    state = PERSON
    if len(without) < len(parts_of(fields)):
        state = HALF if without else MATERIAL
    missing = without if state == HALF else []
    return {
        "item": number,
        "asks": asks,
        "state": state,
        "without": missing,
        "answers": answers,
    }


def _answers_of(fields: Sequence[str], sources: Sources) -> list[dict[str, str]]:
    return [answer for field in fields for answer in _answers(field, sources)]


def parts_of(fields: Sequence[Any]) -> list[tuple[str, list[str]]]:
    """The parts of an item with their fields; an item of one part has no name for it."""
    if all(isinstance(field, str) for field in fields):
        return [("", list(fields))]
    return [(name, part) for name, part in fields]


def as_json(answered: list[Guideline]) -> str:
    """Stable JSON: equal manifests give equal bytes."""
    return json.dumps(answered, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _sources(path: Path, scores: RunScores) -> Sources:
    """By kind: those above the scores, and the dataset's card where fedcli has one."""
    above = {kind: manifest.parent(path, kind) for kind in KINDS[:-1]}
    above |= {"scores": path, CLINICAL: with_operating_points(path)}
    sources: Sources = {}
    for kind, file in above.items():
        if file:
            content = asdict(manifest.read(file))
            if kind == "scores":
                content["body"] = nested(scores)
            if kind == "run":
                content["options"] = used(content["options"])
            sources[kind] = f"{file.parent.name}/{file.name}", manifest.sha256(file), content
    facts = card_of(scores)
    if facts:
        text = json.dumps(facts, sort_keys=True, ensure_ascii=False)
        digest = hashlib.sha256(text.encode()).hexdigest()
        sources["card"] = f"{scores.dataset}.json of fedcli", digest, facts
    return sources


def _answers(field: str, sources: Sources) -> Iterator[dict[str, str]]:
    """The answer of a field such as run:body.rounds, where it has a value that says something."""
    kind, _, path = field.partition(":")
    if path.startswith("body.clinical") and CLINICAL in sources:
        kind = CLINICAL
    if kind not in sources:
        return
    name, digest, content = sources[kind]
    value = _value(content, path)
    if says_something(value):
        yield {"manifest": name, "sha256": digest, "field": path, "value": quoted(value)}


def says_something(value: Any) -> bool:
    """Tell whether a value is a fact: no placeholder, and an object only if something in it is."""
    if isinstance(value, Mapping):
        return any(says_something(inner) for inner in value.values())
    if isinstance(value, str):
        return value not in NOTHING and not is_placeholder(value)
    return value is not None and value is not False  # an empty list says that there are none


def quoted(value: Any) -> str:
    """A value as text: whole where it is short, else how many parts it has, with the names of the
    first.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(text) <= SHORT:
        return text
    if isinstance(value, Mapping):
        names = ", ".join(name for name in sorted(value) if says_something(value[name]))
        return _cut(f"{len(value)} entries: {names}")
    if isinstance(value, list):
        return _cut(f"{len(value)} entries: {text}")
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[: SHORT - 4]} ..."


def _value(content: Any, path: str) -> Any:
    """The content at a dotted path; the name of a file may hold dots itself.

    A * in the path is every name, of which those are left out whose content is empty.
    """
    if not isinstance(content, Mapping):
        return None
    if path in content:
        return content[path]
    key, _, rest = path.partition(".")
    if key == "*":
        values = {name: _value(inner, rest) for name, inner in content.items()}
        return {name: value for name, value in values.items() if value}
    return _value(content.get(key), rest) if rest else None
