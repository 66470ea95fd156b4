"""fedcli train."""

from typing import TYPE_CHECKING, Annotated

import typer

from .. import console
from ..stages.options import TrainOptions
from ..system import terminal
from . import options as o
from .declare import command

if TYPE_CHECKING:
    from ..bench.estimate import Estimate

DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="measure a few steps, say how long the run would take and how much memory, write nothing",
        rich_help_panel=o.OUTPUT,
    ),
]


@command(TrainOptions)
def train(
    options: TrainOptions,
    dry_run: DryRun = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Train a method on partitioned data.

    A run can be killed at any moment; the same command with --resume goes on and ends at the same bytes.

    Examples: fedcli train fedism-plus --rounds 5; fedcli train fedheal --set tau=0.4 --set rule=paper
    """
    from ..stages import train as stage

    o.refuse_together(dry_run=dry_run, resume=options.resume)
    if not dry_run:
        o.show(stage.run(options).path, json)
        return
    needs = stage.run_estimate(options)
    if options.then:
        console.warn(f"{options.then} starts from the finished run, so it is not in these numbers")
    if not needs.fits:
        console.warn("this needs more memory than is free: lower --batch-size, or give a smaller --model")
    _show(needs, options.method or "", json)


def _show(needs: "Estimate", method: str, as_json: bool) -> None:
    """Print what a run would take."""
    from dataclasses import asdict

    from ..bench.estimate import span

    if as_json:
        o.show_json({**asdict(needs), "fits": needs.fits})
        return
    parts = [(name, seconds, f"{100 * seconds / needs.total_seconds:.0f} %") for name, seconds in needs.seconds.items()]
    parts += [("total", needs.total_seconds, "100 %"), ("one round", needs.seconds_per_round, "")]
    lines = [[name, f"{seconds:,.2f}", share] for name, seconds, share in parts]
    rounds = console.counted(needs.rounds, "round", "rounds")
    terminal.table([f"{method}, {rounds}", "seconds", "share"], lines)
    sizes = {**needs.bytes, "peak": needs.peak_bytes, "free": needs.free_bytes}
    lines = [[name, f"{size / 1e6:,.1f}" if size else "-"] for name, size in sizes.items()]
    terminal.table(["memory", "MB"], lines)
    on = f" on {needs.processes} processes" if needs.processes > 1 else ""
    console.say(
        f"about {span(needs.total_seconds)}{on}, from {needs.measured_steps} measured steps; nothing was written"
    )
