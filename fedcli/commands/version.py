"""fedcli version."""

import platform
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from importlib.metadata import version as installed

from .. import __version__
from ..system import terminal
from .shell.common import Json
from .shell.shown import show_json

DEVELOPMENT = re.compile(r"extra == .(test|docs|dev|peers)\b")


def version(json: Json = False) -> None:
    """Print the versions of fedcli, Python and packages.

    Packages are those that fedcli can use and that are installed here. No name of a host or user is
    printed.
    """
    versions = {
        "fedcli": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    if json:
        show_json(versions | {"packages": packages()})
    else:
        terminal.table(["", "version"], list((versions | packages()).items()))


def packages() -> dict[str, str]:
    """Version of each installed package that fedcli or one of its extras asks for, but those for
    its development.
    """
    try:
        lines = requires("fedcli") or []
    except PackageNotFoundError:  # run from a folder of source code
        lines = ["torch", "torchvision", "numpy", "h5py"]
    names = {re.split(r"[^\w.-]", line)[0] for line in lines if not DEVELOPMENT.search(line)}
    versions = {}
    for name in sorted(names):
        with suppress(PackageNotFoundError):  # of an extra
            versions[name] = installed(name)
    return versions
