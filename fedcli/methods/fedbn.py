"""FedBN: batch-norm layers stay with the client, all else is averaged.

Source: Li, Jiang, Zhang, Kamp and Dou, ICLR 2021, arXiv 2102.07623, Algorithm 1.
How we differ, and why:
- what stays goes by layer type, whatever its name: scale, shift and running statistics of every
  batch-norm layer. `--bn local` keeps the statistics alone.
- each client is scored with its own layers. The global model that is scored takes their mean by
  image count; it is sent to no client.
- without batch norm, or with all of it frozen, this is FedAvg.
"""

from dataclasses import dataclass

from torch import nn

from .contract import Local, Network
from .fedavg import Mean
from .registry import register


@dataclass(frozen=True)
class OwnNorms(Local):
    """Plain local training that keeps its batch-norm layers."""

    cost = {"step": 1}
    own_norms = True
    trains_backbone = True

    def personal_tensors(self, net: Network) -> tuple[str, ...]:
        names: list[str] = []
        for name, module in net.named_modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                names += [f"{name}.{tensor}" for tensor in module.state_dict()]
        return tuple(names)

    def warning(self, net: Network, rounds: int) -> str:
        if self.personal_tensors(net):
            return ""
        return "the network has no batch norm, so FedBN is FedAvg"


register(
    "fedbn",
    OwnNorms(),
    Mean(),
    label="FedBN",
    about="keeps batch-norm layers at each hospital, so that every scanner has its own "
    "normalisation",
    families="domain personal",
)
