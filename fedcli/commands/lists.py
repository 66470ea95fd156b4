"""fedcli models, metrics and corruptions: what can be named in other commands."""

from .. import extensions
from ..provenance import first_line
from ..system import terminal
from .shell.common import Json
from .shell.shown import show_json


def models(json: Json = False) -> None:
    """List the networks of `fedcli train --model`."""
    from ..models import MODELS

    about = {}
    for name, model in MODELS.items():
        about[name] = f"{model.about}; images of {model.smallest} pixels or more"
        if model.published:
            about[name] += f"; {model.published}"
    for name, (build, code) in extensions.installed("models").items():
        about[name] = f"{first_line(build)}; from {code}"
    about |= {
        "torchvision:NAME": "any classifier of torchvision, such as torchvision:convnext_tiny; "
        "--weights pretrained is downloaded",
        "timm:NAME": "any network of timm, which fedcli[timm] brings, such as timm:vit_tiny_patch16_224@64; "
        "--weights pretrained is downloaded",
        "open_clip:NAME": "the image tower of any CLIP of open_clip, which fedcli[clip] brings; "
        "--weights FILE, or pretrained for one of the hub, which is downloaded",
        "FILE.py:FUNCTION": "one of your own: FUNCTION(channels, classes) returns it; see docs/extend.md",
    }
    _list("model", about, json)


def metrics(json: Json = False) -> None:
    """List the scores of `fedcli report --metric`."""
    from ..metrics import METRICS, PARITY, get

    own = extensions.installed("metrics").items()
    packages = {name: f"{first_line(function)}; from {code}" for name, (function, code) in own}
    about = {name: get(name).meaning for name in (*METRICS, *PARITY)} | packages
    _list(
        "metric",
        about | {"FILE.py:FUNCTION": "one of your own: FUNCTION(probabilities, labels, groups)"},
        json,
    )


def corruptions(json: Json = False) -> None:
    """List the kinds of image noise for `fedcli corrupt`."""
    from ..data.corruption.corrupt import ALIASES, KINDS, SMALLEST, SPATIAL

    about = {
        kind: text + f"; images of {SMALLEST} pixels or more" * (kind in SPATIAL)
        for kind, text in KINDS.items()
    }
    for kind in KINDS:
        if also := [name for name, target in ALIASES.items() if target == kind]:
            about[kind] += f"; also called {' or '.join(also)}"
    _list("corruption", about, json)


def _list(what: str, about: dict[str, str], as_json: bool) -> None:
    if as_json:
        show_json(about)
        return
    terminal.table([what, "what it is"], [[name, text] for name, text in about.items()])
