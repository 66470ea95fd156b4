"""The audit of a run as tables, and as a section of the page."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...data import manifest
from ...figures.inline import Panels, of_picture
from ...figures.kinds import reconstructions
from ...scores.audit import finished
from ...scores.audit.membership import ALONE, EQUAL_MIX, RATES
from ..rows import Row
from ..table import Cell, Section, Table, bounded, number

ENDS = "value", "low", "high"
NUMBERS = {
    "auc": "AUC",
    EQUAL_MIX: "AUC at equal class mix",
    ALONE: "AUC by class alone",
    **{f"tpr {rate:g}": f"TPR at {100 * rate:g} % FPR" for rate in RATES},
    "advantage": "advantage",
}
LEGEND = (
    "In percent, with 95 % intervals over patients; an AUC of 50 is chance. AUC at equal class mix: "
    "held-out images are weighted until each class weighs as much as in training, so that the mix of "
    "classes plays no part. AUC by class alone: the same attack with the mean of the held-out images "
    "of a class for each image. TPR at 1 % FPR: the share of training images that are found where one "
    "held-out image in a hundred is taken for one; - with fewer held-out images than that. The "
    "advantage is TPR minus FPR of who guesses by the mean training loss. † marks fewer than 30 "
    "training or held-out images."
)
SHARED = (
    " A client without held-out images of its own is compared with all test images: that those are of other classes or "
    "hospitals looks like membership."
)
ALLOWED = "No attack on a single image can exceed these numbers, whatever it knows. None of them is about hospitals."
HOSPITAL = (
    "Balanced accuracy of a linear classifier in %, cross-validated by patient, with its 95 % interval. By class alone: "
    "a guess that knows only the class of each image. Within a class: the classifier on images of one class, the mean "
    "over classes with 5 patients at two hospitals, where only what is above chance is more than the case mix."
)
OLDER = "the audit is older than the comparison with the case mix: audit the run again"
INVERSION = (
    "PSNR in dB, high for similar images; below it that of the mean test image, the guess of who sees no gradient, and "
    "that of the mean test image of its class, the guess of who also knows the label. Distance is 1 minus the cosine of "
    "the two gradients."
)


def of_run(run: Path) -> dict[str, Any]:
    """The newest audit of a run, {} where there is none. Raises FedcliError."""
    found = finished.newest(manifest.find(run, "run"))
    return manifest.read(found, "audit").body if found else {}


def tables(body: dict[str, Any], name: str = "") -> Iterator[Table]:
    """The tables of an audit. name: of its run, where there are several."""
    of = f", {name}" if name else ""
    rows = body["membership"]
    for attack in dict.fromkeys(row["attack"] for row in rows):
        made = [row for row in rows if row["attack"] == attack]
        shown = [key for key in NUMBERS if any(key in row["numbers"] for row in made)]
        lines = [
            [
                _whose(row),
                row["members"],
                row["held_out"],
                *(_interval(row["numbers"].get(key), doubtful=row["small"]) for key in shown),
            ]
            for row in made
        ]
        heads = ["images of", "training", "held out", *(NUMBERS[key] for key in shown)]
        title = f"Is an image one of the training images? By {attack}{of}"
        yield Table.of(title, heads, lines, LEGEND + SHARED * body["shared_tests"])
    bounds = _bounds(rows)
    if bounds:
        shown = _bounded_numbers(rows, bounds)
        lines = []
        for whose, most in bounds.items():
            percents = [f"{100 * most[key]:.1f}" for key in shown]
            lines.append([whose, f"{most['epsilon']:.3g}", *percents])
        heads = ["images of", "epsilon", *(NUMBERS[key] for key in shown)]
        yield Table.of(f"At most, by differential privacy{of}", heads, lines, ALLOWED)
    if body["hospital"]:
        lines = [_probe_line(row) for row in body["hospital"]]
        heads = ["from", "hospitals", "count", "balanced accuracy", "by class alone", "chance"]
        heads += ["within a class", "chance within a class"]
        yield Table.of(f"Of which hospital is it?{of}", heads, lines, HOSPITAL)
    if inversion := body["inversion"]:
        images = range(len(inversion["blind"]))
        lines = []
        for made in inversion["models"]:
            nearness = dict(enumerate(made["psnr"]))
            cells = (number(nearness.get(k), digits=1) for k in images)
            lines.append([f"{made['model']} model", f"{made['distance']:.3f}", *cells])
        lines.append(["mean image", None, *_decibels(inversion["blind"])])
        if "blind_by_class" in inversion:
            means = _decibels(inversion["blind_by_class"])
            lines.append(["mean image of its class", None, *means])
        heads = ["from the gradient at the", "distance", *(f"image {k + 1}" for k in images)]
        yield Table.of(
            f"An image rebuilt from a gradient of {inversion['client']}{of}",
            heads,
            lines,
            INVERSION,
        )


def sentences(body: dict[str, Any], name: str = "") -> Iterator[str]:
    """Sentences on what these tables show of all images. name: of its run, where there are several."""
    of = f"{name}: " if name else ""
    if caution := body.get("caution"):  # which older audits lack
        yield f"{of}{caution}"
    for row in body["membership"]:
        if row["attribute"] == "" and row["numbers"].get("auc", {}).get("low") is not None:
            yield f"{of}Membership by {row['attack']}: {_membership(row['numbers'])}"
    for row in body["hospital"]:
        yield f"{of}{_hospital(row)}"
    inversion = body["inversion"]
    for row in inversion["models"] if inversion else ():
        yield f"{of}Gradient of the {row['model']} model: {_inversion(row['psnr'], inversion)}"


def _membership(numbers: dict[str, Any]) -> str:
    """The AUC, and the one at an equal mix of classes, which older audits lack."""
    verdict = "differ" if numbers["auc"]["low"] > 0.5 else "do not differ significantly"
    sentence = f"training images {verdict} from held-out ones, AUC {_interval(numbers['auc']).text}"
    equal_mix = numbers.get(EQUAL_MIX, {})
    if equal_mix.get("low") is None:
        return sentence
    more = "more" if equal_mix["low"] > 0.5 else "not significantly more"
    return (
        f"{sentence}; with the same mix of classes in both {_interval(equal_mix).text}, {more} than the mix of "
        "classes reveals"
    )


def _hospital(row: dict[str, Any]) -> str:
    """The hospital by answers or gradients: within a class, where the case mix says nothing."""
    accuracy = _interval(row["accuracy"]).text
    if "within" not in row:
        return f"From {row['of']} the hospital is recognised in {accuracy} %; {OLDER}"
    within = row["within"]
    if within is None or within["accuracy"]["low"] is None:
        alone = _interval(row["by_class"]).text
        return (
            f"From {row['of']} the hospital is recognised in {accuracy} %, by class alone in {alone} %; too few are of "
            "one class to tell whether they reveal more than the case mix"
        )
    higher = within["accuracy"]["low"] > within["chance"]
    reveal = "reveal more" if higher else "do not reveal significantly more"
    return (
        f"From {row['of']} the hospital is recognised in {accuracy} %, and within a class in "
        f"{_interval(within['accuracy']).text} %, where chance is {100 * within['chance']:.1f} %: they {reveal} than "
        "the case mix"
    )


def _inversion(psnr: list[float], inversion: dict[str, Any]) -> str:
    """The number of images nearer to their originals than a guess without the gradient."""
    means = [inversion["blind"], inversion.get("blind_by_class", inversion["blind"])]
    guesses = [max(guess) for guess in zip(*means, strict=True)]
    nearer = sum(value > guess for value, guess in zip(psnr, guesses, strict=True))
    guess = "than the mean image"
    if "blind_by_class" in inversion:
        guess += " and the mean image of their class"
    return f"{nearer} of {len(psnr)} rebuilt images nearer to their originals {guess}"


def _bounds(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The most that differential privacy allows, for all images and for those of each client with a bound."""
    bounds = {}
    for row in rows:
        if row["attribute"] in ("", "client") and "epsilon" in (row["allowed"] or {}):
            bounds[_whose(row)] = row["allowed"]
    return bounds


def _bounded_numbers(rows: list[dict[str, Any]], bounds: dict[str, dict[str, float]]) -> list[str]:
    """The numbers of an attack that have a bound, in the order of NUMBERS."""
    measured = {key for row in rows for key in row["numbers"]}
    limited = set.intersection(*(set(most) for most in bounds.values()))
    return [key for key in NUMBERS if key in measured & limited]


def _probe_line(row: dict[str, Any]) -> list[Any]:
    within = row.get("within") or {}
    return [
        row["of"],
        row["hospitals"],
        row["count"],
        _interval(row["accuracy"]),
        _interval(row.get("by_class")),
        f"{100 * row['chance']:.1f}",
        _interval(within.get("accuracy")),
        f"{100 * within['chance']:.1f}" if within else None,
    ]


def _decibels(psnr: list[float]) -> list[Cell]:
    return [number(value, digits=1) for value in psnr]


def _whose(row: dict[str, Any]) -> str:
    return f"{row['attribute']} {row['group']}".strip() or "all"


def _interval(of: dict[str, Any] | None, *, doubtful: bool = False) -> Cell:
    return bounded(*(of[key] for key in ENDS), doubtful=doubtful) if of else Cell()


def section(compared: Sequence[Row]) -> Section:
    """Tables and pictures of the audits of these systems' runs, of each the first run that was audited."""
    made, drawn, said = list[Table](), list[Panels](), list[str]()
    for row in compared:
        run = next((path for path in row.run_files if finished.newest(path)), None)
        if run:
            name = row.name if len(compared) > 1 else ""
            made += tables(of_run(run), name)
            said += sentences(of_run(run), name)
            drawn += (
                [of_picture(reconstructions.draw(reconstructions.frame(run)))]
                if of_run(run)["inversion"]
                else []
            )
    return Section("leakage", "What the models give away", made, drawn, text=said)
