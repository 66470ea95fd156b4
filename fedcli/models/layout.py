"""A network seen as one float32 vector theta [P]: trainable tensors first, then float buffers.

The network's own tensors become views into one flat vector, and their gradients into another, so
that broadcast, reset, aggregation and an optimizer step are one operation each. Copying and adding
over 60 tensors in Python was the largest cost beside the convolutions.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .network import frozen_parts

BACKBONE = "backbone."  # begins the names of its tensors


class Layout:
    """Where each exchanged tensor sits in theta, and the live vectors behind a network.

    Frozen parameters, all of a part in which nothing trains, and integer buffers stay with the
    network; tensors named in `personal` stay with the client, in a vector of their own.

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
        backbone: spans of all_trainable that belong to the network's backbone; rest: to the others.
        own_start: [Q] what a client starts with in its first round, whatever the last client left
            in the net.
    """

    def __init__(self, net: nn.Module, personal: tuple[str, ...] = ()):
        parts = frozen_parts(net)
        self.frozen = tuple(parts.values())
        frozen = tuple(f"{name}." for name in parts)
        # own weights | weights | buffers | own buffers: what the optimizer moves and what travels
        # are both one slice
        own_weights: dict[str, Tensor] = {}
        weights: dict[str, Tensor] = {}
        buffers: dict[str, Tensor] = {}
        own_buffers: dict[str, Tensor] = {}
        for name, parameter in net.named_parameters():
            if parameter.requires_grad:
                (own_weights if name in personal else weights)[name] = parameter
        for name, buffer in net.named_buffers():
            if buffer.is_floating_point() and not name.startswith(frozen):
                (own_buffers if name in personal else buffers)[name] = buffer
        order = own_weights | weights | buffers | own_buffers
        for name, tensor in order.items():
            if tensor.dtype != torch.float32:
                raise TypeError(f"theta is float32; {name} is not")

        device = next(iter(order.values())).device
        begin = _numbers(own_weights)
        self.trainable = _numbers(weights)
        self.size = self.trainable + _numbers(buffers)
        self.weights = tuple(weights)
        self.backbone, self.rest = _spans_by_part(own_weights | weights)
        self._all = torch.empty(_numbers(order), device=device)
        self._all_grad = torch.zeros(begin + self.trainable, device=device)
        self._bind(order)
        self.flat = self._all[begin : begin + self.size]
        self.grad = self._all_grad[begin:]
        self._own = self._all[:begin], self._all[begin + self.size :]
        self.shapes = {name: tensor.shape for name, tensor in (weights | buffers).items()}
        self.own_shapes = {
            name: tensor.shape for name, tensor in (own_weights | own_buffers).items()
        }
        self.own_start = self.read_own()
        self.spans: dict[str, slice] = {}
        end = 0
        for name, shape in self.shapes.items():
            self.spans[name] = slice(end, end + shape.numel())
            end += shape.numel()

    def _bind(self, tensors: dict[str, Tensor]) -> None:
        start = 0
        for tensor in tensors.values():
            span = slice(start, start + tensor.numel())
            start = span.stop
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

    def load_own(self, numbers: Tensor) -> None:
        """Copy a client's own numbers [Q] into the network."""
        sizes = [len(vector) for vector in self._own]
        for vector, part in zip(self._own, numbers.split(sizes), strict=True):
            vector.copy_(part)

    @property
    def all_tensors(self) -> tuple[Tensor, Tensor]:
        """Live, every float of the network that is not frozen, own ones among them, and the
        gradient.
        """
        return self._all, self._all_grad

    @property
    def all_trainable(self) -> tuple[Tensor, Tensor]:
        """[Q + T] live, all that an optimizer moves, a client's own weights among it, and its
        gradient.
        """
        return self._all[: len(self._all_grad)], self._all_grad

    def named(
        self,
        theta: Tensor,
        personal: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """theta [P], and personal numbers [Q] where given, as named tensors of their own shapes."""
        tensors = _named(theta, self.shapes)
        return tensors if personal is None else tensors | _named(personal, self.own_shapes)


def _spans_by_part(weights: Mapping[str, Tensor]) -> tuple[list[slice], list[slice]]:
    """The longest spans of flat weights that lie in the backbone, and those that do not."""
    backbone: list[slice] = []
    rest: list[slice] = []
    end = 0
    for name, tensor in weights.items():
        spans = backbone if name.startswith(BACKBONE) else rest
        begin = end
        end += tensor.numel()
        if spans and spans[-1].stop == begin:
            begin = spans.pop().start
        spans.append(slice(begin, end))
    return backbone, rest


def _numbers(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors.values())


def _named(vector: Tensor, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    pieces = vector.split([shape.numel() for shape in shapes.values()])
    return {name: piece.view(shapes[name]) for name, piece in zip(shapes, pieces, strict=True)}
