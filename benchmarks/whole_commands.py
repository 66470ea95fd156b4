"""A small job from the shell beside importing torch, and `fedcli prepare` beside decoding and
resizing by hand.
"""

import csv
import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from shell import fedcli, python, run, show, temporary_folder

from fedcli import console
from fedcli.bench.engine import COLUMNS, Timing, alternate
from fedcli.data.sources.formats.photographs import import_cv2
from fedcli.seeds import derive
from fedcli.system import interrupts
from fedcli.system.processes import cores

SIDE = 224  # px of prepared images


def main(
    images: Annotated[int, typer.Option(min=2, help="files that are prepared")] = 400,
    repeats: Annotated[int, typer.Option(min=1, help="times each side runs")] = 7,
    json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Time a small job from the shell against importing torch, and prepare against bare decoding on
    the same cores.
    """
    console.say(f"a whole small job from the shell: {repeats} runs")
    timings = [job(repeats)]
    console.say(f"prepare against bare decoding, on the same cores: {repeats} runs each")
    timings += [prepare(dataset, images, repeats) for dataset in BARE]
    show(COLUMNS, timings, json)


def job(repeats: int) -> Timing:
    """Time a small training from the shell, four clients of 32 images and three rounds, against
    importing torch.
    """
    with temporary_folder() as folder:
        data = _small_job(folder)

        def ours() -> None:
            fedcli(
                "train",
                "fedavg",
                data,
                "--rounds",
                3,
                "--work",
                folder,
                "--quiet",
            )
            shutil.rmtree(folder / "runs")

        pairs = alternate(ours, lambda: python("-c", "import torch"), repeats)
    return Timing(
        "a job of 4 x 32 images and 3 rounds, from the shell; bare: import torch",
        *pairs,
        images=0,
    )


def _small_job(folder: Path) -> Path:
    """A partition of four clients with 32 toy images each; the rest is the test part."""
    from fedcli.data.manifest import Destination
    from fedcli.data.partition import make_partition, resolve
    from fedcli.data.preparation.prepare import Request
    from fedcli.data.preparation.prepare import prepare as stage

    with console.muted():
        toy = stage(
            "toy",
            Request(chosen={"test": 1 - 128 / 1797, "jobs": 1}),
            work=folder,
        )
        return make_partition(
            toy,
            resolve("iid", {"clients": 4}),
            Destination(folder),
        )


def prepare(dataset: str, images: int, repeats: int, jobs: int = 0) -> Timing:
    """Time `fedcli prepare` of a dataset of BARE against work on the same images by hand, on as
    many cores.
    """
    from fedcli.data.preparation.prepare import Request
    from fedcli.data.preparation.prepare import prepare as stage

    form, make_folder, bare_image = BARE[dataset]
    with temporary_folder() as folder:
        raw, out = folder / "raw", folder / "out"
        files = make_folder(raw, images)
        request = Request(raw, {"size": SIDE, "strict": True, "jobs": jobs})

        def ours() -> None:
            stage(dataset, request, work=folder, out=out)

        def bare() -> None:
            for _ in _spread(bare_image, files, jobs):
                pass

        with console.muted():
            pairs = alternate(
                ours,
                bare,
                repeats,
                between=lambda: shutil.rmtree(out, ignore_errors=True),
            )
    return Timing(
        f"prepare {dataset}, {form} to {SIDE} px",
        *pairs,
        images=images,
    )


def _spread(
    function: Callable[[Path], None],
    files: list[Path],
    jobs: int,
) -> Iterator[None]:
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
        cv2.resize(
            np.asarray(image.convert("RGB")),
            (SIDE, SIDE),
            interpolation=cv2.INTER_AREA,
        )


def _bare_slice(file: Path) -> None:
    import pydicom

    cv2 = import_cv2()
    slice_ = pydicom.dcmread(file)
    units = slice_.pixel_array.astype(np.float32) * float(slice_.RescaleSlope) + float(
        slice_.RescaleIntercept
    )
    low = slice_.WindowCenter - slice_.WindowWidth / 2
    grey = np.clip((units - low) * (255 / slice_.WindowWidth), 0, 255).astype(np.uint8)
    cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA)


def _skin_folder(folder: Path, count: int) -> list[Path]:
    """HAM10000's layout; blurred noise compresses about as photographs of skin do. The files of
    images.
    """
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
            table.writerow(
                [
                    f"HAM_{i:07d}",
                    f"ISIC_{i:07d}",
                    ("nv", "mel")[i % 2],
                    "histo",
                    "50.0",
                    "male",
                    "back",
                ]
            )
    return sorted((folder / "images").glob("*.jpg"))


def _ct_folder(folder: Path, count: int) -> list[Path]:
    """Kaggle's layout, with as few fields in a file as its slices have. The files of images."""
    import pydicom

    (folder / "stage_2_train").mkdir(parents=True)
    rng = np.random.default_rng(derive("bench"))
    slice_: Any = pydicom.Dataset()  # its attributes are DICOM fields
    slice_.file_meta = pydicom.dataset.FileMetaDataset()
    slice_.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    slice_.file_meta.MediaStorageSOPClassUID = slice_.SOPClassUID = pydicom.uid.CTImageStorage
    slice_.file_meta.MediaStorageSOPInstanceUID = slice_.SOPInstanceUID = "1.2.3"
    slice_.Modality, slice_.StudyInstanceUID, slice_.SeriesInstanceUID = "CT", "1.2.4", "1.2.5"
    slice_.ImagePositionPatient, slice_.ImageOrientationPatient = (
        [-125, -2, 67],
        [1, 0, 0, 0, 0.97, -0.26],
    )
    slice_.SamplesPerPixel, slice_.PhotometricInterpretation = 1, "MONOCHROME2"
    slice_.Rows, slice_.Columns, slice_.PixelSpacing = 512, 512, [0.488281, 0.488281]
    slice_.BitsAllocated, slice_.BitsStored, slice_.HighBit, slice_.PixelRepresentation = (
        16,
        16,
        15,
        1,
    )
    slice_.WindowCenter, slice_.WindowWidth, slice_.RescaleIntercept, slice_.RescaleSlope = (
        40,
        80,
        -1024,
        1,
    )
    with (folder / "stage_2_train.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["ID", "Label"])
        for i in range(count):
            slice_.PatientID = f"ID_{i // 30:08d}"
            slice_.PixelData = rng.integers(900, 1200, (512, 512), np.int16).tobytes()
            slice_.save_as(folder / "stage_2_train" / f"ID_{i:09d}.dcm", enforce_file_format=True)
            table.writerow([f"ID_{i:09d}_{('subdural', 'epidural')[i % 2]}", 1])
    return sorted((folder / "stage_2_train").glob("*.dcm"))


BARE = {  # dataset -> form of its files, what makes a folder of them, and the work on one by hand
    "isic2018": ("600x450 JPEG", _skin_folder, _bare_photograph),
    "rsna-ich": ("512x512 DICOM", _ct_folder, _bare_slice),
}


if __name__ == "__main__":
    run(main)
