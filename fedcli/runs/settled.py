"""A plan as it runs: what was left open is filled in as its data and its method decide, so that it is recorded."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from .. import models
from .. import options as options_of
from ..errors import FedcliError
from ..federation import sampling
from ..methods.contract import Local
from ..methods.groups import Attribute
from ..methods.registry import Method, resolve
from . import record
from .assembly import is_frozen
from .rules import Body
from .train_options import TrainOptions


def settled(plan: TrainOptions, method: Method, body: Body) -> TrainOptions:
    """The plan with its augmentation, and with the attributes whose values are its groups.

    body: of the data's manifest. Raises UsageError where the data have no such attribute.
    """
    kind, attribute = plan.sampling.partition(":")[0], sampling.attribute(plan.sampling, body["attributes"])
    return replace(
        plan,
        augment=plan.augment or _augment(plan, method, body),
        sampling=f"{kind}:{attribute}" if attribute else plan.sampling,
        set={**plan.set, **dict(_attributes(plan, method, body))},
    )


def chosen(asked: TrainOptions, plan: TrainOptions, body: Body) -> str:
    """A sentence where the data chose the attribute of groups, and have others; plan: what was asked, settled."""
    names = [name for key, name in plan.set.items() if key not in asked.set]
    names += [plan.sampling.partition(":")[2]] if plan.sampling != asked.sampling else []
    if not names or len(body["attributes"]) < 2:
        return ""
    others = ", ".join(name for name in body["attributes"] if name != names[0])
    how = "--set attribute=NAME" if plan.sampling == asked.sampling else f"--sampling {asked.sampling}:NAME"
    return f"the groups are those of {names[0]}; {how} takes another ({others})"


def _augment(plan: TrainOptions, method: Method, body: Body) -> str:
    """The dataset's own; none where nothing in the backbone trains, so that each image is seen once."""
    asked: str = body["augment"]
    plain = not (plan.freeze_backbone or method.adapters) and type(method.local).extend is Local.extend
    if asked == "none" or plain:
        return asked
    inputs = models.Inputs.of(dict(body), models.input_channels(plan.model, body["channels"]))
    net = models.build(plan.model, inputs, seed=plan.seed, freeze=plan.freeze_backbone, extend=method.extend)
    return "none" if is_frozen(net) else asked


def _attributes(plan: TrainOptions, method: Method, body: Body) -> Iterator[tuple[str, str]]:
    """Options of the method that name no attribute, each with the one that is taken; none where it has no meaning."""
    net: Any = SimpleNamespace(attributes=body["attributes"])
    of_local = options_of.values(method.local)
    for key, value in method.settings.items():
        local = not key.startswith("server.") and key.rpartition(".")[2] in of_local
        half: Any = method.local if local else method.aggregator
        left_open = isinstance(value, Attribute) and not value and (local or not plan.single_site)
        if left_open and (name := half.group_attribute(net)):
            yield key, name


def renewed(options: dict[str, Any], body: Body) -> dict[str, Any]:
    """Options of a run as they are recorded now, where an earlier version recorded them with some left open.

    body: of the data that it was trained on.
    """
    if options.get("augment", "") is not None:
        return options
    try:
        plan = record.read(options)
        method = resolve(plan.method or "", dict(plan.set))
        new = record.options(settled(plan, method, body), method, None)
    except FedcliError:  # its code is not here, say: what it was augmented by is known all the same
        return options | {"augment": body["augment"]}
    return options | {name: value for name, value in new.items() if name not in ("weights", "model")}
