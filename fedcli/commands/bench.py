"""fedcli bench."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from .. import console
from ..system import terminal
from .shell import common as o
from .shell.shown import show_json

if TYPE_CHECKING:
    from ..bench.engine import Timing


def bench(
    method: Annotated[
        Sequence[str],
        "against the passes of its formula; may be repeated, all is every one; default: fedavg",
    ] = (),
    model: Annotated[str, "network that is trained"] = "cnn",
    size: o.Size = 32,
    clients: Annotated[int, "number of clients, >= 1"] = 8,
    images: Annotated[int, "images per client, >= 2"] = 256,
    repeats: Annotated[int, "times each side runs, >= 1; the median counts"] = 7,
    device: Annotated[str, "cpu, cuda or cuda:N"] = "cpu",
    json: o.Json = False,
) -> None:
    """Time methods beside a plain PyTorch loop.

    With --device cuda and no --method, training of four networks is timed on the GPU instead: step by step, recorded
    and compiled. Comparisons with other frameworks are scripts in the checkout's benchmarks/.

    Examples: fedcli bench; fedcli bench --method fedism-plus --method fedga; fedcli bench --model resnet10 --images 64;
    fedcli bench --device cuda
    """
    from ..runs.resources import check_device

    check_device(device)
    if device.startswith("cuda") and not method:
        _show_device(device, json)
        return
    timings = _beside_bare(
        method, repeats, model=model, size=size, clients=clients, images=images, device=device
    )
    if json:
        show_json([timing.body() for timing in timings])
        return
    from ..bench.engine import COLUMNS

    terminal.table(COLUMNS, [timing.row() for timing in timings])


def _beside_bare(method: Sequence[str], repeats: int, **problem: Any) -> "list[Timing]":
    """Two rows for each method, one of SGD and one of Adam."""
    from ..bench import engine
    from ..methods import resolve

    names = engine.measurable() if list(method) == ["all"] else method or ["fedavg"]
    for name in names:
        engine.formula(resolve(name))  # refuses a name before the first of them is timed
    timings = []
    for name in names:
        for optimizer in ("sgd", "adam"):
            console.say(f"{name} against a bare loop, {optimizer}: {repeats} runs each")
            timings.append(engine.engine(name, optimizer=optimizer, repeats=repeats, **problem))
    return timings


def _show_device(device: str, as_json: bool) -> None:
    from ..bench.device import report

    measured = report(device)
    if as_json:
        show_json(measured)
        return
    rows = []
    for speed in measured["speeds"]:
        cells = [speed["why"], "-", "-"]
        if (pace := speed["images_per_second"]) is not None:
            share = "-" if speed["share"] is None else f"{100 * speed['share']:.0f} %"
            cells = [f"{pace:,.0f}", share, f"{speed['peak_bytes'] / 1e9:.2f}"]
        rows.append([speed["network"], str(speed["size"]), speed["way"], *cells])
    terminal.table(["network", "px", "steps", "images/s", "of matrix speed", "peak GB"], rows)
