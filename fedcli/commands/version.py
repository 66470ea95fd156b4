"""fedcli --version."""

import platform
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from importlib.metadata import version as installed

from .. import __version__
from ..system import terminal

DEVELOPMENT = re.compile(r"extra == .(test|docs|dev|peers)\b")


def show(*, with_packages: bool) -> None:
    """Print the version of fedcli, and on request of Python and of the packages that fedcli can use
    and that are installed here. No name of a host or user is printed.
    """
    if not with_packages:
        print(f"fedcli {__version__}")
        return
    versions = {
        "fedcli": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
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
