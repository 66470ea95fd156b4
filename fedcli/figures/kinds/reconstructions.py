"""Images that gradient inversion made of what a hospital would send, beside the originals; of a run that was audited."""

from functools import partial
from pathlib import Path

from pandas import DataFrame

from ...data import manifest
from ...scores.audit import audited
from ..drawing import Panel, Picture
from ..figure import Figure, NothingToDraw, register
from ..shapes import picture, titled
from .errors import _image as image_on

ABOUT = (
    "The gradient of one batch, as the hospital {client} would send it, and what an attacker who knows the labels and "
    "the network makes of it. {mean:.1f} dB: the mean of all test images, the guess of who sees no gradient."
)


def frame(path: Path) -> DataFrame:
    """shown (original, or a model), image, psnr: a line per picture; attrs hold the pixels [H, W, C] of each."""
    run = manifest.find(path, "run")
    found = audited.newest(run)
    body = manifest.read(found, "audit").body if found else {}
    images = audited.pictures(found) if found else {}
    if not images or not body["inversion"]:
        raise NothingToDraw(f"no images were reconstructed from {run.parent}", f"fedcli audit {run.parent}")
    inversion = body["inversion"]
    psnr = {"original": inversion["blind"], **{made["model"]: made["psnr"] for made in inversion["models"]}}
    lines = [
        (name, k, psnr.get(name, [])[k : k + 1], table[k]) for name, table in images.items() for k in range(len(table))
    ]
    lines.sort(key=lambda line: list(psnr).index(line[0]) if line[0] in psnr else len(psnr))
    kept = [line for line in lines if line[2]]
    table = DataFrame([(name, k, value[0]) for name, k, value, _ in kept], columns=["shown", "image", "psnr"])
    words = ABOUT.format(client=inversion["client"], mean=sum(inversion["blind"]) / max(len(inversion["blind"]), 1))
    return titled(
        table, f"Reconstructed from gradients: {body['label']}", pixels=[line[3] for line in kept], caption=words
    )


def draw(table: DataFrame) -> Picture:
    panels = []
    for pixels, line in zip(table.attrs["pixels"], table.itertuples(), strict=True):
        words = "original" if line.shown == "original" else f"{line.shown} model, {line.psnr:.1f} dB"
        panels.append(Panel(words, partial(image_on, pixels)))
    return picture(table, panels, size=(2.3, 2.3), columns=int(table["image"].nunique()))


register(Figure("reconstructions", "Which images can be made of a gradient?", "path", frame, draw))
