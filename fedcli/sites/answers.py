"""Checks that a site's words can be true.

Each of its answers is held against its description, and against the other sites' answers.

No number of a site is trusted before it is bounded: none of them decides how much memory is taken.
What is wrong is a SiteError that names the site. What a site that lies within these bounds can do
is in docs/sites.md.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import console, shapes
from ..data.image_counts import MOST_IMAGES
from ..errors import FedcliError
from ..federation.client import ClientReport, ClientTask
from ..federation.engines.wire import Arrays, Message, Scalars, unpack
from ..runs.assembly import PlannedFederation
from .description import (
    PARTS,
    SHAPE,
    Described,
    SiteError,
    check_against,
    check_bounds,
    check_numbers,
)
from .site import BEGIN, TRAIN
from .tallies import ALL, CLEAN, CORRUPTED, Answer, Attributes, Tallies, Tally, groups_of
from .transport.frames import bytes_of

# of a number of a model or a column: its square, and sums over sites, are within float32
LARGEST = 1e15
# times as long as the others' updates
FAR = 10  # is warned of
TOO_FAR = 10_000  # is refused
OF_CLASSES = "class_images", "feature_n"  # columns that count images, one number for each class
# all columns that count images
OF_IMAGES = (*OF_CLASSES, "group_counts", "cell_counts", "group_class_counts")
UPDATE = "update"
COLUMN = "columns/"  # how the names of columns begin in a message
MOST_COLUMNS = 1000  # of a report
# an answer to training has at most so many times the bytes of the task, and so many more
MODELS = 16
SPARE = 2**28
ANOTHER = "is it another version?"
ASK = (
    "ask the site what it runs; training goes on without it by --min-clients, or with it by "
    "--resume"
)
DIVERGED = "lower --lr if its training diverged"
DESCRIBE_AGAIN = "describe the site again"
IMAGES_OF = {"train": "training", "val": "validation", "test": "test"}


@contextmanager
def of_site(client: str) -> Iterator[None]:
    """Turn errors inside into SiteErrors that name the site."""
    try:
        yield
    except FedcliError as error:
        sentence = error.sentence
        if not sentence.startswith((f"site {client} ", f"site {client}:")):
            sentence = f"site {client}: {sentence}"
        raise SiteError(sentence, error.hint or ASK) from None


def description(
    client: str,
    content: Any,
    expected: Described,
    entry: Described,
    digest: str | None,
) -> Described:
    """Check the description that a site sends as it begins a run, and return it. Raises SiteError.

    expected: values that are the same at all sites. entry: the client's images by part, as the
    roster has them. digest: sha256 of the data that it described before; None where it did not, and
    its images for validation and test are not known.
    """
    shapes.check(
        content,
        SHAPE,
        f"site {client} described itself wrongly",
        ANOTHER,
    )
    if content["client"] != client:
        sentence = f"it describes itself as {content['client']!r}"
        raise SiteError(sentence, "start it with another --name")
    check_bounds(content)
    check_against(expected, content, "the coordinator")
    if digest not in (None, content["data"]):
        sentence = f"site {client} holds other data than it described"
        raise SiteError(sentence, "start it with that data, or describe it again")
    for part in PARTS if digest else PARTS[:1]:
        images = content["images"][part]
        if images != entry[part]:
            raise SiteError(
                f"site {client} has {images} {IMAGES_OF[part]} images, "
                f"the coordinator knows of {entry[part]}",
                "start the site with the data that it described, or describe it again",
            )
    check_numbers(content)
    return content


def report(
    task: ClientTask,
    message: Message,
    site: Described,
    federation: PlannedFederation,
) -> ClientReport:
    """The report that a message holds.

    Raises FedcliError for what is no report on this task of this site.
    """
    _, arrays = message
    _check_names(arrays)
    answer = unpack(ClientReport, message, device=federation.plan.device)
    images = site["images"]["train"]
    if answer.n != images:
        raise SiteError(
            f"it answered of {str(answer.n)[:40]} training images, and described {images}"
        )
    steps = 0
    if task.part != "measure":
        steps = federation.plan.epochs * math.ceil(images / federation.plan.batch_size)
    if answer.steps != steps:
        steps_sent = str(answer.steps)[:40]
        raise SiteError(
            f"it answered after {steps_sent} local steps, where {images} images take {steps}"
        )
    _check_model(task.theta, answer.theta)
    theta = arrays["theta"]
    _check_numbers("its model", theta)
    for name, span in federation.layout.spans.items():
        if name.endswith("running_var") and (theta[span] < 0).any():
            raise SiteError(f"the variance {name!r} of its model is below 0")
    loss = arrays["loss"]
    if loss.ndim or loss.dtype.kind != "f" or abs(loss) > LARGEST:  # NaN: a policy leaves it out
        raise SiteError("it answered without its loss, or with one that cannot be")
    for name in answer.columns:
        column = arrays[f"{COLUMN}{name}"]
        _check_numbers(f"its column {name!r}", column)
        _check_column(name, column, site)
    return answer


def most_bytes(question: Message) -> int | None:
    """The most bytes of arrays that an answer may have, as nobody asked for more.

    None: as many as any message may have. Those of counts have the size of classes and groups.
    """
    scalars, arrays = question
    if scalars.get("ask") == BEGIN:
        return 0
    if scalars.get("ask") == TRAIN:
        return SPARE + MODELS * bytes_of(arrays)
    return None


def _check_names(arrays: Arrays) -> None:
    """Raises SiteError for arrays that are no part of a report, and for too many columns."""
    columns = [name for name in arrays if name.startswith(COLUMN)]
    if len(columns) > MOST_COLUMNS:
        sentence = f"it answered with {len(columns)} columns, and no method has over {MOST_COLUMNS}"
        raise SiteError(sentence, ANOTHER)
    for name in arrays:
        if name not in ("theta", "loss") and not name.startswith(COLUMN):
            raise SiteError(f"it answered with an array {name[:40]!r}, which nobody asked for")


def _check_model(sent: Tensor, theta: Tensor) -> None:
    """Raises SiteError for a model of another shape or type than the one that was sent."""
    if theta.shape != sent.shape:
        form = f"of shape {list(theta.shape)}, not {list(sent.shape)}"
        raise SiteError(f"it answered with a model {form}")
    if theta.dtype != sent.dtype:
        form = f"of type {theta.dtype}, not {sent.dtype}".replace("torch.", "")
        raise SiteError(f"it answered with a model {form}")


def _check_numbers(name: str, values: np.ndarray) -> None:
    """Raises SiteError for numbers that are not finite, or too large."""
    if values.dtype.kind != "f" or not values.size:
        return
    largest = max(values.max(), -values.min())  # NaN where there is one
    if not np.isfinite(largest):
        raise SiteError(f"{name} is not finite (NaN or infinity)", DIVERGED)
    if largest > LARGEST:
        raise SiteError(f"{name} has numbers beyond {LARGEST:g}", DIVERGED)


def _check_column(name: str, values: np.ndarray, site: Described) -> None:
    """Raises SiteError for a column that counts images in another way than they were described."""
    images = site["images"]["train"]
    if name in OF_IMAGES and not _adds_up(values, images):
        raise SiteError(
            f"its column {name!r} counts more than its {images} training images, or fewer than none"
        )
    if name in OF_CLASSES and not site.get("label_noise"):
        counts = site["counts"]["class"].get("train", {})
        described = [counts.get(class_name) for class_name in site["classes"]]
        if values.shape != (len(described),) or not _agree(described, values):
            raise SiteError(
                f"its column {name!r} has other numbers of images by class than it described"
            )
    if name == "validation_images" and not _adds_up(values, site["images"]["val"]):
        raise SiteError(
            f"its column {name!r} is not within the {site['images']['val']} that it described"
        )


def _agree(described: list[int | None], values: np.ndarray) -> bool:
    """Tell whether counts are those that were described, where these are not hidden."""
    pairs = zip(described, values.tolist(), strict=True)
    return all(count in (None, value) for count, value in pairs)


def _adds_up(values: np.ndarray, at_most: int) -> bool:
    """Tell whether these are numbers of at most so many images; none may make the sum run over."""
    is_positive = (values >= 0).all()
    is_limited = (values <= at_most).all() and values.sum() <= at_most
    return bool(is_positive and is_limited)


def odd_ones(reports: Mapping[str, ClientReport], agreed: dict[str, Any]) -> dict[str, SiteError]:
    """Errors on the sites that reported other columns than most did.

    Of equally many sites, those are right that did as in the round before, or report the fewest.

    agreed: changed here; the columns (name, shape, type) that a part of a round had.
    """
    forms = {client: _form(answer) for client, answer in reports.items()}
    if not forms:
        return {}
    part = "train" if any(answer.steps for answer in reports.values()) else "measure"
    candidates = list(forms.values())
    before = agreed.get(part)
    usual = max(candidates, key=lambda form: (candidates.count(form), form == before, -len(form)))
    agreed[part] = usual
    wrong = {}
    for client, form in forms.items():
        if form != usual:
            names = (*form, *usual)
            name = next(name for name in names if form.get(name) != usual.get(name))
            wrong[client] = SiteError(
                f"site {client} sent the column {name!r} in another form than the others",
                "every client must report the same names, each of one shape and type",
            )
    return wrong


def _form(answer: ClientReport) -> dict[str, tuple[list[int], str]]:
    """The shape and the type of each column, by name."""
    columns = sorted(answer.columns.items())
    return {name: (list(column.shape), str(column.dtype)) for name, column in columns}


class Lengths:
    """Lengths of the sites' updates and columns, compared with one another over a run's rounds."""

    def __init__(self) -> None:
        # site -> the sentence on its update that was much longer than the others'
        self.far: dict[str, str] = {}

    def check(
        self, theta: Tensor, reports: Mapping[str, ClientReport], round: int
    ) -> dict[str, SiteError]:
        """Errors on the sites that sent what no training makes.

        Warns of updates that are only far longer than the others'.

        theta: the model [P] that was sent. reports: of the same columns.
        """
        lengths: dict[str, dict[str, float]] = {}  # name -> site -> length
        for client, answer in reports.items():
            vectors = {**answer.columns, UPDATE: answer.theta - theta}
            for name, vector in vectors.items():
                lengths.setdefault(name, {})[client] = _length(vector)
        model = _length(theta)
        wrong = {}
        for name in sorted(lengths):
            for client, length in lengths[name].items():
                usual = _usual(lengths[name], client)
                images = reports[client].n  # a column may be a sum over them
                if length > TOO_FAR * max(usual, model, images):
                    wrong[client] = SiteError(
                        f"site {client}: its {name} has a length of {length:.3g}, "
                        f"the others' {usual:.3g}, the model {model:.3g}",
                        DIVERGED,
                    )
                elif name == UPDATE and usual and length > FAR * usual:
                    self._warn(client, round, length / usual)
        return wrong

    def _warn(self, client: str, round: int, times: float) -> None:
        """Warn once of a site whose update is so many times as long as the others'."""
        if client in self.far:
            return
        sentence = (
            f"the update of site {client} in round {round} is {times:.3g} times as long as the "
            "others'"
        )
        self.far[client] = sentence
        console.warn(
            f"{sentence} (median): it may train with other settings, or send a wrong model"
        )

    def blamed(self, error: SiteError) -> SiteError:
        """The error on a model that is not finite, with who may have bent the model before it."""
        hint = error.hint
        for sentence in [*self.far.values()][:1]:
            hint += f"; before, {sentence}"
        return SiteError(error.sentence, hint)


def _length(vector: Tensor) -> float:
    numbers = vector if vector.is_floating_point() else vector.double()
    return float(torch.linalg.vector_norm(numbers, dtype=torch.float64))


def _usual(lengths: Mapping[str, float], client: str) -> float:
    """The median length at the other sites; 0 without any."""
    others = [length for other, length in lengths.items() if other != client]
    return float(np.median(others)) if others else 0.0


def counts(message: Message, site: Described) -> Answer:
    """The counts that a site gives of a model on its test images.

    Raises SiteError where they cannot be that.
    """
    scalars, arrays = message
    versions = sorted({name.partition("/")[0] for name in arrays})
    if versions not in ([CLEAN], [CLEAN, CORRUPTED]):
        raise SiteError("it answered without counts", ANOTHER)
    tallies_by_version = {version: _tallies(version, arrays, site) for version in versions}
    left_out = _left_out(scalars, site)
    _check_classes(tallies_by_version, left_out, site)
    described = _test_counts("class", site)
    classes = enumerate(site["classes"])
    hidden_classes = [c for c, name in classes if described.get(name, 0) is None]
    hidden_groups = _hidden_groups(scalars, site["attributes"])
    counts_by_attribute = {name: _test_counts(name, site) for name in site["attributes"]}
    answer = Answer(
        tallies_by_version,
        bool(scalars.get("corrupted")),
        left_out,
        frozenset(hidden_classes),
        hidden_groups,
        counts_by_attribute,
        _smallest(scalars),
    )
    for key, (attribute, value) in groups_of(site["attributes"]).items():
        _check_group(answer, key, attribute, value)
    return answer


def _test_counts(column: str, site: Described) -> dict[str, int | None]:
    """The described test images by class or attribute; None for a count that is hidden."""
    return site["counts"].get(column, {}).get("test", {})


def _tallies(version: str, arrays: Arrays, site: Described) -> Tallies:
    """The tallies of a version of the test images. Raises SiteError for what cannot be."""
    tallies: Tallies = {}
    classes = len(site["classes"])
    for key in (ALL, *groups_of(site["attributes"])):
        prefix = f"{version}/{key}/"
        names = [name for name in arrays if name.startswith(prefix)]
        of_key = {name.removeprefix(prefix): arrays[name] for name in names}
        tally = Tally.of_arrays(of_key, classes, site["images"]["test"])
        if tally is None:
            sentence = f"site {site['client']} answered with counts of {key!r} that cannot be"
            raise SiteError(sentence, ANOTHER)
        tallies[key] = tally
    for name, values in site["attributes"].items():
        groups = [tallies[f"{name}/{g}"] for g in range(len(values))]
        together = vars(sum(groups, Tally.nothing(classes)))
        for part, array in vars(tallies[ALL]).items():
            if (together[part] > array).any():
                sentence = f"its counts by {name!r} exceed the counts of all images"
                raise SiteError(sentence, ANOTHER)
    return tallies


def _left_out(scalars: Scalars, site: Described) -> int:
    """The number of images that a site counts nowhere. Raises SiteError."""
    left_out = scalars.get("left_out", 0)
    images = site["images"]["test"]
    if type(left_out) is not int or not 0 <= left_out <= images:
        sent_text = str(left_out)[:40]
        sentence = (
            f"site {site['client']} leaves out {sent_text!r} images, "
            f"which is no number of its {images}"
        )
        raise SiteError(sentence, ANOTHER)
    return left_out


def _check_classes(
    versions: Mapping[str, Tallies],
    left_out: int,
    site: Described,
) -> None:
    """Raises SiteError where the images by class are not those that were described."""
    images = site["images"]["test"]
    # a hidden class is left out of every count
    described = [_test_counts("class", site).get(name) or 0 for name in site["classes"]]
    for tallies in versions.values():
        counted = tallies[ALL].table.sum(1).tolist()  # [C]
        if counted != described or sum(counted) + left_out != images:
            sentence = (
                f"it counts {counted} test images by class and leaves out {left_out}, "
                f"where it described {described} of {images}"
            )
            raise SiteError(sentence[:300], DESCRIBE_AGAIN)


def _hidden_groups(scalars: Scalars, attributes: Attributes) -> frozenset[str]:
    """Keys of the groups that an answer says are not complete. Raises SiteError."""
    hidden = scalars.get("hidden", [])
    is_list = isinstance(hidden, list) and all(isinstance(key, str) for key in hidden)
    if not is_list or not groups_of(attributes).keys() >= set(hidden):
        raise SiteError(f"it hides {str(hidden)[:40]!r}, which are no groups", ANOTHER)
    return frozenset(hidden)


def _smallest(scalars: Scalars) -> int:
    """The least number of images of a cell that a site shows. Raises SiteError."""
    smallest = scalars.get("smallest_cell", 1)
    if type(smallest) is not int or not 1 <= smallest <= MOST_IMAGES:
        raise SiteError(f"its smallest cell is {str(smallest)[:40]!r}, which is no count", ANOTHER)
    return smallest


def _check_group(answer: Answer, key: str, attribute: str, value: str) -> None:
    """Raises SiteError where a group has more images than described, or lacks some unhidden."""
    images = answer.groups[attribute].get(value, 0)
    if images is None:
        return
    is_whole = key not in answer.hidden_groups and not answer.hidden_classes
    for tallies in answer.versions.values():
        counted = tallies[key].images
        if counted > images or (is_whole and counted < images):
            sentence = (
                f"it counts {counted} test images of {attribute} {value}, "
                f"where it described {images}"
            )
            raise SiteError(sentence[:300], DESCRIBE_AGAIN)
