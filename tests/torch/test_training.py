"""Training with the torch backend: DDP in its forms, beside gloo and beside one process; with torch 2 also functional
collectives, device meshes and FSDP2."""

import contextlib
import unittest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ranks import TORCH_2, Ranks, ranks


class Layers(torch.nn.Module):
    """Several layers, so that DDP has several buckets; one of them is not used in some steps."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(20, 300), torch.nn.Linear(300, 300)
        self.sometimes, self.last = torch.nn.Linear(300, 300), torch.nn.Linear(300, 5)

    def forward(self, x: torch.Tensor, use_all: bool = True) -> torch.Tensor:
        x = torch.relu(self.second(torch.relu(self.first(x))))
        if use_all:
            x = torch.relu(self.sometimes(x))
        return self.last(x)


def batch(rank: int, step: int) -> torch.Tensor:
    return torch.randn(6, 20, generator=torch.Generator().manual_seed(1000 * rank + step))


def loss_of(model, x: torch.Tensor, *rest) -> torch.Tensor:
    return model(x, *rest).square().mean()


def train(model, rank: int, steps: int = 4, use_all=lambda step: True) -> list:
    """Returns the losses of this rank."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, batch(rank, step), use_all(step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class Training(Ranks):
    def fresh(self) -> torch.nn.Module:
        # torch 1.13 has a first bucket of this size, whatever the size of the others.
        dist._DEFAULT_FIRST_BUCKET_BYTES = 100_000
        torch.manual_seed(7)
        return Layers()

    def reference(self, steps: int = 4, use_all=lambda step: True) -> "tuple[list, torch.nn.Module]":
        """One process, which has the batches of all ranks."""
        model = self.fresh()
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), []
        for step in range(steps):
            optimizer.zero_grad()
            parts = [loss_of(model, batch(rank, step), use_all(step)) for rank in range(self.size)]
            (sum(parts) / self.size).backward()
            optimizer.step()
            losses.append(parts[self.rank].item())
        return losses, model

    def agrees(self, losses: list, model: torch.nn.Module, **named) -> None:
        expected, reference = self.reference(**named)
        self.close(torch.tensor(losses), torch.tensor(expected), "losses", within=1e-4)
        for (name, got), want in zip(model.named_parameters(), reference.parameters()):
            self.close(got.detach(), want.detach(), name, within=1e-4)
        # All ranks have the same bits.
        for parameter in model.parameters():
            of_first = parameter.detach().clone()
            dist.broadcast(of_first, 0)
            self.same(parameter.detach(), of_first)

    def trains(self, steps: int = 4, use_all=lambda step: True, **options) -> None:
        model = DistributedDataParallel(self.fresh(), bucket_cap_mb=0.2, **options)
        losses = train(model, self.rank, steps, use_all)
        self.agrees(losses, model.module, steps=steps, use_all=use_all)

    @ranks(3, limit=60)
    def test_buckets(self):
        self.trains()

    @ranks(3, limit=60)
    def test_views_of_buckets(self):
        self.trains(gradient_as_bucket_view=True)

    @ranks(3, limit=60)
    def test_unused_parameters(self):
        self.trains(find_unused_parameters=True, use_all=lambda step: step % 2 == 0, steps=5)

    @ranks(2, limit=60)
    def test_static_graph(self):
        self.trains(static_graph=True)

    @ranks(3, limit=60)
    def test_group(self):
        """In a subgroup, while another one is open."""
        pair, _ = dist.new_group([0, 1]), dist.new_group([1, 2])
        if self.rank < 2:
            model = DistributedDataParallel(self.fresh(), process_group=pair)
            self.size = 2
            expected, _ = self.reference()
            self.close(torch.tensor(train(model, self.rank)), torch.tensor(expected), within=1e-4)

    @ranks(2, limit=60)
    def test_no_sync(self):
        """Two steps of backward without communication, then one with it."""
        model, single = DistributedDataParallel(self.fresh()), self.fresh()
        with model.no_sync():
            loss_of(model, batch(self.rank, 0)).backward()
            loss_of(model, batch(self.rank, 1)).backward()
        loss_of(model, batch(self.rank, 2)).backward()
        for step in range(3):
            sum(loss_of(single, batch(rank, step)) / self.size for rank in range(self.size)).backward()
        for got, want in zip(model.parameters(), single.parameters()):
            self.close(got.grad, want.grad, within=1e-4)

    @ranks(3, limit=60)
    def test_hook(self):
        """A hook in Python that makes the call itself, and divides in a callback of its future."""
        model, called = DistributedDataParallel(self.fresh(), bucket_cap_mb=0.2), []

        def hook(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
            called.append(bucket.index())
            work = dist.all_reduce(bucket.buffer(), async_op=True)
            return work.get_future().then(lambda f: f.value()[0].div_(self.size))

        model.register_comm_hook(None, hook)
        losses = train(model, self.rank)
        self.assertGreater(len(set(called)), 1, "the model has several buckets")
        self.agrees(losses, model.module)

    @ranks(2, limit=60)
    def test_hooks_of_torch(self):
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        # Not the hook for bf16: torch itself refuses it without CUDA.
        for hook in default_hooks.allreduce_hook, default_hooks.fp16_compress_hook:
            model = DistributedDataParallel(self.fresh(), bucket_cap_mb=0.2)
            model.register_comm_hook(None, hook)
            losses = train(model, self.rank)
            self.close(torch.tensor(losses), torch.tensor(self.reference()[0]), hook.__name__, within=2e-2)

    @ranks(2, limit=60)
    def test_beside_gloo(self):
        gloo = dist.new_group(backend="gloo")
        ours = train(DistributedDataParallel(self.fresh(), bucket_cap_mb=0.2), self.rank, 6)
        theirs = train(DistributedDataParallel(self.fresh(), bucket_cap_mb=0.2, process_group=gloo), self.rank, 6)
        self.close(torch.tensor(ours), torch.tensor(theirs), within=1e-5)

    @ranks(2, limit=60)
    def test_several_models(self):
        """Models that live together and die in any order."""
        models = [DistributedDataParallel(self.fresh()) for _ in range(3)]
        for turn in range(2):
            for model in models:
                loss_of(model, batch(self.rank, turn)).backward()
        models.pop(1)
        for model in reversed(models):
            loss_of(model, batch(self.rank, 5)).backward()
        del model
        models.clear()
        dist.barrier()

    @ranks(2, limit=60)
    def test_uneven_inputs(self):
        """DDP's join(): rank 1 has more batches."""
        model = DistributedDataParallel(self.fresh())
        with model.join():
            for step in range(2 + self.rank):
                loss_of(model, batch(self.rank, step)).backward()
        dist.barrier()

    @ranks(2, limit=60)
    def test_buffers_and_batch_norm(self):
        model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.BatchNorm1d(8)))
        for step in range(3):
            model(batch(self.rank, step)).sum().backward()
        model.eval()
        mean = model.module[1].running_mean.clone()
        self.assertTrue(torch.isfinite(mean).all())

    @ranks(2, limit=60)
    def test_zero_redundancy(self):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        model = DistributedDataParallel(self.fresh())
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.05, momentum=0.9)
        for step in range(3):
            optimizer.zero_grad()
            loss_of(model, batch(self.rank, step)).backward()
            optimizer.step()
        _, reference = self.reference(3)
        for got, want in zip(model.module.parameters(), reference.parameters()):
            self.close(got.detach(), want.detach(), within=1e-4)


@unittest.skipUnless(TORCH_2, "torch 1.13 does not have these")
class Torch2(Ranks):
    @ranks(3, limit=60)
    def test_functional(self):
        import torch.distributed._functional_collectives as functional

        world, r, n = dist.group.WORLD, self.rank, self.size
        x = torch.full((3, 2), float(r))
        self.same(functional.all_reduce(x, "sum", world) + 0, torch.full((3, 2), 3.0))
        self.same(functional.all_reduce(x, "avg", world) + 0, torch.full((3, 2), 1.0))
        self.same(x, torch.full((3, 2), float(r)))
        want = torch.cat([torch.full((3, 2), float(rank)) for rank in range(n)])
        self.same(functional.all_gather_tensor(x, 0, world) + 0, want)
        self.same(functional.all_gather_tensor(x, 1, world) + 0, torch.cat(want.chunk(n), 1))
        self.same(functional.reduce_scatter_tensor(x, "sum", 0, world) + 0, torch.full((1, 2), 3.0))
        self.same(functional.broadcast(x, 2, world) + 0, torch.full((3, 2), 2.0))
        got = functional.all_to_all_single(torch.arange(3.0) + 10 * r, [1] * n, [1] * n, world) + 0
        self.same(got, torch.tensor([float(r + 10 * rank) for rank in range(n)]))
        for got in functional.all_reduce_coalesced([x, x + 1], "sum", world)[:1]:
            self.same(got + 0, torch.full((3, 2), 3.0))
        for got in functional.all_gather_into_tensor_coalesced([x], world):
            self.same(got + 0, want)
        for got in functional.reduce_scatter_tensor_coalesced([x], "sum", [0], world):
            self.same(got + 0, torch.full((1, 2), 3.0))
        # Results that are not waited for, nor used.
        for _ in range(20):
            functional.all_reduce(torch.ones(4), "sum", world)
        dist.barrier()

    @ranks(4, limit=60)
    def test_mesh(self):
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
        for name, members in [("rows", [self.rank % 2, self.rank % 2 + 2]), ("columns", [self.rank // 2 * 2, self.rank // 2 * 2 + 1])]:
            group = mesh.get_group(name)
            self.assertEqual(dist.get_backend(group), "tutti")
            x = torch.tensor([float(self.rank)])
            dist.all_reduce(x, group=group)
            self.same(x, torch.tensor([float(sum(members))]))

    @ranks(4, limit=60)
    def test_distributed_tensors(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        mesh = init_device_mesh("cpu", (4,))
        torch.manual_seed(3)
        a, b = torch.randn(8, 6), torch.randn(6, 5)
        left, right = distribute_tensor(a, mesh, [Shard(1)]), distribute_tensor(b, mesh, [Shard(0)])
        self.close((left @ right).full_tensor(), a @ b)
        self.close(distribute_tensor(a, mesh, [Shard(0)]).redistribute(mesh, [Shard(1)]).full_tensor(), a)
        self.close(distribute_tensor(a, mesh, [Replicate()]).sum().full_tensor(), a.sum())

    @ranks(2)
    def test_fsdp2_of_torch_2_6(self):
        """torch 2.6 cannot do it on CPUs with any backend. See streams_of_cpus."""
        from torch.distributed.device_mesh import init_device_mesh

        if hasattr(torch.cpu.Stream, "record_event"):
            self.skipTest("this torch can")
        with self.assertRaisesRegex(AttributeError, "record_event"):
            self.losses_of_fsdp(init_device_mesh("cpu", (self.size,)))

    def streams_of_cpus(self) -> None:
        """Adds what FSDP2 lacks on CPUs in torch 2.6.0, in two places of torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py.
        Line 171 calls all_gather_stream.record_event(): torch.cpu.Stream has no such method (torch/cpu/__init__.py, line 92).
        Line 288 calls torch.ops.fsdp.split_with_sizes_copy(): its CPU form, unlike its CUDA form, counts as an in-place change
        of the parameters, which backward refuses. torch 2.7 keeps their version counters there, as this does."""
        from torch.distributed.fsdp._fully_shard import _fsdp_param_group

        if hasattr(torch.cpu.Stream, "record_event"):
            return
        torch.cpu.Stream.record_event = lambda _stream, event=None: event or torch.cpu.Event()
        torch.cpu.Stream.wait_event = lambda _stream, event: None
        copy_out = _fsdp_param_group.foreach_all_gather_copy_out

        def keeps_versions(result, parameters, group) -> None:
            with contextlib.ExitStack() as kept:
                for output in [t for parameter in parameters for t in parameter.all_gather_outputs]:
                    kept.enter_context(torch.autograd._unsafe_preserve_version_counter(output))
                copy_out(result, parameters, group)

        _fsdp_param_group.foreach_all_gather_copy_out = keeps_versions

    def losses_of_fsdp(self, mesh, **options) -> list:
        from torch.distributed.fsdp import fully_shard

        torch.manual_seed(7)
        model = Layers()
        for layer in model.first, model.second, model.sometimes, model.last:
            fully_shard(layer, mesh=mesh, **options)
        fully_shard(model, mesh=mesh, **options)
        return train(model, self.rank)

    @ranks(2, limit=90)
    def test_fsdp2(self):
        """The losses of FSDP2 are those of DDP."""
        self.streams_of_cpus()
        from torch.distributed.device_mesh import init_device_mesh

        torch.manual_seed(7)
        expected = train(DistributedDataParallel(Layers()), self.rank)
        mesh = init_device_mesh("cpu", (self.size,))
        self.close(torch.tensor(self.losses_of_fsdp(mesh)), torch.tensor(expected), within=1e-4)
        kept = self.losses_of_fsdp(mesh, reshard_after_forward=False)
        self.close(torch.tensor(kept), torch.tensor(expected), within=1e-4)

    @ranks(4, limit=90)
    def test_hsdp2(self):
        """Sharded over two ranks, replicated over two."""
        self.streams_of_cpus()
        from torch.distributed.device_mesh import init_device_mesh

        torch.manual_seed(7)
        expected = train(DistributedDataParallel(Layers()), self.rank)
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        self.close(torch.tensor(self.losses_of_fsdp(mesh)), torch.tensor(expected), within=1e-4)

    @ranks(2, limit=90)
    def test_fsdp2_in_bfloat16(self):
        self.streams_of_cpus()
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy

        torch.manual_seed(7)
        expected = train(DistributedDataParallel(Layers()), self.rank)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        losses = self.losses_of_fsdp(init_device_mesh("cpu", (self.size,)), mp_policy=policy)
        self.close(torch.tensor(losses), torch.tensor(expected), within=5e-2)


if __name__ == "__main__":
    unittest.main()
