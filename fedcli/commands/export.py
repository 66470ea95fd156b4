"""fedcli export."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from .. import console
from ..errors import FedcliError, UsageError, nearest
from ..options import Flag
from .shell import common as o

FOLDER = Flag("DIR", access="trusts")
KINDS = "nvflare", "flower", "model"


def export(
    what: Annotated[
        str,
        "a job of NVFlare, an app of Flower, or a run's model",
        Flag("nvflare|flower|model", argument=True),
    ],
    sites: Annotated[
        Sequence[str],
        "descriptions of sites, a folder of them, or a run or its settings; of model: a run",
        Flag("SITES...|RUN", argument=True, access="reads"),
    ] = (),
    format: Annotated[
        Literal["safetensors", "onnx", "torchscript", "torch.export"] | None,
        "of model: the kind of file; default: by the name of --out; extra: pip install 'fedcli[export]'",
        Flag("safetensors|onnx|torchscript|torch.export"),
    ] = None,
    client: Annotated[
        str | None, "of model: that of this client, where clients have their own"
    ] = None,
    data: Annotated[
        Path | None,
        "of the model of a run trained at sites: the partition of one of them",
        Flag("MANIFEST", access="reads"),
    ] = None,
    out: Annotated[
        Path | None,
        "write the files there; of model also a file, such as m.onnx",
        Flag("DIR", typed="out -o", access="writes"),
    ] = None,
    sockets: Annotated[
        Path, "folder at the server in which the job listens for `fedcli train`", FOLDER
    ] = Path("/run/fedcli"),
    idle: Annotated[int, "seconds without a coordinator after which the job ends, >= 1"] = 600,
    attach: Annotated[
        Path, "folder at a hospital in which NVFlare and `fedcli site` meet", FOLDER
    ] = Path("/var/lib/fedcli/attach"),
    work: o.Work = o.DEFAULT_WORK,
) -> None:
    """Write a model for other programs, or a job for sites.

    A model is checked against `fedcli predict` before it is kept; a .json beside it says how its images are prepared.
    A job of NVFlare, or an app of Flower, serves every run of its sites, whatever the method.
    Neither package is needed for it, and no code travels.

    Examples: fedcli export nvflare described -o job; fedcli export flower described -o app --sockets /run/fedcli;
    fedcli export model RUN --format onnx -o model; fedcli export RUN --format safetensors
    """
    from ..federation.engines import Remote, registered

    carrier = registered(what) if what != "model" else None
    if not isinstance(carrier, Remote) or carrier.export is None:
        _model(
            what, [Path(site) for site in sites], format, out, client=client, data=data, work=work
        )
        return
    if not sites:
        raise UsageError("which sites?", "name their descriptions, a folder of them, or a run")
    if out is None:
        raise UsageError("where should the files go?", "add -o DIR")
    made, by_hand = carrier.export([Path(site) for site in sites], sockets, idle, attach)
    files = {out / name: text for name, text in made.items()}
    for path, text in files.items():
        if os.path.lexists(path) and not (path.is_file() and path.read_bytes() == text.encode()):
            raise FedcliError(
                f"{path} is there already, with other content", "give another -o, or remove it"
            )
    for path, text in files.items():
        o.write_named(path, text.encode(), force=False)
    for line in by_hand:
        console.say(line)
    print(out)


def _model(
    what: str,
    rest: list[Path],
    format: str | None,
    out: Path | None,
    *,
    client: str | None,
    data: Path | None,
    work: Path,
) -> None:
    """`export model [RUN]`, or `export RUN`; default of out: a folder named after run and format.

    Raises FedcliError, UsageError.
    """
    from ..stages.named_runs import is_known

    given = rest if what == "model" else [Path(what), *rest]
    if what != "model" and not Path(what).exists() and not is_known(what, work):
        raise UsageError(
            f"{what!r} is neither nvflare, flower, model nor a run", nearest(what, KINDS)
        )
    if format is None and out:
        from ..scores.deploy.model_file import SUFFIXES

        format = next(
            (name for name, suffix in SUFFIXES.items() if out.suffix == f".{suffix}"), None
        )
    if format is None:
        raise UsageError(
            "which kind of file?", "add --format onnx, safetensors, torchscript or torch.export"
        )
    if len(given) > 1:
        raise UsageError(f"{given[1]} is one run too many", "export one at a time")
    from ..runs.finished import open_run
    from ..scores.deploy import model_file
    from ..stages.call import source

    run = source(given[0] if given else None, work, "run")
    called = re.sub(r"[^\w+-]+", "_", client or "")[:80]  # it may come from a table: no path in it
    name = "-".join(filter(None, [run.parent.name, called, format]))
    path = model_file.export(
        open_run(run, images=data), format, out or work / "exported" / name, client
    )
    console.say(
        f"checked against fedcli predict; how to prepare images: {path.with_suffix('.json')}"
    )
    print(path)
