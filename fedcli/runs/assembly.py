"""Network, data and method of a plan, put together for training: what a run and its estimate both work with."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import models
from ..data import manifest
from ..data import shard as load
from ..errors import FedcliError, HashError, UsageError
from ..federation import sampling
from ..federation.client_state import ClientState
from ..federation.dp_sgd import check_norms
from ..federation.engines import remote
from ..federation.engines.in_process import InProcess
from ..federation.server import Federation
from ..federation.state import RunState, Tensors
from ..methods.mixins import ContinuesRun, WeighsGroups, scored_model
from ..methods.registry import Method
from ..models.layout import Layout
from ..models.network import has_batch_norm
from . import initial, resources
from .features import folder_for, is_frozen, with_features
from .rules import check, check_labels
from .train_options import TrainOptions

SMALL_GROUP = 30  # training images, below which a weighted group is named


@dataclass(frozen=True, kw_only=True)
class PlannedFederation(Federation):
    """The federation of a plan, with all that a run's record says of it."""

    plan: TrainOptions
    data: load.Shards
    parent_run: initial.ParentRun | None  # the finished run it starts from
    begun_with: Tensors  # what the server knows before the first round
    frozen: Tensors  # every tensor of the network that never trains, by name
    model: dict[str, Any]  # what run.json says of the network
    warning: str  # what a reader of the run's numbers must know

    @property
    def net(self) -> models.Network:
        return self.clients.net

    @property
    def counts(self) -> dict[str, int]:
        """Training images of every client, in roster order."""
        return {client: len(shard) for client, shard in self.data.train.items()}

    def first(self) -> RunState:
        """The state before the first round."""
        return replace(super().first(), server=self.begun_with)

    def sites(self, state: RunState) -> dict[str, Tensors]:
        """Models of clients that train alone; one that never took part has the start."""
        own = {"own": self.layout.own_start} if self.layout.own_shapes else {}
        return {
            c: {"model": state.theta, **own, **state.clients.get(c, {})} for c in self.data.roster
        }

    def kept(self, state: RunState) -> tuple[torch.Tensor, Mapping[str, ClientState]]:
        """The global model [P] as it is scored, and what clients have beside it."""
        if self.plan.single_site:
            return state.theta, self.sites(state)
        return scored_model(self.method.aggregator, state.theta, state.server), state.clients


def open_parent(plan: TrainOptions, method: Method) -> initial.ParentRun | None:
    """The finished run that the plan's weights name. Raises FedcliError, HashError where the method cannot use it."""
    parent_run = initial.open_parent(plan.weights)
    if isinstance(method.aggregator, ContinuesRun) and parent_run is None:
        given = f", which {plan.weights} is not" if plan.weights else ""
        if plan.weights and not Path(plan.weights).exists():
            raise FedcliError(f"no such run: {plan.weights}", "give the folder of a finished run")
        raise UsageError(
            f"{method.name} continues a finished run{given}",
            f"fedcli train {method.name} --weights RUN, or fedcli train METHOD --then {method.name}",
        )
    if parent_run and parent_run.body.get("single_site"):
        raise FedcliError(
            f"the clients of {parent_run.path} trained alone, so it has no global model",
            "start from another run",
        )
    return parent_run


def assemble(
    data: Path,
    plan: TrainOptions,
    method: Method,
    parent_run: initial.ParentRun | None = None,
    *,
    only: str | None = None,
    start: Tensors | None = None,
    sharing: int = 1,
) -> PlannedFederation:
    """Build the network, load the data to where it lives, and see what each part means for the other.

    data: a verified partition or corruption manifest, or one of sites, whose images are elsewhere.
    only: the one client whose images are loaded; all by default. start: every tensor of the network, where it does not
    begin with those of the plan. sharing: as of remake(). Raises FedcliError, UsageError.
    """
    source = manifest.read(data)
    check_labels(plan, method, source.body)
    sampling.check(plan.sampling, source.body["attributes"])
    net, layout, new_head = _network(source.body, plan, method, parent_run, start)
    continues = isinstance(method.aggregator, ContinuesRun)
    still = is_frozen(net)
    channels = models.input_channels(plan.model, source.body["channels"])
    augment = (
        str(plan.augment or ("none" if still else "")) or None
    )  # a fixed view of a frozen backbone is kept
    shards = _images(plan, source.kind, sharing)(
        data, channels=channels, augment=augment, device=plan.device
    )
    if only is not None:
        shards = replace(
            shards, roster=[only], train={only: shards.train[only]}, val={only: shards.val[only]}
        )
    begun_with = (
        initial.server_memory(parent_run, data, shards.roster, plan.device)
        if parent_run and continues
        else {}
    )
    frozen = initial.frozen(net)
    model = {
        "name": models.outside.titled(plan.model),
        "channels": channels,
        "size": min(source.body["size"]),
        "precision": plan.precision,
        "personal": list(layout.own_shapes),
        "numbers": layout.size,
        "trainable": layout.trainable,
        "frozen": sorted(frozen),
        "teacher_width": getattr(net.teacher, "width", None),
    }
    random = frozen and not (plan.weights or parent_run or start)
    validation = all(client["val"] for client in source.body["roster"])
    warnings = [
        method.local.warning(net, plan.rounds),
        method.aggregator.warning(plan.rounds, validation),
        "what is frozen has random weights: give --weights" if random else "",
        f"the network has no batch norm, so --bn {plan.bn} does nothing"
        if plan.bn != "aggregate" and not has_batch_norm(net)
        else "",
        "with a frozen backbone, terms on features or norms do nothing"
        if still and method.local.trains_backbone
        else "",
        new_head,
        _beyond_account(plan, parent_run),
        unsettled(method),
        small_groups(method, plan.sampling, net, shards),
        reached[0].warning if (reached := remote(plan.engine)) else "",
    ]
    if still and shards.here:
        shards = with_features(net, shards, folder_for(data))
    return PlannedFederation(
        clients=InProcess(
            method,
            net,
            layout,
            shards.train,
            plan,
            val=shards.val,
            remake=partial(remake, data.resolve(), manifest.sha256(data), plan)
            if shards.here
            else None,
        ),
        rounds=plan.rounds,
        seed=plan.seed,
        participation=plan.participation,
        single_site=plan.single_site,
        min_clients=plan.min_clients,
        plan=plan,
        data=shards,
        parent_run=parent_run,
        begun_with=begun_with,
        frozen=frozen,
        model=model,
        warning="; ".join(filter(None, warnings)),
    )


def _beyond_account(plan: TrainOptions, parent_run: initial.ParentRun | None) -> str:
    """A warning where a run starts from another one, whose training the account of its epsilon does not see."""
    if parent_run is None:
        return ""
    if plan.dp_noise or plan.dp_sgd:
        return "epsilon is of this run alone, and the run that it starts from was trained on images too"
    if "privacy" in parent_run.body:
        return "the epsilon of the run that it starts from does not hold for this one, which adds no noise"
    return ""


def unsettled(method: Method) -> str:
    """A warning where a pair's halves each make the model their own way."""
    if not (method.local.adds_to_mean and method.aggregator.own_step):
        return ""
    return f"{method.name} adds to the server's own steps what corrects a mean of models: it swings and may never settle"


def small_groups(method: Method, drawn: str, net: models.Network, shards: load.Shards) -> str:
    """A warning where images weigh or are drawn by groups with few training images. Those at sites are not known."""
    halves = [half for half in (method.local, method.aggregator) if isinstance(half, WeighsGroups)]
    asked = [(half.group_attribute(net), half.by_class) for half in halves]
    asked.append((sampling.attribute(drawn, net.attributes), drawn.startswith("group-class")))
    pairs: dict[str, bool] = {}  # attribute -> whether pairs of it and a class count too
    for name, by_class in asked:
        pairs[name] = by_class or pairs.get(name, False)
    return "; ".join(
        note
        for name, by_class in pairs.items()
        if name
        for note in _small(name, by_class, net, shards)
    )


def _small(name: str, by_class: bool, net: models.Network, shards: load.Shards) -> list[str]:
    """Sentences on an attribute's groups of few training images, its pairs with a class, and images without a value."""
    known = [
        (shard.groups[name] + 1, shard.y) for shard in shards.train.values() if name in shard.groups
    ]
    if not known:
        return []
    groups, y = torch.cat([g for g, _ in known]), torch.cat([y for _, y in known])  # 0: unknown
    unknown, *counts = groups.bincount(minlength=len(net.attributes[name]) + 1).tolist()
    small = [
        f"{value} {n}"
        for value, n in zip(net.attributes[name], counts, strict=True)
        if n < SMALL_GROUP
    ]
    few = (
        f"groups of {name} with few training images, which then count for many: {', '.join(small)}"
    )
    notes = [few] if small else []
    if by_class and y.ndim == 1:
        notes += _small_pairs(name, (groups - 1)[groups > 0], y[groups > 0], net)
    return notes + ([f"{unknown} training images have no {name}"] if unknown else [])


def _small_pairs(name: str, groups: Tensor, y: Tensor, net: models.Network) -> list[str]:
    """A sentence on pairs of group and class of few training images [N] each, those without any left out."""
    classes = len(net.class_names)
    cells = (groups * classes + y).bincount(minlength=len(net.attributes[name]) * classes).tolist()
    small = sorted((n, cell) for cell, n in enumerate(cells) if 0 < n < SMALL_GROUP)
    if not small:
        return []
    least, cell = small[0]
    pair = f"{net.attributes[name][cell // classes]} and {net.class_names[cell % classes]}"
    return [
        f"{len(small)} pairs of {name} and class have under {SMALL_GROUP} training images, which then count for many; "
        f"the smallest is {pair} with {least}"
    ]


def remake(
    data: Path, digest: str, plan: TrainOptions, device: str, threads: int, sharing: int = 1
) -> InProcess:
    """The clients of a plan in another process, perhaps of another machine. Raises FedcliError, HashError.

    digest: sha256 of the manifest; sharing: processes that do so on the same device.
    """
    if not data.is_file():
        what = f"the node {os.uname().nodename} has no {data}"
        raise FedcliError(
            what, "nodes need the same files under the same paths: a shared file system, or copies"
        )
    manifest.verify(data, "partition", "corruption")
    if manifest.sha256(data) != digest:
        raise HashError(
            f"{data} of the node {os.uname().nodename} is another",
            "copy the data to all nodes again",
        )
    resources.be_deterministic(device, threads, plan.precision)
    plan = replace(plan, device=device)
    method = check(plan)
    return assemble(data, plan, method, open_parent(plan, method), sharing=sharing).clients


def _images(plan: TrainOptions, kind: str, sharing: int) -> Callable[..., load.Shards]:
    """Loads the data of a manifest of this kind: here, or as far as the engine knows it without its sites' images."""
    reached = remote(plan.engine) if kind == "sites" else None
    return (reached[0].images if reached else None) or partial(load.load, sharing=sharing)


def _network(
    body: dict[str, Any],
    plan: TrainOptions,
    method: Method,
    parent_run: initial.ParentRun | None,
    start: Tensors | None,
) -> tuple[models.Network, Layout, str]:
    """The network at its start, its layout, and why its classifier is not that of the run before.

    body: of the data. start: as of assemble().
    """
    channels = models.input_channels(plan.model, body["channels"])
    weights = parent_run.model if parent_run else plan.weights
    net = models.build(
        plan.model,
        models.Inputs.of(body, channels),
        seed=plan.seed,
        weights=str(weights) if weights else None,
        precision=plan.precision,
        teacher=models.load_teacher(str(plan.teacher)) if plan.teacher else None,
        freeze=plan.freeze_backbone,
        extend=method.extend,
    ).to(plan.device)
    if plan.dp_sgd and plan.bn != "freeze":
        check_norms(net, plan.model)
    if start:
        try:
            net.load_state_dict(start)
        except RuntimeError as error:
            raise FedcliError(
                f"the tensors received do not fit {plan.model}: {error}"[:300]
            ) from None
    continues = isinstance(method.aggregator, ContinuesRun)
    new_head = (
        initial.take_head(net, parent_run, method, body["classes"])
        if parent_run and not continues
        else ""
    )
    return net, Layout(net, method.personal_tensors(net)), new_head


def probe(data: Path, plan: TrainOptions) -> tuple[Callable[[str], models.Network], torch.Tensor]:
    """The input of a measurement of precision: how to build the plan's network in one, and a batch of images."""
    pool = manifest.read(data).body
    channels, (height, width) = models.input_channels(plan.model, pool["channels"]), pool["size"]

    def build(precision: str) -> models.Network:
        inputs = models.Inputs.of(pool, channels)
        return models.build(plan.model, inputs, seed=plan.seed, precision=precision).to(plan.device)

    images = torch.zeros(plan.batch_size, channels, height, width, device=plan.device)
    return build, images.contiguous(memory_format=torch.channels_last)
