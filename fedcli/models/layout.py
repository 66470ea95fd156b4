"""A network seen as one float32 vector theta [P]: trainable tensors first, then float buffers.

The network's own tensors become views into one flat vector, and their gradients into another, so
that broadcast, reset, aggregation and an optimizer step are one operation each. Copying and adding
over 60 tensors in Python was the largest cost beside the convolutions.
"""

from collections.abc import Mapping
from itertools import accumulate

import torch
from torch import Tensor, nn

from .network import frozen_parts


class Layout:
    """Where each exchanged tensor sits in theta, and the live vectors behind a network.

    Frozen parameters, all of a part in which nothing trains, and integer buffers stay with the network;
    tensors named in `personal` stay with the client, in a vector of their own.

    Attributes:
        spans: tensor name -> slice of theta.
        shapes: tensor name -> shape.
        weights: names of the trainable tensors, in order.
        trainable: T; theta[:T] has gradients.
        size: P.
        flat: [P] live, the exchanged numbers of the network.
        grad: [T] live, their gradient.
        own_shapes: tensor name -> shape of what never leaves the client, [Q] in all.
        frozen: modules in which nothing trains.
        own_start: [Q] what a client starts with in its first round, whatever the last client left in the net.
    """

    def __init__(self, net: nn.Module, personal: tuple[str, ...] = ()):
        trainable = {k: p for k, p in net.named_parameters() if p.requires_grad}
        parts = frozen_parts(net)
        self.frozen = tuple(parts.values())
        frozen = tuple(f"{name}." for name in parts)
        buffers = {
            k: b
            for k, b in net.named_buffers()
            if b.is_floating_point() and not k.startswith(frozen)
        }
        if wrong := [k for k, t in {**trainable, **buffers}.items() if t.dtype != torch.float32]:
            raise TypeError(f"theta is float32; {wrong[0]} is not")

        def split(tensors: Mapping[str, Tensor], mine: bool) -> dict[str, Tensor]:
            return {k: t for k, t in tensors.items() if (k in personal) == mine}

        # own weights | weights | buffers | own buffers: what the optimizer moves and what travels are both one slice
        order = [
            split(trainable, True),
            split(trainable, False),
            split(buffers, False),
            split(buffers, True),
        ]
        own_weights, weights, floats, _ = sizes = [
            sum(t.numel() for t in part.values()) for part in order
        ]
        device = next(iter({**trainable, **buffers}.values())).device
        self._all = torch.empty(sum(sizes), device=device)
        self._all_grad = torch.zeros(own_weights + weights, device=device)
        self._bind({k: t for part in order for k, t in part.items()})

        self.trainable, self.size, self.weights = weights, weights + floats, tuple(order[1])
        self.flat = self._all[own_weights : own_weights + self.size]
        self.grad = self._all_grad[own_weights:]
        self._own = self._all[:own_weights], self._all[own_weights + self.size :]
        self.shapes = {name: tensor.shape for name, tensor in {**order[1], **order[2]}.items()}
        self.own_shapes = {name: tensor.shape for name, tensor in {**order[0], **order[3]}.items()}
        self.own_start = self.read_own()
        ends = [0, *accumulate(shape.numel() for shape in self.shapes.values())]
        self.spans = {name: slice(*ends[i : i + 2]) for i, name in enumerate(self.shapes)}

    def _bind(self, tensors: dict[str, Tensor]) -> None:
        start = 0
        for tensor in tensors.values():
            span = slice(start, start := start + tensor.numel())
            view = self._all[span].view_as(tensor)
            view.copy_(tensor.detach())
            tensor.data = view
            if tensor.requires_grad:
                tensor.grad = self._all_grad[span].view_as(tensor)

    def read(self, out: Tensor | None = None) -> Tensor:
        """Copy the network into a vector [P], a fresh one unless it is given."""
        return self.flat.clone() if out is None else out.copy_(self.flat)

    def load(self, theta: Tensor) -> None:
        """Copy theta [P] into the network."""
        self.flat.copy_(theta)

    def zero_grad(self) -> None:
        self._all_grad.zero_()

    @property
    def params(self) -> Tensor:
        """[T] live, the trainable part of flat."""
        return self.flat[: self.trainable]

    @property
    def buffers(self) -> Tensor:
        """[P - T] live, batch-norm statistics and other float buffers."""
        return self.flat[self.trainable :]

    def read_own(self) -> Tensor:
        """Copy what never leaves the client into a fresh vector [Q]."""
        return torch.cat(self._own)

    def load_own(self, own: Tensor) -> None:
        """Copy a client's own numbers [Q] into the network."""
        for part, values in zip(
            self._own, own.split([len(part) for part in self._own]), strict=True
        ):
            part.copy_(values)

    @property
    def all_tensors(self) -> tuple[Tensor, Tensor]:
        """Live, every float of the network that is not frozen, own ones among them, and the gradient."""
        return self._all, self._all_grad

    @property
    def all_trainable(self) -> tuple[Tensor, Tensor]:
        """[Q + T] live, all that an optimizer moves, a client's own weights among it, and its gradient."""
        return self._all[: len(self._all_grad)], self._all_grad

    def named(self, theta: Tensor, own: Tensor | None = None) -> dict[str, Tensor]:
        """theta [P], and own [Q] where given, as named tensors of their own shapes."""
        parts = [(theta, self.shapes)] + ([(own, self.own_shapes)] if own is not None else [])
        return {
            name: piece.view(shapes[name])
            for vector, shapes in parts
            for name, piece in zip(
                shapes, vector.split([s.numel() for s in shapes.values()]), strict=True
            )
        }
