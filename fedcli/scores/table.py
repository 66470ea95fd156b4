"""The scores of a run as one long table, scores.csv: a line for each measured number.

    version    of the test images: clean, corrupted, average of both, or a kind and severity of
               `evaluate --corrupt`
    view       how the method was shown the images, "" for its first way
    attribute  and group: whose images; an attribute without a group is a difference between its
               groups
    client     whose images, or "" for all
    label      one of several labels per image; of recalls the group of classes
    model      "" for the run's; personal, mean_personal, global, best on validation, or whose of a
               cross-site test
    metric     as in docs/metrics.md
    measure    "" for a score. Where several models answer, what lies between groups is measured
               too: its mean over the models does not follow from their mean scores
    round      of the model
    value      from 0 to 1, empty where it has no meaning
    low, high  95 % interval of the last round's score; `interval` says how it was drawn, such as
               percentile by image, and `units` from how many
    count      images; `missing`: places of the classes without one; `small`: why these are too few
               to be reliable

Lines of a group of metrics that groups are not compared by are of the last round alone. What
follows from these lines is no part of the file: see views.py.

The container is CSV, as every tool opens it. A run of 10,000 clients has 750,000 lines of 45 MB,
which are collected by whose they are in one pass.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import FedcliError
from ..io.csv_text import FORMULA
from ..io.files import read_text

FILE = "scores.csv"
AGAIN = "remove its folder and evaluate the run again"
HIDDEN = "hidden"  # in place of a number that a site does not say
# in the words on a group whose images it does not count
BY_POLICIES = f"{HIDDEN} by the sites' policies"
BEST = "best on validation"  # the model of the round that validation chose
TRAINED_AT = "trained at "  # before a client's name: whose model was tested at another's
Number = float | None


class Where(NamedTuple):
    """Whose number it is, and of what: the first columns of the table."""

    version: str = ""
    view: str = ""
    attribute: str = ""
    group: str = ""
    client: str = ""
    label: str = ""
    model: str = ""
    metric: str = ""
    measure: str = ""


@dataclass(slots=True)
class Score:
    """One metric over rounds.

    Attributes:
        values: of each round, None where it has no meaning.
        missing: places of the classes without an image. small: why these are too few images to be
            reliable, or that sites hide some of them; then there is no score, and count is 0 where
            the number of images is hidden too.
        low, high: 95 % interval of the last value, of so many units; interval: how it was drawn, ""
            for none.
    """

    values: list[Number] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    count: int = 0
    missing: tuple[int, ...] = ()
    small: str = ""
    low: Number = None
    high: Number = None
    interval: str = ""
    units: int = 0

    @property
    def hidden(self) -> bool:
        """Tell whether sites hide some of these images, so that they have no score."""
        return BY_POLICIES in self.small

    @property
    def size(self) -> str:
        """The number of these images in words."""
        return HIDDEN if self.hidden else f"{self.count:,}"

    @property
    def unit(self) -> str:
        """The unit that its interval draws: image, or patient or lesion."""
        return self.interval.partition(" by ")[2]

    @property
    def is_bca(self) -> bool:
        """Tell whether its interval is a BCa interval."""
        return self.interval.startswith("bca")

    @property
    def last(self) -> Number:
        return self.values[-1] if self.values else None

    @property
    def mean(self) -> Number:
        """The mean over the rounds.

        Labels do not change, so that a metric is defined in all rounds or in none.
        """
        return self.mean_of_rounds

    @property
    def mean_of_rounds(self) -> Number:
        """The mean of the rounds' values, of whatever kind the score is."""
        numbers = self._numbers
        return _mean(numbers) if numbers else None

    @property
    def _numbers(self) -> list[float]:
        """The values of the rounds; none where one of them has no meaning."""
        numbers = [value for value in self.values if value is not None]
        return numbers if len(numbers) == len(self.values) else []

    @property
    def std(self) -> Number:
        """Population standard deviation (ddof 0) over the rounds; None of a single one."""
        numbers = self._numbers
        if len(numbers) < 2:
            return None
        mean = _mean(numbers)
        return math.sqrt(_mean([(value - mean) ** 2 for value in numbers]))

    def alone(self) -> "Score":
        """The last round as the only one."""
        return Score([self.last], self.rounds[-1:])


def _mean(numbers: list[float]) -> float:
    """The mean of a few numbers, for which NumPy takes ten times as long."""
    return sum(numbers) / len(numbers)


Table = dict[Where, Score]


def tree(table: Mapping[Where, Score], *columns: str) -> dict[str, Any]:
    """Dicts in dicts: the scores of lines by these columns, of which there are two or more."""
    branches: dict[str, Any] = {}
    keys_of = attrgetter(*columns)
    for where, score in table.items():
        *path, leaf = keys_of(where)
        branch = branches
        for key in path:
            branch = branch.setdefault(key, {})
        branch[leaf] = score
    return branches


KEYS = Where._fields
COLUMNS = *KEYS, "round", "value", "low", "high", "interval", "units", "count", "missing", "small"


def write(path: Path, table: Mapping[Where, Score]) -> None:
    """Write a table, sorted by whose the numbers are: the same scores, the same bytes."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(COLUMNS)
        for where in sorted(table):
            lines.writerows(_lines(where, table[where]))


def _lines(where: Where, score: Score) -> Iterator[Iterable[object]]:
    whose = [_shielded(text) for text in where]
    missing = " ".join(map(str, score.missing))
    images = (score.count, missing, _shielded(score.small))
    for number, value in zip(score.rounds[:-1], score.values, strict=False):
        yield *whose, number, _text(value), "", "", "", "", *images
    interval: tuple[object, ...] = ("", "", "", "")
    if score.interval:
        interval = (_text(score.low), _text(score.high), score.interval, score.units)
    last_value = _text(score.values[-1])
    yield *whose, score.rounds[-1], last_value, *interval, *images


def _text(value: Number) -> str:
    """A score as it is written; "" of none and of what is not finite, which no reader takes."""
    return "" if value is None or not math.isfinite(value) else repr(float(value))


def _shielded(text: str) -> str:
    """A text that a spreadsheet would compute, or that begins so already, with a ' before it."""
    return f"'{text}" if text.startswith((*FORMULA, "'")) else text


def read(path: Path) -> Table:
    """The table of a file. Raises FedcliError where it is none."""
    text = read_text(path, AGAIN)
    lines = csv.reader(io.StringIO(text, newline=""))
    try:
        if tuple(next(lines, [])) != COLUMNS:
            names = ", ".join(COLUMNS)
            raise ValueError(f"its columns are not {names}")
        table = _collected(lines, shielded="'" in text)
    except (ValueError, csv.Error) as error:
        position = f"line {lines.line_num}: " if lines.line_num > 1 else ""
        raise FedcliError(f"{path} is no table of scores: {position}{error}", AGAIN) from None
    _check_rounds(path, table)
    return table


def _check_rounds(path: Path, table: Table) -> None:
    """Raises FedcliError where a score has a round twice, or groups or clients differ in theirs."""
    expected: dict[tuple[object, ...], list[int]] = {}
    for where, score in table.items():
        if len(set(score.rounds)) < len(score.rounds):
            raise FedcliError(f"{path}: {where.metric} has a score of one round twice", AGAIN)
        if where.group or where.client:
            same = where._replace(group="", client="")
            key = (*same, bool(where.group), bool(where.client))
            if expected.setdefault(key, score.rounds) != score.rounds:
                whose = where.group or where.client
                sentence = f"{path}: {where.metric} of {whose} has no score of some rounds"
                raise FedcliError(sentence, AGAIN)


def _collected(lines: Iterable[list[str]], *, shielded: bool) -> Table:
    """The lines of each score together.

    The next line mostly is of the same score, so that it need not be looked for. A report reads a
    hundred tables of two thousand lines, so nothing here is called for each line that can be done
    once for all. shielded: whether a text may begin with a '.
    """
    table: Table = {}
    last_whose: list[str] = []
    score = Score()
    for *whose, number, value, low, high, interval, units, count, missing, small in lines:
        if whose != last_whose:
            last_whose = whose
            where = _where(whose, shielded)
            if where not in table:
                places = tuple(map(int, missing.split())) if missing else ()
                table[where] = Score(
                    [],
                    [],
                    int(count),
                    places,
                    small.removeprefix("'"),
                )
            score = table[where]
        score.values.append(_number(value) if value else None)
        score.rounds.append(int(number))
        if interval:
            score.interval = interval
            score.units = int(units)
            score.low = _number(low) if low else None
            score.high = _number(high) if high else None
    return table


def _where(cells: list[str], shielded: bool) -> Where:
    if len(cells) != len(KEYS):
        count = len(cells) + len(COLUMNS) - len(KEYS)
        raise ValueError(f"{count} cells, not {len(COLUMNS)}")
    if shielded:
        return Where._make(text.removeprefix("'") for text in cells)
    return Where._make(cells)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is no score")
    return number
