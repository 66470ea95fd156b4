"""fedcli run."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from . import complete
from . import options as o
from .reproduce import Device, DryRun, File, Jobs, Only, Raw, Seeds, reproduce


def run(
    recipe: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.toml", help="an experiment of your own, as recipes/README.md", autocompletion=complete.recipes
        ),
    ],
    raw: Raw = None,
    file: File = None,
    seeds: Seeds = None,
    only: Only = None,
    jobs: Jobs = None,
    device: Device = "cpu",
    dry_run: DryRun = False,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Train and score every cell of an experiment file of your own; `fedcli reproduce` does the same for the papers'.

    It can be stopped at any moment: the same command goes on, and what is done is not done again.

    Example: fedcli run my.toml --jobs 2
    """
    if not recipe.is_file():
        raise UsageError(
            f"no such file: {recipe}", "recipes/README.md says how to write one; `fedcli reproduce` lists ours"
        )
    reproduce(
        str(recipe), raw=raw, file=file, seeds=seeds, only=only, jobs=jobs, device=device, dry_run=dry_run, work=work,
        json=json, quiet=quiet, debug=debug,
    )  # fmt: skip
