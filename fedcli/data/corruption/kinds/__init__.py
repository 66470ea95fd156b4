"""Every corruption: a file for each kind or family of kinds; a further one is a file and a line
here.

A package offers corruptions by entry points of the group fedcli.corruptions: functions as kind.py
describes them.
"""

from importlib import import_module

from ....leaves import is_installed
from .kind import (
    ALIASES,
    GENERAL,
    KINDS,
    MODALITIES,
    SEVERITIES,
    CorruptionKind,
    full_kind,
    in_words,
    is_taken,
    named,
    of_modality,
    recorded_code,
)

FAMILIES = (
    "photographs",
    "tone",
    "scanner",
    "dermoscopy",
    "retina",
    "endoscopy",
    "radiography",
    "computed_tomography",
    "magnetic_resonance",
    "medmnist_c",
)
for _family in FAMILIES:
    if is_installed(f"{__name__}.{_family}"):
        import_module(f"{__name__}.{_family}")

__all__ = [
    "ALIASES",
    "GENERAL",
    "KINDS",
    "MODALITIES",
    "SEVERITIES",
    "CorruptionKind",
    "full_kind",
    "in_words",
    "is_taken",
    "named",
    "of_modality",
    "recorded_code",
]
