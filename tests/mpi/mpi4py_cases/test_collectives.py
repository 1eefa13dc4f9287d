"""Collectives through mpi4py: of buffers and of objects, blocking and not, on communicators of all kinds."""
import random
import unittest

import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
TYPES = "bHilfdD?"


def input_of(rank, count, kind, seed):
    values = np.random.default_rng(seed * 1000 + rank).integers(0, 5, count)
    return values.astype(kind)


class Collectives:
    """For each communicator: `comm` is set by a subclass."""
    comm = MPI.COMM_NULL

    def each(self):
        """Yields datatypes, counts, and roots, and the input of each rank. They are the same on all ranks."""
        generator = random.Random(7)
        for kind in TYPES:
            for count in (0, 7, 3000):
                root = generator.randrange(self.comm.size)
                inputs = [input_of(rank, count, kind, count) for rank in range(self.comm.size)]
                with self.subTest(kind=kind, count=count, root=root):
                    yield kind, count, root, inputs

    def equal(self, got, expected):
        np.testing.assert_array_equal(got, expected)

    def call(self, name, *args, **named):
        """The blocking form, or the nonblocking one."""
        getattr(self.comm, name)(*args, **named)

    def test_barrier(self):
        for _ in range(20):
            self.call("Barrier")

    def test_bcast(self):
        for _, _, root, inputs in self.each():
            data = inputs[root] if self.comm.rank == root else np.zeros_like(inputs[root])
            self.call("Bcast", data, root=root)
            self.equal(data, inputs[root])

    def test_gather_scatter(self):
        for kind, count, root, inputs in self.each():
            everything = np.zeros((self.comm.size, count), kind)
            self.call("Gather", inputs[self.comm.rank], everything if self.comm.rank == root else None, root=root)
            if self.comm.rank == root:
                self.equal(everything, inputs)
            mine = np.zeros(count, kind)
            self.call("Scatter", np.array(inputs) if self.comm.rank == root else None, mine, root=root)
            self.equal(mine, inputs[self.comm.rank])

    def test_allgather(self):
        for kind, count, _, inputs in self.each():
            everything = np.zeros((self.comm.size, count), kind)
            self.call("Allgather", inputs[self.comm.rank], everything)
            self.equal(everything, inputs)
            everything[:] = 0
            everything[self.comm.rank] = inputs[self.comm.rank]
            self.call("Allgather", MPI.IN_PLACE, everything)
            self.equal(everything, inputs)

    def test_vectors(self):
        size, rank = self.comm.size, self.comm.rank
        counts = [(3 * r) % 4 for r in range(size)]
        places = [10 * r + 1 for r in range(size)]
        mine = np.arange(counts[rank], dtype="d") + rank
        expected = np.full(10 * size + 10, -1.0)
        for r in range(size):
            expected[places[r]:places[r] + counts[r]] = np.arange(counts[r]) + r
        got = np.full_like(expected, -1)
        self.call("Allgatherv", mine, [got, counts, places, MPI.DOUBLE])
        self.equal(got, expected)
        got[:] = -1
        self.call("Gatherv", mine, [got, counts, places, MPI.DOUBLE] if rank == size - 1 else None, root=size - 1)
        if rank == size - 1:
            self.equal(got, expected)
        back = np.zeros(counts[rank])
        self.call("Scatterv", [expected, counts, places, MPI.DOUBLE] if rank == 0 else None, back, root=0)
        self.equal(back, mine)
        # Rank r sends r + 1 numbers to each rank.
        out, into = np.repeat(100.0 * rank + np.arange(size), rank + 1), np.zeros(size * (size + 1) // 2)
        ends = [r * (r + 1) // 2 for r in range(size)]
        self.call("Alltoallv", [out, [rank + 1] * size, [r * (rank + 1) for r in range(size)], MPI.DOUBLE],
                  [into, list(range(1, size + 1)), ends, MPI.DOUBLE])
        self.equal(into, np.concatenate([np.full(r + 1, 100.0 * r + rank) for r in range(size)]))
        into[:] = 0
        self.call("Alltoallw", [out, ([rank + 1] * size, [8 * r * (rank + 1) for r in range(size)]), [MPI.DOUBLE] * size],
                  [into, (list(range(1, size + 1)), [8 * e for e in ends]), [MPI.DOUBLE] * size])
        self.equal(into, np.concatenate([np.full(r + 1, 100.0 * r + rank) for r in range(size)]))

    def test_alltoall(self):
        for kind, count, _, inputs in self.each():
            size, rank = self.comm.size, self.comm.rank
            out = np.concatenate([np.roll(inputs[rank], to) for to in range(size)])
            into = np.zeros(size * count, kind)
            self.call("Alltoall", out, into)
            self.equal(into, np.concatenate([np.roll(inputs[of], rank) for of in range(size)]))
            self.call("Alltoall", MPI.IN_PLACE, out)
            self.equal(out, into)

    def operations(self, kind):
        yield MPI.SUM, np.add
        yield MPI.PROD, np.multiply
        if kind not in "FD?":
            yield MPI.MAX, np.maximum
            yield MPI.MIN, np.minimum
        if kind not in "fdFD?":
            yield MPI.BAND, np.bitwise_and
            yield MPI.BXOR, np.bitwise_xor
            yield MPI.LAND, lambda a, b: np.logical_and(a, b).astype(a.dtype)
        if kind == "?":
            yield MPI.LOR, np.logical_or

    def reductions(self):
        for kind, count, root, inputs in self.each():
            for op, function in self.operations(kind):
                if kind == "?" and op in (MPI.SUM, MPI.PROD):
                    continue
                sums = [inputs[0]]
                for other in inputs[1:]:
                    sums.append(function(sums[-1], other))
                yield kind, count, root, inputs, op, sums

    def test_allreduce(self):
        for _, _, root, inputs, op, sums in self.reductions():
            mine, got = inputs[self.comm.rank], np.zeros_like(sums[-1])
            self.call("Allreduce", mine, got, op)
            self.equal(got, sums[-1])
            got[:] = mine
            self.call("Allreduce", MPI.IN_PLACE, got, op)
            self.equal(got, sums[-1])
            got[:] = mine
            self.call("Reduce", MPI.IN_PLACE if self.comm.rank == root else mine, got if self.comm.rank == root else None, op, root)
            if self.comm.rank == root:
                self.equal(got, sums[-1])

    def test_scan(self):
        for _, _, _, inputs, op, sums in self.reductions():
            rank = self.comm.rank
            got = np.zeros_like(sums[-1])
            self.call("Scan", inputs[rank], got, op)
            self.equal(got, sums[rank])
            self.call("Exscan", inputs[rank], got, op)
            if rank > 0:
                self.equal(got, sums[rank - 1])

    def test_reduce_scatter(self):
        for kind, count, _, inputs, op, sums in self.reductions():
            size, rank = self.comm.size, self.comm.rank
            counts = [count // size + (r < count % size) for r in range(size)]
            start = sum(counts[:rank])
            got = np.zeros(counts[rank], kind)
            self.call("Reduce_scatter", inputs[rank], got, counts, op)
            self.equal(got, sums[-1][start:start + counts[rank]])
            even = count // size
            got = np.zeros(even, kind)
            self.call("Reduce_scatter_block", inputs[rank][:even * size].copy(), got, op)
            self.equal(got, sums[-1][even * rank:even * (rank + 1)])

    def test_operation_of_the_program(self):
        def multiply(a, b, _):
            left, right = np.frombuffer(a, "d").reshape(-1, 2, 2), np.frombuffer(b, "d").reshape(-1, 2, 2)
            right[:] = left @ right

        op, matrix = MPI.Op.Create(multiply, commute=False), MPI.DOUBLE.Create_contiguous(4).Commit()
        inputs = [np.array([[1, rank], [1, 1]] * 50, "d").reshape(50, 2, 2) for rank in range(self.comm.size)]
        expected = inputs[0]
        for other in inputs[1:]:
            expected = expected @ other
        got = np.zeros((50, 2, 2))
        self.call("Allreduce", [inputs[self.comm.rank], 50, matrix], [got, 50, matrix], op)
        self.equal(got, expected)
        op.Free()
        matrix.Free()

    def test_locations(self):
        pairs = np.zeros(3, np.dtype([("value", "d"), ("place", "i")], align=True))
        pairs["value"], pairs["place"] = [self.comm.rank, -self.comm.rank, 5], self.comm.rank
        for op, expected in ((MPI.MAXLOC, [self.comm.size - 1, 0, 0]), (MPI.MINLOC, [0, self.comm.size - 1, 0])):
            got = np.zeros_like(pairs)
            self.call("Allreduce", [pairs, 3, MPI.DOUBLE_INT], [got, 3, MPI.DOUBLE_INT], op)
            self.equal(got["place"], expected)

    def test_derived(self):
        column = MPI.INT.Create_vector(4, 1, 4).Create_resized(0, 4).Commit()
        out, into = np.arange(16, dtype="i").reshape(4, 4) + 100 * self.comm.rank, np.zeros((4, 4), "i")
        if self.comm.rank == 0:
            into = out
        self.call("Bcast", [into, 4, column], root=0)
        self.equal(into, np.arange(16).reshape(4, 4))
        everything = np.zeros((self.comm.size, 4), "i")
        self.call("Allgather", [out, 1, column], [everything, 4, MPI.INT])
        self.equal(everything, [100 * rank + np.arange(0, 16, 4) for rank in range(self.comm.size)])
        column.Free()


class Nonblocking(Collectives):
    def call(self, name, *args, **named):
        getattr(self.comm, "I" + name.lower())(*args, **named).Wait()


def cases(name, base, make):
    """A class of tests on a communicator."""
    def set_up(cls):
        cls.comm = make()

    def tear_down(cls):
        if cls.comm not in (MPI.COMM_WORLD, MPI.COMM_SELF, MPI.COMM_NULL):
            cls.comm.Free()

    members = {"setUpClass": classmethod(set_up), "tearDownClass": classmethod(tear_down), "__module__": __name__}
    globals()[name] = type(name, (base, unittest.TestCase), members)


for prefix, base in (("", Collectives), ("Nonblocking", Nonblocking)):
    cases(prefix + "World", base, lambda: MPI.COMM_WORLD)
    cases(prefix + "Self", base, lambda: MPI.COMM_SELF)
    cases(prefix + "Dup", base, WORLD.Dup)
    cases(prefix + "Split", base, lambda: WORLD.Split(WORLD.rank % 2, -WORLD.rank))
    cases(prefix + "Shared", base, lambda: WORLD.Split_type(MPI.COMM_TYPE_SHARED))
    cases(prefix + "Cart", base, lambda: WORLD.Create_cart([WORLD.size], [True], reorder=True))
    cases(prefix + "Graph", base, lambda: WORLD.Create_dist_graph_adjacent([WORLD.rank], [WORLD.rank]))


class Objects(unittest.TestCase):
    VALUES = (None, 7, "text", {"a": [1, 2.5]}, list(range(5000)))

    def test_all(self):
        size, rank = WORLD.size, WORLD.rank
        for root in range(size):
            for value in self.VALUES:
                self.assertEqual(WORLD.bcast(value if rank == root else None, root), value)
                got = WORLD.gather((rank, value), root)
                self.assertEqual(got, [(r, value) for r in range(size)] if rank == root else None)
                self.assertEqual(WORLD.scatter([(r, value) for r in range(size)] if rank == root else None, root), (rank, value))
                self.assertEqual(WORLD.allgather((rank, value)), [(r, value) for r in range(size)])
                self.assertEqual(WORLD.alltoall([(rank, to, value) for to in range(size)]), [(of, rank, value) for of in range(size)])

    def test_reductions(self):
        size, rank = WORLD.size, WORLD.rank
        self.assertEqual(WORLD.allreduce(rank), size * (size - 1) // 2)
        self.assertEqual(WORLD.allreduce([rank]), list(range(size)))
        self.assertEqual(WORLD.allreduce(str(rank), MPI.MAX), str(size - 1))
        self.assertEqual(WORLD.scan([rank]), list(range(rank + 1)))
        self.assertEqual(WORLD.exscan([rank]), list(range(rank)) if rank else None)
        self.assertEqual(WORLD.reduce((rank, rank), MPI.MAXLOC, root=0), (size - 1, size - 1) if rank == 0 else None)


class Waits(unittest.TestCase):
    """Requests of collectives and of messages in one list."""

    def start(self):
        right, left = (WORLD.rank + 1) % WORLD.size, (WORLD.rank - 1) % WORLD.size
        self.into, self.sum, self.all = np.zeros(2000), np.zeros(100), np.zeros(WORLD.size)
        self.out, self.ones, self.mine = np.full(2000, WORLD.rank, "d"), np.ones(100), np.array([WORLD.rank], "d")
        return [WORLD.Irecv(self.into, left, 5), WORLD.Iallreduce(self.ones, self.sum), WORLD.Isend(self.out, right, 5),
                WORLD.Iallgather(self.mine, self.all), MPI.REQUEST_NULL, WORLD.Ibarrier()]

    def check(self):
        np.testing.assert_array_equal(self.into, (WORLD.rank - 1) % WORLD.size)
        np.testing.assert_array_equal(self.sum, WORLD.size)
        np.testing.assert_array_equal(self.all, range(WORLD.size))

    def test_waitall(self):
        for _ in range(10):
            statuses = [MPI.Status() for _ in range(6)]
            MPI.Request.Waitall(self.start(), statuses)
            self.assertEqual((statuses[0].source, statuses[0].tag, statuses[0].Get_count(MPI.DOUBLE)), ((WORLD.rank - 1) % WORLD.size, 5, 2000))
            self.check()

    def test_waitany(self):
        requests = self.start()
        self.assertEqual(sorted(MPI.Request.Waitany(requests) for _ in range(5)), [0, 1, 2, 3, 5])
        self.assertEqual(MPI.Request.Waitany(requests), MPI.UNDEFINED)
        self.check()

    def test_waitsome_testsome(self):
        for function in (MPI.Request.Waitsome, MPI.Request.Testsome):
            requests, done = self.start(), []
            while len(done) < 5:
                done += function(requests)
            self.assertEqual(sorted(done), [0, 1, 2, 3, 5])
            self.assertIsNone(function(requests))
            self.check()

    def test_testall_testany(self):
        requests = self.start()
        while not MPI.Request.Testall(requests):
            pass
        self.check()
        requests, done = self.start(), []
        while len(done) < 5:
            index, flag = MPI.Request.Testany(requests)
            if flag:
                done.append(index)
        self.assertEqual(sorted(done), [0, 1, 2, 3, 5])
        self.check()

    def test_many_open(self):
        outs, sums = [np.full(50, i, "d") for i in range(40)], [np.zeros(50) for _ in range(40)]
        requests = [WORLD.Iallreduce(out, total) for out, total in zip(outs, sums)]
        WORLD.Barrier()
        for request in reversed(requests):
            request.Wait()
        for i, total in enumerate(sums):
            np.testing.assert_array_equal(total, i * WORLD.size)


class Communicators(unittest.TestCase):
    def total(self, comm):
        got = np.zeros(1, "i")
        comm.Allreduce(np.ones(1, "i"), got)
        return got[0]

    def test_many(self):
        for i in range(60):
            comm = WORLD.Split(WORLD.rank % (i % 3 + 1))
            self.assertEqual(self.total(comm), comm.size)
            comm.Free()

    def test_idup(self):
        comm, request = WORLD.Idup()
        request.Wait()
        for _ in range(3):
            self.assertEqual(self.total(comm), WORLD.size)
        comm.Free()

    def test_create_group(self):
        group = WORLD.group.Incl(range(0, WORLD.size, 2))
        if WORLD.rank % 2 == 0:
            comm = WORLD.Create_group(group, 3)
            self.assertEqual(self.total(comm), comm.size)
            comm.Free()
        comm = WORLD.Create(group)
        if comm != MPI.COMM_NULL:
            self.assertEqual(self.total(comm), group.size)
            comm.Free()

    def test_inter(self):
        if WORLD.size < 2:
            self.skipTest("needs 2 ranks")
        low = WORLD.rank < WORLD.size // 2
        local = WORLD.Split(low)
        inter = local.Create_intercomm(0, WORLD, WORLD.size // 2 if low else 0, 9)
        got = np.zeros(1, "i")
        inter.Allreduce(np.ones(1, "i"), got)
        self.assertEqual(got[0], inter.remote_size)
        self.assertEqual(inter.allgather(WORLD.rank), list(range(WORLD.size // 2, WORLD.size) if low else range(WORLD.size // 2)))
        merged = inter.Merge(not low)
        self.assertEqual(self.total(merged), WORLD.size)
        for comm in (merged, inter, local):
            comm.Free()

    def test_neighbours(self):
        cart = WORLD.Create_cart([WORLD.size], [True])
        got = np.zeros(2, "i")
        cart.Neighbor_allgather(np.array([WORLD.rank], "i"), got)
        self.assertEqual(list(got), [(WORLD.rank - 1) % WORLD.size, (WORLD.rank + 1) % WORLD.size])
        row = cart.Sub([True])
        self.assertEqual(self.total(row), WORLD.size)
        row.Free()
        cart.Free()

    def test_errors(self):
        comm = WORLD.Dup()
        data = np.zeros(4)
        for bad in (lambda: comm.Bcast(data, root=comm.size), lambda: comm.Reduce(data, data.copy(), MPI.SUM, -9),
                    lambda: comm.Allreduce(data, data.copy(), MPI.OP_NULL), lambda: comm.Allreduce(data, data.copy(), MPI.BAND)):
            self.assertRaises(MPI.Exception, bad)
        self.assertEqual(self.total(comm), WORLD.size)
        comm.Free()
        self.assertRaises(MPI.Exception, comm.Barrier)


if __name__ == "__main__":
    unittest.main()
