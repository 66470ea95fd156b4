"""fedcli models, metrics and corruptions: what can be named in other commands."""

from typing import Annotated

from .. import extensions
from ..common_options import NAME
from ..errors import UsageError, nearest
from ..provenance import first_line
from ..system import terminal
from .shell.common import Json
from .shell.shown import show_json

One = Annotated[str | None, "show only this one", NAME]
BETWEEN_GROUPS = {  # what tables show of every metric, and limits take
    "gap": "the best group's score minus the worst group's: shown by `fedcli report --by sex`, "
    "limited by --fail-if 'gap(sex) > 5'",
    "worst": "the lowest score of a group: shown by `fedcli report --by sex`, "
    "limited by --fail-if 'worst(sex) < 60'",
}


def models(name: One = None, json: Json = False) -> None:
    """List the networks of `fedcli train --model`.

    With a name only that one is shown.
    """
    from ..models import MODELS

    about = {}
    for network, model in MODELS.items():
        about[network] = f"{model.about}; images of {model.smallest} pixels or more"
        if model.published:
            about[network] += f"; {model.published}"
    for network, (build, code) in extensions.installed("models").items():
        about[network] = f"{first_line(build)}; from {code}"
    about |= {
        "torchvision:NAME": "any classifier of torchvision, such as torchvision:convnext_tiny; "
        "--weights pretrained is downloaded",
        "timm:NAME": "any network of timm, which fedcli[timm] brings, such as timm:vit_tiny_patch16_224@64; "
        "--weights pretrained is downloaded",
        "open_clip:NAME": "the image tower of any CLIP of open_clip, which fedcli[clip] brings; "
        "--weights FILE, or pretrained for one of the hub, which is downloaded",
        "FILE.py:FUNCTION": "one of your own: FUNCTION(channels, classes) returns it; see docs/extend.md",
    }
    _list("model", about, _entry_of(name, about), json)


def metrics(name: One = None, json: Json = False) -> None:
    """List the scores of `fedcli report --metric`.

    With a name only that one is shown.
    """
    from ..metrics import METRICS, PARITY, get

    packages = {}
    for metric, (function, code) in extensions.installed("metrics").items():
        packages[metric] = f"{first_line(function)}; from {code}"
    about = {metric: get(metric).meaning for metric in (*METRICS, *PARITY)} | packages
    about["FILE.py:FUNCTION"] = "one of your own: FUNCTION(probabilities, labels, groups)"
    if name in BETWEEN_GROUPS:
        about = BETWEEN_GROUPS
    _list("metric", about, name, json)


def corruptions(name: One = None, json: Json = False) -> None:
    """List the kinds of image noise for `fedcli corrupt`.

    With a name only that one is shown.
    """
    from ..data.corruption.corrupt import ALIASES, KINDS, SMALLEST, SPATIAL, full_kind

    about = {
        kind: text + f"; images of {SMALLEST} pixels or more" * (kind in SPATIAL)
        for kind, text in KINDS.items()
    }
    for kind in KINDS:
        if also := [name for name, target in ALIASES.items() if target == kind]:
            about[kind] += f"; also called {' or '.join(also)}"
    _list("corruption", about, full_kind(name) if name else None, json)


def _entry_of(name: str | None, about: dict[str, str]) -> str | None:
    """The entry that describes a network: that of its library, such as timm:NAME, or its own."""
    if name and name not in about:
        library = f"{name.partition(':')[0]}:NAME"
        return library if library in about else name
    return name


def _list(what: str, about: dict[str, str], name: str | None, as_json: bool) -> None:
    """Print all entries, or the one with this name. Raises UsageError where there is none."""
    if name and name not in about:
        raise UsageError(f"unknown {what} {name!r}", nearest(name, about))
    entries = {name: about[name]} if name else about
    if as_json:
        show_json(entries)
        return
    terminal.table([what, "what it is"], [[word, text] for word, text in entries.items()])
