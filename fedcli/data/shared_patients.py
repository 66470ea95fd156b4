"""Patients or lesions on both sides of a split: their count, made here alone, and the sentence that
tells a person.

A manifest's body has the count of its own images under KEY, where there is any. Validation images
are a part of the
training images: a patient of a test image who has validation images is counted too.

A site counts its own patients alone, and hides small counts (None); those of all sites together
have the counts of each under SITES.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import console
from . import manifest, units
from .pool import Holdings, Pool, Row, holdings

KEY = "shared_patients"  # of a manifest's body
SITES = "sites"  # of the entry of a federation: site -> part -> its count
NAMED = 4  # sites that a sentence names
AT_SITES = " at the same site"
HIDDEN = '; "some" is a number that is hidden by '
WORDS = {"test": "test", "val": "validation"}  # part -> its adjective
Shared = Mapping[str, Any]
Entry = dict[str, Any]  # KEY and its value, or nothing
Ids = Iterable[str]  # of the patient of each image


def noun_of(path: Path) -> str:
    """The noun of the ids of the dataset that a manifest is of, or was made from; of a run over
    sites, which name none, patients."""
    dataset = manifest.parent(path, "dataset")
    record = manifest.read(dataset or path)
    return units.noun(record.body.get("unit"))


def counted(unit: str | None, train: Ids, val: Ids, test: Ids) -> Entry:
    """The entry KEY of a body as a dictionary; an empty one where no patient is on both sides.

    unit: the name of the ids. train, val, test: the id of each image, "" where none is known.
    """
    parts = {}
    for part, count in _by_part(train, val, test).items():
        if count["shared"]:
            parts[part] = count
    if not parts:
        return {}
    return {KEY: {"unit": units.plural(units.noun(unit)), **parts}}


def _by_part(train: Ids, val: Ids, test: Ids) -> dict[str, dict[str, int]]:
    """The patients of each part who also have training images, and all of that part."""
    train_ids = set(train) - {""}
    val_ids = set(val) - {""}
    test_ids = set(test) - {""}
    shared_by_part = {"test": test_ids & (train_ids | val_ids), "val": val_ids & train_ids}
    totals = {"test": len(test_ids), "val": len(val_ids)}
    return {
        part: {"shared": len(shared), "of": totals[part]} for part, shared in shared_by_part.items()
    }


def of_rows(unit: str | None, rows: Iterable[Row]) -> Entry:
    """The entry of a dataset's rows, which have no validation images."""
    train = []
    test = []
    for row in rows:
        if row.test:
            test.append(row.patient)
        else:
            train.append(row.patient)
    return counted(unit, train, [], test)


def of_parts(unit: str | None, pool: Pool, rows: Mapping[str, Any]) -> Entry:
    """The entry of rows of a pool by part: train, val and test."""
    if pool.patient is None:
        return {}
    ids = {part: pool.patient[part_rows].tolist() for part, part_rows in rows.items()}
    return counted(unit, ids["train"], ids["val"], ids["test"])


def with_tests(unit: str | None, holdings: Holdings, tested: Ids) -> Entry:
    """The entry of images that clients hold and other test images. tested: the patient of each of
    the latter."""
    patient = holdings.pool.patient
    if patient is None:
        return {}
    rows: list[np.ndarray] = []
    for parts in holdings.rows.values():
        rows += [parts["train"], parts["val"]]
    return counted(unit, patient[np.concatenate(rows)].tolist(), [], tested)


def of_client(data: Path, client: str) -> Entry:
    """The entry of the images that one client of a partition or corruption holds; an empty one
    where no patient is known.
    """
    pool, rows, _ = holdings(data)
    if pool.patient is None:
        return {}
    ids = {part: pool.patient[part_rows].tolist() for part, part_rows in rows[client].items()}
    unit = manifest.read(manifest.above(data, "dataset")).body["unit"]
    return of_site(unit, ids["train"], ids["val"], ids["test"])


def of_site(unit: str | None, train: Ids, val: Ids, test: Ids) -> Entry:
    """The entry of a site, with the parts that share no patient; an empty one where no patient of a
    test or validation image is known.

    Arguments are those of counted().
    """
    parts = {}
    for part, count in _by_part(train, val, test).items():
        if count["of"]:
            parts[part] = count
    return {KEY: {"unit": units.plural(units.noun(unit)), **parts}} if parts else {}


def of_sites(entries: Mapping[str, Shared | None]) -> Entry:
    """The entry of several sites together; an empty one where no site shares a patient.

    entries: of each site; None where it knows no patient.
    """
    described = {site: entry for site, entry in entries.items() if entry}
    units = sorted({entry["unit"] for entry in described.values()})
    together: Entry = {}
    for part in WORDS:
        counts = [entry[part] for entry in described.values() if part in entry]
        if any(count["shared"] != 0 for count in counts):
            of_all = total([count["of"] for count in counts])
            if len(described) < len(entries):  # how many patients the others have is not known
                of_all = None
            together[part] = {"shared": total([count["shared"] for count in counts]), "of": of_all}
    if not together:
        return {}
    by_site: dict[str, Entry] = {}
    for site, entry in described.items():
        for part in together:
            if part in entry and entry[part]["shared"] != 0:
                by_site.setdefault(site, {})[part] = entry[part]
    return {KEY: {"unit": " or ".join(units), **together, SITES: by_site}}


def total(counts: Sequence[int | None]) -> int | None:
    """The sum of counts; None where one of them is hidden."""
    shown = [count for count in counts if count is not None]
    return sum(shown) if len(shown) == len(counts) else None


def sentence(shared: Shared | None) -> str:
    """A sentence about an entry KEY; "" without one, and where no patient is shared."""
    if not shared:
        return ""
    parts = [part for part in WORDS if part in shared and shared[part]["shared"] != 0]
    if not parts:
        return ""
    texts = []
    for part in parts:
        people = f"{_of_all(shared[part])} {WORDS[part]} {shared['unit']}"
        texts.append(f"{people}{_named(shared, part)}")
    is_one_patient = len(parts) == 1 and shared[parts[0]]["shared"] == 1
    verb = "has" if is_one_patient else "have"
    text = f"{console.listed(texts)} also {verb} training images"
    policy = "its policy"
    described = [shared]
    if SITES in shared:
        text += AT_SITES
        policy = "the sites' policies"
        described = [*shared[SITES].values()]
    counts = [entry[part] for entry in described for part in parts if part in entry]
    if any(None in count.values() for count in counts):
        text += f"{HIDDEN}{policy}"
    return text


def _of_all(count: Shared) -> str:
    """The numbers of a count in words: "3 of 28", or "some of 28" where the first is hidden."""
    shared = "some" if count["shared"] is None else f"{count['shared']:,}"
    return shared if count["of"] is None else f"{shared} of {count['of']:,}"


def _named(shared: Shared, part: str) -> str:
    """The counts of single sites in brackets; "" for images that are together."""
    by_site = {}
    for site, parts in shared.get(SITES, {}).items():
        if part in parts:
            by_site[site] = parts[part]
    texts = [f"{site}: {_of_all(count)}" for site, count in by_site.items()]
    if len(texts) > NAMED:
        texts[NAMED:] = [f"{len(texts) - NAMED} more sites"]
    return f" ({', '.join(texts)})" if texts else ""


def of_body(body: manifest.Body) -> str:
    """The sentence about a manifest's body; "" where no patient is on both sides."""
    return sentence(body.get(KEY))


def warn(path: Path, remedy: str = "") -> None:
    """Say the sentence about the manifest at this path, and behind it what would help; nothing
    without shared patients."""
    text = of_body(manifest.read(path, whole=True).body)
    if text:
        console.warn(text + remedy)
