"""Networks of timm and open_clip by name: theirs, or one whose description lies on the Hugging Face
hub.

    timm:NAME, timm:NAME@SIDE               a vision transformer may be built for images of another
                                            side
    timm:hf-hub:OWNER/NAME                  config.json of the hub, from its cache on this machine
                                            or downloaded
    open_clip:NAME, open_clip:hf-hub:...    the image tower; open_clip_config.json of the hub
    ...:hf-hub:OWNER/NAME@REVISION          a branch, tag or commit of it; the default is the newest

A description is read as data: it names one of the library's own networks and no code. Runs record
its commit.
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
from ..provenance import kind_and_words
from .clip_text import open_clip
from .network import Inputs, Network
from .wrapped import Fed, behind

TIMM = "timm:"
OPEN_CLIP = "open_clip:"
HUB = "hf-hub:", "hf_hub:"
FOLDER = "local-dir:"
DESCRIPTIONS = {TIMM: "config.json", OPEN_CLIP: "open_clip_config.json"}
ANSWER = 10  # seconds in which the hub answers, if it can be reached


def timm(option: str = "--model timm:NAME", extra: str = "timm") -> Any:
    """The library, which an extra brings. Raises UsageError where it is not installed, with the
    option that needs it.
    """
    try:
        import timm as library
    except ImportError:
        sentence = f"{option} needs the package timm"
        raise UsageError(sentence, f"pip install 'fedcli[{extra}]'") from None
    return library


def library_of(name: str) -> str:
    """The beginning of a network's name that says its library: TIMM or OPEN_CLIP."""
    return TIMM if name.startswith(TIMM) else OPEN_CLIP


def _in_library(name: str) -> str:
    """The name of a network in its library."""
    return name.removeprefix(library_of(name))


def check(name: str) -> None:
    """Refuse a network that the library does not have, before anything is built. Raises
    FedcliError, UsageError.
    """
    library = library_of(name)
    network = _in_library(name)
    if network.startswith(FOLDER):
        weights = f"--weights {network.removeprefix(FOLDER)}/model.safetensors"
        hint = f"read its weights: --model {library}ARCHITECTURE {weights}, as in its config.json"
        raise UsageError(f"{name} is a folder, whose place a run would have to record", hint)
    if network.startswith(HUB):
        return
    if library == OPEN_CLIP:
        names = open_clip().list_models()
        if network not in names:
            raise UsageError(f"open_clip has no network {network!r}", nearest(network, names))
        return
    network, _ = _sided(network)
    if not timm().is_model(network.partition(".")[0]):
        hint = nearest(
            network,
            timm().list_models(),
            ("see timm.list_models()",),
        )
        raise UsageError(f"timm has no network {network!r}", hint)


def make(name: str, inputs: Inputs) -> Network:
    """A network of timm or open_clip with random weights. Raises FedcliError, UsageError."""
    return _timm(name, inputs) if library_of(name) == TIMM else _open_clip(name, inputs)


def _timm(name: str, inputs: Inputs) -> Network:
    network, side = _sided(_in_library(name))
    sized: dict[str, Any] = {"img_size": side} if side else {}
    with _from_hub(name):
        try:
            net = timm().create_model(
                network,
                num_classes=0,
                in_chans=inputs.channels,
                **sized,
            )
        except (TypeError, ValueError, AssertionError) as error:
            takes_no_side = isinstance(error, TypeError)
            if not side or (takes_no_side and "img_size" not in str(error)):
                raise
            if takes_no_side:
                sentence = f"{network} takes images of any side"
                raise UsageError(sentence, f"leave @{side} out") from None
            sentence = f"{network} cannot be built for {side} pixels: {kind_and_words(error)}"
            raise UsageError(sentence, "give another @SIDE") from None
    config = net.default_cfg
    if not side and config.get("fixed_input_size"):
        side = config["input_size"][-1]
    fed = Fed(side, tuple(config["mean"]), tuple(config["std"]))
    return behind(name, net, inputs, fed, whole=False)


def _open_clip(name: str, inputs: Inputs) -> Network:
    if inputs.channels != 3:
        sentence = f"{name} needs 3 channels, these images have {inputs.channels}"
        raise UsageError(sentence, "use --model cnn or timm:NAME")
    library = open_clip()
    # the towers of both kinds, without a text tower
    from open_clip.model import CLIPVisionCfg, _build_vision_tower

    config = _open_clip_config(name)
    vision = config["vision_cfg"] | {"timm_model_pretrained": False}
    if ":" in str(vision.get("timm_model_name", "")):
        sentence = f"{name} is described by another network of a hub"
        raise FedcliError(sentence, "name that one with timm:")
    quick_gelu = config.get("quick_gelu", False)
    tower = _build_vision_tower(
        config["embed_dim"],
        CLIPVisionCfg(**vision),
        quick_gelu,
    )
    side = tower.image_size if isinstance(tower.image_size, int) else tower.image_size[0]
    fed = Fed(
        side,
        tuple(library.OPENAI_DATASET_MEAN),
        tuple(library.OPENAI_DATASET_STD),
    )
    return behind(name, tower, inputs, fed, whole=False)


def _open_clip_config(name: str) -> dict[str, Any]:
    network = _in_library(name)
    if not network.startswith(HUB):
        return open_clip().get_model_config(network)
    config = json.loads(_description(name).read_bytes())
    return config.get("model_cfg", config)


def published(name: str) -> dict[str, Tensor] | Path | None:
    """Weights that are published with a network: its tensors, or a file of them; None where nobody
    names any.

    Raises OSError where they cannot be downloaded, FedcliError.
    """
    network = _in_library(name)
    if library_of(name) == TIMM:
        network, side = _sided(network)
        with _from_hub(name, downloads=True):
            net = timm().create_model(
                network, pretrained=True, num_classes=0, img_size=side or None
            )
        return net.state_dict()
    if not network.startswith(HUB):
        return None
    from open_clip.pretrained import download_pretrained_from_hf

    repository, revision = _repository(network)
    with _from_hub(name):
        return Path(download_pretrained_from_hf(repository, revision=revision))


def revision(name: str) -> str:
    """The commit of a network's description on the hub; "" for a network that is not there. Raises
    FedcliError.
    """
    return _description(name).parent.name if _in_library(name).startswith(HUB) else ""


def _description(name: str) -> Path:
    """The description of a network in the hub's cache, in a folder called by its commit."""
    repository, revision = _repository(_in_library(name))
    with _from_hub(name):
        from huggingface_hub import hf_hub_download

        file = DESCRIPTIONS[library_of(name)]
        return Path(hf_hub_download(repository, file, revision=revision))


def _repository(network: str) -> tuple[str, str | None]:
    """OWNER/NAME of what lies on the hub, and the branch, tag or commit after its @."""
    repository, _, revision = network.partition(":")[2].partition("@")
    return repository, revision or None


def _sided(network: str) -> tuple[str, int]:
    """A name and the side after its @, 0 where it has none; a revision on the hub is none."""
    if network.startswith(HUB) or "@" not in network:
        return network, 0
    name, _, side = network.rpartition("@")
    if not re.fullmatch(r"[1-9]\d{0,4}", side):
        raise UsageError(f"@{side} is no side in pixels", f"write for example timm:{name}@224")
    return name, int(side)


@contextmanager
def _from_hub(name: str, *, downloads: bool = False) -> Iterator[None]:
    """Turn the errors of a description on the hub into a sentence; those of other networks are left
    alone.

    downloads: another network asks the hub too.
    Raises UsageError for a network of the hub that the command does not name.
    """
    on_hub = _in_library(name).startswith(HUB)
    if not on_hub and not downloads:
        yield
        return
    if on_hub:
        extensions.check_named(name.partition("@")[0], "a network of a hub")
    try:
        with asked_once():
            yield
    except FedcliError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        if not on_hub:
            raise
        hint = (
            "fetch it once on a machine with a network, or name the architecture and give "
            "--weights FILE"
        )
        absent = f"{name} is not in the hub's cache on this machine"
        raise FedcliError(
            f"{absent} and cannot be fetched: {kind_and_words(error)}", hint
        ) from error


@contextmanager
def asked_once() -> Iterator[None]:
    """Within it, only the cache on this machine is read where the hub does not answer.

    Its library asks several times for each file, which takes minutes on a machine without a
    network. Raises ConnectionError where the hub does not answer and the cache lacks a file.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    silence = ""
    if not constants.HF_HUB_OFFLINE:
        try:
            get_session().head(constants.ENDPOINT, timeout=ANSWER)
        except Exception as error:  # of requests or httpx, by the version of the library
            silence = f"{constants.ENDPOINT} does not answer: {kind_and_words(error)}"
    if not silence:
        yield
        return
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    except OSError as error:
        raise ConnectionError(silence) from error
    finally:
        constants.HF_HUB_OFFLINE = False
