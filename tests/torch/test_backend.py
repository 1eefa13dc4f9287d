"""Calls of the torch backend: every collective in every form, all datatypes and operations, memory of every kind, messages,
works, and errors. Expected values are computed here, from the inputs that each rank can make for all ranks.

Run: PYTHONPATH=... python3 -m unittest discover -s tests/torch
"""

import contextlib
import datetime
import functools
import itertools
import threading
import time
import unittest

import torch
import torch.distributed as dist

from ranks import LONG, TORCH_2, Job, Ranks, init, load, ranks

REAL = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
F8 = [torch.float8_e4m3fn, torch.float8_e5m2] if TORCH_2 else []
MOVED = REAL + F8 + [torch.bool, torch.complex64, torch.complex128]
if TORCH_2:
    MOVED += [torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.uint16, torch.uint32, torch.uint64]
SHAPES = [(3,), (2, 5), (0,), (), (1, 0, 4), (4, 3, 2)]


def number(rank: int, shape: tuple, dtype: torch.dtype, part: int = 0) -> torch.Tensor:
    """What a rank has in a test: small integers, whose sums and products are exact in all types."""
    elements = torch.Size(shape).numel()
    plain = (torch.arange(elements) * 7 + rank * 3 + part * 5) % 4
    if dtype == torch.bool:
        plain = plain % 2
    if dtype.is_complex:
        return torch.complex(plain.double(), plain.double() + rank).to(dtype).reshape(shape)
    return plain.to(dtype).reshape(shape)


def stack(tensors: list) -> torch.Tensor:
    """torch.cat, of types that it does not know, too."""
    if tensors[0].dtype in MOVED[:9] or tensors[0].dtype.is_complex:
        return torch.cat(tensors)
    dtype = tensors[0].dtype
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensors[0].element_size()]
    return torch.cat([t.view(width) for t in tensors]).view(dtype)


class Case(Ranks):
    def call(self, function, *arguments, **named) -> None:
        """Makes a call of torch.distributed, which is synchronous in some cases, and a Work in others."""
        how = self.random.randrange(3)
        if how == 0:
            function(*arguments, **named)
            return
        work = function(*arguments, async_op=True, **named)
        # The coalesced calls return the future itself.
        if how == 2 and isinstance(work, dist.Work if TORCH_2 else torch._C._distributed_c10d.Work):
            work = work.get_future()
        work.wait()

    def refuses(self, pattern: str, function, *arguments, kinds=(RuntimeError, ValueError, TypeError), **named) -> None:
        """All ranks make a call that is refused; then the group works."""
        with self.assertRaisesRegex(kinds, pattern):
            function(*arguments, **named)
        self.works()

    def works(self, group=None) -> None:
        x = torch.ones(2)
        dist.all_reduce(x, group=group)
        self.same(x, torch.full((2,), float(dist.get_world_size(group))))


class Moves(Case):
    """Collectives that move data, in every type and form."""

    def moves(self, shape: tuple, dtype: torch.dtype, fresh) -> None:
        """fresh(tensor): a tensor with these elements that the calls use; fresh of zeros for outputs."""
        n, r = self.size, self.rank
        mine = [number(rank, shape, dtype) for rank in range(n)]
        self.empty = lambda: fresh(torch.zeros(shape, dtype=torch.float32).to(dtype))
        root = self.random.randrange(n)
        what = f"{dtype} {shape} root {root}"

        x = fresh(mine[r])
        self.call(dist.broadcast, x, root)
        self.same(x, mine[root], f"broadcast {what}")

        out = [self.empty() for _ in range(n)]
        self.call(dist.all_gather, out, fresh(mine[r]))
        for rank in range(n):
            self.same(out[rank], mine[rank], f"all_gather {what}")

        out = [self.empty() for _ in range(n)] if r == root else None
        self.call(dist.gather, fresh(mine[r]), out, root)
        for rank in range(n if r == root else 0):
            self.same(out[rank], mine[rank], f"gather {what}")

        out = self.empty()
        parts = [fresh(number(root, shape, dtype, part)) for part in range(n)]
        self.call(dist.scatter, out, parts if r == root else None, root)
        self.same(out, number(root, shape, dtype, r), f"scatter {what}")

        out = [self.empty() for _ in range(n)]
        self.call(dist.all_to_all, out, [fresh(number(r, shape, dtype, part)) for part in range(n)])
        for rank in range(n):
            self.same(out[rank], number(rank, shape, dtype, r), f"all_to_all {what}")

        peer, source = (r + 1) % n, (r - 1) % n
        sending, out = dist.isend(fresh(mine[r]), peer), self.empty()
        dist.recv(out, source)
        sending.wait()
        self.same(out, mine[source], f"send and recv {what}")

    @ranks(3, limit=60)
    def test_types(self):
        for dtype in MOVED:
            self.moves((2, 3), dtype, lambda t: t.clone())

    @ranks(3, limit=60)
    def test_shapes(self):
        for shape in SHAPES:
            self.moves(shape, torch.float32, lambda t: t.clone())
            self.moves(shape, torch.int16, lambda t: t.clone())

    @ranks(1)
    def test_one_rank(self):
        self.moves((2, 3), torch.float64, lambda t: t.clone())

    @ranks(4)
    def test_long(self):
        self.moves((70_001,), torch.float32, lambda t: t.clone())

    @ranks(3, limit=60)
    def test_tensor_forms(self):
        """all_gather_into_tensor, all_to_all_single: equal and uneven, along the first dimension."""
        n, r = self.size, self.rank
        for dtype, row in itertools.product(MOVED, [(), (3,), (2, 0)]):
            shape = (2, *row)
            all_of = stack([number(rank, shape, dtype) for rank in range(n)])
            out = torch.zeros(all_of.shape).to(dtype)
            self.call(dist.all_gather_into_tensor, out, number(r, shape, dtype))
            self.same(out, all_of, f"all_gather_into_tensor {dtype} {row}")
            out = torch.zeros((n, *shape)).to(dtype)
            self.call(dist.all_gather_into_tensor, out, number(r, shape, dtype))
            self.same(out.flatten(0, 1), all_of, f"all_gather_into_tensor, stacked {dtype} {row}")

            mine = stack([number(r, shape, dtype, part) for part in range(n)])
            out = torch.zeros(mine.shape).to(dtype)
            self.call(dist.all_to_all_single, out, mine)
            self.same(out, stack([number(rank, shape, dtype, r) for rank in range(n)]), f"all_to_all_single {dtype} {row}")

    @ranks(3, limit=60)
    def test_all_to_all_uneven(self):
        n, r = self.size, self.rank
        for dtype, turn in itertools.product([torch.float32, torch.uint8, torch.complex64, torch.bool], range(4)):
            # splits[a][b]: rows from rank a to rank b. The last turn: nothing at all.
            splits = [[self.random.randrange(4) * (turn < 3) for _ in range(n)] for _ in range(n)]
            whole = [number(a, (sum(splits[a]), 2), dtype) for a in range(n)]
            takes = [splits[a][r] for a in range(n)]
            cut = [torch.split(whole[a], splits[a])[r] for a in range(n)]
            out = torch.zeros((sum(takes), 2), dtype=dtype)
            self.call(dist.all_to_all_single, out, whole[r], takes, splits[r])
            self.same(out, torch.cat(cut), f"splits {splits}")
            outs = [torch.zeros((rows, 2), dtype=dtype) for rows in takes]
            self.call(dist.all_to_all, outs, [t.clone() for t in torch.split(whole[r], splits[r])])
            for got, want in zip(outs, cut):
                self.same(got, want, f"lists of splits {splits}")

    @ranks(3)
    def test_all_to_all_shapes(self):
        """A list whose tensors have different shapes, and one uneven side only."""
        n, r = self.size, self.rank
        shapes = [(2, 2), (5,), (0, 3)]
        outs = [torch.zeros(shapes[r]) for _ in range(n)]
        dist.all_to_all(outs, [number(r, shapes[to], torch.float32, to) for to in range(n)])
        for rank in range(n):
            self.same(outs[rank], number(rank, shapes[r], torch.float32, r))
        # Equal parts on one side are given as no splits, on the other side as splits.
        x, out = torch.arange(6.0) + 10 * r, torch.zeros(6)
        dist.all_to_all_single(out, x, None, [2, 2, 2])
        self.same(out, torch.cat([torch.arange(2.0) + 2 * r + 10 * rank for rank in range(n)]))

    @ranks(3)
    def test_coalesced(self):
        n, r = self.size, self.rank
        shapes = [(3,), (2, 2), (0,), ()]
        outs = [[torch.zeros(shape) for shape in shapes] for _ in range(n)]
        ins = [number(r, shape, torch.float32, i) for i, shape in enumerate(shapes)]
        self.call(dist.all_gather_coalesced, outs, ins)
        for rank, (i, shape) in itertools.product(range(n), enumerate(shapes)):
            self.same(outs[rank][i], number(rank, shape, torch.float32, i))
        for shapes in [[(3,), (2, 2)], [(20_000,), (17_000,)], [(0,), (4,), (30_000,)]]:
            tensors = [number(r, shape, torch.float32, i) for i, shape in enumerate(shapes)]
            self.call(dist.all_reduce_coalesced, tensors)
            for i, shape in enumerate(shapes):
                self.same(tensors[i], sum(number(rank, shape, torch.float32, i) for rank in range(n)))

    @unittest.skipUnless(TORCH_2, "torch 1.13 does not have these")
    @ranks(3)
    def test_tensors_coalesced(self):
        n, r = self.size, self.rank
        from torch.distributed.distributed_c10d import _coalescing_manager

        outs, halves = [torch.zeros(n * 2), torch.zeros(n * 3)], [torch.zeros(2), torch.zeros(3)]
        ins = [number(r, (2,), torch.float32), number(r, (3,), torch.float32)]
        wide = [number(r, (2 * n,), torch.float32), number(r, (3 * n,), torch.float32)]
        sums = [torch.full((2,), float(r)), torch.full((3,), 1.0)]
        for waits in True, False:
            with _coalescing_manager(async_ops=not waits) as manager:
                for out, x in zip(outs, ins):
                    dist.all_gather_into_tensor(out, x)
            if not waits:
                manager.wait()
            with _coalescing_manager(async_ops=not waits) as manager:
                for out, x in zip(halves, wide):
                    dist.reduce_scatter_tensor(out, x)
            if not waits:
                manager.wait()
            for i, size in enumerate((2, 3)):
                self.same(outs[i], torch.cat([number(rank, (size,), torch.float32) for rank in range(n)]))
                whole = sum(number(rank, (size * n,), torch.float32) for rank in range(n))
                self.same(halves[i], whole[size * r:size * (r + 1)])
                outs[i].zero_(), halves[i].zero_()
        with _coalescing_manager(async_ops=True) as manager:
            for x in sums:
                dist.all_reduce(x)
        manager.wait()
        self.same(sums[0], torch.full((2,), 3.0))
        self.same(sums[1], torch.full((3,), 3.0))

    @ranks(3)
    def test_objects(self):
        n, r = self.size, self.rank
        mine = {"rank": r, "text": "x" * (r * 1000), "none": None}
        everything = [{"rank": k, "text": "x" * (k * 1000), "none": None} for k in range(n)]
        out = [None] * n
        dist.all_gather_object(out, mine)
        self.assertEqual(out, everything)
        out = [None] * n if r == 1 else None
        dist.gather_object(mine, out, 1)
        self.assertEqual(out, everything if r == 1 else None)
        out = [mine, 7] if r == 2 else [None, None]
        dist.broadcast_object_list(out, 2)
        self.assertEqual(out, [everything[2], 7])
        out = [None]
        dist.scatter_object_list(out, everything if r == 0 else [None] * n, 0)
        self.assertEqual(out, [mine])

    @ranks(3)
    def test_multiple_tensors_of_a_rank(self):
        """Lists that the interface of torch 1 allows: several tensors for each rank."""
        pg, r = dist.distributed_c10d._get_default_group(), self.rank
        pair = [torch.full((4,), float(r)), torch.full((4,), 10.0)]
        pg.allreduce(pair).wait()
        for x in pair:
            self.same(x, torch.full((4,), 33.0))
        pair = [torch.full((4,), float(r)), torch.full((4,), 10.0 * r)]
        opts = dist.BroadcastOptions()
        opts.rootRank, opts.rootTensor = 2, 1
        pg.broadcast(pair, opts).wait()
        for x in pair:
            self.same(x, torch.full((4,), 20.0))


class Sparse(Case):
    @ranks(3)
    def test_all_reduce(self):
        for shape, dense in [((6,), 0), ((6, 3), 1), ((4, 5), 0)]:
            dims = len(shape) - dense
            total = torch.zeros(shape)
            for rank in range(self.size):
                count = rank  # rank 0 has no elements
                index = torch.stack([torch.arange(count) % shape[d] for d in range(dims)]) if count else torch.zeros((dims, 0), dtype=torch.long)
                x = torch.sparse_coo_tensor(index, torch.ones((count, *shape[dims:])) * (rank + 1), shape)
                total += x.to_dense()
                if rank == self.rank:
                    mine = x
            dist.all_reduce(mine)
            self.assertTrue(mine.is_sparse)
            self.same(mine.to_dense(), total, shape)

    @ranks(2)
    def test_async(self):
        x = torch.sparse_coo_tensor(torch.tensor([[self.rank]]), torch.ones(1), (3,))
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        self.same(x.to_dense(), torch.tensor([1.0, 1.0, 0.0]))

    @ranks(2)
    def test_unsorted_and_double_indices(self):
        x = torch.sparse_coo_tensor(torch.tensor([[2, 0, 2]]), torch.ones(3, dtype=torch.float64), (4,))
        dist.all_reduce(x)
        self.same(x.to_dense(), torch.tensor([2.0, 0.0, 4.0, 0.0], dtype=torch.float64))

    @ranks(2)
    def test_refused(self):
        x = torch.sparse_coo_tensor(torch.tensor([[self.rank]]), torch.ones(1), (3,))
        self.refuses("unsupported reduction operation", dist.all_reduce, x, dist.ReduceOp.MAX)
        pg = dist.distributed_c10d._get_default_group()
        self.refuses("", pg.broadcast, [x], 0)
        self.refuses("", pg.reduce, [x], 0)


NAIVE = {
    dist.ReduceOp.SUM: lambda a, b: a + b,
    dist.ReduceOp.PRODUCT: lambda a, b: a * b,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.BAND: lambda a, b: a & b,
    dist.ReduceOp.BOR: lambda a, b: a | b,
    dist.ReduceOp.BXOR: lambda a, b: a ^ b,
}
BITS = dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR


class Reductions(Case):
    def expected(self, op, dtype: torch.dtype, shape: tuple, part: int = 0) -> torch.Tensor:
        wide = torch.float64 if dtype.is_floating_point else torch.int64
        total = functools.reduce(NAIVE[op], [number(rank, shape, dtype, part).to(wide) for rank in range(self.size)])
        return total.to(dtype)

    def reduces(self, op, dtype: torch.dtype, shape: tuple = (2, 3)) -> None:
        n, r = self.size, self.rank
        root = self.random.randrange(n)
        what = f"{op} {dtype} root {root}"
        want = self.expected(op, dtype, shape)
        x = number(r, shape, dtype)
        self.call(dist.all_reduce, x, op)
        self.same(x, want, f"all_reduce {what}")

        x = number(r, shape, dtype)
        self.call(dist.reduce, x, root, op)
        self.same(x, want if r == root else number(r, shape, dtype), f"reduce {what}")

        out = torch.zeros(shape).to(dtype)
        self.call(dist.reduce_scatter, out, [number(r, shape, dtype, part) for part in range(n)], op)
        self.same(out, self.expected(op, dtype, shape, r), f"reduce_scatter {what}")

        out = torch.zeros(shape).to(dtype)
        self.call(dist.reduce_scatter_tensor, out, stack([number(r, shape, dtype, part) for part in range(n)]), op)
        self.same(out, self.expected(op, dtype, shape, r), f"reduce_scatter_tensor {what}")

        pair = [number(r, shape, dtype, part) for part in range(2)]
        self.call(dist.all_reduce_coalesced, pair, op)
        for part in range(2):
            self.same(pair[part], self.expected(op, dtype, shape, part), f"all_reduce_coalesced {what}")

    @ranks(3, limit=60)
    def test_arithmetic(self):
        for dtype, op in itertools.product(REAL + F8, list(NAIVE)[:4]):
            self.reduces(op, dtype)

    @ranks(3, limit=60)
    def test_bits(self):
        for dtype, op in itertools.product(REAL[:5], BITS):
            self.reduces(op, dtype)

    @ranks(3)
    def test_shapes(self):
        for shape in SHAPES:
            if shape:
                self.reduces(dist.ReduceOp.SUM, torch.float32, shape)
        x = torch.tensor(float(self.rank))
        dist.all_reduce(x)
        self.same(x, torch.tensor(3.0))

    @unittest.skipUnless(TORCH_2, "torch 1.13 has no such types")
    @ranks(3)
    def test_unsigned(self):
        for dtype in torch.uint16, torch.uint32, torch.uint64:
            x = torch.tensor([self.rank, 2]).to(dtype)
            dist.all_reduce(x)
            self.same(x, torch.tensor([3, 6]).to(dtype), dtype)

    @ranks(3)
    def test_bool(self):
        """True and False, of which one byte each is left: 1 or 0."""
        r = self.rank
        rows = [torch.tensor([True, rank == 1, rank != 1, False]) for rank in range(3)]
        any_of, all_of = torch.tensor([True, True, True, False]), torch.tensor([True, False, False, False])
        odd = torch.tensor([True, True, False, False])
        for op, want in [("SUM", any_of), ("MAX", any_of), ("BOR", any_of), ("PRODUCT", all_of), ("MIN", all_of), ("BAND", all_of), ("BXOR", odd)]:
            x = rows[r].clone()
            dist.all_reduce(x, getattr(dist.ReduceOp, op))
            self.same(x, want, op)

    @ranks(3)
    def test_average(self):
        for dtype in REAL[5:]:
            x = torch.tensor([float(self.rank), 2.0]).to(dtype)
            dist.all_reduce(x, dist.ReduceOp.AVG)
            self.same(x, torch.tensor([1.0, 2.0]).to(dtype), dtype)
            out = torch.zeros(2).to(dtype)
            dist.reduce_scatter_tensor(out, torch.full((6,), float(self.rank)).to(dtype), dist.ReduceOp.AVG)
            self.same(out, torch.ones(2).to(dtype), dtype)

    @ranks(3)
    def test_factor(self):
        op = dist._make_nccl_premul_sum(0.5)
        for dtype in torch.float32, torch.float64:
            x = torch.tensor([2.0 * self.rank, 4.0]).to(dtype)
            dist.all_reduce(x, op)
            self.same(x, torch.tensor([3.0, 6.0]).to(dtype), dtype)

    @ranks(3)
    def test_complex(self):
        for dtype in torch.complex64, torch.complex128:
            want = sum(number(rank, (3,), dtype) for rank in range(3))
            x = number(self.rank, (3,), dtype)
            self.call(dist.all_reduce, x)
            self.same(x, want)
            x = number(self.rank, (3,), dtype)
            self.call(dist.all_reduce_coalesced, [x])
            self.same(x, want)
            self.refuses("does not support", dist.all_reduce, x, dist.ReduceOp.MAX)

    @ranks(3)
    def test_uneven_reduce_scatter(self):
        """A list whose tensors have different sizes, as gloo and NCCL of torch 2 take it."""
        sizes = [(2,), (0,), (5,)]
        out = torch.zeros(sizes[self.rank])
        dist.reduce_scatter(out, [number(self.rank, size, torch.float32, part) for part, size in enumerate(sizes)])
        self.same(out, self.expected(dist.ReduceOp.SUM, torch.float32, sizes[self.rank], self.rank))

    @ranks(4, limit=60)
    def test_beside_gloo(self):
        """Random values: the same as gloo's within rounding; and the same bits on all ranks, and in a second run."""
        gloo = dist.new_group(backend="gloo")
        for dtype, count in itertools.product([torch.float32, torch.float64], [1, 1000, 100_000 if LONG else 30_000]):
            values = torch.randn(self.size, count, dtype=dtype)[self.rank]
            ours, again, theirs = values.clone(), values.clone(), values.clone()
            dist.all_reduce(ours)
            dist.all_reduce(again)
            dist.all_reduce(theirs, group=gloo)
            self.close(ours, theirs, within=1e-5)
            self.same(ours, again)
            everywhere = [torch.zeros_like(ours) for _ in range(self.size)]
            dist.all_gather(everywhere, ours)
            for other in everywhere:
                self.same(other, ours)


class Refusals(Case):
    """A refused argument is a clear error on the rank that gave it; the group is as it was."""

    def group(self):
        return dist.distributed_c10d._get_default_group()

    @ranks(2, limit=60)
    def test_operations(self):
        ops = dist.ReduceOp
        for op, name in (ops.BAND, "BAND"), (ops.BOR, "BOR"), (ops.BXOR, "BXOR"):
            for dtype in torch.float32, torch.float16:
                self.refuses(name, dist.all_reduce, torch.ones(2, dtype=dtype), op)
            self.refuses(name, dist.reduce, torch.ones(2), 0, op)
            self.refuses(name, dist.reduce_scatter, torch.ones(1), [torch.ones(1)] * 2, op)
            self.refuses(name, dist.all_reduce_coalesced, [torch.ones(2)], op)
        self.refuses("AVG.*[Bb]ool", dist.all_reduce, torch.ones(2, dtype=torch.bool), ops.AVG)
        self.refuses("(?i)type.*ComplexFloat", self.group().allreduce, [torch.ones(2, dtype=torch.complex64)])
        if TORCH_2:
            self.refuses("(?i)type", dist.all_reduce, torch.ones(2).to(torch.float8_e4m3fnuz))

    @ranks(2, limit=60)
    def test_lists(self):
        pg, x = self.group(), torch.ones(2)
        self.refuses("non-empty", pg.allreduce, [])
        self.refuses("invalid tensor size", pg.allreduce, [x, torch.ones(3)])
        self.refuses("invalid tensor type", pg.allreduce, [x, torch.ones(2, dtype=torch.float64)])
        self.refuses("", dist.all_gather, [torch.zeros(2)], x)
        self.refuses("", dist.all_gather, [torch.zeros(2)] * 3, x)
        self.refuses("(?i)size|shape", dist.all_gather, [torch.zeros(2), torch.zeros(3)], x)
        self.refuses("(?i)type", dist.all_gather, [torch.zeros(2), torch.zeros(2, dtype=torch.int32)], x)
        self.refuses("(?i)size", dist.all_gather_into_tensor, torch.zeros(5), x)
        self.refuses("(?i)type", dist.all_gather_into_tensor, torch.zeros(4, dtype=torch.int32), x)
        self.refuses("(?i)size", dist.reduce_scatter_tensor, torch.zeros(2), torch.zeros(5))
        self.refuses("(?i)size", dist.reduce_scatter, torch.zeros(2), [torch.zeros(2)])
        self.refuses("(?i)type", dist.reduce_scatter, torch.zeros(2), [torch.zeros(2, dtype=torch.int32)] * 2)
        self.refuses("(?i)type", pg.allreduce_coalesced, [x, torch.ones(2, dtype=torch.float64)])

    @ranks(2, limit=60)
    def test_all_to_all(self):
        x = torch.ones(4)
        self.refuses("(?i)split|sum", dist.all_to_all_single, torch.zeros(4), x, [1, 1], [2, 2])
        self.refuses("(?i)split|sum|length|number", dist.all_to_all_single, torch.zeros(4), x, [4], [2, 2])
        self.refuses("(?i)divi|equal", dist.all_to_all_single, torch.zeros(3), torch.ones(3))
        self.refuses("(?i)type", dist.all_to_all_single, torch.zeros(4, dtype=torch.int32), x)
        self.refuses("", dist.all_to_all, [torch.zeros(2)], [x])
        self.refuses("(?i)type", dist.all_to_all, [torch.zeros(2)] * 2, [torch.zeros(2), torch.zeros(2, dtype=torch.int32)])
        self.refuses("(?i)split|negative|size", dist.all_to_all_single, torch.zeros(4), x, [2, 2], [-1, 5])

    @ranks(2, limit=60)
    def test_ranks_and_tags(self):
        pg, x = self.group(), torch.ones(2)
        for root in 2, -1, 99:
            for call in pg.broadcast, pg.reduce:
                opts = dist.BroadcastOptions() if call == pg.broadcast else dist.ReduceOptions()
                opts.rootRank = root
                self.refuses("invalid root rank", call, [x], opts)
        for peer in 2, -1:
            self.refuses("(?i)rank|peer", pg.send, [x], peer, 0)
            self.refuses("(?i)rank|peer", pg.recv, [x], peer, 0)
        self.refuses("(?i)tag", pg.send, [x], 1 - self.rank, -1)
        self.refuses("(?i)tag", pg.recv, [x], 1 - self.rank, -1)
        self.refuses("single tensor", pg.send, [x, x], 1 - self.rank, 0)

    @ranks(2)
    def test_devices(self):
        pg = self.group()
        pg = pg._get_backend(torch.device("cpu")) if TORCH_2 else pg
        # torch 1.13 itself refuses it, in its dispatcher.
        self.refuses("(?i)device|backend", pg.allreduce, [torch.ones(2, device="meta")])
        self.refuses("(?i)device|backend", pg.broadcast, [torch.ones(2, device="meta")], dist.BroadcastOptions())

    @ranks(2)
    def test_expanded_output(self):
        """Elements of an output that share memory: torch refuses to write into them."""
        x = torch.ones(1).expand(4)
        self.refuses("", dist.broadcast, x, 0)


def channels_last(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous(memory_format=torch.channels_last)


def transposed(t: torch.Tensor) -> torch.Tensor:
    return t.transpose(0, -1).contiguous().transpose(0, -1)


def stepped(t: torch.Tensor) -> torch.Tensor:
    wide = torch.full((t.shape[0] * 2, *t.shape[1:]), 99.0).to(t.dtype)
    wide[::2] = t
    return wide[::2]


def of_each_kind(t: torch.Tensor) -> torch.Tensor:
    """Other strides on each rank, so that one rank gives the library a tensor, another one a buffer, a third one a copy."""
    return (torch.Tensor.clone, stepped, transposed)[dist.get_rank() % 3](t)


def offset(t: torch.Tensor) -> torch.Tensor:
    """At an address that is a multiple of the element size only."""
    room = torch.zeros(t.numel() + 1).to(t.dtype)
    room[1:] = t.reshape(-1)
    return room[1:].view(t.shape)


def with_gradient(t: torch.Tensor) -> torch.Tensor:
    return t.clone().requires_grad_()


class Memory(Case):
    moves = Moves.moves

    def in_memory(self, fresh, shape: tuple) -> None:
        self.moves(shape, torch.float32, fresh)
        for op in dist.ReduceOp.SUM, dist.ReduceOp.MAX:
            want = Reductions.expected(self, op, torch.float32, shape)
            x = fresh(number(self.rank, shape, torch.float32))
            self.call(dist.all_reduce, x, op)
            self.same(x, want)
            x, other = (fresh(number(self.rank, shape, torch.float32)) for _ in range(2))
            self.call(dist.all_reduce_coalesced, [x, other], op)
            self.same(x, want)
            self.same(other, want)
            x = fresh(number(self.rank, shape, torch.float32))
            self.call(dist.reduce, x, 1, op)
            self.same(x, want if self.rank == 1 else number(self.rank, shape, torch.float32))
            out = fresh(torch.zeros(shape))
            self.call(dist.reduce_scatter, out, [fresh(number(self.rank, shape, torch.float32))] * self.size, op)
            self.same(out, want)

    @ranks(3, limit=60)
    def test_transposed(self):
        self.in_memory(transposed, (3, 5))

    @ranks(3, limit=60)
    def test_stepped(self):
        self.in_memory(stepped, (5, 2))

    @ranks(3, limit=60)
    def test_stepped_pieces(self):
        """Pieces that are long enough to be read and written through their strides."""
        self.in_memory(stepped, (5, 40))
        self.in_memory(lambda t: stepped(t.reshape(3, 2, 1, 20)), (3, 2, 1, 20))

    @ranks(3, limit=60)
    def test_of_each_kind(self):
        self.in_memory(of_each_kind, (3, 40))
        self.in_memory(of_each_kind, (3, 5))

    @ranks(3, limit=60)
    def test_strides_of_wide_elements(self):
        """Elements of a type that the library does not have, which it moves as bytes."""
        x = of_each_kind(torch.full((3, 40), 1.0 + self.rank, dtype=torch.complex64))
        dist.broadcast(x, 1)
        self.same(x, torch.full((3, 40), 2.0, dtype=torch.complex64))
        got = of_each_kind(torch.zeros(3, 40, dtype=torch.complex64))
        sending = dist.isend(x, (self.rank + 1) % 3)
        dist.recv(got, (self.rank - 1) % 3)
        sending.wait()
        self.same(got, torch.full((3, 40), 2.0, dtype=torch.complex64))

    @ranks(3, limit=60)
    def test_channels_last(self):
        self.in_memory(channels_last, (2, 3, 4, 2))

    @ranks(3, limit=60)
    def test_offset(self):
        self.in_memory(offset, (3, 3))

    @ranks(3, limit=60)
    def test_with_gradient(self):
        """Parameters: autograd does not complain about results that are written into leaves."""
        with torch.no_grad():
            self.in_memory(with_gradient, (3, 2))
        # Contiguous and not, with autograd on; gloo takes these, too.
        x = torch.ones(3, requires_grad=True)
        dist.broadcast(x, 0)
        x = transposed(torch.ones(2, 3)).requires_grad_()
        dist.broadcast(x, 0)
        dist.all_reduce(x)
        self.same(x, torch.full((2, 3), 3.0))
        self.assertTrue(x.is_leaf)

    @ranks(2)
    def test_allocate_tensor(self):
        """What torch 2.7 asks a backend for when DDP makes its buckets. This version of torch does not ask."""
        pg = dist.group.WORLD
        pg = pg._get_backend(torch.device("cpu")) if TORCH_2 else pg
        for dtype in torch.float64, torch.bfloat16:
            x = pg._allocate_tensor(100_000, dtype)
            self.assertEqual((x.shape, x.dtype), ((100_000,), dtype))
            dist.all_reduce(x.fill_(self.rank + 1))
            self.same(x, torch.full((100_000,), 3, dtype=dtype))

    @ranks(3)
    def test_gaps_stay(self):
        """What lies between the elements of a strided output is not touched."""
        room = torch.full((6, 4), 9.0)
        dist.broadcast(room[::2, 1:3].copy_(torch.full((3, 2), float(self.rank))), 1)
        want = torch.full((6, 4), 9.0)
        want[::2, 1:3] = 1.0
        self.same(room, want)
        got = [room[:, 0], room[:, 3], room[0::3, 1]]
        with contextlib.suppress(Exception):  # shapes differ: refused before anything is written
            dist.all_gather(got, torch.ones(6))
        self.same(room, want)

    @ranks(3)
    def test_expanded_input(self):
        """One element that is read many times."""
        x = torch.tensor([[float(self.rank)]]).expand(3, 4)
        out = [torch.zeros(3, 4) for _ in range(3)]
        dist.all_gather(out, x)
        whole = torch.zeros(9, 4)
        dist.all_gather_into_tensor(whole, x)
        for rank in range(3):
            self.same(out[rank], torch.full((3, 4), float(rank)))
            self.same(whole[3 * rank:3 * rank + 3], torch.full((3, 4), float(rank)))
        got = torch.zeros(3, 4)
        sending = dist.isend(x, (self.rank + 1) % 3)
        dist.recv(got, (self.rank - 1) % 3)
        sending.wait()
        self.same(got, torch.full((3, 4), float((self.rank - 1) % 3)))

    @ranks(3)
    def test_strided_tensor_forms(self):
        room = torch.zeros(9, 2, 2)
        dist.all_gather_into_tensor(room[:, :, 0], transposed(torch.full((3, 2), float(self.rank + 1))))
        for rank in range(3):
            self.same(room[3 * rank:3 * rank + 3, :, 0], torch.full((3, 2), float(rank + 1)))
        self.same(room[:, :, 1], torch.zeros(9, 2))
        out = stepped(torch.zeros(2, 2))
        dist.reduce_scatter_tensor(out, transposed(torch.ones(6, 2)))
        self.same(out, torch.full((2, 2), 3.0))

    @ranks(3)
    def test_in_place(self):
        n, r = self.size, self.rank
        whole = torch.zeros(n * 4)
        mine = whole[r * 4:r * 4 + 4].fill_(r + 1.0)
        want = torch.cat([torch.full((4,), rank + 1.0) for rank in range(n)])
        dist.all_gather_into_tensor(whole, mine)
        self.same(whole, want)
        whole.zero_()
        mine.fill_(r + 1.0)
        dist.all_gather(list(whole.view(n, 4)), mine)
        self.same(whole, want)
        whole = torch.arange(n * 2.0)
        dist.reduce_scatter_tensor(whole[2 * r:2 * r + 2], whole)
        self.same(whole[2 * r:2 * r + 2], torch.arange(n * 2.0)[2 * r:2 * r + 2] * n)
        whole = torch.arange(n * 2.0).view(n, 2)
        dist.reduce_scatter(whole[r], list(whole))
        self.same(whole[r], torch.arange(n * 2.0).view(n, 2)[r] * n)
        x = torch.arange(n * 2.0) + 10 * r
        dist.all_to_all_single(x, x)
        self.same(x, torch.cat([torch.arange(2.0) + 2 * r + 10 * rank for rank in range(n)]))
        x = torch.full((n, 2), float(r))
        dist.all_to_all(list(x), list(x))
        self.same(x, torch.arange(float(n)).view(n, 1).expand(n, 2).contiguous())
        x = torch.full((n, 2), float(r))
        dist.scatter(x[r], list(x) if r == 0 else None, 0)
        self.same(x[r], torch.zeros(2))
        x = torch.zeros(n, 2)
        x[r] = r
        dist.gather(x[r], list(x) if r == 0 else None, 0)
        if r == 0:
            self.same(x, torch.arange(float(n)).view(n, 1).expand(n, 2).contiguous())

    @ranks(3)
    def test_the_same_tensor_twice(self):
        """Inputs that are one tensor, and buffers that overlap as inputs."""
        x, out = torch.full((2,), float(self.rank)), [torch.zeros(2) for _ in range(3)]
        dist.all_to_all(out, [x, x, x])
        for rank in range(3):
            self.same(out[rank], torch.full((2,), float(rank)))
        room = torch.arange(4.0)
        dist.all_to_all(out, [room[:2], room[1:3], room[2:]])
        for rank in range(3):
            self.same(out[rank], torch.arange(2.0) + self.rank)
        pair = [torch.ones(30_000)] * 2
        dist.all_reduce_coalesced(pair)
        self.same(pair[0], torch.full((30_000,), 3.0))

    @ranks(2)
    def test_views_die(self):
        """The tensors of an open call are kept, also if the program drops them."""
        works, outs = [], []
        for turn in range(20):
            room = torch.full((50_000,), float(turn))
            out = torch.zeros(100_000)
            works.append(dist.all_gather_into_tensor(out, room[:], async_op=True))
            outs.append(out)
            del room
            torch.full((50_000,), -1.0)
        for turn, (work, out) in enumerate(zip(works, outs)):
            work.wait()
            self.same(out, torch.full((100_000,), float(turn)))


class Messages(Case):
    @ranks(3)
    def test_any_source(self):
        n, r = self.size, self.rank
        if r == 0:
            seen = set()
            for _ in range(n - 1):
                x = torch.zeros(3)
                source = dist.recv(x)
                self.same(x, torch.full((3,), float(source)))
                seen.add(source)
            self.assertEqual(seen, {1, 2})
        else:
            dist.send(torch.full((3,), float(r)), 0)
        # Works of any source, with tags, among other messages.
        pg = dist.distributed_c10d._get_default_group()
        if r == 0:
            works = [(tag, x := torch.zeros(2), pg.recv_anysource([x], tag)) for tag in (5, 6)]
            for tag, x, work in works:
                work.wait()
                self.assertEqual(work._source_rank(), tag - 4)
                self.same(x, torch.full((2,), float(tag)))
        else:
            dist.send(torch.full((2,), r + 4.0), 0, tag=r + 4)
        dist.barrier()

    @ranks(2)
    def test_any_source_sizes(self):
        """Strided, empty, long, and in types that are moved as bytes."""
        for shape, dtype in [((0,), torch.float32), ((50_000,), torch.float64), ((3, 4), torch.bool), ((3,), torch.complex64)]:
            x = torch.zeros(shape, dtype=dtype)
            x = transposed(x) if len(shape) == 2 else x
            if self.rank:
                dist.send(number(1, shape, dtype), 0, tag=3)
            else:
                self.assertEqual(dist.recv(x, tag=3), 1)
                self.same(x, number(1, shape, dtype), dtype)

    @ranks(2)
    def test_tags(self):
        """Messages are received in the order of tags, not of sends; those of one tag, in the order of sends."""
        if self.rank == 0:
            works = [dist.isend(torch.tensor([float(tag), float(turn)]), 1, tag=tag) for turn in range(3) for tag in (1, 2, 700)]
            for work in works:
                work.wait()
        else:
            for tag in 700, 2, 1:
                for turn in range(3):
                    x = torch.zeros(2)
                    dist.recv(x, 0, tag=tag)
                    self.same(x, torch.tensor([float(tag), float(turn)]))

    @ranks(3)
    def test_batch(self):
        n, r = self.size, self.rank
        outs = [torch.zeros(5) for _ in range(n)]
        for sends_first in True, False:
            sends = [dist.P2POp(dist.isend, torch.full((5,), float(r)), peer) for peer in range(n) if peer != r]
            receives = [dist.P2POp(dist.irecv, outs[peer], peer) for peer in range(n) if peer != r]
            for work in dist.batch_isend_irecv(sends + receives if sends_first else receives + sends):
                work.wait()
            for peer in range(n):
                self.same(outs[peer], torch.full((5,), float(peer) if peer != r else 0.0))
                outs[peer].zero_()

    @ranks(2)
    def test_messages_and_collectives_mix(self):
        peer = 1 - self.rank
        for turn in range(30):
            got, x = torch.zeros(1000), torch.full((7,), 1.0)
            receiving = dist.irecv(got, peer, tag=turn)
            reducing = dist.all_reduce(x, async_op=True)
            sending = dist.isend(torch.full((1000,), float(turn)), peer, tag=turn)
            for work in self.random.sample([receiving, reducing, sending], 3):
                work.wait()
            self.same(got, torch.full((1000,), float(turn)))
            self.same(x, torch.full((7,), 2.0))

    @ranks(2)
    def test_to_itself(self):
        """torch 2 refuses it for some backends; the error is clear, or the message arrives."""
        x = torch.zeros(2)
        try:
            work = dist.isend(torch.ones(2), self.rank, tag=1)
            dist.recv(x, self.rank, tag=1)
            work.wait()
            self.same(x, torch.ones(2))
        except (RuntimeError, ValueError) as error:
            self.assertRegex(str(error), "(?i)rank|self|itself|same")
        self.works()

    @ranks(2)
    def test_lengths_differ(self):
        """A message that is longer than its buffer is an error that says so."""
        if self.rank == 0:
            with contextlib.suppress(RuntimeError):
                dist.send(torch.ones(5), 1)
        else:
            with self.assertRaisesRegex(RuntimeError, "20|5"):
                dist.recv(torch.zeros(3), 0)


class Works(Case):
    @ranks(2)
    def test_wait_gives_up(self):
        """A wait that gives up leaves the call open; the next one gets the result."""
        x = torch.ones(3)
        limit = datetime.timedelta(milliseconds=50)
        if self.rank == 0:
            work = dist.all_reduce(x, async_op=True)
            started = time.monotonic()
            with self.assertRaisesRegex(RuntimeError, "(?i)timed? ?out"):
                work.wait(limit)
            self.assertGreaterEqual(time.monotonic() - started, 0.04)
            self.assertFalse(work.is_completed())
            dist.distributed_c10d._get_default_store().set("go", "1")
            work.wait()
        else:
            dist.distributed_c10d._get_default_store().wait(["go"])
            dist.all_reduce(x)
        self.same(x, torch.full((3,), 2.0))
        self.works()

    @ranks(2)
    def test_future_wait_gives_up(self):
        """The same while a future of the work exists."""
        x = torch.ones(3)
        if self.rank == 0:
            work = dist.all_reduce(x, async_op=True)
            future = work.get_future()
            self.assertFalse(future.done())
            with self.assertRaisesRegex(RuntimeError, "(?i)timed? ?out"):
                work.wait(datetime.timedelta(milliseconds=50))
            dist.distributed_c10d._get_default_store().set("go", "1")
            self.same(future.wait()[0], torch.full((3,), 2.0))
            work.wait()
        else:
            dist.distributed_c10d._get_default_store().wait(["go"])
            dist.all_reduce(x)
        self.same(x, torch.full((3,), 2.0))
        self.works()

    @ranks(2)
    def test_polling(self):
        for kind in range(6):
            x = torch.full((5_000,), 1.0)
            out = [torch.zeros(5_000) for _ in range(2)]
            peer = 1 - self.rank
            if kind == 5:
                sending = dist.isend(x, peer)
            work = [
                lambda: dist.all_reduce(x, async_op=True),
                lambda: dist.all_gather(out, x, async_op=True),
                lambda: dist.barrier(async_op=True),
                lambda: dist.broadcast(x, 0, async_op=True),
                lambda: dist.reduce(x, 0, async_op=True),
                lambda: dist.irecv(out[0], peer),
            ][kind]()
            until = time.monotonic() + 20 * load()
            while not work.is_completed():
                self.assertLess(time.monotonic(), until, f"kind {kind} is never completed")
            self.assertTrue(work.is_success())
            work.wait()
            if kind == 5:
                sending.wait()

    @ranks(2)
    def test_completed_without_wait_or_poll(self):
        """A future becomes done while the program does something else."""
        x = torch.ones(3)
        future = dist.all_reduce(x, async_op=True).get_future()
        until = time.monotonic() + 20 * load()
        while not future.done():
            self.assertLess(time.monotonic(), until, "the future is never done")
            time.sleep(0.001)
        self.same(x, torch.full((3,), 2.0))

    @ranks(3)
    def test_then(self):
        n = self.size
        x = torch.full((4,), float(self.rank))
        chained = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0] / n).then(lambda f: f.value() + 1)
        self.same(chained.wait(), torch.full((4,), 2.0))
        out = [torch.zeros(2) for _ in range(n)]
        work = dist.all_gather(out, torch.full((2,), float(self.rank)), async_op=True)
        future = work.get_future()
        future.wait()
        for rank in range(n):
            self.same(out[rank], torch.full((2,), float(rank)))
        # A callback that makes a call: of the thread that completes works.
        y = torch.ones(2)
        second = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(lambda f: dist.all_reduce(y, async_op=True))
        second.wait().wait()
        self.same(y, torch.full((2,), 3.0))

    @ranks(3)
    def test_then_waits(self):
        """A callback may itself wait for a call; other futures must not be needed for it."""
        y = torch.ones(2)

        def follow(_future):
            dist.all_reduce(y)
            return y * 2

        got = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(follow).wait()
        self.same(got, torch.full((2,), 6.0))

    @ranks(2)
    def test_callback_raises(self):
        def bad(_future):
            raise KeyError("from the callback")

        future = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(bad)
        with self.assertRaisesRegex(Exception, "from the callback"):
            future.wait()
        self.works()

    @ranks(2)
    def test_result(self):
        x = torch.ones(2)
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        self.same(work.result()[0], torch.full((2,), 2.0))
        self.assertTrue(work.is_completed() and work.is_success())

    @ranks(3)
    def test_dropped(self):
        """Works that are dropped without a wait: their calls go on, and have their effect."""
        outs = [torch.full((1_000,), 1.0) for _ in range(50)]
        for x in outs:
            dist.all_reduce(x, async_op=True)
        kept = torch.full((4,), 1.0)
        for _ in range(50):
            dist.all_gather([torch.zeros(4) for _ in range(3)], kept, async_op=True)
        dist.isend(torch.ones(3), (self.rank + 1) % 3)
        got = torch.zeros(3)
        dist.recv(got, (self.rank - 1) % 3)
        self.same(got, torch.ones(3))
        dist.barrier()
        until = time.monotonic() + 20 * load()
        while not all(torch.equal(x, torch.full((1_000,), 3.0)) for x in outs):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.001)

    @ranks(2)
    def test_dropped_at_the_end(self):
        """The group is destroyed while calls are open."""
        x = torch.ones(30_000)
        for _ in range(5):
            dist.all_reduce(x, async_op=True)

    @ranks(3, limit=60)
    def test_many(self):
        """Hundreds of open works, waited for in any order."""
        count = 2_000 if LONG else 300
        tensors = [torch.full((1 + i % 50,), float(i)) for i in range(count)]
        works = [dist.all_reduce(x, async_op=True) for x in tensors]
        order = list(range(count))
        self.random.shuffle(order)
        for i in order:
            works[i].wait()
            self.same(tensors[i], torch.full((1 + i % 50,), 3.0 * i))

    @ranks(3, limit=60)
    def test_many_futures(self):
        count = 300
        tensors = [torch.full((1 + i % 50,), float(i)) for i in range(count)]
        futures = [dist.all_reduce(x, async_op=True).get_future() for x in tensors]
        torch.futures.wait_all(futures)
        for i, x in enumerate(tensors):
            self.same(x, torch.full((1 + i % 50,), 3.0 * i))

    @ranks(2)
    def test_another_thread_waits(self):
        failures = []

        def wait_for(work, x, want) -> None:
            try:
                work.wait()
                self.same(x, want)
            except BaseException as error:
                failures.append(error)

        threads = []
        for turn in range(20):
            x = torch.full((2_000,), float(turn))
            work = dist.all_reduce(x, async_op=True)
            for _ in range(2):  # two threads wait for one work
                threads.append(threading.Thread(target=wait_for, args=(work, x, torch.full((2_000,), 2.0 * turn))))
                threads[-1].start()
        for thread in threads:
            thread.join(20 * load())
            self.assertFalse(thread.is_alive(), "a wait hangs")
        self.assertEqual(failures, [])

    @ranks(2)
    def test_threads_with_groups(self):
        """Each thread has a group of its own."""
        groups = [dist.new_group() for _ in range(4)]
        failures = []

        def work_in(group, index) -> None:
            try:
                for turn in range(30):
                    x = torch.full((100,), float(index + turn))
                    dist.all_reduce(x, group=group)
                    self.same(x, torch.full((100,), 2.0 * (index + turn)))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work_in, args=(group, i)) for i, group in enumerate(groups)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30 * load())
            self.assertFalse(thread.is_alive(), "a call hangs")
        self.assertEqual(failures, [])

    @ranks(2)
    def test_python_runs_while_a_call_waits(self):
        """The interpreter lock is dropped: another thread can make the other ranks go on."""
        store = dist.distributed_c10d._get_default_store()
        x = torch.ones(1)
        if self.rank == 0:
            ticks = []
            stop = threading.Event()

            def tick() -> None:
                while not stop.wait(0.005):
                    ticks.append(1)
                    if len(ticks) == 10:
                        store.set("ticked", "1")

            thread = threading.Thread(target=tick)
            thread.start()
            dist.all_reduce(x)
            stop.set()
            thread.join()
            self.assertGreaterEqual(len(ticks), 10)
        else:
            store.wait(["ticked"])
            dist.all_reduce(x)

    @ranks(2)
    def test_profiler(self):
        with torch.profiler.profile() as profile:
            dist.all_reduce(torch.ones(2))
            dist.all_gather([torch.zeros(2) for _ in range(2)], torch.ones(2))
        names = " ".join(event.name for event in profile.events())
        self.assertIn("tutti:all_reduce", names)
        self.assertIn("tutti:all_gather", names)

    @ranks(2)
    def test_no_autograd_and_no_modes(self):
        """Results are written although a mode of Python watches operations, and inference mode is on."""
        from torch.utils._python_dispatch import TorchDispatchMode

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), named=None):
                return function(*arguments, **(named or {}))

        with torch.inference_mode():
            x = transposed(torch.ones(2, 3))
            dist.all_reduce(x)
            self.same(x, torch.full((2, 3), 2.0))
        with Watch():
            x = transposed(torch.ones(2, 3))
            dist.all_reduce(x)
        self.same(x, torch.full((2, 3), 2.0))


def mismatch(rank: int, size: int, kind: str) -> str:
    """Ranks whose calls do not fit together. Returns the first error of the rank. A rank that only sends may learn of it in a
    later call."""
    init(rank, size, timeout=5)
    calls = {
        "collective": lambda: dist.all_reduce(torch.ones(2)) if rank else dist.broadcast(torch.ones(2), 0),
        "size": lambda: dist.all_reduce(torch.ones(2 + rank)),
        "type": lambda: dist.all_reduce(torch.ones(2, dtype=[torch.float32, torch.int32][rank])),
        "operation": lambda: dist.all_reduce(torch.ones(2), [dist.ReduceOp.SUM, dist.ReduceOp.MAX][rank]),
        "root": lambda: dist.broadcast(torch.ones(2), rank),
    }
    try:
        calls[kind]()
        dist.barrier()
    except RuntimeError as error:
        return str(error)
    return ""


class Mismatches(Case):
    def test_mismatches(self):
        """Calls that differ: an error on each rank, which shows what differs."""
        for kind, shows in [("collective", "all_?reduce.*broadcast|broadcast.*all_?reduce"), ("size", "2.*3|3.*2"),
                            ("type", "f32.*i32|i32.*f32"), ("operation", "(?i)sum.*max|max.*sum"), ("root", "root")]:
            with self.subTest(kind):
                texts = Job(2, mismatch, kind).values()
                self.assertTrue(all(texts), texts)
                self.assertRegex("\n".join(texts), shows)


if __name__ == "__main__":
    unittest.main()
