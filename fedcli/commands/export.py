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

KINDS = "nvflare", "flower", "model"
FOLDER = Flag("DIR", access="trusts")
Kind = Annotated[
    str,
    "a job of NVFlare, an app of Flower, or a run's model",
    Flag("nvflare|flower|model", argument=True),
]
Sites = Annotated[
    Sequence[str],
    "descriptions of sites, a folder of them, or a run or its settings; of model: a run",
    Flag("SITES...|RUN", argument=True, access="reads"),
]
ModelFormat = Annotated[
    Literal["safetensors", "onnx", "torchscript", "torch.export"] | None,
    "of model: the kind of file; default: by the name of --out; extra: pip install "
    "'fedcli[export]'",
    Flag("safetensors|onnx|torchscript|torch.export"),
]
Client = Annotated[str | None, "of model: that of this client, where clients have their own"]
Data = Annotated[
    Path | None,
    "of the model of a run trained at sites: the partition of one of them",
    Flag("MANIFEST", access="reads"),
]
Out = Annotated[
    Path | None,
    "write the files there; of model also a file, such as m.onnx",
    Flag("DIR", typed="out -o", access="writes"),
]
Sockets = Annotated[
    Path, "folder at the server in which the job listens for `fedcli train`", FOLDER
]
Idle = Annotated[int, "seconds without a coordinator after which the job ends, >= 1"]
Attach = Annotated[Path, "folder at a hospital in which NVFlare and `fedcli site` meet", FOLDER]


def export(
    what: Kind,
    sites: Sites = (),
    format: ModelFormat = None,  # the name of its flag
    client: Client = None,
    data: Data = None,
    out: Out = None,
    sockets: Sockets = Path("/run/fedcli"),
    idle: Idle = 600,
    attach: Attach = Path("/var/lib/fedcli/attach"),
    work: o.Work = o.DEFAULT_WORK,
) -> None:
    """Write a model for other programs, or a job for sites.

    A model is checked against `fedcli predict` before it is kept; a .json beside it says how its
    images are prepared. A job of NVFlare, or an app of Flower, serves every run of its sites,
    whatever the method. Neither package is needed for it, and no code travels.

    Examples: fedcli export nvflare described -o job; fedcli export flower described -o app
    --sockets /run/fedcli; fedcli export model RUN --format onnx -o model; fedcli export RUN
    --format safetensors
    """
    from ..federation.engines import Remote, registered

    carrier = registered(what) if what != "model" else None
    if not isinstance(carrier, Remote) or carrier.export is None:
        run = _run(what, sites, work)
        _model(
            run,
            format or _format(out),
            out,
            client=client,
            data=data,
            work=work,
        )
        return
    if not sites:
        raise UsageError("which sites?", "name their descriptions, a folder of them, or a run")
    if out is None:
        raise UsageError("where should the files go?", "add -o DIR")
    texts, steps = carrier.export(
        [Path(site) for site in sites],
        sockets,
        idle,
        attach,
    )
    files = {out / name: text.encode() for name, text in texts.items()}
    for path, content in files.items():
        if os.path.lexists(path) and not (path.is_file() and path.read_bytes() == content):
            sentence = f"{path} is there already, with other content"
            raise FedcliError(sentence, "give another -o, or remove it")
    for path, content in files.items():
        o.write_named(path, content, force=False)
    for step in steps:
        console.say(step)
    print(out)


def _run(kind: str, words: Sequence[str], work: Path) -> Path | None:
    """The run of `export model [RUN]` or `export RUN`; None for the newest. Raises UsageError."""
    from ..stages.named_runs import is_known

    runs = [Path(word) for word in words]
    if kind != "model":
        if not Path(kind).exists() and not is_known(kind, work):
            sentence = f"{kind!r} is neither nvflare, flower, model nor a run"
            raise UsageError(sentence, nearest(kind, KINDS))
        runs.insert(0, Path(kind))
    if len(runs) > 1:
        raise UsageError(f"{runs[1]} is one run too many", "export one at a time")
    return runs[0] if runs else None


def _format(out: Path | None) -> str:
    """The kind of file that the end of its name says. Raises UsageError."""
    from ..scores.deploy.model_file import SUFFIXES

    for name, suffix in SUFFIXES.items():
        if out and out.suffix == f".{suffix}":
            return name
    hint = "add --format onnx, safetensors, torchscript or torch.export"
    raise UsageError("which kind of file?", hint)


def _model(
    named_run: Path | None,
    model_format: str,
    out: Path | None,
    *,
    client: str | None,
    data: Path | None,
    work: Path,
) -> None:
    """Write the model of a run; default of out: a name after run and format. Raises FedcliError."""
    from ..runs.finished import open_run
    from ..scores.deploy import model_file
    from ..stages.call import source

    run = source(named_run, work, "run")
    if out is None:
        # the name of a client may come from a table: no path in it
        owner = re.sub(r"[^\w+-]+", "_", client or "")[:80]
        out = work / "exported" / "-".join(filter(None, [run.parent.name, owner, model_format]))
    path = model_file.export(
        open_run(run, images=data),
        model_format,
        out,
        client,
    )
    described = path.with_suffix(".json")
    console.say(f"checked against fedcli predict; how to prepare images: {described}")
    print(path)
