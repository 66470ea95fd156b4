"""Division of training images among clients: labels and attributes in, row numbers out.

No pixel is copied unless `materialize` asks for one file per site. Test images stay together; only
natural sites (schemes "by" and "domains") and clients of a file also get a test part of their own.

Validation images leave a client's training part by whole patients or lesions where the pool has
them. The random schemes deal out images, not patients, as the papers do; the manifest says how many
patients lie in several clients.

Clients may share images where the authors' do (fedmrl-authors, domains, a file of clients). With a
validation part an image may then train one client and validate another; how many do is said.
"""

import re
from pathlib import Path

import numpy as np
from numpy import ndarray

from ... import console, labels
from ...console import counted
from ...errors import FedcliError
from ...io.hdf5 import create_hdf5
from ...seeds import derive
from .. import image_counts, manifest, manifest_bodies, shared_patients, skew, units
from ..manifest import Body, Destination
from ..pool import PARTS, TEST, TRAIN, Pool, Rows, copy_pool, pool_of
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
        minimum: images each client must have, else it is refused; dirichlet-balanced sees to it (0:
            even sizes).
        leaving: sites that train nothing.
        materialize: also write sites/<client>.h5, rows in the order train, val, test; one site in
            memory at a time.

    Raises FedcliError, UsageError.
    """
    dataset = manifest.find(dataset, "dataset")
    body = manifest.verify(dataset, "dataset").body
    scheme.check(body)
    options = {
        "scheme": scheme.name,
        **scheme.recorded(body),
        "val": val,
        "minimum": minimum,
        "seed": seed,
        "materialize": materialize,
    }
    if scheme.code:
        options["code"] = scheme.code.recorded
    held_out_site = None
    absent = []
    if leaving.hold_out:
        held_out_site = held_out(leaving.hold_out, _by(scheme), body)
        options["hold_out"] = held_out_site.recorded
        absent.append(held_out_site.value)
    left_out_sites = left_out(leaving.without, scheme, body)
    if left_out_sites:
        options["without"] = [site.recorded for site in left_out_sites]
        absent += [site.value for site in left_out_sites]

    def build(folder: Path) -> Body:
        whole_pool = pool_of(dataset)
        pool = whole_pool
        if held_out_site:
            pool = only_tested(whole_pool, body, held_out_site)
        division = None
        if scheme.whole:
            division = scheme.divide(whole_pool, body, seed, minimum)
        entries: Body = {}
        if left_out_sites:
            pool, entries["left_out"] = dropped(
                pool,
                division,
                body,
                left_out_sites,
            )
        if held_out_site:
            images = int((pool.split == TEST).sum())
            entries["held_out"] = {**held_out_site.recorded, "images": images}
        if division is None:
            division = scheme.divide(pool, body, seed, minimum)
        else:
            division = within(division, pool, left_out_sites)
        _check_sizes(division, minimum, scheme)
        return {**_write(folder, pool, body, scheme, division, options), **entries}

    without = "".join(f"-without-{name}" for name in absent)
    slug = f"{body['name']}-{scheme.name}{without}"
    return manifest.make("partition", slug, to, options, [dataset], build)


def _by(scheme: Scheme) -> tuple[str, ...]:
    """The attributes whose values are the scheme's clients."""
    return getattr(scheme, "by", ())


def _check_sizes(division: Division, minimum: int, scheme: Scheme) -> None:
    smallest = max(1, minimum)
    sizes = {name: len(rows) for name, rows in division.train.items()}
    small = [name for name, size in sizes.items() if size < smallest]
    if not small:
        return
    size = sizes[small[0]]
    gets = counted(size, *IMAGES) if size else "no training images"
    others = ""
    if len(small) > 1:
        do = "does" if len(small) == 2 else "do"
        others_count = len(small) - 1
        others = f" (and so {do} {others_count} more)"
    hint = f"try {scheme.advice()}"
    if minimum > 1:
        hint = f"try a lower --minimum, {scheme.advice()}"
    sentence = f"client {small[0]} gets {gets}{others}; each needs at least {smallest}"
    raise FedcliError(sentence, hint)


def _write(
    folder: Path,
    pool: Pool,
    dataset: Body,
    scheme: Scheme,
    division: Division,
    options: Body,
) -> Body:
    """Write rows.h5 (and the sites) into folder; returns the manifest's body."""
    test_rows = np.flatnonzero(pool.split == TEST)
    numbers = patients(pool)
    rows = _rows_by_client(pool, numbers, division, test_rows, options)
    with create_hdf5(folder / "rows.h5") as file:
        for part in PARTS:
            for k, parts in enumerate(rows.values()):
                file[f"{part}/{k}"] = parts[part]
        file["test/all"] = test_rows
    if options["materialize"]:
        _write_sites(folder / "sites", pool, rows)
    names = list(division.train)
    owned = list(division.train.values())
    classes = len(dataset["classes"])
    described = skew.describe(
        names, owned, pool.y, classes, None if pool.patient is None else numbers
    )
    train_rows = [parts["train"] for parts in rows.values()]
    train = np.concatenate(train_rows)
    val_rows = [parts["val"] for parts in rows.values()]
    val = np.concatenate(val_rows)
    all_parts = {"train": train, "val": val, "test": test_rows}
    body = {name: dataset[name] for name in manifest_bodies.POOLED}
    if labels.is_multi_label(dataset):
        body["task"] = labels.MULTI_LABEL
    body["dataset"] = dataset["name"]
    body["scheme"] = scheme.name
    body["roster"] = [_roster_entry(pool, name, parts, classes) for name, parts in rows.items()]
    body["corrupted_last"] = None
    train_count = int((pool.split == TRAIN).sum())
    rows_of_all = np.unique(np.concatenate(owned))
    body["dropped"] = train_count - len(rows_of_all)
    body["unit_overlap"] = described["units_in_several"]
    body["skew"] = described
    body.update(shared_patients.of_parts(dataset["unit"], pool, all_parts))
    body.update(division.body)
    attributes = {}
    for name, values in dataset["attributes"].items():
        if name not in _by(scheme):
            attributes[name] = values
    distances = image_counts.skewed(pool, owned, attributes)
    in_both = len(np.intersect1d(train, val))
    _report(body, dataset, in_both, scheme, distances)
    _report_validation(body, options)
    return body


def _rows_by_client(
    pool: Pool,
    numbers: ndarray,
    division: Division,
    test_rows: ndarray,
    options: Body,
) -> Rows:
    """The rows of each client, with its validation part drawn. numbers: [N] the patient of each
    image."""
    single = pool.single
    # then test images are its own
    is_alone = len(division.train) == 1 and not division.test and "hold_out" not in options
    rows: Rows = {}
    for name, owned in division.train.items():
        rng = np.random.default_rng(derive("validation", options["seed"], name))
        labels_of_client = single[owned]
        validates = hold_out(labels_of_client, numbers[owned], options["val"], rng)
        test = test_rows if is_alone else division.test.get(name, owned[:0])
        rows[name] = {
            "train": owned[~validates],
            "val": owned[validates],
            "test": test,
        }
    return rows


def _roster_entry(
    pool: Pool,
    client: str,
    parts: dict[str, ndarray],
    classes: int,
) -> Body:
    entry: Body = {part: len(rows) for part, rows in parts.items()}
    entry["client"] = client
    class_counts = labels.counts(pool.y[parts["train"]], classes)
    entry["class_counts"] = class_counts.tolist()
    return entry


def hold_out(y: ndarray, patient: ndarray, share: float, rng: np.random.Generator) -> ndarray:
    """bool [N]: the validation images, a share of the patients, whole, from every class in
    proportion.

    Patients stand in line, class by class, and are drawn at even steps from a random start. Their
    number is rounded half up, but one is always left to train on.
    """
    _, first_images, patient_of_image = np.unique(
        patient,
        return_index=True,
        return_inverse=True,
    )
    order = rng.permutation(len(first_images))
    # a patient counts for the class of its first image
    labels_in_order = y[first_images][order]
    order = order[np.argsort(labels_in_order, kind="stable")]
    rounded_share = int(share * len(order) + 0.5)
    count = min(rounded_share, len(order) - 1)
    steps = even_steps(count, rng) * len(order)
    chosen = np.zeros(len(order), bool)
    chosen[order[steps.astype(np.int64)]] = True
    return chosen[patient_of_image]


def _write_sites(folder: Path, pool: Pool, rows: Rows) -> None:
    folder.mkdir()
    files = {client: re.sub(r"[^\w-]+", "_", client)[:80] for client in rows}
    distinct = {file.casefold() for file in files.values()}
    if len(distinct) < len(files):  # two names differ only in what was replaced
        for k, client in enumerate(rows):
            files[client] += f"-{k}"
    clients = list(files.items())
    for client, file in console.progress(clients, label="site files", total=len(files)):
        site_rows = np.concatenate(list(rows[client].values()))
        path = folder / f"{file}.h5"
        copy_pool(
            pool,
            site_rows,
            path,
            pool.pixels(site_rows),
        )


def _report(
    body: Body,
    dataset: Body,
    shared: int,
    scheme: Scheme,
    distances: dict[str, float],
) -> None:
    """Say how the clients differ. shared: images that validate one client and train another."""
    images = body["skew"]["images"]
    count = len(body["roster"])
    clients = counted(count, "client", "clients")
    lowest = "" if images["min"] == images["max"] else f"{images['min']} to "
    highest = counted(images["max"], "image", "images")
    console.say(f"{clients} with {lowest}{highest}")
    distance = body["skew"]["total_variation"]["max"]
    if distance is not None:
        by_site = _by(scheme) == (dataset["sites"],)
        clients_called = "hospitals" if by_site else "clients"
        console.say(_differences(clients_called, count, distance, distances))
    if body["dropped"]:
        singular, plural = scheme.left_over
        one_image = f"training image {singular} and goes"
        images_dropped = counted(
            body["dropped"],
            one_image,
            f"training images {plural} and go",
        )
        console.say(f"{images_dropped} to no client")
    in_several = body["skew"]["images_in_several"]["count"]
    if in_several:
        say = f"{counted(in_several, 'image is', 'images are')} in more than one client"
        if shared:
            validate = "validate one and train another"
            say += ", " + counted(shared, "validates one and trains another", validate)
        console.say(say)
    if body["unit_overlap"]:
        console.say(_overlap(body["unit_overlap"], dataset["unit"]))


def _overlap(count: int, patient: str | None) -> str:
    """A sentence on the patients or lesions whose images lie in several clients. patient: the
    unit."""
    noun = units.noun(patient)
    lies = "lies" if count == 1 else "lie"
    return f"{counted(count, noun, units.plural(noun))} {lies} in more than one client's data."


def _report_validation(body: Body, options: Body) -> None:
    sizes = [client["val"] for client in body["roster"]]
    if any(sizes):
        of_each = ""
        if len(sizes) > 1:
            lowest = "" if min(sizes) == max(sizes) else f"{min(sizes)} to "
            of_each = f", {lowest}{max(sizes)} of each client"
        images = counted(sum(sizes), "training image is", "training images are")
        console.say(f"{images} kept for validation{of_each}")
    elif options["val"]:
        share = f"--val {options['val']:g}"
        console.warn(f"{share} keeps no image for validation: the clients have too few")


def _differences(
    clients_called: str,
    count: int,
    distance: float,
    distances: dict[str, float],
) -> str:
    """A sentence on the largest distance of labels, and of each attribute, between two clients."""
    shares = [f"{100 * distance:.0f} % of their labels"]
    for name, share in distances.items():
        percent = 100 * share
        shares.append(f"{percent:.0f} % of their {_plural(name)}")
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
