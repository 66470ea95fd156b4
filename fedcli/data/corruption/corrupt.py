"""Corrupted images of some clients, and of a copy of the test set.

Who is corrupted follows the FedISM authors (arXiv 2503.09587): the last clients of the roster, and
a copy of the whole test set. The kinds are in kinds/, a file for each family.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ... import console
from ...errors import FedcliError, UsageError
from ...io.hdf5 import create_hdf5, open_hdf5
from ...system.processes import in_order
from .. import manifest, manifest_bodies, shared_patients
from ..manifest import Body
from ..pool import POOL, Pool, holdings
from . import matched, mixture
from .kinds import GENERAL, KINDS, SEVERITIES, full_kind, named, recorded_code

PIECE = 8  # images a process reads, changes and sends back at a time
COPIED = (
    *manifest_bodies.POOLED,
    "dataset",
    "task",
    "roster",
    "label_noise",
    "hidden_attributes",
    "attack",
    shared_patients.KEY,
)


Match = tuple[str, str]  # a client, and a measure of quality
Piece = tuple[Path, np.ndarray, np.ndarray, list[mixture.How]]  # pool, rows, ids, hows


def corrupt_image(
    image: np.ndarray,
    id: str,
    *,
    kind: str,
    severity: int,
    seed: int,
) -> np.ndarray:
    """A corrupted copy of an image: uint8 [H, W, C] in and out.

    C is 1 or 3, or the slices of a volume, each of which is corrupted as a grey image with a draw
    of its own.
    """
    if kind in matched.KINDS:
        return matched.KINDS[kind].add(image, id, severity, seed)
    channels = image.shape[2]
    if channels in (1, 3):
        return named(kind).apply(image, id, severity, seed)
    change = partial(corrupt_image, kind=kind, severity=severity, seed=seed)
    slices = []
    for k in range(channels):
        slices.append(change(image[..., [k]], f"{id}/{k}"))
    return np.concatenate(slices, -1)


def corrupt_images(
    images: np.ndarray,
    ids: Sequence[str],
    **how: Any,
) -> np.ndarray:
    """Corrupted copies of images in memory, uint8 [N, H, W, C]; how: as corrupt_image takes it."""
    _ready([how["kind"]])
    pieces = []
    for i in range(0, len(images), PIECE):
        piece_ids = list(ids[i : i + PIECE])
        pieces.append((images[i : i + PIECE], piece_ids))
    label = f"{how['kind']} {how['severity']}, {PIECE} images at a time"
    changed = list(in_order(partial(_piece, **how), pieces, label=label))
    return np.concatenate([images[:0], *changed])


def _ready(kinds: Iterable[str]) -> None:
    """Load once what all processes inherit; a missing package is an error before any starts."""
    for kind in kinds:
        if kind not in matched.KINDS:
            named(kind).ready()


def _piece(piece: tuple[np.ndarray, list[str]], **how: Any) -> np.ndarray:
    images, ids = piece
    changed = [corrupt_image(image, id, **how) for image, id in zip(images, ids, strict=True)]
    return np.stack(changed)


def make_corruption(
    source: Path,
    kind: str | None,
    to: manifest.Destination,
    who: mixture.Who,
    *,
    severity: int = 3,
    seed: int = 0,
    jobs: int = 0,
    match: Match | None = None,
) -> Path:
    """Corrupt some clients' images and a copy of the whole test set; returns the path of
    corruption.json.

    Args:
        source: a partition, or a corruption, whose clients stay as they are and to which others are
            added.
        kind: of the clients that `who` chooses by ratio or name; None where it says the kind of
            each.
        severity: 1 to 5.
        jobs: processes, 0 for one per core; changes no byte.
        match: a client and the measure of quality in which the chosen ones become as it is, in
            place of a kind and severity.
    """
    source = manifest.find(source, "partition", "corruption")
    verified = manifest.verify(source, "partition", "corruption")
    _check_seed(source, verified, seed)
    partition = manifest.above(source, "partition")
    body = manifest.read(partition, "partition").body
    default = _default(body, kind, severity, match, who)
    before = mixture.of_body(verified.body)
    hows = mixture.each_client(body, who, default, partial(_how, body), before)
    _check_last(body, list(hows), several=bool(before or who.client))
    facts: Body = {"ratio": len(hows) / len(body["roster"])}
    if match is not None:
        changing = [client for client in hows if client not in before]
        site, measure = match
        how, facts["match"] = matched.matched(source, changing, site, seed, measure)
        hows.update(dict.fromkeys(changing, how))
    if hows:
        described = mixture.described(hows)
    else:
        described = {"kind": full_kind(kind or ""), "severity": severity, "clients": []}
    options = {**described, "seed": seed, **_options(hows, match)}
    for key in COPIED:
        if key in body:
            facts[key] = body[key]

    def build(target: Path) -> Body:
        hows_of_test = hows or {"": (str(described["kind"]), severity)}
        _write(
            target / "changed.h5",
            partition,
            hows_of_test,
            seed=seed,
            jobs=jobs,
        )
        return {**facts, **described}

    kind_in_slug = described["kind"].replace("@", "-")
    slug = f"{body['dataset']}-{kind_in_slug}-{described['severity']}"
    return manifest.make("corruption", slug, to, options, [partition], build)


def _default(
    body: Body,
    kind: str | None,
    severity: int,
    match: Match | None,
    who: mixture.Who,
) -> mixture.How | None:
    """Kind and severity of the clients that a ratio or names choose; None where each has its own.

    Raises FedcliError, UsageError.
    """
    if kind is not None:
        return _how(body, kind, str(severity))
    if match is not None:
        return matched.way_of(match[1]).kind, severity
    if not who.client:
        hint = "fedcli corrupt gaussian, or --client NAME=KIND:SEVERITY"
        raise UsageError("no kind of corruption is given", hint)
    return None


def _options(hows: mixture.HowByClient, match: Match | None) -> dict[str, Any]:
    """The options of a corruption that only some have."""
    options: dict[str, Any] = {}
    if match is not None:
        options["match"] = match[0]
        if match[1] != matched.NOISE:
            options["quality"] = match[1]
    code = recorded_code(kind for kind, _ in hows.values())
    if code:
        options["code"] = code
    return options


def _check_seed(source: Path, verified: manifest.Manifest, seed: int) -> None:
    if verified.kind != "corruption" or verified.options["seed"] == seed:
        return
    before = verified.options["seed"]
    sentence = f"--seed {seed}, but {source} was made with seed {before}"
    raise UsageError(sentence, f"give --seed {before}")


def _how(body: Body, word: str, severity: str) -> mixture.How:
    """Kind and severity as typed, for these images. Raises FedcliError, UsageError."""
    if not (severity.isascii() and severity.isdigit() and int(severity) in SEVERITIES):
        raise UsageError(f"severity is {severity}, but there are 1 to 5", "3 is what FedISM uses")
    kind = full_kind(word)
    check_images(kind, body)
    return kind, int(severity)


def fits(word: str, body: Body) -> bool:
    """Tell whether images are large enough for a kind, and have the colours that it changes."""
    kind = named(word)
    has_colours = body["channels"] == 3 or not kind.needs_colour
    return min(body["size"]) >= kind.smallest and has_colours


def check_images(word: str, body: Body) -> None:
    """Refuse a kind that these images are too small for, or lack colours. Raises FedcliError."""
    kind = named(word)
    if min(body["size"]) < kind.smallest:
        size = "x".join(map(str, body["size"]))
        fitting = []
        for other in KINDS.values():
            if GENERAL in other.modalities and other.smallest <= min(body["size"]):
                fitting.append(other.name)
        hint = f"prepare with a larger --size, or use {', '.join(fitting)}"
        needed = f"needs images of at least {kind.smallest} px; these are {size}"
        raise FedcliError(f"{kind.name} {needed}", hint)
    if body["channels"] != 3 and kind.needs_colour:
        sentence = f"{kind.name} changes colours, and these images are grey"
        raise FedcliError(sentence, "use another kind, such as contrast")


def _check_last(body: Body, clients: list[str], *, several: bool) -> None:
    """Refuse other clients than a scheme means to be corrupted. several: they are chosen one by
    one."""
    last = body["corrupted_last"]
    if last is None:
        return
    corruptible = mixture.clients_of(body)[-last:]
    scheme = f"the partition was drawn to have its last {last} clients corrupted"
    if several:
        for client in clients:
            if client not in corruptible:
                hint = "choose among them, or make another partition"
                raise FedcliError(f"{scheme}, not {client}", hint)
    elif clients != corruptible:
        ratio = last / len(body["roster"])
        names = ", ".join(clients) or "none"
        hint = f"give --ratio {ratio:g}, or make another partition"
        raise FedcliError(f"{scheme}, not {names}", hint)


def _write(
    path: Path,
    partition: Path,
    hows: mixture.HowByClient,
    *,
    seed: int,
    jobs: int,
) -> None:
    """Stream the changed images of the clients and of the test set into an HDF5 file; of client ""
    there are none."""
    pool, by_client, test_rows = holdings(partition)
    rows_by_client = {}
    how_by_client = {}
    for client, how in hows.items():
        if client:
            parts = by_client[client]
            rows_by_client[client] = np.concatenate([parts["train"], parts["val"]])
            how_by_client[client] = how
    train_rows, hows_of_train = mixture.train_hows(rows_by_client, how_by_client)
    hows_of_test = mixture.test_hows(pool.id[test_rows], hows, seed)
    _ready([kind for kind, _ in hows_of_test])
    names = ", ".join(rows_by_client)
    train_count = len(train_rows)
    test_count = len(test_rows)
    console.say(f"corrupting {names} ({train_count} images) and the test set ({test_count})")
    write_part = partial(_write_part, pool, seed=seed, jobs=jobs)
    with create_hdf5(path, (train_count + test_count) * math.prod(pool.shape[1:])) as file:
        write_part(file, "train", train_rows, hows_of_train)
        write_part(file, "test", test_rows, hows_of_test)


def _write_part(
    pool: Pool,
    file: Any,
    part: str,
    rows: np.ndarray,
    hows: list[mixture.How],
    *,
    seed: int,
    jobs: int,
) -> None:
    file[f"{part}/rows"] = rows
    shape = (len(rows), *pool.shape[1:])
    x = file.create_dataset(f"{part}/x", shape, np.uint8)
    starts = range(0, len(rows), PIECE)
    pieces = []
    for i in starts:
        piece_rows = rows[i : i + PIECE]
        pieces.append((pool.path, piece_rows, pool.id[piece_rows], hows[i : i + PIECE]))
    change = partial(_changed, seed=seed)
    label = f"{part} images, {PIECE} at a time"
    changed: Iterator[np.ndarray] = in_order(
        change,
        pieces,
        label=label,
        jobs=jobs,
    )
    for i, images in zip(starts, changed, strict=True):
        x[i : i + len(images)] = images


def _changed(piece: Piece, *, seed: int) -> np.ndarray:
    """Read some rising rows of a pool and corrupt them: uint8 [n, H, W, C]."""
    path, rows, ids, hows = piece
    with open_hdf5(path, POOL) as file:
        images = file["x"][rows]
    changed = []
    for image, id, (kind, severity) in zip(images, ids, hows, strict=True):
        changed.append(corrupt_image(image, id, kind=kind, severity=severity, seed=seed))
    return np.stack(changed)
