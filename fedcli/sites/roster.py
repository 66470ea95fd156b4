"""Sites of a federation, from their descriptions; and its data as far as it is known without their images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data import manifest, manifest_bodies
from ..data.shard import Shard, Shards
from ..errors import FedcliError
from ..runs import settings
from .description import check_same, read

OF_DATA = "sites", "corruption", "partition"


def gathered(paths: Sequence[Path], work: Path) -> Path:
    """The manifest of a federation whose images are at its sites, from their descriptions: files, or folders of them.

    The order of the files is that of the roster. Raises FedcliError, SiteError.
    """
    files, descriptions = _descriptions(paths)
    options = {
        "sites": {
            site["client"]: manifest.sha256(file)
            for site, file in zip(descriptions, files, strict=True)
        }
    }
    first = descriptions[0]
    roster = [{"client": site["client"], **site["images"]} for site in descriptions]
    body = {key: first[key] for key in (*manifest_bodies.POOLED, "dataset", "versions")} | {
        "roster": roster
    }
    body["data"] = {site["client"]: site["data"] for site in descriptions}
    if any(site.get("sample") for site in descriptions):
        body["sample"] = True

    def build(folder: Path) -> dict[str, Any]:
        for site, file in zip(descriptions, files, strict=True):
            (folder / f"{site['client']}.json").write_bytes(file.read_bytes())
        return body

    slug = f"{first['dataset']}-{len(files)}" + "-SYNTHETIC" * ("sample" in body)
    folder = manifest.place(work, None, "site", slug, options, [])
    return manifest.stage(
        "sites", folder=folder, made_by=["sites"], options=options, parents=[], build=build
    )


def without_images(data: Path, **_: Any) -> Shards:
    """The data of a manifest of sites, as far as it is known here: a shard has a length and nothing else."""
    body = manifest.read(data).body

    def counted(count: int) -> Shard:
        nothing = torch.zeros((), dtype=torch.int64).expand(count)  # [N], of one number
        ids = np.broadcast_to(np.array(""), count)
        return Shard(
            torch.empty(0), nothing, nothing, ids, {}, len(body["classes"]), body["channels"]
        )

    roster = [client["client"] for client in body["roster"]]
    train = {client["client"]: counted(client["train"]) for client in body["roster"]}
    own = {client: np.array([], np.int64) for client in roster}
    return Shards(
        body["classes"], body["attributes"], roster, train, {}, {}, own, [], body, here=False
    )


def names(paths: Sequence[Path]) -> list[str]:
    """The sites in their order: of descriptions or folders of them; or of one manifest, run, or a run's settings.

    Raises FedcliError.
    """
    data = _data(paths[0]) if len(paths) == 1 else None
    if data:
        return [entry["client"] for entry in manifest.read(data, *OF_DATA).body["roster"]]
    return [description["client"] for description in _descriptions(paths)[1]]


def _descriptions(paths: Sequence[Path]) -> tuple[list[Path], list[dict[str, Any]]]:
    """Files, or those in folders, in their order, and the descriptions in them. Raises FedcliError, SiteError."""
    files = [
        file
        for path in paths
        for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])
    ]
    if not files:
        raise FedcliError(
            f"no description of a site in {', '.join(map(str, paths))}",
            "see `fedcli site describe`",
        )
    descriptions = [read(file) for file in files]
    check_same(descriptions)
    return files, descriptions


def _data(path: Path) -> Path | None:
    """The manifest of the data that a path means; None where it is neither data nor a run."""
    folder = path if path.is_dir() else path.parent
    if path.is_dir() or path.name in ("settings.json", "run.json"):
        if (folder / "settings.json").is_file():
            return folder / settings.load(folder)["data_path"]
        if (folder / "run.json").is_file():
            return manifest.parent(folder / "run.json", *OF_DATA)
    known = [folder / f"{kind}.json" for kind in OF_DATA]
    return next((file for file in known if file.is_file() and path in (folder, file)), None)
