"""A run's model as a file that other programs load, with a sidecar on preparing its images.

The file takes prepared pixels divided by 255, float32 [B, C, S, S], and gives logits [B, classes];
normalisation is inside, but for safetensors, which hold the network's weights alone. What was
written is loaded again and compared with `fedcli predict`: a difference above TOLERANCE is an
error, and nothing is kept.
"""

import io
import json
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...data import manifest, transforms
from ...errors import FedcliError
from ...io.files import sync
from ...io.locks import remove_abandoned, renaming, scratch
from ...metrics import probabilities
from ...models.adapted import merged
from ...models.clip import ClipNetwork
from ...models.network import slow_attention
from ...runs import finished as runs
from ...runs.finished import FinishedRun
from . import predict
from .operating import points

TOLERANCE = 1e-5  # between probabilities
CHECKED = 16  # test images that are compared
DECIDED = {
    True: "at an operating point, `positive` where its probability is at least the threshold; for "
    "the data alone whose validation images chose it",
    False: "no threshold was chosen for these data: `fedcli evaluate RUN --clinical` chooses one "
    "before an export",
}
INPUT = "pixels"
OUTPUT = "logits"
WRITTEN_BY_TORCH = ("version", ".data/serialization_id")  # records of a TorchScript file
NEEDS = "pip install 'fedcli[export]'"
Scorer = Callable[[np.ndarray], np.ndarray]  # float32 [B, C, S, S] in 0 to 1 -> logits [B, classes]


class PreparedModel(nn.Module):
    """The network with the normalisation of its input before it: pixels / 255 -> logits."""

    scale: Tensor
    offset: Tensor

    def __init__(self, net: nn.Module, channels: int):
        super().__init__()
        mean, std = _mean_and_std(channels)
        deviations = torch.tensor(std)
        scale = 1 / deviations.reshape(1, -1, 1, 1)
        means = torch.tensor(mean).reshape(1, -1, 1, 1)
        offset = -means * scale
        self.net = net
        self.channels = channels
        self.register_buffer("scale", scale)
        self.register_buffer("offset", offset)

    def forward(self, pixels: Tensor) -> Tensor:
        x = pixels.expand(-1, self.channels, -1, -1)
        return self.net(x * self.scale + self.offset)


def _mean_and_std(channels: int) -> tuple[Sequence[float], Sequence[float]]:
    if channels == 3:
        return transforms.IMAGENET_MEAN, transforms.IMAGENET_STD
    return transforms.GREY_MEAN, transforms.GREY_STD


def export(
    run: FinishedRun,
    kind: str,
    out: Path,
    client: str | None = None,
) -> Path:
    """Write a run's model and its sidecar and return the model's path.

    kind: one of FORMATS. out: a new folder for model.onnx, model.pt2, model.pt or model.safetensors
    and model.json; where its name ends as such a file's, the file, with NAME.json beside it. Raises
    FedcliError, UsageError.
    """
    suffix = f".{SUFFIXES[kind]}"
    is_file = out.suffix == suffix
    if os.path.lexists(out):
        remove_abandoned(out)
        raise _exists(out)
    predict.check_client(run, client)
    preprocessing = predict.Preprocessing.of(run)
    runs.load_model(run, run.rounds[-1], client)
    channels = run.manifest.body["model"]["channels"]
    net = merged(run.net.float())
    module = PreparedModel(net, channels)
    module = module.to("cpu").eval()
    one_by_one = isinstance(run.net, ClipNetwork)  # its attention fixes the batch
    size = preprocessing.choices.size
    example = torch.rand(
        1 if one_by_one else 2,
        preprocessing.channels,
        size,
        size,
    )
    with scratch(out) as temporary:
        path = temporary / (out.name if is_file else f"model{suffix}")
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # of exporters that are to be replaced
            with slow_attention():
                scorer = _written(kind, module, example, path, not one_by_one)
            difference = _checked(run, scorer, one_by_one)
        sidecar = _sidecar(
            run,
            preprocessing,
            path,
            kind,
            client,
            one_by_one,
            difference,
        )
        text = json.dumps(sidecar, indent=1, sort_keys=True, ensure_ascii=False)
        manifest.write_text(path.with_suffix(".json"), text + "\n")
        sync(temporary)
        with renaming(out):
            if out.exists():  # another process was faster
                raise _exists(out)
            if not is_file:
                temporary.rename(out)
                return out / path.name
            _beside(path.with_suffix(".json"), out.with_suffix(".json"))
            path.rename(out)
    return out


def _beside(written: Path, sidecar: Path) -> None:
    """Put a sidecar where it belongs.

    One of a process that was killed before its model came has the same content.
    """
    if sidecar.exists() and sidecar.read_bytes() != written.read_bytes():
        raise _exists(sidecar)
    written.rename(sidecar)


def _exists(path: Path) -> FedcliError:
    return FedcliError(f"{path} is there already", "give another --out, or remove it")


def _written(
    kind: str,
    module: PreparedModel,
    example: Tensor,
    path: Path,
    any_batch: bool,
) -> Scorer:
    """Write the file and load it again.

    Raises FedcliError where the network has a part that the format lacks.
    """
    write, load = FORMATS[kind]
    module(example)  # what it computes once and keeps is then a number, not a step that is traced
    try:
        with redirect_stdout(io.StringIO()):  # PyTorch prints the whole graph where it fails
            write(module, example, path, any_batch)
        return load(path, module)
    except FedcliError:
        raise
    except Exception as error:  # exporters and runtimes raise a dozen unrelated types
        text = str(error).strip()
        lines = text.splitlines() or [type(error).__name__]
        fault = f"this network cannot be written as {kind}: {lines[0]}"
        raise FedcliError(fault[:300], "try another --format") from error


def _checked(run: FinishedRun, scorer: Scorer, one_by_one: bool) -> float:
    """The largest difference of a probability from predict's on test images.

    Raises FedcliError above TOLERANCE.
    """
    test = run.data.test["clean"]
    rows = test.rows[:CHECKED].to(test.images.device)
    images = test.images[rows].permute(0, 2, 3, 1).cpu().numpy()
    logits = runs.logits(
        run.net,
        predict.shard_of(images, run),
        run.method.local,
    )
    channels_first = images.transpose(0, 3, 1, 2)
    pixels = np.ascontiguousarray(channels_first, np.float32) / np.float32(255)
    parts = [pixels]
    if one_by_one:
        parts = [pixels[k : k + 1] for k in range(len(pixels))]
    scored = np.concatenate([scorer(part) for part in parts])
    distances = np.abs(probabilities(scored) - probabilities(logits))
    difference = float(distances.max())
    if not difference <= TOLERANCE:
        raise FedcliError(
            f"the exported model differs from fedcli predict by {difference:.2g} in a probability",
            "nothing was written; try another --format",
        )
    return difference


def _sidecar(
    run: FinishedRun,
    preprocessing: predict.Preprocessing,
    path: Path,
    kind: str,
    client: str | None,
    one_by_one: bool,
    difference: float,
) -> dict[str, Any]:
    """The JSON that lets another program use the file."""
    chosen = points(run, client)
    model = run.manifest.body["model"]
    test = run.data.test["clean"]
    function = "sigmoid" if test.y.ndim == 2 else "softmax"
    pixels = _input(
        preprocessing,
        model["channels"],
        1 if one_by_one else "batch",
    )
    pixels["normalised_inside"] = kind != "safetensors"
    output = {
        "name": OUTPUT,
        "meaning": f"logits; {function} gives the probability of each class",
    }
    operating_points = [point.recorded for point in chosen] or None
    checked = min(CHECKED, len(test))
    return {
        "format": kind,
        "file": path.name,
        "sha256": manifest.sha256(path),
        "run": manifest.sha256(run.path),
        "method": run.manifest.body["method"],
        "round": run.rounds[-1],
        "client": client,
        "network": model["name"],
        "classes": run.data.classes,
        "dataset": preprocessing.dataset,
        "preprocessing": preprocessing.recorded,
        "input": pixels,
        "output": output,
        "operating_points": operating_points,
        "decision": DECIDED[bool(chosen)],
        "largest_difference_from_predict": difference,
        "checked_images": checked,
    }


def _input(
    preprocessing: predict.Preprocessing, net_channels: int, batch: int | str
) -> dict[str, Any]:
    """The pixels that the file takes.

    net_channels: of the network's input, which are normalised.
    """
    size = preprocessing.choices.size
    channels = preprocessing.channels
    mean, std = _mean_and_std(net_channels)
    colours = {1: "grey", 3: "RGB"}
    colour_order = colours.get(channels, "windows or slices, as prepared")
    return {
        "name": INPUT,
        "dtype": "float32",
        "shape": [batch, channels, size, size],
        "layout": "NCHW",
        "colour_order": colour_order,
        "values": "prepared pixels / 255",
        "range": [0, 1],
        "mean": mean,
        "std": std,
    }


def _onnx(
    module: PreparedModel,
    example: Tensor,
    path: Path,
    any_batch: bool,
) -> None:
    _needed("onnx")
    axes = {}
    if any_batch:
        axes = {INPUT: {0: "batch"}, OUTPUT: {0: "batch"}}
    torch.onnx.export(
        module,
        (example,),
        str(path),
        input_names=[INPUT],
        output_names=[OUTPUT],
        dynamic_axes=axes,
        dynamo=False,
    )


def _load_onnx(path: Path, module: PreparedModel) -> Scorer:
    session = _needed("onnxruntime").InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda pixels: session.run(None, {INPUT: pixels})[0]


def _torchscript(
    module: PreparedModel,
    example: Tensor,
    path: Path,
    any_batch: bool,
) -> None:
    """Write without the places on this machine of the code of each operation."""
    torch.jit.save(torch.jit.trace(module, example), str(path))
    whole = torch._C.PyTorchFileReader(io.BytesIO(path.read_bytes()))
    # keeps tensors aligned, as no zip file of Python's does
    writer = torch._C.PyTorchFileWriter(str(path))
    for name in whole.get_all_records():
        if name.endswith(".debug_pkl") or name in WRITTEN_BY_TORCH:
            continue
        record = whole.get_record(name)
        writer.write_record(name, record, len(record))
    writer.write_end_of_file()


def _load_torchscript(path: Path, module: PreparedModel) -> Scorer:
    return _scorer(torch.jit.load(str(path)))


def _torch_export(
    module: PreparedModel,
    example: Tensor,
    path: Path,
    any_batch: bool,
) -> None:
    shapes = ({0: torch.export.Dim("batch")},) if any_batch else None
    program = torch.export.export(module, (example,), dynamic_shapes=shapes)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # it names files of this machine
    torch.export.save(program, path)


def _load_torch_export(path: Path, module: PreparedModel) -> Scorer:
    return _scorer(torch.export.load(path).module())


def _safetensors(
    module: PreparedModel,
    example: Tensor,
    path: Path,
    any_batch: bool,
) -> None:
    tensors = {}
    for name, tensor in module.net.state_dict().items():
        tensors[name] = tensor.detach().cpu().contiguous()
    path.touch()
    mode = path.stat().st_mode  # of the umask: its own files may be read by nobody else
    _needed("safetensors.torch").save_file(tensors, str(path))
    path.chmod(mode)


def _load_safetensors(path: Path, module: PreparedModel) -> Scorer:
    module.net.load_state_dict(_needed("safetensors.torch").load_file(str(path)))
    return _scorer(module)


def _scorer(module: nn.Module) -> Scorer:
    return lambda pixels: module(torch.from_numpy(pixels)).numpy()


def _needed(name: str) -> Any:
    """A module of the extra `export`. Raises FedcliError where it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        package = name.partition(".")[0]
        raise FedcliError(f"this format needs the Python module {package}", NEEDS) from None


# how a file is written, and loaded again
FORMATS: dict[str, tuple[Callable[..., None], Callable[..., Scorer]]] = {
    "safetensors": (_safetensors, _load_safetensors),
    "onnx": (_onnx, _load_onnx),
    "torchscript": (_torchscript, _load_torchscript),
    "torch.export": (_torch_export, _load_torch_export),
}
SUFFIXES = {
    "safetensors": "safetensors",
    "onnx": "onnx",
    "torchscript": "pt",
    "torch.export": "pt2",
}
