"""Methods ranked over several datasets: the test of Friedman, and the critical difference of
Nemenyi.

Source: Demsar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine
Learning Research 7 (2006), 1-30, section 3.2.2; F is Iman and Davenport's (1980). With k methods on
N datasets and R_j the mean rank of method j, 1 the best,

    chi2 = 12 N / (k (k + 1)) (sum_j R_j^2 - k (k + 1)^2 / 4)
    F    = (N - 1) chi2 / (N (k - 1) - chi2), with k - 1 and (k - 1)(N - 1) degrees of freedom
    CD   = q sqrt(k (k + 1) / (6 N)), with q the 95 % quantile of the studentized range of k,
           divided by sqrt 2

Two methods whose mean ranks are CD or more apart differ. How we differ: if all datasets rank all
methods alike, F is infinite, and p is exact: the chance of that, 1 / (k!)^(N - 1). Equal scores
share the mean of their ranks, and chi2 is not corrected for that, as in the paper.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..data.sources import cards
from ..errors import FedcliError
from ..scores.scores import RunScores
from ..scores.table import Number
from .verdict import SIGNIFICANT

MANY = 10  # datasets, which Demsar asks for


@dataclass(frozen=True)
class Ranks:
    """The result of the tests.

    Attributes:
        ranks: the mean rank of each method, the best first.
        differ: pairs of methods, the better first.
        f: None if it is infinite.
        enough: the fewest datasets on which two of so many methods can differ.
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
        f = (
            "infinite, since all datasets give the same ranks"
            if self.f is None
            else f"{self.f:.2f}"
        )
        pairs = "; ".join(f"{better} is better than {worse}" for better, worse in self.differ)
        differences = pairs or "no two methods differ"
        effects, errors = self.degrees
        return (
            f"chi2 {self.chi2:.2f}, F({effects}, {errors}) {f}, p {self.p:.2g}; "
            f"critical difference {self.critical_difference:.2f}: "
            f"{differences}."
        )

    @property
    def caution(self) -> str:
        """A sentence where the datasets are few, else ""."""
        if self.datasets >= MANY:
            return ""
        limit = f"two of {len(self.ranks)} methods cannot differ on fewer than {self.enough}"
        return f"The test is made for {MANY} datasets or more, and {limit}."


def datasets_of(runs: Sequence[RunScores]) -> list[str]:
    """The dataset of each run: its name, with the first digits of the hash of its files where
    these runs have several datasets of one name.
    """
    files_by_name: dict[str, set[str]] = {}
    for scores in runs:
        files_by_name.setdefault(scores.dataset, set()).add(_files(scores))
    names = []
    for scores in runs:
        files = files_by_name[scores.dataset]
        has_several = len(files) > 1 and "" not in files
        digits = _files(scores)[:8]
        names.append(f"{scores.dataset} {digits}" if has_several else scores.dataset)
    return names


def _files(scores: RunScores) -> str:
    """The hash of the files of a dataset whose name stands for any images, such as a folder of
    one's own; "" of all others, and of a sample, since two samples may be of one dataset.
    """
    stage = scores.data.get("dataset")
    if stage is None or stage.options.get("sample_images"):
        return ""
    with suppress(FedcliError):  # a dataset from outside the package has no card
        if not cards.read(scores.dataset).get("classes"):
            return stage.options.get("raw_fingerprint") or ""
    return ""


def by_method(systems: Iterable[tuple[RunScores, Number]]) -> dict[str, list[Number]]:
    """Method -> its number on each dataset, of the methods that every dataset has once.

    systems: the scores of each, and the number that is ranked. A method is named with its settings
    where it has several.
    """
    scored = list(systems)
    names = datasets_of([scores for scores, _ in scored])
    numbers_by_system: dict[tuple[str, str], dict[str, list[Number]]] = {}
    for (scores, number), name in zip(scored, names, strict=True):
        settings = ", ".join(f"{key}={value}" for key, value in scores.settings.items())
        numbers = numbers_by_system.setdefault((scores.label, settings), {})
        numbers.setdefault(name, []).append(number)
    datasets = dict.fromkeys(names)
    complete = {}
    for method, numbers in numbers_by_system.items():
        if all(len(numbers.get(name, [])) == 1 for name in datasets):
            complete[method] = [numbers[name][0] for name in datasets]
    labels = [label for label, _ in complete]
    row_by_name = {}
    for (label, settings), row in complete.items():
        is_shared = labels.count(label) > 1
        name = f"{label} ({settings})" if is_shared else label
        row_by_name[name] = row
    return row_by_name


def friedman(
    metric: str,
    scores: Mapping[str, list[float]],
    *,
    lower: bool = False,
) -> Ranks:
    """The tests of two methods or more on two datasets or more.

    scores: method -> its score on each dataset. lower: low scores are better.
    """
    from scipy.special import fdtrc  # takes a second, and only reports over datasets need it
    from scipy.stats import rankdata, studentized_range

    table = np.array(list(scores.values()), dtype=np.float64).T  # [N, k]
    n, k = table.shape
    means = rankdata(table if lower else -table, axis=1).mean(0)  # [k] R_j
    expected = k * (k + 1) ** 2 / 4
    excess = float((means**2).sum() - expected)
    scale = 12 * n / (k * (k + 1))
    chi2 = max(0.0, scale * excess)
    denominator = n * (k - 1) - chi2
    degrees = (k - 1, (k - 1) * (n - 1))
    if denominator > 1e-9:
        f = (n - 1) * chi2 / denominator
        p = float(fdtrc(*degrees, f))
    else:
        f = None
        p = float(math.factorial(k)) ** (1 - n)
    studentized = studentized_range.ppf(1 - SIGNIFICANT, k, math.inf)
    q = float(studentized) / math.sqrt(2)
    width = q * math.sqrt(k * (k + 1) / 6)  # CD sqrt N
    critical_difference = width / math.sqrt(n)
    ranked_scores = zip(scores, means.tolist(), strict=True)
    by_rank = sorted(ranked_scores, key=lambda pair: pair[1])
    ranks = dict(by_rank)
    differ = []
    for better, worse in combinations(ranks, 2):
        if ranks[worse] - ranks[better] >= critical_difference:
            differ.append((better, worse))
    datasets_needed = math.ceil((width / (k - 1)) ** 2)
    return Ranks(
        metric=metric,
        datasets=n,
        ranks=ranks,
        chi2=chi2,
        f=f,
        degrees=degrees,
        p=p,
        critical_difference=critical_difference,
        differ=differ,
        enough=datasets_needed,
    )
