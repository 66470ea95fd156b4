"""Could a gap between groups be chance? Permutation tests of gaps, and a search for subgroups in which a model fails.

Where no patient has images of several groups, the groups are dealt out anew among the patients. Where some has, the
groups of a patient's images go together to a patient with as many images of known group, and are then exchanged among
that patient's images: whole blocks and within blocks, as in Winkler et al., NeuroImage 123, 2015, which is exact where
the model's answers do not depend on the group. p is the share of deals, the observed one among them, whose gap is at
least as large (Phipson and Smyth, Stat. Appl. Genet. Mol. Biol. 9, 2010). Images of unknown group take no part.
Subgroups are those of one attribute, and of two crossed; their p is of the
difference in accuracy from all other images, adjusted by Holm over all subgroups that were tested.
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


def gaps(
    logits: np.ndarray, y: np.ndarray, units: np.ndarray, grouping: Grouping, asked: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Of each metric the gap between best and worst group, its p and deals. units: [N], the patient of each image."""
    (place, names), plan = grouping, metrics.plan(logits, y)
    seen = _gaps(plan, place[:, None], len(names), asked)
    drawn = [_gaps(plan, dealt, len(names), asked) for dealt in _deals(place, units)]
    made = {}
    for metric, width in seen.items():
        column = np.concatenate([each[metric] for each in drawn])
        if np.isfinite(width[0]):
            made[metric] = {
                "gap": float(width[0]),
                "p": _p(np.abs(column), abs(width[0])),
                "deals": DEALS,
            }
    return made


def _gaps(plan: Plan, dealt: np.ndarray, count: int, asked: Sequence[str]) -> dict[str, np.ndarray]:
    """dealt: groups [N, B] -> metric -> gap [B], NaN where fewer than two groups have the score."""
    each = [metrics.resampled(plan, dealt == g, asked) for g in range(count)]
    return {name: gap(np.stack([scores[name] for scores in each], 1)) for name in each[0]}


def subgroups(
    right: np.ndarray, units: np.ndarray, groupings: Mapping[str, Grouping]
) -> list[dict[str, Any]]:
    """Subgroups of at least 30 images, one attribute deep or two, the least accurate first.

    right: [N], whether each image is answered correctly.
    """
    single = {name: grouping for name, grouping in groupings.items() if CROSS not in name}
    pairs = {
        f"{a}{CROSS}{b}": cross({a: single[a], b: single[b]})
        for a, b in combinations(sorted(single), 2)
    }
    lines: list[dict[str, Any]] = []
    for attribute, (place, names) in (single | pairs).items():
        tested = [g for g in range(len(names)) if SMALL <= (place == g).sum() < (place >= 0).sum()]
        if not tested:
            continue
        drawn = np.concatenate(
            [_differences(right, dealt, tested) for dealt in _deals(place, units)], 1
        )  # [T, B]
        seen = _differences(right, place[:, None], tested)[:, 0]
        for g, difference, column in zip(tested, seen, drawn, strict=True):
            inside = place == g
            lines.append(
                {
                    "attribute": attribute,
                    "group": names[g],
                    "images": int(inside.sum()),
                    "accuracy": float(right[inside].mean()),
                    "difference": float(difference),
                    "p": _p(np.abs(column), abs(float(difference))),
                }
            )
    for line, p in zip(lines, holm([line["p"] for line in lines]), strict=True):
        line["p_holm"] = p
    return sorted(lines, key=lambda line: (line["accuracy"], line["attribute"], line["group"]))


def _differences(right: np.ndarray, dealt: np.ndarray, groups: Sequence[int]) -> np.ndarray:
    """Accuracy of each group minus that of all other images of known group [T, B]. dealt: [N, B]."""
    score, known = right.astype(float), (dealt >= 0).astype(float)
    hits, images = score @ known, known.sum(0)
    rows = []
    with np.errstate(
        invalid="ignore", divide="ignore"
    ):  # a deal may leave a group without an image: no difference
        for g in groups:
            inside = (dealt == g).astype(float)
            own, count = score @ inside, inside.sum(0)
            rows.append(own / count - (hits - own) / (images - count))
    return np.stack(rows)


def _deals(place: np.ndarray, units: np.ndarray) -> Iterator[np.ndarray]:
    """The groups of the images in each deal [N, b], a few deals at a time; unknown ones (-1) stay so."""
    known = np.flatnonzero(place >= 0)
    _, first, unit = np.unique(units[known], return_index=True, return_inverse=True)
    of_unit = place[known][first]  # [U]
    alike = bool((place[known] == of_unit[unit]).all())
    blocks = [] if alike else list(_blocks(known, unit))
    chance = np.random.default_rng(derive("permutation", 0))
    for start in range(0, DEALS, STEP):
        count = min(STEP, DEALS - start)
        dealt = np.full((len(place), count), -1)
        if alike:
            dealt[known] = chance.permuted(np.repeat(of_unit[:, None], count, 1), axis=0)[unit]
        for rows in blocks:
            order = chance.permuted(
                np.repeat(np.arange(len(rows))[:, None], count, 1), axis=0
            )  # [U, b]
            whole = place[rows][order]  # [U, b, n]
            dealt[rows] = chance.permuted(whole, axis=2).transpose(0, 2, 1)
        yield dealt


def _blocks(known: np.ndarray, unit: np.ndarray) -> Iterator[np.ndarray]:
    """Of the patients with n known images each, their images [U, n]; for each n."""
    images = np.bincount(unit)  # [U]
    rows, owner = known[np.argsort(unit, kind="stable")], np.sort(unit)
    for n in np.unique(images):
        yield rows[images[owner] == n].reshape(-1, n)


def _p(drawn: np.ndarray, seen: float) -> float | None:
    known = drawn[np.isfinite(drawn)]
    return float((1 + (apart(known, seen) >= 0).sum()) / (1 + len(known))) if len(known) else None
