"""From manifests to shards in memory: the pool once as uint8 where the net lives, a client as an index into it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import console
from ..errors import FedcliError
from ..io.hdf5 import AGAIN, WHOLE, Column, open_hdf5
from ..labels import YES
from . import manifest, manifest_bodies, pipelines, transforms
from .corruption import attack as attacks
from .corruption.hidden_attributes import groups_without
from .pool import CHANGED, LABELS, TEST, Pool, holdings, pool_of

RESIDENT = 0.6  # of a GPU's free memory may hold images, the rest is for the network
EVALUATION_BATCH = 512  # images; large, since nothing is kept for a backward pass


@dataclass(frozen=True)
class Batch:
    x: Tensor  # float32 [B, C, H, W]
    y: Tensor  # int64 [B], or uint8 [B, L] of several labels per image
    at: Tensor  # int64 [B], places in the shard
    per_image: dict[str, Tensor] = field(
        default_factory=dict
    )  # [B, ...] of each image, see ClientRound


@dataclass(frozen=True)
class Shard:
    """Some images of the pool: one client's training part, or a test set.

    Attributes:
        images: uint8 [M, C, H, W], shared by every shard of the run; where y is, or on the host for lack of room.
        rows: int64 [N], which of them are this shard's; where they are.
        channels: what the net takes; grey images are repeated to three.
        kind: training augmentation, a key of transforms.AUGMENTS.
        derived: what was computed once from the fixed view, by name; never saved.
        attack: of a client whose update is not that of its training.

    A net whose backbone is frozen is fed the features of the images, float32 [M, D], in their place.
    """

    images: Tensor
    rows: Tensor
    y: Tensor  # int64 [N], or uint8 [N, L] of several labels per image, see labels.py
    ids: np.ndarray  # str [N]
    groups: dict[str, Tensor]  # attribute -> int64 [N], -1 unknown
    classes: int
    channels: int
    kind: str = "none"
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
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
            y = self.y
            self.derived["class_counts"] = (
                (y == YES).sum(0) if y.ndim == 2 else y.bincount(minlength=self.classes)
            )
        return self.derived["class_counts"].clone()  # [C]

    def epoch(
        self, size: int, *, shuffle: int, augment: int, strata: Tensor | None = None
    ) -> Iterator[Batch]:
        """One pass as batches, see turns()."""
        for at, chance in self.turns(size, shuffle=shuffle, augment=augment, strata=strata):
            yield self.batch(at, chance)

    def turns(
        self, size: int, *, shuffle: int, augment: int, strata: Tensor | None = None
    ) -> Iterator[tuple[Tensor, Tensor | None]]:
        """One pass in the order of seed `shuffle`: places [B], and the random numbers [B, 4] from seed `augment` that
        decide their augmentation; the last batch may be smaller.

        strata: [N] of each image, such as its class. As many draws as there are images, with replacement, every stratum
            that is there equally likely; images of stratum -1 as likely as if all were drawn alike.
        """
        stream = torch.Generator().manual_seed(shuffle)
        order = (
            torch.randperm(len(self), generator=stream)
            if strata is None
            else _draws(strata.cpu(), stream)
        )
        order = transforms.sent(order, self.rows.device)
        chance = (
            transforms.draw(len(self), augment, self.rows.device) if self.kind != "none" else None
        )  # [N, 4]
        # a repeated image is augmented anew
        place = order if strata is None else torch.arange(len(self), device=order.device)
        for at, own in zip(order.split(size), place.split(size), strict=True):
            yield at, None if chance is None else chance[own]

    def batch(self, at: Tensor, chance: Tensor | None = None) -> Batch:
        """The images at these places [B], augmented where chance [B, 4] is given."""
        x, at = (
            self.look(self.rows[at.to(self.rows.device)], chance),
            transforms.sent(at, self.y.device),
        )
        return Batch(x, self.y[at], at)

    @property
    def on_cpu(self) -> bool:
        """Tell whether images are augmented on the CPU, one by one."""
        return self.kind.startswith(pipelines.PREFIX)

    def batches(self, turns: Iterable[tuple[Tensor, Tensor | None]]) -> Iterator[Batch]:
        """The batches of these turns; those of an albumentations pipeline are made by threads ahead of their use."""
        if not self.on_cpu:
            yield from (self.batch(at, chance) for at, chance in turns)
            return
        for at, x in pipelines.ahead(self._piped, turns):
            at = transforms.sent(at, self.y.device)
            yield Batch(self._input(x.to(self.y.device)), self.y[at], at)

    def _piped(self, turn: tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor]:
        """Places, and their images uint8 [B, C, H, W]; all of it on the CPU, as no GPU waits for a thread's work."""
        at, chance = turn
        assert chance is not None
        return at, pipelines.augment(self.images[self.rows[at]], self.kind, chance)

    def look(self, rows: Tensor, chance: Tensor | None = None) -> Tensor:
        """Images of the pool, by row [B], as the net takes them: float32 [B, C, H, W]."""
        device = self.y.device
        x = self.images[rows] if self.images.device == device else self._streamed(rows)
        if chance is not None:
            x = transforms.augment(x, self.kind, transforms.sent(chance, device)).to(device)
        return self._input(x)

    def _streamed(self, rows: Tensor) -> Tensor:
        """Pixels that did not fit beside the network, gathered on the host and copied while it computes."""
        pool = self.images.permute(
            0, 2, 3, 1
        )  # as it lies in memory, on which a convolution's choice may depend
        staged = torch.empty(len(rows), *pool.shape[1:], dtype=pool.dtype, pin_memory=True)
        torch.index_select(pool, 0, rows, out=staged)
        return staged.to(self.y.device, non_blocking=True).permute(0, 3, 1, 2)

    def in_order(self, size: int = EVALUATION_BATCH) -> Iterator[Batch]:
        """One pass without shuffling or augmentation: the fixed view that indicators and scores use."""
        for at in torch.arange(len(self), device=self.rows.device).split(size):
            yield self.batch(at)

    def _input(self, x: Tensor) -> Tensor:
        return x if x.ndim == 2 else transforms.to_input(x, channels=self.channels)


def _draws(strata: Tensor, stream: torch.Generator) -> Tensor:
    """int64 [N] places: a stratum at random, then one of its images. strata: int64 [N], -1 for none."""
    counts, by_stratum = (
        (strata + 1).bincount(),
        strata.argsort(stable=True),
    )  # [S + 1], [N]; the first is of none
    none, known = int(counts[0]), counts[1:].nonzero().squeeze(1) + 1
    drawn = torch.zeros(len(strata), dtype=torch.int64)  # [N]
    if len(known):
        drawn = known[torch.randint(len(known), (len(strata),), generator=stream)]
    if none:
        drawn[
            torch.rand(len(strata), generator=stream, dtype=torch.float64) < none / len(strata)
        ] = 0
    within = (torch.rand(len(strata), generator=stream, dtype=torch.float64) * counts[drawn]).long()
    return by_stratum[(counts.cumsum(0) - counts)[drawn] + within.minimum(counts[drawn] - 1)]


@dataclass(frozen=True)
class Shards:
    """All the data of a run.

    Attributes:
        roster: client names; a client's row is its place here.
        test: "clean" and, after fedcli corrupt, "corrupted": the same images in the same order.
        client_test: client -> places in the test set that are its own; empty where the partition gives it none.
        corrupted: names of the clients whose images are corrupted.
        body: the manifest's body: dataset, sizes, corruption.
        here: whether the images are; else a shard has a length and nothing more.
        test_patients: str [N], the patient or lesion of each test image, or the image where that is unknown; None
            where the dataset names none.
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
    partition, dataset = manifest.above(path, "partition"), manifest.above(path, "dataset")
    described = manifest.read(dataset).body
    if odd := [
        key for key in manifest_bodies.POOLED if key != "augment" and body[key] != described[key]
    ]:
        raise FedcliError(f"{path}: {odd[0]} differs from that of {dataset}", AGAIN)
    pool, rows_of, everyone = holdings(path)
    images = torch.from_numpy(pool.pixels()).permute(
        0, 3, 1, 2
    )  # [N, C, H, W], channels last in memory
    kind = transforms.check_augment(augment or body["augment"])
    roster = list(rows_of)
    place, test_images, corrupted = np.arange(len(pool.y)), None, []
    own = {c: np.flatnonzero(np.isin(everyone, rows["test"])) for c, rows in rows_of.items()}
    if partition != path:
        corrupted = body["clients"]
        clean = [
            rows_of[c][part] for c in roster if c not in corrupted for part in ("train", "val")
        ]
        images, place, test_images = _overlay(path.parent / "changed.h5", images, clean)

    piped = kind.startswith(pipelines.PREFIX)
    images = _placed(images, "cpu" if piped else device, sharing)
    common = dict(classes=len(body["classes"]), channels=channels or images.shape[1])

    def shard(rows: np.ndarray, at: np.ndarray, kind: str = "none") -> Shard:
        return _shard(pool, images, rows, at, device, kind=kind, **common)

    def part_of(client: str, part: str, kind: str = "none") -> Shard:
        rows = rows_of[client][part]
        return shard(rows, place[rows] if client in corrupted else rows, kind)

    train, val = (
        {c: part_of(c, "train", kind) for c in roster},
        {c: part_of(c, "val") for c in roster},
    )
    for c in roster:
        if known := groups_without(pool, rows_of[c]["train"], body, c):
            seen = {name: torch.from_numpy(values).to(device) for name, values in known.items()}
            train[c] = replace(train[c], groups={**train[c].groups, **seen})
    for c, y in read_labels(partition, body, {c: len(part) for c, part in train.items()}).items():
        train[c] = replace(train[c], y=torch.from_numpy(y).to(device))
    train |= {c: attacked(train[c], attack) for c, attack in attacks.of_body(body).items()}
    if empty := [c for c in roster if not len(train[c])]:
        raise FedcliError(
            f"client {empty[0]} has no training images",
            "partition again with fewer clients, another seed or a larger alpha",
        )
    test = {"clean": shard(everyone, everyone)}
    if test_images is not None:
        if len(test_images) != len(everyone):
            what = f"{path} has {len(test_images)} test images, the partition {len(everyone)}"
            raise FedcliError(what, "corrupt again")
        test["corrupted"] = with_images(test["clean"], test_images, device)
    patients = _patients(pool, everyone)
    return Shards(
        body["classes"],
        body["attributes"],
        roster,
        train,
        val,
        test,
        own,
        corrupted,
        body,
        patients,
    )


def load_tests(
    path: Path, *, channels: int, device: str = "cpu", everything: bool = False
) -> Shards:
    """The test images of a dataset, partition or corruption manifest, whose hashes the caller has verified, without
    its clients.

    everything: of a dataset, all images instead of its test part.
    """
    made = manifest.read(path, "dataset", "partition", "corruption")
    if made.kind != "dataset":
        loaded = load(path, channels=channels, augment="none", device=device)
        return replace(loaded, roster=[], train={}, val={}, client_test={}, corrupted=[])
    pool = pool_of(path)
    rows = np.arange(len(pool.y)) if everything else np.flatnonzero(pool.split == TEST)
    images = _placed(torch.from_numpy(pool.pixels(rows)).permute(0, 3, 1, 2), device)
    common = dict(classes=len(made.body["classes"]), channels=channels)
    test = {"clean": _shard(pool, images, rows, np.arange(len(rows)), device, **common)}
    body = made.body
    return Shards(
        body["classes"], body["attributes"], [], {}, {}, test, {}, [], body, _patients(pool, rows)
    )


def _patients(pool: Pool, rows: np.ndarray) -> np.ndarray | None:
    if pool.patient is None:
        return None
    return np.where(
        pool.patient[rows] == "", np.char.add("image ", pool.id[rows]), pool.patient[rows]
    )


def _placed(images: Tensor, device: str, sharing: int = 1) -> Tensor:
    """The images where the network is; on the host where a GPU has no room for them."""
    if (
        not device.startswith("cuda")
        or images.nbytes <= RESIDENT * torch.cuda.mem_get_info(device)[0] / sharing
    ):
        return images.to(device)
    console.say(
        f"{images.nbytes / 1e9:.1f} GB of images do not fit into the GPU: each batch is copied to it"
    )
    return images


def read_labels(
    partition: Path, body: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """The training labels of each client whose labels were changed, int64 [N]. Raises FedcliError.

    body: of the partition; sizes: training images of each client.
    """
    names = [client["client"] for client in body["roster"]]
    noisy = {
        name: f"train/{names.index(name)}" for name in body.get("label_noise", {}) if name in names
    }
    if not noisy:
        return {}
    path, classes = partition.parent / LABELS, len(body["classes"])
    with open_hdf5(
        path, dict.fromkeys(noisy.values(), Column(WHOLE)), hint="corrupt the labels again"
    ) as file:
        changed = {name: file[at][()].astype(np.int64) for name, at in noisy.items()}
    for name, y in changed.items():
        if len(y) != sizes.get(name) or (len(y) and not 0 <= y.min() <= y.max() < classes):
            raise FedcliError(
                f"{path}: {name} is not the labels of that client's images",
                "corrupt the labels again",
            )
    return changed


def _overlay(
    path: Path, images: Tensor, clean: list[np.ndarray]
) -> tuple[Tensor, np.ndarray, Tensor]:
    """Lay the corrupted training images over the pool, but for those that clean clients hold too, which are added.

    Returns all images [M, C, H, W], where the corrupted clients find each row of the pool [N], and the corrupted test
    images.
    """
    with open_hdf5(path, CHANGED, hint="corrupt again") as file:
        for part in ("train", "test"):
            x, rows = file[f"{part}/x"], file[f"{part}/rows"][()]
            if x.shape[1:] != images.permute(0, 2, 3, 1).shape[1:] or len(x) != len(rows):
                raise FedcliError(
                    f"{path}: {part}/x has shape {x.shape} for {len(rows)} rows, the pool {tuple(images.shape)}",
                    "corrupt again",
                )
            if len(rows) and not 0 <= rows.min() <= rows.max() < len(images):
                raise FedcliError(
                    f"{path}: {part}/rows names rows the pool does not have", "corrupt again"
                )
        rows, place = file["train/rows"][()], np.arange(len(images))
        changed = torch.from_numpy(file["train/x"][()]).permute(0, 3, 1, 2)
        shared = np.isin(rows, np.concatenate([rows[:0], *clean]))
        place[rows[shared]] = len(images) + np.arange(shared.sum())
        images[torch.from_numpy(rows[~shared])] = changed[torch.from_numpy(~shared)]
        if shared.any():
            images = torch.cat([images, changed[torch.from_numpy(shared)]])
            images = images.contiguous(memory_format=torch.channels_last)
        return images, place, torch.from_numpy(file["test/x"][()]).permute(0, 3, 1, 2)


def _shard(
    pool: Pool, images: Tensor, rows: np.ndarray, at: np.ndarray, device: str, **rest: Any
) -> Shard:
    """rows: of the pool; at: where their pixels are among the images."""

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(values[rows]).to(device)

    groups = {name: tensor(values) for name, values in pool.groups.items()}
    return Shard(
        images,
        torch.from_numpy(at).to(images.device),
        tensor(pool.y),
        pool.id[rows],
        groups,
        **rest,
    )


def with_images(shard: Shard, images: Tensor, device: str) -> Shard:
    """A shard of the same rows, read from other pixels [N, C, H, W] in the shard's own order."""
    images = _placed(images, device)
    rows = torch.arange(len(shard), device=images.device)
    return Shard(
        images, rows, shard.y, shard.ids, shard.groups, shard.classes, shard.channels, shard.kind
    )


def attacked(shard: Shard, attack: attacks.Attack) -> Shard:
    """The training part of a client that attacks."""
    if attacks.KINDS[attack.kind].pixels:
        images = attack.pixels(shard.images[shard.rows], shard.ids).contiguous(
            memory_format=torch.channels_last
        )
        shard = with_images(shard, images, str(images.device))
    return replace(shard, attack=attack)
