"""Collective communication between processes. See docs/PYTHON.md, and tutti(7) for the words used here.

Buffers are numpy arrays, other objects with the buffer protocol, or tensors with DLPack, that are contiguous in C order.
They are never copied. Time limits are in seconds: None is the default of the communicator, math.inf is no limit.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

from tutti import _core
from tutti._objects import ObjectCalls


class Error(RuntimeError):
    """An error of the library. The text is the library's message."""


class ArgumentError(Error, ValueError):
    """Invalid call or option."""


class EnvironmentVariableError(Error):
    """Environment variables that are incomplete, unknown or malformed."""


class MismatchError(Error):
    """Two ranks disagree about a call."""


class PeerError(Error):
    """A rank died or left."""


class TimeoutError(Error, TimeoutError):
    """A time limit ran out."""


class AbortedError(Error):
    """A rank called abort()."""


class OutOfMemoryError(Error, MemoryError):
    """Out of memory."""


class SystemCallError(Error):
    """A system call failed."""


class UnsupportedError(Error):
    """The operation is not supported on this host or in this configuration."""


class Op(enum.IntEnum):
    """Operations of reductions."""

    SUM = 0
    PROD = 1
    MIN = 2
    MAX = 3
    AVG = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    LAND = 8
    LOR = 9
    LXOR = 10


class Datatype(enum.IntEnum):
    """Datatypes, for dtype=. Without it the elements of the buffer tell the datatype."""

    I8 = 0
    U8 = 1
    I16 = 2
    U16 = 3
    I32 = 4
    U32 = 5
    I64 = 6
    U64 = 7
    BOOL = 8
    F16 = 16
    BF16 = 17
    F32 = 18
    F64 = 19
    F8E4M3 = 24
    F8E5M2 = 25


globals().update(Op.__members__)
globals().update(Datatype.__members__)


class _InPlace:
    def __repr__(self) -> str:
        return "tutti.IN_PLACE"


IN_PLACE = _InPlace()
ANY_RANK = 0xFFFFFFFF
ANY_TAG = 0xFFFFFFFF
NO_COLOR = -1

_core.set_up(
    (
        Error,
        ArgumentError,
        EnvironmentVariableError,
        MismatchError,
        PeerError,
        TimeoutError,
        AbortedError,
        OutOfMemoryError,
        SystemCallError,
        UnsupportedError,
    ),
    IN_PLACE,
)

# Values of tutti_collective.
_ALLREDUCE, _REDUCE, _BROADCAST, _GATHER, _SCATTER, _ALLGATHER, _REDUCE_SCATTER, _ALLTOALL, _BARRIER, _SCAN, _EXSCAN = range(11)
_GATHERV, _SCATTERV, _ALLGATHERV, _REDUCE_SCATTERV, _ALLTOALLV = range(32, 37)
_SEND, _RECV = 64, 65


def _ms(timeout: Optional[float]) -> int:
    """Returns a time limit in ms as tutti.h has it."""
    if timeout is None:
        return 0
    if timeout == math.inf:
        return -1
    if not 0 < timeout <= 2_000_000:
        raise ArgumentError(f"timeout: expected seconds greater than 0 and at most 2,000,000, or math.inf, got {timeout}")
    return max(1, round(timeout * 1000))


def _how(order: Optional[str], leaves: int) -> tuple:
    """Returns the arguments that only reductions have."""
    return (order, leaves) if order is not None or leaves else ()


Request = _core.Request
Memory = _core.Memory


@dataclasses.dataclass(frozen=True, slots=True)
class RankStats:
    """What is known of a rank of a communicator: see Communicator.stats(). Times are in ns."""

    calls: int  # collectives that the rank has started
    messages: int  # messages that it has sent or received
    message_bytes: int  # their bytes
    waited_ns: int  # how long it has waited for others
    awaited_ns: int  # how long the ranks of the calling rank's host have waited for it
    awaited_here_ns: int  # how long the calling rank has waited for it


class _Recorder:
    """Stands for a communicator in its own methods: what they would run is given to `take`."""

    __slots__ = ("rank", "_run")

    def __init__(self, comm: _core.Comm, take: Callable[..., Request]) -> None:
        self.rank = comm.rank
        self._run = take


def _nonblocking(call: Callable[..., None]) -> Callable[..., Request]:
    @functools.wraps(call)
    def start(self: Communicator, *arguments: Any, **options: Any) -> Request:
        return call(_Recorder(self, self._start), *arguments, **options)

    start.__name__ = "i" + call.__name__
    start.__doc__ = f"Starts {call.__name__}() and returns a Request. The buffers belong to the call until it is complete."
    return start


class Communicator(ObjectCalls, _core.Comm):
    """The ranks that make calls together. Made by init(), split(), dup(), create() and alone().

    A communicator that is not freed ends when it is collected; as a context manager it ends with close().
    """

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            self.close()
        except Error:
            if kind is None:
                raise

    def split(self, color: int, key: int = 0) -> Optional[Communicator]:
        """Ranks with equal colour form a communicator, ordered by key. Collective. NO_COLOR joins none: None."""
        return self._split(color, key)

    def create(self, ranks: Sequence[int], tag: int = 0) -> Communicator:
        """Makes a communicator of these ranks: ranks[i] becomes its rank i. Only they call, with the same list and tag."""
        return self._create(ranks, tag)

    def set_timeout(self, timeout: Optional[float]) -> None:
        """Sets the time limit of calls that set no limit of their own. None: no limit."""
        self._set_timeout_ms(_ms(timeout))

    def stats(self, rank: Optional[int] = None):
        """Returns the RankStats of a rank; without a rank, a list with those of all ranks. Local; does not wait.

        A rank for which the others wait long (awaited_ns) is slow, or has more to do. Of a rank on another host, calls is
        what it has told so far; messages, message_bytes and waited_ns are 0. ArgumentError: there is no such rank.
        """
        if rank is None:
            return [RankStats(*self._stats(each)) for each in range(self.size)]
        return RankStats(*self._stats(rank))

    def abort(self, reason: Optional[str] = None) -> None:
        """Fails the communicator on all of its ranks with this reason."""
        self._abort(reason)

    def alloc(self, shape, dtype=float):
        """Returns a numpy array of this shape in memory that all ranks of the host map: see alloc_bytes().

        Its content is undefined. ArgumentError: negative lengths, or elements that are Python objects.
        """
        import numpy

        dtype = numpy.dtype(dtype)
        shape = tuple(shape) if isinstance(shape, Iterable) else (shape,)
        lengths = list(map(operator.index, shape))
        if dtype.hasobject:
            raise ArgumentError("alloc: Python objects cannot lie in shared memory; expected numbers")
        if min(lengths, default=0) < 0:
            raise ArgumentError(f"alloc: expected lengths of 0 or more, got {shape}")
        return numpy.ndarray(lengths, dtype, self.alloc_bytes(math.prod(lengths) * dtype.itemsize))

    def allreduce(
        self, send, recv=None, op=0, *, dtype=-1, algorithm=None, lanes=0, timeout=None, order=None, leaves=0
    ) -> None:
        """Reduces the inputs of all ranks; every rank gets the result. Without recv it replaces the input.

        order="canonical" fixes the order of additions, as order of init() does for all calls. leaves=k: send has k inputs, one
        after the other, of which recv has the length of one; k is equal on all ranks, and a power of two if there are several.
        Then 12 leaves in all have the same bits on 12, 6, 3 and 1 ranks (docs/ORDER.md). All reductions have both.
        """
        recv = send if recv is None else recv
        limit = 0 if timeout is None else _ms(timeout)
        return self._run(0, send, recv, dtype, op, 0, 0, 0, algorithm, lanes, limit, *_how(order, leaves))

    def reduce(
        self, send, recv=None, op=0, root=0, *, dtype=-1, algorithm=None, lanes=0, timeout=None, order=None, leaves=0
    ) -> None:
        """Reduces the inputs of all ranks; root gets the result. Without recv it replaces the input of root."""
        recv = send if recv is None and self.rank == root else recv
        return self._run(_REDUCE, send, recv, dtype, op, root, 0, 0, algorithm, lanes, _ms(timeout), *_how(order, leaves))

    def broadcast(self, buffer, root=0, *, dtype=-1, algorithm=None, lanes=0, timeout=None) -> None:
        """Copies the buffer of root to all ranks."""
        send, recv = (buffer, None) if self.rank == root else (None, buffer)
        return self._run(_BROADCAST, send, recv, dtype, 0, root, 0, 0, algorithm, lanes, _ms(timeout))

    def gather(self, send, recv=None, root=0, *, dtype=-1, algorithm=None, lanes=0, timeout=None) -> None:
        """Collects the inputs of all ranks in recv of root, in rank order. send may be IN_PLACE at root."""
        recv = recv if self.rank == root else None
        return self._run(_GATHER, send, recv, dtype, 0, root, 0, 0, algorithm, lanes, _ms(timeout))

    def scatter(self, send, recv, root=0, *, dtype=-1, algorithm=None, lanes=0, timeout=None) -> None:
        """Gives every rank its block of the buffer of root. recv may be IN_PLACE at root."""
        send = send if self.rank == root else None
        return self._run(_SCATTER, send, recv, dtype, 0, root, 0, 0, algorithm, lanes, _ms(timeout))

    def allgather(self, send, recv, *, dtype=-1, algorithm=None, lanes=0, timeout=None) -> None:
        """Collects the inputs of all ranks on every rank, in rank order. send may be IN_PLACE."""
        return self._run(_ALLGATHER, send, recv, dtype, 0, 0, 0, 0, algorithm, lanes, _ms(timeout))

    def reduce_scatter(
        self, send, recv, op=0, *, dtype=-1, algorithm=None, lanes=0, timeout=None, order=None, leaves=0
    ) -> None:
        """Reduces the inputs of all ranks; every rank gets its block. recv may be IN_PLACE."""
        return self._run(_REDUCE_SCATTER, send, recv, dtype, op, 0, 0, 0, algorithm, lanes, _ms(timeout), *_how(order, leaves))

    def alltoall(self, send, recv=None, *, dtype=-1, algorithm=None, lanes=0, timeout=None) -> None:
        """Sends block i to rank i, and collects the blocks of all ranks. Without recv they replace the input."""
        recv = send if recv is None else recv
        return self._run(_ALLTOALL, send, recv, dtype, 0, 0, 0, 0, algorithm, lanes, _ms(timeout))

    def barrier(self, *, algorithm=None, timeout=None) -> None:
        """Waits until all ranks have called barrier()."""
        return self._run(_BARRIER, None, None, Datatype.U8, 0, 0, 0, 0, algorithm, 0, _ms(timeout))

    def scan(
        self, send, recv=None, op=0, *, dtype=-1, algorithm=None, lanes=0, timeout=None, order=None, leaves=0
    ) -> None:
        """Rank r gets the reduction of the inputs of ranks 0 to r. Without recv it replaces the input."""
        recv = send if recv is None else recv
        return self._run(_SCAN, send, recv, dtype, op, 0, 0, 0, algorithm, lanes, _ms(timeout), *_how(order, leaves))

    def exscan(
        self, send, recv=None, op=0, *, dtype=-1, algorithm=None, lanes=0, timeout=None, order=None, leaves=0
    ) -> None:
        """Rank r gets the reduction of the inputs of ranks 0 to r - 1; recv of rank 0 is unchanged."""
        recv = send if recv is None else recv
        return self._run(_EXSCAN, send, recv, dtype, op, 0, 0, 0, algorithm, lanes, _ms(timeout), *_how(order, leaves))

    def send(self, buffer, peer, tag=0, *, dtype=-1, lanes=0, timeout=None) -> None:
        """Sends a message to peer."""
        return self._run(_SEND, buffer, None, dtype, 0, 0, peer, tag, None, lanes, _ms(timeout))

    def recv(self, buffer, peer=ANY_RANK, tag=0, *, dtype=-1, lanes=0, timeout=None) -> None:
        """Receives the next message of peer with this tag. Its length must be that of the buffer."""
        return self._run(_RECV, None, buffer, dtype, 0, 0, peer, tag, None, lanes, _ms(timeout))

    def gatherv(
        self, send, recv=None, counts=None, offsets=None, root=0, *, dtype=-1, algorithm=None, lanes=0, timeout=None
    ) -> None:
        """Collects blocks of different sizes in recv of root. counts, offsets: elements, one number per rank, at root."""
        recv, counts, offsets = (recv, counts, offsets) if self.rank == root else (None, None, None)
        blocks = counts, offsets, None, None
        return self._run(_GATHERV, send, recv, dtype, 0, root, 0, 0, algorithm, lanes, _ms(timeout), *blocks)

    def scatterv(
        self, send, recv, counts=None, offsets=None, root=0, *, dtype=-1, algorithm=None, lanes=0, timeout=None
    ) -> None:
        """Distributes blocks of different sizes of send of root. counts, offsets as in gatherv()."""
        send, counts, offsets = (send, counts, offsets) if self.rank == root else (None, None, None)
        blocks = counts, offsets, None, None
        return self._run(_SCATTERV, send, recv, dtype, 0, root, 0, 0, algorithm, lanes, _ms(timeout), *blocks)

    def allgatherv(self, send, recv, counts, offsets=None, *, dtype=-1, algorithm=None, lanes=0, timeout=None) -> None:
        """Collects blocks of different sizes on all ranks. counts, offsets: elements, equal on all ranks."""
        blocks = counts, offsets, None, None
        return self._run(_ALLGATHERV, send, recv, dtype, 0, 0, 0, 0, algorithm, lanes, _ms(timeout), *blocks)

    def reduce_scatterv(
        self, send, recv, counts, offsets=None, op=0, *,
        dtype=-1, algorithm=None, lanes=0, timeout=None, order=None, leaves=0
    ) -> None:
        """Reduces the inputs of all ranks; rank r gets counts[r] elements. counts, offsets: equal on all ranks."""
        blocks = counts, offsets, None, None
        return self._run(_REDUCE_SCATTERV, send, recv, dtype, op, 0, 0, 0, algorithm, lanes, _ms(timeout), *blocks, *_how(order, leaves))

    def alltoallv(
        self, send, recv, counts, recv_counts, offsets=None, recv_offsets=None, *,
        dtype=-1, algorithm=None, lanes=0, timeout=None
    ) -> None:  # fmt: skip
        """Sends counts[i] elements to rank i, and receives recv_counts[i] of rank i."""
        blocks = counts, offsets, recv_counts, recv_offsets
        return self._run(_ALLTOALLV, send, recv, dtype, 0, 0, 0, 0, algorithm, lanes, _ms(timeout), *blocks)

    iallreduce, ireduce, ibroadcast = map(_nonblocking, (allreduce, reduce, broadcast))
    igather, iscatter, iallgather = map(_nonblocking, (gather, scatter, allgather))
    ireduce_scatter, ialltoall, ibarrier = map(_nonblocking, (reduce_scatter, alltoall, barrier))
    igatherv, iscatterv, iallgatherv = map(_nonblocking, (gatherv, scatterv, allgatherv))
    ireduce_scatterv, ialltoallv = map(_nonblocking, (reduce_scatterv, alltoallv))
    iscan, iexscan, isend, irecv = map(_nonblocking, (scan, exscan, send, recv))

    def prepare(self, name: str, *arguments: Any, **options: Any) -> Request:
        """Makes a request that can be started many times: prepare("allreduce", array), then start() and wait()."""
        if name not in _PREPARED:
            raise ArgumentError(f"prepare: expected one of {', '.join(_PREPARED)}, got {name!r}")
        return getattr(Communicator, name)(_Recorder(self, self._prepare), *arguments, **options)


_PREPARED = [name[1:] for name in vars(Communicator) if name[0] == "i" and name[1:] in vars(Communicator)]


def wait_all(requests: Iterable[Request]) -> None:
    """Waits until all requests are complete, and raises their first error."""
    first = None
    for request in requests:
        try:
            request.wait()
        except Error as error:
            first = first or error
    if first:
        raise first


def test_some(requests: Sequence[Optional[Request]]) -> list[int]:
    """Advances all open requests once. Returns the positions of the requests of the list that have become complete.

    Skips None, and requests that were found to be complete before. If a request has failed, raises its error; `done`
    tells which requests are complete then.
    """
    return _core.test_some(requests)


def wait_any(requests: Sequence[Request]) -> int:
    """Waits until one request is complete. Returns its position; remove it from the list before the next call."""
    if not requests:
        raise ArgumentError("wait_any: expected at least one request, got none")
    while True:
        for position, request in enumerate(requests):
            if request.test():
                return position
        try:
            requests[0].communicator._progress()
        except Error:
            pass  # the next test raises it


def init(
    *,
    timeout: Optional[float] = None,
    join_timeout: Optional[float] = None,
    progress_thread: bool = False,
    rank: int = 0,
    ranks: int = 0,
    address: Optional[str] = None,
    port: int = 0,
    secret: Optional[str] = None,
    spin_us: int = 0,
    order: str = "any",
) -> Communicator:
    """Joins the world that the environment or the options describe. Collective over all processes of the job.

    timeout, in seconds, is that of calls that set no limit of their own. order is the order in which reductions of this
    communicator and its children add: "any", or "canonical", with which results have the same bits for any size,
    algorithm and place (docs/ORDER.md; by default what TUTTI_ORDER says). ArgumentError: another order. The options mean what tutti_init(3) says; rank,
    address, port and secret are needed only if the environment does not describe the job.
    """
    identity = {"rank": rank, "ranks": ranks, "address": address, "port": port, "secret": secret}
    limits = {"timeout_ms": _ms(timeout), "join_timeout_ms": _ms(join_timeout), "spin_us": spin_us}
    return Communicator._init(progress_thread=progress_thread, order=order, **limits, **identity)
