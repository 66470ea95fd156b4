"""Every method: a file each, and a line here.

A file that was deleted is left out; a method that another one is built on must stay with it.
"""

from importlib import import_module

from ..leaves import is_installed
from .registry import METHODS, Method, resolve

__all__ = ["METHODS", "Method", "resolve"]

FILES = (
    "adv",
    "afl",
    "apfl",
    "bsm",
    "ccvr",
    "creff",
    "crt",
    "ditto",
    "domainind",
    "fairfb",
    "fairfed",
    "fairlora",
    "fedala",
    "fedavg",
    "fedbn",
    "fedce",
    "feddecorr",
    "feddg",
    "feddisco",
    "feddyn",
    "fedexp",
    "fedfv",
    "fedga",
    "fedgamma",
    "fedgela",
    "fedheal",
    "fediic",
    "fedism",
    "fedlc",
    "fedlesam",
    "fedmas",
    "fedmgda",
    "fedminmax",
    "fedmrl",
    "fednoro",
    "fednova",
    "fedntd",
    "fedopt",
    "fedotp",
    "fedproc",
    "fedproto",
    "fedprox",
    "fedrep",
    "fedrod",
    "fedrs",
    "fedsam",
    "fedsmoo",
    "fedsnr",
    "flexfair",
    "fltrust",
    "gifair",
    "group_dro",
    "harmofl",
    "ifca",
    "ldam",
    "local_finetune",
    "logit_adjust",
    "lora",
    "moon",
    "perfedavg",
    "pfedme",
    "power_of_choice",
    "promptfl",
    "propfair",
    "qffl",
    "reweigh",
    "robust",
    "scaffold",
    "swad",
    "term",
    "zeroshot",
)
for _file in FILES:
    if is_installed(f"{__name__}.{_file}"):
        import_module(f"{__name__}.{_file}")
