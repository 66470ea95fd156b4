"""Layers of a network that an adapter may stand beside, by watching two forward passes."""

from typing import Any

import torch
from torch import nn

from .network import Network, still

READ_BY_OTHERS = nn.MultiheadAttention, nn.TransformerEncoderLayer  # they use the tensors of layers they never call


def parts(net: Network) -> dict[str, list[str]]:
    """Names of modules in net.backbone: "mlp" linear layers, "conv" convolutions, "norms" batch norms.

    A layer counts if it is called, one row or more for each image; some libraries read a layer's tensors instead, which
    no adapter would notice. The convolution that sees the pixels stays as it is, as in CLIP's towers, and so do
    grouped convolutions, which have few numbers.
    """
    rows_of_one, rows_of_two = (_rows(net, images) for images in (1, 2))
    kinds: dict[str, list[str]] = {"mlp": [], "conv": [], "attention": [], "norms": []}
    for name, module in net.backbone.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            kinds["norms"].append(name)
        if name and name in rows_of_one and rows_of_two[name] == 2 * rows_of_one[name]:
            kinds["conv" if isinstance(module, nn.Conv2d) else "mlp"].append(name)
    first = next(iter(rows_of_one), "")
    if first in kinds["conv"] and net.backbone.get_submodule(first).in_channels == net.channels:
        kinds["conv"].remove(first)
    return kinds


def _rows(net: Network, images: int) -> dict[str, int]:
    """Layers in the order of their calls -> how many rows each got of so many black images."""
    rows: dict[str, int] = {}
    handles = []
    modules = dict(net.backbone.named_modules())
    readers = tuple(
        f"{name}." if name else "" for name, module in modules.items() if isinstance(module, READ_BY_OTHERS)
    )
    for name, module in modules.items():
        if _fits(module) and not name.startswith(readers):

            def note(_: nn.Module, inputs: tuple[Any, ...], name: str = name) -> None:
                rows.setdefault(name, len(inputs[0]))

            handles.append(module.register_forward_pre_hook(note))
    x = next((p for p in net.parameters()), torch.empty(0)).new_zeros(images, net.channels, net.side, net.side)
    with still(net):
        net.features(x)
    for handle in handles:
        handle.remove()
    return rows


def _fits(module: nn.Module) -> bool:
    """Tell whether a layer computes what its class says; a library's own kind may do more, such as padding."""
    if type(module) is nn.Conv2d:
        return module.groups == 1 and module.padding_mode == "zeros"
    return type(module) is nn.Linear
