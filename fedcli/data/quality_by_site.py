"""Image quality of each hospital, or of each class or group: its histograms beside those of all others.

All is computed from histograms (quality.py), so that a coordinator, who has counts alone, gets the same table. The
distance of a site is the Wasserstein-1 distance of its histogram to that of all others together: the mean way that an
image's value would have to move. It is given in standard deviations within the sites, pooled over them as in Cohen's d
(Statistical Power Analysis, 1988, section 2.2, whose "large" effect of 0.8 is LARGE here); an image lies anywhere in
its bin. Images are the training and validation images, as they are trained on: corrupted ones where they are.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import console, shapes
from ..errors import FedcliError, UsageError, nearest
from ..io.files import read_text
from ..io.hdf5 import open_hdf5
from ..system.processes import in_order
from . import manifest
from .image_counts import CLASS, MOST_IMAGES
from .pool import CHANGED, POOL, Pool, holdings
from .quality import BINS, MEASURES, NAMES, histograms, measure, shown, sound, spread

LARGE = 0.8  # standard deviations, from which a site stands out
PIECE = 64  # images a process reads and measures at a time
SITES = "site"  # what --by is without a word
SAID = {
    "client": str,
    "images": {"train": int, "val": int},
    "quality": {name: [[int]] for name in NAMES},
}
AGAIN = "ask the site for `fedcli site describe --quality` again"
Place = tuple[Path, str, int]  # of an image's pixels: file, dataset in it, and row there
Histograms = dict[str, np.ndarray]  # site, class or group -> [M, BINS]


@dataclass(frozen=True)
class Measured:
    """Images of a dataset, partition or corruption.

    Attributes:
        members: site, class or group -> places of its images among the rows.
        rows: of the pool [N]. values: of MEASURES [N, M]. files: of each image, where its pixels are.
    """

    pool: Pool
    members: dict[str, np.ndarray]
    rows: np.ndarray
    values: np.ndarray
    files: list[Place]

    @property
    def histograms(self) -> Histograms:
        return {name: histograms(self.values[at]) for name, at in self.members.items()}


def of_manifest(path: Path, by: str = "", *, client: str | None = None, jobs: int = 0) -> Measured:
    """Measure a dataset, partition or corruption, whose hashes the caller has verified. Raises FedcliError, UsageError.

    by: an attribute or "class"; "" for clients. client: this one's images alone.
    """
    body = manifest.read(path).body
    if by and by not in (known := (CLASS, *body["attributes"])):
        raise UsageError(f"--by {by}: {path.parent.name} has no such attribute", nearest(by, known))
    if min(body["size"]) < 3:
        raise FedcliError(
            f"{path} has images of {body['size']} pixels, too few to measure", "prepare larger ones"
        )
    pool, held_by = held(path)
    held_by = held_by if client is None else {client: held_by[client]}
    rows = np.concatenate([*held_by.values(), np.zeros(0, np.int64)]).astype(np.int64)
    files = [place for name, of in held_by.items() for place in places(path, pool, name, of)]
    if not by:
        owner = np.repeat(np.arange(len(held_by)), [len(of) for of in held_by.values()])
        members = {name: np.flatnonzero(owner == k) for k, name in enumerate(held_by)}
    else:
        names = body["classes"] if by == CLASS else body["attributes"][by]
        column = (pool.y if by == CLASS else pool.groups[by])[
            rows
        ]  # [N], or [N, L] of several labels
        members = {
            name: np.flatnonzero(column[:, k] == 1 if column.ndim == 2 else column == k)
            for k, name in enumerate(names)
        }
    members = {name: at for name, at in members.items() if len(at)}
    return Measured(pool, members, rows, measured(files, jobs), files)


def measured(files: list[Place], jobs: int = 0) -> np.ndarray:
    """MEASURES of images that lie there: [N, M]."""
    pieces = [files[start : start + PIECE] for start in range(0, len(files), PIECE)]
    values = in_order(_measured, pieces, label=f"measuring {PIECE} images at a time", jobs=jobs)
    return np.concatenate([np.zeros((0, len(MEASURES))), *values])


def held(path: Path) -> tuple[Pool, dict[str, np.ndarray]]:
    """The pool, and client -> rows that it trains and validates on; of a dataset ALL -> its training part."""
    pool, parts, _ = holdings(path)
    return pool, {
        client: np.concatenate([rows["train"], rows["val"]]) for client, rows in parts.items()
    }


def places(path: Path, pool: Pool, client: str, rows: np.ndarray) -> Iterator[Place]:
    """Where the pixels of a client's images are: in the pool, or among those that corrupt changed."""
    body = manifest.read(path).body
    if "kind" not in body or client not in body["clients"]:  # a dataset's clients are a number
        return ((pool.path, "x", row) for row in rows.tolist())
    with open_hdf5(path.parent / "changed.h5", CHANGED, hint="corrupt again") as file:
        changed = file["train/rows"][()]  # rising
    at = np.searchsorted(changed, rows)
    if len(rows) and (at.max() >= len(changed) or (changed[at] != rows).any()):
        raise FedcliError(f"{path.parent / 'changed.h5'} lacks images of {client}", "corrupt again")
    return ((path.parent / "changed.h5", "train/x", row) for row in at.tolist())


def pixels(files: list[Place]) -> np.ndarray:
    """uint8 [n, H, W, C], in this order."""
    out: dict[Place, np.ndarray] = {}
    for path, name in dict.fromkeys(place[:2] for place in files):
        rows = sorted({row for *where, row in files if where == [path, name]})
        with open_hdf5(path, POOL if name == "x" else CHANGED) as file:
            out |= {
                (path, name, row): image for row, image in zip(rows, file[name][rows], strict=True)
            }
    return np.stack([out[place] for place in files])


def _measured(files: list[Place]) -> np.ndarray:
    return measure(pixels(files))


def of_descriptions(folder: Path) -> Histograms:
    """Histograms that sites said of themselves, from their descriptions in a folder. Raises FedcliError."""
    known: Histograms = {}
    described: set[str] = set()
    for file in sorted(folder.glob("*.json")):
        try:
            said = json.loads(read_text(file, AGAIN))
        except (ValueError, RecursionError):
            raise FedcliError(f"{file} is no JSON", AGAIN) from None
        if not isinstance(said, dict) or "client" not in said:
            continue  # the manifest beside them
        shapes.check(said, SAID, file, AGAIN)
        parts = said["images"]["train"], said["images"]["val"]
        images = sum(parts)
        if not images or not 0 <= min(parts) <= max(parts) <= MOST_IMAGES:
            counts = " and ".join(
                f"{str(n)[:40]} {kind}" for n, kind in zip(parts, ("training", "validation"))
            )
            raise FedcliError(f"{file}: {counts} images cannot be", AGAIN)
        if said["client"] in described:
            raise FedcliError(
                f"{file}: another file describes {said['client']!r} too",
                "keep one file of each site",
            )
        described.add(said["client"])
        if odd := [name for name in NAMES if not sound(said["quality"][name], images)]:
            raise FedcliError(
                f"{file}: its histogram of {odd[0]} cannot be that of {images} images", AGAIN
            )
        if any(len(cells) == 1 and cells[0][0] < cells[0][1] for cells in said["quality"].values()):
            console.warn(
                f"{said['client']} is left out: its {images} images fill one cell of a histogram"
            )
            continue
        known[said["client"]] = np.stack([spread(said["quality"][name]) for name in NAMES])
    if not known:
        hint = "`fedcli site describe --quality` writes one; it takes twice as many images as a policy's smallest_cell"
        raise FedcliError(
            f"{folder} has no description of a site that says something of its images", hint
        )
    return known


def facts(known: Histograms) -> dict[str, dict[str, Any]]:
    """Site -> its images, and of each measure the counts, the medians of its images and of all others (None of none),
    and the distance to all others (None of one site alone)."""
    counts = np.stack(list(known.values())).astype(np.float64)  # [K, M, BINS]
    images = counts.sum(2)  # [K, M]
    others = counts.sum(0) - counts  # [K, M, BINS]
    distances = _distances(counts, _variances(counts))  # [K, M]
    alone = others.sum(2) == 0
    return {
        name: {
            "images": round(float(images[k, 0])),
            "measures": {
                of.name: {
                    "counts": counts[k, m].tolist(),
                    "median": median(counts[k, m], m),
                    "others": median(others[k, m], m),
                    "distance": None if alone[k, m] else float(distances[k, m]),
                }
                for m, of in enumerate(MEASURES)
            },
        }
        for k, name in enumerate(known)
    }


def _variances(counts: np.ndarray) -> np.ndarray:
    """Variance [K, M] of each histogram [K, M, BINS], in bins; an image lies anywhere in its bin."""
    images = counts.sum(2)
    shares = counts / np.maximum(images, 1)[..., None]
    middle = np.arange(BINS) + 0.5
    means = shares @ middle
    return (shares * (middle - means[..., None]) ** 2).sum(2) + 1 / 12


def _distances(counts: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Distance [K, M] of each histogram [K, M, BINS] to all others together, in pooled standard deviations."""
    images = counts.sum(2)  # [K, M]
    pooled = np.sqrt((variances * images).sum(0) / np.maximum(images.sum(0), 1))  # [M]
    shares = counts / np.maximum(images, 1)[..., None]
    others = counts.sum(0) - counts
    shares_of_others = others / np.maximum(others.sum(2, keepdims=True), 1)
    return np.abs(np.cumsum(shares - shares_of_others, 2)).sum(2) / pooled


def median(counts: np.ndarray, m: int) -> float | None:
    """Of a histogram [BINS] of one measure, within its bin as if images lay evenly there."""
    below = np.concatenate([[0], np.cumsum(counts)])
    if not (half := below[-1] / 2):
        return None
    k = int(np.searchsorted(below, half)) - 1
    return float(MEASURES[m].values(k + (half - below[k]) / counts[k]))


def findings(known: Histograms, what: str = SITES) -> list[str]:
    """Sentences on who stands out and in what, the furthest first; each is compared with those that do not yet."""
    names = list(known)
    counts = np.stack(list(known.values())).astype(np.float64)  # [K, M, BINS]
    variances = _variances(counts)
    remaining = np.arange(len(names))
    sentences: list[str] = []
    while len(remaining) > 1:
        distances = _distances(counts[remaining], variances[remaining])
        furthest = int(distances.argmax())  # the first of equals
        row, m = divmod(furthest, len(MEASURES))
        distance = distances[row, m]
        if not distance >= LARGE:
            break
        site = remaining[row]
        others = counts[remaining].sum(0) - counts[site]  # [M, BINS]
        whom = "the remaining" if sentences else "all"
        stands_out = _stands_out(counts[site], others, m, whom)
        sentences.append(
            f"{names[site]} {stands_out}, {distance:.1f} standard deviations away"
            f"{_noise_too(counts[site], others, m)}"
        )
        remaining = np.delete(remaining, row)
    if len(known) > 1 and not sentences:
        sentences.append(
            f"no {what} stands out: every distance is below {LARGE} standard deviations"
        )
    return sentences


def _stands_out(counts: np.ndarray, others: np.ndarray, m: int, whom: str) -> str:
    """Words on the medians of one site and of others, of measure m in the histograms [M, BINS]."""
    measure = MEASURES[m]
    own_median, median_of_others = _medians(counts, others, m)
    way = "more" if own_median > median_of_others else "less"
    return (
        f"stands out in {measure.title}: median {shown(own_median)} ({measure.unit}), "
        f"{way} than {shown(median_of_others)} of {whom} others"
    )


def _noise_too(counts: np.ndarray, others: np.ndarray, m: int) -> str:
    """A caution for a site that is sharper and noisier than others; "" for any other."""
    if MEASURES[m].name != "sharpness":
        return ""
    sharpness, sharpness_of_others = _medians(counts, others, m)
    noise, noise_of_others = _medians(counts, others, NAMES.index("noise"))
    if sharpness > sharpness_of_others and noise > noise_of_others:
        return "; its images are noisier too, which alone raises sharpness"
    return ""


def _medians(counts: np.ndarray, others: np.ndarray, m: int) -> tuple[float, float]:
    """Medians of measure m of two histograms [M, BINS], neither of which is empty."""
    own_median = median(counts[m], m)
    median_of_others = median(others[m], m)
    assert own_median is not None
    assert median_of_others is not None
    return own_median, median_of_others


def tables(
    about: Mapping[str, Mapping[str, Any]], what: str = SITES
) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Title -> heads and rows: the medians of each measure, and the distances."""

    def rows(key: str, shown: Callable[[float], str]) -> list[list[str]]:
        numbers = [[one["measures"][name][key] for name in NAMES] for one in about.values()]
        return [
            [
                name,
                f"{one['images']:,}",
                *("-" if number is None else shown(number) for number in line),
            ]
            for (name, one), line in zip(about.items(), numbers, strict=True)
        ]

    heads = [what, "images", *(f"{of.title} ({of.unit})" for of in MEASURES)]
    made = {f"Image quality by {what}: medians": (heads, rows("median", shown))}
    if len(about) > 1:
        heads = [what, "images", *(of.title for of in MEASURES)]
        lines = rows("distance", "{:.2f}".format)
        made["Distance to all others together, in standard deviations (Wasserstein)"] = heads, lines
    return made
