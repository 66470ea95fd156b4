"""fedcli bench."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from .. import console
from ..system import terminal
from .shell import common as o
from .shell.shown import show_json

if TYPE_CHECKING:
    from ..bench.engine import Timing


HEADS = ["network", "px", "steps", "images/s", "of matrix speed", "peak GB"]
Methods = Annotated[
    Sequence[str],
    "against the passes of its formula; may be repeated, all is every one; default: fedavg",
]
Model = Annotated[str, "network that is trained"]
Clients = Annotated[int, "number of clients, >= 1"]
Images = Annotated[int, "images per client, >= 2"]
Repeats = Annotated[int, "times each side runs, >= 1; the median counts"]
Device = Annotated[str, "cpu, cuda or cuda:N"]


def bench(
    method: Methods = (),
    model: Model = "cnn",
    size: o.Size = 32,
    clients: Clients = 8,
    images: Images = 256,
    repeats: Repeats = 7,
    device: Device = "cpu",
    json: o.Json = False,
) -> None:
    """Time methods against a plain PyTorch loop.

    With --device cuda and no --method, training of four networks is timed on the GPU instead: step
    by step, recorded and compiled. Comparisons with other frameworks are scripts in the checkout's
    benchmarks/.

    Examples: fedcli bench; fedcli bench --method fedism-plus --method fedga; fedcli bench --model
    resnet10 --images 64; fedcli bench --device cuda
    """
    from ..runs.resources import check_device

    check_device(device)
    if device.startswith("cuda") and not method:
        _show_device(device, json)
        return
    from ..bench.engine import COLUMNS

    problem = {
        "model": model,
        "size": size,
        "clients": clients,
        "images": images,
    }
    timings = _beside_bare(method, repeats, device=device, **problem)
    if json:
        show_json([timing.body() for timing in timings])
    else:
        terminal.table(COLUMNS, [timing.row() for timing in timings])


def _beside_bare(
    methods: Sequence[str],
    repeats: int,
    **problem: Any,
) -> "list[Timing]":
    """Two rows for each method, one of SGD and one of Adam."""
    from ..bench import engine
    from ..methods import resolve

    names = engine.measurable() if list(methods) == ["all"] else methods or ["fedavg"]
    for name in names:
        engine.formula(resolve(name))  # refuses a name before the first of them is timed
    timings = []
    for name in names:
        for optimizer in ("sgd", "adam"):
            console.say(f"{name} against a bare loop, {optimizer}: {repeats} runs each")
            timings.append(engine.engine(name, optimizer=optimizer, repeats=repeats, **problem))
    return timings


def _show_device(device: str, as_json: bool) -> None:
    """Show how fast a GPU trains four networks."""
    from ..bench.device import report

    measures = report(device)
    if as_json:
        show_json(measures)
        return
    rows = []
    for speed in measures["speeds"]:
        row = [speed["network"], str(speed["size"]), speed["way"]]
        images_per_second = speed["images_per_second"]
        if images_per_second is None:
            rows.append([*row, speed["why"], "-", "-"])
            continue
        share = "-" if speed["share"] is None else f"{100 * speed['share']:.0f} %"
        peak = f"{speed['peak_bytes'] / 1e9:.2f}"
        rows.append([*row, f"{images_per_second:,.0f}", share, peak])
    terminal.table(HEADS, rows)
