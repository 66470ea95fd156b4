"""A GPU without one: real CPU tensors that answer cuda:0, with what else would differ there raised as a Fault.

A storage is on the device where it was made there, copied there, or computed from what is there. Refused, as torch or a
GPU would refuse it: operands of two devices, NumPy of a device tensor, a generator of the CPU, an operation that
deterministic mode has no kernel for, a wait of the host or numbers from it while a step is recorded. Also refused, as
nothing on a GPU would notice it: a read on one stream of what another one wrote and was not waited for. A recorded
step keeps what it read from the host and repeats on the device alone. What this cannot show: kernels, the allocator,
time and numerics.
"""

import threading
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest import mock

import torch
from pretended_graphs import Graph, about, capture
from pretended_streams import (
    Fault,
    Stream,
    T,
    begin,
    capturing,
    current,
    held,
    key,
    local,
    on,
    page_locked,
    places,
    synchronize,
    tag,
    tensors_of,
    there,
    waits,
)
from torch.cuda._utils import _get_device_index
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from fedcli.data import transforms

CUDA = torch.device("cuda:0")
CPU = torch.device("cpu")
NO_KERNEL = {
    "_adaptive_avg_pool2d_backward",
    "adaptive_max_pool2d_backward",
    "avg_pool3d_backward",
    "histc",
    "max_pool3d_with_indices_backward",
    "kthvalue",
    "median",
    "nanmedian",
    "grid_sampler_2d_backward",
    "upsample_linear1d_backward",
    "upsample_bilinear2d_backward",
    "upsample_bicubic2d_backward",
    "_upsample_bilinear2d_aa_backward",
    "_upsample_bicubic2d_aa_backward",
    "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "replication_pad2d_backward",
    "nll_loss2d_forward",
    "put_",
    "scatter_reduce",
    "_ctc_loss_backward",
}
WAITS = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "unique_dim",
    "_unique2",
    "unique_consecutive",
    "bincount",
    "equal",
    "is_nonzero",
    "_linalg_svd",
    "_linalg_eigh",
    "repeat_interleave",
}
ONE_DEVICE = {
    "addcmul",
    "addcmul_",
    "addcdiv",
    "addcdiv_",
}  # take no number from the host before torch 2.7
LIKE = {f"{kind}_like" for kind in ("zeros", "ones", "empty", "full", "rand", "randn")}
LIKE |= {f"new_{kind}" for kind in ("zeros", "ones", "empty", "full", "tensor")}
FROM_NUMBERS = {"tensor", "as_tensor", "asarray", "new_tensor"}


class Operations(TorchDispatchMode):
    """Every operation: whether its operands are on one device and may be read, and where its results are."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(local, "moving", False):
            return func(*args, **kwargs)
        tensors = tensors_of(kwargs.values(), tensors_of(args, []))
        blocks = [places.get(key(tensor)) for tensor in tensors]
        name, writes = about(func)
        if any(blocks):
            is_on_host = self.check(name, tensors, blocks, args, kwargs)
        out = func(*args, **kwargs)
        if not tensors and getattr(local, "inside", False) and isinstance(out, T):
            tag(out)
        if any(blocks) and not is_on_host:
            before = {block for block in blocks if block}
            for tensor in tensors_of([out], []):
                if writes or places.get(key(tensor)) not in before:  # a view is no write
                    tag(tensor)
        return out

    def check(self, name, tensors, blocks, args, kwargs):
        """Raises Fault; whether the result comes back to the host."""
        self.check_order(name, tensors, blocks)
        if name in NO_KERNEL and torch.is_deterministic_algorithms_enabled():
            raise Fault(f"{name} has no deterministic kernel on a GPU")
        if isinstance(kwargs.get("generator"), torch.Generator):
            raise Fault(f"{name} draws on the GPU from a generator of the CPU")
        indexes = name in ("index", "index_put_", "_index_put_impl_")
        by_bools = indexes and any(
            index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
        )
        if name in WAITS or by_bools:
            waits(name)
        if all(blocks):
            return False
        if name == "copy_":
            if not (blocks[0] and len(args) > 2 and args[2] and key(tensors[1]) in page_locked):
                waits("a copy")
            elif capturing():
                raise Fault("a recorded step reads the host's memory")
            return not blocks[0]
        if indexes and blocks[0] and (name == "index" or blocks[-1] or not tensors[-1].ndim):
            waits("an index on the host")
        else:
            self.check_devices(name, tensors, blocks)
        return False

    def check_order(self, name, tensors, blocks):
        """Raises Fault where a tensor may be read before it is written."""
        stream = current()
        for tensor, block in zip(tensors, blocks):
            if block and not stream.knows(block):
                raise Fault(
                    f"{name} reads {list(tensor.shape)} on a stream that did not wait for the one that wrote it"
                )

    def check_devices(self, name, tensors, blocks):
        """Raises Fault where a tensor of the host takes part in what only the GPU may hold."""
        on_host = [tensor for tensor, block in zip(tensors, blocks) if not block]
        if name != "set_" and (any(tensor.ndim for tensor in on_host) or name in ONE_DEVICE):
            shapes = []
            for tensor, block in zip(tensors, blocks):
                shapes.append((list(tensor.shape), "GPU" if block else "CPU"))
            raise Fault(f"{name} of tensors on two devices: {shapes}")


def moved(tensor, device, non_blocking, kind):
    """Tensor.to(): a copy where the device is another."""
    if there(tensor) == (device.type == "cuda"):
        return tensor.to(**kind) if kind else tensor
    kind.pop("copy", None)
    block = places.get(key(tensor))
    if block and not current().knows(block):
        raise Fault("a copy to the host of what another stream wrote and was not waited for")
    if capturing():
        raise Fault("a recorded step copies between the host and the GPU")
    if block or not (non_blocking and key(tensor) in page_locked):
        waits("a copy")
    local.moving = True
    try:
        copy = tensor.to(copy=True, **kind)
    finally:
        local.moving = False
    if device.type == "cuda":
        tag(copy)
        if not (non_blocking and key(tensor) in page_locked):
            waits("a copy")
    return copy


def to(tensor, *args, **kwargs):
    args = list(args)
    device = kwargs.pop("device", None)
    if args and isinstance(args[0], T):
        device = CUDA if there(args[0]) else CPU
        kwargs["dtype"] = args.pop(0).dtype
    elif args and isinstance(args[0], str | torch.device | int):
        device = args.pop(0)
    if args and isinstance(args[0], torch.dtype):
        kwargs["dtype"] = args.pop(0)
    if args:
        kwargs["non_blocking"] = args.pop(0)
    non_blocking = kwargs.pop("non_blocking", False)
    if device is None:
        return tensor.to(**kwargs) if kwargs else tensor
    return moved(
        tensor,
        torch.device(device),
        non_blocking,
        {k: v for k, v in kwargs.items() if v is not None},
    )


def to_numpy(tensor, dtype=None, force=False):
    if there(tensor):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")
    array = tensor.numpy(force=force)
    return array if dtype is None else array.astype(dtype, copy=False)


def pinned(tensor):
    if there(tensor):
        raise RuntimeError("cannot pin a tensor of the GPU")
    copy = tensor.clone()
    page_locked[key(copy)] = StorageWeakRef(copy.untyped_storage())
    return copy


def recorded_on(tensor, stream):
    if not there(tensor):
        raise RuntimeError("record_stream of a tensor of the CPU")


ANSWERS = {
    T.device.__get__: lambda tensor: CUDA if there(tensor) else CPU,
    T.is_cuda.__get__: there,
    T.is_cpu.__get__: lambda tensor: not there(tensor),
    T.get_device: lambda tensor: 0 if there(tensor) else -1,
    T.to: to,
    T.cpu: lambda tensor: moved(tensor, CPU, False, {}),
    T.cuda: lambda tensor: moved(tensor, CUDA, False, {}),
    T.numpy: to_numpy,
    T.__array__: to_numpy,
    T.pin_memory: pinned,
    T.is_pinned: lambda tensor: key(tensor) in page_locked,
}
PLAIN = {
    "__get__",
    "__set__",
    "untyped_storage",
    "data_ptr",
    "set_",
    "size",
    "dim",
    "numel",
    "is_floating_point",
    "stride",
}


class Functions(TorchFunctionMode):
    """Every function of torch: what a tensor says of its device, and factories that are told one."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in ANSWERS:
            return ANSWERS[func](*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in PLAIN:
            return func(*args, **kwargs)
        device = kwargs.get("device")
        if device is not None:
            kwargs["device"] = CPU
            device = torch.device(device)
        elif name in LIKE or func is T.__deepcopy__:
            device = CUDA if there(args[0]) else None
        pin = kwargs.pop("pin_memory", False)
        onto = device is not None and device.type == "cuda"
        if onto and isinstance(kwargs.get("generator"), torch.Generator):
            raise Fault(f"{name} draws on the GPU from a generator of the CPU")
        before = getattr(
            local, "inside", False
        )  # torch's own parts of an operation on the device make theirs there
        local.inside = before or any(map(there, tensors_of([*args, *kwargs.values()], [])))
        try:
            out = func(*args, **kwargs)
        finally:
            local.inside = before
        if pin:
            page_locked[key(out)] = StorageWeakRef(out.untyped_storage())
        if onto and isinstance(out, T):
            if name in FROM_NUMBERS:
                waits(f"torch.{name} on the GPU")
            tag(out)
            if name in FROM_NUMBERS:
                waits(f"torch.{name} on the GPU")
        return out


class _Autocast(torch.autocast):
    def __init__(self, device_type, *args, **kwargs):
        super().__init__("cpu" if device_type == "cuda" else device_type, *args, **kwargs)


def _thread(run):
    """A thread begins on the default stream, and what it does counts too."""

    def noticed(self):
        with Functions(), Operations():
            run(self)

    return noticed


def _grouped(groups):
    """torch.optim asks C++, which sees the CPU."""

    def answered(tensors, **rest):
        lists_by_kind = groups(tensors, **rest)
        return {
            (CUDA if there(lists[0][0]) else device, kind): (lists, indices)
            for (device, kind), (lists, indices) in lists_by_kind.items()
        }

    return answered


@contextmanager
def pretended(free=80 << 30):
    """A GPU within. free: bytes of its memory."""
    begin()
    (
        transforms._normal.cache_clear(),
        transforms.by_channel.cache_clear(),
    )  # which may hold what was there before
    Graph.captures = 0
    fakes = dict(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 1,
        empty_cache=lambda: None,
        _lazy_init=lambda: None,
        set_device=lambda device: _get_device_index(device) and None,
        current_device=lambda: 0,
        mem_get_info=lambda device=None: (free, 80 << 30),
        memory_allocated=held,
        max_memory_allocated=held,
        reset_peak_memory_stats=lambda device=None: None,
        synchronize=synchronize,
        Stream=Stream,
        current_stream=current,
        stream=on,
        CUDAGraph=Graph,
        graph=capture,
        is_current_stream_capturing=capturing,
        get_device_name=lambda device=None: "pretended GPU",
        get_rng_state=lambda device=None: torch.default_generator.get_state(),
        set_rng_state=lambda state, device=None: torch.default_generator.set_state(state),
        manual_seed_all=lambda seed: None,
    )
    with ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(torch.cuda, **fakes))
        stack.enter_context(
            mock.patch.object(T, "record_stream", recorded_on)
        )  # takes no other kind of stream
        stack.enter_context(mock.patch.object(torch, "autocast", _Autocast))
        groups = torch.optim.Optimizer._group_tensors_by_device_and_dtype
        grouping = mock.patch.object(
            torch.optim.Optimizer, groups.__name__, staticmethod(_grouped(groups))
        )
        stack.enter_context(grouping)
        if hasattr(torch, "accelerator"):  # optimizers ask it since torch 2.14
            asked = SimpleNamespace(is_capturing=capturing)
            stack.enter_context(
                mock.patch.object(torch.accelerator, "current_stream", return_value=asked)
            )
        stack.enter_context(
            mock.patch.object(threading.Thread, "run", _thread(threading.Thread.run))
        )
        stack.enter_context(Functions())
        stack.enter_context(Operations())
        yield
