"""Network, data and method of a plan, put together for a training or for its estimate."""

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
from ..methods.helpers import is_frozen
from ..methods.mixins import ContinuesRun, StartsFromRun, WeighsGroups, scored_model
from ..methods.registry import Method
from ..models.layout import Layout
from ..models.network import has_batch_norm
from . import initial, resources
from .features import folder_for, with_features
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
        start = {"model": state.theta}
        if self.layout.own_shapes:
            start["own"] = self.layout.own_start
        return {client: {**start, **state.clients.get(client, {})} for client in self.data.roster}

    def kept(self, state: RunState) -> tuple[torch.Tensor, Mapping[str, ClientState]]:
        """The global model [P] as it is scored, and what clients have beside it."""
        if self.plan.single_site:
            return state.theta, self.sites(state)
        return scored_model(self.method.aggregator, state.theta, state.server), state.clients


def open_parent(plan: TrainOptions, method: Method) -> initial.ParentRun | None:
    """The finished run that the plan's weights name.

    Raises FedcliError, HashError where the method cannot use it.
    """
    parent_run = initial.open_parent(plan.weights)
    if isinstance(method.aggregator, StartsFromRun) and parent_run is None:
        if plan.weights and not Path(plan.weights).exists():
            raise FedcliError(f"no such run: {plan.weights}", "give the folder of a finished run")
        sentence = f"{method.name} continues a finished run"
        if plan.weights:
            sentence += f", which {plan.weights} is not"
        hint = f"fedcli train {method.name} --weights RUN"
        if isinstance(method.aggregator, ContinuesRun):
            hint += f", or fedcli train METHOD --then {method.name}"
        raise UsageError(sentence, hint)
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
    """Build the network, load the data onto the device, and check that they fit together.

    data: a verified partition or corruption manifest, or one of sites, whose images are elsewhere.
    only: the one client whose images are loaded; all by default.
    start: every tensor of the network, where it does not begin with those of the plan.
    sharing: as of remake().
    Raises FedcliError, UsageError.
    """
    source = manifest.read(data)
    check_labels(plan, method, source.body)
    sampling.check(plan.sampling, source.body["attributes"])
    net, layout, new_head = _network(
        source.body,
        plan,
        method,
        parent_run,
        start,
    )
    backbone_frozen = is_frozen(net)
    augment = plan.augment
    if backbone_frozen and not augment:
        augment = "none"  # a fixed view of a frozen backbone is kept
    channels = models.input_channels(plan.model, source.body["channels"])
    load_images = _images(plan, source.kind, sharing)
    shards = load_images(
        data,
        channels=channels,
        augment=str(augment) if augment else None,
        device=plan.device,
    )
    if only is not None:
        train = {only: shards.train[only]}
        val = {only: shards.val[only]}
        shards = replace(shards, roster=[only], train=train, val=val)
    if parent_run and isinstance(method.aggregator, StartsFromRun):
        initial.check_clients(parent_run, data)
    begun_with = {}
    if parent_run and isinstance(method.aggregator, ContinuesRun):
        begun_with = initial.server_memory(
            parent_run,
            shards.roster,
            plan.device,
        )
    frozen = initial.frozen(net)
    teacher_width = getattr(net.teacher, "width", None)
    model = {
        "name": models.outside.titled(plan.model),
        "channels": channels,
        "size": min(source.body["size"]),
        "precision": plan.precision,
        "personal": list(layout.own_shapes),
        "numbers": layout.size,
        "trainable": layout.trainable,
        "frozen": sorted(frozen),
        "teacher_width": teacher_width,
    }
    has_weights = bool(plan.weights or parent_run or start)
    validation = all(client["val"] for client in source.body["roster"])
    engine = remote(plan.engine)
    lacks_weights = bool(frozen) and not has_weights
    warnings = [
        method.local.warning(net, plan.rounds),
        method.aggregator.warning(plan.rounds, validation),
        *_doubts_of_network(plan, method, net, lacks_weights),
        new_head,
        _beyond_account(plan, parent_run),
        unsettled(method),
        small_groups(method, plan.sampling, net, shards),
        corrected_twice(plan, method),
        engine[0].warning if engine else "",
    ]
    if backbone_frozen and shards.here:
        shards = with_features(net, shards, folder_for(data))
    remake_clients = None
    if shards.here:
        remake_clients = partial(
            remake,
            data.resolve(),
            manifest.sha256(data),
            plan,
        )
    clients = InProcess(
        method, net, layout, shards.train, plan, val=shards.val, remake=remake_clients
    )
    joined_warning = "; ".join(filter(None, warnings))
    return PlannedFederation(
        clients=clients,
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
        warning=joined_warning,
    )


def _doubts_of_network(
    plan: TrainOptions,
    method: Method,
    net: models.Network,
    frozen_at_random: bool,
) -> list[str]:
    """Warnings of options that a network makes useless."""
    warnings = []
    if frozen_at_random:
        warnings.append("what is frozen has random weights: give --weights")
    if plan.bn != "aggregate" and not has_batch_norm(net):
        warnings.append(f"the network has no batch norm, so --bn {plan.bn} does nothing")
    if method.local.trains_backbone and is_frozen(net):
        warnings.append("with a frozen backbone, terms on features or norms do nothing")
    return warnings


def corrected_twice(plan: TrainOptions, method: Method) -> str:
    """A warning where rare classes are drawn more often and corrected in the loss too."""
    if plan.sampling != "class" and not plan.sampling.startswith("group-class"):
        return ""
    culprit = ""
    if method.local.own_prior and not method.local.freezes:
        culprit = method.label
    elif plan.prior not in (None, "none"):
        culprit = f"--prior {plan.prior}"
    if not culprit:
        return ""
    return (
        f"--sampling {plan.sampling} draws classes equally often, and {culprit} corrects for their "
        "counts too: rare classes are favoured twice"
    )


def _beyond_account(plan: TrainOptions, parent_run: initial.ParentRun | None) -> str:
    """A warning where a run starts from another one, which its epsilon does not account for."""
    if parent_run is None:
        return ""
    if plan.dp_noise or plan.dp_sgd:
        return (
            "epsilon is of this run alone, and the run that it starts from was trained on images "
            "too"
        )
    if "privacy" in parent_run.body:
        return (
            "the epsilon of the run that it starts from does not hold for this one, which adds no "
            "noise"
        )
    return ""


def unsettled(method: Method) -> str:
    """A warning where a pair's halves each make the model their own way."""
    if not (method.local.adds_to_mean and method.aggregator.own_step):
        return ""
    return (
        f"{method.name} adds to the server's own steps what corrects a mean of models: it swings "
        "and may never settle"
    )


def small_groups(
    method: Method,
    sampling_option: str,
    net: models.Network,
    shards: load.Shards,
) -> str:
    """A warning where images weigh, or are drawn, by groups with few training images.

    The groups of images at sites are unknown, so none is for these.
    """
    by_class: dict[str, bool] = {}  # attribute -> whether pairs of it and a class count too
    for half in (method.local, method.aggregator):
        if isinstance(half, WeighsGroups):
            attribute = half.group_attribute(net)
            by_class[attribute] = half.by_class or by_class.get(attribute, False)
    attribute = sampling.attribute(sampling_option, net.attributes)
    pairs_drawn = sampling_option.startswith("group-class")
    by_class[attribute] = pairs_drawn or by_class.get(attribute, False)
    notes = []
    for attribute, with_class in by_class.items():
        if attribute:
            notes += _notes_on_groups(attribute, with_class, net, shards)
    return "; ".join(notes)


def _notes_on_groups(
    attribute: str, with_class: bool, net: models.Network, shards: load.Shards
) -> list[str]:
    """Sentences on an attribute's small groups, its small pairs, and images without a value."""
    having = [shard for shard in shards.train.values() if attribute in shard.groups]
    if not having:
        return []
    values = net.attributes[attribute]
    groups = torch.cat([shard.groups[attribute] for shard in having])  # -1: unknown
    y = torch.cat([shard.y for shard in having])
    counts_with_unknown = (groups + 1).bincount(minlength=len(values) + 1)
    unknown, *counts = counts_with_unknown.tolist()
    small = []
    for value, count in zip(values, counts, strict=True):
        if count < SMALL_GROUP:
            small.append(f"{value} {count}")
    notes = []
    if small:
        notes.append(
            f"groups of {attribute} with few training images, which then count for many: "
            f"{', '.join(small)}"
        )
    if with_class and y.ndim == 1:
        has_value = groups >= 0
        notes += _small_pairs(attribute, groups[has_value], y[has_value], net)
    if unknown:
        notes.append(f"{unknown} training images have no {attribute}")
    return notes


def _small_pairs(
    name: str,
    groups: Tensor,
    y: Tensor,
    net: models.Network,
) -> list[str]:
    """A sentence on pairs of group and class of few training images [N]; without any, none."""
    values = net.attributes[name]
    classes = net.class_names
    pair_index = groups * len(classes) + y
    pairs = len(values) * len(classes)
    counts = pair_index.bincount(minlength=pairs).tolist()
    small = []
    for cell, count in enumerate(counts):
        if 0 < count < SMALL_GROUP:
            small.append((count, cell))
    if not small:
        return []
    smallest, cell = min(small)
    value, class_index = divmod(cell, len(classes))
    smallest_group = values[value]
    smallest_class = classes[class_index]
    return [
        f"{len(small)} pairs of {name} and class have under {SMALL_GROUP} training images, which "
        f"then count for many; the smallest is {smallest_group} and {smallest_class} with "
        f"{smallest}"
    ]


def remake(
    data: Path,
    digest: str,
    plan: TrainOptions,
    device: str,
    threads: int,
    sharing: int = 1,
) -> InProcess:
    """The clients of a plan in another process, perhaps of another machine.

    digest: sha256 of the manifest; sharing: processes that do so on the same device.
    Raises FedcliError, HashError.
    """
    if not data.is_file():
        raise FedcliError(
            f"the node {os.uname().nodename} has no {data}",
            "nodes need the same files under the same paths: a shared file system, or copies",
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
    parent_run = open_parent(plan, method)
    return assemble(data, plan, method, parent_run, sharing=sharing).clients


def _images(
    plan: TrainOptions,
    kind: str,
    sharing: int,
) -> Callable[..., load.Shards]:
    """The function that loads the data of a manifest of this kind.

    It loads images at sites as far as the engine knows them without these.
    """
    engine = remote(plan.engine)
    if kind == "sites" and engine and engine[0].images:
        return engine[0].images
    return partial(load.load, sharing=sharing)


def _network(
    body: dict[str, Any],
    plan: TrainOptions,
    method: Method,
    parent_run: initial.ParentRun | None,
    start: Tensors | None,
) -> tuple[models.Network, Layout, str]:
    """The network at its start, its layout, and the reason why it has another classifier.

    The reason is that the classifier is not that of the run before; "" for none.

    body: of the data. start: as of assemble().
    """
    channels = models.input_channels(plan.model, body["channels"])
    weights = parent_run.model if parent_run else plan.weights
    teacher = models.load_teacher(str(plan.teacher)) if plan.teacher else None
    inputs = models.Inputs.of(body, channels)
    weights_path = str(weights) if weights else None
    net = models.build(
        plan.model,
        inputs,
        seed=plan.seed,
        weights=weights_path,
        precision=plan.precision,
        teacher=teacher,
        freeze=plan.freeze_backbone,
        extend=method.extend,
    )
    net = net.to(plan.device)
    if plan.dp_sgd and plan.bn != "freeze":
        check_norms(net, plan.model)
    if start:
        try:
            net.load_state_dict(start)
        except RuntimeError as error:
            text = f"the tensors received do not fit {plan.model}: {error}"
            raise FedcliError(text[:300]) from None
    new_head = ""
    if parent_run and not isinstance(method.aggregator, ContinuesRun):
        new_head = initial.take_head(net, parent_run, method, body["classes"])
    return net, Layout(net, method.personal_tensors(net)), new_head


def probe(data: Path, plan: TrainOptions) -> tuple[Callable[[str], models.Network], torch.Tensor]:
    """A function that builds the plan's network in a precision, and a batch of images.

    They are the input of a measurement of precision.
    """
    pool = manifest.read(data).body
    channels = models.input_channels(plan.model, pool["channels"])
    height, width = pool["size"]

    def build(precision: str) -> models.Network:
        inputs = models.Inputs.of(pool, channels)
        return models.build(plan.model, inputs, seed=plan.seed, precision=precision).to(plan.device)

    images = torch.zeros(
        plan.batch_size,
        channels,
        height,
        width,
        device=plan.device,
    )
    return build, images.contiguous(memory_format=torch.channels_last)
