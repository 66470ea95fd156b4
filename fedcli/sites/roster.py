"""Sites of a federation, from their descriptions; and its data as far as known without images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import console
from ..data import manifest, manifest_bodies, shared_patients
from ..data.shard import Shard, Shards
from ..errors import FedcliError
from ..runs import settings
from .description import check_same, read

OF_DATA = "sites", "corruption", "partition"


def gathered(paths: Sequence[Path], work: Path) -> Path:
    """The manifest of a federation whose images are at its sites.

    paths: descriptions, or folders of them; their order is that of the roster.
    Raises FedcliError, SiteError.
    """
    descriptions = _descriptions(paths)
    digests = {}
    data = {}
    roster = []
    for file, site in descriptions:
        client = site["client"]
        digests[client] = manifest.sha256(file)
        data[client] = site["data"]
        roster.append({"client": client, **site["images"]})
    _, site = descriptions[0]
    body = {key: site[key] for key in (*manifest_bodies.POOLED, "dataset", "versions")}
    body |= {"roster": roster, "data": data}
    patients_by_client = {site["client"]: site.get(shared_patients.KEY) for _, site in descriptions}
    body |= shared_patients.of_sites(patients_by_client)
    slug = f"{site['dataset']}-{len(descriptions)}"
    if any(site.get("sample") for _, site in descriptions):
        body["sample"] = True
        slug += "-SYNTHETIC"

    def build(folder: Path) -> dict[str, Any]:
        for file, site in descriptions:
            (folder / f"{site['client']}.json").write_bytes(file.read_bytes())
        return body

    options: dict[str, Any] = {"sites": digests}
    if [*digests] != sorted(digests):
        options["order"] = [*digests]
    count = console.counted(len(digests), "site", "sites")
    console.say(f"A federation of {count}: {console.listed([*digests])}")
    folder = manifest.place(work, None, "site", slug, options, [])
    return manifest.stage(
        "sites",
        folder=folder,
        made_by=["sites"],
        options=options,
        parents=[],
        build=build,
    )


def without_images(data: Path, **_: Any) -> Shards:
    """The data of a manifest of sites, as far as it is known here."""
    body = manifest.read(data).body
    train = {}
    client_test = {}
    for entry in body["roster"]:
        client = entry["client"]
        train[client] = _shard(entry["train"], body)
        client_test[client] = np.array([], np.int64)
    return Shards(
        body["classes"],
        body["attributes"],
        roster=[*train],
        train=train,
        val={},
        test={},
        client_test=client_test,
        corrupted=[],
        body=body,
        here=False,
    )


def _shard(count: int, body: dict[str, Any]) -> Shard:
    """A shard that has a length and nothing else."""
    zeros = torch.zeros((), dtype=torch.int64).expand(count)  # [N], of one number
    ids = np.broadcast_to(np.array(""), count)
    return Shard(
        torch.empty(0),
        zeros,
        zeros,
        ids,
        {},
        len(body["classes"]),
        body["channels"],
    )


def names(paths: Sequence[Path]) -> list[str]:
    """The sites in their order. Raises FedcliError.

    paths: descriptions or folders of them; or one manifest, run, or a run's settings.
    """
    data = _data(paths[0]) if len(paths) == 1 else None
    if data:
        return [entry["client"] for entry in manifest.read(data, *OF_DATA).body["roster"]]
    return [site["client"] for _, site in _descriptions(paths)]


def _descriptions(paths: Sequence[Path]) -> list[tuple[Path, dict[str, Any]]]:
    """The files, those in folders by name, and the descriptions in them.

    Raises FedcliError, SiteError.
    """
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise FedcliError(
            f"no description of a site in {', '.join(map(str, paths))}",
            "see `fedcli site describe`",
        )
    descriptions = [(file, read(file)) for file in files]
    check_same([description for _, description in descriptions])
    return descriptions


def _data(path: Path) -> Path | None:
    """The manifest of the data that a path means; None where it is neither data nor a run."""
    folder = path if path.is_dir() else path.parent
    if path in (folder, folder / "settings.json", folder / "run.json"):
        if (folder / "settings.json").is_file():
            return folder / settings.load(folder)["data_path"]
        if (folder / "run.json").is_file():
            return manifest.parent(folder / "run.json", *OF_DATA)
    for kind in OF_DATA:
        file = folder / f"{kind}.json"
        if file.is_file() and path in (folder, file):
            return file
    return None
