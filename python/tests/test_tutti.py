"""Tests of the installed package, as a user meets it: jobs of 1, 2 and 4 ranks, errors, signals, memory.

Run: python -m unittest discover -s python/tests
"""

import doctest
import math
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

import numpy as np
import tutti

HERE = Path(__file__).parent


def job(ranks, *arguments, limit=60):
    """Runs a script as a job. Returns the completed process."""
    line = [sys.executable, "-m", "tutti.run", "-n", str(ranks), *map(str, arguments)]
    # With PYTHONUNBUFFERED, print() writes a line and its end separately, so lines of ranks may mix.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(line, capture_output=True, text=True, timeout=limit, env=environment)


def program(ranks, text, limit=60):
    """Runs a text as a program of every rank."""
    return job(ranks, "--", sys.executable, "-c", "import tutti, numpy as np, time\n" + text, limit=limit)


class Jobs(unittest.TestCase):
    def test_collectives(self):
        seed = int(os.environ.get("TEST_SEED", time.time_ns() % 1_000_000))
        print(f"TEST_SEED={seed}", file=sys.stderr)
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                done = job(ranks, HERE / "collectives.py", seed, 32 * 15)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(sorted(done.stdout.split("\n")), [""] + [f"ok {r}" for r in range(ranks)])

    def test_hosts(self):
        """Each rank is a host of its own, so the ranks are connected by TCP."""
        rank = f'TUTTI_HOST=host$TUTTI_RANK exec "{sys.executable}" "{HERE / "collectives.py"}" 1 64'
        done = job(2, "--", "sh", "-c", rank)
        self.assertEqual(sorted(done.stdout.split("\n")), ["", "ok 0", "ok 1"], done.stderr)

    def test_canonical_order(self):
        """The bits are those of the tree over the ranks, for any size and collective; a ring is refused."""
        text = """
comm = tutti.init(timeout=20, order="canonical").dup()
def tree(rows):
    if len(rows) == 1: return rows[0]
    half = 1
    while 2 * half < len(rows): half *= 2
    return tree(rows[:half]) + tree(rows[half:])
for count in (1, 1000, 40000):
    inputs = np.random.default_rng(count).normal(size=(comm.size, comm.size * count)).astype(np.float32)
    expected, mine, out = tree(list(inputs)), inputs[comm.rank], np.empty(comm.size * count, np.float32)
    comm.allreduce(mine, out)
    assert (out == expected).all(), f"allreduce of {out.size}"
    comm.reduce_scatter(mine, out[:count])
    assert (out[:count] == expected[comm.rank * count:][:count]).all(), f"reduce_scatter of {count}"
    assert comm.size < 5 or count < 1000 or (expected != sum(inputs)).any(), "a chain has the same bits"
# A refusal ends the calls that are open on other ranks: also the barrier, which some ranks leave before others.
try:
    comm.barrier()
    comm.allreduce(mine, out, algorithm="ring")
except tutti.ArgumentError as error: print(error)
"""
        done = program(5, text)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("does not reduce in the canonical order"), 5, done.stdout)

    def test_order_of_a_call(self):
        text = """
comm = tutti.init(timeout=20)
rows = np.random.default_rng(3).normal(size=(5, 1000)).astype(np.float32)
expected, out = ((rows[0] + rows[1]) + (rows[2] + rows[3])) + rows[4], np.empty(1000, np.float32)
comm.allreduce(rows[comm.rank], out, order="canonical")
assert (out == expected).all(), "allreduce"
request = comm.prepare("reduce", rows[comm.rank], out, root=2, order="canonical")
request.start(); request.wait()
assert comm.rank != 2 or (out == expected).all(), "reduce"
comm.allreduce(rows[comm.rank], out, order="any")
"""
        done = program(5, text)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_leaves(self):
        """12 leaves have the same bits on 1, 3, 6 and 12 ranks."""
        text = """
import hashlib
comm = tutti.init(timeout=20)
k = 12 // comm.size
leaves = np.random.default_rng(1).normal(size=(12, 24)).astype(np.float32)
mine, out = leaves[comm.rank * k:][:k].copy(), np.empty(24, np.float32)
comm.allreduce(mine, out, tutti.AVG, leaves=k)
part, own = np.empty(24 // comm.size, np.float32), slice(comm.rank * 24 // comm.size, (comm.rank + 1) * 24 // comm.size)
comm.reduce_scatter(mine, part, tutti.AVG, leaves=k)
assert (part == out[own]).all(), "reduce_scatter"
comm.reduce_scatterv(mine, part, [part.size] * comm.size, op=tutti.AVG, leaves=k)
assert (part == out[own]).all(), "reduce_scatterv"
comm.iallreduce(mine, op=tutti.AVG, leaves=k).wait()
assert (mine[0] == out).all(), "in place"
if comm.rank == 0: print(hashlib.sha256(out).hexdigest())
"""
        seen = set()
        for ranks in (1, 3, 6, 12):
            done = program(ranks, text)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            seen.add(done.stdout)
        self.assertEqual(len(seen), 1)

    def test_communicators(self):
        done = program(
            4,
            """
world = tutti.init(timeout=20)
half = world.split(world.rank % 2, -world.rank)
assert (half.size, half.rank) == (2, 1 - world.rank // 2)
x = np.array([world.rank])
half.allreduce(x)
assert x[0] == (2 if world.rank % 2 == 0 else 4), x
none = world.split(tutti.NO_COLOR if world.rank else 0)
assert (none is None) == (world.rank > 0)
assert world.alone().size == 1
twin = world.dup()
twin.barrier()
twin.free()
if world.rank in (3, 1):
  pair = world.create([3, 1], tag=2)
  assert (pair.size, pair.rank) == (2, world.rank == 1)
  pair.barrier()
try: world.create([0, -1])
except tutti.ArgumentError as error: assert "got -1" in str(error)
world.barrier()
""",
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_stats(self):
        """Rank 1 comes late to each call, so the others wait for it."""
        done = program(
            3,
            """
world = tutti.init(timeout=20)
x = np.zeros(4, np.float32)
for step in range(10):
  if world.rank == 1: time.sleep(0.02)
  world.allreduce(x, algorithm="reduce_broadcast")
world.send(x, (world.rank + 1) % 3)
world.recv(x, (world.rank + 2) % 3)
twin = world.dup()
assert twin.stats(twin.rank) == tutti.RankStats(0, 0, 0, 0, 0, 0), twin.stats()
everyone = twin.allgather_object(world.stats(world.rank))
known = world.stats()
for rank, other in enumerate(everyone):
  assert (other.messages, other.message_bytes) == (2, 2 * 16), other
  assert other.calls == known[rank].calls >= 10, (other, known)
assert world.rank != 0 or known[1].awaited_here_ns > 0, known
assert known[1].awaited_ns >= known[1].awaited_here_ns
print("ok\\n", end="", flush=True)
""",
        )
        self.assertEqual(done.stdout, "ok\n" * 3, done.stderr)

    def test_a_rank_that_dies_is_named(self):
        done = program(
            2,
            """
import os
world = tutti.init(timeout=20)
world.barrier()
if world.rank == 1: os._exit(0)
try: world.recv(np.zeros(1), 1)
except tutti.PeerError as error: print(type(error).__name__, "rank 1" in str(error))
""",
        )
        self.assertEqual(done.stdout, "PeerError True\n", done.stderr)

    def test_a_time_out_is_an_exception(self):
        done = program(
            2,
            """
world = tutti.init()
if world.rank == 1: time.sleep(2)
else:
  start = time.monotonic()
  try: world.recv(np.zeros(1), 1, timeout=0.3)
  except TimeoutError as error: print(isinstance(error, tutti.Error), 0.2 < time.monotonic() - start < 1.5)
""",
        )
        self.assertEqual(done.stdout, "True True\n", done.stderr)

    def test_abort_and_mismatch(self):
        done = program(
            2,
            """
world = tutti.init(timeout=20)
twin = world.dup()
try:
  if world.rank: twin.abort("no more data")
  else: twin.barrier()
except tutti.AbortedError as error: print(f"{'no more data' in str(error)}\\n", end="")
try: world.allreduce(np.zeros(1 + world.rank), timeout=5)
except tutti.MismatchError as error: print("mismatch\\n", end="", flush=True)
""",
        )
        self.assertEqual(sorted(done.stdout.split()), ["True", "mismatch", "mismatch"], done.stderr)

    def test_requests(self):
        done = program(
            2,
            """
import gc
world = tutti.init(timeout=20)
other = 1 - world.rank
a, b = np.full(3, world.rank), np.zeros(3, int)
late = world.irecv(b, other, tag=9)
assert not late.done and not late.test()
dropped = bytearray(8)
world.isend(dropped, other, tag=1)
world.irecv(bytearray(8), other, tag=1)  # both are dropped while open
gc.collect()
world.barrier()
world.isend(a, other, tag=9).wait()
late.wait(); late.wait()
assert late.done and list(b) == [other] * 3
for _ in range(8): world.ibarrier().wait()
dropped.append(1)  # fails while a view of the array exists
x = np.zeros(2)
again = world.prepare("allreduce", x)
for step in range(5):
  x[:] = step
  again.start()
  again.wait()
  assert list(x) == [2 * step] * 2
world.free()
try: again.start()
except tutti.ArgumentError as error: print(f"{'ended' in str(error)}\\n", end="", flush=True)
""",
        )
        # Both ranks print, and the newline of one may come after the word of the other.
        self.assertEqual("".join(done.stdout.split()), "True" * 2, done.stderr)

    def test_waits_that_give_up(self):
        done = program(
            2,
            """
world = tutti.init(timeout=20)
other = 1 - world.rank
x = np.zeros(1, int)
late = world.irecv(x, other, tag=9)
for limit in 0, 0.001, 0.12:
  try: late.wait(limit)
  except tutti.TimeoutError as error: assert "stays open" in str(error), error
  else: raise AssertionError("the message has come")
  assert not late.done
world.barrier()  # the communicator is usable
world.send(np.array([world.rank + 5]), other, tag=9)
late.wait(timeout=20)
late.wait(0)
assert late.done and x[0] == other + 5
again = world.prepare("barrier")
assert again.done
again.start()
again.wait(float("inf"))
requests = [None, again] + [world.irecv(np.zeros(1, int), other, tag) for tag in range(6)]
assert tutti.test_some(requests) == []
world.barrier()
for tag in 5, 0, 3, 4, 2, 1: world.send(x, other, tag)
again.start()
found = []
while len(found) < 7:
  some = tutti.test_some(requests)
  assert some == sorted(some) and all(requests[i].done for i in some)
  found += some
assert sorted(found) == list(range(1, 8)) and tutti.test_some(requests) == []
world.free()
""",
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_list_with_failures(self):
        comm = tutti.init()
        try:
            fails, stays = comm.dup(), comm.dup()
            requests = [stays.ibarrier(), fails.irecv(bytearray(1), 0), stays.ibarrier()]
            self.assertEqual([request.done for request in requests], [True, False, True])
            fails.abort("for the test")
            self.assertTrue(requests[1].done)
            self.assertRaisesRegex(tutti.AbortedError, "for the test", tutti.test_some, requests)
            self.assertEqual(tutti.test_some(requests), [2])
            self.assertEqual(tutti.test_some(requests), [])
            self.assertRaisesRegex(tutti.ArgumentError, "twice", tutti.test_some, [stays.irecv(bytearray(1), 0)] * 2)
            fails.close()
            self.assertRaises(tutti.ArgumentError, stays.close)  # a receive is open
        finally:
            comm.close()

    def test_an_open_request_keeps_its_communicator(self):
        comm = tutti.init()
        try:
            twin = comm.dup()
            again = twin.prepare("barrier")
            request = twin.irecv(bytearray(1), 0)
            self.assertRaisesRegex(tutti.ArgumentError, "1 requests", twin.free)
            again.start()  # a refused free() changes nothing
            again.wait()
            self.assertRaises(tutti.ArgumentError, twin.close)
            self.assertTrue(request.done)
        finally:
            comm.close()

    def test_threads(self):
        """Threads of a rank share a communicator; each has messages of its own tag."""
        done = program(
            2,
            """
import threading
world = tutti.init(timeout=20)
peer = 1 - world.rank
sums = []
def talk(tag):
  total, x = 0, np.zeros(1, int)
  for step in range(300):
    request = world.isend(np.array([step * tag]), peer, tag)
    world.recv(x, peer, tag)
    request.wait()
    total += int(x[0])
  sums.append(total == tag * 300 * 299 // 2)
threads = [threading.Thread(target=talk, args=(tag,)) for tag in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert sums == [True] * 4, sums
world.free()
""",
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_objects(self):
        text = """
world = tutti.init(timeout=20)
def thing(rank): return {"rank": rank, "text": "x" * 10 ** rank}
for root in range(world.size):
  mine = thing(world.rank)
  assert world.broadcast_object(mine, root) == thing(root)
  everything = [thing(r) for r in range(world.size)]
  assert world.gather_object(mine, root) == (everything if world.rank == root else None)
  assert world.allgather_object(mine) == everything
  assert world.scatter_object(everything if world.rank == root else None, root) == mine
if world.size > 1:
  peer = world.rank ^ 1
  if world.rank < peer: world.send_object(thing(world.rank), peer, 3)
  assert world.recv_object(peer, 3) == thing(peer)
  if world.rank > peer: world.send_object(thing(world.rank), peer, 3)
world.barrier()
"""
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                done = program(ranks, text)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_ctrl_c_ends_a_wait(self):
        script = """
import tutti, numpy as np, threading, os, signal, time
world = tutti.init()
if world.rank == 1: time.sleep(2); raise SystemExit
sent = []
def press(): sent.append(time.monotonic()); os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.5, press).start()
try: world.recv(np.zeros(1), 1)
except KeyboardInterrupt: print(time.monotonic() - sent[0])
"""
        done = job(2, "--", sys.executable, "-c", script)
        self.assertLess(float(done.stdout), 0.3, done.stderr)

    def test_other_threads_run_during_a_wait(self):
        done = program(
            2,
            """
import threading
world = tutti.init(timeout=20)
x = np.zeros(1)
if world.rank == 1: time.sleep(0.5); world.send(x, 0)
else:
  steps = []
  def count():
    while not stop: steps.append(1); time.sleep(0.01)
  stop = False
  thread = threading.Thread(target=count); thread.start()
  world.recv(x, 1)
  stop = True; thread.join()
  print(len(steps) > 10)
world.barrier()
""",
        )
        self.assertEqual(done.stdout, "True\n", done.stderr)


class Refusals(unittest.TestCase):
    """Bad input gets a sentence, before anything starts: the communicator stays usable."""

    @classmethod
    def setUpClass(cls):
        cls.comm = tutti.init()

    @classmethod
    def tearDownClass(cls):
        cls.comm.close()

    def test_sentences(self):
        comm, x = self.comm, np.zeros(4)
        fixed = np.zeros(4)
        fixed.flags.writeable = False
        cases = [
            (lambda: comm.allreduce([1, 2]), "send|recv: expected an object with the buffer protocol.*got list"),
            (lambda: comm.allreduce(np.zeros((4, 4))[:, 1]), "contiguous"),
            (lambda: comm.allreduce(fixed), "may be written"),
            (lambda: comm.allreduce(x, np.zeros(3)), "recv: expected 32 bytes"),
            (lambda: comm.allreduce(x, np.zeros(4, np.float32)), "send has elements of f64 and recv of f32"),
            (lambda: comm.allreduce(np.zeros(4, complex)), "no datatype of the library"),
            (lambda: comm.allreduce(x.astype(">f8")), "no datatype of the library"),
            (lambda: comm.allreduce(x, dtype=99), "dtype: 99"),
            (lambda: comm.allreduce(np.zeros(3, np.uint8), dtype=tutti.BF16), "3 bytes cannot be divided"),
            (lambda: tutti.init(order="sorted"), "order: expected any or canonical, got 'sorted'"),
            (lambda: comm.allreduce(x, order="sorted"), "order: expected any or canonical, got 'sorted'"),
            (lambda: comm.allreduce(x, leaves=3), "send: 32 bytes cannot be divided into 3 blocks|recv: 32 bytes cannot"),
            (lambda: comm.allreduce(x, x.copy(), leaves=2), "recv: expected 16 bytes"),
            (lambda: comm.allreduce(x, leaves=-1), "leaves: expected 0 or more, got -1"),
            (lambda: comm.reduce_scatterv(x, x[:3], [3], leaves=2), "buffer of 2 elements for each leaf"),
            (lambda: comm.broadcast(x, root=-1), "expected numbers from 0"),
            (lambda: comm.allgatherv(x, x.copy(), [5]), r"counts\[0\] = 5 elements, got 4"),
            (lambda: comm.allgatherv(x, x.copy(), [4], [1]), "does not lie in the buffer of 4 elements"),
            (lambda: comm.allgatherv(x, x.copy(), [4], [2**63 - 1]), "does not lie in the buffer of 4 elements"),
            (lambda: comm.allgatherv(x, x.copy(), [4, 4]), "counts: expected 1 numbers, one per rank, got 2"),
            (lambda: comm.allgatherv(x, x.copy(), [-4]), "expected 0 or more, got -4"),
            (lambda: comm.gatherv(x, x.copy()), "recv: the counts of its blocks are missing"),
            (lambda: comm.barrier(timeout=0), "timeout: expected seconds"),
            (lambda: comm.ibarrier().wait(-1), "timeout: expected seconds from 0.*got -1"),
            (lambda: comm.ibarrier().wait(math.nan), "timeout: expected seconds from 0.*got nan"),
            (lambda: tutti.test_some([comm]), "test_some: expected requests or None, got Communicator"),
        ]
        for call, sentence in cases:
            with self.subTest(sentence=sentence):
                self.assertRaisesRegex(tutti.ArgumentError, sentence, call)
        comm.allreduce(x)

    def test_a_freed_communicator(self):
        comm = self.comm.dup()
        comm.free()
        comm.free()
        self.assertRaisesRegex(tutti.ArgumentError, "is freed", comm.barrier)
        self.assertRaisesRegex(tutti.ArgumentError, "is freed", lambda: comm.rank)

    def test_buffers_are_released(self):
        array = bytearray(8)
        self.comm.allreduce(array)
        array.append(1)  # fails while a view of the array exists
        import array as arrays

        self.comm.allreduce(arrays.array("d", [1.0]))

    def test_narrow_floats(self):
        ones = np.full(3, 0x3F80, np.uint16)
        self.comm.allreduce(ones, dtype=tutti.BF16)
        self.assertEqual(list(ones), [0x3F80] * 3)

    def test_elements_without_a_format(self):
        """numpy exports some types, such as those of ml_dtypes, only without their format. dtype= names them."""
        times = np.arange(3).astype("M8[s]")
        self.assertRaisesRegex(tutti.ArgumentError, "recv: the object tells no format.*dtype=", self.comm.allreduce, times)
        self.comm.allreduce(times, dtype=tutti.I64)
        self.assertRaisesRegex(tutti.ArgumentError, "contiguous", self.comm.allreduce, times[::2], dtype=tutti.I64)

    def test_stats(self):
        comm = self.comm.dup()
        self.assertEqual(comm.stats(0), tutti.RankStats(0, 0, 0, 0, 0, 0))
        comm.allreduce(np.zeros(4))
        request = comm.isend(bytearray(5), 0)
        comm.recv(bytearray(5), 0)
        request.wait()
        self.assertEqual(comm.stats(), [tutti.RankStats(1, 2, 10, 0, 0, 0)])
        self.assertRaises(AttributeError, setattr, comm.stats(0), "calls", 7)
        for rank in (1, -1, 2**32, 2**70):
            self.assertRaisesRegex(tutti.ArgumentError, "stats: .*rank.* 0", comm.stats, rank)
        self.assertRaises(TypeError, comm.stats, "0")
        comm.close()
        self.assertRaisesRegex(tutti.ArgumentError, "is freed", comm.stats, 0)
        self.assertRaisesRegex(tutti.ArgumentError, "is freed", comm.stats)

    def test_unknown_algorithm(self):
        comm = self.comm.dup()
        self.assertRaisesRegex(tutti.ArgumentError, "nonesuch", lambda: comm.barrier(algorithm="nonesuch"))
        comm.close()

    def test_a_child_of_fork_does_no_harm(self):
        child = os.fork()
        if child == 0:
            try:
                self.comm.barrier()
            except tutti.ArgumentError:
                os._exit(7)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        self.comm.barrier()


class Wheel(unittest.TestCase):
    def test_it_contains_the_library_and_the_command(self):
        """tests/python_test.sh removes the library from which the wheel was built."""
        done = program(
            2,
            """
import os
package = os.path.dirname(os.path.realpath(tutti.__file__))
command = os.path.realpath(f"/proc/{os.getppid()}/exe")
files = {line.split()[-1] for line in open("/proc/self/maps") if "libtutti" in line}
libraries = {os.path.relpath(name, package) for name in files}
assert (os.path.relpath(command, package), libraries) == ("bin/tutti", {"libtutti.so.0"}), (command, files)
""",
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Document(unittest.TestCase):
    def test_docs_python(self):
        document = HERE.parent.parent / "docs" / "PYTHON.md"
        failed, tried = doctest.testfile(str(document), module_relative=False)
        self.assertEqual(failed, 0)
        self.assertGreater(tried, 10)


if __name__ == "__main__":
    unittest.main()
