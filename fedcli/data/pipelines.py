"""Training augmentation by an albumentations pipeline, as `A.save(pipeline, FILE)` writes it.

Source: albumentations 2, whose transforms run on the CPU, image by image. Each image has a seed of
its own, made of the numbers that decide its augmentation in this epoch, so neither batches, engines
nor threads change a byte. Batches are made by threads ahead of the training step. Nothing in a file
is executed: it may name albumentations' own classes only, and a run records the pipeline itself, so
that it goes on without the file.
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

    loader = yaml.SafeLoader(text)
    root = loader.get_single_node()
    if root is None:
        return None
    if _size(root, {}) > LARGEST:
        raise ValueError(f"with its aliases written out it has more than {LARGEST} parts")
    return loader.construct_document(root)


def _size(node: Any, sizes: dict[Any, float]) -> float:
    """The number of nodes in a node of YAML, aliases written out. sizes: those that are known by
    now."""
    import yaml

    if node in sizes:
        return sizes[node]
    sizes[node] = math.inf  # where it holds itself
    size = 1.0
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            size += _size(key, sizes) + _size(value, sizes)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            size += _size(item, sizes)
    sizes[node] = size
    return size


def pipeline(kind: str) -> Any:
    """The pipeline, ready for one thread. Raises FedcliError for one that is none, or not
    albumentations' own."""
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
            hint = "use albumentations' own transforms"
            raise FedcliError("a Lambda holds code, which a file cannot bring", hint)
    try:
        transform = albumentations.from_dict(body)
    except Exception as error:  # each transform checks its own options, with errors of many kinds
        raise FedcliError(f"the pipeline cannot be built: {message_of(error)}", HINT) from None
    if isinstance(transform, albumentations.Compose):
        return transform
    return albumentations.Compose([transform])


def _parts(value: Any, deepest: int) -> Iterator[dict[str, Any]]:
    if not deepest:
        raise FedcliError(f"the pipeline nests more than {DEEPEST} deep", HINT)
    items: Iterable[Any] = ()
    if isinstance(value, dict):
        yield value
        items = value.values()
    elif isinstance(value, list):
        items = value
    for item in items:
        yield from _parts(item, deepest - 1)


def augment(x: Tensor, kind: str, chance: Tensor) -> Tensor:
    """uint8 [B, C, H, W] augmented image by image, by the seed that chance [B, 4] makes; on the
    CPU."""
    if not len(x):
        return x
    pipelines = getattr(_local, "pipelines", None)
    if pipelines is None:
        pipelines = _local.pipelines = {}
    if kind not in pipelines:
        pipelines[kind] = pipeline(kind)
    transform = pipelines[kind]
    images = x.permute(0, 2, 3, 1).cpu().numpy()
    chances = chance.cpu().numpy()
    changed = [_changed(transform, image, row) for image, row in zip(images, chances, strict=True)]
    return torch.from_numpy(np.stack(changed)).permute(0, 3, 1, 2)


def _changed(
    transform: Any,
    image: np.ndarray,
    chance: np.ndarray,
) -> np.ndarray:
    content = chance.astype("<f4").tobytes()
    transform.set_random_seed(int.from_bytes(content[:8], "little") % 2**32)
    try:
        changed = transform(image=np.ascontiguousarray(image))["image"]
    except Exception as error:  # a transform that does not suit these images
        hint = "change the pipeline; some transforms need three channels, or a size of their own"
        fails = f"fails on images {image.shape}: {message_of(error)}"
        raise FedcliError(f"the augmentation pipeline {fails}", hint) from None
    is_like = isinstance(changed, np.ndarray) and changed.shape == image.shape
    if not is_like or changed.dtype != np.uint8:
        kind = getattr(changed, "dtype", type(changed).__name__)
        result = f"{kind} {getattr(changed, 'shape', '')}"
        hint = "leave out transforms that resize, normalise or make tensors: fedcli does so itself"
        raise FedcliError(f"the augmentation pipeline makes {result} of uint8 {image.shape}", hint)
    return changed


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
