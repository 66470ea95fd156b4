"""Passes of the network that a method's formula has, which its halves say (contract.py): the yardstick of the bench."""

from ..errors import UsageError
from ..methods import METHODS, Method

PASSES = "step", "look", "gradient", "forward"


def formula(method: Method) -> dict[str, int]:
    """The passes of a method's two halves together, by kind. Raises UsageError where they are not known."""
    local, rule = method.local.cost, method.aggregator.cost
    if isinstance(local, str) or isinstance(rule, str):
        reason = local if isinstance(local, str) else rule
        hint = f"methods that can be: {', '.join(measurable())}"
        raise UsageError(f"{method.name} cannot be timed against a formula: {reason}", hint)
    return {kind: local.get(kind, 0) + rule.get(kind, 0) for kind in PASSES}


def measurable() -> list[str]:
    """Methods whose cost follows from their formula."""
    return [
        name for name, m in METHODS.items() if not isinstance(m.local.cost, str) | isinstance(m.aggregator.cost, str)
    ]
