"""Checks of the values that a method's hooks return and keep.

An error names the hook at fault, not the place where the value first fails.
"""

import math
from typing import Any, NoReturn

import torch
from torch import Tensor

from ..errors import FedcliError
from ..methods.contract import Aggregator, ClientUpdates, Local, Tensors
from ..methods.registry import Method
from ..methods.row_table import RowTable

SERVER_VALUES = Tensor, RowTable
ROUNDING = 1e-3  # by which weights may miss a sum of 1


class ContractError(FedcliError):
    """A hook returned or kept something that the round cannot use."""


def broadcast(method: Method, server: Tensors) -> Tensors:
    """Broadcast of the server rule, checked."""
    payload = method.aggregator.broadcast(server)
    tensors(
        method,
        method.aggregator,
        "broadcast",
        payload,
        "what clients receive",
    )
    return payload


def aggregate(
    method: Method,
    theta: Tensor,
    updates: ClientUpdates,
    server: Tensors,
) -> tuple[Tensor, Tensor]:
    """New model [P] and weights [K] of the server rule, checked, with the memory that it leaves."""
    rule = method.aggregator
    new_theta, new_weights = pair(method, rule.aggregate(theta, updates, server))
    model(method, rule, "aggregate", new_theta, theta)
    weights(method, new_weights, len(updates.rows))
    tensors(method, rule, "aggregate", server, "the server's memory")
    return new_theta, new_weights


def post_aggregate(
    method: Method,
    theta: Tensor,
    updates: ClientUpdates,
    weights: Tensor,
    shared: Tensors,
) -> Tensor:
    """Model [P] after the local half's own step at the server, checked."""
    local = method.local
    after = local.post_aggregate(theta, updates, weights, shared)
    model(method, local, "post_aggregate", after, theta)
    tensors(method, local, "post_aggregate", shared, "what all clients share")
    return after


def tensors(
    method: Method,
    half: Local | Aggregator,
    hook: str,
    values: Any,
    title: str,
) -> None:
    """Check a dict of tensors by name.

    title: of the dict in a sentence, such as "the server's memory", which may hold a RowTable too.
    """
    if not isinstance(values, dict):
        fault = f"left {_described(values)} as {title}"
        _refuse(
            method,
            half,
            hook,
            fault,
            "it must be a dict of names and tensors",
        )
    accepted = SERVER_VALUES if hook == "aggregate" else Tensor
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, accepted):
            fault = f"put {_described(value)} into {title} as {name!r}"
            _refuse(method, half, hook, fault, "keep it as a torch tensor")


def model(
    method: Method,
    half: Local | Aggregator,
    hook: str,
    theta: Any,
    like: Tensor,
) -> None:
    """Check a new global model. like: [P], the old one."""
    if not isinstance(theta, Tensor):
        fault = f"returned {_described(theta)} as the model"
        _refuse(method, half, hook, fault, f"return a tensor [{len(like)}]")
    if theta.shape != like.shape or theta.dtype != like.dtype:
        fault = f"returned a model of shape {list(theta.shape)} and type {_type(theta)}"
        hint = f"the model has shape {list(like.shape)} and type {_type(like)}"
        _refuse(method, half, hook, fault, hint)


def pair(method: Method, returned: Any) -> tuple[Any, Any]:
    """The model and the weights that aggregate returned, checked to be two values."""
    fault = ""
    if not isinstance(returned, tuple | list):
        fault = f"returned {_described(returned, 'a pair')}"
    elif len(returned) != 2:
        fault = f"returned {len(returned)} values"
    if fault:
        hint = "return the model [P] and the weights [K]"
        _refuse(method, method.aggregator, "aggregate", fault, hint)
    new_theta, new_weights = returned
    return new_theta, new_weights


def weights(method: Method, values: Any, clients: int) -> None:
    """Check weights [K] of the clients of a round, not negative, with sum 1."""
    rule = method.aggregator
    hint = "the weights [K] of the clients must be finite, not negative, and sum to 1"
    is_float = isinstance(values, Tensor) and values.is_floating_point()
    if not is_float or values.shape != (clients,):
        fault = f"returned {_described(values)} as weights of {clients} clients"
        _refuse(method, rule, "aggregate", fault, hint)
    total, smallest = torch.stack([values.sum(), values.min()]).double().tolist()
    if not abs(total) < math.inf:
        fault = "returned weights that are not finite"
        _refuse(method, rule, "aggregate", fault, f"{hint}; is --lr too high?")
    if smallest < 0:
        _refuse(
            method,
            rule,
            "aggregate",
            f"returned a negative weight ({smallest:.4g})",
            hint,
        )
    if abs(total - 1) > ROUNDING:
        _refuse(
            method,
            rule,
            "aggregate",
            f"returned weights that sum to {total:.4g}",
            hint,
        )


def columns(
    method: Method,
    reference: tuple[str, dict[str, Tensor]],
    other: tuple[str, dict[str, Tensor]],
) -> None:
    """Check that two clients, each with its name, report the same columns of one shape and type."""
    first_client, first_values = reference
    client, values = other
    hint = "every client must report the same names, each as a tensor of one shape and type"
    for name in sorted({*first_values} ^ {*values}):
        having, lacking = client, first_client
        if name in first_values:
            having, lacking = first_client, client
        raise ContractError(
            f"{method.name}: client {having} reported {name!r}, client {lacking} did not", hint
        )
    for name, value in values.items():
        first_value = first_values[name]
        if value.shape != first_value.shape or value.dtype != first_value.dtype:
            raise ContractError(
                f"{method.name}: client {first_client} reported {name!r} as "
                f"{_described(first_value)}, client {client} as {_described(value)}",
                hint,
            )


def selection(method: Method, selected: Any, clients: int) -> None:
    """Check a bool [K]: the clients that are to train."""
    rule = method.aggregator
    is_bool = isinstance(selected, Tensor) and selected.dtype == torch.bool
    if not is_bool or selected.shape != (clients,):
        fault = f"returned {_described(selected)} for {clients} clients"
        _refuse(
            method,
            rule,
            "select_clients",
            fault,
            "return a bool tensor [K]",
        )
    if not selected.any():
        hint = "at least one client has to train"
        _refuse(method, rule, "select_clients", "selected nobody", hint)


def _refuse(
    method: Method,
    half: Local | Aggregator,
    hook: str,
    fault: str,
    hint: str,
) -> NoReturn:
    raise ContractError(f"{hook} of {type(half).__name__} (method {method.typed}) {fault}", hint)


def _described(value: Any, expected: str = "a tensor") -> str:
    if isinstance(value, Tensor):
        return f"a {_type(value)} tensor of shape {list(value.shape)}"
    name = type(value).__name__
    article = "an" if name[0] in "aeiou" else "a"
    return f"{article} {name}, not {expected}"


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
