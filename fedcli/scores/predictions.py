"""The logits behind every score in their file, and the last round's predictions as tables.

logits/<version>/<round>           float32 [N, C], as the method's first view shows the images
logits/<version>@<view>/<round>    the same as another view shows them, which sees no image's group
clients/<row>/logits/...           in place of both where every client of the roster answers for
                                   itself
clients/<row>/test                 places of the images in a client's own test part, where it has
                                   one
y, id, group/<attribute>           [N]; y of several labels per image [N, L] of 0, 1, and 2 where it
                                   is not known
unit                               [N], patient or lesion of each image, where the dataset has it

Of a run whose images are at sites, rebuilt.h5 holds images made from the counts of sites: as many
as were counted, with the decisions that were counted.

<version>/<round>/all/y, .../logits                  int [N] and float32 [N, C], class by class
<version>/<round>/<attribute>/<g>/y, .../logits      of the images of a group, by its value's index

None of them is an image of a site: the counts do not say which label, group and chances belong
together beyond what they count. Of more than two classes only the decisions are kept, see
Tally.rebuilt().
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import metrics
from ..data import manifest
from ..data.pool import texts
from ..errors import FedcliError, UsageError, nearest
from ..io.csv_text import csv_text
from ..io.hdf5 import TEXT, WHOLE, ExpectedData, below, create_hdf5, open_hdf5
from ..labels import UNKNOWN
from ..metrics.metric import PROBABILITIES

if TYPE_CHECKING:
    from ..runs.finished import FinishedRun

AGAIN = "evaluate the run again"
LOGITS = ExpectedData("f", 2)
EXPECTED = {
    "y": ExpectedData(WHOLE, (1, 2)),
    "id": ExpectedData(TEXT),
    "unit": ExpectedData(TEXT, needed=False),
    "group/*": ExpectedData(WHOLE),
    "logits/*/*": LOGITS,
    "clients/*/logits/*/*": LOGITS,
    "clients/*/test": ExpectedData(WHOLE),
}
REBUILT = "rebuilt.h5"
OF_REBUILT = {"*/y": ExpectedData(WHOLE), "*/logits": ExpectedData("f", 2)}
Array = np.ndarray
# version -> kept round -> logits [N, C] of each model that answers
Logits = dict[str, list[list[Array]]]
# version, or version@view -> round -> logits float32 [N, C]
Rounds = dict[str, dict[int, Array]]
Rebuilt = tuple[Array, Array]  # logits float32 [N, C], y int64 [N]
CsvColumns = dict[str, list]  # name -> cells


@dataclass(frozen=True)
class Predictions:
    """A predictions.h5 in memory.

    Attributes:
        unit: None where the dataset names no patient or lesion.
        groups: attribute -> index of its value, -1 unknown.
        logits: of the one model that answers; {} where every client answers for itself.
        clients: of each client by its row in the roster, where every client answers for itself;
            else {}.
        tests: row -> places of the client's own test part, where it has one.
    """

    y: Array  # int64 [N], or [N, L]
    id: Array  # str [N]
    unit: Array | None  # str [N]
    groups: dict[str, Array]  # int64 [N]
    logits: Rounds
    clients: dict[int, Rounds]
    tests: dict[int, Array]  # int64 [n]


def read(path: Path) -> Predictions:
    """Read a predictions.h5. Raises FedcliError where it is none."""
    with open_hdf5(path, EXPECTED, hint=AGAIN) as file:
        columns = {name: data[()] for name, data in file.items()}
    _check(path, columns)
    rows = {int(name.split("/")[1]) for name in columns if name.startswith("clients/")}
    clients = {}
    tests = {}
    for row in sorted(rows):
        of_client = below(columns, f"clients/{row}")
        logits = below(of_client, "logits")
        if logits:
            clients[row] = _rounds(logits)
        if "test" in of_client:
            tests[row] = of_client["test"]
    groups = below(columns, "group")
    ids = texts(path, columns["id"])
    units = texts(path, columns["unit"]) if "unit" in columns else None
    group_codes = {name: column.astype(np.int64) for name, column in groups.items()}
    return Predictions(
        y=columns["y"].astype(np.int64),
        id=ids,
        unit=units,
        groups=group_codes,
        logits=_rounds(below(columns, "logits")),
        clients=clients,
        tests=tests,
    )


def _check(path: Path, columns: dict[str, Array]) -> None:
    """Raises FedcliError where two columns do not fit together.

    They are of different images, or a number stands for no class or image.
    """
    count = len(columns["id"])
    widths = set()
    for name, column in columns.items():
        if name.endswith("/test"):
            if len(column) and not 0 <= column.min() <= column.max() < count:
                fault = f"{path}: {name} has places outside of its {count:,} images"
                raise FedcliError(fault, AGAIN)
        elif len(column) != count:
            fault = f"{path}: {name} has {len(column):,} rows for {count:,} images"
            raise FedcliError(fault, AGAIN)
        if "logits/" in name:
            widths.add(column.shape[1])
    if len(widths) > 1:
        fault = f"{path}: logits are of {min(widths)} and of {max(widths)} classes"
        raise FedcliError(fault, AGAIN)
    if widths and not _are_labels(columns["y"], min(widths)):
        fault = f"{path}: y has labels that are none of its {min(widths)} classes"
        raise FedcliError(fault, AGAIN)


def _are_labels(y: Array, classes: int) -> bool:
    """Tell whether y are labels of so many classes, or of so many labels per image."""
    if y.ndim == 2 and y.shape[1] != classes:
        return False
    highest = 2 if y.ndim == 2 else classes - 1
    return not y.size or bool(0 <= y.min() <= y.max() <= highest)


def _rounds(tables: dict[str, Array]) -> Rounds:
    """version/round -> logits, as version -> round -> logits, rounds rising."""
    by_version: dict[str, dict[int, Array]] = {}
    for name, logits in tables.items():
        version, number = name.split("/")
        by_version.setdefault(version, {})[int(number)] = logits
    rounds: Rounds = {}
    for version in sorted(by_version):
        rounds[version] = dict(sorted(by_version[version].items()))
    return rounds


def write(path: Path, run: "FinishedRun", views: dict[str, Logits]) -> None:
    """Write predictions.h5. views: "" for the first, else by name."""
    test = run.data.test["clean"]
    label_type = np.uint8 if test.multi_label else np.int16
    tables = dict(_tables(run, views))
    size = sum(table.nbytes for table in tables.values())
    with create_hdf5(path, size) as file:
        for name, table in tables.items():
            file[name] = table.astype(np.float32)
        file["y"] = test.y.cpu().numpy().astype(label_type)
        file["id"] = np.char.encode(test.ids, "utf-8")
        if run.data.test_patients is not None:
            file["unit"] = np.char.encode(run.data.test_patients, "utf-8")
        for row, client in enumerate(run.data.roster):
            part = run.data.client_test[client]
            if len(part):
                file[f"clients/{row}/test"] = part
        for name in run.data.attributes:
            file[f"group/{name}"] = test.groups[name].cpu().numpy().astype(np.int16)


def _tables(run: "FinishedRun", views: dict[str, Logits]) -> Iterator[tuple[str, Array]]:
    """The logits of every model with their name in the file."""
    for view, logits in views.items():
        suffix = f"@{view}" if view else ""
        for version, rounds in logits.items():
            for number, models in zip(run.rounds, rounds, strict=True):
                name = f"logits/{version}{suffix}/{number}"
                for row, table in enumerate(models):
                    yield f"clients/{row}/{name}" if len(models) > 1 else name, table


def by_image(metric: str) -> bool:
    """Tell whether images of more than two classes have intervals of a metric.

    Metrics of decisions alone have them.
    """
    return metrics.get(metric).sees != PROBABILITIES


def read_rebuilt(path: Path) -> dict[str, list[dict[str, Rebuilt]]]:
    """version -> the images of each kept round by "all" or "attribute/g".

    Raises FedcliError where the file is none.
    """
    rounds: dict[str, dict[int, dict[str, Rebuilt]]] = {}
    with open_hdf5(path, OF_REBUILT, hint="evaluate the run at its sites again") as file:
        for name in sorted(file):
            stem = name.removesuffix("/y")
            if stem == name:
                continue
            version, number, key = stem.split("/", 2)
            logits = file[f"{stem}/logits"][()]
            labels = file[name][()].astype(np.int64)
            images = (logits, labels)
            by_round = rounds.setdefault(version, {})
            by_round.setdefault(int(number), {})[key] = images
    versions = {}
    for version, by_round in rounds.items():
        versions[version] = [by_round[number] for number in sorted(by_round)]
    return versions


def of_scores(scores: Path) -> tuple[dict[str, Any], Predictions]:
    """The record of a scores.json, and the predictions that lie beside it.

    Raises FedcliError where every client answers for itself, or sites answered with counts,
    HashError.
    """
    body = manifest.verify(scores, "scores").body
    path = scores.parent / "predictions.h5"
    if not path.is_file() and (scores.parent / REBUILT).is_file():
        raise FedcliError(
            f"{scores} has no predictions of single images: its sites answered with counts",
            "ask each hospital for the predictions of its own images",
        )
    predicted = read(path)
    if not predicted.logits:
        raise FedcliError(
            f"{scores} has no one answer for an image: every client's own model was scored on the "
            "whole test set",
            "export a run that has a global model, or whose clients have test parts of their own",
        )
    return body, predicted


def columns_of(scores: Path, version: str) -> CsvColumns:
    """The last round's predictions of a version of the test images, as columns by name.

    They are id, unit (patient or lesion, where the dataset has it), label, prob_ with the name of
    each class, and the value of each attribute, None where it is not known. Of several labels per
    image there is label_ with the name of each, which is 0, 1 or None. Raises FedcliError as
    of_scores() does, and UsageError for a version that was not scored.
    """
    body, predicted = of_scores(scores)
    if version not in predicted.logits:
        versions = sorted(name for name in predicted.logits if "@" not in name)
        raise UsageError(f"{scores} has no version {version!r}", nearest(version, versions))
    classes = body["classes"]
    columns = _ids(predicted)
    if predicted.y.ndim == 1:
        columns["label"] = [classes[label] for label in predicted.y]
    else:
        for name, column in zip(classes, predicted.y.T, strict=True):
            labels = [None if y == UNKNOWN else y for y in column.tolist()]
            columns[f"label_{name}"] = labels
    chance = metrics.chances(predicted.logits[version][body["kept_rounds"][-1]], predicted.y)
    for name, column in zip(classes, chance.T, strict=True):
        columns[f"prob_{name}"] = column.tolist()
    for name, cells in _groups(predicted, body).items():
        columns[name] = [cell or None for cell in cells]
    return columns


def _ids(predicted: Predictions) -> CsvColumns:
    """The columns id and, where the dataset names patients or lesions, unit."""
    ids: CsvColumns = {"id": list(predicted.id)}
    if predicted.unit is not None:
        ids["unit"] = list(predicted.unit)
    return ids


def _groups(predicted: Predictions, body: dict[str, Any]) -> CsvColumns:
    """Each attribute's values, "" where one is not known."""
    groups: CsvColumns = {}
    for name, values in body["attributes"].items():
        words = [*values, ""]  # the last stands for an unknown one, -1
        groups[name] = [words[code] for code in predicted.groups[name]]
    return groups


def to_csv(scores: Path) -> list[Path]:
    """Write the last round's predictions beside a scores.json and return the paths.

    They are predictions.csv of the clean test set and, where there is one,
    predictions-corrupted.csv; of two classes also predictions-binary.csv and
    predictions-binary-corrupted.csv.

    One row per image: id, unit (patient or lesion, where the dataset has it), label (from 0),
    prob_0 prob_1 ..., and each attribute's value, empty where unknown. Of several labels per image
    label_0 label_1 ... are 0, 1 or empty. Raises FedcliError where every client answers for itself,
    HashError.

    Source: the columns are those that `fairmedfm score` of the package fairmedfm 0.4.2 (Jin et al.,
    FairMedFM, NeurIPS 2024, arXiv 2407.00983) finds by itself: label, prob_0 prob_1 ..., and
    attributes by their names. It scores two classes, or one of several against all others with
    --pos-label and --score-column. Its accuracies and odds are at the threshold of the best F1 on
    the test set, ours at the most likely class; its AUCs are ours, its calibration error has ten
    bins over the chances that occur. Of two classes predictions-binary.csv has what `fmm-fairness
    evaluate` of the package fmm-fairness-eval 0.1.0 asks for: y_true, y_pred and y_score. It is a
    file of its own, as fairmedfm would not know which of two columns is the label.
    """
    body, predicted = of_scores(scores)
    last = body["kept_rounds"][-1]
    ids = _ids(predicted)
    groups = _groups(predicted, body)
    written: list[Path] = []
    for version, suffix in (("clean", ""), ("corrupted", "-corrupted")):
        if version not in predicted.logits:
            continue
        chance = metrics.chances(predicted.logits[version][last], predicted.y)  # [N, C]
        answers = _labels(predicted.y)
        for c, column in enumerate(chance.T):
            answers[f"prob_{c}"] = column.tolist()
        tables = {f"predictions{suffix}.csv": answers}
        if predicted.y.ndim == 1 and chance.shape[1] == 2:
            tables[f"predictions-binary{suffix}.csv"] = {
                "y_true": predicted.y.tolist(),
                "y_pred": chance.argmax(1).tolist(),
                "y_score": chance[:, 1].tolist(),  # the second of two classes against the first
            }
        for file, columns in tables.items():
            path = scores.parent / file
            whole = ids | columns | groups
            rows = zip(*whole.values(), strict=True)
            manifest.write_text(path, csv_text([whole, *rows]))
            written.append(path)
    return written


def _labels(y: Array) -> CsvColumns:
    """The columns of what is true: label, or label_0 label_1 ... of several labels per image."""
    if y.ndim == 1:
        return {"label": y.tolist()}
    columns = {}
    for k, column in enumerate(y.T):
        labels = ["" if label == UNKNOWN else label for label in column.tolist()]
        columns[f"label_{k}"] = labels
    return columns
