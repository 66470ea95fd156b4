"""fedcli plot."""

from pathlib import Path
from typing import Annotated

import typer

from .. import console
from ..errors import FedcliError, UsageError
from . import options as o

SUFFIXES = ".png", ".svg"


def plot(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN...",
            help="runs, finished or not; default: the one under --work that played last, - reads stdin",
        ),
    ] = None,
    series: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="draw only this, such as loss or 'clean auc_ovo_macro'; may be repeated"),
    ] = None,
    work: o.Work = o.DEFAULT_WORK,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help=".png or .svg; default: plots/RUN.png under --work")
    ] = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Draw what runs recorded over their rounds: losses, weights, what clients and server reported, test curves.

    Of several runs it draws the mean over clients, in a band from the lowest to the highest, and of weights the smallest
    and the largest. A series that never changes is drawn only if it is asked for. Test curves are there where train had
    --eval-every.

    Examples: fedcli plot; fedcli plot fedcli-work/runs/* --series loss --out losses.svg
    """
    from ..evaluation import curves, plots

    records = [curves.read(path) for path in _runs(runs or [], work)]
    names = plots.chosen(records, series or [])
    if still := [f"{name} ({value:g})" for name, value in plots.constants(records).items() if name not in names]:
        console.say(
            f"left out, as {'it never changes' if len(still) == 1 else 'they never change'}: {', '.join(still)}"
        )
    target = _checked(out or work / "plots" / f"{_name([record.folder for record in records])}.png")
    plots.plot(records, names, target)
    if json:
        o.show_json({"path": str(target), "runs": [str(record.folder) for record in records], "series": names})
        return
    print(target)


def _runs(given: list[str], work: Path) -> list[Path]:
    if given == ["-"]:
        return [Path(o.source("-", work, "run"))]
    if given:
        return [Path(path) for path in given]
    found = list(work.glob("runs/*/rounds.jsonl"))
    if not found:
        raise FedcliError(f"no run under {work}", "train one with fedcli train METHOD, or give its folder")
    newest = max(found, key=lambda path: (path.stat().st_mtime_ns, str(path))).parent
    console.say(f"taking {newest}")
    return [newest]


def _name(folders: list[Path]) -> str:
    from ..data import manifest

    names = [folder.resolve().name for folder in folders]
    if len(names) == 1:
        return names[0]
    return f"{names[0]}-and-{len(names) - 1}-more-{manifest.identity({'runs': names}, [])}"


def _checked(out: Path) -> Path:
    """Refuse a picture of another kind, and one among the files of a run, which are hashed when it ends."""
    if out.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--out {out} is no picture that fedcli draws", "let its name end in .png or .svg")
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder", "give the name of a file")
    if any((folder / "settings.json").is_file() for folder in out.resolve().parents):
        raise UsageError(f"--out {out} lies in the folder of a run, whose files are sealed", "give a file elsewhere")
    return out
