"""fedcli predict."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from .. import console
from ..errors import FedcliError
from ..stages.evaluation_options import PredictOptions
from . import options as o
from .declare import command

SHOWN = 10  # unreadable files that are named


@command(PredictOptions)
def predict(
    options: PredictOptions,
    format: Annotated[
        Literal["csv", "json"], typer.Option(help="csv: a row per file; json lists unreadable ones too")
    ] = "csv",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="write there; default: stdout")] = None,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Probabilities, the most likely class and decisions at chosen thresholds of image files, by a run's last model.

    Files are read and prepared as the run's own images were, as its manifests say. Where some cannot be read they are
    listed, the others are scored, and the exit code is 1.

    Examples: fedcli predict RUN DIR; fedcli predict RUN DIR --format json --out predictions.json;
    fedcli predict RUN DIR --positive mel --rule sensitivity=0.95
    """
    from ..stages import predict as stage

    if out is not None:
        o.refuse_sealed(out)
    made = stage.run(options)
    for point in made.predicted.operating:
        images = console.counted(point.images, "validation image", "validation images")
        console.say(f"{point.name}: from a probability of {point.threshold:.4g}, chosen on {images}")
    text = made.to(format)
    if out is None:
        print(text, end="")
    else:
        o.write(out, text)
        console.result(str(out))
    unreadable = made.predicted.unreadable
    for file, why in unreadable[:SHOWN]:
        console.warn(f"{file}: {why}")
    if unreadable:
        (file, why), total = unreadable[0], len(unreadable) + len(made.predicted.files)
        raise FedcliError(
            f"{len(unreadable)} of {total} files cannot be read, such as {file}: {why}", "the others are scored"
        )
