"""Checks of what the hooks of a method return and keep. A mistake is told with its hook, not where it first shows."""

from typing import Any, NoReturn

import torch
from torch import Tensor

from ..errors import FedcliError
from ..methods.contract import Aggregator, ClientUpdates, Local, Tensors
from ..methods.registry import Method
from ..methods.row_table import RowTable

KEPT = Tensor, RowTable  # by the server
ROUNDING = 1e-3  # by which weights may miss a sum of 1


class ContractError(FedcliError):
    """A hook returned or kept something that the round cannot use."""


def broadcast(method: Method, server: Tensors) -> Tensors:
    """Broadcast of the server rule, checked."""
    payload = method.aggregator.broadcast(server)
    tensors(method, method.aggregator, "broadcast", payload, "what clients receive")
    return payload


def aggregate(
    method: Method, theta: Tensor, updates: ClientUpdates, server: Tensors
) -> tuple[Tensor, Tensor]:
    """New model [P] and weights [K] of the server rule, checked, with the memory that it leaves."""
    rule = method.aggregator
    new_theta, new_weights = pair(method, rule.aggregate(theta, updates, server))
    model(method, rule, "aggregate", new_theta, theta)
    weights(method, new_weights, len(updates.rows))
    tensors(method, rule, "aggregate", server, "the server's memory")
    return new_theta, new_weights


def post_aggregate(
    method: Method, theta: Tensor, updates: ClientUpdates, weights: Tensor, shared: Tensors
) -> Tensor:
    """Model [P] after the local half's own step at the server, checked."""
    local = method.local
    after = local.post_aggregate(theta, updates, weights, shared)
    model(method, local, "post_aggregate", after, theta)
    tensors(method, local, "post_aggregate", shared, "what all clients share")
    return after


def tensors(method: Method, half: Local | Aggregator, hook: str, values: Any, what: str) -> None:
    """values: name -> tensor. what: for the sentence, such as "the server's memory", which may hold a RowTable too."""
    if not isinstance(values, dict):
        _refuse(
            method,
            half,
            hook,
            f"left {_described(values)} as {what}",
            "it must be a dict of names and tensors",
        )
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(
            value, KEPT if hook == "aggregate" else Tensor
        ):
            _refuse(
                method,
                half,
                hook,
                f"put {_described(value)} into {what} as {name!r}",
                "keep it as a torch tensor",
            )


def model(method: Method, half: Local | Aggregator, hook: str, theta: Any, like: Tensor) -> None:
    """theta: the new global model. like: [P], the old one."""
    if not isinstance(theta, Tensor):
        _refuse(
            method,
            half,
            hook,
            f"returned {_described(theta)} as the model",
            f"return a tensor [{len(like)}]",
        )
    if theta.shape != like.shape or theta.dtype != like.dtype:
        hint = f"the model has shape {list(like.shape)} and type {_type(like)}"
        _refuse(
            method,
            half,
            hook,
            f"returned a model of shape {list(theta.shape)} and type {_type(theta)}",
            hint,
        )


def pair(method: Method, made: Any) -> tuple[Any, Any]:
    """Check what aggregate returned: the model and the weights."""
    if not isinstance(made, tuple | list) or len(made) != 2:
        what = (
            f"{len(made)} values" if isinstance(made, tuple | list) else _described(made, "a pair")
        )
        _refuse(
            method,
            method.aggregator,
            "aggregate",
            f"returned {what}",
            "return the model [P] and the weights [K]",
        )
    return made[0], made[1]


def weights(method: Method, values: Any, clients: int) -> None:
    """values: [K] of the clients of a round, not negative, with sum 1."""
    half, hint = (
        method.aggregator,
        "the weights [K] of the clients must be finite, not negative, and sum to 1",
    )
    if (
        not isinstance(values, Tensor)
        or values.shape != (clients,)
        or not values.is_floating_point()
    ):
        _refuse(
            method,
            half,
            "aggregate",
            f"returned {_described(values)} as weights of {clients} clients",
            hint,
        )
    sum_, smallest = torch.stack([values.sum(), values.min()]).double().tolist()
    if not abs(sum_) < float("inf"):
        _refuse(
            method,
            half,
            "aggregate",
            "returned weights that are not finite",
            f"{hint}; is --lr too high?",
        )
    if smallest < 0:
        _refuse(method, half, "aggregate", f"returned a negative weight ({smallest:.4g})", hint)
    if abs(sum_ - 1) > ROUNDING:
        _refuse(method, half, "aggregate", f"returned weights that sum to {sum_:.4g}", hint)


def columns(
    method: Method, first: tuple[str, dict[str, Tensor]], other: tuple[str, dict[str, Tensor]]
) -> None:
    """Check what two clients reported, each with its name: the same columns, each of one shape and type."""
    (first_client, first_values), (client, values) = first, other
    hint = "every client must report the same names, each as a tensor of one shape and type"
    for name in sorted({*first_values} ^ {*values}):
        having, lacking = (first_client, client) if name in first_values else (client, first_client)
        raise ContractError(
            f"{method.name}: client {having} reported {name!r}, client {lacking} did not", hint
        )
    for name, value in values.items():
        if (value.shape, value.dtype) != (first_values[name].shape, first_values[name].dtype):
            what = f"{name!r} as {_described(first_values[name])}, client {client} as {_described(value)}"
            raise ContractError(f"{method.name}: client {first_client} reported {what}", hint)


def selection(method: Method, selected: Any, clients: int) -> None:
    """selected: bool [K], which clients are to train."""
    if (
        not isinstance(selected, Tensor)
        or selected.shape != (clients,)
        or selected.dtype != torch.bool
    ):
        hint = "return a bool tensor [K]"
        what = f"returned {_described(selected)} for {clients} clients"
        _refuse(method, method.aggregator, "select_clients", what, hint)
    if not selected.any():
        _refuse(
            method,
            method.aggregator,
            "select_clients",
            "selected nobody",
            "at least one client has to train",
        )


def _refuse(method: Method, half: Local | Aggregator, hook: str, what: str, hint: str) -> NoReturn:
    raise ContractError(f"{hook} of {type(half).__name__} (method {method.typed}) {what}", hint)


def _described(value: Any, wanted: str = "a tensor") -> str:
    if isinstance(value, Tensor):
        return f"a {_type(value)} tensor of shape {list(value.shape)}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}, not {wanted}"


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
