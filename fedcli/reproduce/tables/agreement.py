"""Statistics of our numbers beside published ones: does a printed number lie where ours say, is the order of rows kept.

If the paper's runs and ours differ in their random numbers alone, a printed mean of m runs lies in 95 of 100 cases
within t(n - 1) s sqrt(1/n + 1/m) of our mean of n runs, of sample standard deviation s: the prediction interval for the
mean of m future observations (Hahn and Meeker, Statistical Intervals, 1991, chapter 4), for one run where the paper has
one, plus half a unit of its last digit. Test patients, splits and machines that differ are not in it. Order: Kendall's
tau-b (Biometrika 33, 1945) over the rows of a column, and the share of orders that agree as much: of all, up to
MOST_ROWS rows, else of DRAWN random ones.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations
from math import sqrt
from statistics import median, stdev

import numpy as np

from ...console import counted
from ...metrics.arithmetic import CLOSE
from ...printed import fixed
from ...seeds import derive
from ..record import Cell, Order, Results
from ..shape import Printed

WITHIN, OUTSIDE, FEW, UNKNOWN = "within", "outside", "too few seeds", "-"
LEVEL = 0.95
LEAST_ROWS, MOST_ROWS, DRAWN = 3, 7, 9_999
SIGNIFICANT = 0.05


def half_width(runs: Sequence[float], of: int) -> float | None:
    """Half of the interval around the mean of our runs that has the mean of so many other runs; None of one run."""
    if len(runs) < 2:
        return None
    from scipy.special import stdtrit

    return (
        float(stdtrit(len(runs) - 1, (1 + LEVEL) / 2)) * stdev(runs) * sqrt(1 / len(runs) + 1 / of)
    )


def judged(ours: Cell, published: Printed | None, *, scale: str, sure: bool = False) -> Cell:
    """Our number with the published one, their difference and, at the paper's scale, the verdict.

    sure: whether it does not vary over runs.
    """
    if published is None or ours.mean is None:
        return ours.model_copy(update={"published": published})
    about = {"published": published, "difference": ours.mean - published.mean}
    half = 0.0 if sure else half_width(ours.per_run, published.runs)
    if scale != "paper" or half is None:
        return ours.model_copy(update={**about, "verdict": FEW if scale == "paper" else UNKNOWN})
    half += 0.5 * 10.0**-published.digits
    beyond = max(0.0, abs(ours.mean - published.mean) - half - CLOSE)
    return ours.model_copy(
        update={
            **about,
            "half": half,
            "beyond": beyond or None,
            "verdict": OUTSIDE if beyond else WITHIN,
        }
    )


def tau_b(a: Sequence[float], b: Sequence[float], what: str = "") -> tuple[float, float] | None:
    """Kendall's tau-b of two columns [N], and the share of orders of b with as large a tau; None where one is all ties.

    what: a name for the stream of random orders.
    """
    signs = [
        np.sign(np.round(np.subtract.outer(each, each) / CLOSE)).astype(int)
        for each in map(np.asarray, (a, b))
    ]
    sizes = [int((each != 0).sum()) for each in signs]
    if not all(sizes):
        return None
    every, rows = len(a) <= MOST_ROWS, np.arange(len(a))
    rng = np.random.default_rng(derive("order of rows", what, len(a)))
    orders = (
        np.array(list(permutations(rows)))
        if every
        else rng.permuted(np.tile(rows, (DRAWN, 1)), axis=1)
    )
    found = int((signs[0] * signs[1]).sum())
    others = np.array([(signs[0] * signs[1][np.ix_(order, order)]).sum() for order in orders])
    as_large = int((others >= found).sum())
    p = as_large / len(orders) if every else (1 + as_large) / (1 + DRAWN)
    return found / sqrt(sizes[0] * sizes[1]), p


def orders(results: Results) -> Iterator[Order]:
    """The order of rows in each column where enough have a published number; none at smoke scale."""
    for column in results.columns if results.scale != "smoke" else ():
        cells = [row.cells[column.name] for row in results.rows]
        pairs = [
            (cell.mean, cell.published.mean)
            for cell in cells
            if cell.mean is not None and cell.published
        ]
        if len(pairs) < LEAST_ROWS or column.minus:
            continue
        ours, printed = zip(*pairs, strict=True)
        if order := tau_b(ours, printed, column.name):
            yield Order(column=column.name, rows=len(pairs), tau=order[0], p=order[1])


def sentences(several: Sequence[Results]) -> list[str]:
    """Findings about all published numbers of some tables together; none at smoke scale."""
    rows = [row for results in several if results.scale != "smoke" for row in results.rows]
    cells = [
        cell
        for row in rows
        for cell in row.cells.values()
        if cell.published and cell.mean is not None
    ]
    if not cells:
        return []
    said, found = [], [order for results in several for order in results.orders]
    known = [cell for cell in cells if cell.half is not None]
    if known:
        inside = sum(cell.verdict == WITHIN for cell in known)
        middle = median(cell.half for cell in known if cell.half is not None)
        said.append(
            f"{inside} of {counted(len(known), 'published number lies', 'published numbers lie')} where our runs "
            f"expect it, in our mean ± {middle:.2f} (median of the half-widths); by chance alone about "
            f"{(1 - LEVEL) * len(known):.0f} would lie outside."
        )
    if few := sum(cell.verdict == FEW for cell in cells):
        said.append(
            f"{counted(few, 'published number has', 'published numbers have')} one run of ours beside "
            f"{'them' if few > 1 else 'it'}: too few seeds to say whether they agree; --seeds 3 gives an interval."
        )
    if found:
        taus = [order.tau for order in found]
        kept = sum(order.p < SIGNIFICANT for order in found)
        where = f"in {kept} the order is" if kept else "in none is the order"
        said.append(
            f"Order of the rows: Kendall's tau-b with the paper's is {fixed(sum(taus) / len(taus), 2)} on average over "
            f"{counted(len(taus), 'column', 'columns')} (from {fixed(min(taus), 2)} to {fixed(max(taus), 2)}); {where} "
            f"kept better than a random one would (p < {SIGNIFICANT}, permutation test of each column)."
        )
    return said
