"""Arithmetic and memory traffic of a training, beside the measured limits of its machine.

The limits are those of one large matrix product and of one large copy, measured after the training
on as many threads, in the same precision. What the training did follows from two steps of a client
that are counted operation by operation: floating-point operations of matrix products and
convolutions, and bytes that all operations read and wrote. Caches keep part of those bytes from
memory, so their share can exceed one.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .. import console
from ..federation.client import ClientReport, ClientTask, run_client
from ..federation.engines import chosen
from ..federation.engines.in_process import InProcess
from ..methods.mixins import SubsetTraining
from ..runs.assembly import PlannedFederation
from .measuring import next_state, seconds_of, some_images, threads

LEAST = 5.0  # seconds of training, below which measuring would be a large part of it
SECONDS = 0.2  # for each limit
BATCHES = 2  # of the client whose steps are counted
SIDE = {"cpu": 1024, "cuda": 8192}  # of the square matrices
# arguments of aten.convolution_backward after its three tensors
TRANSPOSED = 4
OUTPUT_MASK = 7
COPIED = {"cpu": 2**26, "cuda": 2**30}  # bytes


def measure(federation: PlannedFederation, seconds: float) -> dict[str, Any] | None:
    """The last line of timing.jsonl.

    None where a training took less than LEAST seconds, where a rule selects who trains, since the
    counted client does not stand for the others, and where a GPU has too little memory left.

    flops_per_image: floating-point operations of products and convolutions in a round, by trained
        image; bytes_per_image: that its operations read and wrote.
    flops_per_second, bytes_per_second: limits of the machine.
    """
    if seconds < LEAST:
        return None
    rule = federation.method.aggregator
    if isinstance(rule, SubsetTraining) and rule.trains_subset:
        return None
    plan = federation.plan
    name, count = chosen(plan.engine, federation.cohort_size, plan.device)
    thread_count = torch.get_num_threads()
    if name == "pool":
        thread_count *= count
    try:
        with threads(thread_count):
            flops = matrix_speed(plan.device, plan.precision)
            copied = copy_speed(plan.device)
        operations, moved = cost(federation)
    except torch.cuda.OutOfMemoryError:
        console.say(
            "speed is not measured: next to this training the GPU has no memory left for it"
        )
        return None
    return {
        "flops_per_image": operations,
        "bytes_per_image": moved,
        "flops_per_second": flops,
        "bytes_per_second": copied,
    }


def cost(federation: PlannedFederation) -> tuple[float, float]:
    """Operations and bytes of a client's visit by each image, from the client of median size.

    It trains on BATCHES batches of its images, after a round of the same that is not counted.
    """
    sizes = federation.counts
    client = sorted(sizes, key=lambda name: sizes[name])[len(sizes) // 2]
    clients = some_images(
        federation.clients,
        [client],
        BATCHES * federation.plan.batch_size,
    )
    engine = unrecorded(clients)
    state = next_state(federation, federation.first(), [client], engine)
    images = federation.plan.epochs * len(clients.shards[client])
    counts: list[tuple[int, int]] = []

    def counting(tasks: list[ClientTask]) -> list[ClientReport]:
        reports: list[ClientReport] = []
        counts.append(counted(lambda: reports.extend(engine(tasks))))
        return reports

    # the server's part is not counted: it trains on no image
    next_state(federation, state, [client], counting)
    operations = sum(flops for flops, _ in counts)
    moved = sum(bytes_moved for _, bytes_moved in counts)
    return operations / images, moved / images


def unrecorded(clients: InProcess) -> Callable[[list[ClientTask]], Iterator[ClientReport]]:
    """An engine without steps that a GPU recorded, whose operations nothing can count."""
    method = clients.method
    net = clients.net
    layout = clients.layout
    training = clients.training

    def engine(tasks: list[ClientTask]) -> Iterator[ClientReport]:
        for task in tasks:
            shard = clients.shards[task.client]
            val = clients.val.get(task.client)
            yield run_client(method, net, layout, shard, task, training, val=val)

    return engine


def counted(work: Callable[[], object]) -> tuple[int, int]:
    """Floating-point operations of products and convolutions, and bytes of all operations.

    The bytes are those read and written.
    """
    from torch.utils.flop_counter import FlopCounterMode  # takes a compiler with it

    backward = {torch.ops.aten.convolution_backward: _backward_operations}
    operations = FlopCounterMode(display=False, custom_mapping=backward)
    traffic = TrafficCounter()
    with operations, traffic:
        work()
    return operations.get_total_flops(), traffic.bytes


def _backward_operations(
    output_gradient: list[int],
    images: list[int],
    kernel: list[int],
    *options: Any,
    **_outputs: Any,
) -> int:
    """Operations of a convolution's backward pass, from the shapes of its arguments.

    Each gradient, of the images and of the kernel, takes as many as the forward pass. Torch's own
    count of grouped convolutions is too high by up to the number of groups.
    """
    from torch.utils.flop_counter import conv_flop_count

    transposed = options[TRANSPOSED]
    gradients = options[OUTPUT_MASK]
    forward = conv_flop_count(images, kernel, output_gradient, transposed=transposed)
    return forward * (gradients[0] + gradients[1])


def matrix_speed(device: str, precision: str = "fp32") -> float:
    """Floating-point operations per second of a product of two square matrices."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    side = SIDE[device.partition(":")[0]]
    # random numbers: a GPU multiplies equal ones faster
    stream = torch.Generator().manual_seed(0)
    row = torch.randn(side, generator=stream).to(device)
    a = row.outer(row).to(dtype)
    b = a.flip(0)
    product = torch.empty_like(a)
    return 2 * side**3 / _fastest(lambda: torch.mm(a, b, out=product), device)


def copy_speed(device: str) -> float:
    """Bytes per second that a copy reads and writes."""
    size = COPIED[device.partition(":")[0]]
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    copy = torch.empty_like(source)
    return 2 * len(source) / _fastest(lambda: copy.copy_(source), device)


class TrafficCounter(TorchDispatchMode):
    """Counts the bytes of what operations read and write within; views cost nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.is_view:
            return result
        for value in tree_leaves((args, kwargs, result)):
            if isinstance(value, Tensor):
                self.bytes += value.nbytes
        return result


def _fastest(work: Callable[[], object], device: str) -> float:
    """The shortest time in seconds that it takes, of as many as fit into SECONDS."""
    work()  # the first time is slow
    end = time.perf_counter() + SECONDS
    best = seconds_of(work, device)
    while time.perf_counter() < end:
        best = min(best, seconds_of(work, device))
    return best
