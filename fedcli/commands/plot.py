"""fedcli plot."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import console
from ..errors import FedcliError, UsageError, nearest
from ..stages.evaluation_options import EvaluateOptions
from . import options as o

if TYPE_CHECKING:
    from ..reporting.curves import Record

METRIC = "balanced_accuracy"
OF_LABELS = "balanced_accuracy_macro", "auc_macro"  # of several labels per image; validation knows the second alone
DIMS = {"1d": 1, "2d": 2}
SUFFIXES = ".png", ".svg"
SHOWN = "counts", "divergence", "features", "adapters"


def plot(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN...",
            help="runs, finished or not; default: the one under --work that played last, and of --over and "
            "--convergence all of them; - reads stdin",
        ),
    ] = None,
    series: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="draw only this, such as loss or 'clean auc_ovo_macro'; may be repeated"),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="a score against an option of runs or data, such as q, lr, ratio or severity; runs that trained "
            "otherwise than those in which it varies are drawn only if they are given",
        ),
    ] = None,
    convergence: Annotated[
        bool, typer.Option("--convergence", help="a score of the test set over the rounds, the mean of runs by seed")
    ] = False,
    landscape: Annotated[
        str | None,
        typer.Option(
            metavar="1d|2d",
            help="the loss around the last model, along random directions that are filter-normalised (Li et al., 2018)",
        ),
    ] = None,
    histograms: Annotated[
        bool, typer.Option("--histograms", help="what FedHEAL remembers of each parameter: how steadily it moved")
    ] = False,
    show: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="counts: who holds how many training images of each class and attribute, of a run or a partition; "
            "divergence: Fed-MAS's by class, beside the counts (--set by_class=true); features: mean features of "
            "classes by client, before and behind Fed-MAS's projector; adapters: S by group, cosines in "
            "U'U and VV' of FairLoRA",
        ),
    ] = None,
    reduce: Annotated[
        str | None, typer.Option(metavar="HOW", help="of --show features, into the plane: pca or tsne; default: pca")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="of --over and --convergence; default: balanced_accuracy")
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="of the test images: clean or corrupted; default: of --over average, of --landscape corrupted where "
            "every run has such images, of --convergence all",
        ),
    ] = None,
    points: Annotated[
        int | None, typer.Option(min=3, help="of --landscape, along each direction; default: 41, or 21 of 2d")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="of the directions of --landscape and of --reduce tsne; default: 0")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="of --landscape and --show features: cpu, cuda or cuda:N; default: cpu")
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

    Of several runs it draws the mean over clients, in a band from the lowest to the highest, and of weights the
    smallest and the largest. A series that never changes is drawn only if it is asked for. Test curves are there
    where train had --eval-every. --over, --convergence, --landscape, --histograms and --show draw other pictures; of
    them, the first two take runs that differ in nothing but the seed as one.

    Examples: fedcli plot; fedcli plot fedcli-work/runs/* --series loss --out losses.svg; fedcli plot --over q --version
    corrupted; fedcli plot fedcli-work/runs/qffl-* --landscape 1d
    """
    from ..reporting import curves

    o.refuse_together(
        series=series, over=over, convergence=convergence, landscape=landscape, histograms=histograms, show=show
    )
    _belong(show == "features", "--show features", reduce=reduce)
    _belong(over or convergence, "--over or --convergence", metric=metric)
    _belong(over or convergence or landscape, "--over, --convergence or --landscape", version=version)
    _belong(landscape, "--landscape", points=points)
    _belong(landscape or show == "features", "--landscape or --show features", seed=seed, device=device)
    if show:
        _show(show, runs or [], work, out, as_json=json, reduce=reduce or "pca", seed=seed or 0, device=device or "cpu")
        return
    records = [curves.read(path) for path in _runs(runs or [], work, every=bool(over or convergence))]
    kind = f"-over-{over}" if over else "-convergence" * convergence + "-histograms" * histograms
    kind += f"-landscape-{landscape}" if landscape else ""
    kind = "".join(c if c.isalnum() or c in "-_" else "_" for c in kind)
    target = _checked(out or work / "plots" / f"{_name([record.folder for record in records])}{kind}.png")
    if over:
        about = _over(records, over, metric, version, target, given=bool(runs))
    elif convergence:
        about = _convergence(records, metric, version, target)
    elif landscape:
        about = _landscape(records, landscape, version, points, seed, device, target)
    elif histograms:
        about = _histograms(records, target)
    else:
        about = _series(records, series or [], target)
    if json:
        o.show_json({"path": str(target), "runs": [str(record.folder) for record in records], **about})
        return
    print(target)


def _belong(mode: object, to: str, **flags: object) -> None:
    """Refuse a flag of another kind of picture."""
    for name, value in flags.items():
        if value is not None and not mode:
            raise UsageError(f"--{name} belongs to {to}", "leave it out, or ask for that picture")


def _show(show: str, given: list[str], work: Path, out: Path | None, *, as_json: bool, **how: Any) -> None:
    """One of the pictures of a run's data or of its trained model. how: of --show features."""
    from ..reporting import curves, holders, trained

    if show not in SHOWN:
        raise UsageError(f"--show {show!r} is unknown", nearest(show, SHOWN))
    paths = _runs(given, work, every=False)
    if len(paths) > 1:
        raise UsageError(f"--show {show} draws one run at a time", "give one")
    path = paths[0]
    target = _checked(out or work / "plots" / f"{_name([path if path.is_dir() else path.parent])}-{show}.png")
    if show == "counts":
        about = holders.plot(holders.partition_of(path), target)
    elif show == "divergence":
        about = holders.plot_divergence(curves.read(path), holders.partition_of(path), target)
    elif show == "features":
        about = trained.plot_features(path, target, **how)
    else:
        about = trained.plot_adapters(path, target)
    if as_json:
        o.show_json({"path": str(target), "of": str(path), show: about})
        return
    print(target)


def _series(records: list["Record"], names: list[str], target: Path) -> dict[str, Any]:
    from ..reporting import plots

    names = plots.chosen(records, names)
    if still := [f"{name} ({value:g})" for name, value in plots.constants(records).items() if name not in names]:
        console.say(
            f"left out, as {'it never changes' if len(still) == 1 else 'they never change'}: {', '.join(still)}"
        )
    plots.plot(records, names, target)
    return {"series": names}


def _over(
    records: list["Record"], key: str, metric: str | None, version: str | None, target: Path, given: bool
) -> dict[str, Any]:
    from ..reporting import sweeps
    from ..reporting.collect import Asked, scores_of_all
    from ..reporting.columns import shown
    from ..reporting.curves import METRICS
    from ..scores.scores import Scores

    sweeps.check(records, key)
    alike, others = sweeps.split(records, key)
    if others:
        sentence = f"trained otherwise than those in which {key} varies: {', '.join(others)}"
        more = f"the picture compares more than {key}" if given else "to draw them too, give the folders of all runs"
        show = console.warn if given else console.say
        show(f"{'some runs' if given else 'left out, as they'} {sentence}; {more}")
    records = records if given else alike
    runs = [record.folder / "run.json" for record in records]
    scores = [Scores.read(path) for path in scores_of_all(runs, Asked([], None, EvaluateOptions().made_by()))]
    metric = metric or shown(scores[0])[0]
    version = version or ("average" if all("average" in run.versions for run in scores) else "clean")
    points, lines = sweeps.gather(records, scores, key, metric, version)
    on = "mean of clean and corrupted" if version == "average" else version
    sweeps.plot(points, lines, key, f"{METRICS.get(metric, metric)},\n{on} test images (%)", target)
    console.say("mean over the last five rounds, ± standard deviation over rounds and seeds")
    return {"over": key, "metric": metric, "version": version, "points": points, "lines": lines,
            "left_out": [] if given else list(others)}  # fmt: skip


def _convergence(records: list["Record"], metric: str | None, version: str | None, target: Path) -> dict[str, Any]:
    from ..reporting import labels, plots

    systems = labels.systems(records)
    there = {name.rpartition(" ")[2] for record in records for name in record.series}
    usual = next((name for name in (METRIC, *OF_LABELS) if name in there), METRIC)
    plots.convergence(systems, metric or usual, target, version=version or "")
    return {"systems": {name: [str(record.folder) for record in group] for name, group in systems.items()}}


def _landscape(
    records: list["Record"], dims: str, version: str | None, points: int | None, seed: int | None, device: str | None,
    target: Path,
) -> dict[str, Any]:  # fmt: skip
    import numpy as np

    from ..reporting import landscape

    if dims not in DIMS:
        raise UsageError(f"--landscape {dims!r} is unknown", "give 1d for curves or 2d for maps")
    losses = landscape.picture(
        [record.folder for record in records], target, dims=DIMS[dims], version=version or "", seed=seed or 0,
        points=points or 0, device=device or "cpu",
    )  # fmt: skip
    return {"losses": {name: np.where(np.isfinite(t), t, None).tolist() for name, t in losses.items()}}


def _histograms(records: list["Record"], target: Path) -> dict[str, Any]:
    from ..reporting import histograms

    histograms.plot(records, target)
    return {
        "histograms": [
            {name: {t: counts.tolist() for t, counts in rounds.items()} for name, rounds in record.histograms.items()}
            for record in records
        ]
    }


def _runs(given: list[str], work: Path, every: bool) -> list[Path]:
    if given == ["-"]:
        return [Path(o.source("-", work, "run"))]
    if given:
        return [Path(path) for path in given]
    if every:
        from ..reporting.collect import every_run

        return every_run(work)
    from ..data import last_used

    records = list(work.glob("runs/*/rounds.jsonl"))
    if not records:
        last_used.check_open(work)
        raise FedcliError(f"no run under {work}", "train one with fedcli train METHOD, or give its folder")
    newest = max(records, key=last_used.age).parent
    console.say(f"using {newest}")
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
    o.refuse_sealed(out)
    return out
