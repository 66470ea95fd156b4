"""Every method, by explicit import: no directory scan, no plugins."""

from . import (  # noqa: F401 - importing registers; the order is that of `fedcli methods`
    afl,
    bsm,
    creff,
    crt,
    ditto,
    fairfed,
    fairlora,
    fedavg,
    fedbn,
    fedce,
    feddyn,
    fedfv,
    fedga,
    fedheal,
    fedism,
    fedlc,
    fedmas,
    fedmgda,
    fedmrl,
    fednova,
    fedopt,
    fedotp,
    fedproc,
    fedproto,
    fedprox,
    ldam,
    logit_adjust,
    lora,
    moon,
    promptfl,
    qffl,
    scaffold,
)  # isort: skip
from .registry import METHODS, Method, resolve

__all__ = ["METHODS", "Method", "resolve"]
