"""fedcli bench."""

from typing import Annotated, Any

import typer

from .. import console, terminal
from . import options as o

COLUMNS = ["what", "fedcli", "bare", "time ratio", "lowest to highest", "of matrix speed"]


def bench(
    method: Annotated[
        list[str] | None,
        typer.Option(help="against the passes of its formula; may be repeated, all is every one; default: fedavg"),
    ] = None,
    model: Annotated[str, typer.Option(help="network of the training part")] = "cnn",
    size: o.Size = 32,
    clients: o.Clients = 8,
    images: Annotated[int, typer.Option(min=8, help="images per client")] = 256,
    repeats: Annotated[int, typer.Option(min=1, help="times each side runs; the median ratio counts")] = 7,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N")] = "cpu",
    peers: Annotated[bool, typer.Option("--peers", help="also pfl-research and Flower, 20 clients on the CPU")] = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Time the engine against a bare PyTorch loop, a small job against importing torch, and prepare against decoding.

    With --method only the engine is timed, for these methods. With --device cuda and no --method, every method is
    checked on the GPU instead, and training of four networks is timed there.

    Examples: fedcli bench; fedcli bench --method fedism-plus --method fedga; fedcli bench --model resnet10 --images 64
    """
    from ..bench import engine as timing
    from ..bench.formulas import formula, measurable
    from ..methods import resolve
    from ..runs.resources import check_device

    if device.startswith("cuda") and not method:
        check_device(device)
        _show_device(device, json)
        return
    names = measurable() if method == ["all"] else method or ["fedavg"]
    check_device(device)
    for name in names:
        formula(resolve(name))  # refuses a name before the first of them is timed
    timings = []
    for name in names:
        for optimizer in ("sgd", "adam"):
            console.say(f"{name} against a bare loop, {optimizer}: {repeats} runs each")
            timings.append(
                timing.engine(
                    name, model=model, size=size, clients=clients, images=images, optimizer=optimizer, repeats=repeats,
                    device=device,
                )
            )  # fmt: skip
    if not method:
        console.say(f"a whole small job from the shell: {repeats} runs")
        timings.append(timing.job(repeats))
        console.say(f"prepare against bare decoding, on the same cores: {repeats} runs each")
        timings += [timing.prepare(images=400, repeats=repeats), timing.prepare_ct(images=400, repeats=repeats)]
    if peers:
        timings += _beside_peers(model, size, images, repeats)
    if json:
        o.show_json(
            [
                {
                    "what": t.what,
                    "ratio": t.ratio,
                    "seconds": t.ours,
                    "bare_seconds": t.bare,
                    "images": t.images,
                    "share_of_limit": t.share,
                }
                for t in timings
            ]
        )
        return
    terminal.table(COLUMNS, [t.row() for t in timings])


def _show_device(device: str, as_json: bool) -> None:
    """What was checked and timed on a GPU. Exits with 1 where a check fails."""
    from ..bench.device import report

    made = report(device)
    if as_json:
        o.show_json(made)
    else:
        rows = [
            [m["method"], "yes" if m["recorded"] else "no", "; ".join(m["failed"].values()) or "holds"]
            for m in made["methods"]
        ]
        terminal.table(["method", "steps recorded", "checks"], rows)
        speeds = [[s["network"], str(s["size"]), s["way"], *_measured(s)] for s in made["speeds"]]
        terminal.table(["network", "px", "steps", "images/s", "of matrix speed", "peak GB"], speeds)
    if made["failed"]:
        raise typer.Exit(1)


def _measured(speed: dict[str, Any]) -> list[str]:
    if speed["images_per_second"] is None:
        return [speed["why"], "-", "-"]
    return [f"{speed['images_per_second']:,.0f}", f"{100 * speed['share']:.0f} %", f"{speed['peak_bytes'] / 1e9:.2f}"]


def _beside_peers(model: str, size: int, images: int, repeats: int) -> list:
    """A row for every peer that is installed, in which the peer is the bare side."""
    from ..bench import peers

    rows = []
    for name, peer in peers.PEERS.items():
        if not peer.installed:
            console.say(f"no row for {name}: it is not installed, {peers.INSTALL}")
            continue
        console.say(f"fedcli beside {name}: {repeats} runs each")
        compared = peers.compare(name, peers.Problem(model, size, images=images), repeats)
        console.say(f"{name} took {compared.start_seconds:.1f} s to start and train once, which does not count")
        rows.append(compared.timing)
    return rows
