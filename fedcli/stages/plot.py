"""Figures of runs, for the command and for Python."""

import base64
import html
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import console
from ..common_options import WORK
from ..data import last_used, not_chosen
from ..errors import FedcliError, UsageError, nearest
from ..figures.figure import Figure
from ..io import outputs
from ..io.csv_text import csv_text
from ..options import Source
from ..scores.evaluation_options import EvaluateOptions
from ..scores.existing import evaluations
from . import collect, named_runs
from .call import listed, source

if TYPE_CHECKING:
    import pandas

    from ..figures.series import Record
    from ..scores.scores import RunScores

SUFFIXES = ".png", ".svg", ".pdf", ".csv"
SHOWN = "by", "severities", "clinical", "shots"  # options that add scores and change no other
OF_ONE = "path", "data", "system"  # what a figure of one run is of


def check_suffix(file: Path) -> None:
    """Raise UsageError for a file that no figure can be written as."""
    if file.suffix.lower() not in SUFFIXES:
        hint = f"let its name end in {' or '.join(SUFFIXES)}"
        raise UsageError(f"{file} is no picture that fedcli draws", hint)


@dataclass(frozen=True, repr=False)
class Plot:
    """A figure drawn: its numbers and its picture.

    Attributes:
        frame: its numbers, a line for each thing that is drawn, in the units that its axes say.
    """

    figure: Figure
    frame: "pandas.DataFrame"

    def to_frame(self) -> "pandas.DataFrame":
        """Its numbers."""
        return self.frame

    def save(self, path: Source, *, force: bool = False) -> Path:
        """Write the picture as .png, .svg or .pdf, or the numbers as .csv.

        force: replace a file that fedcli did not write. Raises FedcliError, UsageError.
        """
        file = Path(path)
        check_suffix(file)
        outputs.refuse_sealed(file)
        content = self.content(file.suffix)
        try:
            outputs.write(file, content, force=force)
        except FedcliError as error:
            if error.hint != outputs.HINT:
                raise
            hint = "give another name, or force=True to replace it"
            raise FedcliError(error.sentence, hint) from None
        return file

    def content(self, suffix: str) -> bytes:
        """The bytes of a file of one of SUFFIXES."""
        from ..figures import drawing

        if suffix.lower() == ".csv":
            cells = self.frame.astype(object)
            with_gaps = cells.where(cells.notna(), None)
            lines = with_gaps.itertuples(index=False, name=None)
            return csv_text([self.frame.columns, *lines]).encode()
        return drawing.picture_bytes(self.figure.draw(self.frame), suffix.lower())

    def __repr__(self) -> str:
        title = self.frame.attrs.get("title", self.figure.name)
        return f"{title}\n{self.frame}"

    def _repr_html_(self) -> str:
        from ..figures import drawing

        picture = self.figure.draw(self.frame)
        file = io.BytesIO()
        with drawing.styled(drawing.IN_FILES):
            drawing.drawn(picture).savefig(file, format="png")
        image = base64.b64encode(file.getvalue()).decode()
        return f'<img alt="{html.escape(picture.title)}" src="data:image/png;base64,{image}">'


def plot(
    name: str,
    runs: Source | Sequence[Source] = (),
    *,
    work: Source = WORK,
    **options: Any,
) -> Plot:
    """Draw a figure of runs; a notebook shows it, and save() writes it.

    Raises FedcliError, UsageError.

    Args:
        name: of the figure, such as "curves"; `fedcli plot --help` lists them.
        runs: one or several, by path or by name; default: those under work, or the one that played
            last.
        work: folder that results are looked for in.
        options: those of the figure, as `fedcli plot NAME --help` lists them, such as
            series=["loss"].
    """
    from ..figures.kinds import find

    with console.watched():
        figure = find(name)
        for option in options:
            if option not in figure.parameters:
                hint = nearest(option, figure.parameters)
                raise UsageError(f"{name} has no option {option!r}", hint)
        paths = paths_of(figure, listed(runs), Path(work))
        return drawn(figure, paths, options, runs_named=bool(runs))


def drawn(
    figure: Figure,
    paths: Sequence[Path],
    options: dict[str, Any],
    *,
    runs_named: bool,
) -> Plot:
    """The figure of these runs. runs_named: whether a person named them.

    Raises FedcliError, UsageError.
    """
    if len(paths) > 1 and figure.of in OF_ONE:
        raise UsageError(f"{figure.name} draws one run at a time", "give one")
    from ..figures.report import of_sample

    subject = _subject(figure, paths)
    # arguments of some frames beside their options
    extras = {"runs_named": runs_named, "scores": _scores, "beside": _beside, "chosen": _chosen}
    arguments = {name: value for name, value in extras.items() if name in figure.parameters}
    frame = figure.frame(subject, **options, **arguments)
    systems = {"system": [subject], "systems": subject}.get(figure.of, ())
    return Plot(figure, of_sample(frame, systems))


def _scores(records: "list[Record]") -> "list[RunScores]":
    """The scores of recorded runs, which are evaluated where they have none."""
    from ..scores.scores import RunScores

    runs = [record.folder / "run.json" for record in records]
    return [RunScores.read(path) for path in collect.scores_of_all(runs, EvaluateOptions())]


def _chosen(records: "list[Record]") -> "list[Record]":
    """Recorded runs of one work folder, but for those that a sweep did not choose."""
    paths = [record.folder / "run.json" for record in records]
    chosen_paths = not_chosen.without(paths, paths[0].parents[2])
    return [record for record, path in zip(records, paths, strict=True) if path in chosen_paths]


def _beside(path: Path) -> Iterator[tuple[Path, "RunScores"]]:
    """Other scores of the same run on the same test images, the newest first."""
    from ..scores.scores import RunScores

    made_of = {}  # path of scores -> their run and test images
    for other, scores in evaluations(path.parent.parent):
        tests = {name: scores.options[name] for name in scores.options if name not in SHOWN}
        made_of[other] = scores.parents, tests
    for other in sorted(made_of, key=last_used.age, reverse=True):
        if other != path and made_of[other] == made_of.get(path):
            yield other, RunScores.read(other)


def paths_of(figure: Figure, sources: Sequence[Source], work: Path) -> list[Path]:
    """The runs or data that a figure draws, see runs_of(); without any one of data the newest. A
    name alone means its newest run where one run is drawn.

    Raises FedcliError.
    """
    if figure.of in OF_ONE and len(sources) == 1 and named_runs.is_name(sources[0]):
        return [named_runs.newest(sources[0], work)]
    if figure.of == "data" and not sources:
        newest = source(None, work, "partition", "corruption")
        return [newest.parent]
    if not sources and "chosen" in figure.parameters:  # it leaves the others out where it has to
        return collect.every_run(work, rejected=True)
    return runs_of(sources, work, figure.every)


def runs_of(sources: Sequence[Source], work: Path, every: bool) -> list[Path]:
    """The runs that paths and names mean; without any all under work, or the one that played last.

    Raises FedcliError.
    """
    if sources:
        names = [source for source in sources if named_runs.is_name(source)]
        paths = [Path(source) for source in sources if source not in names]
        return paths + named_runs.every(names, work)
    if every:
        return collect.every_run(work)
    records = list(work.glob("runs/*/rounds.jsonl"))
    if not records:
        last_used.check_open(work)
        hint = "train one with fedcli train METHOD, or give its folder"
        raise FedcliError(f"no run under {work}", hint)
    newest = max(not_chosen.without(records, work), key=last_used.age).parent
    console.say(f"using {newest}")
    return [newest]


def _subject(figure: Figure, paths: Sequence[Path]) -> Any:
    """The object that a figure draws, see Figure.of."""
    from ..figures import names, series

    if figure.of in ("path", "data"):
        return paths[0]
    if figure.of in ("runs", "methods"):
        records = [series.read(path) for path in paths]
        return names.labels(records) if figure.of == "runs" else names.systems(records)
    from ..reporting.columns import POOLED
    from ..reporting.rows import compared, rows, shortened

    runs = []
    for path in paths:
        runs += collect.runs_in(path)
    scores = collect.scores_of_all(runs, EvaluateOptions())
    systems = compared(shortened(rows(scores, spread=POOLED)))
    if figure.of != "system":
        return systems
    if len(systems) > 1:
        hint = f"{paths[0]} holds {len(systems)}: give one"
        raise UsageError(f"{figure.name} draws one system at a time", hint)
    return systems[0]
