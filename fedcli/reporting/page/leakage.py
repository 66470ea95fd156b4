"""The audit of a run as tables, and as a section of the page."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...data import manifest
from ...figures.inline import Panels, of_picture
from ...figures.kinds import reconstructions
from ...scores.audit import finished
from ...scores.audit.membership import RATES
from ..row import Row
from ..table import Cell, Section, Table, bounded, number

ENDS = "value", "low", "high"
NUMBERS = {
    "auc": "AUC",
    **{f"tpr {rate:g}": f"TPR at {100 * rate:g} % FPR" for rate in RATES},
    "advantage": "advantage",
}
LEGEND = (
    "In percent, with 95 % intervals over patients; an AUC of 50 is chance. TPR at 1 % FPR: the share of training "
    "images that are found where one held-out image in a hundred is taken for one; - with fewer held-out images than "
    "that. The advantage is TPR minus FPR of who guesses by the mean training loss. † marks fewer than 30 training or "
    "held-out images."
)
SHARED = (
    " A client without held-out images of its own is compared with all test images: that those are of other classes or "
    "hospitals looks like membership."
)
ALLOWED = "No attack on a single image can exceed these numbers, whatever it knows. None of them is about hospitals."
HOSPITAL = "Balanced accuracy of a linear classifier in %, cross-validated by patient, with its 95 % interval."
INVERSION = (
    "PSNR in dB, high for similar images; beside it that of the mean of all test images, the guess of who sees no "
    "gradient. Distance is 1 minus the cosine of the two gradients."
)


def of_run(run: Path) -> dict[str, Any]:
    """The newest audit of a run, {} where there is none. Raises FedcliError."""
    found = finished.newest(manifest.find(run, "run"))
    return manifest.read(found, "audit").body if found else {}


def tables(body: dict[str, Any], name: str = "") -> Iterator[Table]:
    """The tables of an audit. name: of its run, where there are several."""
    of = f", {name}" * bool(name)
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
    of_whom = [row for row in rows if row["attribute"] in ("", "client")]
    bounds = {_whose(row): row["allowed"] for row in of_whom if "epsilon" in (row["allowed"] or {})}
    if bounds:
        shown = [key for key in NUMBERS if any(key in row["numbers"] for row in rows)]
        lines = [
            [
                whose,
                f"{most['epsilon']:.3g}",
                *(f"{100 * most[key]:.1f}" if key in most else None for key in shown),
            ]
            for whose, most in bounds.items()
        ]
        heads = ["images of", "epsilon", *(NUMBERS[key] for key in shown)]
        yield Table.of(f"At most, by differential privacy{of}", heads, lines, ALLOWED)
    probes = [
        [
            made["of"],
            made["hospitals"],
            made["count"],
            _interval(made["accuracy"]),
            f"{100 * made['chance']:.1f}",
        ]
        for made in body["hospital"]
    ]
    if probes:
        heads = ["from", "hospitals", "count", "balanced accuracy", "chance"]
        yield Table.of(f"Of which hospital is it?{of}", heads, probes, HOSPITAL)
    if inversion := body["inversion"]:
        images = range(len(inversion["blind"]))
        lines = []
        for made in inversion["models"]:
            nearness = dict(enumerate(made["psnr"]))
            cells = (number(nearness.get(k), digits=1) for k in images)
            lines.append([f"{made['model']} model", f"{made['distance']:.3f}", *cells])
        lines.append(["mean image", None, *(number(psnr, digits=1) for psnr in inversion["blind"])])
        heads = ["from the gradient at the", "distance", *(f"image {k + 1}" for k in images)]
        yield Table.of(
            f"An image rebuilt from a gradient of {inversion['client']}{of}",
            heads,
            lines,
            INVERSION,
        )


def sentences(body: dict[str, Any], name: str = "") -> Iterator[str]:
    """Sentences on what these tables show of all images. name: of its run, where there are several."""
    of = f"{name}: " * bool(name)
    if caution := body.get("caution"):  # which older audits lack
        yield f"{of}{caution}"
    for row in body["membership"]:
        if row["attribute"] == "" and (auc := row["numbers"].get("auc")) and auc["low"] is not None:
            verdict = "differ from" if auc["low"] > 0.5 else "do not differ significantly from"
            end = f"{verdict} held-out ones, AUC {_interval(auc).text}"
            yield f"{of}Membership by {row['attack']}: training images {end}"
    for made in body["hospital"]:
        if (low := made["accuracy"]["low"]) is not None:
            verdict = "better than" if low > made["chance"] else "not significantly better than"
            yield f"{of}From {made['of']} the hospital is recognised {verdict} by chance"
    for made in (inversion := body["inversion"] or {}).get("models", ()):
        nearer = sum(
            psnr > blind for psnr, blind in zip(made["psnr"], inversion["blind"], strict=True)
        )
        end = f"of {len(made['psnr'])} rebuilt images nearer to their originals than the mean image"
        yield f"{of}Gradient of the {made['model']} model: {nearer} {end}"


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
