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
from ..models.network import COUNTER
from ..options import Source
from .own_code import method_of

AT_SITES = (
    "ask them by `evaluate --engine`; with the partition of one of them, evaluate takes --on, "
    "predict and export --data"
)
DATA = "corruption", "partition", "sites"  # manifests of a run's data
# keys in which a site's images are as those of all others
FORM = ("classes", "attributes", "size", "channels")


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
    """The run that --weights names, after checking every hash above it; None for other weights.

    Raises FedcliError, HashError.
    """
    if not weights:
        return None
    path = Path(weights)
    if not path.is_dir() and path.name != "run.json":
        return None
    path = manifest.find(path, "run")
    verified = manifest.verify(path, "run")
    names = [name for name in verified.files if name.startswith("models/")]
    model_names = sorted(name for name in names if Path(name).stem.isdigit())
    if not model_names:
        raise FedcliError(f"{path} kept no model", "train the run again")
    if verified.body["model"]["frozen"]:
        raise FedcliError(
            f"{path} froze its backbone, so its models do not hold one",
            "start from the weights that run started from",
        )
    return ParentRun(path, path.parent / model_names[-1], verified.body)


def take_head(
    net: Network,
    parent_run: ParentRun,
    method: Method,
    classes: list[str],
) -> str:
    """Give net the classifier of the run before too.

    Returns the reason where it does not fit, else "".
    """
    data = manifest.read(data_of(parent_run.path, *DATA)).body
    if data["classes"] != classes:
        return "the classifier starts anew, since the run before had other classes"
    parent_head = method_of(manifest.read(parent_run.path, "run")).local.head
    if parent_head != method.head:
        return f"the classifier starts anew, since the run before had a {parent_head} classifier"
    stored = read_tensors(parent_run.model)
    tensors = {}
    for name in net.head.state_dict():
        if not name.endswith(COUNTER):  # which no model of a run holds
            tensors[name] = stored[f"model/head.{name}"]
    net.head.load_state_dict(tensors, strict=False)
    return ""


def data_of(run: Path, *kinds: str) -> Path:
    """The data of a run, or its nearest ancestor of these kinds. Raises FedcliError."""
    kinds = kinds or ("corruption", "partition")
    # sites too, so that the data of a run that this one began from do not come first
    data = manifest.parent(run, *kinds, "sites")
    if data is None:
        raise FedcliError(f"{run} names no data that it was trained on", "train the run again")
    if "sites" not in kinds and manifest.read(data).kind == "sites":
        raise FedcliError(
            f"{run} was trained on images that are at their sites, see {data}", AT_SITES
        )
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
    trained = manifest.read(run)
    model = trained.body["model"]
    local_norms = trained.options.get("bn") == "local"
    if model["personal"] or model["personal_models"] or local_norms:
        raise FedcliError(
            f"each client's own part of the models of {run} is at its site",
            "only the sites can score their own models",
        )
    path = manifest.find(images, "corruption", "partition")
    of_site = manifest.verify(path, "corruption", "partition").body
    of_run = manifest.read(data_of(run, "sites")).body
    for key in FORM:
        if of_site[key] != of_run[key]:
            text = f"{path} has the {key} {of_site[key]}, the run's sites {of_run[key]}"
            raise FedcliError(text[:300], "give the partition that a site of the run describes")
    return path


def check_clients(parent_run: ParentRun, data: Path) -> None:
    """Raise FedcliError for another partition than the parent run's, whose clients are others even
    where they have the same names; with and without corruption it is the same.
    """
    parent_data = data_of(parent_run.path, *DATA)
    if _division(parent_data) != _division(data):
        raise FedcliError(
            f"{parent_run.path} was trained by other clients than {data} has",
            f"leave the data out, or give what it was trained on: {parent_data}",
        )


def server_memory(parent_run: ParentRun, roster: list[str], device: str) -> dict[str, Tensor]:
    """The parent run's last aggregation weights by roster row: start_weights float64 [N].

    {} where not every client took part in that round. Raises FedcliError for a run at sites.
    """
    data_of(parent_run.path)
    rounds = parent_run.path.parent / "rounds.jsonl"
    last_line = rounds.read_text(encoding="utf-8").splitlines()[-1]
    weights = json.loads(last_line)["weights"]
    if len(weights) < len(roster) or None in weights:
        return {}
    return {"start_weights": torch.tensor(weights, dtype=torch.float64, device=device)}


def _division(data: Path) -> str:
    """The hash of the partition behind a manifest, or of the sites, which tells one division from
    another."""
    if manifest.read(data).kind == "corruption":
        data = data_of(data, "partition")
    return manifest.sha256(data)


def frozen(net: Network) -> dict[str, Tensor]:
    """Every float tensor of the network that never trains, by name, without those of a teacher.

    A teacher is not scored. A buffer belongs here only inside a part in which nothing trains;
    elsewhere it travels.
    """
    parts = tuple(f"{name}." for name in frozen_parts(net))
    parameters = net.named_parameters()
    frozen_names = {name for name, parameter in parameters if not parameter.requires_grad}
    tensors = {}
    for name, tensor in net.state_dict().items():
        if name.startswith("teacher.") or not tensor.is_floating_point():
            continue
        if name in frozen_names or name.startswith(parts):
            tensors[name] = tensor
    return tensors
