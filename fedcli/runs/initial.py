"""The start of a run: another run's last model, and the parts of a network that never train."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data import manifest
from ..errors import FedcliError, UsageError
from ..federation.state import read_tensors
from ..methods import Method
from ..models import Network, frozen_parts
from ..options import Source
from .own_code import method_of

AT_SITES = "ask them by `evaluate --engine`; with the partition of one of them, evaluate takes --on, predict and export --data"
FORM = (
    "classes",
    "attributes",
    "size",
    "channels",
)  # in which a site's images are as those of all others


@dataclass(frozen=True)
class ParentRun:
    """A finished run that another one starts from."""

    path: Path
    model: Path  # its last global model
    body: dict[str, Any]

    @property
    def about(self) -> dict[str, Any]:
        """The entry of it in the later run's manifest."""
        return {key: self.body[key] for key in ("method", "label", "rule", "settings", "rounds")}


def open_parent(weights: Source | None) -> ParentRun | None:
    """The run that --weights names, after checking every hash above it; None where it names something else.

    Raises FedcliError, HashError.
    """
    path = Path(weights) if weights else None
    if path is None or not (path.is_dir() or path.name == "run.json"):
        return None
    path = manifest.find(path, "run")
    verified = manifest.verify(path, "run")
    rounds = sorted(
        name for name in verified.files if name.startswith("models/") and Path(name).stem.isdigit()
    )
    if not rounds:
        raise FedcliError(f"{path} kept no model", "train the run again")
    if verified.body["model"]["frozen"]:
        raise FedcliError(
            f"{path} froze its backbone, so its models do not hold one",
            "start from the weights that run started from",
        )
    return ParentRun(path, path.parent / rounds[-1], verified.body)


def take_head(net: Network, parent_run: ParentRun, method: Method, classes: list[str]) -> str:
    """Give net the classifier of the run before too; why not, where it does not fit."""
    data = manifest.read(data_of(parent_run.path, "corruption", "partition", "sites")).body
    before = method_of(manifest.read(parent_run.path, "run")).local
    if before.head != method.head or data["classes"] != classes:
        what = "other classes" if data["classes"] != classes else f"a {before.head} classifier"
        return f"the classifier starts anew, since the run before had {what}"
    tensors = {
        name.removeprefix("model/"): tensor
        for name, tensor in read_tensors(parent_run.model).items()
    }
    counters = {
        name for name in net.head.state_dict() if name.endswith("num_batches_tracked")
    }  # in no model of a run
    kept = {name: tensors[f"head.{name}"] for name in net.head.state_dict() if name not in counters}
    net.head.load_state_dict(kept, strict=False)
    return ""


def data_of(run: Path, *kinds: str) -> Path:
    """The data that a run was trained on, or its nearest ancestor of these kinds. Raises FedcliError."""
    kinds = kinds or ("corruption", "partition")
    data = manifest.parent(
        run, *kinds, "sites"
    )  # before the data of a run that this one began from
    if data and "sites" not in kinds and manifest.read(data).kind == "sites":
        raise FedcliError(
            f"{run} was trained on images that are at their sites, see {data}", AT_SITES
        )
    if data is None:
        raise FedcliError(f"{run} names no data that it was trained on", "train the run again")
    return data


def is_at_sites(run: Path) -> bool:
    """Tell whether a run was trained on images that are at their sites."""
    data = manifest.parent(run, "corruption", "partition", "sites")
    return data is not None and manifest.read(data).kind == "sites"


def of_one_site(run: Path, images: Path) -> Path:
    """The manifest of a site's images, in place of those of all sites that a run was trained at.

    Raises FedcliError where the run has images of its own, or these are of another form; HashError.
    """
    if not is_at_sites(run):
        raise UsageError(f"the images of {run} are here, and no site's", "leave --data out")
    made = manifest.read(run)
    if (
        made.body["model"]["personal"]
        or made.body["model"]["personal_models"]
        or made.options.get("bn") == "local"
    ):
        raise FedcliError(
            f"each client's own part of the models of {run} is at its site",
            "only the sites can score their own models",
        )
    path = manifest.find(images, "corruption", "partition")
    theirs, ours = (
        manifest.verify(path, "corruption", "partition").body,
        manifest.read(data_of(run, "sites")).body,
    )
    if differing := [key for key in FORM if theirs[key] != ours[key]]:
        key = differing[0]
        what = f"{path} has the {key} {theirs[key]}, the run's sites {ours[key]}"
        raise FedcliError(what[:300], "give the partition that a site of the run describes")
    return path


def server_memory(
    parent_run: ParentRun, data: Path, roster: list[str], device: str
) -> dict[str, Tensor]:
    """The parent run's last aggregation weights by roster row: start_weights float64 [N].

    Nothing where not every client took part in that round. Raises FedcliError for another partition, whose clients
    are others even where they have the same names; with and without corruption it is the same.
    """
    if _partition(data_of(parent_run.path)) != _partition(data):
        raise FedcliError(
            f"{parent_run.path} was trained by other clients than those of {data}",
            f"leave the data out, or give what it was trained on: {data_of(parent_run.path)}",
        )
    line = json.loads(
        (parent_run.path.parent / "rounds.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    )
    if len(line["weights"]) < len(roster) or None in line["weights"]:
        return {}
    return {"start_weights": torch.tensor(line["weights"], dtype=torch.float64, device=device)}


def _partition(data: Path) -> str:
    """A text that tells one division among clients from another."""
    return manifest.sha256(
        data if manifest.read(data).kind == "partition" else data_of(data, "partition")
    )


def frozen(net: Network) -> dict[str, Tensor]:
    """Every float tensor of the network that never trains, by name; a teacher is not scored, so it is left out.

    A buffer belongs to it only inside a part in which nothing trains; elsewhere it travels.
    """
    parts = tuple(f"{name}." for name in frozen_parts(net))
    still = {name for name, p in net.named_parameters() if not p.requires_grad}
    return {
        name: tensor
        for name, tensor in net.state_dict().items()
        if (name in still or name.startswith(parts))
        and not name.startswith("teacher.")
        and tensor.is_floating_point()
    }
