"""fedcli reproduce --plan: a plan in words and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from .. import console
from ..data.sources import cards
from ..reproduction.plan import Plan, costs, this_machine
from ..system import terminal
from .shell.shown import show_json

GB = 1e9


def show(plan: Plan, scale: str, as_json: bool, name: str | None = None) -> None:
    """Print a plan. name: of the recipe or the paper; None for all."""
    body = _body(plan, scale)
    if as_json:
        show_json(body)
        return
    _show_data(plan, body["data"], f"fedcli reproduce {name or 'NAME'} --fetch")
    _show_work(plan)
    rows = [
        [
            each["device"],
            each["precision"],
            f"{each['flops'] / 1e12:,.3g}",
            f"{each['bandwidth'] / GB:,.0f}",
            f"{100 * each['share']:.0f} %",
            hours(each["hours"]),
        ]
        for each in body["devices"]
    ]
    heads = ["device", "precision", "TFLOP/s", "GB/s", "share reached", "about hours"]
    terminal.table(heads, rows, title="Hours of training, one after another on one device")
    _say(body["notes"])


def _say(sentences: Iterable[str]) -> None:
    print(
        *(line for sentence in sentences for line in terminal.wrapped(sentence, 100, "  ")),
        sep="\n",
    )


def hours(number: float) -> str:
    """Hours to two digits."""
    return (
        f"{float(f'{number:.2g}'):,.0f}"
        if number >= 10
        else f"{number:.2g}"
        if number >= 0.01
        else "< 0.01"
    )


def _size(count: float | None) -> str:
    return (
        "not known"
        if count is None
        else f"{count / GB:,.0f} GB"
        if count >= 10 * GB
        else f"{count / GB:.2g} GB"
    )


def _show_data(plan: Plan, data: dict[str, dict[str, Any]], command: str) -> None:
    found = {name: cards.fetching(name) for name in data}
    rows = [
        [
            name,
            f"{each['images']:,}" if each["images"] else "not known",
            *(_size(each[f"{key}_bytes"]) for key in ("download", "disk", "prepared")),
            "a command" if each["by_command"] else "a person",
        ]
        for name, each in data.items()
    ]
    if len(rows) > 1:
        pool = sum(each["prepared_bytes"] for each in data.values())
        rows.append(
            [
                "all, shared files once",
                "",
                *map(_size, downloads(list(found.values()))),
                _size(pool),
                "",
            ]
        )
    terminal.table(
        ["data", "images", "to download", "unpacked", "prepared", "fetched by"], rows, title="Data"
    )
    said = []
    for name, how in found.items():
        by = f"{command}, once you accept the licence" if how.by_command else "by hand"
        rest = (
            f"; {how.rest.format(folder=f'WORK/downloads/{how.folder}')}"
            if how.rest and how.by_command
            else ""
        )
        said.append(f"{name}: {by}{rest}. Licence: {how.licence}. From {how.where}")
    for name, what in plan.files.items():
        said.append(
            f"--file {name}=PATH: {what}; "
            + ("--fetch gets it" if name in plan.fetched else "by hand")
        )
    _say(said)
    print()


def downloads(found: list[cards.Fetching]) -> tuple[int, int]:
    """Bytes to download and unpacked, of those that are known; files that data sets share are counted once."""
    files = {file["url"]: file for how in found for file in how.files}
    hands = {how.where: how for how in found if not how.by_command}
    return (
        sum(map(cards.size, files.values()))
        + sum(how.download_bytes or 0 for how in hands.values()),
        sum(map(cards.on_disk, files.values()))
        + sum(how.disk_bytes or 0 for how in hands.values()),
    )


def _show_work(plan: Plan) -> None:
    names, counts = [table.name for table in plan.tables], list[Sequence[int]]()
    for table in plan.tables:
        visits, operations = (
            sum(getattr(one, name) for one in table.new) for name in ("visits", "operations")
        )
        counts.append(
            (
                table.cells,
                table.trainings,
                len(table.new),
                round(visits / 1e6),
                round(operations / 1e15),
            )
        )
    if len(names) > 1:
        names.append("all")
        counts.append([*map(sum, zip(*counts, strict=True))])
    rows = [
        [name, *(f"{count:,}" for count in line)] for name, line in zip(names, counts, strict=True)
    ]
    heads = ["recipe", "cells", "trainings", "new here", "million images", "PFLOP"]
    terminal.table(
        heads, rows, title="Work; a training that a table above has is not new, and not made again"
    )


def sentences(plan: Plan, scale: str) -> list[str]:
    """Facts in words: memory, disk, and how sure the hours are."""
    trained = plan.trainings
    memory, disk = (
        max((one.memory for one in trained), default=0.0),
        sum(one.disk for one in trained),
    )
    said = [
        f"The largest training needs about {_size(memory)} of memory; all runs' models take {_size(disk)} of disk.",
        f"Hours are about, at --scale {scale}: arithmetic at the share of the matrix speed that others reached with "
        "ResNet-50, bytes at the memory's speed or 1 ms a step on a GPU, whichever is longest. Preparing images, "
        "scores and the server are left out. GPUs train in fp32 unless --precision bf16 says so.",
    ]
    if plan.weights:
        sizes = [
            name + (f" (about {size:,.0f} MB)" if size else "")
            for name, size in sorted(plan.weights.items())
        ]
        said.append(
            f"ImageNet weights of {console.listed(sizes)}: torchvision downloads them as the first training starts "
            "with them (--weights imagenet); it states no licence for them."
        )
    if plan.one_seed:
        which = f" ({', '.join(plan.one_seed)})" * (len(plan.tables) > len(plan.one_seed))
        said.append(
            f"One seed{which} has no interval around a number; with --seeds 3: three times as much."
        )
    if plan.not_stated:
        names = console.listed(sorted(plan.not_stated))
        said.append(
            f"No formula gives the cost of {names}: counted as plain training, with a forward pass more where there is "
            "a teacher."
        )
    if scale == "smoke":
        said.append(
            "Without --raw, --scale smoke takes synthetic samples in place of these images, and seconds."
        )
    if nowhere := [name for name, (images, _) in plan.data.items() if not images]:
        said.append(
            f"Left out, since nothing says how many images it has before it is prepared: {', '.join(nowhere)}."
        )
    if plan.unknown:
        said.append(
            f"Left out, since nobody has counted the network: {', '.join(sorted(plan.unknown))}."
        )
    return said


def _body(plan: Plan, scale: str) -> dict[str, Any]:
    taken = "download_bytes", "disk_bytes", "by_command", "licence", "where"
    data = {}
    for name, (images, pool) in plan.data.items():
        found = cards.fetching(name)
        data[name] = {
            "images": images,
            "prepared_bytes": pool,
            **{key: getattr(found, key) for key in taken},
        }
    devices = [each | {"hours": plan.hours(each)} for each in (*costs()["devices"], this_machine())]
    tables = [asdict(table) for table in plan.tables]
    return {
        "scale": scale,
        "data": data,
        "files": plan.files,
        "tables": tables,
        "devices": devices,
        "notes": sentences(plan, scale),
    }
