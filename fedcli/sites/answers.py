"""Checks that a site's words can be true: each of its answers against what it described, and against the other sites'.

No number of a site is trusted before it is bounded: none of them decides how much memory is taken. What is wrong is a
SiteError that names the site. What a site that lies within these bounds can do stands in docs/sites.md.
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
from ..federation.client import Report, Task
from ..federation.engines.wire import Arrays, Message, unpack
from ..runs.assembly import PlannedFederation
from .description import PARTS, SHAPE, SiteError, check_against, check_bounds, check_numbers
from .site import BEGIN, TRAIN
from .tallies import ALL, CLEAN, CORRUPTED, Answer, Tallies, Tally, keys

LARGEST = 1e15  # number of a model or a column: its square, and sums over sites, are within float32
FAR, TOO_FAR = (
    10,
    10_000,
)  # times as long as the others' updates: what is warned of, and what is refused
OF_CLASSES = "class_images", "feature_n"  # columns that count images, one number for each class
OF_IMAGES = (
    *OF_CLASSES,
    "group_counts",
    "cell_counts",
    "group_class_counts",
)  # all that count images
UPDATE = "update"
COLUMN = "columns/"  # how the names of columns begin in a message
MOST_COLUMNS = 1000  # of a report
MODELS, SPARE = 16, 2**28  # an answer to training: as often what was sent, and bytes beside that
ANOTHER = "is it another version?"
ASK = "ask the site what it runs; training goes on without it by --min-clients, or with it by --resume"
Known = Mapping[str, Any]  # a description


@contextmanager
def of_site(client: str) -> Iterator[None]:
    """Errors inside as SiteErrors that name the site."""
    try:
        yield
    except FedcliError as error:
        named = error.sentence.startswith((f"site {client} ", f"site {client}:"))
        raise SiteError(
            error.sentence if named else f"site {client}: {error.sentence}", error.hint or ASK
        ) from None


def description(client: str, said: Any, expected: Known, entry: Known, digest: str | None) -> Known:
    """Check what a site says of itself as it begins a run. Raises SiteError.

    expected: what is the same at all sites. entry: the client's images by part, as the roster has them. digest: sha256
    of what it described before; None where it did not, and its images for validation and test are not known.
    """
    shapes.check(said, SHAPE, f"site {client} described itself wrongly", ANOTHER)
    if said["client"] != client:
        raise SiteError(
            f"it describes itself as {said['client']!r}", "start it with another --name"
        )
    check_bounds(said)
    check_against(expected, said, "the coordinator")
    if digest not in (None, said["data"]):
        what = f"site {client} holds other data than it described"
        raise SiteError(what, "start it with that data, or describe it again")
    for part in PARTS if digest else PARTS[:1]:
        if (images := said["images"][part]) != entry[part]:
            kind = {"train": "training", "val": "validation"}.get(part, part)
            what = (
                f"site {client} has {images} {kind} images, the coordinator knows of {entry[part]}"
            )
            raise SiteError(
                what, "start the site with the data that it described, or describe it again"
            )
    check_numbers(said)
    return said


def report(task: Task, message: Message, known: Known, federation: PlannedFederation) -> Report:
    """The report that a message holds. Raises FedcliError for what is no report on this task of this site."""
    scalars, arrays = message
    _check_names(arrays)
    made = unpack(Report, message, device=federation.plan.device)
    n, training = known["images"]["train"], federation.plan
    steps = 0 if task.part == "measure" else training.epochs * math.ceil(n / training.batch_size)
    if made.n != n:
        raise SiteError(f"it answered of {str(made.n)[:40]} training images, and described {n}")
    if made.steps != steps:
        raise SiteError(
            f"it answered after {str(made.steps)[:40]} local steps, where {n} images take {steps}"
        )
    if made.theta.shape != task.theta.shape:
        what = f"of shape {list(made.theta.shape)}, not {list(task.theta.shape)}"
        raise SiteError(f"it answered with a model {what}")
    if made.theta.dtype != task.theta.dtype:
        what = f"of type {_type_of(made.theta)}, not {_type_of(task.theta)}"
        raise SiteError(f"it answered with a model {what}")
    _check_size("its model", arrays["theta"])
    for name, span in federation.layout.spans.items():
        if name.endswith("running_var") and (arrays["theta"][span] < 0).any():
            raise SiteError(f"the variance {name!r} of its model is below 0")
    loss = arrays["loss"]
    if loss.ndim or loss.dtype.kind != "f" or abs(loss) > LARGEST:  # NaN: a policy leaves it out
        raise SiteError("it answered without its loss, or with one that cannot be")
    for name in made.columns:
        _check_column(name, arrays[f"columns/{name}"], n, known)
    return made


def most_bytes(question: Message) -> int | None:
    """The most bytes of arrays that an answer may have, as nobody asked for more; None for those of any message."""
    scalars, arrays = question
    if scalars.get("ask") == BEGIN:
        return 0
    if scalars.get("ask") == TRAIN:
        return SPARE + MODELS * sum(array.nbytes for array in arrays.values())
    return None  # of counts, whose size is that of the classes and groups


def _check_names(arrays: Arrays) -> None:
    """Raises SiteError for arrays that are no part of a report, and for more columns than any method has."""
    columns = [name for name in arrays if name.startswith(COLUMN)]
    if len(columns) > MOST_COLUMNS:
        what = f"it answered with {len(columns)} columns, and no method has over {MOST_COLUMNS}"
        raise SiteError(what, ANOTHER)
    for name in arrays:
        if name not in ("theta", "loss") and not name.startswith(COLUMN):
            raise SiteError(f"it answered with an array {name[:40]!r}, which nobody asked for")


def _type_of(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _check_size(what: str, values: np.ndarray) -> None:
    if values.dtype.kind == "f" and values.size:
        largest = max(values.max(), -values.min())  # NaN where there is one
        if not np.isfinite(largest):
            raise SiteError(
                f"{what} is not finite (NaN or infinity)", "lower --lr if its training diverged"
            )
        if largest > LARGEST:
            raise SiteError(
                f"{what} has numbers beyond {LARGEST:g}", "lower --lr if its training diverged"
            )


def _check_column(name: str, values: np.ndarray, n: int, known: Known) -> None:
    _check_size(f"its column {name!r}", values)
    if name in OF_IMAGES and not _adds_up(values, n):
        raise SiteError(
            f"its column {name!r} counts more than its {n} training images, or fewer than none"
        )
    if name in OF_CLASSES and not known.get("label_noise"):
        shown = known["counts"]["class"].get("train", {})
        described = [shown.get(each) for each in known["classes"]]  # None where it hides a count
        alike = values.shape == (len(described),) and all(
            count in (None, value) for count, value in zip(described, values.tolist(), strict=True)
        )
        if not alike:
            raise SiteError(
                f"its column {name!r} has other numbers of images by class than it described"
            )
    if name == "validation_images" and not _adds_up(values, known["images"]["val"]):
        raise SiteError(
            f"its column {name!r} is not within the {known['images']['val']} that it described"
        )


def _adds_up(values: np.ndarray, most: int) -> bool:
    """Tell whether these are numbers of at most so many images; none of them may make the sum run over."""
    return bool((values >= 0).all() and (values <= most).all() and values.sum() <= most)


def odd_ones(reports: Mapping[str, Report], agreed: dict[str, Any]) -> dict[str, SiteError]:
    """Who reported other columns than most sites did; of equally many, than in the round before, or than the fewest.

    agreed: changed here; the columns (name, shape, type) that a part of a round had.
    """
    forms = {client: _form(report) for client, report in reports.items()}
    if not forms:
        return {}
    part = "train" if any(report.steps for report in reports.values()) else "measure"
    every, before = list(forms.values()), agreed.get(part)
    usual = agreed[part] = max(
        every, key=lambda form: (every.count(form), form == before, -len(form))
    )
    wrong = {}
    for client, form in forms.items():
        if form != usual:
            name = next(name for name in (*form, *usual) if form.get(name) != usual.get(name))
            what = f"site {client} sent the column {name!r} in another form than the others"
            wrong[client] = SiteError(
                what, "every client must report the same names, each of one shape and type"
            )
    return wrong


def _form(report: Report) -> dict[str, tuple[list[int], str]]:
    """The shape and the type of each column, by name."""
    columns = sorted(report.columns.items())
    return {name: (list(value.shape), str(value.dtype)) for name, value in columns}


class Lengths:
    """Lengths of the sites' updates and columns beside one another, over the rounds of a run."""

    def __init__(self) -> None:
        self.far: dict[
            str, str
        ] = {}  # site -> the sentence on its update that was much longer than the others'

    def check(
        self, theta: Tensor, reports: Mapping[str, Report], round: int
    ) -> dict[str, SiteError]:
        """Who sent what no training makes; warns of updates that are only far longer than the others'.

        theta: the model [P] that was sent. reports: of the same columns.
        """
        wrong: dict[str, SiteError] = {}
        model, names = (
            _length(theta),
            next(({UPDATE, *report.columns} for report in reports.values()), set()),
        )
        for name in sorted(names):
            sent = {
                c: report.theta - theta if name == UPDATE else report.columns[name]
                for c, report in reports.items()
            }
            lengths = {client: _length(vector) for client, vector in sent.items()}
            for client, length in lengths.items():
                others = [other for who, other in lengths.items() if who != client]
                usual = float(np.median(others)) if others else 0.0
                if length > TOO_FAR * max(
                    usual, model, reports[client].n
                ):  # a column may be a sum over images
                    what = f"site {client}: its {name} has a length of {length:.3g}, the others' {usual:.3g}"
                    wrong[client] = SiteError(
                        f"{what}, the model {model:.3g}", "lower --lr if its training diverged"
                    )
                elif name == UPDATE and usual and length > FAR * usual and client not in self.far:
                    times = f"{length / usual:.3g} times as long as the others'"
                    self.far[client] = f"the update of site {client} in round {round} is {times}"
                    console.warn(
                        f"{self.far[client]} (median): it may train with other settings, or send a wrong model"
                    )
        return wrong

    def blamed(self, error: SiteError) -> SiteError:
        """The error on a model that is not finite, with who may have bent the model it began with."""
        before = "".join(f"; before, {sentence}" for sentence in [*self.far.values()][:1])
        return SiteError(error.sentence, error.hint + before)


def _length(vector: Tensor) -> float:
    numbers = vector if vector.is_floating_point() else vector.double()
    return float(torch.linalg.vector_norm(numbers, dtype=torch.float64))


def counts(message: Message, known: Known) -> Answer:
    """Check what a site counts of a model on its test images. Raises SiteError where it cannot be that."""
    scalars, arrays = message
    images, classes = known["images"]["test"], len(known["classes"])
    versions = sorted({name.partition("/")[0] for name in arrays})
    if CLEAN not in versions or versions[1:] not in ([], [CORRUPTED]):
        raise SiteError("it answered without counts", ANOTHER)
    made: dict[str, Tallies] = {}
    for version in versions:
        for key in keys(known["attributes"]):
            start = f"{version}/{key}/"
            own = {
                name.removeprefix(start): array
                for name, array in arrays.items()
                if name.startswith(start)
            }
            tally = Tally.of_arrays(own, classes, images)
            if tally is None:
                raise SiteError(
                    f"site {known['client']} answered with counts of {key!r} that cannot be",
                    ANOTHER,
                )
            made.setdefault(version, {})[key] = tally
        _check_groups(made[version], known["attributes"])
    left_out = scalars.get("left_out", 0)
    if type(left_out) is not int or not 0 <= left_out <= images:
        what = f"site {known['client']} leaves out {str(left_out)[:40]!r} images, which is no number of its {images}"
        raise SiteError(what, ANOTHER)
    shown = known["counts"]["class"].get("test", {})
    described = [
        shown.get(name) or 0 for name in known["classes"]
    ]  # a hidden class is left out of every count
    for tallies in made.values():
        counted = tallies[ALL].table.sum(1).tolist()  # [C]
        if counted != described or sum(counted) + left_out != images:
            what = f"it counts {counted} test images by class and leaves out {left_out}"
            raise SiteError(
                f"{what}, where it described {described} of {images}"[:300],
                "describe the site again",
            )
    classes_by_place = enumerate(known["classes"])
    hidden_classes = [c for c, name in classes_by_place if shown.get(name, 0) is None]
    answer = Answer(
        made,
        bool(scalars.get("corrupted")),
        left_out,
        frozenset(hidden_classes),
        _hidden_groups(scalars, known["attributes"]),
        {name: known["counts"].get(name, {}).get("test", {}) for name in known["attributes"]},
        _smallest(scalars),
    )
    _check_sizes(answer, known["attributes"])
    return answer


def _hidden_groups(scalars: Mapping[str, Any], attributes: dict[str, list[str]]) -> frozenset[str]:
    """Keys of the groups that an answer says are not complete. Raises SiteError."""
    hidden = scalars.get("hidden", [])
    groups = {key for key in keys(attributes) if key != ALL}
    is_list = isinstance(hidden, list) and all(isinstance(key, str) for key in hidden)
    if not is_list or not groups.issuperset(hidden):
        raise SiteError(f"it hides {str(hidden)[:40]!r}, which are no groups", ANOTHER)
    return frozenset(hidden)


def _smallest(scalars: Mapping[str, Any]) -> int:
    """The least number of images of a cell that a site shows. Raises SiteError."""
    smallest = scalars.get("smallest_cell", 1)
    if type(smallest) is not int or not 1 <= smallest <= MOST_IMAGES:
        raise SiteError(f"its smallest cell is {str(smallest)[:40]!r}, which is no count", ANOTHER)
    return smallest


def _check_sizes(answer: Answer, attributes: Mapping[str, list[str]]) -> None:
    """Raises SiteError where a group has more images than were described, or lacks some and is not hidden."""
    for name, values in attributes.items():
        for g, value in enumerate(values):
            key = f"{name}/{g}"
            images = answer.groups[name].get(value, 0)
            if images is None:
                continue
            is_whole = key not in answer.hidden_groups and not answer.hidden_classes
            for tallies in answer.versions.values():
                counted = tallies[key].images
                if counted > images or (is_whole and counted < images):
                    what = f"it counts {counted} test images of {name} {value}, where it described {images}"
                    raise SiteError(what[:300], "describe the site again")


def _check_groups(tallies: Tallies, attributes: Mapping[str, list[str]]) -> None:
    """Raises SiteError where the groups of an attribute hold together what all images do not."""
    for name, values in attributes.items():
        for part, whole in tallies[ALL].arrays().items():
            if (
                values
                and (
                    sum(tallies[f"{name}/{g}"].arrays()[part] for g in range(len(values))) > whole
                ).any()
            ):
                raise SiteError(
                    f"its counts by {name!r} hold more than those of all images", ANOTHER
                )
