"""fedcli reproduce."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import console
from ..errors import FedcliError, UsageError, nearest
from . import options as o

Scale = Annotated[str, typer.Option(help="paper as published, small for hours on a laptop, smoke for seconds")]
Seeds = Annotated[
    str | None, typer.Option(help="how many seeds, such as 3, or which, such as 0,1; default: the recipe's")
]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="cells at a time, each in a process; default: 1, or with cuda one per GPU"),
]
Device = Annotated[str, typer.Option(help="cpu, cuda (all GPUs) or cuda:N")]


def reproduce(
    recipe: Annotated[str | None, typer.Argument(help="name or file of a recipe; default: the list")] = None,
    raw: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]DIR", help="folder of a dataset as downloaded; may be repeated"),
    ] = None,
    scale: Scale = "paper",
    seeds: Seeds = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="cells with this text in row, data or seed; may be repeated"),
    ] = None,
    jobs: Jobs = None,
    device: Device = "cpu",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the commands as a shell script, run none")] = False,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Rebuild a published table: train and score every cell of a recipe, and print ours beside the published numbers.

    A cell is a row on one data set with one seed. It can be stopped at any moment: the same command goes on, and what
    is done is not done again. Without --raw, --scale smoke runs on made-up images of the same layout.

    Examples: fedcli reproduce ham10000-noise --raw HAM10000 --jobs 2; fedcli reproduce fedheal-table2 --scale smoke
    """
    from ..reproduce import cells as engine
    from ..reproduce import plan
    from ..reproduce import recipe as recipes
    from ..reproduce.raw import absent, folders, make_twin, needed
    from ..reproduce.script import script

    if recipe is None:
        _list(json)
        return
    if scale not in recipes.SCALES:
        raise UsageError(f"--scale {scale!r} is unknown", nearest(scale, recipes.SCALES))
    found = plan.check(recipes.find(recipe))
    given = folders(found, raw or [], scale, work)
    twins = {name: folder for name, folder in given.items() if folder == str(work / "twins" / name)}
    cells = plan.chosen(plan.cells(found, scale, seeds=read_seeds(seeds), raw=given), only or [])
    if dry_run:
        unknown = [name for name in needed(found) if name not in given]
        print(script(found, cells, twins=twins, unknown=unknown, work=work), end="")
        return
    left_out = absent(found, cells, given)
    cells = [cell for cell in cells if found.chains[cell.data].dataset not in left_out]
    for sentence in left_out.values():
        console.say(f"note: {sentence}")
    for name in sorted({found.chains[cell.data].dataset for cell in cells} & set(twins)):
        make_twin(name, Path(twins[name]))
    place = engine.Place(work, engine.devices(device, jobs))
    sources = engine.make_data(cells, work)
    folder = work / "reproduce" / f"{found.name}-{scale}"
    run_cells(found, cells, sources, place, folder, scale=scale, left_out=list(left_out.values()), as_json=json)


def run_cells(
    recipe: Any, cells: list, sources: dict, place: Any, folder: Path, *, scale: str = "paper", left_out: list[str] | None = None,
    as_json: bool = False,
) -> None:  # fmt: skip
    """Run cells, write their folder and show it. Raises FedcliError where a cell failed, after all is written."""
    from ..reproduce import cells as engine
    from ..reproduce import forecast, output, results

    if scale != "smoke":
        forecast.tell(cells, sources, place)
    outcomes = engine.run(cells, sources, place)
    found = results.collect(recipe, outcomes, scale=scale, work=place.work, left_out=left_out or [])
    found = output.write(folder, recipe, found, outcomes, device=place.devices[0])
    o.show_json(found) if as_json else output.show(found)
    console.say(f"written: {folder}/results.json, table.md, report.html")
    if failed := [one for one in outcomes if not one.scores]:
        raise FedcliError(
            f"{len(failed)} of {console.counted(len(outcomes), 'cell', 'cells')} failed: {failed[0].cell.name}"
            + (" and others" if len(failed) > 1 else ""),
            "the reason of each stands above; mend it and give the same command again: the others are not redone",
        )


def _list(as_json: bool) -> None:
    from ..reproduce import recipe as recipes

    found = {name: recipes.load(path) for name, path in recipes.names().items()}
    if as_json:
        o.show_json({name: {"title": one.title, "paper": one.paper} for name, one in found.items()})
        return
    rows = [[name, str(len(one.rows)), str(len(one.seeds)), one.title] for name, one in found.items()]
    console.table(["recipe", "rows", "seeds", "what it rebuilds"], rows, file=sys.stdout)


def read_seeds(given: str | None) -> tuple[int, ...]:
    """The seeds that "3" (0, 1, 2) or "0,1" mean. Raises UsageError."""
    if given is None:
        return ()
    words = given.split(",")
    if not all(word.strip().isdigit() for word in words) or words == ["0"]:
        raise UsageError(f"--seeds {given!r} is no number of seeds", "write --seeds 3, or --seeds 0,1 for these two")
    return tuple(range(int(given))) if len(words) == 1 else tuple(int(word) for word in words)
