"""fedcli bench."""

import sys
from typing import Annotated

import typer

from .. import console
from . import options as o

COLUMNS = ["what", "fedcli images/s", "bare images/s", "time ratio", "lowest to highest"]


def bench(
    model: Annotated[str, typer.Option(help="network of the training part")] = "cnn",
    size: o.Size = 32,
    clients: o.Clients = 8,
    images: Annotated[int, typer.Option(min=8, help="images per client")] = 256,
    repeats: Annotated[int, typer.Option(min=1, help="times each side runs; the median ratio counts")] = 7,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N")] = "cpu",
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Time the engine against a bare PyTorch loop, and prepare against bare decoding, side by side.

    Example: fedcli bench --model resnet10 --images 64 --repeats 3
    """
    from ..federation import bench as timing

    found = []
    for optimizer in ("sgd", "adam"):
        console.say(f"engine against a bare loop, {optimizer}: {repeats} turns each")
        found.append(
            timing.engine(
                "fedavg",
                model=model,
                size=size,
                clients=clients,
                images=images,
                optimizer=optimizer,
                repeats=repeats,
                device=device,
            )
        )
    console.say(f"prepare against bare decoding, on the same cores: {repeats} turns each")
    found += [timing.prepare(images=400, repeats=repeats), timing.prepare_ct(images=400, repeats=repeats)]
    if json:
        o.show_json(
            [
                {"what": t.what, "ratio": t.ratio, "seconds": t.ours, "bare_seconds": t.bare, "images": t.images}
                for t in found
            ]
        )
        return
    console.table(COLUMNS, [t.row() for t in found], file=sys.stdout)
