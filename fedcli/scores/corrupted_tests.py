"""The corruptions under which test images are scored, from the words of a command.

It imports no torch, which scores that were made before do not need.
"""

import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from ..data import manifest
from ..data.corruption import mixture
from ..data.corruption.corrupt import check_images, fits
from ..data.corruption.kinds import (
    KINDS,
    MODALITIES,
    SEVERITIES,
    full_kind,
    of_modality,
    recorded_code,
)
from ..errors import UsageError
from ..runs.recorded_code import load_corruptions

Asked = list[tuple[str, int]]  # kind and severity


def asked(kinds: Sequence[str], severities: Sequence[str], run: Path) -> Asked:
    """Kinds times severities, in order; a modality is all of its kinds that suit the images.

    Without a kind that of the run's own data, without a severity all five. Raises FedcliError,
    UsageError.
    """
    if not kinds and not severities:
        return []
    data = manifest.read(manifest.above(run, "corruption", "partition", "sites"))
    load_corruptions(data)
    names = _named(kinds, data.body) or _own_kinds(data)
    if not names:
        fault = "--severity is about a corruption, and the run has none"
        raise UsageError(fault, "add --corrupt KIND")
    distinct = list(dict.fromkeys(names))
    for kind in distinct:
        check_images(kind, data.body)
    steps: set[int] = set()
    for text in severities:
        steps |= set(_severities(text))
    return list(product(distinct, sorted(steps) or SEVERITIES))


def _named(words: Sequence[str], body: manifest.Body) -> list[str]:
    """The kinds that words mean. Raises FedcliError, UsageError."""
    names = []
    for word in words:
        if word not in MODALITIES:
            names.append(full_kind(word))
            continue
        fitting = [kind for kind in of_modality(word) if fits(kind, body)]
        if not fitting:
            size = "x".join(map(str, body["size"]))
            sentence = f"no corruption of {word} suits images of {size} pixels"
            raise UsageError(sentence, "prepare with a larger --size")
        names += fitting
    return names


def _own_kinds(data: manifest.Manifest) -> list[str]:
    """The corruptions of a run's own data."""
    kinds = [kind for kind, _ in mixture.of_body(data.body).values()]
    outside = recorded_code(kinds)
    return [kind for kind in kinds if kind in KINDS or kind in outside]


def _severities(text: str) -> range:
    """The severities that "3", "1..5" or "1-5" mean. Raises UsageError."""
    match = re.fullmatch(r"([1-5])(?:(?:\.\.|-)([1-5]))?", text.strip())
    if match:
        lowest = int(match[1])
        highest = int(match[2] or lowest)
        if lowest <= highest:
            return range(lowest, highest + 1)
    hint = "write --severity 3, or --severity 1..5 for all"
    raise UsageError(f"--severity {text} is none of 1 to 5", hint)
