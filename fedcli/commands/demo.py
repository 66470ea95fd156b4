"""fedcli demo."""

from pathlib import Path
from typing import Annotated, Any

from .. import console
from .shell import common as o
from .shell.shown import show_rows

METHODS = ("fedavg", "fedheal", "fedism-plus")
BY = ["race", "sex"]


def demo(
    rounds: Annotated[int, "rounds of federated training, >= 1"] = 10,
    work: o.Work = Path("fedcli-demo"),
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Compare three methods on generated images, in a minute.

    The images are head CT slices of four hospitals, one of them with a noisy scanner. Models are scored on clean
    and corrupted images and by race and sex, in about a minute.

    Nothing is downloaded. Bleeds of two groups are drawn fainter, so there is a disparity to find.
    """
    from ..data.sources import card
    from ..reporting.tables import render
    from ..stages.corrupt import corrupt
    from ..stages.partition import partition
    from ..stages.prepare import prepare
    from ..stages.report import report
    from ..stages.train import train

    dataset = prepare("phantom", size=24, work=work, seed=seed, jobs=1)
    divided = partition(dataset, by="site", work=work, seed=seed)
    data = corrupt(divided, "gaussian", severity=1, on=["west"], work=work, seed=seed, jobs=1)
    training: dict[str, Any] = {
        "rounds": rounds,
        "epochs": 2,
        "lr": 3e-3,
        "batch_size": 32,
        "seed": seed,
        "work": work,
    }
    runs = [train(method, data, resume=True, **training) for method in METHODS]
    made = report(runs, by=BY, work=work)
    rows, page = made.rows, work / "report.html"
    o.write(page, made.to("html"))
    if json:
        print(render(rows, "json"), end="")
        return
    show_rows(rows)
    print(
        f"{card('phantom')['generated']} On real images: fedcli prepare isic2018 --raw DIR. All files are in {work}; "
        "the same tables with figures:"
    )
    console.result(str(page))
