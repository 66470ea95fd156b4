"""Partition schemes, and their registry.

A scheme is a frozen dataclass: its fields are its options, `Annotated[type, "meaning, range"]` as
methods have them, and its assign() says which client gets which of the training images. A new
scheme is one file with

    @register("by-brightness")
    @dataclass(frozen=True, kw_only=True)
    class ByBrightness(Counted):
        ...

and one import line in __init__.py; `fedcli partition --scheme by-brightness --set key=value`
reaches it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
from numpy import ndarray

from ... import extensions, options
from ...console import counted
from ...errors import FedcliError, UsageError, nearest
from ...provenance import Code, OwnCodeError, of_functions
from ...seeds import derive
from ..manifest import Body
from ..pool import TRAIN, Pool, in_range

IMAGES = "training image", "training images"
PATIENTS = "training patient", "training patients"
Dataset = Mapping[str, Any]  # its manifest's body
Parts = dict[str, ndarray]  # client -> rows of the pool, or indices
PLAIN = re.compile(r"(?!\.\.?$)[^/\\\x00-\x1f]{1,200}")  # a client's name, which names files too


@dataclass(frozen=True)
class Images:
    """The N training images that assign() divides, or with keep_units the N patients, each by its
    first image."""

    # int64 [N], the class of each; of several labels per image the rarest that it has, see
    # labels.single()
    y: ndarray
    # attribute -> int64 [N], the index of each one's value, -1 where it is unknown
    groups: Mapping[str, ndarray] = field(default_factory=dict)
    attributes: Mapping[str, list[str]] = field(default_factory=dict)  # attribute -> its values
    seed: int = 0  # of the partition
    minimum: int = 0  # images that each client must have in the end
    what: tuple[str, str] = IMAGES  # what is divided, in words: (singular, plural)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def rng(self) -> np.random.Generator:
        """The scheme's random numbers, from their start at each call."""
        return np.random.default_rng(derive("partition", self.seed))

    def __str__(self) -> str:
        return counted(len(self), *self.what)


@dataclass(frozen=True)
class Division:
    """The images of each client."""

    train: Parts  # client -> rising rows of the pool, for training and validation
    # client -> rows of the pool that are the client's own test part; a client may be absent
    test: Parts = field(default_factory=dict)
    # what the manifest says of it beside what it says of every partition
    body: Body = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """One way to divide a dataset's training images among clients.

    Options are checked when a scheme is built, against the ranges in their meanings. Raises
    UsageError.
    """

    name: ClassVar[str]
    code: ClassVar[Code | None] = None  # where it comes from, if it is not fedcli's own
    # it divides the dataset before sites leave it, as its numbers count all images
    whole: ClassVar[bool] = False
    # why an image may go to no client
    left_over: ClassVar[tuple[str, str]] = ("is left over", "are left over")

    def __post_init__(self) -> None:
        for key, option in options.describe(type(self)).items():
            object.__setattr__(self, key, option.read(getattr(self, key)))

    def check(self, dataset: Dataset) -> None:
        """Refuse options that a dataset, given as its manifest's body, cannot have. Raises
        FedcliError, UsageError."""

    def recorded(self, dataset: Dataset) -> Body:
        """The options as the manifest records them; equal ones give equal partitions."""
        recorded = {}
        for key, value in options.values(self).items():
            recorded[key] = list(value) if isinstance(value, tuple) else value
        return recorded

    def assign(self, images: Images) -> Parts:
        """Client -> rising indices into images. Raises FedcliError."""
        raise NotImplementedError(f"{type(self).__name__} has no assign()")

    def _assigned(self, images: Images) -> Parts:
        """The result of assign(), which is checked where it is somebody else's. Raises
        OwnCodeError."""
        parts = self.assign(images)
        if self.code is None:
            return parts
        code = f"{self.code}: assign of {self.name}"
        return _checked(
            code,
            parts,
            len(images),
        )

    def divide(
        self,
        pool: Pool,
        dataset: Dataset,
        seed: int,
        minimum: int,
    ) -> Division:
        """Rows of the pool for each client; a scheme that needs more than assign() is given
        overrides this."""
        rows = np.flatnonzero(pool.split == TRAIN)
        assigned = self._assigned(images_of(pool, rows, dataset, seed, minimum))
        rows_by_client = {name: rows[part] for name, part in assigned.items()}
        return Division(rows_by_client)

    def advice(self) -> str:
        """Advice that gives the smallest client more images, after "try"."""
        return "fewer --clients"


@dataclass(frozen=True, kw_only=True)
class Counted(Scheme):
    """A scheme that makes as many clients as it is asked for."""

    clients: Annotated[int, "number of clients, >= 1"] = 20

    def named(self, parts: list[ndarray]) -> Parts:
        """The parts by the clients' names."""
        return dict(zip(client_names(self.clients), parts, strict=True))

    def owners(self, images: Images) -> ndarray:
        """The client of each image, int64 [N] from 0, -1 for nobody; where clients share images,
        assign() says it."""
        raise NotImplementedError(f"{type(self).__name__} has neither owners() nor assign()")

    def least(self, images: Images) -> int:
        """Images that each client needs."""
        return 1

    def assign(self, images: Images) -> Parts:
        self.check_room(images)
        return self.named(by_owner(self.owners(images), self.clients))

    def check_room(self, images: Images) -> None:
        """Refuse more clients than there are images for. Raises FedcliError."""
        if self.clients > len(images):
            sentence = f"{images} cannot be divided among {self.clients} clients"
            raise FedcliError(sentence, "give fewer --clients")
        needed = self.least(images)
        if self.clients * needed > len(images):
            hint = "lower that number or give fewer --clients"
            clients = counted(self.clients, "client", "clients")
            raise FedcliError(f"{images} cannot give {clients} {needed} each", hint)


@dataclass(frozen=True, kw_only=True)
class Random(Counted):
    """A scheme that deals out images at random, as the papers do, or with keep_units whole
    patients.

    A patient then counts for the class of its first image; clients that are even in patients are
    uneven in images, by as much as patients are. An image without a patient is its own.
    """

    keep_units: Annotated[bool, "give whole patients or lesions to a client"] = False

    def check(self, dataset: Dataset) -> None:
        if self.keep_units and dataset["unit"] is None:
            sentence = "the dataset does not say which patient or lesion an image shows"
            raise FedcliError(sentence, "leave --keep-units out")

    def recorded(self, dataset: Dataset) -> Body:
        recorded = super().recorded(dataset)
        if not self.keep_units:
            recorded.pop("keep_units", None)
        return recorded

    def divide(
        self,
        pool: Pool,
        dataset: Dataset,
        seed: int,
        minimum: int,
    ) -> Division:
        if not self.keep_units:
            return super().divide(pool, dataset, seed, minimum)
        rows = np.flatnonzero(pool.split == TRAIN)
        ids = patients(pool)[rows]
        _, first_images, patient = np.unique(
            ids,
            return_index=True,
            return_inverse=True,
        )
        images = images_of(
            pool,
            rows[first_images],
            dataset,
            seed,
            minimum,
            PATIENTS,
        )
        assigned = self._assigned(images)
        return Division({name: rows[np.isin(patient, part)] for name, part in assigned.items()})


def _checked(code: str, parts: Any, count: int) -> Parts:
    """client -> indices in [0, count), each once. code: for the sentence."""
    if not isinstance(parts, dict) or not parts:
        returned = "no client" if isinstance(parts, dict) else f"a {type(parts).__name__}"
        hint = "return a dict: client -> indices of its images"
        raise OwnCodeError(f"{code} returned {returned}", hint)
    checked = {}
    for client, part in parts.items():
        if not isinstance(client, str) or not PLAIN.fullmatch(client):
            hint = "a client is called by a text without / and \\, such as client-00"
            client_text = str(client)[:80]
            raise OwnCodeError(f"{code} named a client {client_text!r}", hint)
        try:
            rows = np.asarray(part)
        except ValueError:  # a list of lists that are not of one length
            rows = np.asarray(None)
        if rows.shape == (0,):
            rows = rows.astype(np.int64)
        if not _are_indices(rows, count):
            hint = f"whole numbers from 0 to {count - 1}, each once, in one dimension"
            sentence = f"{code} gave client {client!r} what are no indices of its images"
            raise OwnCodeError(sentence, hint)
        checked[client] = rows
    return checked


def _are_indices(rows: ndarray, count: int) -> bool:
    """Tell whether these are whole numbers in [0, count), each once."""
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        return False
    return in_range(rows, 0, count - 1) and len(np.unique(rows)) == len(rows)


def images_of(
    pool: Pool,
    rows: ndarray,
    dataset: Dataset,
    seed: int,
    minimum: int,
    words: tuple[str, str] = IMAGES,
) -> Images:
    """Some rows of a pool as what a scheme divides."""
    groups = {name: column[rows] for name, column in pool.groups.items()}
    labels_of_rows = pool.single[rows]
    return Images(
        labels_of_rows,
        groups,
        dataset["attributes"],
        seed,
        minimum,
        words,
    )


def patients(pool: Pool) -> ndarray:
    """A number [N] for each image's patient or lesion; an image without one is its own."""
    if pool.patient is None:
        return np.arange(len(pool.y))
    _, numbers = np.unique(pool.patient, return_inverse=True)
    numbers_alone = len(numbers) + np.arange(len(numbers))
    return np.where(pool.patient == "", numbers_alone, numbers)


def client_names(count: int) -> list[str]:
    """Names of clients that no site or file names."""
    digits = max(2, len(str(count - 1)))
    return [f"client-{k:0{digits}d}" for k in range(count)]


def by_owner(owner: ndarray, clients: int) -> list[ndarray]:
    """Rising indices of each client from each image's owner [N]; -1 is nobody."""
    order = np.argsort(owner, kind="stable")
    clients_and_end = np.arange(clients + 1)
    ends = np.searchsorted(owner[order], clients_and_end)
    return [order[a:b] for a, b in pairwise(ends)]


def even_steps(count: int, rng: np.random.Generator) -> ndarray:
    """Rising numbers [count] in [0, 1), evenly spaced from a random start."""
    below_one = np.nextafter(1, 0)  # where the sum would be rounded up
    starts = np.arange(count) + rng.random()
    return np.minimum(starts / max(count, 1), below_one)


def cut(shares: ndarray, count: int, rng: np.random.Generator) -> ndarray:
    """Rising owners [count]; each client's number is its share of count, rounded up or down at
    random."""
    edges = np.cumsum(shares)
    steps = even_steps(count, rng)
    return np.searchsorted(
        edges / edges[-1],
        steps,
        side="right",
    )


SCHEMES: dict[str, type[Scheme]] = {}
SchemeType = TypeVar("SchemeType", bound=type[Scheme])


def register(name: str) -> Callable[[SchemeType], SchemeType]:
    """Put a scheme into the table under this name."""

    def add(scheme: SchemeType) -> SchemeType:
        table = extensions.table("partitions", SCHEMES)
        is_outside = not scheme.__module__.startswith("fedcli.")
        if name in table:
            same_module = table[name].__module__ == scheme.__module__
            is_again = is_outside and same_module and extensions.origin() is None
            if not is_again:
                raise ValueError(f"partition scheme {name!r} is registered twice")
        if is_outside:
            extensions.check_name(name)
            options.describe(scheme)  # refuses an annotation that is no type of an option
            if not _divides(scheme):
                raise TypeError(f"{scheme.__name__} has no assign()")
            scheme.code = extensions.origin() or of_functions(scheme)
        scheme.name = name
        table[name] = scheme
        return scheme

    return add


def _divides(scheme: type[Scheme]) -> bool:
    """Tell whether a scheme from outside has a method that says which client gets an image."""
    if scheme.divide.__module__ != __name__:
        return True
    if scheme.assign is Counted.assign:
        return getattr(scheme, "owners", None) is not Counted.owners
    return scheme.assign is not Scheme.assign


def named(name: str) -> type[Scheme]:
    """A scheme by its name, or by PATH.py or PATH.py:NAME. Raises FedcliError, UsageError."""
    if extensions.is_file(name):
        return extensions.pick(name, "partitions")
    if name in SCHEMES:
        return SCHEMES[name]
    offered = extensions.offered("partitions", name)
    if offered:
        return offered[0]
    names = [*SCHEMES, *extensions.packages("partitions")]
    raise UsageError(f"unknown partition scheme {name!r}", nearest(name, names))


def resolve(name: str, settings: Mapping[str, Any] | None = None) -> Scheme:
    """Build a scheme by its name and options. Raises UsageError for an unknown name or option, or a
    missing one."""
    scheme = named(name)
    settings = settings or {}
    declared = options.describe(scheme)
    of_scheme = f"the partition scheme {scheme.name}"
    for key in settings:
        if key not in declared:
            hint = f"{scheme.name} has no options at all"
            if declared:
                hint = nearest(key, declared)
            raise UsageError(f"{of_scheme} has no option {key!r}", hint)
    for key, option in declared.items():
        if option.default is MISSING and key not in settings:
            usage = f"--set {key}=VALUE"
            raise UsageError(f"{of_scheme} needs {key}: {option.meaning}", usage)
    return scheme(**settings)


def listing() -> dict[str, list[options.Option]]:
    """Every scheme's options, with "required" as the default of those that must be given."""
    listing: dict[str, list[options.Option]] = {}
    for name, scheme in SCHEMES.items():
        listing[name] = []
        for option in options.describe(scheme).values():
            if option.default is MISSING:
                option = replace(option, default="required")
            listing[name].append(option)
    return listing
