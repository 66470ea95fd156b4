"""The one model of a table: what every format is written from, with its marks decided once.

A cell is a number with its spread, or text. At most two marks stand on it: `best`, and DAGGER where
a group too small to be reliable decides the number, which is then never the best. Writers are in
writers.py; the page has its own in page/markup.py.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, product
from typing import TYPE_CHECKING, Any

from ..printed import fixed, percents
from ..scores.table import HIDDEN, Number

if TYPE_CHECKING:
    from ..figures.inline import Panels  # which draws

DAGGER = "†"
NONE = "-"  # what stands where there is no number
SHARES = "%", "points"  # units of numbers that are kept as shares from 0 to 1
OWN_UNITS = tuple(f"({unit})" for unit in SHARES)
# text that starts as a number does; names of metrics hold an underscore
NUMBER = re.compile(r"[!*+−<\s-]*\d[^_]*")


@dataclass(frozen=True)
class Column:
    """A column's heading in two parts: `name`, and what it shares with its neighbours, which stands
    once `over` them.

    Such as "clean", "noisy" and "both" with "balanced accuracy" over them.
    unit: of its numbers, such as "%"; "" where they have none. lower: whether low numbers are
    better.
    digits: behind the point of its numbers; None: as the spreads in the table ask for. key: its
    heading in CSV.
    """

    name: str
    unit: str = ""
    over: str = ""
    lower: bool = False
    digits: int | None = None
    key: str = ""

    @property
    def title(self) -> str:
        """The heading in one part, without its unit."""
        return ", ".join(filter(None, [self.over, self.name]))

    @property
    def heading(self) -> str:
        """The heading in one part, with its unit if the name does not have one of its own below a
        common one.
        """
        if not self.unit or self.name.endswith(OWN_UNITS):
            return self.title
        return f"{self.title} ({self.unit})"

    @property
    def levels(self) -> tuple[str, str]:
        """The heading in two parts, of which the first has the unit where there are two."""
        if not self.over:
            return "", self.heading
        return f"{self.over}, {self.unit}" if self.unit else self.over, self.name

    def cell(self, value: Any) -> "Cell":
        """A value as the column shows it: text as it is, a share in percent, a mean with its std,
        None as a dash.
        """
        if value is None:
            return Cell()
        if isinstance(value, Cell):
            return value
        if isinstance(value, str | int):
            return Cell(value if isinstance(value, str) else f"{value:,}")
        mean, std = (value, None) if isinstance(value, float) else (value.mean, value.std)
        if self.unit in SHARES:
            return percent(mean, std)
        return number(
            mean,
            std,
            digits=2 if self.digits is None else self.digits,
        )


@dataclass(frozen=True)
class Cell:
    """A cell as it is printed, and its numbers in full.

    text, spread: as printed, the spread without its sign. number, std: in the unit of the column.
    whose: the group that a number is of, where the head does not say it.
    """

    text: str = NONE
    spread: str = ""
    number: Number = None
    std: Number = None
    best: bool = False
    doubtful: bool = False
    whose: str = ""
    below: "Cell | None" = None  # a second line, such as the published number

    @property
    def plain(self) -> str:
        """The cell in one line of text, without the mark of the best."""
        text = self.text
        if self.doubtful and text != NONE:
            text += DAGGER
        spread = f"±{self.spread}" if self.spread else ""
        return " ".join(filter(None, [text, spread, self.whose]))

    @property
    def looks_numeric(self) -> bool:
        """Tell whether the text is a number, or in place of one, such as a hidden count."""
        return self.text in ("", NONE, HIDDEN) or bool(NUMBER.match(self.text))

    def rounded(self, digits: int) -> "Cell":
        """The cell with so many digits behind the point."""
        if self.number is None:
            return self
        spread = fixed(self.std or 0.0, digits) if self.spread else ""
        return replace(self, text=fixed(self.number, digits), spread=spread)


Heads = list[Column | str]  # those of text or counts by name alone


@dataclass(frozen=True)
class ReportTable:
    """Rows of cells under columns, with a title above and what the numbers are below."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    legend: str = ""

    @classmethod
    def of(
        cls,
        title: str,
        columns: Sequence[Column | str],
        lines: Iterable[Iterable[Any]],
        legend: str = "",
    ) -> "ReportTable":
        """A table of plain values, each as its column shows it.

        Shares have two digits behind the point if every spread of them is below a point, else one.
        """
        heads = [Column(column) if isinstance(column, str) else column for column in columns]
        is_share = [column.unit in SHARES and column.digits is None for column in heads]
        rows = []
        shares: list[Cell] = []
        for line in lines:
            row = [column.cell(value) for column, value in zip(heads, line)]
            rows.append(row)
            shares += compress(row, is_share)
        digits = 1
        if any(cell.spread for cell in shares) and all((cell.std or 0) < 1 for cell in shares):
            digits = 2
        for row in rows:
            for k in range(len(heads)):
                if is_share[k]:
                    row[k] = row[k].rounded(digits)
        return cls(title, heads, rows, legend)

    @property
    def digits(self) -> int:
        """The digits behind the point of its shares."""
        lengths = [1]
        for column, cells in zip(self.columns, self.cells):
            if column.unit in SHARES:
                lengths += [len(cell.text.partition(".")[2]) for cell in cells]
        return max(lengths)

    @cached_property
    def cells(self) -> list[tuple[Cell, ...]]:
        """The cells of each column."""
        return list(zip(*self.rows)) or [()] * len(self.columns)

    def part(self, indices: Sequence[int]) -> "ReportTable":
        """The columns at these indices alone."""
        columns = [self.columns[k] for k in indices]
        cells = [self.cells[k] for k in indices]
        return replace(self, columns=columns, rows=list(zip(*cells)))

    def unfolded(self) -> "ReportTable":
        """The table with the second lines of cells as rows of their own, for what has one line to a
        row.
        """
        rows: list[Sequence[Cell]] = []
        for row in self.rows:
            rows.append([replace(cell, below=None) for cell in row])
            if any(cell.below for cell in row):
                rows.append([cell.below or Cell("") for cell in row])
        return replace(self, rows=rows)

    @cached_property
    def numeric(self) -> list[bool]:
        """A truth value for each column: some of its cells are numbers, or all could be."""
        columns = []
        for cells in self.cells:
            has_number = any(cell.number is not None for cell in cells)
            columns.append(has_number or all(cell.looks_numeric for cell in cells))
        return columns


@dataclass(frozen=True)
class Section:
    """A topic of a report: a heading and what stands below it, for the page, a card and, as far as
    tables go, as text.

    Attributes:
        name: of its anchor. title: often the question that it answers.
        folded, folded_panels: closed until a reader opens them.
        closed: whether the whole section is.
        pairs: names and values, under a title of their own.
    """

    name: str
    title: str
    tables: Sequence[ReportTable] = ()
    panels: Sequence["Panels"] = ()
    text: Sequence[str] = ()
    folded: Sequence[ReportTable] = ()
    notes: Sequence[str] = ()
    pairs: Sequence[tuple[str, str]] = ()
    pairs_title: str = ""
    findings: Sequence[str] = ()
    folded_panels: Sequence["Panels"] = ()
    closed: bool = False

    @property
    def there(self) -> bool:
        return any(
            (self.tables, self.panels, self.text, self.folded, self.notes, self.folded_panels)
        )


def heads(*names: str, unit: str = "", lower: bool = False) -> list[Column]:
    """Columns that are alike but for their names."""
    return [Column(name, unit, lower=lower) for name in names]


def number(
    value: Number,
    std: Number = None,
    *,
    digits: int = 2,
    sign: str = "",
) -> Cell:
    """A cell of a number. sign: "+" shows that of a positive one too."""
    if value is None:
        return Cell()
    spread = "" if std is None else fixed(std, digits)
    return Cell(fixed(value, digits, sign=sign), spread, value, std)


def percent(
    mean: Number,
    std: Number = None,
    *,
    doubtful: bool = False,
) -> Cell:
    """A cell of a share from 0 to 1, in percent. doubtful: a group too small to be reliable decides
    it.
    """
    if mean is None:
        return Cell()
    return replace(number(100 * mean, None if std is None else 100 * std), doubtful=doubtful)


def bounded(
    value: Number,
    low: Number,
    high: Number,
    *,
    doubtful: bool = False,
    sign: str = "",
) -> Cell:
    """A cell of a share from 0 to 1 with its interval, in percent. sign: as in number()."""
    if value is None:
        return Cell()
    text = percents(value, sign=sign)
    if low is not None and high is not None:
        text += f" ({percents(low)} to {percents(high)})"
    return Cell(text, number=100 * value, doubtful=doubtful)


def mark(
    column: Column,
    cells: Sequence[Cell],
    among: Sequence[str],
    leads: Callable[[int, int], bool],
) -> list[Cell]:
    """The cells of a column with `best` set where it may stand.

    among: of each row what it shares with those it competes with; a row alone has beaten nobody. If
        a small group decides the best number, none is marked.
    leads: whether the row of the first index is significantly better than that of the second, or no
        test can be made. The best has to lead all others. Where no test can be made, values that
        print the same share the mark, unless all print the same.
    """
    best = set()
    best_of = min if column.lower else max
    for key in dict.fromkeys(among):
        rivals = []
        for index, cell in enumerate(cells):
            if among[index] == key and cell.number is not None:
                rivals.append(index)
        numbers = {index: float(cells[index].text) for index in rivals}
        extreme = best_of(numbers.values(), default=0.0)
        leaders = [index for index in rivals if numbers[index] == extreme]
        if len(leaders) == len(rivals) or any(cells[index].doubtful for index in leaders):
            continue
        pairs = [pair for pair in product(leaders, rivals) if pair[0] != pair[1]]
        if all(leads(*pair) for pair in pairs):
            best.update(leaders)
    return [replace(cell, best=index in best) for index, cell in enumerate(cells)]
