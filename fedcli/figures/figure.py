"""The registry of figures: what each is called, which question it answers, its numbers and its picture.

A figure is one file of kinds/. `frame(subject, *, ...)` returns its numbers as a tidy frame, a line for each thing that
is drawn, whose `attrs` hold the words; `draw(frame)` makes a picture of it. Keywords of `frame` that are declared as
`Annotated[type, meaning]` are options of `fedcli plot NAME`; whoever draws it otherwise gives them by name.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Literal

from .drawing import Picture

if TYPE_CHECKING:
    from pandas import DataFrame

Subject = Literal["runs", "methods", "path", "systems"]
Options = Mapping[str, str]


@dataclass(frozen=True)
class Figure:
    """A registered figure.

    Attributes:
        question: what it answers, for the list of figures.
        of: what its frame is made of: runs, name -> series.Record; methods, name -> the records of all runs that differ
            in nothing but the seed; the path of one run or of its data; systems with their scores (system.System).
        every: whether without a name it is of all runs, and not of the newest.
        alone: of systems, whether it shows one of them.
        variants: system -> options of each picture that a report draws of it; None where a report has none.
    """

    name: str
    question: str
    of: Subject
    frame: "Callable[..., DataFrame]"
    draw: "Callable[[DataFrame], Picture]"
    every: bool = False
    alone: bool = False
    variants: Callable[[Any], Iterable[Options]] | None = None

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The keywords of `frame`."""
        named = signature(self.frame).parameters.items()
        return {name: parameter for name, parameter in named if parameter.kind is Parameter.KEYWORD_ONLY}

    def picture(self, subject: Any, **options: Any) -> Picture:
        """The figure drawn of this."""
        return self.draw(self.frame(subject, **options))


FIGURES: dict[str, Figure] = {}  # by name; kinds/ fills it


def register(figure: Figure) -> Figure:
    """Make a figure known by its name. Raises ValueError for a name that is taken."""
    if figure.name in FIGURES:
        raise ValueError(f"there is a figure {figure.name!r} already")
    FIGURES[figure.name] = figure
    return figure


def numbers(frame: "DataFrame") -> list[dict[str, Any]]:
    """The lines of a frame as JSON holds them, None for what is no finite number."""
    import numpy as np

    plain = frame.astype(object)
    gaps = frame.isna() | frame.isin([np.inf, -np.inf])
    return [{str(key): value for key, value in line.items()} for line in plain.mask(gaps, None).to_dict("records")]
