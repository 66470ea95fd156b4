"""Statistics of our numbers beside published ones: does a printed number lie where ours say, is the
order of rows kept.

If the paper's runs and ours differ in their random numbers alone, a printed mean of m runs lies in
95 of 100 cases within t(n - 1) s sqrt(1/n + 1/m) of our mean of n runs, of sample standard
deviation s: the prediction interval for the mean of m future observations (Hahn and Meeker,
Statistical Intervals, 1991, chapter 4), for one run where the paper has one, plus half a unit of
its last digit. Where the paper prints its own standard deviation S over runs, the interval is that
of Welch's test (Biometrika 34, 1947): t(f) sqrt(s^2 / n + S^2 / m), f after Satterthwaite. Test
patients, splits and machines that differ are not in it. Order: Kendall's
tau-b (Biometrika 33, 1945) over the rows of a column, and the share of orders that agree as much:
of all, up to MOST_ROWS rows, else of DRAWN random ones.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations
from math import sqrt
from statistics import median, stdev

import numpy as np
from numpy.typing import NDArray

from ...console import counted
from ...metrics.arithmetic import CLOSE
from ...printed import fixed
from ...seeds import derive
from ..record import Order, ResultCell, Results
from ..shape import Printed

WITHIN = "within"
OUTSIDE = "outside"
FEW = "too few seeds"
UNKNOWN = "-"
LEVEL = 0.95
LEAST_ROWS = 3  # with a published number, for an order of rows
MOST_ROWS = 7  # all of whose orders are looked at
DRAWN = 9_999
SIGNIFICANT = 0.05


def half_width(
    runs: Sequence[float],
    others: int,
    their_std: float | None = None,
) -> float | None:
    """Half of the interval around the mean of our runs that has the mean of so many other runs, of
    this standard deviation, by default ours; None of one run."""
    if len(runs) < 2:
        return None
    from scipy.special import stdtrit

    tail = (1 + LEVEL) / 2
    freedom = len(runs) - 1
    if their_std is None or others < 2:
        variance_factor = 1 / len(runs) + 1 / others
        t = float(stdtrit(freedom, tail))
        return t * stdev(runs) * sqrt(variance_factor)
    variance = stdev(runs) ** 2
    ours = variance / len(runs)
    theirs = their_std**2 / others
    if not ours + theirs:
        return 0.0
    uncertainty = ours**2 / freedom + theirs**2 / (others - 1)
    welch_freedom = (ours + theirs) ** 2 / uncertainty
    t = float(stdtrit(welch_freedom, tail))
    return t * sqrt(ours + theirs)


def judged(
    ours: ResultCell,
    published: Printed | None,
    *,
    scale: str,
    spread: str = "",
    sure: bool = False,
) -> ResultCell:
    """Our number with the published one, their difference and, at the paper's scale, the verdict.

    spread: "runs" where a printed deviation is over runs. sure: whether it does not vary over runs.
    """
    update: dict[str, object] = {"published": published}
    if published is None or ours.mean is None:
        return ours.model_copy(update=update)
    update["difference"] = ours.mean - published.mean
    their_std = published.std if spread == "runs" else None
    half = 0.0 if sure else half_width(ours.per_run, published.runs, their_std)
    if scale != "paper":
        update["verdict"] = UNKNOWN
    elif half is None:
        update["verdict"] = FEW
    else:
        half += 0.5 * 10.0**-published.digits
        distance = abs(ours.mean - published.mean)
        beyond = max(0.0, distance - half - CLOSE)
        update["half"] = half
        update["beyond"] = beyond or None
        update["verdict"] = OUTSIDE if beyond else WITHIN
    return ours.model_copy(update=update)


def tau_b(
    ours: Sequence[float], theirs: Sequence[float], stream: str = ""
) -> tuple[float, float] | None:
    """Kendall's tau-b of two columns [N], and the share of orders of the second with as large a
    tau.

    None where one is all ties. stream: a name for the stream of random orders.
    """
    signs = _signs(ours)
    their_signs = _signs(theirs)
    size = np.count_nonzero(signs)
    their_size = np.count_nonzero(their_signs)
    if not size or not their_size:
        return None
    agreement = int((signs * their_signs).sum())
    is_exact = len(ours) <= MOST_ROWS
    orders = _all_orders(len(ours)) if is_exact else _random_orders(len(ours), stream)
    as_large = 0
    for order in orders:
        reordered = their_signs[np.ix_(order, order)]
        if int((signs * reordered).sum()) >= agreement:
            as_large += 1
    p = as_large / len(orders) if is_exact else (1 + as_large) / (1 + DRAWN)
    return agreement / sqrt(size * their_size), p


def _signs(column: Sequence[float]) -> NDArray[np.int_]:
    """The sign of the difference of each pair of rows [N, N]."""
    values = np.asarray(column)
    differences = np.subtract.outer(values, values)
    steps = np.round(differences / CLOSE)
    return np.sign(steps).astype(int)


def _all_orders(count: int) -> NDArray[np.int_]:
    return np.array(list(permutations(range(count))))


def _random_orders(count: int, stream: str) -> NDArray[np.int_]:
    rng = np.random.default_rng(derive("order of rows", stream, count))
    return rng.permuted(np.tile(np.arange(count), (DRAWN, 1)), axis=1)


def orders(results: Results) -> Iterator[Order]:
    """The order of rows in each column where enough have a published number; none at smoke
    scale."""
    if results.scale == "smoke":
        return
    for column in results.columns:
        ours = []
        theirs = []
        for row in results.rows:
            cell = row.cells[column.name]
            if cell.mean is not None and cell.published:
                ours.append(cell.mean)
                theirs.append(cell.published.mean)
        if len(ours) < LEAST_ROWS or column.minus:
            continue
        order = tau_b(ours, theirs, column.name)
        if order:
            yield Order(column=column.name, rows=len(ours), tau=order[0], p=order[1])


def sentences(several: Sequence[Results]) -> list[str]:
    """Findings about all published numbers of some tables together; none at smoke scale."""
    cells: list[ResultCell] = []
    for results in several:
        if results.scale != "smoke":
            cells += [cell for cell in results.cells if cell.published and cell.mean is not None]
    if not cells:
        return []
    sentences = []
    with_interval = [cell for cell in cells if cell.half is not None]
    if with_interval:
        sentences.append(_on_intervals(with_interval))
    of_one_run = sum(cell.verdict == FEW for cell in cells)
    if of_one_run:
        sentences.append(_on_one_run(of_one_run))
    orders: list[Order] = []
    for results in several:
        orders += results.orders
    if orders:
        sentences.append(_on_orders(orders))
    return sentences


def _on_intervals(cells: Sequence[ResultCell]) -> str:
    inside = sum(cell.verdict == WITHIN for cell in cells)
    numbers = counted(
        len(cells),
        "published number lies",
        "published numbers lie",
    )
    middle = median(cell.half for cell in cells if cell.half is not None)
    by_chance = (1 - LEVEL) * len(cells)
    return (
        f"{inside} of {numbers} where our runs expect it, in our mean ± {middle:.2f} (median of "
        f"the half-widths); by chance alone about {by_chance:.0f} would lie outside."
    )


def _on_one_run(count: int) -> str:
    numbers = counted(count, "published number has", "published numbers have")
    them = "them" if count > 1 else "it"
    return (
        f"{numbers} one run of ours beside {them}: too few seeds to judge whether they "
        "agree; --seeds 3 gives an interval."
    )


def _on_orders(orders: Sequence[Order]) -> str:
    taus = [order.tau for order in orders]
    mean = fixed(sum(taus) / len(taus), 2)
    columns = counted(len(taus), "column", "columns")
    significant = sum(order.p < SIGNIFICANT for order in orders)
    where = f"in {significant} the order is" if significant else "in none is the order"
    lowest = fixed(min(taus), 2)
    highest = fixed(max(taus), 2)
    return (
        f"Order of the rows: Kendall's tau-b with the paper's is {mean} on average over {columns} "
        f"(from {lowest} to {highest}); {where} kept better than a random "
        f"one would (p < {SIGNIFICANT}, permutation test of each column)."
    )
