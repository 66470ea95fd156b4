"""Image quality of each hospital, or of each class or group: its histograms beside those of all
others.

All is computed from histograms (quality.py), so that a coordinator, who has counts alone, gets the
same table. The distance of a site is the Wasserstein-1 distance of its histogram to that of all
others together: the mean way that an image's value would have to move. It is given in standard
deviations within the sites, pooled over them as in Cohen's d (Statistical Power Analysis, 1988,
section 2.2, whose "large" effect of 0.8 is LARGE here); an image lies anywhere in its bin. Images
are the training and validation images, as they are trained on: corrupted ones where they are.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import console, shapes
from ..errors import FedcliError, UsageError, nearest
from ..io.files import read_text
from ..system.processes import in_order
from . import manifest
from .image_counts import CLASS, MOST_IMAGES
from .image_places import Place, held, pixels, places
from .pool import Pool
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
Histograms = dict[str, np.ndarray]  # site, class or group -> [M, BINS]
Rows = dict[str, np.ndarray]  # of each client, class or group
Facts = Mapping[str, Any]  # of a site, class or group, see facts()
Cells = tuple[list[str], list[list[str]]]  # heads and rows of a table


@dataclass(frozen=True)
class Measured:
    """Images of a dataset, partition or corruption.

    Attributes:
        members: site, class or group -> places of its images among the rows.
        rows: of the pool [N]. values: of MEASURES [N, M]. files: of each image, where its pixels
            are.
    """

    pool: Pool
    members: Rows
    rows: np.ndarray
    values: np.ndarray
    files: list[Place]

    @property
    def histograms(self) -> Histograms:
        return {name: histograms(self.values[rows]) for name, rows in self.members.items()}


def of_manifest(
    path: Path, grouping: str = "", *, client: str | None = None, jobs: int = 0
) -> Measured:
    """Measure a dataset, partition or corruption, whose hashes the caller has verified. Raises
    FedcliError, UsageError.

    grouping: an attribute or "class"; "" for clients. client: this one's images alone.
    """
    body = manifest.read(path).body
    _check(path, body, grouping)
    pool, rows_by_client = held(path)
    if client is not None:
        rows_by_client = {client: rows_by_client[client]}
    files: list[Place] = []
    for name, client_rows in rows_by_client.items():
        files += places(path, pool, name, client_rows)
    rows = np.concatenate([*rows_by_client.values(), np.zeros(0, np.int64)]).astype(np.int64)
    if grouping:
        members = _members_by(grouping, pool, rows, body)
    else:
        members = _members_by_client(rows_by_client)
    members = {name: indices for name, indices in members.items() if len(indices)}
    return Measured(pool, members, rows, measured(files, jobs), files)


def _check(path: Path, body: manifest.Body, grouping: str) -> None:
    groupings = (CLASS, *body["attributes"])
    if grouping and grouping not in groupings:
        sentence = f"--by {grouping}: {path.parent.name} has no such attribute"
        raise UsageError(sentence, nearest(grouping, groupings))
    if min(body["size"]) < 3:
        sentence = f"{path} has images of {body['size']} pixels, too few to measure"
        raise FedcliError(sentence, "prepare larger ones")


def _members_by_client(rows_by_client: Rows) -> Rows:
    """Client -> places of its images among the rows of all clients, one client after another."""
    members = {}
    start = 0
    for name, rows in rows_by_client.items():
        members[name] = np.arange(start, start + len(rows))
        start += len(rows)
    return members


def _members_by(
    grouping: str,
    pool: Pool,
    rows: np.ndarray,
    body: manifest.Body,
) -> Rows:
    """Class or group -> places of its images among the rows."""
    if grouping == CLASS:
        names = body["classes"]
        column = pool.y[rows]  # [N], or [N, L] of several labels
    else:
        names = body["attributes"][grouping]
        column = pool.groups[grouping][rows]
    members = {}
    for k, name in enumerate(names):
        is_member = column[:, k] == 1 if column.ndim == 2 else column == k
        members[name] = np.flatnonzero(is_member)
    return members


def measured(files: list[Place], jobs: int = 0) -> np.ndarray:
    """MEASURES of images that lie there: [N, M]."""
    pieces = [files[start : start + PIECE] for start in range(0, len(files), PIECE)]
    values = in_order(
        _measured,
        pieces,
        label=f"measuring {PIECE} images at a time",
        jobs=jobs,
    )
    return np.concatenate([np.zeros((0, len(MEASURES))), *values])


def _measured(files: list[Place]) -> np.ndarray:
    return measure(pixels(files))


def of_descriptions(folder: Path) -> Histograms:
    """Histograms that sites said of themselves, from their descriptions in a folder. Raises
    FedcliError."""
    by_site: Histograms = {}
    described: set[str] = set()
    for file in sorted(folder.glob("*.json")):
        description = _description(file)
        if description is None:
            continue
        client = description["client"]
        if client in described:
            sentence = f"{file}: another file describes {client!r} too"
            raise FedcliError(sentence, "keep one file of each site")
        described.add(client)
        images = description["images"]["train"] + description["images"]["val"]
        quality = description["quality"]
        for name in NAMES:
            if not sound(quality[name], images):
                sentence = f"{file}: its histogram of {name} does not add up to {images} images"
                raise FedcliError(sentence, AGAIN)
        if any(_is_one_wide_cell(cells) for cells in quality.values()):
            reason = f"its {images} images fill one cell of a histogram"
            console.warn(f"{client} is left out: {reason}")
            continue
        by_site[client] = np.stack([spread(quality[name]) for name in NAMES])
    if not by_site:
        sentence = f"{folder} has no description of a site with the quality of its images"
        takes = "it takes twice as many images as a policy's smallest_cell"
        raise FedcliError(sentence, f"`fedcli site describe --quality` writes one; {takes}")
    return by_site


def _description(file: Path) -> dict[str, Any] | None:
    """A site's description; None for another file, as the manifest beside them. Raises
    FedcliError."""
    try:
        description = json.loads(read_text(file, AGAIN))
    except (ValueError, RecursionError):
        raise FedcliError(f"{file} is no JSON", AGAIN) from None
    if not isinstance(description, dict) or "client" not in description:
        return None
    shapes.check(description, SAID, file, AGAIN)
    train = description["images"]["train"]
    val = description["images"]["val"]
    if train + val == 0 or not all(0 <= count <= MOST_IMAGES for count in (train, val)):
        counts = f"{str(train)[:40]} training and {str(val)[:40]} validation"
        raise FedcliError(f"{file}: {counts} images cannot be", AGAIN)
    return description


def _is_one_wide_cell(cells: list[list[int]]) -> bool:
    """Tell whether all images are in one cell of several bins, which says nothing of them."""
    if len(cells) != 1:
        return False
    start, end, _ = cells[0]
    return start < end


def facts(by_site: Histograms) -> dict[str, Facts]:
    """Site -> its images, and its numbers by measure: the counts, the medians of its images and of
    all others (None of none), and the distance to all others (None of one site alone)."""
    counts = np.stack(list(by_site.values())).astype(np.float64)  # [K, M, BINS]
    images = counts.sum(2)  # [K, M]
    others = counts.sum(0) - counts  # [K, M, BINS]
    distances = _distances(counts, _variances(counts))  # [K, M]
    is_alone = others.sum(2) == 0  # [K, M]
    facts: dict[str, Facts] = {}
    for k, site in enumerate(by_site):
        measures = {}
        for m, name in enumerate(NAMES):
            measures[name] = {
                "counts": counts[k, m].tolist(),
                "median": median(counts[k, m], m),
                "others": median(others[k, m], m),
                "distance": None if is_alone[k, m] else float(distances[k, m]),
            }
        facts[site] = {"images": round(float(images[k, 0])), "measures": measures}
    return facts


def _variances(counts: np.ndarray) -> np.ndarray:
    """Variance [K, M] of each histogram [K, M, BINS], in bins; an image lies anywhere in its
    bin."""
    images = counts.sum(2)
    shares = counts / np.maximum(images, 1)[..., None]
    middle = np.arange(BINS) + 0.5
    means = shares @ middle
    squares = (middle - means[..., None]) ** 2
    return (shares * squares).sum(2) + 1 / 12


def _distances(counts: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Distance [K, M] of each histogram [K, M, BINS] to all others together, in pooled standard
    deviations."""
    images = counts.sum(2)  # [K, M]
    total_images = np.maximum(images.sum(0), 1)  # [M]
    pooled = np.sqrt((variances * images).sum(0) / total_images)  # [M]
    shares = counts / np.maximum(images, 1)[..., None]
    others = counts.sum(0) - counts
    shares_of_others = others / np.maximum(others.sum(2, keepdims=True), 1)
    steps = np.abs(np.cumsum(shares - shares_of_others, 2))
    return steps.sum(2) / pooled


def median(counts: np.ndarray, m: int) -> float | None:
    """The median of a histogram [BINS] of one measure, as if images lay evenly in its bin."""
    below = np.concatenate([[0], np.cumsum(counts)])
    half = below[-1] / 2
    if not half:
        return None
    k = int(np.searchsorted(below, half)) - 1
    share = (half - below[k]) / counts[k]
    return float(MEASURES[m].values(k + share))


def findings(by_site: Histograms, unit: str = SITES) -> list[str]:
    """Sentences on who stands out and in what, the furthest first; each is compared with those that
    do not yet."""
    names = list(by_site)
    counts = np.stack(list(by_site.values())).astype(np.float64)  # [K, M, BINS]
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
        noise_too = _noise_too(counts[site], others, m)
        away = f"{distance:.1f} standard deviations away"
        sentences.append(f"{names[site]} {stands_out}, {away}{noise_too}")
        remaining = np.delete(remaining, row)
    if len(names) > 1 and not sentences:
        all_near = f"every distance is below {LARGE} standard deviations"
        sentences.append(f"no {unit} stands out: {all_near}")
    return sentences


def _stands_out(
    counts: np.ndarray,
    others: np.ndarray,
    m: int,
    whom: str,
) -> str:
    """Words on the medians of one site and of others, of measure m in the histograms [M, BINS]."""
    measure = MEASURES[m]
    median_of_site, median_of_others = _medians(counts, others, m)
    way = "more" if median_of_site > median_of_others else "less"
    median = f"median {shown(median_of_site)} ({measure.unit})"
    than = f"{way} than {shown(median_of_others)} of {whom} others"
    return f"stands out in {measure.title}: {median}, {than}"


def _noise_too(counts: np.ndarray, others: np.ndarray, m: int) -> str:
    """A caution for a site that is sharper and noisier than others; "" for any other."""
    if MEASURES[m].name != "sharpness":
        return ""
    sharpness, sharpness_of_others = _medians(counts, others, m)
    noise, noise_of_others = _medians(counts, others, NAMES.index("noise"))
    if sharpness > sharpness_of_others and noise > noise_of_others:
        return "; its images are noisier too, which alone raises sharpness"
    return ""


def _medians(
    counts: np.ndarray,
    others: np.ndarray,
    m: int,
) -> tuple[float, float]:
    """Medians of measure m of two histograms [M, BINS], neither of which is empty."""
    median_of_site = median(counts[m], m)
    median_of_others = median(others[m], m)
    assert median_of_site is not None
    assert median_of_others is not None
    return median_of_site, median_of_others


def tables(sites: Mapping[str, Facts], unit: str = SITES) -> dict[str, Cells]:
    """Title -> heads and rows: the medians of each measure, and the distances. sites: facts()."""
    heads = [unit, "images"]
    heads_with_unit = [unit, "images"]
    for measured in MEASURES:
        heads.append(measured.title)
        heads_with_unit.append(f"{measured.title} ({measured.unit})")
    medians = _rows(sites, "median", shown)
    tables = {f"Image quality by {unit}: medians": (heads_with_unit, medians)}
    if len(sites) > 1:
        title = "Distance to all others together, in standard deviations (Wasserstein)"
        tables[title] = (heads, _rows(sites, "distance", "{:.2f}".format))
    return tables


def _rows(
    sites: Mapping[str, Facts],
    key: str,
    written: Callable[[float], str],
) -> list[list[str]]:
    rows = []
    for site, facts in sites.items():
        row = [site, f"{facts['images']:,}"]
        for name in NAMES:
            number = facts["measures"][name][key]
            row.append("-" if number is None else written(number))
        rows.append(row)
    return rows
