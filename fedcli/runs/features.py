"""A frozen backbone sees an image once: its features then stand in for the images for the whole run."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from ..data import transforms
from ..data.shard import EVALUATION_BATCH, Shard, Shards
from ..models import Network


def is_frozen(net: Network) -> bool:
    """Tell whether nothing in the backbone trains."""
    return not any(p.requires_grad for p in net.backbone.parameters())


def cached(net: Network, data: Shards) -> Shards:
    """The same shards with features float32 [M, D] for images, and the backbone taken out of the network.

    data is returned as it is, and the network left whole, where training images are augmented (their features change
    every epoch), a teacher has to see them, or the head reads tokens, which are many times larger.
    """
    if net.teacher is not None or net.tokens or any(shard.kind != "none" for shard in data.train.values()):
        return data
    tables: dict[int, Tensor] = {}

    def shard(old: Shard) -> Shard:
        if id(old.images) not in tables:
            tables[id(old.images)] = _features(net, old)
        features = tables[id(old.images)]
        return replace(old, images=features, rows=old.rows.to(features.device), derived={})

    def part(shards: dict[str, Shard]) -> dict[str, Shard]:
        return {name: shard(old) for name, old in shards.items()}

    train, val, test = part(data.train), part(data.val), part(data.test)
    net.backbone = nn.Identity()
    return replace(data, train=train, val=val, test=test)


@torch.no_grad()
def _features(net: Network, shard: Shard) -> Tensor:
    """Features [M, D] of every image that the shard's pool holds, on the fixed view."""
    net.eval()
    batches = (x.to(shard.y.device) for x in shard.images.split(EVALUATION_BATCH))
    inputs = (transforms.to_input(x, channels=shard.channels) for x in batches)
    return torch.cat([net.features(x) for x in inputs])
