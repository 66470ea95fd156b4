"""A site that trains nothing and is tested on, leave-one-site-out; and sites that are left out altogether.

All images of the site, those of the dataset's training and of its test part, are the partition's test images. The test
images of the other sites are in no part; `fedcli evaluate RUN --on DATASET` scores them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ... import console
from ...console import counted
from ...errors import FedcliError, UsageError, nearest
from ..pool import TEST, TRAIN, Pool
from .scheme import IMAGES, Division, Scheme

UNUSED = 255  # in place of a part of the split
EVERY = "all"  # in a sweep: each site in turn


class Site(NamedTuple):
    """The images of one value of an attribute, or, where that is "", of a client of a file."""

    attribute: str
    value: str

    @property
    def recorded(self) -> dict[str, str | None]:
        return {"attribute": self.attribute or None, "value": self.value}


@dataclass(frozen=True)
class Leaving:
    """Sites that train nothing, as SITE or ATTRIBUTE=VALUE."""

    hold_out: str | None = None  # its images are the test images
    without: Sequence[str] = ()  # their images are in no part; they may be clients of a file


ALL_STAY = Leaving()


def held_out(
    text: str, by: tuple[str, ...], dataset: dict[str, Any], flag: str = "--hold-out"
) -> Site:
    """The meaning of `--hold-out SITE` or ATTRIBUTE=VALUE. by: attributes that clients are made of.

    Raises UsageError.
    """
    attribute, value = _parts(text, by, dataset, flag)
    if value not in dataset["attributes"][attribute]:
        raise UsageError(
            f"{flag}: {attribute} is never {value!r}",
            nearest(value, dataset["attributes"][attribute]),
        )
    return Site(attribute, value)


def left_out(texts: Sequence[str], scheme: Scheme, dataset: dict[str, Any]) -> list[Site]:
    """The meaning of each `--without SITE`. Raises UsageError."""
    attributes, found = dataset["attributes"], []
    for text in texts:
        known = text.partition("=")[0] in attributes or any(
            text in values for values in attributes.values()
        )
        of_file, by = scheme.whole and not known, getattr(scheme, "by", ())
        found.append(Site("", text) if of_file else held_out(text, by, dataset, "--without"))
    return found


def dropped(
    pool: Pool, division: Division | None, dataset: dict[str, Any], sites: Sequence[Site]
) -> tuple[Pool, list[dict[str, Any]]]:
    """The pool whose images of these sites are in no part, and how many each had.

    division: whose clients a site may be, where it has no attribute. Raises FedcliError, UsageError.
    """
    split, counts = pool.split.copy(), []
    for site in sites:
        attribute, value = site
        if attribute:
            there = pool.groups[attribute] == dataset["attributes"][attribute].index(value)  # [N]
        else:
            assert (
                division
            )  # left_out() finds such a site for a scheme that divides the whole pool first
            there = _only_of(value, division, len(split))
        images = int((there & (split != UNUSED)).sum())
        if not images:
            raise FedcliError(f"--without {value}: it has no image", "leave it out")
        train, test = (int((there & (split == part)).sum()) for part in (TRAIN, TEST))
        console.say(
            f"without {value}: {counted(train, *IMAGES)}, {counted(test, 'test image', 'test images')} left out"
        )
        split[there] = UNUSED
        counts.append({**site.recorded, "images": images})
    if not (split == TRAIN).any():
        raise FedcliError("--without leaves no training image", "leave fewer sites out")
    return replace(pool, split=split), counts


def _only_of(client: str, division: Division, count: int) -> np.ndarray:
    """bool [N]: images that this client alone holds. Raises UsageError where there is no such client."""
    if client not in division.train:
        raise UsageError(
            f"--without: no site or client is called {client!r}", nearest(client, division.train)
        )
    there = np.zeros(count, bool)
    for parts in (division.train, division.test):
        there[parts.get(client, [])] = True
    for parts in (division.train, division.test):
        for name, rows in parts.items():
            there[rows] &= name == client
    return there


def within(division: Division, pool: Pool, sites: Sequence[Site]) -> Division:
    """The division of what is still in a part of the pool, without the clients among `sites`.

    A client that had training images and has none left is no client.
    """
    train = {name: rows[pool.split[rows] == TRAIN] for name, rows in division.train.items()}
    every = {name: np.union1d(rows, division.train[name]) for name, rows in division.test.items()}
    test = {name: rows[pool.split[rows] == TEST] for name, rows in every.items()}
    gone = {name for name, rows in train.items() if not len(rows) and len(division.train[name])}
    gone |= {value for attribute, value in sites if not attribute}
    train = {name: rows for name, rows in train.items() if name not in gone}
    return replace(
        division, train=train, test={name: rows for name, rows in test.items() if name not in gone}
    )


def sites(text: str, by: tuple[str, ...], dataset: dict[str, Any]) -> list[Site]:
    """The meaning of `hold-out=all`, `hold-out=ATTRIBUTE=all` or a site in a sweep. Raises UsageError."""
    attribute, value = _parts(text, by, dataset)
    values = dataset["attributes"][attribute] if value == EVERY else [value]
    return [held_out(f"{attribute}={each}", by, dataset) for each in values]


def _parts(
    text: str, by: tuple[str, ...], dataset: dict[str, Any], flag: str = "--hold-out"
) -> tuple[str, str]:
    """Attribute and value, which is one of what clients are made of, of the dataset's sites, or of any attribute."""
    attributes = dataset["attributes"]
    name, equals, value = text.partition("=")
    if equals and name in attributes:
        return name, value
    likely = [name for name in (*by, dataset["sites"]) if name in attributes]
    having = [name for name in (*likely, *attributes) if text in attributes[name]]
    if not (likely or having):
        hint = f"write ATTRIBUTE=VALUE; its attributes: {', '.join(attributes) or 'none'}"
        raise UsageError(f"{flag} {text}: {dataset['name']} names no sites", hint)
    return (likely if text == EVERY else [*having, *likely])[0], text


def only_tested(pool: Pool, dataset: dict[str, Any], site: Site) -> Pool:
    """The pool with the site's images as its test part, and the other test images in none.

    Raises FedcliError where the site has no image, or no other image is left to train on.
    """
    there = pool.groups[site.attribute] == dataset["attributes"][site.attribute].index(
        site.value
    )  # [N]
    if not there.any():
        raise FedcliError(f"no image has {site.attribute} {site.value!r}", "hold out another site")
    split = np.where(there, TEST, np.where(pool.split == TEST, UNUSED, pool.split)).astype(np.uint8)
    if not (split == TRAIN).any():
        raise FedcliError(
            f"without {site.value!r} there is no training image", "hold out another site"
        )
    return replace(pool, split=split)
