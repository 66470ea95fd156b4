"""A model card and a dataset card of one run, and the evidence for reporting guidelines, as pages and text.

Source of the cards' parts: Mitchell et al., Model Cards for Model Reporting, FAccT 2019; Gebru et al., Datasheets for
Datasets, CACM 64(12), 2021. What no manifest knows is marked as a person's to write.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..compare.cautions import at_chance
from ..data import manifest
from ..data.sources import card
from ..errors import UsageError
from ..scores.scores import Scores
from . import by_group, clinical, evidence, severities, table_one, writers
from .columns import area
from .page import document, lineage
from .page.systems import System, facts, sentence, systems
from .rows import Row
from .section import Section
from .table import Cell, Column, Table, of_text
from .tables import report

WRITE = "A person must write this: {}."
NO_POINTS = "No operating points: `fedcli evaluate RUN --clinical` chooses thresholds on validation images."
NO_SEVERITIES = (
    "Not scored under corruptions: `fedcli evaluate RUN --corrupt KIND` scores test images at each severity."
)


@dataclass(frozen=True)
class Document:
    """A text with tables, for a file of its own. name: of the file without its ending."""

    name: str
    title: str
    lead: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]

    @property
    def html(self) -> str:
        return document(self.title, self.lead, self.facts, self.sections)

    @property
    def markdown(self) -> str:
        lines = [f"# {self.title}", self.lead, *(f"- {name}: {value}" for name, value in self.facts)]
        for section in self.sections:
            lines += [f"## {section.title}", *section.text, *(f"- {note}" for note in section.notes)]
            lines += [f"- {name}: {value}" for name, value in section.pairs]
            for table in section.tables:
                lines += [f"### {table.title}"] if table.title else []
                lines += [writers.markdown(table), *([table.legend] if table.legend else [])]
        return _paragraphs(lines)


def _paragraphs(lines: Sequence[str]) -> str:
    """Paragraphs with an empty line between, but for the points of one list."""
    text = ""
    for before, line in zip(["", *lines], lines, strict=False):
        text += line if not text else ("\n" if before.startswith("- ") and line.startswith("- ") else "\n\n") + line
    return text + "\n"


def cards(row: Row) -> list[Document]:
    """The model card and the dataset card of a system, by its first run."""
    (system,) = systems([row])
    return [_model(system), _dataset(system)]


def _model(system: System) -> Document:
    scores = system.scores
    named = [(system.name, scores)]
    points, made = list(clinical.tables(named)), report([system.row])
    falls = [*severities.tables(named), *severities.by_group(named)]
    sections = [
        Section("use", "Intended use", text=[WRITE.format("what it is for and not for, who uses it, on whom")]),
        Section("data", "Training and test data", tables=[*_data(system), *table_one.flow_of(system)]),
        replace(lineage.settings([system], False), name="training", title="Training"),
        Section("performance", "Performance", tables=made.tables, text=[made.legend()]),
        Section("groups", "Performance by group", tables=list(_by_group(scores))),
        Section("points", "Operating points and calibration", tables=points, text=[] if points else [NO_POINTS]),
        Section("robustness", "Robustness", tables=falls, text=[] if falls else [NO_SEVERITIES]),
        Section("failures", "Known failures", notes=list(_failures(system)),
                text=[WRITE.format("in which cases it fails, as seen in its errors")]),
        Section("ethics", "Risks and limits", text=[WRITE.format("risks, limits, human oversight and monitoring")]),
        replace(lineage.section([system]), name="provenance", title="Provenance"),
        Section("licences", "Licences", pairs=_licences(scores)),
    ]  # fmt: skip
    return Document("model-card", f"Model card: {system.name}", sentence([system]), facts([system]), sections)


def _dataset(system: System) -> Document:
    scores = system.scores
    known = system.stage("dataset")
    body = manifest.read(known).body if known else {}
    options = manifest.read(known).options if known else {}
    prepared = [(name, str(value)) for name, value in options.items() if value not in (None, "", [], {})]
    missing = [[name, f"{count:,}"] for name, count in body.get("unknown", {}).items()]
    sections = [
        Section("motivation", "Motivation", text=[WRITE.format("why the data were collected, by whom, who paid")]),
        Section("composition", "Composition", tables=[*_data(system), *table_one.flow_of(system)]),
        Section("missing", "Missing values",
                tables=[of_text("", ["attribute", "images without a value"], missing)] if missing else []),
        Section("collection", "Collection", pairs=_origin(scores),
                text=[WRITE.format("how and when images were acquired, consent, who labelled them and how")]),
        Section("preparation", "Preparation", pairs=prepared),
        Section("uses", "Uses", text=[WRITE.format("what the data may and may not be used for")]),
        Section("maintenance", "Distribution and maintenance",
                text=[WRITE.format("who keeps the data, and how errors are corrected")]),
        replace(lineage.section([system]), name="provenance", title="Provenance"),
        Section("licences", "Licences", pairs=_licences(scores)),
    ]  # fmt: skip
    title = body.get("title", scores.dataset)
    count = [("Images", f"{body['count']:,}")] if body.get("count") else []
    return Document("dataset-card", f"Dataset card: {scores.dataset}", f"{title}.", count, sections)


def _data(system: System) -> list[Table]:
    return list(table_one.tables(system.runs[0])) if system.runs else []


def _by_group(scores: Scores) -> Iterator[Table]:
    for table in by_group.tables(scores):
        yield of_text(table.title, table.columns, table.rows, table.worst)


def _failures(system: System) -> Iterator[str]:
    """Failures that the numbers show: chance level, one class for all, the worst group, groups too small to judge."""
    if stuck := at_chance(system.row.scored):
        yield stuck
    yield from filter(None, [system.row.warning])
    yield from system.row.small_groups
    metric = area(system.scores)
    for attribute, versions in system.scores.groups.items():
        for version in versions:
            if edges := system.scores.part().edges(attribute, version, metric):
                (worst, lowest), (_, highest) = edges
                score, gap = f"{100 * lowest:.2f} % {metric}", f"{100 * abs(highest - lowest):.2f} points"
                where = f"{attribute} on {version} images: {worst or None}"
                yield f"worst group by {where}, {score}, {gap} below the best"


def _card(scores: Scores) -> dict[str, Any]:
    try:
        return card(scores.dataset)
    except UsageError:  # images of one's own
        return {}


def _origin(scores: Scores) -> list[tuple[str, str]]:
    known = _card(scores)
    names = {"where": "Where", "citation": "Citation", "notes": "Notes"}
    return [(name, known[key]) for key, name in names.items() if known.get(key)]


def _licences(scores: Scores) -> list[tuple[str, str]]:
    weights = scores.options.get("weights")
    return [
        ("Data", _card(scores).get("licence") or WRITE.format("licence of the data")),
        ("Initial weights", WRITE.format(f"licence of {weights}") if weights else "none: trained from random values"),
        ("This model", WRITE.format("licence under which the model is given on")),
    ]


def evidence_page(row: Row, made: Sequence[evidence.Guideline]) -> Document:
    """Every guideline as a table: item, what it asks, what answers it."""
    sections = []
    for place, each in enumerate(made):
        about = f"{each.source}. {each.filled} of {len(each.items)} items filled."
        sections.append(Section(f"guideline-{place}", each.name, text=[about], tables=[_items(each)]))
    lead = (
        "Which field of which manifest answers an item, with the manifest's sha256; whether that is enough is for a "
        "person to judge. Items are paraphrased: read the guideline itself before you submit."
    )
    filled = [(each.name, f"{each.filled} of {len(each.items)}") for each in made]
    return Document("evidence", f"Evidence for reporting guidelines: {row.name}", lead, filled, sections)


def _items(each: evidence.Guideline) -> Table:
    rows = []
    for item in each.items:
        answers = "; ".join(
            f"{answer.manifest} {answer.field}{f' = {answer.value}' if answer.value else ''} ({answer.sha256[:12]})"
            for answer in item.answers
        )
        rows.append(
            [
                Cell(item.number),
                Cell(item.asks),
                Cell("filled" if item.filled else "open"),
                Cell(answers or evidence.PERSON),
            ]
        )
    return Table("", [Column("item"), Column("asks for"), Column("state"), Column("answered by")], rows)
