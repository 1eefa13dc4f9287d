"""Tests of memory of tutti_alloc: arrays, ends in any order, fork, threads."""

import gc
import os
import random
import subprocess
import sys
import time
import unittest

import numpy as np
import tutti
from test_tutti import job, program


class Alone(unittest.TestCase):
    """A job of one rank."""

    def setUp(self):
        self.comm = tutti.init()
        self.addCleanup(self.comm.close)

    def test_bytes(self):
        memory = self.comm.alloc_bytes(100)
        self.assertEqual((len(memory), repr(memory)), (100, "<tutti.Memory of 100 bytes>"))
        view = memoryview(memory)
        self.assertEqual((view.format, view.nbytes, view.readonly), ("B", 100, False))
        view[:] = bytes(range(100))
        self.comm.allreduce(memory)
        self.assertEqual(bytes(memory), bytes(range(100)))
        self.assertEqual(bytes(self.comm.alloc_bytes(0)), b"")
        self.assertRaises(TypeError, tutti.Memory)

    def test_arrays(self):
        for shape, dtype in (((3, 4), np.float32), (5, "i8"), ((), float), ((0, 7), np.int8), ([2, 3], "f2")):
            with self.subTest(shape=shape, dtype=dtype):
                array = self.comm.alloc(shape, dtype)
                like = np.empty(shape, dtype)
                self.assertEqual((array.shape, array.dtype), (like.shape, like.dtype))
                self.assertTrue(array.flags.writeable and array.flags.c_contiguous)
                array[...] = 1
                self.comm.allreduce(array)
                self.assertTrue((array == 1).all())
        self.assertEqual(self.comm.alloc(3).dtype, float)

    def test_refusals(self):
        with self.assertRaisesRegex(tutti.ArgumentError, "got -1"):
            self.comm.alloc_bytes(-1)
        with self.assertRaisesRegex(tutti.ArgumentError, "0 or more"):
            self.comm.alloc((2, -1))
        with self.assertRaisesRegex(tutti.ArgumentError, "Python objects"):
            self.comm.alloc(3, object)
        for size in (1 << 50, 1 << 80):
            with self.assertRaisesRegex(tutti.OutOfMemoryError, "TUTTI_SHM_BYTES"):
                self.comm.alloc_bytes(size)
        with self.assertRaises(TypeError):
            self.comm.alloc_bytes(1.5)
        self.comm.alloc(3)

    def test_memory_is_freed_with_its_last_view(self):
        """All of it together would not fit."""
        os.environ["TUTTI_SHM_BYTES"] = "64M"
        try:
            comm = tutti.init()
        finally:
            del os.environ["TUTTI_SHM_BYTES"]
        self.addCleanup(comm.close)
        for step in range(20):
            row = comm.alloc((2, 8 << 20), np.uint8)[1]
            view = memoryview(row)
            del row
            view[0] = step % 256
            self.assertEqual(view[0], step % 256)
            del view

    def test_a_freed_communicator(self):
        array = self.comm.alloc(1000)
        self.comm.free()
        array[:] = 3
        self.assertEqual(array.sum(), 3000)
        self.assertRaisesRegex(tutti.ArgumentError, "is freed", self.comm.alloc, 3)
        again = tutti.init()
        again.allreduce(array)  # memory of another world is ordinary memory
        again.free()
        self.assertEqual(array.sum(), 3000)

    def test_a_request_holds_the_memory(self):
        twin = self.comm.dup()
        request = twin.irecv(twin.alloc(3), 0)
        gc.collect()
        self.comm.alloc(3)[:] = 9
        twin.send(np.ones(3), 0)
        request.wait()
        request = twin.irecv(twin.alloc(3), 0)
        self.assertRaises(tutti.ArgumentError, twin.close)
        self.assertTrue(request.done)

    def test_ends_in_any_order(self):
        seed = int(os.environ.get("TEST_SEED", time.time_ns() % 1_000_000))
        choose = random.Random(seed)
        for step in range(60):
            with self.subTest(TEST_SEED=seed, step=step):
                world = tutti.init()
                comms = [world, world.dup(), world.alone(), world.create([0])]
                arrays = [choose.choice(comms).alloc(choose.choice([1, 5000])) for _ in range(4)]
                things = comms + [array[1:] for array in arrays] + [memoryview(array) for array in arrays]
                del world, comms, arrays
                while things:
                    thing = things.pop(choose.randrange(len(things)))
                    if isinstance(thing, tutti.Communicator):
                        choose.choice([tutti.Communicator.close, tutti.Communicator.free, repr])(thing)
                    elif len(thing):
                        thing[0] = step
                    del thing

    def test_a_child_of_fork(self):
        """It cannot allocate, and its objects do nothing when they end."""
        array = self.comm.alloc(10, np.uint8)
        array[:] = 1
        child = os.fork()
        if child == 0:
            try:
                self.comm.alloc(1)
            except tutti.ArgumentError:
                del array
                self.comm = None
                gc.collect()
                os._exit(7)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        self.comm.allreduce(array)
        self.assertEqual(list(array), [1] * 10)
        self.comm.alloc(1)[:] = 1


class Jobs(unittest.TestCase):
    calls = """
world = tutti.init(timeout=20)
half = 1 << 15
for make in (world.alloc, np.zeros):
  a, b = make(2 * half, np.float32), world.alloc(2 * half, np.float32)
  for count in (1, 1000, half):
    a[:], b[:] = world.rank + 1, 0
    world.allreduce(a[:count], b[:count])
    assert (b[:count] == 3).all() and (b[count:] == 0).all()
    world.allgather(a[:count], b[: 2 * count])
    assert (b[:count] == 1).all() and (b[count : 2 * count] == 2).all()
    world.alltoall(b[: 2 * count])
    assert (b[: 2 * count] == world.rank + 1).all()
kept = world.alloc(3)
world.free()
kept[:] = 1
"""

    def test_calls(self):
        done = program(2, self.calls)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_calls_between_hosts(self):
        rank = f'TUTTI_HOST=host$TUTTI_RANK exec "{sys.executable}" -c "$0"'
        done = job(2, "--", "sh", "-c", rank, "import tutti, numpy as np\n" + self.calls)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_children_of_fork(self):
        """They share the memory of their parent."""
        done = program(
            2,
            """
import os
world = tutti.init(timeout=20)
a = world.alloc(2)
a[:] = 1
child = os.fork()
if child == 0:
  a[0] = 2
  del a, world
  os._exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
world.allreduce(a)
assert list(a) == [4, 2]
world.free()
""",
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_threads(self):
        """Threads allocate and drop memory while another waits on the communicator."""
        done = program(
            2,
            """
import threading
world = tutti.init(timeout=20)
if world.rank == 1:
  world.barrier()
  world.send(np.ones(1), 0)
else:
  got = world.alone().alloc(1)
  wait = threading.Thread(target=lambda: world.recv(got, 1)); wait.start()
  def work(value):
    for step in range(200):
      array = world.alloc(1 + step)
      array[:] = value
      assert (array == value).all()
  threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
  for thread in threads: thread.start()
  for thread in threads: thread.join()
  world.barrier()
  wait.join()
  assert got[0] == 1
world.free()
""",
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_failed_world(self):
        done = program(
            2,
            """
world = tutti.init(timeout=20)
a = world.alloc(1 << 16)
a[:] = 1
world.allreduce(a)
if world.rank == 1: import os; os._exit(0)
try: world.allreduce(a)
except tutti.PeerError: print("peer")
b = world.alloc(3); b[:] = 1
try: world.dup()
except tutti.PeerError: print("peer")
del b
world.close()
a[:] = 1
""",
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "peer\npeer\n", ""))

    def test_ends_of_the_interpreter(self):
        """Arrays that live until the process ends: in globals, circles, other threads, and after an exception."""
        ends = {
            "pass": 0,
            "raise SystemExit(3)": 3,
            "del world": 0,
            "world.free()": 0,
            "circle = [a]; circle.append(circle); circle.append(world); del a, world": 0,
            "import atexit; atexit.register(lambda: a.fill(world.rank))": 0,
            "import builtins; builtins.kept = a": 0,
            "threading.Thread(target=lambda a: (time.sleep(0.1), a.fill(1)), args=(a,)).start(); del a": 0,
            "threading.Thread(target=lambda a: time.sleep(60), args=(a,), daemon=True).start(); del a": 0,
            "request = world.irecv(a, 0)": 0,
        }
        for text, status in ends.items():
            with self.subTest(text=text):
                begin = "import threading, time, tutti\nworld = tutti.init(); a = world.alloc(5); b = a[1:]\n"
                done = subprocess.run([sys.executable, "-c", begin + text], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (status, ""))


if __name__ == "__main__":
    unittest.main()
