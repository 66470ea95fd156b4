"""fedcli corrupt."""

from ..stages.options import CorruptOptions
from . import options as o
from .declare import command


@command(CorruptOptions)
def corrupt(options: CorruptOptions, json: o.Json = False, quiet: o.Quiet = False, debug: o.Debug = False) -> None:
    """Corrupt the images of some clients, and a copy of the whole test set in the same way.

    --ratio takes the last clients of the roster; --on names them. Kinds: gaussian-noise, shot-noise, impulse-noise,
    speckle-noise, brightness, contrast, saturate, defocus-blur, glass-blur, motion-blur, zoom-blur, gaussian-blur,
    snow, frost, fog, spatter, elastic-transform, pixelate, jpeg-compression.

    On a corruption manifest it adds to it, so that clients may differ in kind and severity. Then each test image is
    corrupted as one of these clients, drawn by the seed, and each client is also scored on all test images corrupted as
    its own.

    labels, in place of a kind, changes training labels of these clients: each with the chance --rate, --kind symmetric
    to any other class, pair to the next one, asymmetric as --flip says. Validation and test images keep their labels.
    What it makes is a partition.

    attributes, in place of a kind, hides --hide of a --share of patients in training, at every client or those that
    --on names. What it makes is a partition too.

    Examples: fedcli corrupt gaussian --ratio 0.2; fedcli corrupt motion-blur --on vidir_modern;
    fedcli corrupt --client vienna_dias=gaussian:1 --client vidir_modern=motion-blur:4;
    fedcli corrupt labels --kind symmetric --rate 0.3 --on rosendahl;
    fedcli corrupt attributes --hide sex --share 0.3
    """
    from ..stages import corrupt as stage

    o.show(stage.run(options).path, json)
