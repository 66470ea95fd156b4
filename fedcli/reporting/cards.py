"""A model card and a dataset card of one run, and the evidence for reporting guidelines, as pages and text.

Source of the cards' parts: Mitchell et al., Model Cards for Model Reporting, FAccT 2019; Gebru et al., Datasheets for
Datasets, CACM 64(12), 2021. What no manifest knows is marked as a person's to write.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..comparison.cautions import at_chance
from ..data import manifest
from ..scores.clinical.chosen import chosen_points
from ..scores.scores import Scores
from . import clinical, evidence, single_runs
from .clinical import rule_in_words
from .page import Document, provenance
from .page.lead import described, facts, generated, sentence
from .rows import Row, compared
from .table import Column, Heads, Section, Table
from .tables import Report, report

WRITE = "A person must write this: {}."
NO_POINTS = (
    "No threshold was chosen: `fedcli evaluate RUN --clinical` chooses one on validation images."
)
NO_SEVERITIES = "Not scored under corruptions: `fedcli evaluate RUN --corrupt KIND` scores test images at each severity."


def cards(row: Row) -> list[Document]:
    """The model card and the dataset card of a system, by its first run."""
    (system,) = compared([row])
    return [_model(system, report([row])), _dataset(system)]


def _model(system: Row, made: Report) -> Document:
    scores, named = system.scores, [(system.name, system.scores)]
    points = [*_thresholds(system), *clinical.tables(named)]
    falls = [*single_runs.by_severity(named), *single_runs.by_severity_and_group(named)]
    known = [
        *system.shared_patients,
        at_chance(system.scored),
        system.warning,
        *system.small_groups,
    ]
    sections = [
        Section(
            "use",
            "Intended use",
            text=[WRITE.format("what it is for and not for, who uses it, on whom")],
        ),
        Section("data", "Training and test data", provenance.images(system)),
        replace(provenance.settings([system], False), name="training", title="Training"),
        Section(
            "performance", "Performance", made.tables, text=[*made.measured, " ".join(made.legends)]
        ),
        Section(
            "groups",
            "Performance by group",
            list(single_runs.by_group(system.scored[0])),
            text=single_runs.legend(scores),
        ),
        Section(
            "points", "Operating points and calibration", points, text=[] if points else [NO_POINTS]
        ),
        Section("robustness", "Robustness", falls, text=[] if falls else [NO_SEVERITIES]),
        Section(
            "failures",
            "Known failures",
            notes=[*filter(None, known), *single_runs.worst_groups(system.scored[0])],
            text=[WRITE.format("in which cases it fails, as seen in its errors")],
        ),
        Section(
            "ethics",
            "Risks and limits",
            text=[WRITE.format("risks, limits, human oversight and monitoring")],
        ),
        replace(provenance.lineage([system]), name="provenance", title="Provenance"),
        Section("licences", "Licences", pairs=_licences(scores)),
    ]
    title = f"Model card: {system.name}"
    said = generated([system])
    return Document(
        title, sentence([system]), facts([system]), sections, generated=said, name="model-card"
    )


def _thresholds(system: Row) -> list[Table]:
    """A line for each threshold that an evaluation of the run chose, with the data that it is for."""
    chosen = [point for run in system.run_files[:1] for point in chosen_points(run)]
    lines = [
        [point.positive, rule_in_words(point.rule), point.threshold, point.images, point.source]
        for point in chosen
    ]
    heads: Heads = [
        "class",
        "threshold chosen for",
        Column("threshold", digits=4),
        "images",
        "chosen on",
    ]
    legend = "From the validation images of these data, and for these data alone."
    return [Table.of("Thresholds", heads, lines, legend)] if lines else []


def _dataset(system: Row) -> Document:
    scores, path = system.scores, system.stage("dataset")
    body, options = (manifest.read(path).body, manifest.read(path).options) if path else ({}, {})
    prepared = [
        (name, str(value)) for name, value in options.items() if value not in (None, "", [], {})
    ]
    missing = Table.of("", ["attribute", "images without a value"], body.get("unknown", {}).items())
    known = evidence.card_of(scores)
    origin = [
        (name.capitalize(), known[name])
        for name in ("where", "citation", "notes")
        if known.get(name)
    ]
    sections = [
        Section(
            "motivation",
            "Motivation",
            text=[WRITE.format("why the data were collected, by whom, who paid")],
        ),
        Section("composition", "Composition", provenance.images(system)),
        Section("missing", "Missing values", [missing] if missing.rows else []),
        Section(
            "collection",
            "Collection",
            pairs=origin,
            text=[
                WRITE.format(
                    "how and when images were acquired, consent, who labelled them and how"
                )
            ],
        ),
        Section("preparation", "Preparation", pairs=prepared),
        Section("uses", "Uses", text=[WRITE.format("what the data may and may not be used for")]),
        Section(
            "maintenance",
            "Distribution and maintenance",
            text=[WRITE.format("who keeps the data, and how errors are corrected")],
        ),
        replace(provenance.lineage([system]), name="provenance", title="Provenance"),
        Section("licences", "Licences", pairs=_licences(scores)),
    ]
    title = body.get("title", scores.dataset) if known.get("classes", True) else described(scores)
    count = [("Images", f"{body['count']:,}")] if body.get("count") else []
    shown = [*count, ("Classes", ", ".join(scores.classes))]
    name, said = f"Dataset card: {scores.dataset}", generated([system])
    return Document(name, f"{title}.", shown, sections, generated=said, name="dataset-card")


def _licences(scores: Scores) -> list[tuple[str, str]]:
    weights = scores.options.get("weights")
    return [
        ("Data", evidence.card_of(scores).get("licence") or WRITE.format("licence of the data")),
        (
            "Initial weights",
            WRITE.format(f"licence of {weights}")
            if weights
            else "none: trained from random values",
        ),
        ("This model", WRITE.format("licence under which the model is given on")),
    ]


def evidence_page(row: Row, answered: Sequence[evidence.Guideline]) -> Document:
    """Every guideline as a table: item, what it asks, what is material for it."""
    sections: list[Section] = []
    counts: list[tuple[str, str]] = []
    for number, guideline in enumerate(answered):
        count = f"{guideline['material']} of {len(guideline['items'])}"
        if guideline["half"]:
            count += f", {guideline['half']} by half"
        counts.append((guideline["guideline"], count))
        lines = [_evidence_line(item) for item in guideline["items"]]
        table = Table.of("", ["item", "asks for", "state", "material"], lines)
        about = f"{guideline['source']}. There is material for {count}."
        sections.append(
            Section(f"guideline-{number}", guideline["guideline"], [table], text=[about])
        )
    lead = (
        "Which field of which manifest is material for an item, with the manifest's sha256; whether that is enough is "
        "for a person to judge. Items are paraphrased: read the guideline itself before you submit."
    )
    return Document(f"Evidence for reporting guidelines: {row.name}", lead, counts, sections)


def _evidence_line(item: dict[str, Any]) -> list[str]:
    if not item["answers"]:
        return [item["item"], item["asks"], "open", evidence.PERSON]
    texts = [_answer(answer) for answer in item["answers"]]
    missing = [f"{name}: {evidence.PERSON}" for name in item["without"]]
    return [item["item"], item["asks"], item["state"], "; ".join([*texts, *missing])]


def _answer(answer: dict[str, str]) -> str:
    return f"{answer['manifest']} {answer['field']} = {answer['value']} ({answer['sha256'][:12]})"
