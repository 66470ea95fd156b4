"""Networks of timm and open_clip by name: theirs, or one whose description lies on the Hugging Face hub.

    timm:NAME, timm:NAME@SIDE               a vision transformer may be built for images of another side
    timm:hf-hub:OWNER/NAME                  config.json of the hub, from its cache on this machine or downloaded
    open_clip:NAME, open_clip:hf-hub:...    the image tower; open_clip_config.json of the hub
    ...:hf-hub:OWNER/NAME@REVISION          a branch, tag or commit of it; the default is the newest

A description is read as data: it names one of the library's own networks and no code. Runs record its commit.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from .. import extensions
from ..errors import FedcliError, UsageError, nearest
from ..provenance import LONG
from .clip_text import open_clip
from .network import Inputs, Network
from .wrapped import Fed, behind

TIMM, OPEN_CLIP = "timm:", "open_clip:"
HUB, FOLDER = ("hf-hub:", "hf_hub:"), "local-dir:"
DESCRIPTIONS = {TIMM: "config.json", OPEN_CLIP: "open_clip_config.json"}


def timm(option: str = "--model timm:NAME", extra: str = "timm") -> Any:
    """The library, which an extra brings. Raises UsageError where it is not installed, with the option that needs it."""
    try:
        import timm as library
    except ImportError:
        raise UsageError(
            f"{option} needs the package timm", f"pip install 'fedcli[{extra}]'"
        ) from None
    return library


def check(name: str) -> None:
    """Refuse a network that the library does not have, before anything is built. Raises FedcliError, UsageError."""
    library, own = _split(name)
    if own.startswith(FOLDER):
        hint = f"read its weights: --model {library}ARCHITECTURE --weights {own.removeprefix(FOLDER)}/model.safetensors"
        what = f"{name} is a folder, whose place a run would have to record"
        raise UsageError(what, f"{hint}, as in its config.json")
    if own.startswith(HUB):
        return
    if library == TIMM:
        own = _sided(own)[0]
        if not timm().is_model(own.partition(".")[0]):
            what = f"timm has no network {own!r}"
            raise UsageError(what, nearest(own, timm().list_models(), ("see timm.list_models()",)))
    elif own not in (known := open_clip().list_models()):
        raise UsageError(f"open_clip has no network {own!r}", nearest(own, known))


def make(name: str, inputs: Inputs) -> Network:
    """A network of timm or open_clip with random weights. Raises FedcliError, UsageError."""
    library, own = _split(name)
    return _timm(name, own, inputs) if library == TIMM else _open_clip(name, own, inputs)


def _timm(name: str, own: str, inputs: Inputs) -> Network:
    own, side = _sided(own)
    sized: dict[str, Any] = {"img_size": side} if side else {}
    with _from_hub(name, own):
        try:
            net = timm().create_model(own, num_classes=0, in_chans=inputs.channels, **sized)
        except TypeError as error:
            if not side or "img_size" not in str(error):
                raise
            raise UsageError(f"{own} takes images of any side", f"leave @{side} out") from None
        except (ValueError, AssertionError) as error:
            if not side:
                raise
            raise UsageError(
                f"{own} cannot be built for {side} pixels: {_said(error)}", "give another @SIDE"
            ) from None
    about = net.default_cfg
    only = side or (about["input_size"][-1] if about.get("fixed_input_size") else 0)
    return behind(
        name, net, inputs, Fed(only, tuple(about["mean"]), tuple(about["std"])), whole=False
    )


def _open_clip(name: str, own: str, inputs: Inputs) -> Network:
    if inputs.channels != 3:
        what = f"{name} needs 3 channels, these images have {inputs.channels}"
        raise UsageError(what, "use --model cnn or timm:NAME")
    library = open_clip()
    about = (
        library.get_model_config(own)
        if not own.startswith(HUB)
        else json.loads(_description(name).read_bytes())
    )
    about = about.get("model_cfg", about)
    from open_clip.model import (
        CLIPVisionCfg,
        _build_vision_tower,
    )  # the towers of both kinds, without a text tower

    vision = {**about["vision_cfg"], "timm_model_pretrained": False}
    if ":" in str(vision.get("timm_model_name", "")):
        raise FedcliError(
            f"{name} is described by another network of a hub", "name that one with timm:"
        )
    tower = _build_vision_tower(
        about["embed_dim"], CLIPVisionCfg(**vision), about.get("quick_gelu", False)
    )
    side = tower.image_size if isinstance(tower.image_size, int) else tower.image_size[0]
    fed = Fed(side, tuple(library.OPENAI_DATASET_MEAN), tuple(library.OPENAI_DATASET_STD))
    return behind(name, tower, inputs, fed, whole=False)


def published(name: str) -> dict[str, Tensor] | Path | None:
    """Weights that are published with a network: its tensors, or a file of them; None where nobody names any.

    Raises OSError where they cannot be downloaded, FedcliError.
    """
    library, own = _split(name)
    if library == TIMM:
        own, side = _sided(own)
        with _from_hub(name, own):
            return (
                timm()
                .create_model(own, pretrained=True, num_classes=0, img_size=side or None)
                .state_dict()
            )
    if not own.startswith(HUB):
        return None
    from open_clip.pretrained import download_pretrained_from_hf

    repository, revision = _repository(own)
    with _from_hub(name, own):
        return Path(download_pretrained_from_hf(repository, revision=revision))


def revision(name: str) -> str:
    """The commit of a network's description on the hub; "" for a network that is not there. Raises FedcliError."""
    own = _split(name)[1]
    return _description(name).parent.name if own.startswith(HUB) else ""


def _description(name: str) -> Path:
    """Where the hub's cache keeps the description of a network, in a folder called by its commit."""
    library, own = _split(name)
    repository, revision = _repository(own)
    with _from_hub(name, own):
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(repository, DESCRIPTIONS[library], revision=revision))


def _repository(own: str) -> tuple[str, str | None]:
    """OWNER/NAME of what lies on the hub, and the branch, tag or commit after its @."""
    repository, _, revision = own.partition(":")[2].partition("@")
    return repository, revision or None


def _split(name: str) -> tuple[str, str]:
    library = TIMM if name.startswith(TIMM) else OPEN_CLIP
    return library, name.removeprefix(library)


def _sided(own: str) -> tuple[str, int]:
    """A name and the side after its @, 0 where it has none; a revision on the hub is none."""
    if own.startswith(HUB) or "@" not in own:
        return own, 0
    name, _, side = own.rpartition("@")
    if not re.fullmatch(r"[1-9]\d{0,4}", side):
        raise UsageError(f"@{side} is no side in pixels", f"write for example timm:{name}@224")
    return name, int(side)


@contextmanager
def _from_hub(name: str, own: str) -> Iterator[None]:
    """Turn what a description on the hub can end in into a sentence; other networks are left alone.

    Raises UsageError for a network of the hub that the command does not name.
    """
    if own.startswith(HUB):
        extensions.check_named(name.partition("@")[0], "a network of a hub")
    try:
        yield
    except (FedcliError, UsageError):
        raise
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        if not own.startswith(HUB):
            raise
        hint = "fetch it once on a machine with a network, or name the architecture and give --weights FILE"
        what = f"{name} is not in the hub's cache on this machine and cannot be fetched: {_said(error)}"
        raise FedcliError(what, hint) from error


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[: LONG // 2]}"
