"""Image corruptions of the ImageNet-C family, one random stream per image.

Source: Hendrycks & Dietterich, ICLR 2019, arXiv 1903.12261, in the package imagecorruptions: all 19 kinds, severity
1 to 5. Who is corrupted follows the FedISM authors (arXiv 2503.09587): the last clients of the roster, and a copy of
the whole test set.

What differs from imagecorruptions.corrupt():
    * the stream depends on (seed, image id, kind, severity) only, so order and number of processes change nothing;
    * a grey image stays grey, with one draw, by the functions' own two-dimensional path (corrupt() makes three
      channels with a draw each). Motion blur's grey path fails, so one of three equal channels is taken. Saturate
      is refused: grey has no colour to change;
    * pointwise kinds (noise, brightness, contrast, saturate) work at any size; the others need 32 px as in corrupt().

Spatter divides by zero where no drop falls; the image then stays as it is.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
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
from ..pool import POOL, holdings
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
ALIASES = {
    kind.rpartition("-")[0]: kind for kind in reversed(KINDS) if "-" in kind
}  # gaussian is the noise
ALIASES |= {"poisson": "shot-noise", "salt-and-pepper": "impulse-noise"}
SEVERITIES = range(1, 6)
SMALLEST = 32  # px, for the spatial kinds
PIECE = 8  # images a process reads, changes and sends back at a time
COPIED = (
    *manifest_bodies.POOLED,
    *("dataset", "task", "roster", "label_noise", "hidden_attributes", "attack"),
    shared_patients.KEY,
)


def full_kind(word: str) -> str:
    """The kind a word on the command line stands for. Raises UsageError."""
    kind = word.lower().replace("_", "-")
    kind = ALIASES.get(kind, kind)
    if kind not in KINDS:
        raise UsageError(f"unknown corruption {word!r}", nearest(kind, (*KINDS, *ALIASES)))
    return kind


def corrupt_image(image: np.ndarray, id: str, *, kind: str, severity: int, seed: int) -> np.ndarray:
    """A corrupted copy of an image: uint8 [H, W, C] in and out; fractions are cut off, as in the package.

    C is 1 or 3, or the slices of a volume, each of which is corrupted as a grey image with a draw of its own.
    """
    from PIL import Image

    if kind == matched.KIND:
        return matched.add(image, id, severity, seed)
    if image.shape[2] not in (1, 3):
        change = partial(corrupt_image, kind=kind, severity=severity, seed=seed)
        slices = [change(image[..., [k]], f"{id}/{k}") for k in range(image.shape[2])]
        return np.concatenate(slices, -1)
    library_change = getattr(library.functions(), kind.replace("-", "_"))
    grey = image.shape[2] == 1
    flat = image[..., 0] if grey else image
    lift = grey and kind == "motion-blur"
    with _seeded(derive("corrupt", seed, id, kind, severity)), np.errstate(invalid="ignore"):
        out = np.asarray(
            library_change(Image.fromarray(np.stack([flat] * 3, -1) if lift else flat), severity)
        )
    out = out[..., 0] if lift else out
    if kind == "spatter":
        out = np.where(np.isnan(out), flat, out)
    return out.astype(np.uint8).reshape(image.shape)


def corrupt_images(images: np.ndarray, ids: Sequence[str], **how: Any) -> np.ndarray:
    """Corrupted copies of images in memory, uint8 [N, H, W, C]; how: as corrupt_image takes it."""
    library.functions()  # once, for all processes to inherit
    pieces = [
        (images[i : i + PIECE], list(ids[i : i + PIECE])) for i in range(0, len(images), PIECE)
    ]
    label = f"{how['kind']} {how['severity']}, {PIECE} images at a time"
    changed = list(in_order(partial(_piece, **how), pieces, label=label))
    return np.concatenate([images[:0], *changed])


def _piece(piece: tuple[np.ndarray, list[str]], **how: Any) -> np.ndarray:
    return np.stack([corrupt_image(image, id, **how) for image, id in zip(*piece, strict=True)])


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
    """Corrupt some clients' images and a copy of the whole test set; returns the path of corruption.json.

    Args:
        source: a partition, or a corruption, whose clients stay as they are and to which others are added.
        kind: of the clients that `who` chooses by ratio or name; None where it says the kind of each.
        severity: 1 to 5.
        jobs: processes, 0 for one per core; changes no byte.
        match: a client that the chosen ones become as noisy as, in place of a kind and severity.
    """
    source = manifest.find(source, "partition", "corruption")
    given = manifest.verify(source, "partition", "corruption")
    partition = manifest.above(source, "partition")
    body = manifest.read(partition, "partition").body
    if given.kind == "corruption" and given.options["seed"] != seed:
        before = given.options["seed"]
        raise UsageError(
            f"--seed {seed}, but {source} was made with seed {before}", f"give --seed {before}"
        )
    if kind is None and match is None and not who.client:
        raise UsageError(
            "no kind of corruption is given",
            "fedcli corrupt gaussian, or --client NAME=KIND:SEVERITY",
        )
    before, default, found = mixture.of_body(given.body), None, {}
    if kind is not None or match is not None:
        default = _how(body, kind, str(severity)) if kind is not None else (matched.KIND, severity)
    each = mixture.each_client(body, who, default, partial(_how, body), before)
    _check_last(body, list(each), several=bool(before or who.client))
    if match is not None:
        noisy = [client for client in each if client not in before]
        severity, found["match"] = matched.found(source, noisy, match, seed)
        each |= dict.fromkeys(noisy, (matched.KIND, severity))
    options = (
        mixture.described(each)
        if each
        else dict(kind=full_kind(kind or ""), severity=severity, clients=[])
    )
    about, options = options, options | {"seed": seed} | ({"match": match} if match else {})
    slug = f"{body['dataset']}-{about['kind']}-{about['severity']}"

    def build(target: Path) -> dict[str, Any]:
        _write(
            target / "changed.h5",
            partition,
            each or {"": (str(about["kind"]), severity)},
            seed=seed,
            jobs=jobs,
        )
        shares = {"ratio": len(each) / len(body["roster"])}
        return {name: body[name] for name in COPIED if name in body} | about | shares | found

    return manifest.make("corruption", slug, to, options, [partition], build)


def _how(body: dict[str, Any], word: str, severity: str) -> mixture.How:
    """Kind and severity as typed, for these images. Raises FedcliError, UsageError."""
    if not (severity.isascii() and severity.isdigit() and int(severity) in SEVERITIES):
        raise UsageError(f"severity is {severity}, but there are 1 to 5", "3 is what FedISM uses")
    kind = full_kind(word)
    check_images(kind, body)
    return kind, int(severity)


def check_images(kind: str, body: dict[str, Any]) -> None:
    if min(body["size"]) < SMALLEST and kind in SPATIAL:
        size = "x".join(map(str, body["size"]))
        hint = f"prepare with a larger --size, or use {', '.join(POINTWISE)}"
        raise FedcliError(f"{kind} needs images of at least {SMALLEST} px; these are {size}", hint)
    if body["channels"] != 3 and kind == "saturate":
        raise FedcliError(
            "saturate changes colours, and these images are grey",
            "use another kind, such as contrast",
        )


def _check_last(body: Mapping[str, Any], clients: list[str], *, several: bool) -> None:
    """Refuse other clients than a scheme means to be corrupted. several: whether they are chosen one by one."""
    if (last := body["corrupted_last"]) is None:
        return
    meant = mixture.clients_of(body)[-last:]
    drawn = f"the partition was drawn to have its last {last} clients corrupted"
    if several and (odd := [name for name in clients if name not in meant]):
        raise FedcliError(f"{drawn}, not {odd[0]}", "choose among them, or make another partition")
    if not several and clients != meant:
        hint = f"give --ratio {last / len(body['roster']):g}, or make another partition"
        raise FedcliError(f"{drawn}, not {', '.join(clients) or 'none'}", hint)


def _write(path: Path, partition: Path, each: mixture.Each, *, seed: int, jobs: int) -> None:
    """Stream the changed images of the clients and of the test set into an HDF5 file; of client "" there are none."""
    pool, by_client, test = holdings(partition)
    rows_of = {
        name: np.concatenate([by_client[name][part] for part in ("train", "val")])
        for name in each
        if name
    }
    train, hows = mixture.train_hows(
        rows_of, {client: how for client, how in each.items() if client}
    )
    library.functions()  # a missing package is an error before any process starts
    console.say(
        f"corrupting {', '.join(rows_of)} ({len(train)} images) and the test set ({len(test)})"
    )
    change = partial(_changed, seed=seed)
    with create_hdf5(path, (len(train) + len(test)) * math.prod(pool.shape[1:])) as file:
        for name, chosen, how in (
            ("train", train, hows),
            ("test", test, mixture.test_hows(pool.id[test], each, seed)),
        ):
            file[f"{name}/rows"] = chosen
            x = file.create_dataset(f"{name}/x", (len(chosen), *pool.shape[1:]), np.uint8)
            starts = range(0, len(chosen), PIECE)
            pieces = [
                (
                    pool.path,
                    chosen[i : i + PIECE],
                    pool.id[chosen[i : i + PIECE]],
                    how[i : i + PIECE],
                )
                for i in starts
            ]
            label = f"{name} images, {PIECE} at a time"
            changed: Iterator[np.ndarray] = in_order(change, pieces, label=label, jobs=jobs)
            for i, images in zip(starts, changed, strict=True):
                x[i : i + len(images)] = images


def _changed(
    piece: tuple[Path, np.ndarray, np.ndarray, list[mixture.How]], *, seed: int
) -> np.ndarray:
    """Read some rising rows of a pool and corrupt them: uint8 [n, H, W, C]."""
    path, rows, ids, hows = piece
    with open_hdf5(path, POOL) as file:
        images = file["x"][rows]
    each = zip(images, ids, hows, strict=True)
    return np.stack(
        [
            corrupt_image(image, id, kind=kind, severity=how, seed=seed)
            for image, id, (kind, how) in each
        ]
    )
