"""fedcli models, metrics and corruptions: what can be named in other commands."""

from .. import terminal
from . import options as o


def models(json: o.Json = False, quiet: o.Quiet = False, debug: o.Debug = False) -> None:
    """List the networks that `fedcli train --model` can name."""
    from ..models import MODELS

    about = {name: f"{model.about}; images of {model.smallest} pixels or more" for name, model in MODELS.items()}
    _list("model", about, json)


def metrics(json: o.Json = False, quiet: o.Quiet = False, debug: o.Debug = False) -> None:
    """List the scores that `fedcli report --metric` can name."""
    from ..evaluation.parts import PARITY
    from ..reporting.page.terms import METRICS, TERMS

    _list("metric", METRICS | {name: TERMS[name] for name in PARITY}, json)


def corruptions(json: o.Json = False, quiet: o.Quiet = False, debug: o.Debug = False) -> None:
    """List the corruptions that `fedcli corrupt` and `fedcli prepare --corrupt` can name."""
    from ..data.corrupt import ALIASES, POINTWISE, SMALLEST, SPATIAL

    also = {kind: f"; {', '.join(a for a, known in ALIASES.items() if known == kind)} too" for kind in ALIASES.values()}
    about = dict.fromkeys(POINTWISE, "changes each pixel by itself")
    about |= dict.fromkeys(SPATIAL, f"moves or mixes pixels; images of {SMALLEST} pixels or more")
    _list("corruption", {kind: text + also.get(kind, "") for kind, text in about.items()}, json)


def _list(what: str, about: dict[str, str], as_json: bool) -> None:
    if as_json:
        o.show_json(about)
        return
    terminal.table([what, "what it is"], [[name, text] for name, text in about.items()])
