"""A site that trains nothing and is tested on: leave-one-site-out.

All images of the site, those of the dataset's training and of its test part, are the partition's test images. The test
images of the other sites are in no part; `fedcli evaluate RUN --on DATASET` scores them.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import console
from ...console import counted
from ...errors import FedcliError, UsageError, nearest
from ..pool import TEST, TRAIN, Pool

UNUSED = 255  # in place of a part of the split
EVERY = "all"  # in a sweep: each site in turn


@dataclass(frozen=True)
class HeldOut:
    """The images of one value of an attribute."""

    attribute: str
    value: str

    @property
    def recorded(self) -> dict[str, str]:
        return {"attribute": self.attribute, "value": self.value}


def held_out(text: str, by: tuple[str, ...], dataset: dict[str, Any]) -> HeldOut:
    """The meaning of `--hold-out SITE` or ATTRIBUTE=VALUE. by: attributes that clients are made of.

    Raises UsageError.
    """
    attribute, value = _parts(text, by, dataset)
    if value not in dataset["attributes"][attribute]:
        raise UsageError(
            f"--hold-out: {attribute} is never {value!r}", nearest(value, dataset["attributes"][attribute])
        )
    return HeldOut(attribute, value)


def sites(text: str, by: tuple[str, ...], dataset: dict[str, Any]) -> list[HeldOut]:
    """The meaning of `hold-out=all`, `hold-out=ATTRIBUTE=all` or a site in a sweep. Raises UsageError."""
    attribute, value = _parts(text, by, dataset)
    values = dataset["attributes"][attribute] if value == EVERY else [value]
    return [held_out(f"{attribute}={each}", by, dataset) for each in values]


def _parts(text: str, by: tuple[str, ...], dataset: dict[str, Any]) -> tuple[str, str]:
    """Attribute and value, which is one of what clients are made of, of the dataset's sites, or of any attribute."""
    attributes = dataset["attributes"]
    name, equals, value = text.partition("=")
    if equals and name in attributes:
        return name, value
    likely = [name for name in (*by, dataset["sites"]) if name in attributes]
    having = [name for name in (*likely, *attributes) if text in attributes[name]]
    if not (likely or having):
        hint = f"write ATTRIBUTE=VALUE; its attributes: {', '.join(attributes) or 'none'}"
        raise UsageError(f"--hold-out {text}: {dataset['name']} names no sites", hint)
    return (likely if text == EVERY else [*having, *likely])[0], text


def without(pool: Pool, dataset: dict[str, Any], site: HeldOut) -> Pool:
    """The pool with the site's images as its test part, and the other test images in none.

    Raises FedcliError where the site has no image, or no other image is left to train on.
    """
    there = pool.groups[site.attribute] == dataset["attributes"][site.attribute].index(site.value)  # [N]
    if not there.any():
        raise FedcliError(f"no image has {site.attribute} {site.value!r}", "hold out another site")
    split = np.where(there, TEST, np.where(pool.split == TEST, UNUSED, pool.split)).astype(np.uint8)
    if not (split == TRAIN).any():
        raise FedcliError(f"without {site.value!r} there is no training image", "hold out another site")
    both = set() if pool.patient is None else {*pool.patient[there]} & {*pool.patient[split == TRAIN]} - {""}
    if both:
        patients = counted(len(both), "patient or lesion has", "patients or lesions have")
        console.warn(f"{patients} images both at {site.value} and at sites that train")
    return replace(pool, split=split)
