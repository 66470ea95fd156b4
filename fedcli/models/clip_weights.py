"""Starting weights of a CLIP network: OpenAI's, a file in the names of OpenAI and open_clip, or a run's model.

Nothing in CLIP's tensors says which activation they were trained with. The networks here have the quick GELU of
OpenAI's; a file trained with the plain one (LAION's, DataComp's) is accepted, and means something a little different.
"""

from pathlib import Path

from ..errors import FedcliError, UsageError
from ..io.files import regular
from .checkpoints import Tensors, fill, part
from .clip import SHAPES, ClipNetwork
from .clip_text import TextTower, open_clip
from .weights import read

KINDS = "give a state dict in the names of OpenAI's CLIP or open_clip, or a model of a run of the same network"
TABLE = "token_embedding.weight"
VOCABULARY = 49408
BESIDE = ("input_resolution", "context_length", "vocab_size", "attn_mask")  # in OpenAI's files, no weights


def load_clip(net: ClipNetwork, name: str, weights: str) -> None:
    """Put starting weights into both towers; the head keeps its seeded ones.

    weights: "openai", a .pt/.pth/.safetensors state dict, or a model of a fedcli run (.h5). One without a text tower
    leaves the network none, so that it can have no prompts. Raises FedcliError when it cannot be read or does not fit.
    """
    tensors = read(_openai(name) if weights == "openai" else _file(name, weights))
    tensors = {key.removeprefix("module."): tensor for key, tensor in tensors.items()}
    own = part(tensors, "backbone.")  # of a run
    if not (image := part(own or tensors, "visual.")):
        raise FedcliError(f"{weights} is no CLIP: it has no tensor visual.*", KINDS)
    what = f"{weights} does not fit {name}: tensor "
    fill(net.backbone.visual, image, f"{what}visual.", KINDS)
    slices = part(own, "slices.")
    if slices and net.backbone.slices is not None:
        fill(net.backbone.slices, slices, f"{what}slices.", KINDS)
    text = {k.removeprefix("text."): v for k, v in tensors.items() if not k.startswith(("visual.", *BESIDE))}
    if own or TABLE not in text:
        net.spare = ()
        return
    _fill_text(net.spare[0], text, what)


def _fill_text(tower: TextTower, tensors: Tensors, what: str) -> None:
    tensors = dict(tensors)
    table, shape = tensors.pop(TABLE), (VOCABULARY, len(tower.start))
    if table.shape != shape:
        raise FedcliError(f"{what}{TABLE} has shape {tuple(table.shape)}, not {shape}", KINDS)
    fill(tower, tensors, what, KINDS, elsewhere=("start", "words"))
    tower.embed(table)


def _file(name: str, weights: str) -> Path:
    if weights == "imagenet":
        raise UsageError(f"there are no ImageNet weights for {name}", 'give "openai" or a file')
    return regular(Path(weights), 'give "openai", or a weights file')


def _openai(name: str) -> Path:
    """OpenAI's weights by way of open_clip: from its cache, or downloaded."""
    if not SHAPES[name].pretrained:
        having = ", ".join(known for known, shape in SHAPES.items() if shape.pretrained)
        raise UsageError(f"there are no weights of OpenAI for {name}", f"models that have them: {having}")
    pretrained = open_clip().pretrained
    source = pretrained.get_pretrained_cfg(SHAPES[name].pretrained, "openai")
    try:
        return Path(pretrained.download_pretrained(source))
    except Exception as error:  # each way to download has its own errors; the user needs the one sentence
        raise FedcliError(
            f"OpenAI's weights of {name} are not on this machine and could not be downloaded ({type(error).__name__})",
            f"fetch open_clip_model.safetensors of https://huggingface.co/{source['hf_hub'].rstrip('/')} "
            "on a machine with a network and pass --weights FILE",
        ) from error
