"""torch_rank.py: one rank of tools/bench-torch. It has a group of gloo and a group of tutti, and measures what it is told.

It reads commands from standard input, one JSON object a line, and answers each by one line. All ranks get the same
commands. A sample is: write the input; barrier; read the clock; run an operation, or several; read the clock; read the
output. The barrier is that of tutti for both sides, so that the ranks begin as much at the same time with each."""
import functools
import gc
import gzip
import json
import os
import sys
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Callable

import torch
import torch.distributed as dist

LIMIT = timedelta(seconds=120)
KEPT_BYTES = 1 << 20  # buffers of longer vectors are made again in each round
OBJECT = {"step": 17, "shape": [4, 128], "kind": "prefill"}


# ---- operations ----


@dataclass
class Operation:
    """A collective. A vector of the cell's size has as many blocks as there are ranks."""
    run: Callable  # of a Case
    expected: Callable  # of a Case: the output
    input: str = "vector"  # or block
    output: str = "input"  # vector or block; input: the collective works in place; parts: a list of blocks
    instead: Callable = None  # what a program writes if the backend lacks the collective
    type: torch.dtype = torch.float32


def own(case, values):
    return values.chunk(case.ranks)[case.rank]


def reduce_and_slice(case):
    dist.all_reduce(case.input, group=case.group)
    case.output = own(case, case.input)


def gather_to_parts(case):
    dist.all_gather(case.parts, case.input, group=case.group)


def broadcast_object(case):
    case.objects = [OBJECT if case.rank == 0 else None]
    dist.broadcast_object_list(case.objects, src=0, group=case.group)


def sum_of_all(case):
    return functools.reduce(torch.add, (case.values(rank) for rank in range(case.ranks)))


def all_inputs(case):
    return torch.cat([case.values(rank) for rank in range(case.ranks)])


OPERATIONS = {
    "allreduce": Operation(lambda c: dist.all_reduce(c.input, group=c.group), sum_of_all),
    "allgather": Operation(lambda c: dist.all_gather_into_tensor(c.output, c.input, group=c.group), all_inputs,
                           input="block", output="vector", instead=gather_to_parts),
    "allgather_list": Operation(gather_to_parts, all_inputs, input="block", output="parts"),
    "reduce_scatter": Operation(lambda c: dist.reduce_scatter_tensor(c.output, c.input, group=c.group),
                                lambda c: own(c, sum_of_all(c)), output="block", instead=reduce_and_slice),
    "alltoall": Operation(lambda c: dist.all_to_all_single(c.output, c.input, group=c.group),
                          lambda c: torch.cat([own(c, c.values(r)) for r in range(c.ranks)]), output="vector"),
    "broadcast": Operation(lambda c: dist.broadcast(c.input, 0, group=c.group), lambda c: c.values(0)),
    "barrier": Operation(lambda c: dist.barrier(group=c.group), lambda c: c.values(c.rank)),
    "objects": Operation(broadcast_object, lambda c: c.values(c.rank)),
}
OPERATIONS["allreduce_int64"] = replace(OPERATIONS["allreduce"], type=torch.int64)
OPERATIONS["allgather_int64"] = replace(OPERATIONS["allgather_list"], type=torch.int64)


class Case:
    """The buffers of a cell on one side."""

    def __init__(self, name, count, group, make):
        """make: torch.empty, or a function like it."""
        self.operation, self.group = OPERATIONS[name], group
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        its = self.operation
        vector = count // torch.empty(0, dtype=its.type).element_size()
        lengths = {"vector": vector, "block": vector // self.ranks, "input": 0}

        def memory(what):
            return make(lengths[what], dtype=its.type)

        self.length = lengths[its.input]
        self.input = memory(its.input)
        if its.output == "parts":
            self.parts = [memory("block") for _ in range(self.ranks)]
            self.output = None
        else:
            self.output = self.input if its.output == "input" else memory(its.output)
            self.parts = list(self.output.chunk(self.ranks))
        self.objects = None
        self.run = its.run
        self.pattern = self.values(self.rank)

    def values(self, rank):
        """Returns the input of a rank: small integers, so that sums are exact in any order."""
        place = torch.arange(self.length, dtype=torch.int32)
        return ((place * 5 + place // 1000 + 3 * rank) % 16).to(self.operation.type)

    def produce(self):
        self.input.copy_(self.pattern)

    def check(self):
        """Runs the operation once. Returns true if its output is right. From then on, `run` is what the backend has."""
        self.produce()
        try:
            self.run(self)
        except (RuntimeError, NotImplementedError):
            if not self.operation.instead:
                raise
            self.run = self.operation.instead
            self.run(self)
        found = torch.cat(self.parts) if self.output is None else self.output
        return torch.equal(found, self.operation.expected(self)) and self.objects in (None, [OBJECT])

    def consume(self):
        for tensor in self.parts if self.output is None else [self.output]:
            tensor.sum()


def of_tutti():
    """Returns the function that makes tensors in the library's memory; None: this version has none."""
    import tutti.torch

    return getattr(tutti.torch, "empty", None)


# ---- measuring ----


class Rank:
    def __init__(self):
        import tutti.torch  # noqa: F401 the backend "tutti"

        dist.init_process_group("gloo", init_method="env://", timeout=LIMIT)
        self.groups = {"gloo": dist.group.WORLD, "tutti": dist.new_group(backend="tutti", timeout=LIMIT)}
        self.cases, self.trainings = {}, {}
        self.checked = {}  # `run` of each case whose result was checked

    def case(self, cell, side):
        """Returns the case of a cell and a side, and whether its result is right; None: that was checked before."""
        key = (*cell, side)
        if key in self.cases:
            return self.cases[key], None
        self.cases = {known: case for known, case in self.cases.items() if known[1] <= KEPT_BYTES or known[:2] == key[:2]}
        backend, _, memory = side.partition(" ")
        case = Case(*cell, self.groups[backend], of_tutti() if memory else torch.empty)
        right = None if key in self.checked else case.check()
        case.run = self.checked.setdefault(key, case.run)
        self.cases[key] = case
        return case, right

    def measure(self, order):
        """Returns times of samples, in us, each of `batch` operations."""
        case, right = self.case(order["cell"], order["side"])
        batch = order["batch"]
        if not order["single"]:
            case.pattern.zero_()  # sums of earlier sums stay finite
        times = []
        for _ in range(order["warm"] + order["samples"]):
            case.produce()
            dist.barrier(group=self.groups["tutti"])
            start = time.perf_counter_ns()
            for _ in range(batch):
                case.run(case)
            times.append((time.perf_counter_ns() - start) / 1000)
            if order["single"]:
                case.consume()
        return {"us": times[order["warm"]:], "right": right}

    def train(self, order):
        key = (order["model"], order["side"])
        if key not in self.trainings:
            self.trainings[key] = Training(order["model"], self.groups[order["side"]], order["data"], order["bucket_mb"])
        return self.trainings[key].advance(order["steps"])

    def facts(self, order):
        return {"torch": torch.__version__, "memory": of_tutti() is not None}


# ---- training ----


def read_idx(path, header_bytes):
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()[header_bytes:]), dtype=torch.uint8)


def make_model(name):
    torch.manual_seed(1)
    layer = torch.nn
    if name == "mlp":
        return layer.Sequential(layer.Flatten(), layer.Linear(784, 512), layer.ReLU(), layer.Linear(512, 512), layer.ReLU(),
                                layer.Linear(512, 512), layer.ReLU(), layer.Linear(512, 10))
    return layer.Sequential(layer.Conv2d(1, 16, 3, padding=1), layer.ReLU(), layer.MaxPool2d(2),
                            layer.Conv2d(16, 32, 3, padding=1), layer.ReLU(), layer.MaxPool2d(2), layer.Flatten(),
                            layer.Linear(1568, 256), layer.ReLU(), layer.Linear(256, 10))


class Training:
    """A model that learns Fashion-MNIST by DDP. Models of both sides see the same images in the same order."""
    BATCH = 32  # images of one rank

    def __init__(self, name, group, folder, bucket_mb):
        pixels = read_idx(os.path.join(folder, "train-images-idx3-ubyte.gz"), 16)
        self.images = (pixels.float() / 255 - 0.5).reshape(-1, 1, 28, 28)
        self.labels = read_idx(os.path.join(folder, "train-labels-idx1-ubyte.gz"), 8).long()
        self.model = torch.nn.parallel.DistributedDataParallel(make_model(name), process_group=group, bucket_cap_mb=bucket_mb)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9)
        self.rank, self.ranks, self.step = dist.get_rank(group), dist.get_world_size(group), 0
        self.order = torch.randperm(len(self.labels), generator=torch.Generator().manual_seed(2))

    def advance(self, steps):
        times, losses = [], []
        for _ in range(steps):
            first = (self.step * self.ranks + self.rank) * self.BATCH % (len(self.labels) - self.BATCH)
            chosen = self.order[first:first + self.BATCH]
            images, labels = self.images[chosen], self.labels[chosen]
            start = time.perf_counter_ns()
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(images), labels)
            loss.backward()
            self.optimizer.step()
            times.append((time.perf_counter_ns() - start) / 1000)
            losses.append(loss.item())
            self.step += 1
        sizes = self.model._get_ddp_logging_data().get("rebuilt_bucket_sizes", "")
        return {"us": times, "losses": losses, "buckets": [int(word) for word in sizes.split(",") if word.strip()]}


def main():
    # Only answers go to standard output.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch.set_num_threads(1)
    rank = Rank()
    verbs = {"measure": rank.measure, "train": rank.train, "facts": rank.facts}
    # A collection takes as long as thousands of short calls; so there is none within a measurement.
    gc.disable()
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        answers.write(json.dumps(verbs[order["do"]](order)) + "\n")
        gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
