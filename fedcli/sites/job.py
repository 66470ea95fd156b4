"""The files of `fedcli site job`: a job of NVFlare, or an app of Flower, that carries messages."""

import os
from collections.abc import Sequence
from pathlib import Path

from .. import console
from ..commands.shell import common
from ..errors import FedcliError, UsageError, nearest
from ..federation.engines import ENGINES, Remote, registered


def carriers() -> list[str]:
    """The engines that have such a job."""
    registered("flower")  # reads all of them
    names = []
    for name, engine in ENGINES.items():
        if isinstance(engine, Remote) and engine.export is not None:
            names.append(name)
    return names


def write(
    words: Sequence[str],
    out: Path | None,
    *,
    sockets: Path,
    idle: int,
    attach: Path,
) -> None:
    """Write the job of a federation, and say what has to be done by hand.

    words: a carrier, then descriptions of sites, a folder of them, or a run.
    Raises FedcliError, UsageError before a file is replaced that has other content.
    """
    names = carriers()
    if not words:
        raise UsageError("a job of what?", f"give one of {', '.join(names)}")
    carrier = registered(words[0])
    if not isinstance(carrier, Remote) or carrier.export is None:
        raise UsageError(f"{words[0]!r} has no job", nearest(words[0], names))
    if len(words) < 2:
        raise UsageError("which sites?", "name their descriptions, a folder of them, or a run")
    if out is None:
        raise UsageError("where should the files go?", "add --out DIR")
    descriptions = [Path(word) for word in words[1:]]
    texts, steps = carrier.export(descriptions, sockets, idle, attach)
    files = {out / name: text.encode() for name, text in texts.items()}
    for path, content in files.items():
        is_same = path.is_file() and path.read_bytes() == content
        if os.path.lexists(path) and not is_same:
            sentence = f"{path} is there already, with other content"
            raise FedcliError(sentence, "give another --out, or remove it")
    for path, content in files.items():
        common.write_named(path, content, force=False)
    for step in steps:
        console.say(step)
    console.result(str(out))
