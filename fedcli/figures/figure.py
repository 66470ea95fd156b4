"""The registry of figures: each by its name, with the question it answers, its numbers and picture.

A figure is one file of kinds/. `frame(subject, *, ...)` returns its numbers as a tidy frame, a line
for each thing that is drawn, whose `attrs` hold the words; `draw(frame)` makes a picture of it.
Keywords of `frame` that are declared as `Annotated[type, meaning]` are options of
`fedcli plot NAME`; whoever draws it otherwise gives them by name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Literal

from .. import extensions
from ..errors import FedcliError
from .drawing import Picture

if TYPE_CHECKING:
    from pandas import DataFrame

Subject = Literal["runs", "methods", "path", "data", "system", "systems"]


class NothingToDraw(FedcliError):
    """A subject has nothing that a figure shows; a report leaves such a figure out."""


@dataclass(frozen=True)
class Figure:
    """A registered figure.

    Attributes:
        question: what it answers, for the list of figures.
        of: what its frame is made of: runs, name -> series.Record; methods, name -> the records of
            all runs that differ in nothing but the seed; the path of one run or of its data; the
            path of data, by default the newest; a system with its scores (system.System), or
            several. A report draws those of systems, for each `by`, `version` and `metric` that
            their frames take.
        every: whether without a name it is of all runs, and not of the newest.
        usual: whether a report draws it where none are asked for, with the options that its frame
            has by default.
    """

    name: str
    question: str
    of: Subject
    frame: "Callable[..., DataFrame]"
    draw: "Callable[[DataFrame], Picture]"
    every: bool = False
    usual: bool = False

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The keywords of `frame`."""
        keywords = {}
        for name, parameter in signature(self.frame).parameters.items():
            if parameter.kind is Parameter.KEYWORD_ONLY:
                keywords[name] = parameter
        return keywords

    def picture(self, subject: Any, **options: Any) -> Picture:
        """The figure drawn of this. Raises NothingToDraw."""
        frame = self.frame(subject, **options)
        return self.draw(frame)


FIGURES: dict[str, Figure] = {}  # by name; kinds/ fills it


def register(figure: Figure) -> None:
    """Make a figure known by its name. Raises ValueError for a name that is taken."""
    extensions.check_name(figure.name)
    table = extensions.table("figures", FIGURES)
    if figure.name in table:
        raise ValueError(f"there is a figure {figure.name!r} already")
    table[figure.name] = figure


def numbers(frame: "DataFrame") -> list[dict[str, Any]]:
    """The lines of a frame as JSON holds them, None for what is no finite number."""
    import numpy as np

    infinite = frame.isin([np.inf, -np.inf])
    gaps = frame.isna() | infinite
    plain = frame.astype(object)
    with_gaps = plain.mask(gaps, None)
    with_gaps.columns = with_gaps.columns.map(str)
    return with_gaps.to_dict("records")
