"""A model card and a dataset card of one run, and the evidence for reporting guidelines, as pages
and text.

Source of the cards' parts: Mitchell et al., Model Cards for Model Reporting, FAccT 2019; Gebru et
al., Datasheets for Datasets, CACM 64(12), 2021. What no manifest knows is marked as a person's to
write.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..comparison.cautions import at_chance, unknown_groups
from ..data import manifest
from ..scores.clinical.chosen import OperatingPoint, chosen_points
from ..scores.scores import RunScores
from . import clinical, evidence, single_runs
from .clinical import Facts, rule_in_words
from .dataset_card import card_of
from .page import Document, provenance
from .page.lead import described, facts, generated, sentence
from .rows import SystemRow, compared
from .table import Column, Heads, ReportTable, Section
from .tables import report

WRITE = "A person must write this: {}."
NO_POINTS = (
    "No threshold was chosen: `fedcli evaluate RUN --clinical` chooses one on validation images."
)
NO_SEVERITIES = (
    "Not scored under corruptions: `fedcli evaluate RUN --corrupt KIND` scores test images at "
    "each severity."
)
POINTS_LEGEND = "From the validation images of these data, and for these data alone."
THRESHOLD_HEADS: Heads = [
    "class",
    "threshold chosen for",
    Column("threshold", digits=4),
    "images",
    "chosen on",
]
EVIDENCE_LEAD = (
    "Which field of which manifest is material for an item, with the manifest's sha256; whether "
    "that is enough is for a person to judge. Items are paraphrased: read the guideline itself "
    "before you submit."
)


def cards(row: SystemRow) -> list[Document]:
    """The model card and the dataset card of a system, by its first run."""
    (system,) = compared([row])
    model = Document(
        f"Model card: {system.name}",
        sentence([system]),
        facts([system]),
        [*_model_sections(system, row), *_last_sections(system, _evaluations(system))],
        generated=generated([system]),
        name="model-card",
    )
    return [model, _dataset_card(system)]


def _question(name: str, title: str, question: str) -> Section:
    """A section that a person must write."""
    return Section(name, title, text=[WRITE.format(question)])


def _model_sections(system: SystemRow, row: SystemRow) -> Iterator[Section]:
    runs = [(system.run_name, system.scores)]
    yield _question("use", "Intended use", "what it is for and not for, who uses it, on whom")
    yield Section("data", "Training and test data", provenance.images(system))
    yield replace(provenance.settings([system], False), name="training", title="Training")
    scores = report([row])
    legends = [*scores.measured, " ".join(scores.legends)]
    yield Section("performance", "Performance", scores.tables, text=legends)
    groups = list(single_runs.by_group(system.scored[0]))
    legend = single_runs.legend(system.scores)
    yield Section("groups", "Performance by group", groups, text=legend)
    points = [*_thresholds(system), *clinical.tables(runs)]
    missing = [] if points else [NO_POINTS]
    yield Section("points", "Operating points and calibration", points, text=missing)
    falls = [*single_runs.by_severity(runs), *single_runs.by_severity_and_group(runs)]
    missing = [] if falls else [NO_SEVERITIES]
    yield Section("robustness", "Robustness", falls, text=missing)
    cautions = [*system.shared_patients, at_chance(system.scored), system.warning]
    notes = [*filter(None, cautions), *system.small_groups, *unknown_groups(system.each)]
    which = system.scored[0].which if system.runs > 1 else ""
    notes += single_runs.worst_groups(system.scored[0], which)
    failures = _question(
        "failures",
        "Known failures",
        "in which cases it fails, as seen in its errors",
    )
    yield replace(failures, notes=notes)
    yield _question("ethics", "Risks and limits", "risks, limits, human oversight and monitoring")


def _thresholds(system: SystemRow) -> list[ReportTable]:
    """A line for each threshold that an evaluation of the first run chose, with the data that it is
    for.
    """
    lines = []
    for point in _points(system):
        rule = rule_in_words(point.rule)
        lines.append([point.positive, rule, point.threshold, point.images, point.source])
    if not lines:
        return []
    title = "Thresholds"
    if system.runs > 1:
        title += f": {system.run_name}"
    return [ReportTable.of(title, THRESHOLD_HEADS, lines, POINTS_LEGEND)]


def _points(system: SystemRow) -> list[OperatingPoint]:
    """The thresholds that evaluations of the first run chose."""
    return [point for run in system.run_files[:1] for point in chosen_points(run)]


def _evaluations(system: SystemRow) -> list[Path]:
    """The evaluations that thresholds and operating points are from."""
    choosing = [point.scores for point in _points(system) if point.scores]
    return [*provenance.operating(system), *choosing]


def _dataset_card(system: SystemRow) -> Document:
    scores = system.scores
    path = system.stage("dataset")
    dataset = manifest.read(path) if path else None
    body = dataset.body if dataset else {}
    options = dataset.options if dataset else {}
    title = described(scores)
    if card_of(scores).get("classes", True):
        title = body.get("title", scores.dataset)
    counts = [("Classes", ", ".join(scores.classes))]
    if body.get("count"):
        counts.insert(0, ("Images", f"{body['count']:,}"))
    return Document(
        f"Dataset card: {scores.dataset}",
        f"{title}.",
        counts,
        [*_dataset_sections(system, body, options), *_last_sections(system)],
        generated=generated([system]),
        name="dataset-card",
    )


def _dataset_sections(
    system: SystemRow,
    body: Facts,
    options: Facts,
) -> Iterator[Section]:
    yield _question("motivation", "Motivation", "why the data were collected, by whom, who paid")
    yield Section(
        "composition",
        "Composition",
        provenance.images(system),
        notes=system.shared_patients,
    )
    heads = ["attribute", "images without a value"]
    unknown = ReportTable.of("", heads, body.get("unknown", {}).items())
    yield Section("missing", "Missing values", [unknown] if unknown.rows else [])
    card = card_of(system.scores)
    names = [name for name in ("where", "citation", "notes") if card.get(name)]
    collection = _question(
        "collection",
        "Collection",
        "how and when images were acquired, consent, who labelled them and how",
    )
    yield replace(collection, pairs=[(name.capitalize(), card[name]) for name in names])
    prepared = [
        (name, str(value)) for name, value in options.items() if value not in (None, "", [], {})
    ]
    yield Section("preparation", "Preparation", pairs=prepared)
    yield _question("uses", "Uses", "what the data may and may not be used for")
    yield _question(
        "maintenance",
        "Distribution and maintenance",
        "who keeps the data, and how errors are corrected",
    )


def _last_sections(
    system: SystemRow,
    evaluations: Sequence[Path] = (),
) -> list[Section]:
    """Where all numbers of a card come from, and the licences. evaluations: beside the system's."""
    lineage = replace(
        provenance.lineage([system], evaluations),
        name="provenance",
        title="Provenance",
    )
    return [lineage, Section("licences", "Licences", pairs=_licences(system.scores))]


def _licences(scores: RunScores) -> list[tuple[str, str]]:
    data = card_of(scores).get("licence") or WRITE.format("licence of the data")
    weights = "none: trained from random values"
    if scores.options.get("weights"):
        weights = WRITE.format(f"licence of {scores.options['weights']}")
    model = WRITE.format("licence under which the model is given on")
    return [("Data", data), ("Initial weights", weights), ("This model", model)]


def evidence_page(row: SystemRow, guidelines: Sequence[evidence.Guideline]) -> Document:
    """Every guideline as a table: item, what it asks, what is material for it."""
    sections = []
    counts = []
    for number, guideline in enumerate(guidelines):
        name = guideline["guideline"]
        count = f"{guideline['material']} of {len(guideline['items'])}"
        if guideline["half"]:
            count += f", {guideline['half']} by half"
        counts.append((name, count))
        lines = [_evidence_line(item) for item in guideline["items"]]
        table = ReportTable.of(
            "",
            ["item", "asks for", "state", "material"],
            lines,
        )
        text = f"{guideline['source']}. There is material for {count}."
        sections.append(Section(f"guideline-{number}", name, [table], text=[text]))
    title = f"Evidence for reporting guidelines: {row.run_name}"
    return Document(title, EVIDENCE_LEAD, counts, sections)


def _evidence_line(item: Facts) -> list[str]:
    if not item["answers"]:
        return [item["item"], item["asks"], "open", evidence.PERSON]
    texts = [_answer(answer) for answer in item["answers"]]
    texts += [f"{name}: {evidence.PERSON}" for name in item["without"]]
    return [item["item"], item["asks"], item["state"], "; ".join(texts)]


def _answer(answer: dict[str, str]) -> str:
    return f"{answer['manifest']} {answer['field']} = {answer['value']} ({answer['sha256'][:12]})"
