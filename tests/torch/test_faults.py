"""Ranks that die, stop, or make another call: the exception of the others names the rank, in time, and all processes end."""

import contextlib
import os
import signal
import time
import unittest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ranks import Job, Ranks, init, load, real_exit, tell

TIMEOUT = 3  # of groups, in seconds


def fails(call) -> "tuple[str, float]":
    """Makes a call until it fails, as a training loop does. Returns the error, and for how long the last call ran."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        started = time.monotonic()
        try:
            call()
        except RuntimeError as error:
            return str(error), time.monotonic() - started
    raise AssertionError("the call does not fail")


def step_of(kind: str, rank: int, size: int):
    """A call of this kind, which all ranks make again and again."""
    if kind == "all_reduce":
        return lambda: dist.all_reduce(torch.ones(1000))
    if kind == "long all_reduce":
        x = torch.ones(3_000_000)
        return lambda: dist.all_reduce(x.fill_(1))
    if kind == "future":
        return lambda: dist.all_reduce(torch.ones(1000), async_op=True).get_future().wait()
    if kind == "barrier":
        return dist.barrier
    if kind == "objects":
        return lambda: dist.all_gather_object([None] * size, {"rank": rank})
    if kind == "group":
        group = dist.new_group()
        return lambda: dist.all_reduce(torch.ones(1000), group=group)
    if kind == "message":
        return lambda: dist.recv(torch.zeros(2), 1) if rank == 0 else dist.send(torch.ones(2), 0) if rank == 1 else dist.barrier()
    model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(200, 200) for _ in range(4)]), bucket_cap_mb=0.1)
    return lambda: model(torch.ones(4, 200)).sum().backward()


def rank_of_fault(rank: int, size: int, kind: str, fault: str) -> "tuple[str, float] | None":
    """Rank 1 has the fault, in the middle of its own training."""
    init(rank, size, timeout=TIMEOUT)
    step = step_of(kind, rank, size)
    for _ in range(3 if rank == 1 else 0):
        step()
    if rank == 1 and fault in ("kill", "exit", "stop"):
        tell(os.getpid())
        if fault == "exit":
            real_exit(5)
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[fault])
        return None  # continued after the others have failed
    if rank == 1:
        # Another call, of another size and kind.
        step = lambda: dist.all_gather([torch.zeros(7) for _ in range(size)], torch.ones(7))  # noqa: E731
    failed = fails(step)
    # The next call fails at once, too.
    again = fails(step)
    assert again[1] < 1 + load(), f"the next call took {again[1]} s"
    return failed


def in_backward(rank: int, size: int, fault: str) -> "tuple[str, float] | None":
    """The fault happens inside of rank 1's backward, when one bucket is on its way and another one is not."""
    init(rank, size, timeout=TIMEOUT)
    layers = torch.nn.Sequential(*[torch.nn.Linear(200, 200) for _ in range(4)])
    model = DistributedDataParallel(layers, bucket_cap_mb=0.1)

    def step() -> None:
        model(torch.ones(4, 200)).sum().backward()

    step()
    if rank == 1:
        layers[1].weight.register_hook(lambda _: os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[fault]))
        tell(os.getpid())
        with contextlib.suppress(RuntimeError):
            step()
        return None
    return fails(step)


def watches_while_idle(rank: int, size: int) -> "tuple[str, float] | None":
    """Rank 1 dies while the others compute; their next call fails at once."""
    init(rank, size, timeout=60)
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1.5)
    return fails(lambda: dist.all_reduce(torch.ones(4)))


def open_works(rank: int, size: int) -> str:
    """Open works and futures of all kinds, when rank 1 dies, end with the error."""
    init(rank, size, timeout=60)
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(torch.ones(4), async_op=True)
    futures = [dist.all_reduce(torch.ones(4), async_op=True).get_future() for _ in range(3)]
    chained = futures[0].then(lambda f: f.value())
    dist.all_reduce(torch.ones(4), async_op=True)  # dropped
    polled = dist.all_reduce(torch.ones(4), async_op=True)
    texts = []
    for wait in [*(f.wait for f in futures), chained.wait, work.wait]:
        try:
            wait()
            texts.append("no error")
        except RuntimeError as error:
            texts.append(str(error))
    until = time.monotonic() + 5 + load()
    while not polled.is_completed():
        assert time.monotonic() < until, "never completed"
        time.sleep(0.001)
    with contextlib.suppress(RuntimeError):
        polled.wait()
        texts.append("no error")
    assert all("rank 1" in text for text in texts), texts
    return texts[0]


def after_a_fault(rank: int, size: int) -> None:
    """Survivors destroy the group and make a new one without the dead rank."""
    init(rank, size, timeout=TIMEOUT)
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    fails(lambda: dist.all_reduce(torch.ones(4)))
    dist.destroy_process_group()
    init(rank // 2, size - 1, name="second")
    x = torch.ones(3)
    dist.all_reduce(x)
    assert torch.equal(x, torch.full((3,), size - 1.0))
    y = torch.ones(3)
    dist.all_reduce(y, group=dist.new_group())
    assert y[0] == size - 1
    dist.destroy_process_group()


def in_another_group(rank: int, size: int) -> str:
    """Ranks 0 and 2 have a group without rank 1, which dies: that group works on, or says which rank is dead."""
    init(rank, size, timeout=TIMEOUT)
    pair, whole = dist.new_group([0, 2]), dist.new_group()
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    text, _ = fails(lambda: dist.all_reduce(torch.ones(4), group=whole))
    assert "rank 1" in text, text
    try:
        x = torch.ones(3)
        dist.all_reduce(x, group=pair)
        assert x[0] == 2
        return "works"
    except RuntimeError as error:
        return str(error)


class Faults(Ranks):
    def ends(self, job: Job, code: int, limit: float, names: str = "rank 1") -> None:
        """Rank 1 ends with this status, the others in time with an error that names it."""
        for rank in range(len(job.processes)):
            if rank == 1:
                continue
            result = job.wait(rank)[0]
            self.assertTrue(result.has_value, f"rank {rank}: {result}")
            self.assertEqual(result.code, 0, str(result))
            text, seconds = result.value
            self.assertRegex(text, names)
            self.assertLess(seconds, limit, text)
        with contextlib.suppress(ProcessLookupError):
            job.kill(1, signal.SIGCONT)
        result = job.wait()[1]
        self.assertEqual(result.code, code, str(result))
        self.assertFalse(result.is_late)

    def test_killed(self):
        for kind in "all_reduce", "long all_reduce", "future", "barrier", "objects", "group", "DDP":
            with self.subTest(kind):
                self.ends(Job(3, rank_of_fault, kind, "kill"), -signal.SIGKILL, 1 + load())

    def test_killed_message(self):
        self.ends(Job(2, rank_of_fault, "message", "kill"), -signal.SIGKILL, 1 + load())

    def test_ended(self):
        """A rank that ends as a program does, without its part in the next call."""
        for kind in "all_reduce", "DDP":
            with self.subTest(kind):
                self.ends(Job(3, rank_of_fault, kind, "exit"), 5, TIMEOUT + 1 + load())

    def test_stopped(self):
        for kind in "all_reduce", "future", "DDP":
            with self.subTest(kind):
                self.ends(Job(3, rank_of_fault, kind, "stop"), 0, TIMEOUT + 1 + load())

    def test_another_call(self):
        for kind in "all_reduce", "future", "DDP":
            with self.subTest(kind):
                results = Job(3, rank_of_fault, kind, "other").wait()
                for rank, result in enumerate(results):
                    self.assertTrue(result.has_value and result.code == 0, f"rank {rank}: {result}")
                    self.assertLess(result.value[1], TIMEOUT + 1 + load())
                self.assertRegex(" ".join(r.value[0] for r in results), "(?i)allgather.*allreduce|allreduce.*allgather")
                self.assertTrue(any("rank 1" in r.value[0] for r in results), [r.value for r in results])

    def test_killed_in_backward(self):
        self.ends(Job(3, in_backward, "kill"), -signal.SIGKILL, 1 + load())

    def test_stopped_in_backward(self):
        self.ends(Job(3, in_backward, "stop"), 0, TIMEOUT + 1 + load())

    def test_killed_while_idle(self):
        self.ends(Job(3, watches_while_idle), -signal.SIGKILL, 1 + load())

    def test_open_works(self):
        for rank, result in enumerate(Job(3, open_works).wait()):
            if rank != 1:
                self.assertTrue(result.has_value and result.code == 0, f"rank {rank}: {result}")

    def test_after_a_fault(self):
        for rank, result in enumerate(Job(3, after_a_fault).wait()):
            if rank != 1:
                self.assertTrue(result.has_value and result.code == 0, f"rank {rank}: {result}")

    def test_another_group(self):
        for rank, result in enumerate(Job(3, in_another_group).wait()):
            if rank != 1:
                self.assertTrue(result.has_value and result.code == 0, f"rank {rank}: {result}")
                self.assertRegex(result.value, "works|rank")


if __name__ == "__main__":
    unittest.main()
