"""The audit of a run as tables, and as a section of the page."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...data import manifest, shared_patients, units
from ...figures.inline import Panels, of_picture
from ...figures.kinds import reconstructions
from ...printed import percents
from ...scores.audit import finished
from ...scores.audit.membership import ALONE, EQUAL_MIX, RATES
from ..rows import Rows
from ..table import Cell, Heads, ReportTable, Section, bounded, number

Facts = dict[str, Any]  # of an audit, as its JSON holds them
NUMBERS = {
    "auc": "AUC",
    EQUAL_MIX: "AUC at equal class mix",
    ALONE: "AUC by class alone",
    **{f"tpr {rate:g}": f"TPR at {100 * rate:g} % FPR" for rate in RATES},
    "advantage": "advantage",
}
LEGEND = (
    "In percent, with 95 % intervals over patients; an AUC of 50 is chance. AUC at equal class "
    "mix: held-out images are weighted until each class weighs as much as in training, so that "
    "the mix of classes plays no part. AUC by class alone: the same attack with the mean of the "
    "held-out images of a class for each image. TPR at 1 % FPR: the share of training images that "
    "are found where one held-out image in a hundred is taken for one; - with fewer held-out "
    "images than that. The advantage is TPR minus FPR of who guesses by the mean training loss. † "
    "marks fewer than 30 training or held-out images."
)
SHARED = (
    " A client without its own held-out images is compared with all test images: "
    "their different classes or hospitals look like membership."
)
ALLOWED = (
    "No attack on a single image can exceed these numbers, whatever it knows. None of them is "
    "about hospitals."
)
HOSPITAL = (
    "Balanced accuracy of a linear classifier in %, cross-validated by patient, with its 95 % "
    "interval. By class alone: a guess that knows only the class of each image. Within a class: "
    "the classifier on images of one class, the mean over classes with 5 patients at two "
    "hospitals, where only what is above chance is more than the case mix."
)
PROBE_HEADS: Heads = [
    "from",
    "hospitals",
    "count",
    "balanced accuracy",
    "by class alone",
    "chance",
    "within a class",
    "chance within a class",
]
SOURCE = (
    "In percent, with 95 % intervals over patients, within classes, the mean over "
    "hospitals and then classes: how often a hospital is named for its own training "
    "images, and for the others' images of the same class. A guess from the class "
    "alone names it equally often for both, so only a difference above 0 is more "
    "than the case mix. A server without secure aggregation sees each hospital's "
    "model; with it, the mean of the models alone. held out: images that no model "
    "was trained on, which show what the look of a hospital's images reveals without "
    "any memory of them. † marks fewer than 30 images."
)
SOURCE_HEADS: Heads = [
    "from",
    "images of",
    "count",
    "of the hospital",
    "of others",
    "difference",
]
TOO_FEW = "too few are of one class to show whether they reveal more than the case mix"
OLDER = "the audit is older than the comparison with the case mix: audit the run again"
INVERSION = (
    "PSNR in dB, high for similar images; below it the PSNR of the mean test image, "
    "the guess of an attacker without the gradient, and of the mean test image of "
    "its class, the guess of one who also knows the label. Distance is 1 minus the "
    "cosine of the two gradients."
)


def of_run(run: Path) -> Facts:
    """The newest audit of a run, {} where there is none. Raises FedcliError."""
    audit = finished.newest(manifest.find(run, "run"))
    return manifest.read(audit, "audit").body if audit else {}


def tables(
    body: Facts,
    name: str = "",
    noun: str = units.PATIENT,
) -> Iterator[ReportTable]:
    """The tables of an audit. name: of its run, where there are several. noun: of the dataset's
    ids.
    """
    for table in _tables(body, f", {name}" if name else ""):
        yield replace(table, legend=units.worded(table.legend, noun))


def _tables(body: Facts, ending: str) -> Iterator[ReportTable]:
    yield from _attacks(body, ending)
    yield from _allowed(body["membership"], ending)
    if body["hospital"]:
        lines = [_probe_line(row) for row in body["hospital"]]
        yield ReportTable.of(f"Of which hospital is it?{ending}", PROBE_HEADS, lines, HOSPITAL)
    if body.get("source"):  # which older audits lack
        lines = [_source_line(row) for row in body["source"]]
        title = f"Whose training image is it, given its class?{ending}"
        yield ReportTable.of(title, SOURCE_HEADS, lines, SOURCE)
    if body["inversion"]:
        yield _rebuilt(body["inversion"], ending)


def _attacks(body: Facts, ending: str) -> Iterator[ReportTable]:
    """A table of each attack on membership, with the numbers that it has."""
    rows_by_attack: dict[str, list[Facts]] = {}
    for row in body["membership"]:
        rows_by_attack.setdefault(row["attack"], []).append(row)
    legend = LEGEND + SHARED if body["shared_tests"] else LEGEND
    for attack, rows in rows_by_attack.items():
        measured = set().union(*(row["numbers"] for row in rows))
        keys = [key for key in NUMBERS if key in measured]
        lines = []
        for row in rows:
            cells = [_interval(row["numbers"].get(key), doubtful=row["small"]) for key in keys]
            lines.append([_images(row), row["members"], row["held_out"], *cells])
        heads = ["images of", "training", "held out", *map(NUMBERS.__getitem__, keys)]
        title = f"Is an image one of the training images? By {attack}{ending}"
        yield ReportTable.of(title, heads, lines, legend)


def _allowed(rows: list[Facts], ending: str) -> Iterator[ReportTable]:
    """The most that differential privacy allows, for all images and for those of each client with a
    bound.
    """
    bounds = {}
    for row in rows:
        if row["attribute"] in ("", "client") and "epsilon" in (row["allowed"] or {}):
            bounds[_images(row)] = row["allowed"]
    if not bounds:
        return
    measured = set().union(*(row["numbers"] for row in rows))
    limited = measured.intersection(*bounds.values())
    keys = [key for key in NUMBERS if key in limited]
    lines = []
    for images, bound in bounds.items():
        cells = [percents(bound[key]) for key in keys]
        lines.append([images, f"{bound['epsilon']:.3g}", *cells])
    heads = ["images of", "epsilon", *map(NUMBERS.__getitem__, keys)]
    yield ReportTable.of(f"At most, by differential privacy{ending}", heads, lines, ALLOWED)


def _rebuilt(inversion: Facts, ending: str) -> ReportTable:
    """The nearness of the images that each model's gradient gives, and of guesses without it, to
    the originals.
    """
    count = len(inversion["blind"])
    lines = []
    for model in inversion["models"]:
        cells = _decibels(model["psnr"][:count])
        cells += [Cell()] * (count - len(cells))
        lines.append([f"{model['model']} model", f"{model['distance']:.3f}", *cells])
    lines.append(["mean image", None, *_decibels(inversion["blind"])])
    if "blind_by_class" in inversion:
        lines.append(["mean image of its class", None, *_decibels(inversion["blind_by_class"])])
    images = [f"image {k}" for k in range(1, count + 1)]
    heads = ["from the gradient at the", "distance", *images]
    title = f"An image rebuilt from a gradient of {inversion['client']}{ending}"
    return ReportTable.of(title, heads, lines, INVERSION)


def sentences(body: Facts, name: str = "") -> Iterator[str]:
    """Sentences on what these tables show of all images. name: of its run, where there are
    several.
    """
    run = f"{name}: " if name else ""
    caution = body.get("caution")  # which older audits lack
    if caution:
        yield f"{run}{caution}"
    shared = shared_patients.of_body(body)
    if shared:
        yield f"{run}{shared}"
    for row in body["membership"]:
        if row["attribute"] == "" and row["numbers"].get("auc", {}).get("low") is not None:
            yield f"{run}Membership by {row['attack']}: {_membership(row['numbers'])}"
    for row in body["hospital"]:
        yield f"{run}{_hospital(row)}"
    for row in body.get("source", ()):
        if not row["attribute"] and not row["group"] and row["difference"]["low"] is not None:
            yield f"{run}{_source(row)}"
    inversion = body["inversion"]
    for model in inversion["models"] if inversion else ():
        yield f"{run}Gradient of the {model['model']} model: {_inversion(model['psnr'], inversion)}"


def _membership(numbers: Facts) -> str:
    """The AUC, and the one at an equal mix of classes, which older audits lack."""
    auc = numbers["auc"]
    verdict = "do not differ significantly from held-out ones"
    if auc["low"] > 0.5:
        verdict = "differ from held-out ones"
    if auc["high"] < 0.5:
        verdict = "differ from held-out ones, which the attack takes for training images more often"
    sentence = f"training images {verdict}, AUC {_interval(auc).text}"
    equal_mix = numbers.get(EQUAL_MIX, {})
    if equal_mix.get("low") is None:
        return sentence
    verdict = "more" if equal_mix["low"] > 0.5 else "not significantly more"
    same_mix = f"with the same mix of classes in both {_interval(equal_mix).text}"
    return f"{sentence}; {same_mix}, {verdict} than the mix of classes reveals"


def _hospital(row: Facts) -> str:
    """The hospital by answers or gradients: within a class, where the case mix says nothing."""
    accuracy = _interval(row["accuracy"]).text
    sentence = f"From {row['of']} the hospital is recognised in {accuracy} %"
    if "within" not in row:
        return f"{sentence}; {OLDER}"
    probe = row["within"]
    if probe is None or probe["accuracy"]["low"] is None:
        return f"{sentence}, by class alone in {_interval(row['by_class']).text} %; {TOO_FEW}"
    higher = probe["accuracy"]["low"] > probe["chance"]
    reveal = "reveal more" if higher else "do not reveal significantly more"
    chance = f"where chance is {percents(probe['chance'])} %"
    within_class = f"within a class in {_interval(probe['accuracy']).text} %, {chance}"
    return f"{sentence}, and {within_class}: they {reveal} than the case mix"


def _source(row: Facts) -> str:
    """The hospital of a training image, against images of others with the same class."""
    verdict = "more" if row["difference"]["low"] > 0 else "not significantly more"
    own = _interval(row["own"]).text
    others = _interval(row["others"]).text
    return (
        f"From {row['server']} a hospital is named for {own} % of its training images and {others} "
        f"% of others' with the same class: {verdict} than the class reveals"
    )


def _inversion(psnr: list[float], inversion: Facts) -> str:
    """The number of images nearer to their originals than a guess without the gradient."""
    guesses = np.array(inversion["blind"])
    guess = "than the mean image"
    if "blind_by_class" in inversion:
        guesses = np.maximum(guesses, inversion["blind_by_class"])
        guess += " and the mean image of their class"
    nearer = np.sum(np.array(psnr) > guesses)
    return f"{nearer} of {len(psnr)} rebuilt images nearer to their originals {guess}"


def _probe_line(row: Facts) -> list[Any]:
    probe = row.get("within") or {}
    return [
        row["of"],
        row["hospitals"],
        row["count"],
        _interval(row["accuracy"]),
        _interval(row.get("by_class")),
        percents(row["chance"]),
        _interval(probe.get("accuracy")),
        percents(probe["chance"]) if probe else None,
    ]


def _source_line(row: Facts) -> list[Any]:
    shares = [row["own"], row["others"], row["difference"]]
    cells = [_interval(share, doubtful=row["small"]) for share in shares]
    return [row["server"], _images(row), row["images"], *cells]


def _decibels(psnr: list[float]) -> list[Cell]:
    return [number(value, digits=1) for value in psnr]


def _images(row: Facts) -> str:
    """The images that a row is of: of a group, or all."""
    return f"{row['attribute']} {row['group']}".strip() or "all"


def _interval(share: Facts | None, *, doubtful: bool = False) -> Cell:
    if not share:
        return Cell()
    return bounded(
        share["value"],
        share["low"],
        share["high"],
        doubtful=doubtful,
    )


def section(compared: Rows) -> Section:
    """Tables and pictures of the audits of these systems' runs, of each the first run that was
    audited.
    """
    every_table: list[ReportTable] = []
    panels: list[Panels] = []
    text: list[str] = []
    for row in compared:
        run = next(filter(finished.newest, row.run_files), None)
        if run:
            body = of_run(run)
            name = row.name if len(compared) > 1 else ""
            every_table += tables(body, name, row.scores.noun)
            text += sentences(body, name)
            if body["inversion"]:
                panels.append(of_picture(reconstructions.draw(reconstructions.frame(run))))
    return Section(
        "leakage",
        "What the models give away",
        every_table,
        panels,
        text=text,
    )
