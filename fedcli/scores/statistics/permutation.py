"""Permutation tests of gaps between groups, and a search for subgroups in which a model fails.

Where no patient has images of several groups, the groups are dealt out anew among the patients.
Where some has, the groups of a patient's images go together to a patient with as many images of
known group, and are then exchanged among that patient's images: whole blocks and within blocks, as
in Winkler et al., NeuroImage 123, 2015, which is exact where the model's answers do not depend on
the group. p is the share of deals, the observed one among them, whose gap is at least as large
(Phipson and Smyth, Stat. Appl. Genet. Mol. Biol. 9, 2010). Images of unknown group take no part.
Subgroups are those of one attribute, and of two crossed; their p is of the difference in accuracy
from all other images, adjusted by Holm over all subgroups that were tested on one version of the
images.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ... import metrics
from ...metrics import Grouping, Plan, apart, gap
from ...seeds import derive
from ..groups import CROSS, SMALL, cross
from .significance import holm

DEALS = 999
STEP = 200  # deals at a time
Array = np.ndarray


def gaps(
    logits: Array,
    y: Array,
    units: Array,
    grouping: Grouping,
    names: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """The gap between best and worst group by each metric, with its p and deals.

    units: [N], the patient of each image. names: the metrics.
    """
    codes, groups = grouping
    plan = metrics.plan(logits, y)
    count = len(groups)
    observed = _gaps(plan, codes[:, None], count, names)
    parts = [_gaps(plan, dealt, count, names) for dealt in _deals(codes, units)]
    tests = {}
    for metric, (width,) in observed.items():
        column = np.concatenate([part[metric] for part in parts])
        if np.isfinite(width):
            p = _p(np.abs(column), abs(width))
            tests[metric] = {"gap": float(width), "p": p, "deals": DEALS}
    return tests


def _gaps(
    plan: Plan,
    dealt: Array,
    count: int,
    names: Sequence[str],
) -> dict[str, Array]:
    """The gaps [B] by each metric in deals, NaN where fewer than two groups have the score.

    dealt: the groups [N, B], of which there are so many.
    """
    of_groups = [metrics.resampled(plan, dealt == code, names) for code in range(count)]
    widths = {}
    for metric in of_groups[0]:
        columns = [scores[metric] for scores in of_groups]
        widths[metric] = gap(np.stack(columns, 1))
    return widths


def subgroups(
    right: Array, units: Array, groupings: Mapping[str, Grouping]
) -> list[dict[str, Any]]:
    """Subgroups of at least SMALL patients, one attribute deep or two, the least accurate first.

    right: [N], whether each image is answered correctly. units: [N], the patient of each image.
    """
    lines = []
    for attribute, grouping in _one_or_two_deep(groupings).items():
        lines += _tested(right, units, attribute, grouping)
    adjusted = holm([line["p"] for line in lines])
    for line, p in zip(lines, adjusted, strict=True):
        line["p_holm"] = p
    return sorted(lines, key=lambda line: (line["accuracy"], line["attribute"], line["group"]))


def _one_or_two_deep(groupings: Mapping[str, Grouping]) -> dict[str, Grouping]:
    """The groups of every attribute, then of every two crossed."""
    single = {name: grouping for name, grouping in groupings.items() if CROSS not in name}
    crossed = {}
    for a, b in combinations(sorted(single), 2):
        pair = {a: single[a], b: single[b]}
        crossed[f"{a}{CROSS}{b}"] = cross(pair)
    return single | crossed


def _tested(
    right: Array,
    units: Array,
    attribute: str,
    grouping: Grouping,
) -> list[dict[str, Any]]:
    """A line for each group of the attribute that is large enough to be tested."""
    codes, names = grouping
    sizes = np.bincount(codes[codes >= 0], minlength=len(names)).tolist()
    tested = []
    for code, size in enumerate(sizes):
        patients = np.unique(units[codes == code])
        if len(patients) >= SMALL and size < sum(sizes):
            tested.append(code)
    if not tested:
        return []
    parts = [_differences(right, dealt, tested) for dealt in _deals(codes, units)]
    columns = np.concatenate(parts, 1)  # [T, B]
    observed = _differences(right, codes[:, None], tested).ravel().tolist()
    lines = []
    for code, difference, column in zip(tested, observed, columns, strict=True):
        line = {
            "attribute": attribute,
            "group": names[code],
            "images": sizes[code],
        }
        line["accuracy"] = float(right[codes == code].mean())
        line["difference"] = difference
        line["p"] = _p(np.abs(column), abs(difference))
        lines.append(line)
    return lines


def _differences(right: Array, dealt: Array, groups: Sequence[int]) -> Array:
    """Accuracy of each group minus that of all other images of known group [T, B].

    dealt: [N, B].
    """
    score = right.astype(float)
    has_group = (dealt >= 0).astype(float)
    hits = score @ has_group
    images = has_group.sum(0)
    rows = []
    # a deal may leave a group without an image: no difference
    with np.errstate(invalid="ignore", divide="ignore"):
        for code in groups:
            inside = (dealt == code).astype(float)
            count = inside.sum(0)
            hits_inside = score @ inside
            hits_outside = hits - hits_inside
            difference = hits_inside / count - hits_outside / (images - count)
            rows.append(difference)
    return np.stack(rows)


def _deals(codes: Array, units: Array) -> Iterator[Array]:
    """The groups of the images in each deal [N, b], a few deals at a time.

    Unknown ones (-1) stay so.
    """
    images = np.flatnonzero(codes >= 0)  # of known group
    groups = codes[images]
    _, unit_starts, unit = np.unique(
        units[images],
        return_index=True,
        return_inverse=True,
    )
    group_of_unit = groups[unit_starts]  # [U]
    one_group_each = bool((groups == group_of_unit[unit]).all())
    blocks = [] if one_group_each else list(_blocks(images, unit))
    generator = np.random.default_rng(derive("permutation", 0))
    for start in range(0, DEALS, STEP):
        count = min(STEP, DEALS - start)
        dealt = np.full((len(codes), count), -1)
        if one_group_each:
            columns = np.repeat(group_of_unit[:, None], count, 1)
            dealt[images] = generator.permuted(columns, axis=0)[unit]
        for rows in blocks:
            patients = np.arange(len(rows))
            columns = np.repeat(patients[:, None], count, 1)
            order = generator.permuted(columns, axis=0)  # [U, b]
            whole = codes[rows][order]  # [U, b, n]
            exchanged = generator.permuted(whole, axis=2)
            dealt[rows] = exchanged.transpose(0, 2, 1)
        yield dealt


def _blocks(images: Array, unit: Array) -> Iterator[Array]:
    """The images [U, n] of the patients with n known images each; for each n."""
    sizes = np.bincount(unit)  # [U]
    rows = images[np.argsort(unit, kind="stable")]
    size_of_row = sizes[np.sort(unit)]
    for n in np.unique(sizes):
        yield rows[size_of_row == n].reshape(-1, n)


def _p(differences: Array, observed: float) -> float | None:
    """The share of deals whose difference is at least the observed one; None without any."""
    numbers = differences[np.isfinite(differences)]
    if not len(numbers):
        return None
    as_large = (apart(numbers, observed) >= 0).sum()
    return float((1 + as_large) / (1 + len(numbers)))
