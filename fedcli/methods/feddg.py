"""FedDG: training that must also hold for images in the style of other clients, by an exchange of
amplitude spectra.

Source: Liu, Chen, Qin, Dou and Heng, "FedDG: federated domain generalization on medical image
segmentation via episodic learning in continuous frequency space", CVPR 2021, arXiv 2103.06030, as
its authors' code (liuquande/FedDG-ELCFS) computes it, for classification. Of each image x, with an
amplitude spectrum A' of another client's image and u uniform in [0, 1]:

    x' = x with its low frequencies at A + u (A' - A) and its own phases, cut to [0, 1]
    inner step     w' = w - step g            g: gradient at w on x
    local step     w <- w - lr (g + g')       g': gradient at w' on x'

What leaves a hospital beside the model, in every round: the low-frequency amplitudes of `spectra`
of its images, the same in each, of each image by itself, from which its mean colour and coarse
contrasts can be read. The server hands them to all.
How we differ, and why:
- the paper's second half, a contrast of features at the boundary of what is segmented, needs masks,
  and is left out.
- low = 0.01 is the paper's; the code's data loader has 0, the mean of each colour, and replaces it
  whole (u = 1). On images of fewer than 100 pixels both are the mean.
- an image has one A' and u a round. There are no spectra in the first round, which trains plainly
  (FedAvg), and afterwards those of the clients of the round before. The code samples an eighth of a
  client's images.
- the code cuts each number of g at 100 for the inner step; ours is as it is. The second pass moves
  no batch-norm statistics. g' is taken at w' as if g were constant, as in the code.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor

from ..seeds import derive
from .contract import Batch, ClientRound, ClientUpdates, Local, Network, Tensors
from .fedavg import Mean
from .helpers import still_batchnorm
from .registry import register
from .spectra import Low, amplitudes, exchanged, refuse_features


@dataclass(frozen=True)
class Episodic(Local):
    """Steps along the gradient at the model, and that after an inner step, on images in another
    client's style.
    """

    cost = {"step": 2}
    works_without_server = False
    needs = "updates"

    low: Low = 0.01
    spectra: Annotated[int, "images of a client whose amplitudes leave it, >= 1"] = 8
    step: Annotated[float, "length of the inner step, >= 0"] = 1e-3

    def extend(self, net: Network) -> None:
        refuse_features(net, "feddg")

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        shard = client.shard
        seed = derive("amplitudes", client.seed, client.name)
        stream = torch.Generator().manual_seed(seed)
        images = torch.randint(len(shard), (self.spectra,), generator=stream)  # [S]
        batch = shard.batch(images.to(shard.rows.device))
        client.report["amplitudes"] = amplitudes(batch.x, self.low)  # [S, C, n, n]
        others = self._others(client)
        if others is None:
            return
        stream.manual_seed(derive("styles", client.seed, client.round, client.name))
        chosen = torch.randint(len(others), (len(shard),), generator=stream)  # [N]
        mix = torch.rand(len(shard), 1, 1, 1, generator=stream)
        client.scratch["others"] = others
        client.per_image["chosen"] = chosen.to(others.device)
        client.per_image["mix"] = mix.to(others.device)

    def _others(self, client: ClientRound) -> Tensor | None:
        """Spectra of other clients [M, C, n, n]; None where there are none."""
        if "amplitudes" not in client.shared:
            return None
        elsewhere = client.shared["amplitude_rows"] != client.row
        others = client.shared["amplitudes"][elsewhere]
        return others.flatten(0, 1) if len(others) else None

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        loss = super().gradient(net, batch, client)
        if "others" not in client.scratch:
            return loss
        layout = client.layout
        style = client.scratch["others"][batch.per_image["chosen"]]
        mix = batch.per_image["mix"]
        in_style = exchanged(batch.x, style, self.low, mix, cut=True)
        other = replace(batch, x=in_style)  # x'
        start = layout.params.clone()  # [T]
        g = layout.grad.clone()  # [T]
        layout.params.sub_(g, alpha=self.step)
        layout.zero_grad()
        with still_batchnorm(net):
            super().gradient(net, other, client)
        layout.params.copy_(start)
        layout.grad.add_(g)
        return loss

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        shared["amplitudes"] = updates["amplitudes"]  # [K, S, C, n, n]
        shared["amplitude_rows"] = updates.rows  # [K]
        return theta


register(
    "feddg",
    Episodic(),
    Mean(),
    label="FedDG",
    about="trains on images in the style of other hospitals, for scanners that it has not seen",
    families="domain",
)
