"""The logits behind every score, in their file, and the last round's predictions as tables that other tools read.

logits/<version>/<round>           float32 [N, C], as the method's first view shows the images
logits/<version>@<view>/<round>    the same as another view shows them, which sees no image's group
clients/<row>/logits/...           in place of both where every client of the roster answers for itself
clients/<row>/test                 places of the images in a client's own test part, where it has one
y, id, group/<attribute>           [N]; y of several labels per image [N, L] of 0, 1, and 2 where it is not known
unit                               [N], patient or lesion of each image, where the dataset has it

Of a run whose images are at sites, rebuilt.h5 holds images made from the counts of sites: as many as were counted, with
the decisions that were counted.

<version>/<round>/all/y, .../logits                  int [N] and float32 [N, C], class by class
<version>/<round>/<attribute>/<g>/y, .../logits      of the images of a group, by the place of its value

None of them is an image of a site: the counts do not say which label, group and chances belong together beyond what
they count. Of more than two classes only the decisions are kept, see Tally.rebuilt().
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import metrics
from ..data import manifest
from ..data.pool import texts
from ..errors import FedcliError
from ..io.csv_text import csv_text
from ..io.hdf5 import TEXT, WHOLE, Column, below, create_hdf5, open_hdf5
from ..labels import UNKNOWN
from ..metrics.metric import PROBABILITIES

if TYPE_CHECKING:
    from ..runs.finished import Run

AGAIN = "evaluate the run again"
LOGITS = Column("f", 2)
EXPECTED = {
    "y": Column(WHOLE, (1, 2)),
    "id": Column(TEXT),
    "unit": Column(TEXT, needed=False),
    "group/*": Column(WHOLE),
    "logits/*/*": LOGITS,
    "clients/*/logits/*/*": LOGITS,
    "clients/*/test": Column(WHOLE),
}
Logits = dict[
    str, list[list[np.ndarray]]
]  # version -> kept round -> logits [N, C] of each model that answers
REBUILT = "rebuilt.h5"
OF_REBUILT = {"*/y": Column(WHOLE), "*/logits": Column("f", 2)}
Rebuilt = tuple[np.ndarray, np.ndarray]  # logits float32 [N, C], y int64 [N]
Rounds = dict[
    str, dict[int, np.ndarray]
]  # version, or version@view -> round -> logits float32 [N, C]


@dataclass(frozen=True)
class Predictions:
    """A predictions.h5 in memory.

    Attributes:
        unit: None where the dataset names no patient or lesion.
        groups: attribute -> index of its value, -1 unknown.
        logits: of the one model that answers; {} where every client answers for itself.
        clients: of each client by its row in the roster, where every client answers for itself; else {}.
        tests: row -> places of the client's own test part, where it has one.
    """

    y: np.ndarray  # int64 [N], or [N, L]
    id: np.ndarray  # str [N]
    unit: np.ndarray | None  # str [N]
    groups: dict[str, np.ndarray]  # int64 [N]
    logits: Rounds
    clients: dict[int, Rounds]
    tests: dict[int, np.ndarray]  # int64 [n]


def read(path: Path) -> Predictions:
    """Read a predictions.h5. Raises FedcliError where it is none."""
    with open_hdf5(path, EXPECTED, hint=AGAIN) as file:
        columns = {name: data[()] for name, data in file.items()}
    _check(path, columns)
    rows = [name.split("/")[1] for name in columns if name.startswith("clients/")]
    clients = {int(row): below(columns, f"clients/{row}") for row in sorted(set(rows), key=int)}
    return Predictions(
        y=columns["y"].astype(np.int64),
        id=texts(path, columns["id"]),
        unit=texts(path, columns["unit"]) if "unit" in columns else None,
        groups={name: column.astype(np.int64) for name, column in below(columns, "group").items()},
        logits=_rounds(below(columns, "logits")),
        clients={
            row: _rounds(below(kept, "logits"))
            for row, kept in clients.items()
            if below(kept, "logits")
        },
        tests={row: kept["test"] for row, kept in clients.items() if "test" in kept},
    )


def _check(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Raises FedcliError where two columns are of different images, or a number stands for no class or image."""
    count, logits = len(columns["id"]), [name for name in columns if "logits/" in name]
    for name, column in columns.items():
        if not name.endswith("/test") and len(column) != count:
            raise FedcliError(
                f"{path}: {name} has {len(column):,} rows for {count:,} images", AGAIN
            )
        if name.endswith("/test") and len(column) and not 0 <= column.min() <= column.max() < count:
            raise FedcliError(f"{path}: {name} has places outside of its {count:,} images", AGAIN)
    classes = {columns[name].shape[1] for name in logits}
    if len(classes) > 1:
        raise FedcliError(
            f"{path}: logits are of {min(classes)} and of {max(classes)} classes", AGAIN
        )
    y = columns["y"]
    highest = 2 if y.ndim == 2 else max(classes, default=0) - 1
    if logits and (
        y.size and not 0 <= y.min() <= y.max() <= highest or y.shape[1:] not in ((), (*classes,))
    ):
        raise FedcliError(
            f"{path}: y has labels that are none of its {max(classes)} classes", AGAIN
        )


def _rounds(tables: dict[str, np.ndarray]) -> Rounds:
    """version/round -> logits, as version -> round -> logits, rounds rising."""
    rounds: Rounds = {}
    for name in sorted(tables, key=lambda name: (name.split("/")[0], int(name.split("/")[1]))):
        version, round = name.split("/")
        rounds.setdefault(version, {})[int(round)] = tables[name]
    return rounds


def write(path: Path, run: "Run", views: dict[str, Logits]) -> None:
    """Write predictions.h5. views: "" for the first, else by name."""
    test = run.data.test["clean"]
    size = sum(
        table.nbytes
        for logits in views.values()
        for rounds in logits.values()
        for tables in rounds
        for table in tables
    )
    with create_hdf5(path, size) as file:
        for view, logits in views.items():
            for version, answers in logits.items():
                for round, tables in zip(run.rounds, answers, strict=True):
                    for row, table in enumerate(tables):
                        place = f"clients/{row}/" if len(tables) > 1 else ""
                        file[f"{place}logits/{version}{view and '@' + view}/{round}"] = (
                            table.astype(np.float32)
                        )
        file["y"] = test.y.cpu().numpy().astype(np.uint8 if test.multi_label else np.int16)
        file["id"] = np.char.encode(test.ids, "utf-8")
        if run.data.test_patients is not None:
            file["unit"] = np.char.encode(run.data.test_patients, "utf-8")
        for row, client in enumerate(run.data.roster):
            if len(own := run.data.client_test[client]):
                file[f"clients/{row}/test"] = own
        for name in run.data.attributes:
            file[f"group/{name}"] = test.groups[name].cpu().numpy().astype(np.int16)


def by_image(metric: str) -> bool:
    """Tell whether images of more than two classes have intervals of a metric: of decisions alone."""
    return metrics.get(metric).sees != PROBABILITIES


def read_rebuilt(path: Path) -> dict[str, list[dict[str, Rebuilt]]]:
    """version -> of each kept round: "all" or "attribute/g" -> images. Raises FedcliError where the file is none."""
    rounds: dict[str, dict[int, dict[str, Rebuilt]]] = {}
    with open_hdf5(path, OF_REBUILT, hint="evaluate the run at its sites again") as file:
        for name in sorted(file):
            if name.endswith("/y"):
                version, round, key = name.removesuffix("/y").split("/", 2)
                images = (
                    file[f"{version}/{round}/{key}/logits"][()],
                    file[name][()].astype(np.int64),
                )
                rounds.setdefault(version, {}).setdefault(int(round), {})[key] = images
    return {
        version: [by_round[round] for round in sorted(by_round)]
        for version, by_round in rounds.items()
    }


def to_csv(scores: Path) -> list[Path]:
    """Write the last round's predictions beside a scores.json: predictions.csv of the clean test set and, where there
    is one, predictions-corrupted.csv; of two classes also predictions-binary.csv and predictions-binary-corrupted.csv.

    One row per image: id, unit (patient or lesion, where the dataset has it), label (from 0), prob_0 prob_1 ..., and
    each attribute's value, empty where unknown. Of several labels per image label_0 label_1 ... are 0, 1 or empty.
    Raises FedcliError where every client answers for itself, HashError.

    Source: the columns are those that `fairmedfm score` of the package fairmedfm 0.4.2 (Jin et al., FairMedFM, NeurIPS
    2024, arXiv 2407.00983) finds by itself: label, prob_0 prob_1 ..., and attributes by their names. It scores two
    classes, or one of several against all others with --pos-label and --score-column. Its accuracies and odds are at
    the threshold of the best F1 on the test set, ours at the most likely class; its AUCs are ours, its calibration
    error has ten bins over the chances that occur. Of two classes predictions-binary.csv has what `fmm-fairness
    evaluate` of the package fmm-fairness-eval 0.1.0 asks for: y_true, y_pred and y_score. It is a file of its own, as
    fairmedfm would not know which of two columns is the label.
    """
    body = manifest.verify(scores, "scores").body
    predicted = read(scores.parent / "predictions.h5")
    if not predicted.logits:
        raise FedcliError(
            f"{scores} has no one answer for an image: every client's own model was scored on the whole test set",
            "export a run that has a global model, or whose clients have test parts of their own",
        )
    names = {"clean": "predictions.csv", "corrupted": "predictions-corrupted.csv"}
    written: list[Path] = []
    for version in (version for version in names if version in predicted.logits):
        target = scores.parent / names[version]
        last = predicted.logits[version][body["kept_rounds"][-1]]
        chance = metrics.chances(last, predicted.y)  # [N, C]
        made = {
            target: _labels(predicted.y)
            | {f"prob_{c}": each.tolist() for c, each in enumerate(chance.T)}
        }
        if (
            predicted.y.ndim == 1 and chance.shape[1] == 2
        ):  # the second of two classes against the first
            binary = {
                "y_true": predicted.y.tolist(),
                "y_pred": chance.argmax(1).tolist(),
                "y_score": chance[:, 1].tolist(),
            }
            made[target.with_name(target.name.replace("predictions", "predictions-binary"))] = (
                binary
            )
        whose = {"id": predicted.id} | ({} if predicted.unit is None else {"unit": predicted.unit})
        groups = {
            name: [[*values, ""][at] for at in predicted.groups[name]]
            for name, values in body["attributes"].items()
        }
        for path, answers in made.items():
            columns = whose | answers | groups
            manifest.write_text(path, csv_text([columns, *zip(*columns.values(), strict=True)]))
            written.append(path)
    return written


def _labels(y: np.ndarray) -> dict[str, list]:
    """The columns of what is true: label, or label_0 label_1 ... where an image may have several."""
    if y.ndim == 1:
        return {"label": y.tolist()}
    return {
        f"label_{k}": ["" if has == UNKNOWN else has for has in column.tolist()]
        for k, column in enumerate(y.T)
    }
