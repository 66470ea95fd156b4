"""fedcli models and metrics: what can be named in other commands."""

from typing import Annotated

from .. import extensions
from ..common_options import NAME
from ..errors import UsageError, nearest
from ..provenance import first_line
from ..system import terminal
from .shell.common import Json
from .shell.shown import show_json

One = Annotated[str | None, "show only this one", NAME]
NETWORKS = {  # of libraries, and one's own
    "torchvision:NAME": "any classifier of torchvision, such as torchvision:convnext_tiny; "
    "--weights pretrained is downloaded",
    "timm:NAME": "any network of timm, which fedcli[timm] brings, such as "
    "timm:vit_tiny_patch16_224@64; --weights pretrained is downloaded",
    "open_clip:NAME": "the image tower of any CLIP of open_clip, which fedcli[clip] brings; "
    "--weights FILE, or pretrained for one of the hub, which is downloaded",
    "FILE.py:FUNCTION": "one of your own: FUNCTION(channels, classes) returns it; see "
    "docs/extend.md",
}
OWN_METRIC = {"FILE.py:FUNCTION": "one of your own: FUNCTION(probabilities, labels, groups)"}
BETWEEN_GROUPS = {  # what tables show of every metric, and limits take
    "gap": "the distance between the best group's score and the worst's: shown by "
    "`fedcli report --by sex`, limited by --fail-if 'gap(sex) > 5'",
    "worst": "the score of the group that fares worst: shown by `fedcli report --by sex`, "
    "limited by --fail-if 'worst(sex) < 60'",
}


def models(name: One = None, json: Json = False) -> None:
    """List the networks of `fedcli train --model`.

    With a name only that one is shown.
    """
    from ..models import MODELS

    meanings = {}
    for network, model in MODELS.items():
        meanings[network] = f"{model.about}; images of {model.smallest} pixels or more"
        if model.published:
            meanings[network] += f"; {model.published}"
    meanings |= _of_packages("models") | NETWORKS
    if name and name not in meanings:
        library = f"{name.partition(':')[0]}:NAME"  # its entry describes all networks of it
        if library in meanings:
            name = library
    _list("model", meanings, name, json)


def metrics(name: One = None, json: Json = False) -> None:
    """List the scores of `fedcli report --metric`.

    With a name only that one is shown.
    """
    from ..metrics import METRICS, PARITY, get

    meanings = BETWEEN_GROUPS
    if name not in BETWEEN_GROUPS:
        meanings = {metric: get(metric).meaning for metric in (*METRICS, *PARITY)}
        meanings |= _of_packages("metrics") | OWN_METRIC
    _list("metric", meanings, name, json)


def _of_packages(kind: str) -> dict[str, str]:
    """Functions that installed packages offer, and which package each is from."""
    functions = extensions.installed(kind).items()
    return {name: f"{first_line(function)}; from {code}" for name, (function, code) in functions}


def _list(
    kind: str,
    meanings: dict[str, str],
    name: str | None,
    as_json: bool,
) -> None:
    """Print all entries, or the one with this name. Raises UsageError where there is none."""
    if name:
        if name not in meanings:
            raise UsageError(f"unknown {kind} {name!r}", nearest(name, meanings))
        meanings = {name: meanings[name]}
    if as_json:
        show_json(meanings)
        return
    terminal.table([kind, "what it is"], list(meanings.items()))
