"""Calls that move Python objects, by pickle. Only ranks of the job can send; they must trust each other.

Each call sends lengths first, then bytes. gather, allgather and scatter pad all objects to the length of the longest.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Optional


def _pack(value: Any) -> bytes:
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def _unpack_all(blocks: bytearray, lengths: Sequence[int], stride: int) -> list[Any]:
    view = memoryview(blocks)
    return [pickle.loads(view[i * stride : i * stride + length]) for i, length in enumerate(lengths)]


class ObjectCalls:
    """Part of Communicator. Pickle errors are raised before any call is started."""

    rank: int
    size: int
    broadcast: Callable[..., None]
    gather: Callable[..., None]
    allgather: Callable[..., None]
    scatter: Callable[..., None]
    send: Callable[..., None]
    recv: Callable[..., None]

    def broadcast_object(self, value: Any = None, root: int = 0) -> Any:
        """Returns the object of root on all ranks."""
        data = bytearray(_pack(value)) if self.rank == root else bytearray()
        length = array("Q", [len(data)])
        self.broadcast(length, root)
        if self.rank != root:
            data = bytearray(length[0])
        self.broadcast(data, root)
        return value if self.rank == root else pickle.loads(data)

    def _padded(self, data: bytes) -> tuple[bytes, array]:
        """Returns the data, padded to the longest of all ranks, and the lengths of all ranks."""
        lengths = array("Q", bytes(8 * self.size))
        self.allgather(array("Q", [len(data)]), lengths)
        return data.ljust(max(lengths), b"\0"), lengths

    def gather_object(self, value: Any, root: int = 0) -> Optional[list[Any]]:
        """Returns the objects of all ranks, in rank order, on root; None on the others."""
        data, lengths = self._padded(_pack(value))
        blocks = bytearray(len(data) * self.size if self.rank == root else 0)
        self.gather(data, blocks, root)
        return _unpack_all(blocks, lengths, len(data)) if self.rank == root else None

    def allgather_object(self, value: Any) -> list[Any]:
        """Returns the objects of all ranks, in rank order."""
        data, lengths = self._padded(_pack(value))
        blocks = bytearray(len(data) * self.size)
        self.allgather(data, blocks)
        return _unpack_all(blocks, lengths, len(data))

    def scatter_object(self, values: Optional[Sequence[Any]] = None, root: int = 0) -> Any:
        """Returns this rank's object of the list of root, which has one for each rank."""
        lengths, blocks = array("Q", bytes(8 * self.size)), b""
        if self.rank == root:
            if values is None or len(values) != self.size:
                count = "None" if values is None else str(len(values))
                raise ValueError(f"scatter_object: expected {self.size} objects at root, one per rank, got {count}")
            packed = [_pack(value) for value in values]
            lengths = array("Q", map(len, packed))
            blocks = b"".join(data.ljust(max(lengths), b"\0") for data in packed)
        self.broadcast(lengths, root)
        mine = bytearray(max(lengths))
        self.scatter(blocks, mine, root)
        return pickle.loads(memoryview(mine)[: lengths[self.rank]])

    def send_object(self, value: Any, peer: int, tag: int = 0) -> None:
        """Sends an object to peer, which calls recv_object()."""
        data = _pack(value)
        self.send(array("Q", [len(data)]), peer, tag)
        self.send(data, peer, tag)

    def recv_object(self, peer: int, tag: int = 0) -> Any:
        """Returns the next object that peer sent with this tag."""
        length = array("Q", [0])
        self.recv(length, peer, tag)
        data = bytearray(length[0])
        self.recv(data, peer, tag)
        return pickle.loads(data)
