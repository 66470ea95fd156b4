"""The 19 functions of the package imagecorruptions, which is older than the libraries it uses.

Source: Hendrycks & Dietterich, ICLR 2019, arXiv 1903.12261. Its file corruptions.py is loaded on
its own, with what
these libraries no longer have: pkg_resources (which says where its pictures of frost lie),
scipy.ndimage.interpolation (now scipy.ndimage), np.float_ (fog), `multichannel` of skimage's
gaussian (now `channel_axis`; gaussian and glass blur), and a random_noise of skimage that draws
from NumPy's global stream (impulse noise). No other module is changed.
"""

import functools
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from ...errors import FedcliError

PACKAGE = "imagecorruptions"


@functools.cache
def functions() -> ModuleType:
    """The module whose functions change an image. Raises FedcliError where a package is missing."""
    from ..sources.formats.photographs import import_cv2

    import_cv2()  # first, for its clear error
    spec = importlib.util.find_spec(PACKAGE)  # which imports nothing
    if spec is None or spec.origin is None:
        raise _missing(PACKAGE)
    file = Path(spec.origin).with_name("corruptions.py")
    try:
        return _adapted(_loaded(file))
    except ModuleNotFoundError as error:
        raise _missing(error.name or PACKAGE) from None


def _missing(package: str) -> FedcliError:
    sentence = f"corrupting images needs the Python module {package}"
    return FedcliError(sentence, "pip install imagecorruptions")


def _loaded(file: Path) -> ModuleType:
    from scipy import ndimage

    spec = importlib.util.spec_from_file_location(f"{__name__}.{PACKAGE}", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    frost = SimpleNamespace(resource_filename=lambda _, name: str(file.parent / name))
    with _modules({"pkg_resources": frost, "scipy.ndimage.interpolation": ndimage}):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _modules(modules: dict[str, Any]) -> Iterator[None]:
    """Have these modules by these names for as long as it lasts."""
    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]
        sys.modules.update(before)


def _adapted(corruptions: Any) -> ModuleType:
    from skimage import color, filters, util

    def gaussian(
        image: np.ndarray,
        sigma: float,
        multichannel: bool = False,
        **options: Any,
    ) -> np.ndarray:
        has_channels = multichannel and image.ndim == 3
        axis = -1 if has_channels else None
        return filters.gaussian(image, sigma, channel_axis=axis, **options)

    def random_noise(image: np.ndarray, **options: Any) -> np.ndarray:
        return util.random_noise(image, rng=np.random.randint(2**31), **options)

    corruptions.np = SimpleNamespace(**{**vars(np), "float_": np.float64})
    corruptions.sk = SimpleNamespace(color=color, util=SimpleNamespace(random_noise=random_noise))
    corruptions.gaussian = gaussian
    return corruptions
