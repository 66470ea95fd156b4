"""Methods ranked over several datasets: the test of Friedman, and the critical difference of Nemenyi.

Source: Demsar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning Research 7
(2006), 1-30, section 3.2.2; the F is that of Iman and Davenport (1980). With k methods on N datasets and R_j the mean
rank of method j, 1 the best,

    chi2 = 12 N / (k (k + 1)) (sum_j R_j^2 - k (k + 1)^2 / 4)
    F    = (N - 1) chi2 / (N (k - 1) - chi2), with k - 1 and (k - 1)(N - 1) degrees of freedom
    CD   = q sqrt(k (k + 1) / (6 N)), q the 95 % quantile of the studentized range of k, divided by sqrt 2

Two methods whose mean ranks are CD or more apart differ. How we differ: where all datasets rank all methods alike F is
infinite, and p is exact: the chance of it, 1 / (k!)^(N - 1). Equal scores share the mean of their ranks, and chi2 is
not corrected for that, as in the paper.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .verdict import SIGNIFICANT

MANY = 10  # datasets, which Demsar asks for


@dataclass(frozen=True)
class Ranks:
    """The result of the tests. ranks: method -> mean rank, the best first. differ: pairs of methods, the better first.

    f: None where it is infinite. enough: the fewest datasets on which two of so many methods can differ.
    """

    metric: str
    datasets: int
    ranks: Mapping[str, float]
    chi2: float
    f: float | None
    degrees: tuple[int, int]
    p: float
    critical_difference: float
    differ: list[tuple[str, str]]
    enough: int

    @property
    def said(self) -> str:
        """The test in words."""
        f = "infinite, since all datasets rank alike" if self.f is None else f"{self.f:.2f}"
        pairs = "; ".join(f"{better} is better than {worse}" for better, worse in self.differ)
        return (
            f"chi2 {self.chi2:.2f}, F({self.degrees[0]}, {self.degrees[1]}) {f}, p {self.p:.2g}; "
            f"critical difference {self.critical_difference:.2f}: {pairs or 'no two methods differ'}."
        )

    @property
    def caution(self) -> str:
        """A sentence where the datasets are few, else ""."""
        few = f"two of {len(self.ranks)} methods cannot differ on fewer than {self.enough}"
        return (
            f"The test is made for {MANY} datasets or more, and {few}."
            if self.datasets < MANY
            else ""
        )


def friedman(metric: str, scores: Mapping[str, list[float]], *, lower: bool = False) -> Ranks:
    """Method -> its score on each dataset, three methods or more on two datasets or more. lower: low is better."""
    from scipy.special import fdtrc
    from scipy.stats import (
        rankdata,
        studentized_range,
    )  # a second, which only reports over datasets wait for

    table = np.array(list(scores.values()), dtype=np.float64).T  # [N, k]
    n, k = table.shape
    means = rankdata(table if lower else -table, axis=1).mean(0)  # [k] R_j
    chi2 = max(0.0, 12 * n / (k * (k + 1)) * float((means**2).sum() - k * (k + 1) ** 2 / 4))
    left = n * (k - 1) - chi2
    f = (n - 1) * chi2 / left if left > 1e-9 else None
    degrees = k - 1, (k - 1) * (n - 1)
    p = float(math.factorial(k)) ** (1 - n) if f is None else float(fdtrc(*degrees, f))
    width = (
        float(studentized_range.ppf(1 - SIGNIFICANT, k, math.inf))
        / math.sqrt(2)
        * math.sqrt(k * (k + 1) / 6)
    )  # CD sqrt N
    ranks = dict(sorted(zip(scores, means.tolist(), strict=True), key=lambda pair: pair[1]))
    differ = [
        (a, b) for a, b in combinations(ranks, 2) if ranks[b] - ranks[a] >= width / math.sqrt(n)
    ]
    return Ranks(
        metric,
        n,
        ranks,
        chi2,
        f,
        degrees,
        p,
        width / math.sqrt(n),
        differ,
        math.ceil((width / (k - 1)) ** 2),
    )
