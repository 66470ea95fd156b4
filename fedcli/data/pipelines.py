"""Training augmentation by an albumentations pipeline, as `A.save(pipeline, FILE)` writes it.

Source: albumentations 2, whose transforms run on the CPU, image by image. Each image has a seed of its own, made of
the numbers that decide its augmentation in this epoch, so neither batches, engines nor threads change a byte. Batches
are made by threads ahead of the training step. Nothing in a file is executed: it may name albumentations' own classes
only, and a run records the pipeline itself, so that it goes on without the file.
"""

import json
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import FedcliError
from ..provenance import message_of

PREFIX = "pipeline:"  # of an augmentation that is a pipeline, before its JSON
SUFFIXES = ".yaml", ".yml", ".json"
LARGEST = 2**18  # bytes of a file, and parts of it once YAML's aliases are written out
DEEPEST = 50  # lists and tables in one another
THREADS = 4
HINT = "write it with albumentations: A.save(A.Compose([...]), 'augment.yaml', data_format='yaml')"
NAME = "__class_fullname__"

_local = threading.local()
Item = TypeVar("Item")
Made = TypeVar("Made")


def is_file(kind: str) -> bool:
    """Tell whether an augmentation is the name of a pipeline's file."""
    return kind.lower().endswith(SUFFIXES)


def read(path: Path) -> str:
    """The augmentation that a file holds, for transforms.augment. Raises FedcliError."""
    import yaml

    try:
        if path.stat().st_size > LARGEST:
            raise FedcliError(f"{path} has more than {LARGEST} bytes", HINT)
        text = path.read_text(encoding="utf-8")
        body = json.loads(text) if path.suffix.lower() == ".json" else _yaml(text)
        kind = PREFIX + json.dumps(body, sort_keys=True, allow_nan=False)
    except FileNotFoundError:
        raise FedcliError(f"no such file: {path}", HINT) from None
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FedcliError(f"{path} is no readable pipeline: {message[:200]}", HINT) from None
    try:
        pipeline(kind)
    except FedcliError as error:
        raise FedcliError(f"{path}: {error.sentence}", error.hint) from None
    return kind


def _yaml(text: str) -> Any:
    """Raises ValueError where aliases of aliases make much of little text."""
    import yaml

    sizes: dict[Any, float] = {}

    def size(node: yaml.Node) -> float:
        if node not in sizes:
            sizes[node] = math.inf  # where it holds itself
            inside = node.value if isinstance(node, yaml.CollectionNode) else ()
            parts = (
                part for each in inside for part in (each if isinstance(each, tuple) else (each,))
            )
            sizes[node] = 1 + sum(map(size, parts))
        return sizes[node]

    loader = yaml.SafeLoader(text)
    root = loader.get_single_node()
    if root is None:
        return None
    if size(root) > LARGEST:
        raise ValueError(f"with its aliases written out it has more than {LARGEST} parts")
    return loader.construct_document(root)


def pipeline(kind: str) -> Any:
    """The pipeline, ready for one thread. Raises FedcliError for one that is none, or not albumentations' own."""
    from .sources.formats.photographs import import_albumentations

    albumentations = import_albumentations()
    from albumentations.core.serialization import SERIALIZABLE_REGISTRY

    body = json.loads(kind.removeprefix(PREFIX))
    if not isinstance(body, dict) or not isinstance(body.get("transform"), dict):
        raise FedcliError("the pipeline has no transform", HINT)
    for part in _parts(body, DEEPEST):
        if NAME in part and str(part[NAME]) not in SERIALIZABLE_REGISTRY:
            raise FedcliError(f"{str(part[NAME])[:80]} is no transform of albumentations", HINT)
        if part.get("__type__") == "Lambda":
            raise FedcliError(
                "a Lambda holds code, which a file cannot bring",
                "use albumentations' own transforms",
            )
    try:
        made = albumentations.from_dict(body)
    except Exception as error:  # each transform checks its own options, with errors of many kinds
        raise FedcliError(f"the pipeline cannot be built: {message_of(error)}", HINT) from None
    return made if isinstance(made, albumentations.Compose) else albumentations.Compose([made])


def _parts(value: Any, deepest: int) -> Iterator[dict[str, Any]]:
    if not deepest:
        raise FedcliError(f"the pipeline nests more than {DEEPEST} deep", HINT)
    if isinstance(value, dict):
        yield value
    for item in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _parts(item, deepest - 1)


def augment(x: Tensor, kind: str, chance: Tensor) -> Tensor:
    """uint8 [B, C, H, W] augmented image by image, by the seed that chance [B, 4] makes; on the CPU."""
    if not len(x):
        return x
    known = getattr(_local, "pipelines", None)
    if known is None:
        known = _local.pipelines = {}
    if kind not in known:
        known[kind] = pipeline(kind)
    images = x.permute(0, 2, 3, 1).cpu().numpy()
    changed = [
        _changed(known[kind], image, row)
        for image, row in zip(images, chance.cpu().numpy(), strict=True)
    ]
    return torch.from_numpy(np.stack(changed)).permute(0, 3, 1, 2)


def _changed(made: Any, image: np.ndarray, chance: np.ndarray) -> np.ndarray:
    made.set_random_seed(int.from_bytes(chance.astype("<f4").tobytes()[:8], "little") % 2**32)
    try:
        out = made(image=np.ascontiguousarray(image))["image"]
    except Exception as error:  # a transform that does not suit these images
        hint = "change the pipeline; some transforms need three channels, or a size of their own"
        what = f"the augmentation pipeline fails on images {image.shape}: {message_of(error)}"
        raise FedcliError(what, hint) from None
    if not isinstance(out, np.ndarray) or out.shape != image.shape or out.dtype != np.uint8:
        what = f"{getattr(out, 'dtype', type(out).__name__)} {getattr(out, 'shape', '')}"
        hint = "leave out transforms that resize, normalise or make tensors: fedcli does so itself"
        raise FedcliError(f"the augmentation pipeline makes {what} of uint8 {image.shape}", hint)
    return out


def ahead(make: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """Results of make() for each item, in order, made by threads some items ahead."""
    waiting: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        for item in items:
            waiting.append(pool.submit(make, item))
            if len(waiting) > THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
