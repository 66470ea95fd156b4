"""A corruption: one change of an image in five severities, and the registry of all of them.

A kind is a function of an image with values from 0 to 1. The same function serves images of 8 and
of 16 bits: an array keeps its type, shape and range. fedcli itself changes the prepared images,
which have 8 bits: `prepare` has mapped originals of 16 bits by their window before.

The random stream of an image follows from (seed, image id, kind) and not from the severity, so that
a higher severity has the same pattern, stronger: the fifth hair is drawn where four are already.

A file of one's own offers a function(image float64 [H, W, C], severity 1..5, numpy Generator) that
returns the changed image.
"""

import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .... import extensions
from ....errors import FedcliError, UsageError, nearest
from ....provenance import LONG, Code, first_line
from ....seeds import derive

Array = np.ndarray
Stream = np.random.Generator
Change = Callable[[Array, Any, Stream], Array]
SEVERITIES = range(1, 6)
GENERAL = "general"
MODALITIES = {  # word of the command line -> in words
    GENERAL: "any image",
    "dermoscopy": "skin, by a dermatoscope",
    "fundus": "photographs of the retina",
    "oct": "optical coherence tomography of the retina",
    "endoscopy": "video of the digestive tract",
    "x-ray": "radiographs",
    "ct": "computed tomography",
    "mr": "magnetic resonance",
    "ultrasound": "ultrasound",
    "histology": "stained tissue under a microscope",
    "blood": "blood cells under a microscope",
    "fluorescence": "cells under a fluorescence microscope",
}
ORIGINALS = "originals of 16 bits are mapped to 8 by prepare, before they are corrupted"


@dataclass(frozen=True)
class CorruptionKind:
    """A kind of corruption.

    Attributes:
        about: the change in words.
        change: (image float64 [H, W, C] from 0 to 1, amount, stream) -> the changed image, which
            may leave the range: it is cut.
        amounts: of severity 1 to 5. unit: the quantity that they are.
        modalities: words of MODALITIES for which it is typical.
        colour, grey: what it does to images of three channels, and of one.
        needs_colour: it is refused for grey images.
        smallest: shorter side in pixels from which it works.
        aliases: other names.
        source: of whom the definition is.
        code: where a corruption from outside the package comes from.
    """

    name: str
    about: str
    change: Change
    amounts: Sequence[Any]
    unit: str = ""
    _: KW_ONLY
    modalities: tuple[str, ...] = (GENERAL,)
    colour: str = "the same change of each channel"
    grey: str = "the same change"
    needs_colour: bool = False
    smallest: int = 1
    aliases: tuple[str, ...] = ()
    source: str = ""
    code: Code | None = None

    def ready(self) -> None:
        """Load what the change needs, before processes are started. Raises FedcliError."""

    def apply(
        self,
        image: np.ndarray,
        id: str,
        severity: int,
        seed: int,
    ) -> np.ndarray:
        """A corrupted copy of an image [H, W, C] of 8 or 16 bits, C 1 or 3. Raises FedcliError."""
        top = np.iinfo(image.dtype).max
        stream = np.random.default_rng(derive("corruption", seed, id, self.name))
        amount = self.amounts[severity - 1]
        changed = np.asarray(self.change(image / top, amount, stream))
        if changed.shape != image.shape or not np.isfinite(changed).all():
            shapes = f"shape {changed.shape} for {image.shape}"
            sentence = f"{self.code or 'fedcli'}: {self.name} returned an image of {shapes}"
            hint = "return an image of the same shape, with finite numbers from 0 to 1"
            raise FedcliError(sentence, hint)
        return np.rint(np.clip(changed, 0, 1) * top).astype(image.dtype)


KINDS: dict[str, CorruptionKind] = {}  # by name; the files of this folder fill it
ALIASES: dict[str, str] = {}
_own: dict[str, CorruptionKind] = {}  # of files and packages that commands have named


def register(kind: CorruptionKind) -> None:
    """Make a corruption known by its name. Raises ValueError for a name that is taken."""
    for name in (kind.name, *kind.aliases):
        if name in KINDS or name in ALIASES:
            raise ValueError(f"there is a corruption {name!r} already")
    unknown = set(kind.modalities) - MODALITIES.keys()
    if unknown:
        raise ValueError(f"corruption {kind.name!r}: no modality {min(unknown)!r}")
    KINDS[kind.name] = kind
    ALIASES.update(dict.fromkeys(kind.aliases, kind.name))


def register_family(file: str, *changes: Change) -> None:
    """Register the kinds that the TOML file beside a module declares.

    The function of a kind is the one of its name, or the one that its `change` says.
    """
    function_by_name = {change.__name__: change for change in changes}
    declared = declarations(file)
    common = declared.pop("all", {})
    for name, table in declared.items():
        facts = {**common, **table}
        function = facts.pop("change", name.replace("-", "_"))
        register(CorruptionKind(name, change=function_by_name[function], **facts))


def declarations(file: str) -> dict[str, Any]:
    """The tables of the TOML file beside a module."""
    return tomllib.loads(Path(file).with_suffix(".toml").read_text(encoding="utf-8"))


def full_kind(word: str) -> str:
    """The kind that a word of the command line stands for. Raises FedcliError, UsageError."""
    return named(word).name


def named(word: str) -> CorruptionKind:
    """The corruption of a name, of a file or of an installed package.

    Raises FedcliError, UsageError.
    """
    if extensions.is_file(word):
        return _kept(*extensions.function(word, "corruptions", "build"))
    kind = word.lower().replace("_", "-")
    kind = ALIASES.get(kind, kind)
    if kind in KINDS:
        return KINDS[kind]
    outside = _own.get(word)
    if outside is not None and _is_allowed(outside):
        return outside
    offered = extensions.offered("corruptions", word)
    if offered is not None:
        return _kept(*offered)
    if kind in MODALITIES:
        sentence = f"{word} is a modality, and a single kind is needed"
        raise UsageError(sentence, f"`fedcli corruptions {kind}` lists its kinds")
    names = [*KINDS, *ALIASES, *MODALITIES, *extensions.packages("corruptions")]
    hint = nearest(kind, names)
    if len(hint) >= LONG:
        hint = "`fedcli corruptions` lists them"
    raise UsageError(f"unknown corruption {word!r}", hint)


def _is_allowed(outside: CorruptionKind) -> bool:
    """Tell whether this command names the file of a corruption; of a package it is asked anew."""
    path = outside.code.path if outside.code else None
    return path is not None and path in extensions.files_named()


def is_taken(name: str) -> bool:
    """Tell whether a corruption or modality of fedcli has a name."""
    return name.lower().replace("_", "-") in (*KINDS, *ALIASES, *MODALITIES)


def _kept(function: Callable[..., Any], code: Code) -> CorruptionKind:
    """Somebody's function as a corruption, which can then be found by its name."""
    name = function.__name__
    if is_taken(name):
        hint = f"give the function of {code} another name"
        raise UsageError(f"fedcli has a corruption {name!r} already", hint)
    before = _own.get(name)
    if before is not None and _is_allowed(before) and before.code != code:
        sentence = f"{before.code} and {code} both have a corruption {name!r}"
        raise UsageError(sentence, "give one of the functions another name")
    _own[name] = CorruptionKind(
        name,
        first_line(function),
        function,
        SEVERITIES,
        "severity",
        colour="as its function does",
        grey="as its function does",
        source=str(code),
        code=code,
    )
    return _own[name]


def recorded_code(kinds: Iterable[str]) -> dict[str, dict[str, str]]:
    """Kind -> what manifests record of its code, of those from outside the package."""
    recorded = {}
    for name in kinds:
        outside = _own.get(name)
        if outside is not None and outside.code is not None:
            recorded[name] = outside.code.recorded
    return recorded


def of_modality(modality: str) -> list[str]:
    """The names of all kinds that are typical for a modality."""
    return [name for name, kind in KINDS.items() if modality in kind.modalities]


def in_words(kind: str) -> str:
    """A kind in a sentence or table: "gaussian noise (dermoscopy)"."""
    name, at, modality = kind.partition("@")
    words = name.replace("-", " ")
    return f"{words} ({modality})" if at else words
