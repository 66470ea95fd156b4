"""Features of images by a frozen network, computed once for every run and evaluation.

They are kept in the work folder. A file is named by a hash of the network, its weights and the
images, so a corruption, other weights or another size have a file of their own. It is written whole
or not at all. On reading, its numbers are checked by their own hash, and the features of a few
images are computed again: code of a network that has changed is noticed too. The folder may be
removed at any time.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .. import console, models
from ..data import manifest, transforms
from ..data import shard as load
from ..errors import FedcliError
from ..federation.state import Tensors, read_tensors, write_tensors
from ..io.locks import held

FOLDER = "features"  # in the work folder
FORMAT = 1  # of the files; another one is not read
# of a batch, as the network sees it: about 0.8 GB of an EfficientNet or a ResNet
PIXELS_AT_ONCE = 2**20
PROBES = 4  # images whose features are computed again to check a file
ALIKE = 0.02  # relative difference that batches of another size, or half precision, may make


def folder_for(data: Path) -> Path:
    """The folder for features of a manifest's images: in the work folder, or by the dataset."""
    dataset = manifest.above(data, "dataset").resolve().parent
    work = dataset.parents[1] if dataset.parent.name == "datasets" else dataset
    return work / FOLDER


class FeatureTables:
    """Features of whole pools of images, each computed or read at the first question.

    folder: for their files; None keeps them in memory alone.
    """

    def __init__(self, net: models.Network, folder: Path | None = None):
        self.net, self.folder = net, folder
        self._network_hash = _network_hash(net) if folder else ""
        self._tables: dict[int, tuple[Tensor, Tensor]] = {}  # id of images -> images, features

    def shard(self, shard: load.Shard) -> load.Shard:
        """A copy of the shard with features float32 [M, D] in place of its images."""
        images = shard.images
        if id(images) not in self._tables:
            self._tables[id(images)] = images, self._table(shard)
        _, features = self._tables[id(images)]
        rows = shard.rows.to(features.device)
        return replace(shard, images=features, rows=rows, derived={})

    def has(self, shard: load.Shard) -> bool:
        """Tell whether the features of a shard's images are there already."""
        if id(shard.images) in self._tables:
            return True
        return self.folder is not None and self._path(self.folder, shard).is_file()

    def _table(self, shard: load.Shard) -> Tensor:
        """Features [M, D] of every image that the shard's pool holds, on the fixed view."""
        if self.folder is None or not len(shard.images):
            return _computed(self.net, shard)
        path = self._path(self.folder, shard)
        table = self._read(path, shard)
        if table is not None:
            return table
        try:
            lock = path.with_name(f".{path.stem}.lock")
            with held(lock, f"another command computes {path}", "", tell=console.say):
                table = self._read(path, shard)  # by the command that was waited for
                if table is None:
                    table = _computed(self.net, shard)
                    write_tensors(path, {"features": table, "sha256": _digest(table)})
        except OSError as error:
            console.say(f"features are not kept in {self.folder}: {error.strerror or error}")
            return _computed(self.net, shard) if table is None else table
        return table

    def _path(self, folder: Path, shard: load.Shard) -> Path:
        shape = list(shard.images.shape)
        facts = [FORMAT, self._network_hash, shape, shard.channels, str(shard.y.device.type)]
        digest = hashlib.sha256(repr(facts).encode())
        pixels = shard.images.permute(0, 2, 3, 1)
        digest.update(_bytes(pixels))
        return folder / f"{digest.hexdigest()[:32]}.h5"

    def _read(self, path: Path, shard: load.Shard) -> Tensor | None:
        """The table of a file; None where there is none of this network and these images."""
        if not path.is_file():
            return None
        try:
            tensors = read_tensors(path)
        except FedcliError as error:
            console.say(f"{error.sentence}: its features are computed again")
            return None
        if _is_whole(tensors, len(shard.images)):
            table = tensors["features"].to(shard.y.device)
            probes = min(PROBES, len(table))
            rows = torch.linspace(0, len(table) - 1, probes).long()
            images = shard.images[rows.to(shard.images.device)]
            again = _of_batch(self.net, images, shard)
            stored = table[rows.to(table.device)]
            if again.shape == stored.shape and _alike(again, stored):
                return table
        console.say(f"{path} is damaged or of other code: its features are computed again")
        return None


@contextmanager
def fed_features(net: models.Network) -> Iterator[None]:
    """Feed a network features in place of images for a moment."""
    backbone = net.backbone
    net.take_features()
    try:
        yield
    finally:
        net.backbone = backbone
        del net.features


def with_features(
    net: models.Network, data: load.Shards, folder: Path | None = None
) -> load.Shards:
    """A copy of the shards with features float32 [M, D] for images.

    The frozen backbone is taken out of the network: it sees an image once, and its features then
    replace the images for the whole run.

    data is returned as it is, and the network left whole, where training images are augmented
    (their features change every epoch), a teacher has to see them, or the head reads tokens, which
    are many times larger.
    """
    augmented = any(shard.kind != "none" for shard in data.train.values())
    if augmented or net.teacher is not None or net.tokens:
        return data
    tables = FeatureTables(net, folder)

    train = {client: tables.shard(shard) for client, shard in data.train.items()}
    val = {client: tables.shard(shard) for client, shard in data.val.items()}
    test = {version: tables.shard(shard) for version, shard in data.test.items()}
    net.take_features()
    return replace(data, train=train, val=val, test=test)


def _computed(net: models.Network, shard: load.Shard) -> Tensor:
    """Features [M, D] in batches that fit into memory."""
    height, width = shard.images.shape[2:]
    pixels = max(height * width, net.resized**2)
    size = max(1, min(load.EVALUATION_BATCH, PIXELS_AT_ONCE // pixels))
    batches = shard.images.split(size)
    progress = console.progress(batches, label="features", total=len(batches))
    return torch.cat([_of_batch(net, images, shard) for images in progress])


@torch.no_grad()
def _of_batch(net: models.Network, images: Tensor, shard: load.Shard) -> Tensor:
    net.eval()
    x = transforms.to_input(images.to(shard.y.device), channels=shard.channels)
    return net.features(x)


def _network_hash(net: models.Network) -> str:
    """A hash of the backbone's layers and numbers, and of the form of its input."""
    kind = f"{type(net).__module__}.{type(net).__qualname__}"
    facts = [torch.__version__, kind, net.extra_repr(), net.bf16, repr(net.backbone)]
    digest = hashlib.sha256(repr(facts).encode())
    for name, tensor in net.backbone.state_dict().items():
        shape = list(tensor.shape)
        digest.update(f"{name} {tensor.dtype} {shape}".encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def _is_whole(tensors: Tensors, images: int) -> bool:
    """Tell whether a file has a row of features for each image, with the right hash."""
    if tensors.keys() != {"features", "sha256"}:
        return False
    table = tensors["features"]
    if table.ndim != 2 or len(table) != images or table.dtype != torch.float32:
        return False
    return torch.equal(tensors["sha256"], _digest(table))


def _alike(computed: Tensor, stored: Tensor) -> bool:
    difference = torch.linalg.vector_norm(computed - stored)
    size = torch.linalg.vector_norm(stored)
    return bool(difference <= ALIKE * size)


def _digest(table: Tensor) -> Tensor:
    """The SHA-256 of a tensor's bytes, as uint8 [32]."""
    digest = hashlib.sha256(_bytes(table)).digest()
    return torch.from_numpy(np.frombuffer(digest, np.uint8).copy())


def _bytes(tensor: Tensor) -> memoryview:
    values = tensor.detach().cpu().contiguous()
    return values.reshape(-1).view(torch.uint8).numpy().data
