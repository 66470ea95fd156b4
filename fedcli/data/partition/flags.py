"""The scheme that the flags of `fedcli partition` mean."""

from collections.abc import Mapping
from typing import Any

from ...errors import UsageError
from .scheme import Scheme, named, resolve

NAMING = "iid", "shards", "by", "fedism", "balanced", "fedmrl", "fedmrl_authors", "clients_file", "scheme"
OPTION_OF = {"dirichlet": "alpha", "fedism": "corrupted", "fedmrl": "eta"}  # where a flag is not called as its option


def scheme_from_flags(flags: Mapping[str, Any], dataset: Mapping[str, Any]) -> Scheme:
    """The scheme that flags ask for, by their names with underscores; those not given are absent, None, False or empty.

    dataset: the manifest's body, whose usual number of clients counts where none is given. `scheme` and `set` (its
    options as a dict) reach every registered scheme. Raises UsageError for flags that exclude each other.
    """
    given = {
        key: value
        for key, value in flags.items()
        if value is not None and value is not False and value not in ([], (), {})
    }
    _check(given)
    name = _name(given)
    fields = named(name).__dataclass_fields__
    settings: dict[str, Any] = {"clients": dataset["clients"]} if "clients" in fields else {}
    for flag, value in given.items():
        if (option := OPTION_OF.get(flag, flag)) in fields:
            settings[option] = ";".join(value) if flag == "shares" else value
    if given.get("keep_units") and "keep_units" not in fields:
        hint = "leave --keep-units out, or divide by --iid, --dirichlet, --balanced, --shards or --fedmrl"
        raise UsageError(f"the scheme {name} deals out images, not patients", hint)
    return resolve(name, {**settings, **given.get("set", {})})


def _name(given: Mapping[str, Any]) -> str:
    if "scheme" in given:
        return given["scheme"]
    if "by" in given:
        return "shares" if "shares" in given else "domains" if "portion" in given else "by"
    if "clients_file" in given:
        return "file"
    for name in ("iid", "shards", "fedism", "fedmrl", "fedmrl-authors"):
        if name.replace("-", "_") in given:
            return name
    return "dirichlet-balanced" if "balanced" in given else "dirichlet"


def _check(given: Mapping[str, Any]) -> None:
    """Raises UsageError for flags of which one makes another meaningless."""
    _exclude(given, *NAMING)
    if "dirichlet" in given and any(flag in given for flag in NAMING if flag not in ("fedism", "balanced")):
        other = next(flag for flag in NAMING if flag not in ("fedism", "balanced") and flag in given)
        raise UsageError(f"--dirichlet and {_flag(other)} are different schemes", "give one of them")
    if "set" in given and "scheme" not in given:
        raise UsageError("--set is about the options of a scheme", "add --scheme NAME")
    for flag, needed, hint in (
        ("client_column", "clients_file", "is about a file of clients"),
        ("shares", "by", "needs to know which attribute it is about"),
        ("portion", "by", "needs to know which attribute it is about"),
    ):
        if flag in given and needed not in given:
            value = "FILE" if needed == "clients_file" else "ATTRIBUTE"
            raise UsageError(f"{_flag(flag)} {hint}", f"add {_flag(needed)} {value}")
    if "order_file" in given and not {"clients_file", "fedism"} & given.keys():
        raise UsageError("--order-file is about a file of clients or --fedism", "add --clients-file FILE or --fedism N")
    _exclude(given, "clients_file", "clients")
    _exclude(given, "shares", "portion")
    if "by" in given and "clients" in given and not ("shares" in given or "portion" in given):
        hint = "leave it out, or add --portion or --shares"
        raise UsageError("--by makes one client per value, so --clients has no effect", hint)


def _exclude(given: Mapping[str, Any], *flags: str) -> None:
    both = [flag for flag in flags if flag in given]
    if len(both) > 1:
        raise UsageError(f"{_flag(both[0])} and {_flag(both[1])} exclude each other", "give one of them")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
