"""From manifests to shards in memory: the pool once as uint8 where the net lives, a client as an
index into it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import console
from ..errors import FedcliError
from ..io.hdf5 import AGAIN, WHOLE, ExpectedData, open_hdf5
from ..labels import YES
from . import manifest, manifest_bodies, pipelines, transforms
from .corruption import attack as attacks
from .corruption.hidden_attributes import groups_without
from .pool import CHANGED, LABELS, TEST, Pool, Rows, holdings, in_range, pool_of

RESIDENT = 0.6  # of a GPU's free memory may hold images, the rest is for the network
EVALUATION_BATCH = 512  # images; large, since nothing is kept for a backward pass
Turn = tuple[Tensor, Tensor | None]  # places [B] of a batch, and its random numbers [B, 4]


@dataclass(frozen=True)
class Batch:
    x: Tensor  # float32 [B, C, H, W]
    y: Tensor  # int64 [B], or uint8 [B, L] of several labels per image
    at: Tensor  # int64 [B], places in the shard
    # [B, ...] of each image, see ClientRound
    per_image: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Shard:
    """Some images of the pool: one client's training part, or a test set.

    Attributes:
        images: uint8 [M, C, H, W], shared by every shard of the run; where y is, or on the host for
            lack of room.
        rows: int64 [N], which of them are this shard's; where they are.
        channels: what the net takes; grey images are repeated to three.
        kind: training augmentation, a key of transforms.AUGMENTS.
        derived: what was computed once from the fixed view, by name; never saved.
        attack: of a client whose update is not that of its training.

    A net whose backbone is frozen is fed the features of the images, float32 [M, D], in their
    place.
    """

    images: Tensor
    rows: Tensor
    y: Tensor  # int64 [N], or uint8 [N, L] of several labels per image, see labels.py
    ids: np.ndarray  # str [N]
    groups: dict[str, Tensor]  # attribute -> int64 [N], -1 unknown
    classes: int
    channels: int
    kind: str = "none"
    derived: dict[str, Any] = field(
        default_factory=dict,
        compare=False,
        repr=False,
    )
    attack: attacks.Attack | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def multi_label(self) -> bool:
        """Tell whether an image may have several labels."""
        return self.y.ndim == 2

    @property
    def class_counts(self) -> Tensor:
        """Images of each class, or that have each label: int64 [C]."""
        if "class_counts" not in self.derived:  # once: counting waits for the device
            if self.multi_label:
                counts = (self.y == YES).sum(0)
            else:
                counts = self.y.bincount(minlength=self.classes)
            self.derived["class_counts"] = counts
        return self.derived["class_counts"].clone()  # [C]

    def epoch(
        self,
        size: int,
        *,
        shuffle: int,
        augment: int,
        strata: Tensor | None = None,
    ) -> Iterator[Batch]:
        """One pass as batches, see turns()."""
        for indices, chance in self.turns(size, shuffle=shuffle, augment=augment, strata=strata):
            yield self.batch(indices, chance)

    def turns(
        self,
        size: int,
        *,
        shuffle: int,
        augment: int,
        strata: Tensor | None = None,
    ) -> Iterator[Turn]:
        """One pass in the order of seed `shuffle`: places [B], and the random numbers [B, 4] from
        seed `augment` that decide their augmentation; the last batch may be smaller.

        strata: [N] of each image, such as its class. As many draws as there are images, with
            replacement, every stratum that is there equally likely; images of stratum -1 as likely
            as if all were drawn alike.
        """
        stream = torch.Generator().manual_seed(shuffle)
        device = self.rows.device
        if strata is None:
            order = torch.randperm(len(self), generator=stream)
        else:
            order = _draws(strata.cpu(), stream)
        order = transforms.sent(order, device)
        if self.kind == "none":
            for indices in order.split(size):
                yield indices, None
            return
        chance = transforms.draw(len(self), augment, device)  # [N, 4]
        # a repeated image is augmented anew
        chance_rows = order if strata is None else torch.arange(len(self), device=order.device)
        for indices, rows in zip(order.split(size), chance_rows.split(size), strict=True):
            yield indices, chance[rows]

    def batch(self, indices: Tensor, chance: Tensor | None = None) -> Batch:
        """The images at these places [B], augmented where chance [B, 4] is given."""
        x = self.look(self.rows[indices.to(self.rows.device)], chance)
        indices = transforms.sent(indices, self.y.device)
        return Batch(x, self.y[indices], indices)

    @property
    def on_cpu(self) -> bool:
        """Tell whether images are augmented on the CPU, one by one."""
        return self.kind.startswith(pipelines.PREFIX)

    def batches(self, turns: Iterable[Turn]) -> Iterator[Batch]:
        """The batches of these turns; those of an albumentations pipeline are made by threads ahead
        of their use."""
        if not self.on_cpu:
            for indices, chance in turns:
                yield self.batch(indices, chance)
            return
        device = self.y.device
        for indices, x in pipelines.ahead(self._piped, turns):
            indices = transforms.sent(indices, device)
            yield Batch(self._input(x.to(device)), self.y[indices], indices)

    def _piped(self, turn: Turn) -> tuple[Tensor, Tensor]:
        """Places, and their images uint8 [B, C, H, W]; all of it on the CPU, as no GPU waits for a
        thread's work."""
        indices, chance = turn
        assert chance is not None
        images = self.images[self.rows[indices]]
        return indices, pipelines.augment(images, self.kind, chance)

    def look(self, rows: Tensor, chance: Tensor | None = None) -> Tensor:
        """Images of the pool, by row [B], as the net takes them: float32 [B, C, H, W]."""
        device = self.y.device
        x = self.images[rows] if self.images.device == device else self._streamed(rows)
        if chance is not None:
            x = transforms.augment(x, self.kind, transforms.sent(chance, device)).to(device)
        return self._input(x)

    def _streamed(self, rows: Tensor) -> Tensor:
        """Pixels that did not fit beside the network, gathered on the host and copied while it
        computes."""
        # as it lies in memory, on which a convolution's choice may depend
        pool = self.images.permute(0, 2, 3, 1)
        staged = torch.empty(
            len(rows),
            *pool.shape[1:],
            dtype=pool.dtype,
            pin_memory=True,
        )
        torch.index_select(pool, 0, rows, out=staged)
        return staged.to(self.y.device, non_blocking=True).permute(0, 3, 1, 2)

    def in_order(self, size: int = EVALUATION_BATCH) -> Iterator[Batch]:
        """One pass without shuffling or augmentation: the fixed view that indicators and scores
        use."""
        order = torch.arange(len(self), device=self.rows.device)
        for indices in order.split(size):
            yield self.batch(indices)

    def _input(self, x: Tensor) -> Tensor:
        if x.ndim == 2:
            return x
        return transforms.to_input(x, channels=self.channels)


def _draws(strata: Tensor, stream: torch.Generator) -> Tensor:
    """int64 [N] places: a stratum at random, then one of its images. strata: int64 [N], -1 for
    none."""
    count = len(strata)
    counts = (strata + 1).bincount()  # [S + 1]; the first is of none
    by_stratum = strata.argsort(stable=True)  # [N]
    without = int(counts[0])
    occurring = counts[1:].nonzero().squeeze(1) + 1
    draws = torch.zeros(count, dtype=torch.int64)  # [N] of strata
    if len(occurring):
        draws = occurring[torch.randint(len(occurring), (count,), generator=stream)]
    if without:
        chance = torch.rand(count, generator=stream, dtype=torch.float64)
        draws[chance < without / count] = 0
    share = torch.rand(count, generator=stream, dtype=torch.float64)
    sizes = counts[draws]
    starts = (counts.cumsum(0) - counts)[draws]
    offsets = (share * sizes).long().minimum(sizes - 1)
    return by_stratum[starts + offsets]


@dataclass(frozen=True)
class Shards:
    """All the data of a run.

    Attributes:
        roster: client names; a client's row is its place here.
        test: "clean" and, after fedcli corrupt, "corrupted": the same images in the same order.
        client_test: client -> places in the test set that are its own; empty where the partition
            gives it none.
        corrupted: names of the clients whose images are corrupted.
        body: the manifest's body: dataset, sizes, corruption.
        here: whether the images are; else a shard has a length and nothing more.
        test_patients: str [N], the patient or lesion of each test image, or the image where that is
            unknown; None where the dataset names none.
    """

    classes: list[str]
    attributes: dict[str, list[str]]
    roster: list[str]
    train: dict[str, Shard]
    val: dict[str, Shard]
    test: dict[str, Shard]
    client_test: dict[str, np.ndarray]
    corrupted: list[str]
    body: dict[str, Any]
    test_patients: np.ndarray | None = None
    here: bool = True


def load(
    path: Path,
    *,
    channels: int | None = None,
    augment: str | None = None,
    device: str = "cpu",
    sharing: int = 1,
) -> Shards:
    """Load a partition or corruption manifest, whose hashes the caller has verified.

    channels: what the net takes, None for the pool's own.
    augment: None for the dataset's default.
    sharing: processes that load it on the same device.
    """
    body = manifest.read(path, "partition", "corruption").body
    partition = manifest.above(path, "partition")
    _check_dataset(path, body)
    pool, rows_by_client, test_rows = holdings(path)
    images = torch.from_numpy(pool.pixels())
    images = images.permute(0, 3, 1, 2)  # [N, C, H, W], channels last in memory
    kind = transforms.check_augment(augment or body["augment"])
    indices = np.arange(len(pool.y))  # of the images of corrupted clients, by row of the pool
    test_images = None
    corrupted: list[str] = []
    if partition != path:
        corrupted = body["clients"]
        clean_rows: list[np.ndarray] = []
        for client, parts in rows_by_client.items():
            if client not in corrupted:
                clean_rows += [parts["train"], parts["val"]]
        images, indices, test_images = _overlay(
            path.parent / "changed.h5",
            images,
            clean_rows,
        )
    is_piped = kind.startswith(pipelines.PREFIX)
    images = _placed(images, "cpu" if is_piped else device, sharing)
    classes = len(body["classes"])
    shard = partial(
        _shard,
        pool,
        images,
        device,
        classes,
        channels or images.shape[1],
    )
    train: dict[str, Shard] = {}
    val: dict[str, Shard] = {}
    client_test = {}
    for client, parts in rows_by_client.items():
        for part, shards, part_kind in (("train", train, kind), ("val", val, "none")):
            rows = parts[part]
            image_rows = indices[rows] if client in corrupted else rows
            shards[client] = shard(rows, image_rows, kind=part_kind)
        client_test[client] = np.flatnonzero(np.isin(test_rows, parts["test"]))
    _change_training(train, pool, rows_by_client, partition, body, device)
    test = {"clean": shard(test_rows, test_rows)}
    if test_images is not None:
        if len(test_images) != len(test_rows):
            sizes = f"{len(test_images)} test images, the partition {len(test_rows)}"
            raise FedcliError(f"{path} has {sizes}", "corrupt again")
        test["corrupted"] = with_images(test["clean"], test_images, device)
    return Shards(
        body["classes"],
        body["attributes"],
        list(rows_by_client),
        train,
        val,
        test,
        client_test,
        corrupted,
        body,
        _patients(pool, test_rows),
    )


def _check_dataset(path: Path, body: manifest.Body) -> None:
    dataset = manifest.above(path, "dataset")
    described = manifest.read(dataset).body
    for key in manifest_bodies.POOLED:
        if key != "augment" and body[key] != described[key]:
            raise FedcliError(f"{path}: {key} differs from that of {dataset}", AGAIN)


def _change_training(
    train: dict[str, Shard],
    pool: Pool,
    rows_by_client: Rows,
    partition: Path,
    body: manifest.Body,
    device: str,
) -> None:
    """Hide groups of training images, change their labels, and have clients attack, as the manifest
    says.

    Raises FedcliError where a client has no training images.
    """
    for client, parts in rows_by_client.items():
        groups = dict(train[client].groups)
        for name, values in groups_without(pool, parts["train"], body, client).items():
            groups[name] = torch.from_numpy(values).to(device)
        train[client] = replace(train[client], groups=groups)
    sizes = {client: len(shard) for client, shard in train.items()}
    for client, y in read_labels(partition, body, sizes).items():
        train[client] = replace(train[client], y=torch.from_numpy(y).to(device))
    for client, attack in attacks.of_body(body).items():
        train[client] = attacked(train[client], attack)
    for client, shard in train.items():
        if not len(shard):
            hint = "partition again with fewer clients, another seed or a larger alpha"
            raise FedcliError(f"client {client} has no training images", hint)


def load_tests(
    path: Path, *, channels: int, device: str = "cpu", everything: bool = False
) -> Shards:
    """The test images of a dataset, partition or corruption manifest, whose hashes the caller has
    verified, without its clients.

    everything: of a dataset, all images instead of its test part.
    """
    record = manifest.read(path, "dataset", "partition", "corruption")
    if record.kind != "dataset":
        loaded = load(path, channels=channels, augment="none", device=device)
        return replace(
            loaded,
            roster=[],
            train={},
            val={},
            client_test={},
            corrupted=[],
        )
    body = record.body
    pool = pool_of(path)
    rows = np.arange(len(pool.y)) if everything else np.flatnonzero(pool.split == TEST)
    images = torch.from_numpy(pool.pixels(rows)).permute(0, 3, 1, 2)  # [N, C, H, W]
    images = _placed(images, device)
    indices = np.arange(len(rows))
    shard = _shard(
        pool,
        images,
        device,
        len(body["classes"]),
        channels,
        rows,
        indices,
    )
    return Shards(
        body["classes"],
        body["attributes"],
        [],
        {},
        {},
        {"clean": shard},
        {},
        [],
        body,
        _patients(pool, rows),
    )


def _patients(pool: Pool, rows: np.ndarray) -> np.ndarray | None:
    if pool.patient is None:
        return None
    patient = pool.patient[rows]
    alone = np.char.add("image ", pool.id[rows])
    return np.where(patient == "", alone, patient)


def _placed(images: Tensor, device: str, sharing: int = 1) -> Tensor:
    """The images where the network is; on the host where a GPU has no room for them."""
    if not device.startswith("cuda"):
        return images.to(device)
    free, _ = torch.cuda.mem_get_info(device)
    if images.nbytes <= RESIDENT * free / sharing:
        return images.to(device)
    size = f"{images.nbytes / 1e9:.1f} GB of images"
    console.say(f"{size} do not fit into the GPU: each batch is copied to it")
    return images


def read_labels(
    partition: Path, body: manifest.Body, sizes: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """The training labels of each client whose labels were changed, int64 [N]. Raises FedcliError.

    body: of the partition; sizes: training images of each client.
    """
    clients = [client["client"] for client in body["roster"]]
    noisy = [name for name in body.get("label_noise", {}) if name in clients]
    if not noisy:
        return {}
    datasets = {name: f"train/{clients.index(name)}" for name in noisy}
    path = partition.parent / LABELS
    columns = dict.fromkeys(datasets.values(), ExpectedData(WHOLE))
    labels = {}
    with open_hdf5(path, columns, hint="corrupt the labels again") as file:
        for name, dataset in datasets.items():
            labels[name] = file[dataset][()].astype(np.int64)
    highest_class = len(body["classes"]) - 1
    for name, y in labels.items():
        if len(y) != sizes.get(name) or not in_range(y, 0, highest_class):
            sentence = f"{path}: {name} is not the labels of that client's images"
            raise FedcliError(sentence, "corrupt the labels again")
    return labels


def _overlay(
    path: Path, images: Tensor, clean_rows: list[np.ndarray]
) -> tuple[Tensor, np.ndarray, Tensor]:
    """Lay the corrupted training images over the pool, but for those that clean clients hold too,
    which are added.

    Returns all images [M, C, H, W], where the corrupted clients find each row of the pool [N], and
    the corrupted test images.
    """
    with open_hdf5(path, CHANGED, hint="corrupt again") as file:
        for part in ("train", "test"):
            rows = file[f"{part}/rows"][()]
            _check_changed(path, part, file[f"{part}/x"].shape, rows, images)
        rows = file["train/rows"][()]
        changed = torch.from_numpy(file["train/x"][()]).permute(0, 3, 1, 2)
        test_images = torch.from_numpy(file["test/x"][()]).permute(0, 3, 1, 2)
    is_shared = np.isin(rows, np.concatenate([rows[:0], *clean_rows]))
    indices = np.arange(len(images))
    indices[rows[is_shared]] = len(images) + np.arange(is_shared.sum())
    images[torch.from_numpy(rows[~is_shared])] = changed[torch.from_numpy(~is_shared)]
    if is_shared.any():
        images = torch.cat([images, changed[torch.from_numpy(is_shared)]])
        images = images.contiguous(memory_format=torch.channels_last)
    return images, indices, test_images


def _check_changed(
    path: Path,
    part: str,
    shape: tuple[int, ...],
    rows: np.ndarray,
    images: Tensor,
) -> None:
    _, channels, height, width = images.shape
    if shape != (len(rows), height, width, channels):
        sizes = f"{shape} for {len(rows)} rows, the pool {tuple(images.shape)}"
        raise FedcliError(f"{path}: {part}/x has shape {sizes}", "corrupt again")
    if not in_range(rows, 0, len(images) - 1):
        sentence = f"{path}: {part}/rows names rows the pool does not have"
        raise FedcliError(sentence, "corrupt again")


def _shard(
    pool: Pool,
    images: Tensor,
    device: str,
    classes: int,
    channels: int,
    rows: np.ndarray,
    image_rows: np.ndarray,
    kind: str = "none",
) -> Shard:
    """rows: of the pool; image_rows: where their pixels are among the images."""
    groups = {}
    for name, values in pool.groups.items():
        groups[name] = torch.from_numpy(values[rows]).to(device)
    y = torch.from_numpy(pool.y[rows]).to(device)
    tensor_rows = torch.from_numpy(image_rows).to(images.device)
    return Shard(
        images,
        tensor_rows,
        y,
        pool.id[rows],
        groups,
        classes,
        channels,
        kind,
    )


def with_images(shard: Shard, images: Tensor, device: str) -> Shard:
    """A shard of the same rows, read from other pixels [N, C, H, W] in the shard's own order."""
    images = _placed(images, device)
    rows = torch.arange(len(shard), device=images.device)
    return Shard(
        images,
        rows,
        shard.y,
        shard.ids,
        shard.groups,
        shard.classes,
        shard.channels,
        shard.kind,
    )


def attacked(shard: Shard, attack: attacks.Attack) -> Shard:
    """The training part of a client that attacks."""
    if attacks.KINDS[attack.kind].pixels:
        images = attack.pixels(shard.images[shard.rows], shard.ids)
        images = images.contiguous(memory_format=torch.channels_last)
        shard = with_images(shard, images, str(images.device))
    return replace(shard, attack=attack)
