"""fedcli export."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from .. import console
from ..errors import UsageError
from ..options import Flag
from .shell import common as o

MODEL = "model"  # may come before the run
Runs = Annotated[
    Sequence[str],
    "the run; default: the newest under --work",
    Flag("[model] RUN", argument=True, access="reads"),
]
ModelFormat = Annotated[
    Literal["safetensors", "onnx", "torchscript", "torch.export"] | None,
    "the kind of file; default: by the name of --out; extra: pip install 'fedcli[export]'",
    Flag("safetensors|onnx|torchscript|torch.export"),
]
Client = Annotated[str | None, "the model of this client, if clients have their own"]
Data = Annotated[
    Path | None,
    "of a run trained at sites: the partition of one of them",
    Flag("MANIFEST", access="reads"),
]
Out = Annotated[
    Path | None,
    "a folder for the files, or the file, such as m.onnx",
    Flag("PATH", typed="out -o", access="writes"),
]


def export(
    words: Runs = (),
    format: ModelFormat = None,  # the name of its flag
    client: Client = None,
    data: Data = None,
    out: Out = None,
    work: o.Work = o.DEFAULT_WORK,
) -> None:
    """Write the model of a run for other programs.

    The written model is checked against `fedcli predict`; a .json next to it describes how to
    prepare images. `fedcli site job` writes jobs of NVFlare and Flower.

    Examples: fedcli export RUN --format safetensors; fedcli export model RUN --format onnx -o model
    """
    runs = [Path(word) for word in words]
    if words and words[0] == MODEL:
        del runs[0]
    for run in runs:
        _check_run(run, work)
    if len(runs) > 1:
        raise UsageError(f"{runs[1]} is one run too many", "export one at a time")
    _model(
        runs[0] if runs else None,
        format or _format(out),
        out,
        client=client,
        data=data,
        work=work,
    )


def _check_run(run: Path, work: Path) -> None:
    """Refuse a word that names no run. Raises UsageError."""
    from ..stages.named_runs import is_known

    if not run.exists() and not is_known(str(run), work):
        hint = "`fedcli ls` lists runs; `fedcli site job` writes jobs of NVFlare and Flower"
        raise UsageError(f"{str(run)!r} is no run", hint)


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
