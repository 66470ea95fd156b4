"""fedcli bench."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import console
from ..errors import UsageError
from ..system import terminal
from . import options as o

if TYPE_CHECKING:
    from ..bench.engine import Timing
    from ..bench.problem import Problem

STARTED = "to start and train once"  # each side, its processes included
COLUMNS = ["what", "fedcli", "bare", "time ratio", "lowest to highest", "of matrix speed"]


def bench(
    method: Annotated[
        list[str] | None,
        typer.Option(help="against the passes of its formula; may be repeated, all is every one; default: fedavg"),
    ] = None,
    model: Annotated[str, typer.Option(help="network of the training part")] = "cnn",
    size: o.Size = 32,
    clients: Annotated[
        int | None, typer.Option(min=1, help="number of clients; default: 8, 20 with --peers, 10,000 with --memory")
    ] = None,
    images: Annotated[
        int | None,
        typer.Option(min=2, help="images per client; default: 256, 2 with --memory; with --report test images: 10,000"),
    ] = None,
    runs: Annotated[int, typer.Option(min=2, help="with --report: runs, five of each system")] = 100,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="of a training; default: 3 with --peers; 60 with --memory, there at least 6"),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(min=1, help="times each side runs; the median counts; default: 7, 3 with --memory and --report"),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N")] = "cpu",
    peers: Annotated[
        bool, typer.Option("--peers", help="beside pfl-research, Flower, BlazeFL and plain loops, on all cores")
    ] = False,
    beside: Annotated[
        list[str] | None,
        typer.Option(help="with --peers: one whose name begins so, such as flower; may be repeated; default: all"),
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="memory of trainings with many clients, 50 of which take part in a round")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="time of `fedcli report` and of its page over many runs, which takes long")
    ] = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Time the engine against a bare PyTorch loop, a small job against importing torch, and prepare against decoding.

    With --method only the engine is timed, for these methods. With --device cuda and no --method, every method is
    checked on the GPU instead, and training of four networks is timed there. With --peers and no --method, whole
    trainings by other frameworks and loops are the other side. With --memory (of these methods, or of five) or
    --report only that is measured, in processes of their own.

    Examples: fedcli bench; fedcli bench --method fedism-plus --method fedga; fedcli bench --model resnet10 --images 64;
    fedcli bench --peers --beside flower --model resnet18 --size 64; fedcli bench --memory --method scaffold;
    fedcli bench --report --runs 20
    """
    from ..runs.resources import check_device

    o.refuse_together(memory=memory, report=report, peers=peers)
    o.refuse_together(report=report, method=method)
    _refuse_ignored(beside, rounds, device, peers=peers, memory=memory, report=report)
    if memory:
        _show_memory(method, repeats or 3, json, clients=clients, images=images, rounds=rounds, model=model, side=size)
        return
    if report:
        _show_report(runs, images or 10_000, repeats or 3, json)
        return
    images, repeats = images or 256, repeats or 7
    if device.startswith("cuda") and not method:
        check_device(device)
        _show_device(device, json)
        return
    check_device(device)
    timings, starts = [], {}
    if method or not peers:
        timings += _beside_bare(
            method, repeats, model=model, size=size, clients=clients or 8, images=images, device=device
        )
    if peers:
        from ..bench.problem import Problem

        compared = _beside_peers(beside, Problem(model, size, clients or 20, images, rounds or 3), repeats)
        timings += [each.timing for each in compared]
        starts = {each.timing.what: each.start_seconds for each in compared}
    _show(timings, starts, peers, json)


def _refuse_ignored(
    beside: list[str] | None, rounds: int | None, device: str, *, peers: bool, memory: bool, report: bool
) -> None:
    """Refuse options that the asked measurement does not have. Raises UsageError."""
    if (memory or report or peers) and device != "cpu":
        raise UsageError("--memory, --report and --peers are measured on the CPU", "leave --device out")
    if beside:
        from ..bench.peers import named

        if not peers:
            raise UsageError("--beside chooses among what --peers compares", "add --peers")
        named(beside)  # refuses a name before anything is timed
    if rounds and not (memory or peers):
        raise UsageError("--rounds is for --peers and --memory", "leave it out")
    if memory and rounds and rounds < 6:
        raise UsageError(f"--memory looks at three rounds of a training, and {rounds} are too few", "give 6 or more")


def _show(timings: list["Timing"], starts: dict[str, tuple[float, float]], peers: bool, as_json: bool) -> None:
    """A row for each comparison. starts: what both sides took to start, by the comparison's name."""
    if as_json:
        o.show_json(
            [
                {
                    "what": t.what,
                    "ratio": t.ratio,
                    "seconds": t.ours,
                    "bare_seconds": t.bare,
                    "images": t.images,
                    "share_of_limit": t.share,
                    "start_seconds": starts.get(t.what),
                }
                for t in timings
            ]
        )
        return
    started = {what: f"{own:.1f} s, {other:.1f} s" for what, (own, other) in starts.items()}
    rows = [t.row() + [started.get(t.what, "-")] * peers for t in timings]
    terminal.table(COLUMNS + [STARTED] * peers, rows)


def _show_memory(methods: list[str] | None, repeats: int, as_json: bool, **asked: Any) -> None:
    """What trainings with many clients held, a row for each method."""
    from ..bench import many_clients as many
    from ..methods import resolve

    for name in methods or ():
        resolve(name)  # refuses a name before anything is trained
    size = many.Size(**{name: value for name, value in asked.items() if value is not None})
    made = many.memory(methods or many.METHODS, size, repeats)
    if as_json:
        o.show_json([each.body() for each in made])
        return
    terminal.table(many.columns(size.rounds), [each.row() for each in made])


def _show_report(runs: int, images: int, repeats: int, as_json: bool) -> None:
    """What a report over many runs takes, a row for the table and one for the page."""
    from ..bench import many_runs as many

    made = many.report(runs, images, repeats)
    if as_json:
        o.show_json([each.body() for each in made])
        return
    terminal.table(many.COLUMNS, [each.row() for each in made])


def _beside_bare(method: list[str] | None, repeats: int, **problem: Any) -> list:
    """Rows of methods, and where none is named of a small job and of prepare."""
    from ..bench import engine as timing
    from ..bench.formulas import formula, measurable
    from ..methods import resolve

    names = measurable() if method == ["all"] else method or ["fedavg"]
    for name in names:
        formula(resolve(name))  # refuses a name before the first of them is timed
    timings = []
    for name in names:
        for optimizer in ("sgd", "adam"):
            console.say(f"{name} against a bare loop, {optimizer}: {repeats} runs each")
            timings.append(timing.engine(name, optimizer=optimizer, repeats=repeats, **problem))
    if not method:
        console.say(f"a whole small job from the shell: {repeats} runs")
        timings.append(timing.job(repeats))
        console.say(f"prepare against bare decoding, on the same cores: {repeats} runs each")
        timings += [timing.prepare(images=400, repeats=repeats), timing.prepare_ct(images=400, repeats=repeats)]
    return timings


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
    share = "-" if speed["share"] is None else f"{100 * speed['share']:.0f} %"
    return [f"{speed['images_per_second']:,.0f}", share, f"{speed['peak_bytes'] / 1e9:.2f}"]


def _beside_peers(asked: list[str] | None, problem: "Problem", repeats: int) -> list:
    """A row for every peer that is asked for and installed, in which the peer is the bare side."""
    from ..bench import peers

    rows = []
    for name in peers.named(asked):
        if not peers.PEERS[name].installed:
            console.say(f"no row for {name}: it is not installed, {peers.INSTALL}")
            continue
        console.say(f"fedcli beside {name}: {repeats} runs each")
        rows.append(peers.compare(name, problem, repeats))
    return rows
