"""Groups of the torch backend: how they start, subgroups, how they end, processes around them, programs of torchrun."""

import contextlib
import datetime
import faulthandler
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import torch
import torch.distributed as dist

from ranks import HERE, LONG, TORCH_2, Job, Ranks, init, load, ranks, real_exit, seed


def check(group=None) -> None:
    x = torch.ones(3)
    dist.all_reduce(x, group=group)
    assert torch.equal(x, torch.full((3,), float(dist.get_world_size(group)))), x


def free_ports(count: int) -> "list[int]":
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def free_port() -> int:
    return free_ports(1)[0]


# ---- start ----


# Each world has a port of its own: torch's store of the last one may still listen when the next one begins.
def by_env(rank: int, size: int, ports: list) -> None:
    import tutti.torch  # noqa: F401

    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1")
    for port in ports:
        os.environ["MASTER_PORT"] = str(port)
        dist.init_process_group("tutti")
        check()
        dist.destroy_process_group()


def by_tcp(rank: int, size: int, ports: list) -> None:
    import tutti.torch  # noqa: F401

    for port in ports:
        dist.init_process_group("tutti", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
        check()
        dist.destroy_process_group()


def by_store(rank: int, size: int, port: int, kind: str) -> None:
    """The same store serves several worlds, one after the other, and two at the same time under prefixes."""
    import tutti.torch

    path = str(Path(os.environ["TEST_FOLDER"], "by-store"))
    options = {"use_libuv": False} if TORCH_2 else {}
    store = dist.FileStore(path, size) if kind == "file" else dist.TCPStore("127.0.0.1", port, size, rank == 0, **options)
    for turn in range(3):
        dist.init_process_group("tutti", store=dist.PrefixStore(str(turn), store), rank=rank, world_size=size)
        check()
        dist.destroy_process_group()
    limit = datetime.timedelta(seconds=60)
    pair = [tutti.torch.ProcessGroupTutti(dist.PrefixStore(name, store), rank, size, limit) for name in "ab"]
    # Two of one name, from the bare store.
    pair += [tutti.torch.ProcessGroupTutti(store, rank, size, limit) for _ in range(2)]
    for group in reversed(pair):
        x = torch.ones(2)
        group.allreduce([x]).wait()
        assert x[0] == size
    store.set(f"done/{rank}", "1")
    store.wait([f"done/{other}" for other in range(size)])  # rank 0 serves the store


def by_file_again(rank: int, size: int) -> None:
    for turn in range(4):
        init(rank, size, name=f"store{turn}")
        check(dist.new_group())
        check()
        dist.destroy_process_group()


def other_order(rank: int, size: int) -> None:
    """The second world has the ranks in another order, and one has fewer ranks."""
    init(rank, size, name="first")
    check()
    dist.destroy_process_group()
    init(size - 1 - rank, size, name="second")
    x = torch.tensor([float(rank)])
    dist.broadcast(x, 0)
    assert x[0] == size - 1
    dist.destroy_process_group()
    if rank < 2:
        init(rank, 2, name="third")
        check()
        dist.destroy_process_group()


def named_gloo(rank: int, size: int) -> str:
    import tutti.torch

    dist.init_process_group("gloo", init_method=f"file://{os.environ['TEST_FOLDER']}/gloo", rank=rank, world_size=size)
    check()
    pg = dist.distributed_c10d._get_default_group()
    pg = pg._get_backend(torch.device("cpu")) if TORCH_2 else pg
    assert isinstance(pg, tutti.torch.ProcessGroupTutti), pg
    assert isinstance(pg, dist.distributed_c10d.ProcessGroupGloo)
    check(dist.new_group(backend="gloo"))
    check(dist.new_group())
    dist.monitored_barrier()
    out = [None] * size
    dist.all_gather_object(out, rank)
    assert out == list(range(size))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
    model(torch.ones(2, 3)).sum().backward()
    dist.destroy_process_group()
    return dist.Backend.GLOO


def not_named_gloo(rank: int, size: int) -> None:
    """Without the variable, gloo is gloo."""
    import tutti.torch

    init(rank, size, "gloo")
    pg = dist.distributed_c10d._get_default_group()
    pg = pg._get_backend(torch.device("cpu")) if TORCH_2 else pg
    assert not isinstance(pg, tutti.torch.ProcessGroupTutti), pg
    check(dist.new_group(backend="tutti"))
    check()
    dist.destroy_process_group()


def cpu_and_cuda(rank: int, size: int, backend: str) -> str:
    init(rank, size, backend)
    check()
    name = str(dist.get_backend_config())
    dist.destroy_process_group()
    return name


def a_rank_does_not_come(rank: int, size: int) -> str:
    import tutti.torch

    if rank == size - 1:
        return ""
    store = dist.FileStore(str(Path(os.environ["TEST_FOLDER"], "store")), size)
    started = time.monotonic()
    try:
        tutti.torch.ProcessGroupTutti(store, rank, size, datetime.timedelta(seconds=1))
    except RuntimeError as error:
        assert time.monotonic() - started < 2 + load()
        return str(error)
    raise AssertionError("the group was made without all its ranks")


def threads_of_one_process(rank: int, size: int) -> None:
    """Ranks that are threads, which meet by a HashStore."""
    import threading

    import tutti.torch

    store, bad = dist.HashStore(), []

    def of_thread(index: int) -> None:
        try:
            group = tutti.torch.ProcessGroupTutti(store, index, 2, datetime.timedelta(seconds=10))
            x = torch.ones(2)
            group.allreduce([x]).wait()
            assert x[0] == 2
        except BaseException as error:
            bad.append(error)

    threads = [threading.Thread(target=of_thread, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad, bad


class Start(Ranks):
    def test_env(self):
        Job(2, by_env, free_ports(3)).values()

    def test_tcp(self):
        Job(3, by_tcp, free_ports(3)).values()

    def test_file_store(self):
        Job(3, by_store, 0, "file").values()

    def test_tcp_store(self):
        Job(3, by_store, free_port(), "tcp").values()

    def test_again(self):
        Job(3, by_file_again).values()

    def test_again_in_another_order(self):
        Job(3, other_order).values()

    def test_named_gloo(self):
        self.assertEqual(Job(2, named_gloo, environment={"TORCH_TUTTI_AS_GLOO": "1"}).values(), ["gloo", "gloo"])

    def test_not_named_gloo(self):
        Job(2, not_named_gloo, environment={"TORCH_TUTTI_AS_GLOO": None}).values()

    @unittest.skipUnless(TORCH_2, "torch 1.13 has one backend for a group")
    def test_cpu_and_cuda(self):
        self.assertIn("cpu:tutti", Job(2, cpu_and_cuda, "cpu:tutti").values()[0])
        if torch.distributed.is_nccl_available():
            self.assertIn("cpu:tutti,cuda:nccl", Job(2, cpu_and_cuda, "cpu:tutti,cuda:nccl").values()[0])
        else:
            # Debian's torch has no nccl. torch itself parses the text, and says that nccl is missing when it makes the group.
            for result in Job(2, cpu_and_cuda, "cpu:tutti,cuda:nccl").wait():
                self.assertRegex(result.error, "(?i)nccl")

    def test_a_rank_does_not_come(self):
        for text in Job(3, a_rank_does_not_come).values()[:2]:
            self.assertRegex(text, "(?i)time")

    def test_threads(self):
        Job(1, threads_of_one_process, limit=15).values()

    @ranks(1)
    def test_one_rank(self):
        check()
        check(dist.new_group([0]))


# ---- subgroups ----

AS_GLOO = {"environment": {"TORCH_TUTTI_AS_GLOO": "1"}, "backend": "gloo"}


class Subgroups(Ranks):
    def sums(self, group, members: list) -> None:
        """Collectives of a group whose ranks are these ranks of the world."""
        if self.rank not in members:
            return
        x = torch.tensor([float(self.rank)])
        dist.all_reduce(x, group=group)
        self.same(x, torch.tensor([float(sum(members))]))
        for root in members:
            x = torch.tensor([float(self.rank)])
            dist.broadcast(x, root, group=group)
            self.same(x, torch.tensor([float(root)]))
        out = [torch.zeros(1) for _ in members]
        dist.all_gather(out, torch.tensor([float(self.rank)]), group=group)
        got = [int(t) for t in out]
        self.assertEqual(sorted(got), sorted(members))
        self.assertEqual(got[dist.get_rank(group)], self.rank)
        if len(members) > 1:
            index = members.index(self.rank)
            x, peer = torch.zeros(1), members[(index + 1) % len(members)]
            work = dist.isend(torch.tensor([float(self.rank)]), peer, group=group)
            dist.recv(x, members[index - 1], group=group)
            work.wait()
            self.same(x, torch.tensor([float(members[index - 1])]))

    @ranks(4, limit=60)
    def test_overlapping(self):
        lists = [[0, 1], [1, 2], [2, 3], [0, 3], [0, 1, 2], [1, 2, 3], [0, 1, 2, 3], [2], [0, 2]]
        groups = [dist.new_group(members) for members in lists]
        for _ in range(2):
            for group, members in zip(groups, lists):
                self.sums(group, members)
        for group, members in reversed(list(zip(groups, lists))):
            self.sums(group, members)

    @ranks(4)
    def test_open_in_many(self):
        """Open calls of overlapping groups, which each rank waits for in its own order."""
        lists = [[0, 1], [1, 2], [2, 3], [0, 1, 2, 3], [0, 2, 3]]
        groups = [dist.new_group(members) for members in lists]
        for _ in range(5):
            opened = []
            for group, members in zip(groups, lists):
                if self.rank in members:
                    x = torch.full((500,), float(self.rank))
                    opened.append((dist.all_reduce(x, group=group, async_op=True), x, float(sum(members))))
            for work, x, total in opened if self.rank % 2 else reversed(opened):
                work.wait()
                self.same(x, torch.full((500,), total))

    @ranks(4)
    def test_descending(self):
        """Ranks that are not given in ascending order: torch sorts them, as for gloo."""
        group = dist.new_group([3, 1, 0])
        gloo = dist.new_group([3, 1, 0], backend="gloo")
        if self.rank != 2:
            self.assertEqual(dist.get_rank(group), dist.get_rank(gloo))
            for root in 3, 1, 0:
                x = torch.tensor([float(self.rank)])
                dist.broadcast(x, root, group=group)
                self.same(x, torch.tensor([float(root)]))

    @unittest.skipUnless(TORCH_2, "torch 1.13 makes these with CUDA only")
    @ranks(4)
    def test_subgroups_of_torch(self):
        mine, _ = dist.new_subgroups(2)
        self.sums(mine, [self.rank // 2 * 2, self.rank // 2 * 2 + 1])
        mine, _ = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
        self.sums(mine, [self.rank % 2, self.rank % 2 + 2])

    @ranks(3)
    def test_any_source_in_a_group(self):
        """The source is a rank of the world in Python."""
        group = dist.new_group([1, 2])
        if self.rank == 1:
            x = torch.zeros(1)
            self.assertEqual(dist.recv(x, group=group), 2)
            self.same(x, torch.ones(1))
        elif self.rank == 2:
            dist.send(torch.ones(1), 1, group=group)

    @ranks(3)
    def test_destroyed_while_others_live(self):
        groups = [dist.new_group() for _ in range(4)]
        for group in groups:
            check(group)
        order = list(range(4))
        self.random.shuffle(order)
        for position, index in enumerate(order):
            dist.destroy_process_group(groups[index])
            for other in order[position + 1:]:
                check(groups[other])
            check()
        for _ in range(3):
            group = dist.new_group()
            check(group)
            dist.destroy_process_group(group)
        check()

    @ranks(2)
    def test_many(self):
        count = 200 if LONG else 30
        groups = [dist.new_group() for _ in range(count)]
        for group in groups:
            check(group)

    @ranks(2)
    def test_timeout_of_a_group(self):
        """A group has its own time limit; when it has passed, the other group works."""
        group = dist.new_group(timeout=datetime.timedelta(seconds=1))
        store = dist.distributed_c10d._get_default_store()
        if self.rank == 0:
            started = time.monotonic()
            with self.assertRaisesRegex(RuntimeError, "(?i)timed? ?out"):
                dist.all_reduce(torch.ones(1), group=group)
            self.assertLess(time.monotonic() - started, 2 + load())
            store.set("seen", "1")
        else:
            store.wait(["seen"])
        check()

    @ranks(3)
    def test_monitored_barrier_of_tutti(self):
        """dist.monitored_barrier refuses all names but "gloo"; the method of the group does not."""
        with self.assertRaisesRegex((RuntimeError, ValueError), "GLOO"):
            dist.monitored_barrier()
        group = dist.distributed_c10d._get_default_group()
        group.monitored_barrier(datetime.timedelta(seconds=30), wait_all_ranks=True)
        if self.rank == 2:
            with self.assertRaisesRegex(RuntimeError, "Rank 2.*rank 0"):
                group.monitored_barrier(datetime.timedelta(seconds=1), wait_all_ranks=True)
        elif self.rank == 0:
            with self.assertRaisesRegex(RuntimeError, "Ranks 1 failed to pass monitoredBarrier"):
                group.monitored_barrier(datetime.timedelta(seconds=1), wait_all_ranks=True)
        check()

    @ranks(3, **AS_GLOO)
    def test_monitored_barrier(self):
        dist.monitored_barrier()
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=30), wait_all_ranks=True)
        group = dist.new_group([0, 2])
        if self.rank != 1:
            dist.monitored_barrier(group)
        check()

    def missing(self, absent: set, **named) -> None:
        store = dist.distributed_c10d._get_default_store()
        if self.rank in absent:
            store.wait(["over"])
        elif self.rank == 0:
            ranks_missing = ", ".join(str(r) for r in sorted(absent)) if named else str(min(absent))
            with self.assertRaisesRegex(RuntimeError, f"Ranks? {ranks_missing} failed to pass monitoredBarrier"):
                dist.monitored_barrier(timeout=datetime.timedelta(milliseconds=500), **named)
            store.set("over", "1")
        else:
            with self.assertRaisesRegex(RuntimeError, f"Rank {self.rank}.*rank 0"):
                dist.monitored_barrier(timeout=datetime.timedelta(milliseconds=500), **named)
        store.wait(["over"])
        check()

    @ranks(3, **AS_GLOO)
    def test_monitored_barrier_one_missing(self):
        self.missing({1})

    @ranks(4, **AS_GLOO)
    def test_monitored_barrier_all_missing(self):
        self.missing({1, 3}, wait_all_ranks=True)


# ---- end ----


def ends_somehow(rank: int, size: int, chosen: int) -> None:
    """Makes groups and works by a seed, drops or destroys some, and ends as a program does."""
    import random
    import threading

    random_of_job, own = random.Random(chosen), random.Random(chosen * 100 + rank)
    init(rank, size, timeout=20)
    held = globals().setdefault("held", [])
    lists = [sorted(random_of_job.sample(range(size), random_of_job.randint(1, size))) for _ in range(random_of_job.randrange(5))]
    groups = [(dist.new_group(members), members) for members in lists]
    mine = [group for group, members in groups if rank in members] + [None]
    for group in mine:
        for _ in range(random_of_job.randrange(3)):
            x = torch.ones(4)
            # Another rank may have ended already, with its work of an earlier call open.
            with contextlib.suppress(RuntimeError):
                work = dist.all_reduce(x, group=group, async_op=True)
                fate = own.randrange(5)
                if fate == 0:
                    work.wait()
                elif fate == 1:
                    held.append(work)
                elif fate == 2:
                    held.append(work.get_future().then(lambda f: f.value()))
                elif fate == 3:
                    held.append((work, x))
    end = own.randrange(6)
    if end == 0:
        dist.destroy_process_group()
    elif end == 1:
        own.shuffle(mine)
        for group in mine[:own.randint(0, len(mine))]:
            dist.destroy_process_group(group)
            if group is None:
                break  # the world: with it, all groups are destroyed
    elif end == 2:
        held.append(groups)
    elif end == 3:
        # A cycle, which the collector may or may not find before the end.
        cycle = [groups, mine]
        cycle.append(cycle)
    elif end == 4:
        import atexit

        atexit.register(dist.destroy_process_group)
    else:
        thread = threading.Thread(target=time.sleep, args=(own.random() / 20,), daemon=own.random() < 0.5)
        thread.start()
    del mine, groups
    time.sleep(own.random() / 50)
    real_exit(0)


def ends_at_once(rank: int, size: int, how: str) -> None:
    init(rank, size)
    check()
    if how == "exit":
        real_exit(0)
    elif how == "_exit":
        os._exit(0)
    elif how == "sys.exit":
        sys.exit(0)


def ends_with_open_receive(rank: int, size: int) -> None:
    """A receive that never gets its message is open at the end."""
    init(rank, size)
    check()
    globals()["held"] = (dist.irecv(torch.zeros(3), 1 - rank), dist.all_reduce(torch.ones(1), async_op=True).get_future())
    dist.irecv(torch.zeros(3), 1 - rank, tag=4)
    real_exit(0)


class End(Ranks):
    def test_seeded(self):
        """Groups that end in any order. A run that hangs or crashes is repeated by TEST_SEED."""
        for turn in range(200 if LONG else 20):
            chosen = seed() + turn
            size = 2 + chosen % 2
            results = Job(size, ends_somehow, chosen, limit=20).wait()
            bad = [f"rank {rank}: {r}" for rank, r in enumerate(results) if r.code != 0 or r.error or r.is_late]
            self.assertFalse(bad, f"TEST_SEED={chosen}:\n" + "\n".join(bad))

    def test_without_destroy(self):
        for how in "exit", "_exit", "return":
            for rank, result in enumerate(Job(2, ends_at_once, how).wait()):
                self.assertEqual((result.code, result.error), (0, ""), f"{how} rank {rank}: {result}")

    def test_open_receive(self):
        for result in Job(2, ends_with_open_receive).wait():
            self.assertEqual((result.code, result.error), (0, ""), str(result))

    def program(self, text: str, size: int = 2, limit: float = 60) -> list:
        """Runs a text as a program of each rank, with an interpreter of its own. Returns exit status and output."""
        environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(size))
        started = [subprocess.Popen([sys.executable, "-c", "import torch, torch.distributed as dist, tutti.torch\n" + text],
                                    env=dict(environment, RANK=str(rank)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                   for rank in range(size)]
        try:
            return [(p.communicate(timeout=limit * load())[0], p.returncode) for p in started]
        finally:
            for process in started:
                process.kill()
                process.wait()

    def test_programs(self):
        """Whole programs, which end with open works, groups and models."""
        for output, code in self.program("""
dist.init_process_group("tutti")
group = dist.new_group()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4), process_group=group)
for _ in range(2): model(torch.ones(2, 4)).sum().backward()
x = torch.ones(3)
work = dist.all_reduce(x, async_op=True)
future = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda f: f.value())
"""):
            self.assertEqual(code, 0, output)

    def test_programs_that_raise(self):
        for output, code in self.program("""
dist.init_process_group("tutti")
work = dist.all_reduce(torch.ones(3), async_op=True)
raise KeyError("at the end")
"""):
            self.assertEqual(code, 1, output)
            self.assertIn("at the end", output)


# ---- processes around a group ----


def with_children(rank: int, size: int) -> None:
    """A child that is forked while a group is open ends; the group works on."""
    faulthandler.cancel_dump_traceback_later()  # its thread does not live on in a child, which would wait for it
    init(rank, size)
    check()
    work = dist.all_reduce(torch.ones(3), async_op=True)
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    for how in "_exit", "exit", "destroy":
        child = os.fork()
        if child == 0:
            if how == "exit":
                real_exit(0)
            if how == "destroy":
                try:
                    dist.destroy_process_group()
                except Exception:
                    os._exit(3)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, how
        check()
    work.wait()
    future.wait()
    dist.destroy_process_group()


def call_in_child(rank: int, size: int) -> int:
    """A call of a forked child fails; it does not hang, and does not disturb the parent's."""
    init(rank, size, timeout=5)
    check()
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(3))
        except RuntimeError as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    check()
    dist.destroy_process_group()
    return code


class Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(index))


def with_loaders(rank: int, size: int) -> None:
    """Workers of a DataLoader, which are forked after the start, while calls go on."""
    init(rank, size)
    sampler = torch.utils.data.distributed.DistributedSampler(Numbers(), shuffle=False)
    for _ in range(2):
        loader = torch.utils.data.DataLoader(Numbers(), 4, sampler=sampler, num_workers=2, multiprocessing_context="fork")
        total = torch.zeros(4)
        future = None
        for batch in loader:
            x = batch.sum(0)
            future = dist.all_reduce(x, async_op=True).get_future()
            future.wait()
            total += x
        assert torch.equal(total, torch.full((4,), float(sum(range(24))))), total
    dist.destroy_process_group()


def child_makes_a_group(rank: int, size: int) -> None:
    """Children of the ranks make a group of their own."""
    init(rank, size)
    check()
    child = os.fork()
    if child == 0:
        import tutti.torch
        import traceback

        try:
            store = dist.FileStore(str(Path(os.environ["TEST_FOLDER"], "children")), size)
            group = tutti.torch.ProcessGroupTutti(store, rank, size, datetime.timedelta(seconds=20))
            x = torch.ones(3)
            group.allreduce([x]).get_future().wait()
            os._exit(0 if x[0] == size else 4)
        except BaseException:
            traceback.print_exc()
            os._exit(5)
    assert os.waitpid(child, 0)[1] == 0
    check()
    dist.destroy_process_group()


class Processes(Ranks):
    def test_children(self):
        Job(2, with_children).values()

    def test_call_in_child(self):
        self.assertEqual(Job(2, call_in_child).values(), [7, 7])

    def test_loaders(self):
        Job(2, with_loaders, limit=60).values()

    def test_child_makes_a_group(self):
        Job(2, child_makes_a_group).values()


# ---- torchrun ----

ELASTIC = """
import datetime, os, signal, sys, torch, torch.distributed as dist, tutti.torch
dist.init_process_group("tutti", timeout=datetime.timedelta(seconds=40))
rank, round = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
for turn in range(5):
    x = torch.ones(3)
    dist.all_reduce(x, group=dist.new_group())
    assert x[0] == dist.get_world_size()
    if turn == 2 and round == 0 and rank == 1:
        if sys.argv[1] == "kill": os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(3)
sys.stdout.write(f"round {round} rank {rank} of {dist.get_world_size()}\\n")
dist.destroy_process_group()
"""


# Stores of torchrun, in its agent and in its ranks, want libuv, which Debian's torch 2.6 does not have. USE_LIBUV has no effect.
WITHOUT_LIBUV = """
import functools, sys, torch.distributed
if not torch.__version__.startswith("1."):
    store = functools.partial(torch.distributed.TCPStore, use_libuv=False)
    torch.distributed.TCPStore = sys.modules["torch.distributed.rendezvous"].TCPStore = store
"""
TORCHRUN = WITHOUT_LIBUV + """
from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend, static_tcp_rendezvous
if not torch.__version__.startswith("1."):
    c10d_rendezvous_backend.TCPStore = static_tcp_rendezvous.TCPStore = store
from torch.distributed.run import main
main()
"""


class Torchrun(Ranks):
    def run_job(self, *options: str, how: str) -> str:
        with tempfile.TemporaryDirectory(prefix="tutti-torch-") as folder:
            Path(folder, "elastic.py").write_text(WITHOUT_LIBUV + ELASTIC)
            # Debian 12's torchrun (1.13) fails with Python 3.11 without -r and -t.
            line = [sys.executable, "-c", TORCHRUN, "-r", "9:1", "-t", "9:1", "--log_dir", folder, *options]
            agent = subprocess.Popen([*line, f"{folder}/elastic.py", how], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                output = agent.communicate(timeout=60 + 15 * load())[0]
            except subprocess.TimeoutExpired:
                agent.terminate()  # it ends its ranks
                output = "it hangs:\n" + agent.communicate(timeout=60)[0]
            self.assertEqual(agent.returncode, 0, output[-6000:])
            return output

    def test_restarts(self):
        """A rank of the first round dies; the second round has the same store, and must not see keys of the first."""
        for how, options in [
            ("exit", ["--master_addr", "127.0.0.1", "--master_port", str(free_port())]),
            ("kill", ["--standalone"]),
        ]:
            with self.subTest(how):
                output = self.run_job("--nproc_per_node", "2", "--max_restarts", "1", *options, how=how)
                for rank in range(2):
                    self.assertIn(f"round 1 rank {rank} of 2", output)


if __name__ == "__main__":
    unittest.main()
