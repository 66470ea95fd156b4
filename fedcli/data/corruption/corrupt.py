"""Image corruptions of the ImageNet-C family, one random stream per image.

Source: Hendrycks & Dietterich, ICLR 2019, arXiv 1903.12261, in the package imagecorruptions: all 19
kinds, severity 1 to 5. Who is corrupted follows the FedISM authors (arXiv 2503.09587): the last
clients of the roster, and a copy of the whole test set.

What differs from imagecorruptions.corrupt():
    * the stream depends on (seed, image id, kind, severity) only, so order and number of processes
      change nothing;
    * a grey image stays grey, with one draw, by the functions' own two-dimensional path (corrupt()
      makes three channels with a draw each). Motion blur's grey path fails, so one of three equal
      channels is taken. Saturate
      is refused: grey has no colour to change;
    * pointwise kinds (noise, brightness, contrast, saturate) work at any size; the others need 32
      px as in corrupt().

Spatter divides by zero where no drop falls; the image then stays as it is.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ... import console
from ...errors import FedcliError, UsageError, nearest
from ...io.hdf5 import create_hdf5, open_hdf5
from ...seeds import derive
from ...system.processes import in_order
from .. import manifest, manifest_bodies, shared_patients
from ..manifest import Body
from ..pool import POOL, Pool, holdings
from . import library, matched, mixture

POINTWISE = {  # kind -> what it does to an image
    "gaussian-noise": "normal noise added to each pixel",
    "shot-noise": "Poisson noise, as where few photons are counted",
    "impulse-noise": "single pixels turned black or white",
    "speckle-noise": "normal noise in proportion to the brightness, as in ultrasound",
    "brightness": "the whole image brighter",
    "contrast": "pixels moved towards the image's mean",
    "saturate": "colours paler or stronger; refused for grey images",
}
SPATIAL = {
    "defocus-blur": "blurred as by a lens out of focus",
    "glass-blur": "pixels swapped with near ones, as behind frosted glass",
    "motion-blur": "blurred along a random direction, as by a patient who moves",
    "zoom-blur": "mean of the image at several magnifications",
    "gaussian-blur": "blurred by a normal kernel",
    "snow": "snowflakes over the image",
    "frost": "ice crystals over the image",
    "fog": "random haze over the image",
    "spatter": "drops of water or mud over the image",
    "elastic-transform": "small regions stretched or shrunk",
    "pixelate": "made smaller and larger again, in coarse squares",
    "jpeg-compression": "stored as JPEG of low quality",
}
KINDS = POINTWISE | SPATIAL
ALIASES = {"poisson": "shot-noise", "salt-and-pepper": "impulse-noise"}
# reversed, so that gaussian is the noise
ALIASES |= {kind.rpartition("-")[0]: kind for kind in reversed(KINDS) if "-" in kind}
SEVERITIES = range(1, 6)
SMALLEST = 32  # px, for the spatial kinds
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


Piece = tuple[Path, np.ndarray, np.ndarray, list[mixture.How]]  # pool, rows, ids, hows


def full_kind(word: str) -> str:
    """The kind a word on the command line stands for. Raises UsageError."""
    kind = word.lower().replace("_", "-")
    kind = ALIASES.get(kind, kind)
    if kind not in KINDS:
        raise UsageError(f"unknown corruption {word!r}", nearest(kind, (*KINDS, *ALIASES)))
    return kind


def corrupt_image(
    image: np.ndarray,
    id: str,
    *,
    kind: str,
    severity: int,
    seed: int,
) -> np.ndarray:
    """A corrupted copy of an image: uint8 [H, W, C] in and out; fractions are cut off, as in the
    package.

    C is 1 or 3, or the slices of a volume, each of which is corrupted as a grey image with a draw
    of its own.
    """
    from PIL import Image

    if kind == matched.KIND:
        return matched.add(image, id, severity, seed)
    channels = image.shape[2]
    if channels not in (1, 3):
        change = partial(corrupt_image, kind=kind, severity=severity, seed=seed)
        slices = []
        for k in range(channels):
            slices.append(change(image[..., [k]], f"{id}/{k}"))
        return np.concatenate(slices, -1)
    library_change = getattr(library.functions(), kind.replace("-", "_"))
    flat = image[..., 0] if channels == 1 else image
    needs_colours = channels == 1 and kind == "motion-blur"
    source = np.stack([flat] * 3, -1) if needs_colours else flat
    with _seeded(derive("corrupt", seed, id, kind, severity)), np.errstate(invalid="ignore"):
        changed = np.asarray(library_change(Image.fromarray(source), severity))
    if needs_colours:
        changed = changed[..., 0]
    if kind == "spatter":
        changed = np.where(np.isnan(changed), flat, changed)
    return changed.astype(np.uint8).reshape(image.shape)


def corrupt_images(
    images: np.ndarray,
    ids: Sequence[str],
    **how: Any,
) -> np.ndarray:
    """Corrupted copies of images in memory, uint8 [N, H, W, C]; how: as corrupt_image takes it."""
    library.functions()  # once, for all processes to inherit
    pieces = []
    for i in range(0, len(images), PIECE):
        piece_ids = list(ids[i : i + PIECE])
        pieces.append((images[i : i + PIECE], piece_ids))
    label = f"{how['kind']} {how['severity']}, {PIECE} images at a time"
    changed = list(in_order(partial(_piece, **how), pieces, label=label))
    return np.concatenate([images[:0], *changed])


def _piece(piece: tuple[np.ndarray, list[str]], **how: Any) -> np.ndarray:
    images, ids = piece
    changed = [corrupt_image(image, id, **how) for image, id in zip(images, ids, strict=True)]
    return np.stack(changed)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """numpy's global stream, which the package draws from, seeded here and given back as it was."""
    before = np.random.get_state()
    np.random.seed(divmod(seed, 2**32))
    try:
        yield
    finally:
        np.random.set_state(before)


def make_corruption(
    source: Path,
    kind: str | None,
    to: manifest.Destination,
    who: mixture.Who,
    *,
    severity: int = 3,
    seed: int = 0,
    jobs: int = 0,
    match: str | None = None,
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
        match: a client that the chosen ones become as noisy as, in place of a kind and severity.
    """
    source = manifest.find(source, "partition", "corruption")
    verified = manifest.verify(source, "partition", "corruption")
    _check_seed(source, verified, seed)
    partition = manifest.above(source, "partition")
    body = manifest.read(partition, "partition").body
    default = None
    if kind is not None:
        default = _how(body, kind, str(severity))
    elif match is not None:
        default = (matched.KIND, severity)
    elif not who.client:
        hint = "fedcli corrupt gaussian, or --client NAME=KIND:SEVERITY"
        raise UsageError("no kind of corruption is given", hint)
    before = mixture.of_body(verified.body)
    hows = mixture.each_client(body, who, default, partial(_how, body), before)
    _check_last(body, list(hows), several=bool(before or who.client))
    facts: Body = {"ratio": len(hows) / len(body["roster"])}
    if match is not None:
        noisy = [client for client in hows if client not in before]
        severity, facts["match"] = matched.matched(source, noisy, match, seed)
        hows.update(dict.fromkeys(noisy, (matched.KIND, severity)))
    if hows:
        described = mixture.described(hows)
    else:
        described = {
            "kind": full_kind(kind or ""),
            "severity": severity,
            "clients": [],
        }
    options = {**described, "seed": seed}
    if match:
        options["match"] = match
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

    slug = f"{body['dataset']}-{described['kind']}-{described['severity']}"
    return manifest.make("corruption", slug, to, options, [partition], build)


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


def check_images(kind: str, body: Body) -> None:
    if min(body["size"]) < SMALLEST and kind in SPATIAL:
        size = "x".join(map(str, body["size"]))
        hint = f"prepare with a larger --size, or use {', '.join(POINTWISE)}"
        raise FedcliError(f"{kind} needs images of at least {SMALLEST} px; these are {size}", hint)
    if body["channels"] != 3 and kind == "saturate":
        sentence = "saturate changes colours, and these images are grey"
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
    library.functions()  # a missing package is an error before any process starts
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
