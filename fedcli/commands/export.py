"""fedcli export."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from .. import console
from ..errors import UsageError
from . import options as o

OUT = "-o"


def export(
    engine: Annotated[Literal["nvflare", "flower"], typer.Argument(help="what is to carry the messages")],
    sites: Annotated[
        list[Path],
        typer.Argument(metavar="SITES...", help="descriptions of sites, a folder of them, or a run or its settings"),
    ],
    out: Annotated[Path, typer.Option("--out", OUT, metavar="DIR", help="write the files there")] = Path(),
    sockets: Annotated[
        Path, typer.Option(metavar="DIR", help="folder at the server in which the job listens for `fedcli train`")
    ] = Path("/run/fedcli"),
    idle: Annotated[int, typer.Option(help="seconds without a coordinator after which the job ends, >= 1")] = 600,
    attach: Annotated[
        Path, typer.Option(metavar="DIR", help="folder at a hospital in which NVFlare and `fedcli site` meet")
    ] = Path("/var/lib/fedcli/attach"),
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Write the job that carries messages to sites over NVFlare, or the app that does so over Flower.

    Neither package is needed, and no code travels. One job serves every run of its sites, whatever the method.

    Examples: fedcli export nvflare described -o job; fedcli export flower described -o app --sockets /run/fedcli
    """
    from ..sites.roster import names
    from ..transport import export as files

    if out == Path():
        raise UsageError("where should the files go?", "add -o DIR")
    made = files.ENGINES[engine](files.Job(names(sites), sockets, idle, attach))
    for name, text in made.items():
        o.write(out / name, text)
    for line in files.ALLOW[engine]:
        console.say(line)
    print(out)
