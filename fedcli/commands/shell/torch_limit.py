"""A limit on this process's memory under which torch cannot be loaded is said before torch is asked for."""

import resource
import sys
from importlib.abc import MetaPathFinder

NEEDED = 4 << 30  # bytes of addresses; with less, torch's libraries were seen to end the process and to wait for ever


class BeforeTorch(MetaPathFinder):
    """Finds no module; raises MemoryError where torch is looked for under such a limit."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "torch":
            limit = resource.getrlimit(resource.RLIMIT_AS)[0]
            if limit != resource.RLIM_INFINITY and limit < NEEDED:
                raise MemoryError(f"{limit / 2**30:.1f} GB are allowed, and torch's libraries need {NEEDED >> 30}")


def watch() -> None:
    """Look at the limit whenever torch is first imported in this process."""
    sys.meta_path.insert(0, BeforeTorch())
