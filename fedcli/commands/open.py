"""fedcli open."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

from .. import console
from ..errors import FedcliError
from ..options import Flag
from .demo import DEMO_WORK
from .shell import common as o

PAGE = "report.html"
WRITE = "write one with `fedcli report --format html`, or with `fedcli demo`"
DISPLAYS = "DISPLAY", "WAYLAND_DISPLAY"  # one of them is set where Linux has a screen
Page = Annotated[
    Path | None,
    "a page, or a folder with one; default: the page under --work or the demo's, "
    "whichever is newer",
    Flag("PAGE", argument=True, local=True, access="reads"),
]


def open(  # noqa: A001 - the name of its command
    page: Page = None,
    work: o.Work = o.DEFAULT_WORK,
) -> None:
    """Open the page of a report in a browser.

    The path of the page is printed. Without a terminal or a screen the page is not opened.

    Examples: fedcli open; fedcli open fedcli-demo
    """
    path = _found(page, work)
    if sys.stdout.isatty() and _has_screen():
        webbrowser.open(path.resolve().as_uri())
    console.result(str(path))


def _found(page: Path | None, work: Path) -> Path:
    """The page that is meant. Raises FedcliError where there is none."""
    if page is not None:
        path = page / PAGE if page.is_dir() else page
        if not path.is_file():
            raise FedcliError(f"no such page: {path}", WRITE)
        return path
    pages = [folder / PAGE for folder in (work, DEMO_WORK)]
    pages = [path for path in pages if path.is_file()]
    if not pages:
        raise FedcliError(f"no page is under {work}", WRITE)
    return max(pages, key=lambda path: path.stat().st_mtime_ns)


def _has_screen() -> bool:
    """Tell whether a window can be shown: Linux says so in the environment, macOS has one."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in DISPLAYS)
