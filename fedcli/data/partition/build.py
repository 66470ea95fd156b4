"""Division of training images among clients: labels and attributes in, row numbers out.

No pixel is copied unless `materialize` asks for one file per site. Test images stay together; only natural sites
(schemes "by" and "domains") and clients of a file also get a test part of their own.

Validation images leave a client's training part by whole patients or lesions where the pool has them. The random
schemes deal out images, not patients, as the papers do; the manifest says how many patients lie in several clients.

Clients may share images where the authors' do (fedmrl-authors, domains, a file of clients). With a validation part an
image may then train one client and validate another; how many do is said.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ... import console, labels
from ...console import counted
from ...errors import FedcliError
from ...io.hdf5 import create_hdf5
from ...seeds import derive
from .. import image_counts, manifest, manifest_bodies, shared_patients, skew
from ..manifest import Destination
from ..pool import PARTS, TEST, TRAIN, Pool, copy_pool, pool_of
from .held_out import ALL_STAY, Leaving, dropped, held_out, left_out, only_tested, within
from .scheme import IMAGES, Division, Scheme, even_steps, patients


def make_partition(
    dataset: Path,
    scheme: Scheme,
    to: Destination,
    *,
    val: float = 0.0,
    minimum: int = 0,
    seed: int = 0,
    materialize: bool = False,
    leaving: Leaving = ALL_STAY,
) -> Path:
    """Divide a dataset's training images among clients; returns the path of partition.json.

    Args:
        dataset: a dataset's manifest, or its folder.
        val: share of each client's patients kept for validation, in [0, 1).
        minimum: images each client must have, else it is refused; dirichlet-balanced sees to it (0: even sizes).
        leaving: sites that train nothing.
        materialize: also write sites/<client>.h5, rows in the order train, val, test; one site in memory at a time.

    Raises FedcliError, UsageError.
    """
    dataset = manifest.find(dataset, "dataset")
    body = manifest.verify(dataset, "dataset").body
    scheme.check(body)
    options = {"scheme": scheme.name, **scheme.recorded(body)}
    options |= {"code": scheme.code.recorded} if scheme.code else {}
    options |= dict(val=val, minimum=minimum, seed=seed, materialize=materialize)
    site = held_out(leaving.hold_out, getattr(scheme, "by", ()), body) if leaving.hold_out else None
    options |= {"hold_out": site.recorded} if site else {}
    gone = left_out(leaving.without, scheme, body)
    options |= {"without": [each.recorded for each in gone]} if gone else {}

    def build(folder: Path) -> dict[str, Any]:
        whole = pool_of(dataset)
        pool = whole if site is None else only_tested(whole, body, site)
        division = scheme.divide(whole, body, seed, minimum) if scheme.whole else None
        counts: list[dict[str, Any]] = []
        if gone:
            pool, counts = dropped(pool, division, body, gone)
        division = (
            scheme.divide(pool, body, seed, minimum)
            if division is None
            else within(division, pool, gone)
        )
        _check_sizes(division, minimum, scheme)
        made = _write(folder, pool, body, scheme, division, options)
        kept = (
            {"held_out": site.recorded | {"images": int((pool.split == TEST).sum())}}
            if site
            else {}
        )
        return made | kept | ({"left_out": counts} if counts else {})

    absent = [*([site.value] if site else []), *(each.value for each in gone)]
    slug = f"{body['name']}-{scheme.name}{''.join(f'-without-{name}' for name in absent)}"
    return manifest.make("partition", slug, to, options, [dataset], build)


def _check_sizes(division: Division, minimum: int, scheme: Scheme) -> None:
    least = max(1, minimum)
    small = [(name, len(part)) for name, part in division.train.items() if len(part) < least]
    if not small:
        return
    (name, size), more = small[0], len(small) - 1
    gets = counted(size, *IMAGES) if size else "no training images"
    others = f" (and so {'does' if more == 1 else 'do'} {more} more)" if more else ""
    hint = f"try {'a lower --minimum, ' if minimum > 1 else ''}{scheme.advice()}"
    raise FedcliError(f"client {name} gets {gets}{others}; each needs at least {least}", hint)


def _write(
    folder: Path,
    pool: Pool,
    dataset: dict[str, Any],
    scheme: Scheme,
    division: Division,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Write rows.h5 (and the sites) into folder; returns the manifest's body."""
    numbers, single, everyone = patients(pool), pool.single, np.flatnonzero(pool.split == TEST)
    alone = (
        len(division.train) == 1 and not division.test and "hold_out" not in options
    )  # test images are its own
    rows: dict[str, dict[str, np.ndarray]] = {}  # client -> part -> rows of the pool
    for name, own in division.train.items():
        rng = np.random.default_rng(derive("validation", options["seed"], name))
        kept = hold_out(single[own], numbers[own], options["val"], rng)
        test = everyone if alone else division.test.get(name, own[:0])
        rows[name] = {"train": own[~kept], "val": own[kept], "test": test}
    with create_hdf5(folder / "rows.h5") as file:
        for part in PARTS:
            for k, of in enumerate(rows.values()):
                file[f"{part}/{k}"] = of[part]
        file["test/all"] = everyone
    if options["materialize"]:
        _write_sites(folder / "sites", pool, rows)
    names, parts, classes = (
        list(division.train),
        list(division.train.values()),
        len(dataset["classes"]),
    )
    counts = {
        client: labels.counts(pool.y[of["train"]], classes).tolist() for client, of in rows.items()
    }
    described = skew.describe(
        names, parts, pool.y, classes, None if pool.patient is None else numbers
    )
    train, val = (np.concatenate([of[part] for of in rows.values()]) for part in ("train", "val"))
    body = {
        **{name: dataset[name] for name in manifest_bodies.POOLED},
        **({"task": labels.MULTI_LABEL} if labels.is_multi_label(dataset) else {}),
        "dataset": dataset["name"],
        "scheme": scheme.name,
        "roster": [
            {
                "client": client,
                **{part: len(at) for part, at in of.items()},
                "class_counts": counts[client],
            }
            for client, of in rows.items()
        ],
        "corrupted_last": None,
        "dropped": int((pool.split == TRAIN).sum()) - len(np.unique(np.concatenate(parts))),
        "unit_overlap": described["units_in_several"],
        "skew": described,
        **shared_patients.of_parts(
            dataset["unit"], pool, {"train": train, "val": val, "test": everyone}
        ),
        **division.body,
    }
    others = {
        name: at
        for name, at in dataset["attributes"].items()
        if name not in getattr(scheme, "by", ())
    }
    attributes = image_counts.skewed(pool, parts, others)
    by_site = getattr(scheme, "by", ()) == (dataset["sites"],)
    clients_called = "hospitals" if by_site else "clients"
    in_both = len(np.intersect1d(train, val))
    _report(body, dataset["unit"], in_both, scheme, attributes, clients_called)
    validating = [client["val"] for client in body["roster"]]
    if any(validating):
        least = "" if min(validating) == max(validating) else f"{min(validating)} to "
        each = f", {least}{max(validating)} of each client" if len(validating) > 1 else ""
        images = counted(sum(validating), "training image is", "training images are")
        console.say(f"{images} kept for validation{each}")
    elif options["val"]:
        console.warn(
            f"--val {options['val']:g} keeps no image for validation: the clients have too few"
        )
    return body


def hold_out(
    y: np.ndarray, patient: np.ndarray, share: float, rng: np.random.Generator
) -> np.ndarray:
    """bool [N]: the validation images, a share of the patients, whole, from every class in proportion.

    Patients stand in line, class by class, and are drawn at even steps from a random start. Their number is
    rounded half up, but one is always left to train on.
    """
    _, first, back = np.unique(patient, return_index=True, return_inverse=True)
    order = rng.permutation(len(first))
    order = order[
        np.argsort(y[first][order], kind="stable")
    ]  # a patient counts for the class of its first image
    count = min(int(share * len(order) + 0.5), len(order) - 1)
    chosen = np.zeros(len(order), bool)
    chosen[order[(even_steps(count, rng) * len(order)).astype(np.int64)]] = True
    return chosen[back]


def _write_sites(folder: Path, pool: Pool, rows: dict[str, dict[str, np.ndarray]]) -> None:
    folder.mkdir()
    files = {client: re.sub(r"[^\w-]+", "_", client)[:80] for client in rows}
    if len({file.casefold() for file in files.values()}) < len(
        files
    ):  # two names differ only in what was replaced
        files = {client: f"{file}-{k}" for k, (client, file) in enumerate(files.items())}
    for client, file in console.progress(list(files.items()), label="site files", total=len(files)):
        own_rows = np.concatenate(list(rows[client].values()))
        copy_pool(pool, own_rows, folder / f"{file}.h5", pool.pixels(own_rows))


def _report(
    body: dict[str, Any],
    patient: str | None,
    shared: int,
    scheme: Scheme,
    attributes: dict[str, float],
    clients_called: str,
) -> None:
    """Say how the clients differ. shared: images that validate one client and train another."""
    images, distance = body["skew"]["images"], body["skew"]["total_variation"]["max"]
    clients = counted(len(body["roster"]), "client", "clients")
    least = "" if images["min"] == images["max"] else f"{images['min']} to "
    console.say(f"{clients} with {least}{counted(images['max'], 'image', 'images')}")
    if distance is not None:
        console.say(_differences(clients_called, len(body["roster"]), distance, attributes))
    if body["dropped"]:
        singular, plural = scheme.left_over
        dropped = counted(
            body["dropped"],
            f"training image {singular} and goes",
            f"training images {plural} and go",
        )
        console.say(f"{dropped} to no client")
    if several := body["skew"]["images_in_several"]["count"]:
        validate = counted(
            shared, "validates one and trains another", "validate one and train another"
        )
        console.say(
            f"{counted(several, 'image is', 'images are')} in more than one client"
            + f", {validate}" * bool(shared)
        )
    if count := body["unit_overlap"]:
        unit = next(
            (name for name in ("lesion", "patient") if patient and name in patient),
            "patient or lesion",
        )
        overlap = counted(
            count, unit, unit.replace("patient", "patients").replace("lesion", "lesions")
        )
        console.say(f"{overlap} {'lies' if count == 1 else 'lie'} in more than one client's data.")


def _differences(
    clients_called: str, count: int, distance: float, attributes: dict[str, float]
) -> str:
    """A sentence on the largest distance of labels, and of each attribute, between two clients."""
    shares = [f"{100 * distance:.0f} % of their labels"]
    for name, share in attributes.items():
        shares.append(f"{100 * share:.0f} % of their {_plural(name)}")
    who = f"two most different {clients_called}" if count > 2 else f"two {clients_called}"
    return f"The {who} differ in {console.listed(shares)}."


def _plural(attribute: str) -> str:
    """The plural of an attribute's name where it is a plain word: ages, sexes, ethnicities."""
    if not (attribute.isascii() and attribute.isalpha() and attribute.islower()):
        return f"values of {attribute}"
    if attribute.endswith(("s", "x", "z", "ch", "sh")):
        return f"{attribute}es"
    if attribute.endswith("y") and not attribute.endswith(("ay", "ey", "oy", "uy")):
        return f"{attribute[:-1]}ies"
    return f"{attribute}s"
