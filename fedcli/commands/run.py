"""fedcli run."""

from pathlib import Path
from typing import Annotated

from ..errors import UsageError
from ..options import Flag
from .reproduce import Device, DryRun, File, Jobs, Only, Raw, Seeds, reproduce
from .shell import common as o


def run(
    recipe: Annotated[Path, "an experiment of your own, as recipes/README.md", Flag("FILE.toml", argument=True)],
    raw: Raw = (),
    file: File = (),
    seeds: Seeds = None,
    only: Only = (),
    jobs: Jobs = None,
    device: Device = "cpu",
    dry_run: DryRun = False,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
    debug: bool = False,
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
        json=json, debug=debug,
    )  # fmt: skip
