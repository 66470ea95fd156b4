"""Images that gradient inversion made of what a hospital would send, beside the originals; of an audited run."""

from functools import partial
from pathlib import Path

from pandas import DataFrame

from ...data import manifest
from ...scores.audit import finished
from ..drawing import Panel, Picture
from ..figure import Figure, NothingToDraw, register
from ..shapes import picture, titled
from .errors import show_image

ABOUT = (
    "The gradient of one batch, as {client} would send it, and what an attacker who knows the labels and the network "
    "makes of it; above the original the PSNR of {guess}, the guess of who sees no gradient. The "
    "original is a training image: look at it before you send it on."
)


def frame(path: Path) -> DataFrame:
    """shown (original, or a model), image, psnr: a line per picture; attrs hold the pixels [H, W, C] of each."""
    run = manifest.find(path, "run")
    found = finished.newest(run)
    body = manifest.read(found, "audit").body if found else {}
    images = finished.pictures(found) if found else {}
    if not images or not body["inversion"]:
        raise NothingToDraw(
            f"no images were reconstructed from {run.parent}", f"fedcli audit {run.parent}"
        )
    inversion = body["inversion"]
    guess, guesses = "the mean test image of its class", inversion.get("blind_by_class")
    if not guesses:  # of an older audit
        guess, guesses = "the mean of all test images", inversion["blind"]
    psnr = {"original": guesses} | {made["model"]: made["psnr"] for made in inversion["models"]}
    lines = [
        (name, k, values[k], images[name][k])
        for k in range(len(images["original"]))
        for name, values in psnr.items()
        if name in images and k < len(values)
    ]
    table = DataFrame([line[:3] for line in lines], columns=["shown", "image", "psnr"])
    title = f"Reconstructed from gradients: {body['label']}"
    words = ABOUT.format(client=inversion["client"], guess=guess)
    return titled(table, title, pixels=[line[3] for line in lines], caption=words)


def draw(table: DataFrame) -> Picture:
    panels = []
    for pixels, line in zip(table.attrs["pixels"], table.itertuples(), strict=True):
        words = (
            "original\nmean image" if line.shown == "original" else f"from the\n{line.shown} model"
        )
        panels.append(Panel(f"{words} {line.psnr:.1f} dB", partial(show_image, pixels)))
    return picture(table, panels, size=(2.3, 2.3), columns=int(table["shown"].nunique()))


register(Figure("reconstructions", "Which images can be made of a gradient?", "path", frame, draw))
