"""fedcli export."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .. import console
from ..errors import FedcliError, UsageError, nearest
from . import options as o

OUT = "-o"
KINDS = "nvflare", "flower", "model"


def export(
    what: Annotated[
        str, typer.Argument(metavar="nvflare|flower|model", help="a job of NVFlare, an app of Flower, or a run's model")
    ],
    sites: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SITES...|RUN",
            help="descriptions of sites, a folder of them, or a run or its settings; of model: a run",
        ),
    ] = None,
    format: Annotated[
        Literal["safetensors", "onnx", "torchscript", "torch.export"] | None,
        typer.Option(
            help="of model: the kind of file; default: by the name of --out; extra: pip install 'fedcli[export]'"
        ),
    ] = None,
    client: Annotated[
        str | None, typer.Option(help="of model: that of this client, where clients have their own")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="MANIFEST", help="of the model of a run trained at sites: the partition of one of them"),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", OUT, metavar="DIR", help="write the files there; of model also a file, such as m.onnx"),
    ] = Path(),
    sockets: Annotated[
        Path, typer.Option(metavar="DIR", help="folder at the server in which the job listens for `fedcli train`")
    ] = Path("/run/fedcli"),
    idle: Annotated[int, typer.Option(help="seconds without a coordinator after which the job ends, >= 1")] = 600,
    attach: Annotated[
        Path, typer.Option(metavar="DIR", help="folder at a hospital in which NVFlare and `fedcli site` meet")
    ] = Path("/var/lib/fedcli/attach"),
    work: o.Work = o.DEFAULT_WORK,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Write a run's model as a file of another program, or the job that carries messages to sites.

    A model is checked against `fedcli predict` before it is kept; a .json beside it says how its images are prepared.
    A job of NVFlare, or an app of Flower, serves every run of its sites, whatever the method.
    Neither package is needed for it, and no code travels.

    Examples: fedcli export nvflare described -o job; fedcli export flower described -o app --sockets /run/fedcli;
    fedcli export model RUN --format onnx -o model; fedcli export RUN --format safetensors
    """
    from ..federation.engines import Remote, found

    carrier = found(what) if what != "model" else None
    if not isinstance(carrier, Remote) or carrier.export is None:
        _model(what, sites or [], format, None if out == Path() else out, client=client, data=data, work=work)
        return
    if out == Path():
        raise UsageError("where should the files go?", "add -o DIR")
    made, by_hand = carrier.export(_sites(sites), sockets, idle, attach)
    if edited := [out / name for name, text in made.items() if _differs(out / name, text)]:
        raise FedcliError(f"{edited[0]} is there already, with other content", "give another -o, or remove it")
    for name, text in made.items():
        o.write(out / name, text)
    for line in by_hand:
        console.say(line)
    print(out)


def _differs(path: Path, text: str) -> bool:
    """Tell whether something else stands where a file is to be written."""
    return os.path.lexists(path) and not (path.is_file() and path.read_bytes() == text.encode())


def _sites(given: list[Path] | None) -> list[Path]:
    if not given:
        raise UsageError("which sites?", "name their descriptions, a folder of them, or a run")
    return given


def _model(what: str, rest: list[Path], format: str | None, out: Path | None, **more: Any) -> None:
    """`export model [RUN]`, or `export RUN`. Raises FedcliError, UsageError."""
    given = rest if what == "model" else [Path(what), *rest]
    if what != "model" and not Path(what).exists():
        raise UsageError(f"{what!r} is neither nvflare, flower, model nor a run", nearest(what, KINDS))
    if format is None and out:
        from ..scores.deploy.model_file import SUFFIXES

        format = next((name for name, suffix in SUFFIXES.items() if out.suffix == f".{suffix}"), None)
    if format is None:
        raise UsageError("which kind of file?", "add --format onnx, safetensors, torchscript or torch.export")
    if len(given) > 1:
        raise UsageError(f"{given[1]} is one run too many", "export one at a time")
    from ..stages.predict import export as written

    path = written(given[0] if given else None, format, out, **more)
    console.say(f"checked against fedcli predict; how to prepare images: {path.with_suffix('.json')}")
    print(path)
