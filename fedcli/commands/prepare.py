"""fedcli prepare."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from . import options as o
from .chain import check_corruption, corrupted, default_partition


def prepare(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="dataset; `fedcli datasets` lists all")],
    raw: o.Raw = None,
    size: o.Size = None,
    fit: Annotated[str, typer.Option(help="stretch, or pad to keep the aspect ratio")] = "stretch",
    clahe: Annotated[bool, typer.Option("--clahe", help="even out local contrast")] = False,
    window: Annotated[
        str | None, typer.Option(help="CT: file, brain, subdural, bone or CENTRE/WIDTH; three with commas are channels")
    ] = None,
    test: Annotated[float, typer.Option(min=0.01, max=0.9, help="share of images in the test part")] = 0.2,
    split: Annotated[str | None, typer.Option(help="what a split keeps together; default: the dataset's own")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="refuse unreadable images instead of skipping them")] = False,
    split_file: Annotated[Path | None, typer.Option(help="CSV of image ids and parts, instead of --split")] = None,
    fold: Annotated[
        int | None,
        typer.Option(
            min=0, help="the fold that tests: 1 to --folds; beside --split-file one of the file's own numbers"
        ),
    ] = None,
    folds: Annotated[int | None, typer.Option(min=2, help="number of folds")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="this dataset's own option; may be repeated")
    ] = None,
    table: Annotated[str | None, typer.Option(help="images: the CSV in the folder")] = None,
    image_column: Annotated[str | None, typer.Option(metavar="COLUMN", help="images: files' names")] = None,
    label_column: Annotated[str | None, typer.Option(metavar="COLUMN", help="images: classes")] = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="images: an attribute, such as sex; may be repeated")
    ] = None,
    site: Annotated[str | None, typer.Option(metavar="COLUMN", help="images: hospitals")] = None,
    patient: Annotated[str | None, typer.Option(metavar="COLUMN", help="images: patients or lesions")] = None,
    clients: o.Clients = None,
    dirichlet: o.Dirichlet = None,
    val: o.Val = 0.0,
    corrupt: Annotated[str | None, typer.Option(metavar="KIND", help="partition and corrupt as well")] = None,
    severity: o.Severity = 3,
    ratio: o.Ratio = 0.2,
    on: o.On = None,
    work: o.Work = o.DEFAULT_WORK,
    out: o.Out = None,
    seed: o.Seed = 0,
    jobs: o.Jobs = 0,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Decode and resize a dataset once into a pool of uint8 images.

    With --clients or --dirichlet it is partitioned too, with --corrupt also corrupted; the last
    manifest written is printed.

    Example: fedcli prepare rsna-ich --raw kaggle --corrupt gaussian --ratio 0.2
    """
    from ..data.prepare import prepare as run

    if corrupt is None:
        _refuse_without_corrupt(ctx)
    else:
        check_corruption(name, corrupt, on, clients, dirichlet)
    own = o.settings(settings)
    flags = {"table": table, "image-column": image_column, "label-column": label_column, "site": site}
    flags |= {"patient": patient, "group": ",".join(group) if group else None}
    if twice := [name for name, value in flags.items() if value is not None and name in own]:
        raise UsageError(f"--{twice[0]} and --set {twice[0]} exclude each other", "give one of them")
    path: Path = run(
        name,
        raw=raw,
        work=work,
        out=out,
        size=size,
        fit=fit,
        clahe=clahe,
        window=window,
        test=test,
        split=split,
        seed=seed,
        strict=strict,
        jobs=jobs,
        own=own | {name: value for name, value in flags.items() if value is not None},
        split_file=split_file,
        fold=fold,
        folds=folds,
    )
    if clients or dirichlet is not None or corrupt:
        path = default_partition(path, work=work, clients=clients, alpha=dirichlet, val=val, seed=seed)
    if corrupt:
        path = corrupted(path, corrupt, severity=severity, ratio=ratio, on=on, work=work, seed=seed, jobs=jobs)
    o.show(path, json)


def _refuse_without_corrupt(ctx: typer.Context) -> None:
    """Refuse an option that would change nothing."""
    for name in ("severity", "ratio", "on"):
        if getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE":
            raise UsageError(f"--{name} is about a corruption", "add --corrupt KIND")
