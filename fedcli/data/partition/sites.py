"""Clients made from an attribute of the images: natural sites, shares of each value, and FedHEAL's domains.

by       One client per value, or per pair of values.
shares   A table of which part of each attribute value's images a client gets, class by class: how we read the skin-tone
         clients of Fed-MAS, whose files are not public.
domains  FedHEAL (arXiv 2405.16585): clients divided evenly among the domains, each with the same portion of its domain
         and no image twice. From its released code: a client that misses a class gets one image of it from the whole
         domain, perhaps another client's too, in place of a spare one.
of-each  Each dataset of a merged one divided among clients of its own, who train and are tested on images of no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from ...console import counted
from ...errors import FedcliError, UsageError, nearest
from ..pool import TEST, TRAIN, Pool
from .held_out import UNUSED
from .scheme import Counted, Division, Images, Scheme, by_owner, cut, register

UNKNOWN = "has an unknown attribute", "have an unknown attribute"


def check_attributes(
    by: tuple[str, ...], attributes: Mapping[str, list[str]], *, only_one: bool
) -> None:
    """Raises UsageError for attributes that the dataset does not have, or for too few or too many of them."""
    if not by or (only_one and len(by) > 1):
        needed = "exactly one attribute" if only_one else "an attribute"
        raise UsageError(
            f"this scheme needs {needed} to divide by", f"--by {next(iter(attributes), 'sex')}"
        )
    for name in by:
        if name not in attributes:
            raise UsageError(f"the dataset has no attribute {name!r}", nearest(name, attributes))


def sites_of(
    groups: Mapping[str, np.ndarray], attributes: Mapping[str, list[str]], by: tuple[str, ...]
) -> tuple[np.ndarray, list[str]]:
    """Each image's site [N], -1 where an attribute is unknown, and the names of all possible sites."""
    sites, names = np.zeros(1, np.int64), [""]
    for attribute in by:
        values, column = attributes[attribute], groups[attribute]
        sites = np.where((sites < 0) | (column < 0), -1, sites * len(values) + column)
        names = [f"{name}+{value}" if name else value for name in names for value in values]
    return sites, names


def known_sites(images: Images, by: tuple[str, ...]) -> tuple[np.ndarray, list[str]]:
    """Sites as sites_of() gives them. Raises FedcliError where no image has a known one."""
    sites, names = sites_of(images.groups, images.attributes, by)
    if not (sites >= 0).any():
        raise FedcliError(
            f"no training image has a known {' and '.join(by)}", "divide by another attribute"
        )
    return sites, names


@register("by")
@dataclass(frozen=True, kw_only=True)
class By(Scheme):
    """One client per value of an attribute, such as its hospital; sites without training images are left out."""

    left_over: ClassVar[tuple[str, str]] = UNKNOWN
    by: Annotated[tuple[str, ...], "attributes whose values name the sites"]

    def check(self, dataset: Mapping[str, Any]) -> None:
        check_attributes(self.by, dataset["attributes"], only_one=False)

    def assign(self, images: Images) -> dict[str, np.ndarray]:
        sites, names = known_sites(images, self.by)
        return {
            name: part
            for name, part in zip(names, by_owner(sites, len(names)), strict=True)
            if len(part)
        }

    def divide(self, pool: Pool, dataset: Mapping[str, Any], seed: int, minimum: int) -> Division:
        division = super().divide(pool, dataset, seed, minimum)
        return replace(
            division,
            test=_own_tests(pool, dataset, self.by, {name: name for name in division.train}),
        )

    def advice(self) -> str:
        return "another attribute for --by"


@register("shares")
@dataclass(frozen=True, kw_only=True)
class Shares(Counted):
    """A given part of the images of each value of an attribute for each client."""

    left_over: ClassVar[tuple[str, str]] = UNKNOWN
    by: Annotated[tuple[str, ...], "the one attribute that the shares are about"]
    shares: Annotated[
        str,
        "rows such as 0.9,0.1;0.1,0.9: which part of each value's images the row's clients get together, so columns "
        "sum to 1; clients are divided evenly among the rows; a single row stands for all its rotations",
    ] = ""

    def check(self, dataset: Mapping[str, Any]) -> None:
        check_attributes(self.by, dataset["attributes"], only_one=True)
        self.rows(dataset["attributes"])

    def recorded(self, dataset: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().recorded(dataset), "shares": self.rows(dataset["attributes"])}

    def rows(self, attributes: Mapping[str, list[str]]) -> list[list[float]]:
        """Rows of shares, one column per attribute value. Raises UsageError."""
        texts, values, clients = (
            [row for row in self.shares.split(";") if row],
            attributes[self.by[0]],
            self.clients,
        )
        example = "such as --shares 0.9,0.1 --shares 0.1,0.9 for two values"
        hint = f"give one number per value ({', '.join(values)}), {example}"
        try:
            rows = [[float(number) for number in text.split(",")] for text in texts]
        except ValueError:
            rows = []
        if {len(row) for row in rows} != {len(values)}:
            given = " and ".join(texts) or "missing"
            raise UsageError(
                f"--shares is {given}: expected rows of {counted(len(values), 'number', 'numbers')}",
                hint,
            )
        if len(rows) == 1:
            rows = [rows[0][-turn:] + rows[0][:-turn] for turn in range(len(values))]
        for value, column in zip(values, zip(*rows, strict=True), strict=True):
            if not min(column) >= 0 or abs(sum(column) - 1) > 1e-6:
                given = ", ".join(map(str, column))
                raise UsageError(
                    f"the shares of {value!r} are {given}: they must be at least 0 and sum to 1",
                    hint,
                )
        if clients < len(rows):
            given = counted(clients, "client", "clients")
            raise UsageError(
                f"{given} for {len(rows)} rows of shares", f"give --clients {len(rows)} or more"
            )
        return rows

    def owners(self, images: Images) -> np.ndarray:
        """Each share of a value's images is kept in every class."""
        sites, _ = known_sites(images, self.by)
        rows = np.array(self.rows(images.attributes))
        group = np.arange(self.clients) * len(rows) // self.clients  # [K]
        shares = rows[group] / np.bincount(group)[group, None]  # [K, V] columns sum to one
        owner, rng = np.full(len(images), -1, np.int64), images.rng
        for value, column in enumerate(shares.T):
            for label in np.unique(images.y):
                cell = rng.permutation(np.flatnonzero((sites == value) & (images.y == label)))
                owner[cell] = cut(column, len(cell), rng)
        return owner


@register("domains")
@dataclass(frozen=True, kw_only=True)
class Domains(Counted):
    """FedHEAL's clients: evenly over the domains, each with the same portion of its own."""

    by: Annotated[tuple[str, ...], "the one attribute whose values are the domains"]
    portion: Annotated[float, "share of its domain's images that each client draws, in (0, 1]"] = (
        0.1
    )

    def check(self, dataset: Mapping[str, Any]) -> None:
        check_attributes(self.by, dataset["attributes"], only_one=True)
        domains = dataset["attributes"][self.by[0]]
        each, rest = divmod(self.clients, len(domains))
        if rest:
            hint = f"give a multiple of {len(domains)}"
            clients = counted(self.clients, "client", "clients")
            among = counted(len(domains), "domain", "domains")
            raise UsageError(f"{clients} cannot be divided evenly among {among}", hint)
        if self.portion * each > 1 + 1e-9:
            hint = f"at most {1 / each:g}, since {counted(each, 'client has', 'clients share')} a domain"
            raise UsageError(f"the portion {self.portion} is out of range", hint)

    def assign(self, images: Images) -> dict[str, np.ndarray]:
        self.check_room(images)
        sites, _ = known_sites(images, self.by)
        parts = domain_clients(sites, images.y, self.clients, self.portion, images.rng)
        return dict(zip(self._domain_of(images.attributes), parts, strict=True))

    def divide(self, pool: Pool, dataset: Mapping[str, Any], seed: int, minimum: int) -> Division:
        test = _own_tests(pool, dataset, self.by, self._domain_of(dataset["attributes"]))
        return replace(super().divide(pool, dataset, seed, minimum), test=test)

    def _domain_of(self, attributes: Mapping[str, list[str]]) -> dict[str, str]:
        """Client -> its domain."""
        domains = attributes[self.by[0]]
        return {
            f"{domain}-{k}": domain
            for domain in domains
            for k in range(self.clients // len(domains))
        }

    def advice(self) -> str:
        return "a larger --portion, or fewer --clients"


@dataclass(frozen=True, kw_only=True)
class OfEach(Scheme):
    """A scheme for each value of an attribute; a value without training images makes no client."""

    name: ClassVar[str] = "of-each"
    attribute: str
    schemes: dict[str, Scheme]

    def __post_init__(self) -> None:
        """Its parts have checked their options."""

    def check(self, dataset: Mapping[str, Any]) -> None:
        for scheme in self.schemes.values():
            scheme.check(dataset)

    def recorded(self, dataset: Mapping[str, Any]) -> dict[str, Any]:
        each = {
            value: {"scheme": part.name, **part.recorded(dataset)}
            for value, part in self.schemes.items()
        }
        return {"attribute": self.attribute, "each": each}

    def divide(self, pool: Pool, dataset: Mapping[str, Any], seed: int, minimum: int) -> Division:
        train, test = dict[str, np.ndarray](), dict[str, np.ndarray]()
        for place, value in enumerate(dataset["attributes"][self.attribute]):
            here = replace(
                pool, split=np.where(pool.groups[self.attribute] == place, pool.split, UNUSED)
            )
            if (here.split == TRAIN).any():
                made = self.schemes[value].divide(here, dataset, seed, minimum)
                names = {name: name if name == value else f"{value}-{name}" for name in made.train}
                if both := train.keys() & names.values():
                    raise FedcliError(
                        f"two clients would be called {min(both)!r}", "give a dataset another name"
                    )
                train |= {names[name]: rows for name, rows in made.train.items()}
                own = np.flatnonzero(
                    here.split == TEST
                )  # as of FedHEAL's domains, where no client has a part of its own
                test |= {names[name]: made.test.get(name, own) for name in made.train}
        return Division(train, test)


def _own_tests(
    pool: Pool, dataset: Mapping[str, Any], by: tuple[str, ...], site_of: Mapping[str, str]
) -> dict[str, np.ndarray]:
    test = np.flatnonzero(pool.split == TEST)
    sites, names = sites_of(
        {name: column[test] for name, column in pool.groups.items()}, dataset["attributes"], by
    )
    return {client: test[sites == names.index(site)] for client, site in site_of.items()}


def domain_clients(
    domains: np.ndarray, y: np.ndarray, clients: int, portion: float, rng: np.random.Generator
) -> list[np.ndarray]:
    """clients / D clients per domain, in the domains' order, each with int(portion * images of the domain).

    domains: int [N], -1 (unknown) goes to nobody.
    """
    count = int(domains.max()) + 1
    parts = []
    for domain in range(count):
        rows = rng.permutation(np.flatnonzero(domains == domain))
        size = int(portion * len(rows) + 1e-9)
        drawn = [rows[k * size : (k + 1) * size] for k in range(clients // count)]
        parts += [np.sort(_cover(part, rows, y, rng)) for part in drawn]
    return parts


def _cover(
    part: np.ndarray, rows: np.ndarray, y: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """part with one image of each class it misses, in place of an image whose class it has twice."""
    part = part.copy()
    for label in np.setdiff1d(y[rows], y[part]):
        spare = np.flatnonzero(np.bincount(y[part])[y[part]] > 1)
        if len(spare):
            part[rng.choice(spare)] = rng.choice(rows[y[rows] == label])
    return part
