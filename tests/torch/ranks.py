"""Ranks of a test of the torch backend: processes that are forked from a server which has imported torch, so that a job of
four ranks starts in less than half a second.

    class Some(Ranks):
        @ranks(4)
        def test_sum(self):                 # runs on each of 4 ranks, in a group of the backend "tutti"
            x = torch.ones(3) * self.rank
            dist.all_reduce(x)
            self.same(x, torch.full((3,), 6.0))

A test that needs more (ranks that die, programs that exit) makes a Job. Every job ends by its time limit. Time limits of this
folder are for an idle machine; load() says by how much to multiply them.
"""

import contextlib
import ctypes
import datetime
import faulthandler
import functools
import importlib
import multiprocessing
import multiprocessing.connection
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import unittest
from pathlib import Path

import torch
import torch.distributed as dist

HERE = Path(__file__).resolve().parent
TORCH_2 = not torch.__version__.startswith("1.")
LONG = bool(os.environ.get("TEST_LONG"))
# Debian's torch 2.6 has no libuv, which its TCPStore uses unless this says otherwise. gloo is the reference of some tests.
os.environ.update(USE_LIBUV="0", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
os.environ.setdefault("PYTHONWARNINGS", "ignore")

# Not tutti.torch: it reads the environment when it is imported.
PRELOAD = ["torch", "torch.distributed", "torch.nn.parallel", "torch.optim", "torch.utils.data", "torch.distributed.fsdp",
           "torch.distributed.tensor", "torch.distributed._functional_collectives"]
server = multiprocessing.get_context("forkserver")
server.set_forkserver_preload(PRELOAD if TORCH_2 else PRELOAD[:5])


@functools.cache
def seed() -> int:
    """The seed of this run, which is printed. TEST_SEED repeats one."""
    chosen = int(os.environ.get("TEST_SEED") or time.time_ns() % 1_000_000)
    print(f"TEST_SEED={chosen}", file=sys.stderr, flush=True)
    return chosen


def load() -> float:
    """How many times longer than on an idle machine something may take. 1: idle."""
    return min(8.0, 1 + os.getloadavg()[0] / (os.cpu_count() or 1))


def real_exit(code: int = 0) -> None:
    """Ends this process as the end of a Python program does: it finalizes the interpreter, and calls exit(). A process of
    multiprocessing ends by _exit()."""
    sys.stdout.flush()
    ctypes.pythonapi.Py_Exit(code)


class Result:
    """What became of a rank: the value that it returned, or its error (a traceback), or neither if it ended otherwise."""

    def __init__(self) -> None:
        self.value, self.error, self.skipped, self.code, self.output = None, "", "", None, ""
        self.has_value = self.is_late = False

    def __str__(self) -> str:
        end = "still ran at the time limit" if self.is_late else f"exit status {self.code}"
        return f"{end}\n{self.output[-4000:]}{self.error[:4000]}"


class Job:
    """`size` ranks, each of which calls function(rank, size, *arguments), a function of a test module. They end by `limit`
    seconds of an idle machine. environment: variables of the ranks; None removes one."""

    def __init__(self, size: int, function, *arguments, limit: float = 30, environment: "dict | None" = None) -> None:
        self.limit = limit * min(3, load())
        self.deadline = time.monotonic() + self.limit
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-torch-", ignore_cleanup_errors=True)
        changed = {name: value for name, value in (environment or {}).items() if value is not None}
        kept = {name: value for name, value in os.environ.items() if name not in (environment or {})}
        self.environment = {**kept, **changed, "TEST_FOLDER": self.folder.name}
        module, name = Path(sys.modules[function.__module__].__file__).stem, function.__qualname__
        self.processes, self.pipes, self.results = [], [], [Result() for _ in range(size)]
        for rank in range(size):
            reads, writes = server.Pipe(duplex=False)
            process = server.Process(target=_main, args=(rank, size, module, name, arguments, writes, self.environment, self.limit))
            process.start()
            writes.close()
            self.processes.append(process)
            self.pipes.append(reads)

    def kill(self, rank: int, number: int = signal.SIGKILL) -> None:
        os.kill(self.processes[rank].pid, number)

    def read(self, rank: int, limit: float = 30) -> object:
        """The next value that the rank has sent by `tell`."""
        if not self.pipes[rank].poll(limit * load()):
            raise AssertionError(f"rank {rank} has sent nothing:\n{self._output(rank)}")
        kind, value = self.pipes[rank].recv()
        if kind != "told":
            raise AssertionError(f"rank {rank} has sent its {kind}: {value}")
        return value

    def wait(self, *ranks: int) -> "list[Result]":
        """Waits until the ranks (none: all) have ended. Those that have not at the time limit are killed."""
        ranks = ranks or tuple(range(len(self.processes)))
        for rank in ranks:
            result, pipe, process = self.results[rank], self.pipes[rank], self.processes[rank]
            try:
                while result.code is None and pipe.poll(max(0, self.deadline - time.monotonic())):
                    kind, value = pipe.recv()
                    if kind != "told":
                        setattr(result, kind, value)
                        result.has_value = kind == "value"
            except EOFError:
                pass
            process.join(max(0.1, self.deadline - time.monotonic()))
            result.is_late = process.exitcode is None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with its children
            if result.is_late:
                process.kill()
                process.join()
            result.code, result.output = process.exitcode, self._output(rank)
        if all(r.code is not None for r in self.results):
            self.folder.cleanup()
        return [self.results[rank] for rank in ranks]

    def values(self) -> list:
        """Waits for all ranks, and returns their values. Raises an AssertionError if a rank has none."""
        results = self.wait()
        skipped = [r.skipped for r in results if r.skipped]
        if skipped:
            raise unittest.SkipTest(skipped[0])
        bad = [f"rank {rank}: {r}" for rank, r in enumerate(results) if not r.has_value or r.code != 0]
        if bad:
            raise AssertionError("\n".join(bad))
        return [r.value for r in results]

    def _output(self, rank: int) -> str:
        path = Path(self.folder.name, f"output.{rank}")
        return path.read_text(errors="replace") if path.exists() else ""


_to_parent = None


def tell(value: object) -> None:
    """Sends a value to Job.read."""
    _to_parent.send(("told", value))


def _main(rank, size, module, name, arguments, pipe, environment, limit) -> None:
    global _to_parent
    _to_parent = pipe
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    to = os.open(Path(environment["TEST_FOLDER"], f"output.{rank}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(to, descriptor)
    os.close(to)
    faulthandler.enable()
    faulthandler.dump_traceback_later(max(1, limit - 2), file=sys.stderr)
    torch.set_num_threads(1)
    sys.path[:0] = [str(HERE)]
    try:
        function = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        pipe.send(("value", function(rank, size, *arguments)))
    except unittest.SkipTest as reason:
        pipe.send(("skipped", str(reason)))
    except BaseException:
        pipe.send(("error", traceback.format_exc()))
    sys.stdout.flush()
    pipe.close()


def init(rank: int, size: int, backend: str = "tutti", name: str = "store", timeout: float = 60) -> None:
    """Makes the world of a job, by a file of the job."""
    import tutti.torch  # noqa: F401

    path = Path(os.environ["TEST_FOLDER"], name)
    limit = datetime.timedelta(seconds=timeout)
    dist.init_process_group(backend, init_method=f"file://{path}", rank=rank, world_size=size, timeout=limit)


def run_case(rank: int, size: int, module: str, kind: str, name: str, chosen_seed: int, options: dict) -> None:
    case = getattr(importlib.import_module(module), kind)(name)
    case.rank, case.size, case.random = rank, size, random.Random(chosen_seed)
    torch.manual_seed(chosen_seed)
    init(rank, size, **options)
    getattr(type(case), name).of_rank(case)
    dist.destroy_process_group()


def ranks(size: int = 2, limit: float = 30, environment: "dict | None" = None, **options):
    """A decorator: the test runs on each of `size` ranks. options: arguments of init. All ranks have the same self.random."""

    def decorate(function):
        @functools.wraps(function)
        def test(self) -> None:
            module = Path(sys.modules[type(self).__module__].__file__).stem
            arguments = module, type(self).__name__, function.__name__, seed(), options
            Job(size, run_case, *arguments, limit=limit, environment=environment).values()

        test.of_rank = function
        return test

    return decorate


def bits(tensor: "torch.Tensor") -> "torch.Tensor":
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.contiguous().reshape(-1).view(torch.uint8)


class Ranks(unittest.TestCase):
    """Cases with checks for tensors. In a test that is decorated by @ranks: self.rank, self.size, self.random."""

    longMessage = True
    maxDiff = 2000

    def same(self, got: "torch.Tensor", want: "torch.Tensor", what: object = "") -> None:
        """The tensors have the same shape, type and bits."""
        self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype), what)
        if not torch.equal(bits(got), bits(want)):
            self.fail(f"{what}: got {got}, expected {want}")

    def close(self, got: "torch.Tensor", want: "torch.Tensor", what: object = "", within: float = 1e-5) -> None:
        self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype), what)
        if not torch.allclose(got.double(), want.double(), rtol=within, atol=within):
            self.fail(f"{what}: got {got}, expected {want}")
