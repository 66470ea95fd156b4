"""How much the engine and prepare cost compared with the work itself, as ratios within one run.

The bare loop is what one would write by hand: the same network, tensors, batches and optimizer steps, with nothing of
fedcli in it. For a method that costs more than plain training, it makes the passes of the method's formula
(see formulas.py) and does none of its arithmetic. The two sides alternate, so a machine that slows down slows both.
"""

import csv
import multiprocessing
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from .. import console, models
from ..data import transforms
from ..data.shard import EVALUATION_BATCH, Shard
from ..data.sources.formats.photographs import import_cv2
from ..federation.client import Training
from ..federation.engines.in_process import InProcess
from ..federation.server import Federation
from ..methods import Method, resolve
from ..models.layout import Layout
from ..runs.resources import be_deterministic
from ..seeds import derive
from ..system import interrupts
from ..system.processes import cores
from . import limits
from .formulas import formula
from .shell import fedcli, python, temporary_folder

CLASSES = 7
LEARNING_RATE = 1e-3
SIDE = 224  # px of prepared images


@dataclass(frozen=True)
class Timing:
    """Seconds of the two sides, one pair per repetition.

    flops: of matrix products and convolutions of our side, once; limit: of them in a second, as one large product has.
    """

    what: str
    ours: list[float]
    bare: list[float]
    images: int
    flops: float = 0.0
    limit: float = 0.0

    @property
    def ratio(self) -> float:
        return statistics.median(a / b for a, b in zip(self.ours, self.bare, strict=True))

    @property
    def share(self) -> float | None:
        """Of the limit, by the median of our seconds; None where nothing was counted."""
        return self.flops / statistics.median(self.ours) / self.limit if self.limit else None

    def row(self) -> list[str]:
        ours, bare = map(self._speed, (self.ours, self.bare))
        spread = sorted(a / b for a, b in zip(self.ours, self.bare, strict=True))
        limit = "-" if self.share is None else f"{100 * self.share:.0f} %"
        return [self.what, ours, bare, f"{self.ratio:.3f}", f"{spread[0]:.3f} to {spread[-1]:.3f}", limit]

    def _speed(self, side: list[float]) -> str:
        """Images a second, or how long where there is nothing to count."""
        seconds = statistics.median(side)
        return f"{self.images / seconds:,.0f} images/s" if self.images else f"{seconds:.2f} s"


def engine(
    method: str, *, model: str, size: int, clients: int, images: int, optimizer: str, repeats: int, device: str = "cpu"
) -> Timing:
    """Time the second round of a method against bare loops over the same clients: in the first, some do less.

    Raises UsageError for a method whose cost no formula gives.
    """
    timed = resolve(method)
    passes = formula(timed)
    federation = plain_federation(model, size, clients, images, device, method=timed, optimizer=optimizer)
    shards, training = federation.clients.shards, federation.training
    state = federation.play(federation.first()).state

    def ours() -> None:
        be_deterministic(device, models.describe(model).threads)  # as fedcli train is
        federation.play(state)
        _wait(device)

    other = _net(model, size, device)
    start = {name: tensor.clone() for name, tensor in other.state_dict().items()}

    def bare() -> None:
        torch.set_deterministic_debug_mode("default")
        for client, shard in shards.items():
            other.load_state_dict(start)
            _bare_client(other, client, shard, training, passes)
        _wait(device)

    pairs = _alternate(ours, bare, repeats)
    flops, _ = limits.counted(lambda: federation.play(state, engine=limits.unrecorded(federation.clients)))
    what, limit = f"{method}, {model}, {size} px, {optimizer}", limits.matrix_speed(device)
    return Timing(what, *pairs, images=len(shards) * images, flops=flops, limit=limit)


def plain_federation(
    model: str, size: int, clients: int, images: int, device: str, *, precision: str = "fp32",
    method: Method | None = None, optimizer: str = "sgd",
) -> Federation:  # fmt: skip
    """Clients of so many random images each, under FedAvg by default."""
    method, shards = method or resolve("fedavg"), _shards(clients, images, size, device)
    net = _net(model, size, device, precision)
    training = Training(optimizer=optimizer, lr=LEARNING_RATE, momentum=0.9 if optimizer == "sgd" else 0.0)
    layout = Layout(net, method.local.personal_tensors(net))
    return Federation(InProcess(method, net, layout, shards, training), rounds=10)


def _bare_client(net: torch.nn.Module, client: str, shard: Shard, training: Training, passes: dict[str, int]) -> None:
    """Plain PyTorch over one client's tensors, in the engine's order."""
    net.eval()
    for at in _parts(shard, 64) * passes["gradient"]:
        F.cross_entropy(net(_input(shard, at)), shard.y[at]).backward()
    with torch.no_grad():
        for at in _parts(shard, EVALUATION_BATCH) * passes["forward"]:
            F.cross_entropy(net(_input(shard, at)), shard.y[at])
    net.train()
    kind = torch.optim.Adam if training.optimizer == "adam" else torch.optim.SGD
    rest = {"fused": True} if training.optimizer == "adam" else {"fused": True, "momentum": training.momentum}
    optimizer = kind(net.parameters(), lr=training.lr, weight_decay=training.weight_decay, **rest)
    order = torch.randperm(len(shard), generator=torch.Generator().manual_seed(derive("shuffle", 0, 1, client, 0)))
    for at in order.to(shard.rows.device).split(training.batch_size):
        x = _input(shard, at)
        with torch.no_grad():
            for _ in range(passes["look"]):
                net(x)
        for _ in range(passes["step"]):
            optimizer.zero_grad()
            F.cross_entropy(net(x), shard.y[at]).backward()
        optimizer.step()


def _input(shard: Shard, at: torch.Tensor) -> torch.Tensor:
    return transforms.to_input(shard.images[shard.rows[at]], channels=shard.channels)


def _parts(shard: Shard, size: int) -> list[torch.Tensor]:
    return list(torch.arange(len(shard), device=shard.rows.device).split(size))


def job(repeats: int) -> Timing:
    """Time a small training from the shell, four clients of 32 images and three rounds, against importing torch."""
    with temporary_folder() as folder:
        data = _small_job(folder)

        def ours() -> None:
            fedcli("train", "fedavg", data, "--rounds", 3, "--work", folder, "--quiet")
            shutil.rmtree(folder / "runs")

        pairs = _alternate(ours, lambda: python("-c", "import torch"), repeats)
    return Timing("a job of 4 x 32 images and 3 rounds, from the shell; bare: import torch", *pairs, images=0)


def _small_job(folder: Path) -> Path:
    """A partition of four clients with 32 toy images each; the rest is the test part."""
    from ..data.manifest import Destination
    from ..data.partition import make_partition, resolve
    from ..data.preparation.prepare import Request
    from ..data.preparation.prepare import prepare as stage

    with console.muted():
        toy = stage("toy", Request(chosen={"test": 1 - 128 / 1797, "jobs": 1}), work=folder)
        return make_partition(toy, resolve("iid", {"clients": 4}), Destination(folder))


def prepare(images: int, repeats: int, jobs: int = 0) -> Timing:
    """Time `fedcli prepare isic2018` against decoding and resizing the same photographs, on as many cores."""
    with temporary_folder() as folder:
        _skin_folder(folder / "raw", images)
        files = sorted((folder / "raw" / "images").glob("*.jpg"))
        pairs = _prepare("isic2018", folder, files, _bare_photograph, repeats, jobs)
    return Timing(f"prepare isic2018, 600x450 JPEG to {SIDE} px", *pairs, images=images)


def prepare_ct(images: int, repeats: int, jobs: int = 0) -> Timing:
    """Time `fedcli prepare rsna-ich` against decoding, windowing and resizing the same slices, on as many cores."""
    with temporary_folder() as folder:
        _ct_folder(folder / "raw", images)
        files = sorted((folder / "raw" / "stage_2_train").glob("*.dcm"))
        pairs = _prepare("rsna-ich", folder, files, _bare_slice, repeats, jobs)
    return Timing(f"prepare rsna-ich, 512x512 DICOM to {SIDE} px", *pairs, images=images)


def _prepare(
    dataset: str, folder: Path, files: list[Path], bare_image: Callable[[Path], None], repeats: int, jobs: int
) -> tuple[list[float], list[float]]:
    from ..data.preparation.prepare import Request
    from ..data.preparation.prepare import prepare as stage

    out = folder / "out"
    request = Request(folder / "raw", {"size": SIDE, "strict": True, "jobs": jobs})

    def ours() -> None:
        stage(dataset, request, work=folder, out=out)

    def bare() -> None:
        for _ in _spread(bare_image, files, jobs):
            pass

    with console.muted():
        return _alternate(ours, bare, repeats, between=lambda: shutil.rmtree(out, ignore_errors=True))


def _spread(function: Callable[[Path], None], files: list[Path], jobs: int) -> Iterator[None]:
    """The usual few lines that spread work over cores."""
    jobs = jobs or cores()
    if jobs == 1:
        yield from map(function, files)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        with interrupts.left_to_parent():
            done = pool.map(function, files, chunksize=32)
        yield from done


def _bare_photograph(file: Path) -> None:
    from PIL import Image

    cv2 = import_cv2()
    with Image.open(file) as image:
        cv2.resize(np.asarray(image.convert("RGB")), (SIDE, SIDE), interpolation=cv2.INTER_AREA)


def _bare_slice(file: Path) -> None:
    import pydicom

    cv2 = import_cv2()
    slice_ = pydicom.dcmread(file)
    units = slice_.pixel_array.astype(np.float32) * float(slice_.RescaleSlope) + float(slice_.RescaleIntercept)
    low = slice_.WindowCenter - slice_.WindowWidth / 2
    grey = np.clip((units - low) * (255 / slice_.WindowWidth), 0, 255).astype(np.uint8)
    cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA)


def _skin_folder(folder: Path, count: int) -> None:
    """HAM10000's layout; blurred noise compresses about as photographs of skin do."""
    from PIL import Image

    (folder / "images").mkdir(parents=True)
    rng = np.random.default_rng(derive("bench"))
    with (folder / "HAM10000_metadata.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["lesion_id", "image_id", "dx", "dx_type", "age", "sex", "localization"])
        for i in range(count):
            coarse = Image.fromarray(rng.integers(0, 256, (36, 48, 3), np.uint8))
            path = folder / "images" / f"ISIC_{i:07d}.jpg"
            coarse.resize((600, 450), Image.Resampling.BICUBIC).save(path, quality=90)
            table.writerow([f"HAM_{i:07d}", f"ISIC_{i:07d}", ("nv", "mel")[i % 2], "histo", "50.0", "male", "back"])


def _ct_folder(folder: Path, count: int) -> None:
    """Kaggle's layout, with as few fields in a file as its slices have."""
    import pydicom

    (folder / "stage_2_train").mkdir(parents=True)
    rng = np.random.default_rng(derive("bench"))
    slice_: Any = pydicom.Dataset()  # its attributes are DICOM fields
    slice_.file_meta = pydicom.dataset.FileMetaDataset()
    slice_.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    slice_.file_meta.MediaStorageSOPClassUID = slice_.SOPClassUID = pydicom.uid.CTImageStorage
    slice_.file_meta.MediaStorageSOPInstanceUID = slice_.SOPInstanceUID = "1.2.3"
    slice_.Modality, slice_.StudyInstanceUID, slice_.SeriesInstanceUID = "CT", "1.2.4", "1.2.5"
    slice_.ImagePositionPatient, slice_.ImageOrientationPatient = [-125, -2, 67], [1, 0, 0, 0, 0.97, -0.26]
    slice_.SamplesPerPixel, slice_.PhotometricInterpretation = 1, "MONOCHROME2"
    slice_.Rows, slice_.Columns, slice_.PixelSpacing = 512, 512, [0.488281, 0.488281]
    slice_.BitsAllocated, slice_.BitsStored, slice_.HighBit, slice_.PixelRepresentation = 16, 16, 15, 1
    slice_.WindowCenter, slice_.WindowWidth, slice_.RescaleIntercept, slice_.RescaleSlope = 40, 80, -1024, 1
    with (folder / "stage_2_train.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["ID", "Label"])
        for i in range(count):
            slice_.PatientID = f"ID_{i // 30:08d}"
            slice_.PixelData = rng.integers(900, 1200, (512, 512), np.int16).tobytes()
            slice_.save_as(folder / "stage_2_train" / f"ID_{i:09d}.dcm", enforce_file_format=True)
            table.writerow([f"ID_{i:09d}_{('subdural', 'epidural')[i % 2]}", 1])


def _alternate(
    ours: Callable[[], None], bare: Callable[[], None], repeats: int, *, between: Callable[[], None] = lambda: None
) -> tuple[list[float], list[float]]:
    """Seconds of each repetition, in alternating order after one that does not count."""
    ours()
    bare()
    between()
    times: dict[Callable, list[float]] = {ours: [], bare: []}
    for i in range(repeats):
        for side in (ours, bare) if i % 2 == 0 else (bare, ours):
            start = time.perf_counter()
            side()
            times[side].append(time.perf_counter() - start)
        between()
    return times[ours], times[bare]


def _shards(clients: int, images: int, size: int, device: str) -> dict[str, Shard]:
    rng = np.random.default_rng(derive("bench", size))
    pool = (
        torch.from_numpy(rng.integers(0, 256, (clients * images, size, size, 3), np.uint8))
        .permute(0, 3, 1, 2)
        .to(device)
    )
    y = torch.from_numpy(rng.integers(0, CLASSES, clients * images)).to(device)
    out = {}
    for k in range(clients):
        rows = torch.arange(k * images, (k + 1) * images, device=device)
        out[f"client-{k:02d}"] = Shard(pool, rows, y[rows], np.array([]), {}, CLASSES, 3)
    return out


def _net(model: str, size: int, device: str, precision: str = "fp32") -> models.Network:
    return models.build(model, models.Inputs(3, CLASSES, size), seed=0, precision=precision).to(device)


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
