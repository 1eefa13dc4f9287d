# Types of the package tutti (PEP 561). What the names mean is in __init__.py.

import builtins
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Optional, Protocol, SupportsIndex, TypeVar, Union, final, overload

import numpy
from _typeshed import ReadableBuffer, WriteableBuffer
from numpy.typing import DTypeLike, NDArray

class Error(RuntimeError): ...
class ArgumentError(Error, ValueError): ...
class EnvironmentVariableError(Error): ...
class MismatchError(Error): ...
class PeerError(Error): ...
class TimeoutError(Error, builtins.TimeoutError): ...
class AbortedError(Error): ...
class OutOfMemoryError(Error, MemoryError): ...
class SystemCallError(Error): ...
class UnsupportedError(Error): ...

class Op(enum.IntEnum):
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

SUM: Final = Op.SUM
PROD: Final = Op.PROD
MIN: Final = Op.MIN
MAX: Final = Op.MAX
AVG: Final = Op.AVG
BAND: Final = Op.BAND
BOR: Final = Op.BOR
BXOR: Final = Op.BXOR
LAND: Final = Op.LAND
LOR: Final = Op.LOR
LXOR: Final = Op.LXOR
I8: Final = Datatype.I8
U8: Final = Datatype.U8
I16: Final = Datatype.I16
U16: Final = Datatype.U16
I32: Final = Datatype.I32
U32: Final = Datatype.U32
I64: Final = Datatype.I64
U64: Final = Datatype.U64
BOOL: Final = Datatype.BOOL
F16: Final = Datatype.F16
BF16: Final = Datatype.BF16
F32: Final = Datatype.F32
F64: Final = Datatype.F64
F8E4M3: Final = Datatype.F8E4M3
F8E5M2: Final = Datatype.F8E5M2

@final
class _InPlace: ...

IN_PLACE: Final[_InPlace]
ANY_RANK: Final = 0xFFFFFFFF
ANY_TAG: Final = 0xFFFFFFFF
NO_COLOR: Final = -1

class _Tensor(Protocol):
    """An object with DLPack: a tensor of torch and others, a numpy array."""

    def __dlpack_device__(self) -> tuple[Any, Any]: ...

_Input = Union[ReadableBuffer, _Tensor]
_Output = Union[WriteableBuffer, _Tensor]
_Counts = Optional[Sequence[SupportsIndex]]
_Shape = Union[SupportsIndex, Sequence[SupportsIndex]]
_Scalar = TypeVar("_Scalar", bound=numpy.generic)

@final
class Memory:
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...

@dataclass(frozen=True)
class RankStats:
    calls: int
    messages: int
    message_bytes: int
    waited_ns: int
    awaited_ns: int
    awaited_here_ns: int

@final
class Request:
    @property
    def done(self) -> bool: ...
    @property
    def communicator(self) -> Communicator: ...
    def start(self) -> None: ...
    def wait(self, timeout: Optional[float] = None) -> None: ...
    def test(self) -> bool: ...

class Communicator:
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    def __enter__(self) -> Communicator: ...
    def __exit__(self, kind: object, *error: object) -> None: ...
    def split(self, color: int, key: int = 0) -> Optional[Communicator]: ...
    def dup(self) -> Communicator: ...
    def alone(self) -> Communicator: ...
    def create(self, ranks: Sequence[int], tag: int = 0) -> Communicator: ...
    def free(self) -> None: ...
    def close(self) -> None: ...
    def abort(self, reason: Optional[str] = None) -> None: ...
    def set_timeout(self, timeout: Optional[float]) -> None: ...
    @overload
    def stats(self, rank: SupportsIndex) -> RankStats: ...
    @overload
    def stats(self, rank: None = None) -> list[RankStats]: ...
    @overload
    def alloc(self, shape: _Shape, dtype: type[_Scalar]) -> NDArray[_Scalar]: ...
    @overload
    def alloc(self, shape: _Shape, dtype: DTypeLike = ...) -> NDArray[Any]: ...
    def alloc_bytes(self, bytes: SupportsIndex, /) -> Memory: ...
    def prepare(self, name: str, *arguments: Any, **options: Any) -> Request: ...
    def broadcast_object(self, value: Any = None, root: int = 0) -> Any: ...
    def gather_object(self, value: Any, root: int = 0) -> Optional[list[Any]]: ...
    def allgather_object(self, value: Any) -> list[Any]: ...
    def scatter_object(self, values: Optional[Sequence[Any]] = None, root: int = 0) -> Any: ...
    def send_object(self, value: Any, peer: int, tag: int = 0) -> None: ...
    def recv_object(self, peer: int, tag: int = 0) -> Any: ...
    def allreduce(
        self, send: _Input, recv: Optional[_Output] = None, op: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None,
        order: Optional[str] = None, leaves: int = 0
    ) -> None: ...
    def reduce(
        self, send: _Input, recv: Optional[_Output] = None, op: int = 0, root: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None,
        order: Optional[str] = None, leaves: int = 0
    ) -> None: ...
    def broadcast(
        self, buffer: _Input, root: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> None: ...
    def gather(
        self, send: Union[_Input, _InPlace], recv: Optional[_Output] = None, root: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> None: ...
    def scatter(
        self, send: Optional[_Input], recv: Union[_Output, _InPlace], root: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> None: ...
    def allgather(
        self, send: Union[_Input, _InPlace], recv: _Output, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> None: ...
    def reduce_scatter(
        self, send: _Input, recv: Union[_Output, _InPlace], op: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None,
        order: Optional[str] = None, leaves: int = 0
    ) -> None: ...
    def alltoall(
        self, send: _Input, recv: Optional[_Output] = None, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> None: ...
    def barrier(self, *, algorithm: Optional[str] = None, timeout: Optional[float] = None) -> None: ...
    def scan(
        self, send: _Input, recv: Optional[_Output] = None, op: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None,
        order: Optional[str] = None, leaves: int = 0
    ) -> None: ...
    def exscan(
        self, send: _Input, recv: Optional[_Output] = None, op: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None,
        order: Optional[str] = None, leaves: int = 0
    ) -> None: ...
    def send(
        self, buffer: _Input, peer: int, tag: int = 0, *,
        dtype: int = -1, lanes: int = 0, timeout: Optional[float] = None
    ) -> None: ...
    def recv(
        self, buffer: _Output, peer: int = 0xFFFFFFFF, tag: int = 0, *,
        dtype: int = -1, lanes: int = 0, timeout: Optional[float] = None
    ) -> None: ...
    def gatherv(
        self, send: Union[_Input, _InPlace], recv: Optional[_Output] = None, counts: _Counts = None, offsets: _Counts = None, root: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> None: ...
    def scatterv(
        self, send: Optional[_Input], recv: Union[_Output, _InPlace], counts: _Counts = None, offsets: _Counts = None, root: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> None: ...
    def allgatherv(
        self, send: Union[_Input, _InPlace], recv: _Output, counts: _Counts, offsets: _Counts = None, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> None: ...
    def reduce_scatterv(
        self, send: _Input, recv: Union[_Output, _InPlace], counts: _Counts, offsets: _Counts = None, op: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None,
        order: Optional[str] = None, leaves: int = 0
    ) -> None: ...
    def alltoallv(
        self, send: Union[_Input, _InPlace], recv: _Output, counts: _Counts, recv_counts: _Counts, offsets: _Counts = None, recv_offsets: _Counts = None, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> None: ...
    def iallreduce(
        self, send: _Input, recv: Optional[_Output] = None, op: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None,
        order: Optional[str] = None, leaves: int = 0
    ) -> Request: ...
    def ireduce(
        self, send: _Input, recv: Optional[_Output] = None, op: int = 0, root: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None,
        order: Optional[str] = None, leaves: int = 0
    ) -> Request: ...
    def ibroadcast(
        self, buffer: _Input, root: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> Request: ...
    def igather(
        self, send: Union[_Input, _InPlace], recv: Optional[_Output] = None, root: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> Request: ...
    def iscatter(
        self, send: Optional[_Input], recv: Union[_Output, _InPlace], root: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> Request: ...
    def iallgather(
        self, send: Union[_Input, _InPlace], recv: _Output, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> Request: ...
    def ireduce_scatter(
        self, send: _Input, recv: Union[_Output, _InPlace], op: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None,
        order: Optional[str] = None, leaves: int = 0
    ) -> Request: ...
    def ialltoall(
        self, send: _Input, recv: Optional[_Output] = None, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> Request: ...
    def ibarrier(self, *, algorithm: Optional[str] = None, timeout: Optional[float] = None) -> Request: ...
    def iscan(
        self, send: _Input, recv: Optional[_Output] = None, op: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None,
        order: Optional[str] = None, leaves: int = 0
    ) -> Request: ...
    def iexscan(
        self, send: _Input, recv: Optional[_Output] = None, op: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None,
        order: Optional[str] = None, leaves: int = 0
    ) -> Request: ...
    def isend(
        self, buffer: _Input, peer: int, tag: int = 0, *,
        dtype: int = -1, lanes: int = 0, timeout: Optional[float] = None
    ) -> Request: ...
    def irecv(
        self, buffer: _Output, peer: int = 0xFFFFFFFF, tag: int = 0, *,
        dtype: int = -1, lanes: int = 0, timeout: Optional[float] = None
    ) -> Request: ...
    def igatherv(
        self, send: Union[_Input, _InPlace], recv: Optional[_Output] = None, counts: _Counts = None, offsets: _Counts = None, root: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> Request: ...
    def iscatterv(
        self, send: Optional[_Input], recv: Union[_Output, _InPlace], counts: _Counts = None, offsets: _Counts = None, root: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> Request: ...
    def iallgatherv(
        self, send: Union[_Input, _InPlace], recv: _Output, counts: _Counts, offsets: _Counts = None, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> Request: ...
    def ireduce_scatterv(
        self, send: _Input, recv: Union[_Output, _InPlace], counts: _Counts, offsets: _Counts = None, op: int = 0, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None,
        order: Optional[str] = None, leaves: int = 0
    ) -> Request: ...
    def ialltoallv(
        self, send: Union[_Input, _InPlace], recv: _Output, counts: _Counts, recv_counts: _Counts, offsets: _Counts = None, recv_offsets: _Counts = None, *,
        dtype: int = -1, algorithm: Optional[str] = None, lanes: int = 0, timeout: Optional[float] = None
    ) -> Request: ...

def wait_all(requests: Iterable[Request]) -> None: ...
def wait_any(requests: Sequence[Request]) -> int: ...
def test_some(requests: Sequence[Optional[Request]]) -> list[int]: ...
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
) -> Communicator: ...
