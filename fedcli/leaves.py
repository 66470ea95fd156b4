"""Leaves of fedcli: parts that no other part needs, so that a copy without them works.

ARCHITECTURE.md lists them. What a leaf offers is a line in a registry, which leaves the line out
where the leaf was deleted, or a flag, which is then refused.
"""

from importlib.util import find_spec

from .errors import FedcliError


def is_installed(module: str) -> bool:
    """Tell whether a module exists, without importing it."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # the package that holds it does not exist
        return False
    return spec is not None and spec.origin is not None  # None: a folder without code


def require(module: str, use: str) -> None:
    """Refuse a flag whose leaf was deleted. use: the flag, or what else needs it.

    Raises FedcliError.
    """
    if not is_installed(module):
        raise FedcliError(f"{use} needs {module}, which is not installed", "install fedcli again")
