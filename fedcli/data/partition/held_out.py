"""A site that trains nothing and is tested on, leave-one-site-out; and sites that are left out
altogether.

All images of the site, those of the dataset's training and of its test part, are the partition's
test images. The test images of the other sites are in no part; `fedcli evaluate RUN --on DATASET`
scores them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from ... import console
from ...console import counted
from ...errors import FedcliError, UsageError, nearest
from ..manifest import Body
from ..pool import TEST, TRAIN, Pool
from .scheme import IMAGES, Dataset, Division, Scheme

UNUSED = 255  # in place of a part of the split
EVERY = "all"  # in a sweep: each site in turn


class HeldOutSite(NamedTuple):
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
    text: str,
    dividing: tuple[str, ...],
    dataset: Dataset,
    flag: str = "--hold-out",
) -> HeldOutSite:
    """The meaning of `--hold-out SITE` or ATTRIBUTE=VALUE. dividing: attributes that clients are
    made of.

    Raises UsageError.
    """
    attribute, value = _parts(text, dividing, dataset, flag)
    values = dataset["attributes"][attribute]
    if value not in values:
        value_hint = nearest(value, values)
        raise UsageError(f"{flag}: {attribute} is never {value!r}", value_hint)
    return HeldOutSite(attribute, value)


def left_out(
    texts: Sequence[str],
    scheme: Scheme,
    dataset: Dataset,
) -> list[HeldOutSite]:
    """The meaning of each `--without SITE`. Raises UsageError."""
    sites = []
    for text in texts:
        if scheme.whole and not _is_of_attribute(text, dataset):
            sites.append(HeldOutSite("", text))  # a client of a file
        else:
            attributes = getattr(scheme, "by", ())
            sites.append(held_out(text, attributes, dataset, "--without"))
    return sites


def _is_of_attribute(text: str, dataset: Dataset) -> bool:
    attributes = dataset["attributes"]
    name = text.partition("=")[0]
    return name in attributes or any(text in values for values in attributes.values())


def dropped(
    pool: Pool,
    division: Division | None,
    dataset: Dataset,
    sites: Sequence[HeldOutSite],
) -> tuple[Pool, list[Body]]:
    """The pool whose images of these sites are in no part, and how many each had.

    division: whose clients a site may be, where it has no attribute. Raises FedcliError,
        UsageError.
    """
    split = pool.split.copy()
    counts = []
    for site in sites:
        leaves = _images_of_site(pool, division, dataset, site)
        images = int((leaves & (split != UNUSED)).sum())
        if not images:
            raise FedcliError(f"--without {site.value}: it has no image", "leave it out")
        train_count = int((leaves & (split == TRAIN)).sum())
        test_count = int((leaves & (split == TEST)).sum())
        train = counted(train_count, *IMAGES)
        test = counted(test_count, "test image", "test images")
        console.say(f"without {site.value}: {train}, {test} left out")
        split[leaves] = UNUSED
        counts.append({**site.recorded, "images": images})
    if not (split == TRAIN).any():
        raise FedcliError("--without leaves no training image", "leave fewer sites out")
    return replace(pool, split=split), counts


def _images_of_site(
    pool: Pool, division: Division | None, dataset: Dataset, site: HeldOutSite
) -> ndarray:
    """bool [N]: the images of one site. Raises UsageError where there is no such client."""
    if site.attribute:
        index = dataset["attributes"][site.attribute].index(site.value)
        return pool.groups[site.attribute] == index
    assert division  # left_out() makes such a site for a scheme that divides the whole pool first
    return _only_of(site.value, division, len(pool.split))


def _only_of(client: str, division: Division, count: int) -> ndarray:
    """bool [N]: images that this client alone holds. Raises UsageError where there is no such
    client."""
    if client not in division.train:
        sentence = f"--without: no site or client is called {client!r}"
        raise UsageError(sentence, nearest(client, division.train))
    is_alone = np.zeros(count, bool)
    for parts in (division.train, division.test):
        is_alone[parts.get(client, [])] = True
    for parts in (division.train, division.test):
        for name, rows in parts.items():
            if name != client:
                is_alone[rows] = False
    return is_alone


def within(
    division: Division,
    pool: Pool,
    sites: Sequence[HeldOutSite],
) -> Division:
    """The division of what is still in a part of the pool, without the clients among `sites`.

    A client that had training images and has none left is no client.
    """
    clients_left_out = [site.value for site in sites if not site.attribute]
    train = {}
    test = {}
    for name, rows in division.train.items():
        train_rows = rows[pool.split[rows] == TRAIN]
        is_emptied = len(rows) and not len(train_rows)
        if is_emptied or name in clients_left_out:
            continue
        train[name] = train_rows
        if name in division.test:
            all_rows = np.union1d(division.test[name], rows)
            test[name] = all_rows[pool.split[all_rows] == TEST]
    return replace(division, train=train, test=test)


def sites(
    text: str,
    dividing: tuple[str, ...],
    dataset: Dataset,
) -> list[HeldOutSite]:
    """The meaning of `hold-out=all`, `hold-out=ATTRIBUTE=all` or a site in a sweep. Raises
    UsageError."""
    if text == EVERY:
        attribute = _attribute_of_sites(dividing, dataset, text)
        value = EVERY
    else:
        attribute, value = _parts(text, dividing, dataset)
    values = dataset["attributes"][attribute] if value == EVERY else [value]
    return [held_out(f"{attribute}={name}", dividing, dataset) for name in values]


def _parts(
    text: str,
    dividing: tuple[str, ...],
    dataset: Dataset,
    flag: str = "--hold-out",
) -> tuple[str, str]:
    """Attribute and value, which is one of what clients are made of, of the dataset's sites, or of
    any attribute."""
    attributes = dataset["attributes"]
    name, equals, value = text.partition("=")
    if equals and name in attributes:
        return name, value
    candidates = (*dividing, dataset["sites"])
    likely = [name for name in candidates if name in attributes]
    for name in (*likely, *attributes):
        if text in attributes[name]:
            return name, text
    return _attribute_of_sites(dividing, dataset, text, flag), text


def _attribute_of_sites(
    dividing: tuple[str, ...],
    dataset: Dataset,
    text: str,
    flag: str = "--hold-out",
) -> str:
    """The attribute that clients are made of, else the dataset's sites. Raises UsageError."""
    attributes = dataset["attributes"]
    for name in (*dividing, dataset["sites"]):
        if name in attributes:
            return name
    names = ", ".join(attributes) or "none"
    hint = f"write ATTRIBUTE=VALUE; its attributes: {names}"
    raise UsageError(f"{flag} {text}: {dataset['name']} names no sites", hint)


def only_tested(pool: Pool, dataset: Dataset, site: HeldOutSite) -> Pool:
    """The pool with the site's images as its test part, and the other test images in none.

    Raises FedcliError where the site has no image, or no other image is left to train on.
    """
    index = dataset["attributes"][site.attribute].index(site.value)
    is_of_site = pool.groups[site.attribute] == index  # [N]
    if not is_of_site.any():
        raise FedcliError(f"no image has {site.attribute} {site.value!r}", "hold out another site")
    split = np.where(pool.split == TEST, UNUSED, pool.split)
    split = np.where(is_of_site, TEST, split).astype(np.uint8)
    if not (split == TRAIN).any():
        sentence = f"without {site.value!r} there is no training image"
        raise FedcliError(sentence, "hold out another site")
    return replace(pool, split=split)
