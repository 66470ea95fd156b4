"""Figures of runs, for the command and for Python."""

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import console
from ..common_options import WORK
from ..data import last_used
from ..errors import FedcliError, UsageError, nearest
from ..figures.figure import Figure
from ..options import Source
from ..scores.evaluation_options import EvaluateOptions
from . import collect, named_runs
from .call import listed

if TYPE_CHECKING:
    import pandas

    from ..figures.series import Record


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

    def save(self, path: Source) -> Path:
        """Write the picture as .png, .svg or .pdf."""
        from ..figures import drawing

        drawing.write(self.figure.draw(self.frame), Path(path))
        return Path(path)

    def __repr__(self) -> str:
        return f"{self.frame.attrs.get('title', self.figure.name)}\n{self.frame}"

    def _repr_html_(self) -> str:
        from ..figures import drawing

        picture = self.figure.draw(self.frame)
        with drawing.styled(drawing.IN_FILES):
            drawing.drawn(picture).savefig(made := io.BytesIO(), format="png")
        image = base64.b64encode(made.getvalue()).decode()
        return f'<img alt="{html.escape(picture.title)}" src="data:image/png;base64,{image}">'


def plot(
    name: str, runs: Source | Sequence[Source] = (), *, work: Source = WORK, **options: Any
) -> Plot:
    """Draw a figure of runs; a notebook shows it, and save() writes it. Raises FedcliError, UsageError.

    Args:
        name: of the figure, such as "curves"; `fedcli plot --help` lists them.
        runs: one or several, by path or by name; default: those under work, or the one that played last.
        work: folder that results are looked for in.
        options: those of the figure, as `fedcli plot NAME --help` lists them, such as series=["loss"].
    """
    from ..figures.kinds import find

    with console.watched():
        figure = find(name)
        for option in options:
            if option not in figure.parameters:
                hint = nearest(option, figure.parameters)
                raise UsageError(f"{name} has no option {option!r}", hint)
        return drawn(
            figure, runs_of(listed(runs), Path(work), figure.every), options, given=bool(runs)
        )


def drawn(figure: Figure, paths: Sequence[Path], options: dict[str, Any], *, given: bool) -> Plot:
    """The figure of these runs. given: whether they were named. Raises FedcliError, UsageError."""
    if len(paths) > 1 and figure.of in ("path", "system"):
        raise UsageError(f"{figure.name} draws one run at a time", "give one")
    from ..figures.report import of_sample

    subject = _subject(figure, paths)
    frame = figure.frame(subject, **options, **_beside(figure, given))
    of_systems = {"system": [subject], "systems": subject}.get(figure.of, ())
    return Plot(figure, of_sample(frame, of_systems))


def runs_of(given: Sequence[Source], work: Path, every: bool) -> list[Path]:
    """The runs that paths and names mean; of none all under work, or the one that played last. Raises FedcliError."""
    if given:
        names = [each for each in given if named_runs.is_name(each)]
        return [
            *map(Path, (each for each in given if each not in names)),
            *named_runs.every(names, work),
        ]
    if every:
        return collect.every_run(work)
    records = list(work.glob("runs/*/rounds.jsonl"))
    if not records:
        last_used.check_open(work)
        raise FedcliError(
            f"no run under {work}", "train one with fedcli train METHOD, or give its folder"
        )
    newest = max(records, key=last_used.age).parent
    console.say(f"using {newest}")
    return [newest]


def _subject(figure: Figure, paths: Sequence[Path]) -> Any:
    from ..figures import names, series

    if figure.of == "path":
        return paths[0]
    if figure.of in ("runs", "methods"):
        return (names.labels if figure.of == "runs" else names.systems)(
            [series.read(path) for path in paths]
        )
    from ..reporting.columns import POOLED
    from ..reporting.rows import compared, rows

    runs = [run for path in paths for run in collect.runs_in(path)]
    own = compared(rows(collect.scores_of_all(runs, EvaluateOptions()), spread=POOLED))
    if figure.of == "system" and len(own) > 1:
        raise UsageError(
            f"{figure.name} draws one system at a time", f"{paths[0]} holds {len(own)}: give one"
        )
    return own[0] if figure.of == "system" else own


def _beside(figure: Figure, given: bool) -> dict[str, Any]:
    """Arguments of some frames beside their options: whether runs were named, and what scores them."""
    from ..scores.scores import Scores

    def scores(records: "list[Record]") -> list[Scores]:
        runs = [record.folder / "run.json" for record in records]
        return [Scores.read(path) for path in collect.scores_of_all(runs, EvaluateOptions())]

    return {
        name: value
        for name, value in (("runs_named", given), ("scores", scores))
        if name in figure.parameters
    }
