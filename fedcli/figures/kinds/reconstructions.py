"""Images that gradient inversion made of what a hospital would send, beside the originals.

They are of an audited run.
"""

from functools import partial
from pathlib import Path

from pandas import DataFrame

from ...data import manifest
from ...scores.audit import finished
from ..drawing import Panel, Picture
from ..figure import Figure, NothingToDraw, register
from ..shapes import picture
from .errors import show_image

ABOUT = (
    "The gradient of one batch, as {client} would send it, and what an attacker who knows the "
    "labels and the network makes of it; above the original the PSNR of {guess}, the guess of "
    "who sees no gradient. The original is a training image: look at it before you send it on."
)


def frame(path: Path) -> DataFrame:
    """shown (original, or a model), image, psnr: a line per picture.

    attrs hold the pixels [H, W, C] of each.
    """
    run = manifest.find(path, "run")
    audit = finished.newest(run)
    body = manifest.read(audit, "audit").body if audit else {}
    images = finished.pictures(audit) if audit else {}
    if not images or not body["inversion"]:
        sentence = f"no images were reconstructed from {run.parent}"
        raise NothingToDraw(sentence, f"fedcli audit {run.parent}")
    inversion = body["inversion"]
    guess = "the mean test image of its class"
    psnr_of_guess = inversion.get("blind_by_class")
    if not psnr_of_guess:  # of an older audit
        guess = "the mean of all test images"
        psnr_of_guess = inversion["blind"]
    psnr = {finished.ORIGINAL: psnr_of_guess}
    for model in inversion["models"]:
        psnr[model["model"]] = model["psnr"]
    lines = []
    pixels = []
    for k in range(len(images[finished.ORIGINAL])):
        for name, values in psnr.items():
            if name in images and k < len(values):
                lines.append((name, k, values[k]))
                pixels.append(images[name][k])
    table = DataFrame(lines, columns=["shown", "image", "psnr"])
    title = f"Reconstructed from gradients: {body['label']}"
    caption = ABOUT.format(client=inversion["client"], guess=guess)
    table.attrs |= {"title": title, "caption": caption, "pixels": pixels}
    return table


def draw(table: DataFrame) -> Picture:
    panels = []
    images = zip(table.attrs["pixels"], table.itertuples(), strict=True)
    for pixels, line in images:
        words = f"from the\n{line.shown} model"
        if line.shown == finished.ORIGINAL:
            words = "original\nmean image"
        title = f"{words} {line.psnr:.1f} dB"
        panels.append(Panel(title, partial(show_image, pixels)))
    columns = int(table["shown"].nunique())
    return picture(table, panels, size=(2.3, 2.3), columns=columns)


register(Figure("reconstructions", "Which images can be made of a gradient?", "path", frame, draw))
