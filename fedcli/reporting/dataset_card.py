"""Facts of the dataset's card, for reports of its scores."""

from typing import Any

from ..data.sources import card
from ..errors import UsageError
from ..scores.scores import RunScores

OWN = "your own"  # begins what the card of one's own images has in place of facts


def card_of(scores: RunScores) -> dict[str, Any]:
    """The facts of the dataset's card that fedcli has; of images of one's own those are a person's
    to write.
    """
    try:
        facts = card(scores.dataset)
    except UsageError:
        return {}
    placeholders = {name for name, value in facts.items() if is_placeholder(value)}
    return {name: value for name, value in facts.items() if name not in placeholders - {"title"}}


def is_placeholder(value: Any) -> bool:
    """Tell whether a card has this in place of a fact."""
    return isinstance(value, str) and value.lower().startswith(OWN)
