"""torch_bench.py: starts the ranks of tools/bench-torch (torch_rank.py), measures cells in rounds, and judges the times.

In each round, the sides of a cell are measured one after the other, each round beginning with another side. A ratio is the
time with tutti / the time with gloo in the same round. The latency of a cache line is measured before and after; a round
during which it changed is dropped and repeated."""
import json
import math
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections import namedtuple
from dataclasses import dataclass, field
from statistics import median

import bench_regime
from peers import bars, cells

RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_rank.py")
GLOO, TUTTI, MEMORY = "gloo", "tutti", "tutti memory"
COLLECTIVES = ["allreduce", "allgather", "allgather_list", "reduce_scatter", "alltoall", "broadcast", "barrier"]
SIZES = "8,64,512,4K,16K,64K,256K,1M,4M,16M,64M"
SHORT = 16 << 10  # up to this size, the bars of short vectors hold
SAMPLES = 5  # of many operations each
SAMPLES_MIN, SAMPLES_MAX = 3, 30  # of one operation each
TRIES = 4  # maximum number of attempts at a round
SLOWER = 5 / 7  # a cell is slower if it is in this share of the rounds

Cell = namedtuple("Cell", "collective bytes ranks")


class Failure(Exception):
    """An error message for the user."""


def describe(cell):
    return f"{cell.collective} {cells.show_bytes(cell.bytes)}, {cell.ranks} ranks"


# ---- ranks ----


class Job:
    """The ranks of a job. They wait, without use of CPU time, for what `order` tells them."""

    def __init__(self, ranks, options, on_host=None):
        """on_host: function of a host and a command line, which returns the command line that runs it there; None: all
        ranks are on this host. The ranks are spread over options.hosts."""
        self.limit_s = options.limit_s
        self.programs, self.errors = [], []
        address, port = ("10.77.0.1", 29500) if on_host else ("127.0.0.1", free_port())
        shared = {"MASTER_ADDR": address, "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1",
                  "GLOO_SOCKET_IFNAME": "eth0" if on_host else "lo", "TORCH_TUTTI_AS_GLOO": "0",
                  "USE_LIBUV": "0",  # Debian's torch lacks libuv
                  "PYTHONPATH": os.pathsep.join(filter(None, [options.package, os.environ.get("PYTHONPATH")]))}
        for rank in range(ranks):
            command = [sys.executable, "-B", RANK]
            if on_host:
                command = on_host(rank * options.hosts // ranks, command)
            self.errors.append(tempfile.TemporaryFile("w+"))
            self.programs.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors[-1],
                                                  text=True, env={**os.environ, **shared, "RANK": str(rank)}))

    def order(self, **words):
        """Gives an order to all ranks; returns their answers."""
        for program in self.programs:
            try:
                program.stdin.write(json.dumps(words) + "\n")
                program.stdin.flush()
            except BrokenPipeError:
                pass  # its standard output is closed, too
        answers = {}
        while len(answers) < len(self.programs):
            silent = {program.stdout: rank for rank, program in enumerate(self.programs) if rank not in answers}
            ready = select.select(list(silent), [], [], self.limit_s)[0]
            if not ready:
                raise Failure(f"ranks {list(silent.values())} gave no answer within {self.limit_s:.0f} s to {words}")
            for stream in ready:
                rank, line = silent[stream], stream.readline()
                if not line:
                    raise Failure(f"rank {rank} ended at {words}:\n{self._said(rank)}")
                answers[rank] = json.loads(line)
        return [answers[rank] for rank in range(len(self.programs))]

    def _said(self, rank):
        self.programs[rank].wait()
        self.errors[rank].seek(0)
        return "".join(self.errors[rank].readlines()[-20:])

    def __enter__(self):
        return self

    def __exit__(self, kind, problem, trace):
        for program in self.programs:
            if problem:
                program.kill()
            program.stdin.close()
        late = []
        for rank, program in enumerate(self.programs):
            try:
                program.wait(self.limit_s)
            except subprocess.TimeoutExpired:
                program.kill()
                late.append(rank)
            if not problem and program.wait() != 0:
                raise Failure(f"rank {rank} ended with status {program.returncode}:\n{self._said(rank)}")
        if late and not problem:
            raise Failure(f"ranks {late} did not end")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


# ---- measuring ----


@dataclass
class Row:
    """The results of a cell: the times of each side, in us, one for each round that counts."""
    cell: Cell
    times_us: dict = field(default_factory=dict)
    dropped: int = 0
    wrong: set = field(default_factory=set)  # sides with wrong results

    def ratios(self, side=TUTTI):
        return [its / gloo for its, gloo in zip(self.times_us.get(side, []), self.times_us[GLOO])]

    def ratio(self, side=TUTTI):
        """Returns the median of the ratios; None: there is none."""
        ratios = self.ratios(side) if GLOO in self.times_us else []
        return median(ratios) if ratios else None

    def slower(self):
        """Returns the number of rounds in which tutti takes longer."""
        return sum(ratio > 1 for ratio in self.ratios())


class Runner:
    """Measures cells by a job."""

    def __init__(self, job, ping, options, memory):
        """ping: a bench_regime.LinePing; None: rounds are never dropped. memory: also measure tutti's memory."""
        self.job, self.ping, self.options = job, ping, options
        self.sides = [GLOO, TUTTI, MEMORY] if memory else [GLOO, TUTTI]
        self.counts = {}  # samples and operations of each, by cell and side
        self.latency_ns = None  # measured last

    def ping_ns(self):
        self.latency_ns = self.ping.latency_ns() if self.ping else 0
        return self.latency_ns

    def measure(self, cell, side, row):
        """Returns the time of an operation, in us: the median of samples, each of which counts for its slowest rank."""
        single = cell.bytes >= cells.SINGLE_BYTES

        def take(samples, batch, warm=1):
            answers = self.job.order(do="measure", cell=[cell.collective, cell.bytes], side=side, samples=samples, batch=batch,
                                     warm=warm, single=single)
            if any(answer["right"] is False for answer in answers):
                row.wrong.add(side)
            return median(max(each) for each in zip(*(answer["us"] for answer in answers))) / batch

        if (cell, side) not in self.counts:
            fit = self.options.time_ms * 1000 / max(take(3, 1), 0.1)
            self.counts[cell, side] = ((min(max(int(fit), SAMPLES_MIN), SAMPLES_MAX), 1) if single else
                                       (SAMPLES, max(1, int(fit / SAMPLES))))
        return take(*self.counts[cell, side])

    def measure_round(self, row, turn):
        """Adds a round to the row, unless the regime changed during each attempt."""
        cell = row.cell
        turned = self.sides[turn % len(self.sides):] + self.sides[:turn % len(self.sides)]
        for _ in range(TRIES):
            before = self.latency_ns or self.ping_ns()
            times = {side: self.measure(cell, side, row) for side in turned if side != MEMORY or cell.bytes}
            if not self.ping or bench_regime.is_steady(bench_regime.regime([before, self.ping_ns()])):
                for side, time_us in times.items():
                    row.times_us.setdefault(side, []).append(time_us)
                return
            row.dropped += 1

    def measure_all(self, wanted):
        """Returns a row for each cell."""
        rows = [Row(cell) for cell in wanted]
        for turn in range(self.options.rounds):
            self.latency_ns = None
            for row in rows:
                tell(f"round {turn + 1} of {self.options.rounds}: {describe(row.cell)}")
                self.measure_round(row, turn)
        tell("")
        return rows


def tell(sentence):
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{sentence}")
        sys.stderr.flush()


def list_cells(collectives, sizes, ranks):
    found = []
    for collective in collectives:
        known = "allgather" if collective == "allgather_list" else collective
        counts = sorted({cells.actual_bytes(known, size, ranks) for size in sizes})
        found += [Cell(collective, count, ranks) for count in counts]
    return found


def list_metadata(ranks):
    """Returns the cells of the integers that servers exchange in each step, and of a small object."""
    return [*(Cell("allreduce_int64", 8 * count, ranks) for count in (1, 2, 4, 8)),
            *(Cell("allgather_int64", 8 * count * ranks, ranks) for count in (1, 2, 4, 8)), Cell("objects", 0, ranks)]


# ---- training ----


@dataclass
class Training:
    """A model that both sides train by DDP."""
    model: str
    ranks: int
    step_us: dict  # median by side
    losses: dict  # by side: of each rank, of each step
    buckets: list  # bytes

    def distance(self):
        """Returns the largest relative distance between two losses of the same rank and step."""
        pairs = [pair for ranks in zip(self.losses[GLOO], self.losses[TUTTI]) for pair in zip(*ranks)]
        return max(abs(a - b) / max(abs(a), 1e-9) for a, b in pairs)


def train(job, model, options, ranks):
    """Trains a model on both sides in turns of ten steps."""
    words = {"do": "train", "model": model, "data": options.data, "bucket_mb": options.bucket_mb}
    times, losses = {GLOO: [], TUTTI: []}, {side: [[] for _ in range(ranks)] for side in (GLOO, TUTTI)}
    for turn in range(options.rounds + 1):
        for side in [GLOO, TUTTI] if turn % 2 else [TUTTI, GLOO]:
            tell(f"turn {turn} of {options.rounds}: {model}, {side}, {ranks} ranks")
            answers = job.order(**words, side=side, steps=10)
            for rank, answer in enumerate(answers):
                losses[side][rank] += answer["losses"]
            if turn > 0:  # in the first turn, DDP chooses its buckets
                times[side] += [max(each) for each in zip(*(answer["us"] for answer in answers))]
    tell("")
    return Training(model, ranks, {side: median(values) for side, values in times.items()}, losses, answers[0]["buckets"])


# ---- bars ----

# Each cell of one host, and their geometric mean; above SHORT also the geometric mean with tutti's memory.
SHORT_CELL, SHORT_MEAN, LONG_CELL, LONG_MEAN, MEMORY_MEAN = 1 / 4, 1 / 8, 1 / 2, 1 / 3, 1 / 4
HOSTS_CELL = [(64 << 10, 1 / 3), (1 << 20, 0.8), (math.inf, 1.1)]  # two hosts of one rank: up to a size
LOSS_DISTANCE = 1e-3  # the order of sums differs, and rounding grows from step to step


def limit_of(cell, mode):
    """Returns the largest ratio that the bar of the mode allows in a cell; None: it has no bar."""
    if mode == "hosts":
        return next(limit for size, limit in HOSTS_CELL if cell.bytes <= size)
    if mode in ("here", "ddp"):
        return SHORT_CELL if cell.bytes <= SHORT else LONG_CELL
    return None


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def judge_cells(what, rows, limit):
    """Returns the verdict of a bar that holds for each cell."""
    verdict = bars.Verdict(what, f"each cell <= {limit:.3g}", "")
    known = [(row.ratio(), describe(row.cell)) for row in rows if row.ratio() is not None]
    if known:
        worst, where = max(known)
        above = sum(ratio > limit for ratio, _ in known)
        verdict.measured = f"{worst:.3f} ({where})" + (f"; {above} of {len(known)} cells above" if above else "")
        verdict.met = "no" if above else "yes" if len(known) == len(rows) else "open"
    return verdict


def judge_mean(what, rows, limit, side=TUTTI):
    verdict = bars.Verdict(what, f"geometric mean <= {limit:.3g}", "")
    ratios = [row.ratio(side) for row in rows if row.ratio(side) is not None]
    if ratios:
        verdict.measured = f"{mean(ratios):.3f} ({len(ratios)} cells)"
        verdict.met = bars.met(mean(ratios) <= limit)
    return verdict


def judge_slower(rows):
    """Returns the verdict of the bar under load: no cell is slower in 5 of 7 rounds."""
    known = [row for row in rows if row.ratio() is not None]
    bad = [describe(row.cell) for row in known if row.slower() >= SLOWER * len(row.ratios())]
    return bars.Verdict("beside other programs", "no cell slower in 5 of 7 rounds",
                        "; ".join(bad) if bad else f"none of {len(known)} cells", bars.met(not bad and len(known) == len(rows)))


def judge_right(rows):
    bad = [f"{describe(row.cell)}: {', '.join(sorted(row.wrong))}" for row in rows if row.wrong]
    return bars.Verdict("results", "all right", "; ".join(bad) if bad else f"{len(rows)} cells", bars.met(not bad))


def judge(rows, mode, memory):
    """Returns the verdicts of a mode: here, hosts, load, metadata or ddp."""
    short, long = [row for row in rows if row.cell.bytes <= SHORT], [row for row in rows if row.cell.bytes > SHORT]
    verdicts = [judge_right(rows)]
    if mode == "load":
        verdicts.append(judge_slower(rows))
    if mode == "hosts":
        low = -1
        for size, limit in HOSTS_CELL:
            some = [row for row in rows if low < row.cell.bytes <= size]
            verdicts += [judge_cells("to " + cells.show_bytes(size) if size < math.inf else "longer", some, limit)] if some else []
            low = size
    if mode in ("here", "ddp"):
        verdicts += [judge_cells("to 16K", short, SHORT_CELL)] if short else []
        verdicts += [judge_cells("above 16K", long, LONG_CELL)] if long else []
    if mode == "here":
        verdicts += [judge_mean("to 16K", short, SHORT_MEAN)] if short else []
        verdicts += [judge_mean("above 16K", long, LONG_MEAN)] if long else []
        verdicts += [judge_mean("above 16K, memory of tutti", long, MEMORY_MEAN, MEMORY)] if long and memory else []
    return verdicts


def judge_training(training):
    return bars.Verdict(f"losses of {training.model}, {training.ranks} ranks", f"distance to gloo's <= {LOSS_DISTANCE}",
                        f"{training.distance():.1e}", bars.met(training.distance() <= LOSS_DISTANCE))


# ---- text ----


def show_us(value):
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def row_words(row, mode, memory):
    cell = row.cell
    words = [cell.collective, cells.show_bytes(cell.bytes), str(cell.ranks)]
    if row.ratio() is None:
        words += ["no steady round"] + [""] * 4
    else:
        ratios = row.ratios()
        words += [*(show_us(median(row.times_us[side])) for side in (GLOO, TUTTI)), f"{row.ratio():.3f}",
                  f"{min(ratios):.3f} to {max(ratios):.3f}", f"{row.slower()} of {len(ratios)}"]
    if memory:
        ratio = row.ratio(MEMORY)
        words += [show_us(median(row.times_us[MEMORY])), f"{ratio:.3f}"] if ratio is not None else ["", ""]
    limit = limit_of(cell, mode)
    return words + ([f"{limit:.3g}" + (" no" if row.ratio() and row.ratio() > limit else "")] if limit else [])


def format_rows(rows, mode, memory):
    head = ["collective", "bytes", "ranks", "gloo us", "tutti us", "ratio", "range", "slower"]
    head += ["memory us", "ratio"] if memory else []
    head += ["bar"] if limit_of(rows[0].cell, mode) else []
    return align(head, [row_words(row, mode, memory) for row in rows])


def format_trainings(trainings):
    head = ["model", "ranks", "buckets", "gloo us/step", "tutti us/step", "ratio", "losses of rank 0, gloo", "tutti"]
    lines = []
    for its in trainings:
        ends = [f"{its.losses[side][0][0]:.4f} to {its.losses[side][0][-1]:.4f}" for side in (GLOO, TUTTI)]
        lines.append([its.model, str(its.ranks), ",".join(map(cells.show_bytes, its.buckets)),
                      *(show_us(its.step_us[side]) for side in (GLOO, TUTTI)), f"{its.step_us[TUTTI] / its.step_us[GLOO]:.2f}", *ends])
    return align(head, lines)


def align(head, lines):
    """Returns a table in Markdown whose columns are also aligned as text."""
    widths = [max(map(len, column)) for column in zip(head, *lines)]
    padded = [[word.ljust(width) for word, width in zip(line, widths)] for line in [head, *lines]]
    return bars.as_markdown(padded[0], padded[1:])
