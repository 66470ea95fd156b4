"""fedcli demo."""

from pathlib import Path
from typing import Annotated, Any

from .. import console
from .shell import common as o
from .shell.shown import show_report

LESSON = (
    "One of four hospitals has a noisy scanner, and FedHEAL and FedISM+ are made for this case. "
    "Differences from FedAvg show what they gain on noisy images and what they cost on clean ones. "
    "Ten rounds on small images are too few to judge a method."
)
METHODS = ("fedavg", "fedheal", "fedism-plus")
BY = ["race", "sex"]
DEMO_WORK = Path("fedcli-demo")
ALL_FILES = "All files are in {}; the same tables with figures:"
Rounds = Annotated[int, "rounds of federated training, >= 1"]


def demo(
    rounds: Rounds = 10,
    work: o.Work = DEMO_WORK,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Compare three methods on generated images, in a minute.

    The images are head CT slices of four hospitals, one of them with a noisy scanner. Models are
    scored on clean and corrupted images and by race and sex, in about a minute.

    Nothing is downloaded. Bleeds are drawn fainter in two groups, so that there is a disparity
    between groups.
    """
    from ..data.sources import card
    from ..reporting import writers
    from ..reporting.tables import render
    from ..stages.corrupt import corrupt
    from ..stages.partition import partition
    from ..stages.prepare import prepare
    from ..stages.report import report
    from ..stages.train import train

    common: dict[str, Any] = {"work": work, "seed": seed}
    dataset = prepare("phantom", size=24, jobs=1, **common)
    divided = partition(dataset, by="site", **common)
    data = corrupt(
        divided,
        "gaussian",
        severity=3,
        on=["west"],
        jobs=1,
        **common,
    )
    training = {"rounds": rounds, "epochs": 2, "lr": 3e-3, "batch_size": 32} | common
    runs = [train(method, data, resume=True, **training) for method in METHODS]
    result = report(runs, by=BY, work=work)
    page = work / "report.html"
    o.write(page, result.to("html", lesson=LESSON))
    if json:
        print(render(result.rows, "json"), end="")
        return
    writers.say([LESSON])
    show_report(result.tabled)
    generated = card("phantom")["generated"]
    print(
        f"{generated} On real images: fedcli prepare isic2018 --raw DIR. {ALL_FILES.format(work)}"
    )
    console.result(str(page))
