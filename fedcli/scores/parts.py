"""The parts of scores.json: the facts about a run beside its numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from ..console import listed
from .table import Number

SHOT_GROUPS = ("head", "medium", "tail")  # classes with many, some and few training images
MODELS = ("clean", "corrupted")  # versions of the test images that models are shown
AVERAGE = "average"  # of both
VERSIONS = (*MODELS, AVERAGE)
# test images of other classes than a backdoor's target, with its patch and without
PATCHED = ("patched", "unpatched")
SUCCESS = "attack_success"  # the share of them that are called the target
AS_TRAINED = "none"  # in place of an adaptation


@dataclass(frozen=True)
class Stage:
    """Hash and options of a stage of the data."""

    sha256: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Traffic:
    """Bytes to and from a client in a round."""

    down: Number = None
    up: Number = None


@dataclass(frozen=True)
class Grouped:
    """Test images by an attribute.

    unknown: in no group; None where sites hide that. undefined_rates: what differences of decisions
    leave out. hidden: group -> how many of its images sites hide, in words.
    """

    unknown: int | None = 0
    undefined_rates: list[str] = field(default_factory=list)
    hidden: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unscored:
    """Test images of classes that sites hide, which no score covers.

    images, of: their number, and that of all test images. scored: names of the other classes.
    cells: the smallest that sites show, in words.
    """

    images: int
    of: int
    scored: list[str]
    cells: str

    @property
    def sentence(self) -> str:
        """The share of the test images that is scored, and the scores that it is too little for."""
        are = "is" if self.images == 1 else "are"
        reason = f"as sites hide images of their classes ({self.cells})"
        text = f"{self.share}; {self.images:,} {are} not, {reason}"
        return f"{text}; {ONE_CLASS}" if self.of_one_class else text

    @property
    def share(self) -> str:
        """The test images that are scored, with their classes."""
        count = self.of - self.images
        return f"{count:,} of {self.of:,} test images are scored, those of {listed(self.scored)}"

    @property
    def of_one_class(self) -> bool:
        """Tell whether one class alone is scored, so that no score compares classes."""
        return len(self.scored) < 2


ONE_CLASS = "of one class alone there is accuracy and no other score"


@dataclass(frozen=True)
class Client:
    """One client's test images, with their version and part: "own" test part or "whole" test set.

    corruption: kind and severity of a corrupted client's images, where clients differ in it.
    """

    version: str
    part: str
    corruption: str = ""
    groups: dict[str, Grouped] = field(default_factory=dict)


@dataclass(frozen=True)
class Severity:
    """Test images under one corruption.

    Clients may have trained on images of this kind, and of this severity too.
    """

    kind_in_training: bool
    severity_in_training: bool


@dataclass(frozen=True)
class Chosen:
    """The round that was best on the clients' validation images; validation: its score there."""

    round: int
    metric: str
    validation: float


@dataclass(frozen=True)
class Shots:
    """Classes by their training images.

    classes: group -> class -> training images. skipped: classes without a test image.
    """

    upper: int
    lower: int
    classes: dict[str, dict[str, int]]
    skipped: list[str]


@dataclass(frozen=True)
class External:
    """Test images that are not the run's own.

    Attributes:
        part: "test", or "all" images of a dataset.
        left_out: images of classes that the run does not have.
        classes: class there -> class of the run, "" for none.
        held_out: attribute and value of the site that a partition keeps for testing; {} where there
            is none.
    """

    kind: str
    dataset: str
    sha256: str
    part: str
    images: int
    left_out: int
    classes: dict[str, str]
    held_out: dict[str, Any] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        noun = "image" if self.images == 1 else "images"
        images = f"{self.images} test {noun}"
        if self.part == "all":
            images = f"all {self.images} {noun}"
        source = f"the dataset {self.dataset!r}"
        if self.left_out:
            source += f" ({self.left_out} of other classes left out)"
        return f"scored on {images} of {source}, not on the run's own"


@dataclass(frozen=True)
class AdaptedScore:
    """One metric of an adapted model; difference: from the model as it is, with its 95 % interval.

    group: "" of an attribute for the gap between its groups.
    """

    adaptation: str
    version: str
    attribute: str
    group: str
    metric: str
    images: int
    value: Number
    difference: Number
    low: Number
    high: Number


@dataclass(frozen=True)
class Adaptations:
    """The last round's model adapted to the test images.

    prior: version of them, or validation -> class -> share.
    """

    temperature: Number
    prior: dict[str, dict[str, float]] = field(default_factory=dict)
    scores: list[AdaptedScore] = field(default_factory=list)


@dataclass(frozen=True)
class RocPoint:
    """Where class 1 is predicted from this chance on."""

    threshold: Number
    false_positive_rate: Number
    true_positive_rate: Number


@dataclass(frozen=True)
class ReliabilityBin:
    """Images whose most likely class has a chance in one of 15 bins of equal width."""

    images: int
    mean_chance: Number
    share_right: Number


@dataclass(frozen=True)
class Curve:
    """The curves of the last round's model on some images.

    at_false_positives: largest false positive rate -> point.
    """

    at_false_positives: dict[str, RocPoint]
    reliability: list[ReliabilityBin]


@dataclass(frozen=True)
class Curves:
    """The curves on one version of the test images."""

    overall: Curve
    groups: dict[str, dict[str, Curve]] = field(default_factory=dict)
    clients: dict[str, Curve] = field(default_factory=dict)


T = TypeVar("T")


def decode(kind: type[T], data: Any) -> T:
    """The inverse of asdict(). Raises KeyError, TypeError or AttributeError for another shape."""
    decoder: Callable[[Any], T] = _decoder(kind)  # type: ignore[arg-type]  # a class is hashable
    return decoder(data)


@cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    if is_dataclass(kind):
        return _object(kind)
    inner = [_decoder(part) for part in get_args(kind)]
    if get_origin(kind) is dict:
        return lambda data: {key: inner[1](item) for key, item in data.items()}
    if get_origin(kind) is list:
        return lambda data: [inner[0](item) for item in data]
    if isinstance(kind, UnionType):
        return lambda data: None if data is None else inner[0](data)
    return lambda data: data


def _object(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    decoders = {part.name: _decoder(hints[part.name]) for part in fields(kind)}
    return lambda data: kind(**{name: decoders[name](item) for name, item in data.items()})
