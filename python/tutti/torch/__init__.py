"""A backend of torch.distributed for CPU tensors.

    import torch.distributed as dist
    import tutti.torch

    dist.init_process_group("tutti")            # or "cpu:tutti,cuda:nccl" with torch 2

With TORCH_TUTTI_AS_GLOO=1 in the environment, the name "gloo" means this backend, too.
"""

import atexit
import contextlib
import datetime
import os
from typing import Iterator, Optional

import torch
import torch.distributed
from torch.distributed import distributed_c10d

from . import _backend
from ._backend import ProcessGroupTutti

__all__ = ["ProcessGroupTutti", "allreduce", "empty", "memory"]

# Before the interpreter ends, because the thread that completes futures needs it.
atexit.register(_backend.stop)

_IS_TORCH_1 = torch.__version__.startswith("1.")


def allreduce(tensor: torch.Tensor, op: Optional[object] = None, group: Optional[object] = None) -> None:
    """Reduces a contiguous CPU tensor over all ranks of the group, in place. The tensor has the result on return.

    The same as torch.distributed.all_reduce(tensor, op, group), without its overhead. op None: the sum. group None: the default group.
    Raises RuntimeError with the library's message."""
    _backend.allreduce(_backend_of(group), tensor, op)


def _backend_of(group: Optional[object]) -> ProcessGroupTutti:
    group = group or distributed_c10d.GroupMember.WORLD
    if isinstance(group, ProcessGroupTutti):
        return group
    known = _backends.get(group)
    if known is None:
        known = None if _IS_TORCH_1 or group is None else group._get_backend(torch.device("cpu"))
        if not isinstance(known, ProcessGroupTutti):
            raise RuntimeError("tutti.torch: expected a process group with the backend tutti")
        _backends.clear()
        _backends[group] = known
    return known


_backends: dict = {}  # of the group that was used last


def empty(*sizes: int, dtype: Optional[torch.dtype] = None) -> torch.Tensor:
    """Returns an uninitialized tensor in memory that the ranks of the host share, from which long calls need fewer copies.

    There must be a process group. The memory is freed with the last tensor that uses it. Raises RuntimeError if there is no
    group, or no memory left (TUTTI_SHM_BYTES)."""
    return _backend.empty(list(sizes), dtype or torch.get_default_dtype())


@contextlib.contextmanager
def memory() -> Iterator[None]:
    """Within this context, the memory of all new CPU tensors of 4 KiB or more is like that of empty(), while there is room.

    For the buckets of DistributedDataParallel: make the model's wrapper, with gradient_as_bucket_view=True, and run its first
    two iterations within it. There must be a process group."""
    _backend.use_memory(True)
    try:
        yield
    finally:
        _backend.use_memory(False)


def _create(store, rank: int, size: int, timeout: datetime.timedelta) -> ProcessGroupTutti:
    return ProcessGroupTutti(store, rank, size, timeout)


if not hasattr(distributed_c10d.Backend, "TUTTI"):
    if _IS_TORCH_1:
        distributed_c10d.Backend.register_backend("tutti", _create)
    else:
        distributed_c10d.Backend.register_backend("tutti", _create, devices=["cpu"])


# ---- the name "gloo" --------------------------------------------------------------------------------------------------


class _Named(type):
    """The class that has gloo's name: isinstance() accepts groups of this backend, and a call makes one."""

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, ProcessGroupTutti)

    def __call__(cls, store, rank: int, size: int, timeout=distributed_c10d.default_pg_timeout) -> ProcessGroupTutti:
        return ProcessGroupTutti(store, rank, size, timeout)


class _ProcessGroupGloo(metaclass=_Named):
    create_device = ProcessGroupTutti.create_device
    create_default_device = ProcessGroupTutti.create_default_device


if os.environ.get("TORCH_TUTTI_AS_GLOO") == "1":
    distributed_c10d.ProcessGroupGloo = _ProcessGroupGloo
    if _IS_TORCH_1:
        # With TORCH_DISTRIBUTED_DEBUG=DETAIL, torch 1.13 checks calls by a class that accepts only gloo's own. The library
        # itself compares the calls of all ranks.
        distributed_c10d._create_process_group_wrapper = lambda wrapped_pg, *_args, **_named: wrapped_pg
