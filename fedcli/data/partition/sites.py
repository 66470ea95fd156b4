"""Clients made from an attribute of the images: natural sites, shares of each value, and FedHEAL's
domains.

by       One client per value, or per pair of values.
shares   A table of which part of each attribute value's images a client gets, class by class: how
         we read the skin-tone clients of Fed-MAS, whose files are not public.
domains  FedHEAL (arXiv 2405.16585): clients divided evenly among the domains, each with the same
         portion of its domain and no image twice. From its released code: a client that misses a
         class gets one image of it from the whole domain, perhaps another client's too, in place of
         a spare one.
of-each  Each dataset of a merged one divided among clients of its own, who train and are tested on
         images of no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy import ndarray

from ...console import counted
from ...errors import FedcliError, UsageError, nearest
from ..manifest import Body
from ..pool import TEST, TRAIN, Pool
from .held_out import UNUSED
from .scheme import Counted, Dataset, Division, Images, Parts, Scheme, by_owner, cut, register

UNKNOWN = "has an unknown attribute", "have an unknown attribute"
Attributes = tuple[str, ...]  # whose values name the sites
Values = Mapping[str, list[str]]  # of each attribute of the dataset


def check_attributes(
    attributes: Attributes,
    values: Values,
    *,
    only_one: bool,
) -> None:
    """Raises UsageError for attributes that the dataset does not have, or for too few or too many
    of them."""
    if not attributes or (only_one and len(attributes) > 1):
        needed = "exactly one attribute" if only_one else "an attribute"
        example = next(iter(values), "sex")
        raise UsageError(f"this scheme needs {needed} to divide by", f"--by {example}")
    for name in attributes:
        if name not in values:
            raise UsageError(f"the dataset has no attribute {name!r}", nearest(name, values))


def sites_of(
    groups: Mapping[str, ndarray], values: Values, attributes: Attributes
) -> tuple[ndarray, list[str]]:
    """Each image's site [N], -1 where an attribute is unknown, and the names of all possible
    sites."""
    sites = np.zeros(1, np.int64)
    names = [""]
    for attribute in attributes:
        column = groups[attribute]
        is_unknown = (sites < 0) | (column < 0)
        sites = np.where(
            is_unknown,
            -1,
            sites * len(values[attribute]) + column,
        )
        names = _combined(names, values[attribute])
    return sites, names


def _combined(names: list[str], values: list[str]) -> list[str]:
    """Every name with every value behind it."""
    combined = []
    for name in names:
        for value in values:
            combined.append(f"{name}+{value}" if name else value)
    return combined


def known_sites(images: Images, attributes: Attributes) -> tuple[ndarray, list[str]]:
    """Sites as sites_of() gives them. Raises FedcliError where no image has a known one."""
    sites, names = sites_of(images.groups, images.attributes, attributes)
    if not (sites >= 0).any():
        sentence = f"no training image has a known {' and '.join(attributes)}"
        raise FedcliError(sentence, "divide by another attribute")
    return sites, names


@register("by")
@dataclass(frozen=True, kw_only=True)
class By(Scheme):
    """One client per value of an attribute, such as its hospital; sites without training images are
    left out."""

    left_over: ClassVar[tuple[str, str]] = UNKNOWN
    by: Annotated[tuple[str, ...], "attributes whose values name the sites"]

    def check(self, dataset: Dataset) -> None:
        check_attributes(self.by, dataset["attributes"], only_one=False)

    def assign(self, images: Images) -> Parts:
        sites, names = known_sites(images, self.by)
        parts = by_owner(sites, len(names))
        client_parts = zip(names, parts, strict=True)
        return {name: part for name, part in client_parts if len(part)}

    def divide(
        self,
        pool: Pool,
        dataset: Dataset,
        seed: int,
        minimum: int,
    ) -> Division:
        division = super().divide(pool, dataset, seed, minimum)
        site_by_client = {name: name for name in division.train}
        test = _test_rows(pool, dataset, self.by, site_by_client)
        return replace(division, test=test)

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
        "rows such as 0.9,0.1;0.1,0.9: which part of each value's images the row's "
        "clients get together, so columns sum to 1; clients are divided evenly among the "
        "rows; a single row is used with all its rotations",
    ] = ""

    def check(self, dataset: Dataset) -> None:
        check_attributes(self.by, dataset["attributes"], only_one=True)
        self.rows(dataset["attributes"])

    def recorded(self, dataset: Dataset) -> Body:
        recorded = super().recorded(dataset)
        recorded["shares"] = self.rows(dataset["attributes"])
        return recorded

    def rows(self, attributes: Values) -> list[list[float]]:
        """Rows of shares, one column per attribute value. Raises UsageError."""
        values = attributes[self.by[0]]
        example = "such as --shares 0.9,0.1 --shares 0.1,0.9 for two values"
        hint = f"give one number per value ({', '.join(values)}), {example}"
        texts = [text for text in self.shares.split(";") if text]
        rows = _numbers(texts)
        widths = {len(row) for row in rows}
        if widths != {len(values)}:
            typed = " and ".join(texts) or "missing"
            numbers = counted(len(values), "number", "numbers")
            raise UsageError(f"--shares is {typed}: expected rows of {numbers}", hint)
        if len(rows) == 1:
            rows = _rotations(rows[0])
        columns = zip(*rows, strict=True)
        for value, column in zip(values, columns, strict=True):
            if not min(column) >= 0 or abs(sum(column) - 1) > 1e-6:
                shares = ", ".join(map(str, column))
                must = "they must be at least 0 and sum to 1"
                raise UsageError(f"the shares of {value!r} are {shares}: {must}", hint)
        if self.clients < len(rows):
            clients = counted(self.clients, "client", "clients")
            sentence = f"{clients} for {len(rows)} rows of shares"
            raise UsageError(sentence, f"give --clients {len(rows)} or more")
        return rows

    def owners(self, images: Images) -> ndarray:
        """Each share of a value's images is kept in every class."""
        sites, _ = known_sites(images, self.by)
        rows = np.array(self.rows(images.attributes))
        steps = np.arange(self.clients) * len(rows)
        row_of_client = steps // self.clients  # [K]
        clients_of_row = np.bincount(row_of_client)
        # [K, V] columns sum to one
        shares = rows[row_of_client] / clients_of_row[row_of_client, None]
        owner = np.full(len(images), -1, np.int64)
        rng = images.rng
        for value, column in enumerate(shares.T):
            for label in np.unique(images.y):
                is_in_cell = (sites == value) & (images.y == label)
                cell = rng.permutation(np.flatnonzero(is_in_cell))
                owner[cell] = cut(column, len(cell), rng)
        return owner


def _rotations(row: list[float]) -> list[list[float]]:
    rotations = []
    for turn in range(len(row)):
        start = len(row) - turn
        rotated = row[start:] + row[:start]
        rotations.append(rotated)
    return rotations


def _numbers(texts: list[str]) -> list[list[float]]:
    """Rows of numbers with commas between them; [] where one is no number."""
    rows = []
    for text in texts:
        try:
            numbers = [float(number) for number in text.split(",")]
            rows.append(numbers)
        except ValueError:
            return []
    return rows


@register("domains")
@dataclass(frozen=True, kw_only=True)
class Domains(Counted):
    """FedHEAL's clients: evenly over the domains, each with the same portion of its own."""

    by: Annotated[tuple[str, ...], "the one attribute whose values are the domains"]
    portion: Annotated[float, "share of its domain's images that each client draws, in (0, 1]"] = (
        0.1
    )

    def check(self, dataset: Dataset) -> None:
        check_attributes(self.by, dataset["attributes"], only_one=True)
        domains = dataset["attributes"][self.by[0]]
        of_domain, rest = divmod(self.clients, len(domains))
        if rest:
            hint = f"give a multiple of {len(domains)}"
            clients = counted(self.clients, "client", "clients")
            among = counted(len(domains), "domain", "domains")
            raise UsageError(f"{clients} cannot be divided evenly among {among}", hint)
        if self.portion * of_domain > 1 + 1e-9:
            share = counted(of_domain, "client has", "clients share")
            largest = 1 / of_domain
            hint = f"at most {largest:g}, since {share} a domain"
            raise UsageError(f"the portion {self.portion} is out of range", hint)

    def assign(self, images: Images) -> Parts:
        self.check_room(images)
        domain_by_image, domains = known_sites(images, self.by)
        parts = domain_clients(
            domain_by_image,
            images.y,
            self.clients,
            self.portion,
            images.rng,
            len(domains),
        )
        domain_by_client = self._domain_by_client(images.attributes)
        with_images = {domains[index] for index in np.unique(domain_by_image) if index >= 0}
        rows = {}
        for (client, domain), part in zip(domain_by_client.items(), parts, strict=True):
            if domain in with_images:
                rows[client] = part
        return rows

    def divide(
        self,
        pool: Pool,
        dataset: Dataset,
        seed: int,
        minimum: int,
    ) -> Division:
        division = super().divide(pool, dataset, seed, minimum)
        domain_by_client = self._domain_by_client(dataset["attributes"])
        domains = {client: domain_by_client[client] for client in division.train}
        return replace(division, test=_test_rows(pool, dataset, self.by, domains))

    def _domain_by_client(self, attributes: Values) -> dict[str, str]:
        domains = attributes[self.by[0]]
        domain_by_client = {}
        for domain in domains:
            for k in range(self.clients // len(domains)):
                domain_by_client[f"{domain}-{k}"] = domain
        return domain_by_client

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

    def check(self, dataset: Dataset) -> None:
        for scheme in self.schemes.values():
            scheme.check(dataset)

    def recorded(self, dataset: Dataset) -> Body:
        recorded = {}
        for value, scheme in self.schemes.items():
            recorded[value] = {"scheme": scheme.name, **scheme.recorded(dataset)}
        return {"attribute": self.attribute, "each": recorded}

    def divide(
        self,
        pool: Pool,
        dataset: Dataset,
        seed: int,
        minimum: int,
    ) -> Division:
        train: Parts = {}
        test: Parts = {}
        column = pool.groups[self.attribute]
        for index, value in enumerate(dataset["attributes"][self.attribute]):
            split = np.where(column == index, pool.split, UNUSED)
            pool_of_value = replace(pool, split=split)
            if not (pool_of_value.split == TRAIN).any():
                continue
            division = self.schemes[value].divide(
                pool_of_value,
                dataset,
                seed,
                minimum,
            )
            # as of FedHEAL's domains, where no client has a part of its own
            test_rows = np.flatnonzero(pool_of_value.split == TEST)
            names = {name: _name(value, name) for name in division.train}
            in_both = train.keys() & names.values()
            if in_both:
                sentence = f"two clients would be called {min(in_both)!r}"
                raise FedcliError(sentence, "give a dataset another name")
            for name, rows in division.train.items():
                train[names[name]] = rows
                test[names[name]] = division.test.get(name, test_rows)
        return Division(train, test)


def _name(value: str, client: str) -> str:
    return client if client == value else f"{value}-{client}"


def _test_rows(
    pool: Pool,
    dataset: Dataset,
    attributes: Attributes,
    site_by_client: Mapping[str, str],
) -> Parts:
    """The test rows of each client: those of its site."""
    test = np.flatnonzero(pool.split == TEST)
    groups = {name: column[test] for name, column in pool.groups.items()}
    sites, names = sites_of(groups, dataset["attributes"], attributes)
    rows = {}
    for client, site in site_by_client.items():
        rows[client] = test[sites == names.index(site)]
    return rows


def domain_clients(
    domains: ndarray,
    y: ndarray,
    clients: int,
    portion: float,
    rng: np.random.Generator,
    count: int,
) -> list[ndarray]:
    """clients / count clients per domain, in the domains' order, each with int(portion * images of
    the domain).

    domains: int [N] below count, -1 (unknown) goes to nobody.
    """
    parts = []
    for domain in range(count):
        rows = rng.permutation(np.flatnonzero(domains == domain))
        size = int(portion * len(rows) + 1e-9)
        for k in range(clients // count):
            part = rows[k * size : (k + 1) * size]
            parts.append(np.sort(_cover(part, rows, y, rng)))
    return parts


def _cover(part: ndarray, rows: ndarray, y: ndarray, rng: np.random.Generator) -> ndarray:
    """part with one image of each class it misses, in place of an image whose class it has
    twice."""
    part = part.copy()
    for label in np.setdiff1d(y[rows], y[part]):
        same_class = np.bincount(y[part])[y[part]]  # images of its class, of each
        spare = np.flatnonzero(same_class > 1)
        if len(spare):
            replaced = rng.choice(spare)
            of_class = rows[y[rows] == label]
            part[replaced] = rng.choice(of_class)
    return part
