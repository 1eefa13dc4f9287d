"""One rank of a job: random calls of every collective, compared with numpy. Arguments: seed, number of calls."""

import os
import sys

import numpy as np
import tutti

TYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64, np.bool_]
REDUCTIONS = {
    tutti.SUM: np.add.reduce,
    tutti.PROD: np.multiply.reduce,
    tutti.MIN: np.minimum.reduce,
    tutti.MAX: np.maximum.reduce,
}


def reduced(op, rows):
    return REDUCTIONS[op](rows, dtype=rows.dtype) if op in (tutti.SUM, tutti.PROD) else REDUCTIONS[op](rows)


class Forms:
    """The calls of a communicator in a form: blocking, started, or prepared."""

    def __init__(self, comm, form):
        self.comm, self.form = comm, form

    def __getattr__(self, name):
        def call(*arguments, **options):
            if self.form == "started":
                tutti.wait_all([getattr(self.comm, "i" + name)(*arguments, **options)])
            elif self.form == "prepared":
                request = self.comm.prepare(name, *arguments, **options)
                request.start()
                tutti.wait_any([request])
            else:
                getattr(self.comm, name)(*arguments, **options)

        return call


class Case:
    """One random call. `inputs` has a row of ranks * count elements for each rank, and is equal on all ranks."""

    def __init__(self, comm, random):
        self.rank, self.size = comm.rank, comm.size
        self.form = str(random.choice(["blocking", "started", "prepared"]))
        self.comm = Forms(comm, self.form)
        self.count = int(random.choice([0, 1, 3, 64, 5000]))
        self.root = int(random.integers(comm.size))
        self.op = tutti.Op(int(random.choice(list(REDUCTIONS))))
        self.in_place = bool(random.integers(2))
        self.dtype = TYPES[random.integers(len(TYPES))]
        self.inputs = random.integers(0, 3, (comm.size, comm.size * self.count)).astype(self.dtype)

    def rows(self):
        return self.inputs[:, : self.count].copy()

    def empty(self, blocks=1):
        return np.full(blocks * self.count, 77, self.dtype)

    def reduction(self, call, expected, **options):
        mine, out = self.rows()[self.rank], self.empty()
        if self.in_place:
            call(mine, op=self.op, **options)
            return mine, expected
        call(mine, out, self.op, **options)
        return out, expected

    def allreduce(self):
        return self.reduction(self.comm.allreduce, reduced(self.op, self.rows()))

    def reduce(self):
        expected = reduced(self.op, self.rows())
        if self.rank != self.root:
            expected = self.rows()[self.rank] if self.in_place else self.empty()
        return self.reduction(self.comm.reduce, expected, root=self.root)

    def scan(self):
        return self.reduction(self.comm.scan, reduced(self.op, self.rows()[: self.rank + 1]))

    def exscan(self):
        if self.rank == 0:
            return self.reduction(self.comm.exscan, self.rows()[0] if self.in_place else self.empty())
        return self.reduction(self.comm.exscan, reduced(self.op, self.rows()[: self.rank]))

    def broadcast(self):
        mine = self.rows()[self.rank]
        self.comm.broadcast(mine, self.root)
        return mine, self.rows()[self.root]

    def gather(self):
        all_rows, out = self.rows().reshape(-1), self.empty(self.size)
        self.comm.gather(self.rows()[self.rank], out, self.root)
        return out, all_rows if self.rank == self.root else self.empty(self.size)

    def scatter(self):
        out = self.empty()
        self.comm.scatter(self.inputs[self.root].copy(), out, self.root)
        return out, self.inputs[self.root].reshape(self.size, -1)[self.rank]

    def allgather(self):
        out = self.empty(self.size)
        if self.in_place:
            out.reshape(self.size, -1)[self.rank] = self.rows()[self.rank]
        self.comm.allgather(tutti.IN_PLACE if self.in_place else self.rows()[self.rank], out)
        return out, self.rows().reshape(-1)

    def reduce_scatter(self):
        mine, out = self.inputs[self.rank].copy(), self.empty()
        self.comm.reduce_scatter(mine, tutti.IN_PLACE if self.in_place else out, self.op)
        result = mine.reshape(self.size, -1)[self.rank] if self.in_place else out
        return result, reduced(self.op, self.inputs).reshape(self.size, -1)[self.rank]

    def alltoall(self):
        mine, out = self.inputs[self.rank].copy(), self.empty(self.size)
        self.comm.alltoall(mine, None if self.in_place else out)
        expected = self.inputs.reshape(self.size, self.size, -1)[:, self.rank]
        return mine if self.in_place else out, expected.reshape(-1)

    def blocks(self):
        """Returns counts and offsets of blocks that lie apart, the last rank's first, and the length of the buffer."""
        counts = [(self.count + 3 * r) % 11 for r in range(self.size)]
        offsets = [13 * (self.size - 1 - r) for r in range(self.size)]
        return (counts, offsets, 13 * self.size) if self.in_place else (counts, None, sum(counts))

    def placed(self, rows):
        """Returns a buffer of 77 in which the block of each rank is the beginning of its row."""
        counts, offsets, length = self.blocks()
        out, packed = np.full(length, 77, self.dtype), 0
        for rank, row in enumerate(rows):
            begin = offsets[rank] if offsets else packed
            out[begin : begin + counts[rank]] = row[: counts[rank]]
            packed += counts[rank]
        return out

    def long_rows(self):
        """Returns a row of 11 elements for each pair of ranks."""
        numbers = np.arange(self.size * self.size * 11) * 7 + self.count
        return (numbers % 5).astype(self.dtype).reshape(self.size, self.size, 11)

    def allgatherv(self):
        (counts, offsets, length), rows = self.blocks(), self.long_rows()[0]
        out = np.full(length, 77, self.dtype)
        self.comm.allgatherv(rows[self.rank][: counts[self.rank]].copy(), out, counts, offsets)
        return out, self.placed(rows)

    def gatherv(self):
        (counts, offsets, length), rows = self.blocks(), self.long_rows()[0]
        out = np.full(length, 77, self.dtype)
        self.comm.gatherv(rows[self.rank][: counts[self.rank]].copy(), out, counts, offsets, self.root)
        return out, self.placed(rows) if self.rank == self.root else np.full(length, 77, self.dtype)

    def scatterv(self):
        (counts, offsets, _), rows = self.blocks(), self.long_rows()[0]
        out = np.full(counts[self.rank], 77, self.dtype)
        self.comm.scatterv(self.placed(rows), out, counts, offsets, self.root)
        return out, rows[self.rank][: counts[self.rank]]

    def reduce_scatterv(self):
        (counts, offsets, _), rows = self.blocks(), self.long_rows()
        out = np.full(counts[self.rank], 77, self.dtype)
        self.comm.reduce_scatterv(self.placed(rows[self.rank]), out, counts, offsets, self.op)
        return out, reduced(self.op, rows[:, self.rank, : counts[self.rank]].copy())

    def alltoallv(self):
        """Rank s sends (s + r) % 5 elements to rank r."""
        rows, everyone = self.long_rows(), range(self.size)
        counts = [(self.rank + r) % 5 for r in everyone]
        mine = np.concatenate([rows[self.rank][r][: counts[r]] for r in everyone])
        out = np.full(5 * self.size, 77, self.dtype)
        expected = out.copy()
        for s in everyone:
            expected[5 * s : 5 * s + counts[s]] = rows[s][self.rank][: counts[s]]
        self.comm.alltoallv(mine, out, counts, counts, recv_offsets=[5 * s for s in everyone])
        return out, expected

    def ring(self):
        """A message to the next rank. Rank 0 sends first; the others receive first."""
        out, mine = self.empty(), self.rows()[self.rank]
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        if self.size == 1:
            return mine, mine
        if self.rank == 0:
            self.comm.send(mine, after, tag=5)
        self.comm.recv(out, tutti.ANY_RANK if self.in_place else before, tag=5)
        if self.rank != 0:
            self.comm.send(mine, after, tag=5)
        return out, self.rows()[before]


HELPERS = ("__init__", "rows", "empty", "reduction", "blocks", "placed", "long_rows")
CALLS = [name for name, call in vars(Case).items() if callable(call) and name not in HELPERS]


def main() -> None:
    seed, calls = int(sys.argv[1]), int(sys.argv[2])
    with tutti.init(timeout=20) as comm:
        random = np.random.default_rng(seed)
        for number in range(calls):
            name = CALLS[number % len(CALLS)]
            case = Case(comm, random)
            result, expected = getattr(case, name)()
            if not np.array_equal(result, expected):
                print(f"seed {seed}, call {number}, {name}, rank {comm.rank} of {comm.size}: {vars(case)}")
                print(f"expected {expected}, got {result}", flush=True)
                os._exit(1)
        comm.barrier()
        sys.stdout.write(f"ok {comm.rank}\n")


if __name__ == "__main__":
    main()
