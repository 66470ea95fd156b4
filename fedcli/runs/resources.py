"""Devices: their presence, equal bits on them, and their memory in use now and at its peak."""

import contextlib
import os
import platform
import re
import resource
import sys
from pathlib import Path

import torch

from ..errors import FedcliError, UsageError
from ..system import container, processes
from ..system.apple import kernel_value
from ..system.memory import keep_freed

STATUS = Path("/proc/self/status")
ROLLUP = Path("/proc/self/smaps_rollup")
MEMORY = Path("/proc/meminfo")
PROCESSORS = Path("/proc/cpuinfo")
GIB = 2**30


def processor() -> str:
    """The name of this machine's processor, or its family where the system does not say more."""
    lines = PROCESSORS.read_text(encoding="utf-8").splitlines() if PROCESSORS.exists() else []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return kernel_value("machdep.cpu.brand_string") or platform.processor() or platform.machine()


def peak(device: str) -> int:
    """Peak bytes since restart(): of the GPU's memory on CUDA, else resident in this process."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device)
    high_water_mark = _line(STATUS, "VmHWM")
    if high_water_mark:
        return high_water_mark
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return resident if sys.platform == "darwin" else resident * 1024  # bytes there, else kB


def in_use(device: str) -> int:
    """Bytes held now, as peak() counts them; the peak itself where the system does not tell."""
    if device.startswith("cuda"):
        return torch.cuda.memory_allocated(device)
    return _line(STATUS, "VmRSS") or peak(device)


def own() -> int:
    """Peak bytes of this process that no other one shares; 0 where the system does not tell."""
    private = _line(ROLLUP, "Private_Clean") + _line(ROLLUP, "Private_Dirty")
    if not private:
        return 0
    below_peak = _line(STATUS, "VmHWM") - _line(STATUS, "VmRSS")
    return private + max(0, below_peak)


def free(device: str) -> int:
    """Bytes that can still be taken; 0 where the system does not tell."""
    if device.startswith("cuda"):
        return torch.cuda.mem_get_info(device)[0]
    available = _line(MEMORY, "MemAvailable")
    if not available:
        return 0
    return max(1, min([available, *container.memory_left()]))


def side_by_side(count: int) -> int:
    """The number of processes on the CPU for so many pieces of work: as many as there are cores and
    GiB of free memory, at least one.
    """
    limit = min(processes.cores(), count)
    free_bytes = free("cpu")
    return min(limit, max(1, free_bytes // GIB)) if free_bytes else limit


def restart(device: str) -> None:
    """Let peak() count from now on, or from the start of the process where it cannot be reset."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):  # a container that forbids it
        # forgets the high-water mark and nothing else
        Path("/proc/self/clear_refs").write_text("5")


def _line(path: Path, name: str) -> int:
    """Bytes in a line such as "VmHWM:   1234 kB"; 0 where a system writes no such line or file.

    gVisor is one.
    """
    lines = path.read_text().splitlines() if path.exists() else []
    for line in lines:
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def check_device(device: str) -> None:
    """Raises UsageError for a device that is none, FedcliError for one that is not there."""
    if device == "mps":
        why = "Apple's GPUs have no 64-bit floats, in which weights of clients are computed"
        raise UsageError(
            f"--device mps is not supported: {why}", "leave --device out to train on the CPU"
        )
    if not re.fullmatch(r"cpu|cuda(:[0-9]{1,4})?", device):
        raise UsageError(f"--device {device!r} is unknown", "give cpu, cuda or cuda:N")
    if not device.startswith("cuda"):
        return
    if not torch.cuda.is_available():
        version = torch.__version__
        raise FedcliError(
            f"--device {device}: this machine has no CUDA device that torch {version} can use",
            "leave --device out to train on the CPU",
        )
    count = torch.cuda.device_count()
    if device.startswith("cuda:") and int(device[5:]) >= count:
        text = f"--device {device}: this machine has cuda:0 to cuda:{count - 1}"
        raise FedcliError(text, "give one of them")


def be_deterministic(
    device: str,
    threads: int,
    precision: str = "fp32",
) -> None:
    """Make equal inputs give equal bits, and products on a GPU as exact as the precision says.

    Raises as check_device() does.
    """
    check_device(device)
    if threads:
        torch.set_num_threads(threads)
    # cuBLAS needs this for equal bits
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # as use_deterministic_algorithms(), which imports a compiler
    torch.set_deterministic_debug_mode("error")
    # nothing here reads what nothing has written; torch's stubs do not know the attribute
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False
    keep_freed()
    if device.startswith("cuda"):
        # streams and graphs are made on the current one
        torch.cuda.set_device(torch.device(device).index or 0)
        # torch's own choice is on for convolutions and off for matrices
        allows_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = allows_tf32
        torch.backends.cuda.matmul.allow_tf32 = allows_tf32
