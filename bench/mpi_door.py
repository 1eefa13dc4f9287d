"""mpi_door.py: runs bench/mpi_door_bench.c with and without the door of tutti in turns, and judges the times (tools/bench-mpi).

In each round, and for each MPI and number of ranks, two jobs are started: one with the door, one without. Both get memory that
has not been used for long (tools/bench_pages.py), and wait, without use of CPU time, for the cells that they measure. Each cell
is measured by one job, twice by the other, and again by the first, so that both see the same machine, and neither gains by its
place; the job that is first alternates. The time of a round is the mean of both. A speed-up is the time without the door / the
time with it, in the same round. A round during which the latency of a cache line changed is dropped and repeated.

Noise alone makes cells look slower: of 336 cells measured without the door on both sides (--same), 30 did, in 5 rounds on two
CPUs of a virtual machine. So such cells are measured again, in other jobs and more rounds (--again). A cell is slower if it is
so both times."""
import contextlib
import json
import math
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections import namedtuple
from dataclasses import dataclass, field
from statistics import median

import bench_regime
from peers import bars, cells, results, sides

NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
COLLECTIVES = ["allreduce", "reduce", "broadcast", "gather", "scatter", "allgather", "allgatherv", "alltoall", "alltoallv",
               "reduce_scatter", "scan", "barrier"]
NO_COLLECTIVES = ["split"]  # MPI_Comm_split, five broadcasts of 4 bytes, MPI_Comm_free; shown if asked for
FORMS = ["blocking", "nonblocking", "after_barrier"]
USUAL_FORMS = FORMS[:2]
SIZES = "8,64,1K,4K,16K,64K,256K,1M,4M,16M"
WITHOUT, WITH = "without", "with"
TRIES = 3  # maximum number of attempts at a round
# From so many bytes on, cells are measured for so many times the time of others. Of calls that take 1 ms, only nine fit 10 ms,
# and the speed of the memory changes from one to the next.
LONG_BYTES, LONG_TIMES = 1 << 20, 3
READY_S = 60  # time limit of a start
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

# ---- bars ----

CELL = 0.95  # a cell is bad if its speed-up is below, and it is slower with the door in results.AGREE of the rounds
BLOCK_MEAN = 1.3  # geometric mean of a block: an MPI, a number of ranks, and a form
OPENMPI_MEAN = 2.0  # geometric mean of all cells of Open MPI

Cell = namedtuple("Cell", "mpi ranks form collective bytes")
Block = namedtuple("Block", "mpi ranks form")


class Failure(Exception):
    """An error message for the user."""


def describe(cell):
    size = f" {cells.show_bytes(cell.bytes)}" if cell.bytes else ""
    return f"{cell.collective}{size}, {cell.form}, {NAMES[cell.mpi]}, {cell.ranks} ranks"


def describe_block(block):
    return f"{NAMES[block.mpi]}, {block.ranks} ranks, {block.form}"


def block_of(cell):
    return Block(cell.mpi, cell.ranks, cell.form)


@dataclass
class Row:
    """The results of a cell: the times of both sides, in us, one for each round that counts."""
    cell: Cell
    times_us: dict = field(default_factory=lambda: {WITHOUT: [], WITH: []})
    dropped: int = 0
    problems: list = field(default_factory=list)  # wrong results, and hangs
    again: "Row" = None  # the second measurement of a cell that looked slower in the first one

    def ratios(self):
        return [bare / door for bare, door in zip(self.times_us[WITHOUT], self.times_us[WITH])]

    def ratio(self):
        """Returns the median of the speed-ups; None: there is none."""
        return median(self.ratios()) if self.ratios() else None

    def slower(self):
        """Returns the number of rounds in which a call takes longer with the door."""
        return sum(ratio < 1 for ratio in self.ratios())

    def looks_bad(self):
        return results.is_behind(self.ratios(), len(self.ratios()), CELL)

    def is_bad(self):
        """Returns true if each measurement of the cell says so. A second one without results does not speak for the cell."""
        return self.looks_bad() and (not self.again or not self.again.ratios() or self.again.looks_bad())


def counts(cell, cpus):
    """Returns false for cells that are only shown: MPICH never yields, so that it is hopeless with more ranks than CPUs."""
    return cell.mpi != "mpich" or cell.ranks <= cpus


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def judge_mean(what, rows, limit):
    verdict = bars.Verdict(what, f"geometric mean >= {limit:g}", "")
    ratios = [row.ratio() for row in rows if row.ratio() is not None]
    if ratios:
        verdict.measured = f"{mean(ratios):.2f} ({len(ratios)} cells)"
        verdict.met = bars.met(mean(ratios) >= limit)
    return verdict


def judge_cells(what, rows):
    verdict = bars.Verdict(what, f"no cell slower (below {CELL} in the median, and in {results.AGREE:.0%} of rounds below 1)", "")
    known = [row for row in rows if row.ratio() is not None]
    bad = [row for row in known if row.is_bad()]
    again = sum(row.again is not None for row in known)
    if known:
        verdict.measured = f"{len(bad)} of {len(known)} cells" + (f" ({again} measured again)" if again else "")
        verdict.met = "no" if bad else "yes" if len(known) == len(rows) else "open"
    return verdict


def judge_right(rows):
    measured = rows + [row.again for row in rows if row.again]
    problems = [f"{describe(row.cell)}: {problem}" for row in measured for problem in row.problems]
    return bars.Verdict("results", "all right", "; ".join(problems) or f"{len(rows)} cells", bars.met(not problems))


def group(rows):
    """Returns the rows of each block."""
    blocks = {}
    for row in rows:
        blocks.setdefault(block_of(row.cell), []).append(row)
    return blocks


def judge(rows, cpus, same=False):
    """Returns the verdicts. same: neither side had the door, so that only noise makes cells look slower."""
    verdicts = [judge_right(rows)]
    counted = [row for row in rows if counts(row.cell, cpus)]
    for block, some in group(counted).items():
        verdicts.append(judge_cells(describe_block(block), some))
        if not same:
            verdicts.append(judge_mean(describe_block(block), some, BLOCK_MEAN))
    openmpi = [row for row in counted if row.cell.mpi == "openmpi" and not same]
    return verdicts + ([judge_mean("Open MPI, all cells", openmpi, OPENMPI_MEAN)] if openmpi else [])


def missed(verdicts):
    """Returns the number of bars that were missed, or that no result shows to be met."""
    return sum(verdict.met != "yes" for verdict in verdicts)


# ---- jobs ----

Install = namedtuple("Install", "folder build")  # folder of the programs of this run; build folder of tutti


def build(install, source, mpi, program, *flags):
    """Builds bench/PROGRAM.c for an MPI, without warnings about its headers."""
    command = [f"mpicc.{mpi}", "-std=c17", "-O2", os.path.join(source, "bench", f"{program}.c"), *flags, "-o",
               os.path.join(install.folder, f"{program}.{mpi}")]
    if not shutil.which(command[0]) or not shutil.which(f"mpirun.{mpi}"):
        raise Failure(f"mpicc.{mpi} or mpirun.{mpi} not found; install {NAMES[mpi]}, or use --mpi")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"cannot build bench/{program}.c for {NAMES[mpi]}:\n{done.stderr.rstrip()}")
    return command[-1]


def door_of(install, mpi):
    return os.path.join(install.build, f"libtutti_mpi_{mpi}.so")


def command_line(install, mpi, ranks, program, door, arguments=()):
    """Returns the command line of a job. Both sides get the MPI's default binding of ranks to CPUs."""
    command = [f"mpirun.{mpi}", "-n", str(ranks)]
    if mpi == "openmpi" and ranks > sides.cpu_count():
        command.append("--oversubscribe")
    if door:
        path = door_of(install, mpi)
        command += ["-x", f"LD_PRELOAD={path}"] if mpi == "openmpi" else ["-genv", "LD_PRELOAD", path]
    return [*command, os.path.join(install.folder, f"{program}.{mpi}"), *arguments]


def environment():
    """Returns the environment of jobs, with the door in its default mode."""
    kept = {name: value for name, value in os.environ.items() if name not in ("TUTTI_MPI", "TUTTI_MPI_MANY")}
    return {**kept, **ROOT}


class Job:
    """The ranks of one MPI, with or without the door."""

    def __init__(self, install, mpi, ranks, side, door, limit_s, most_bytes):
        """door: whether the job has the door. most_bytes: size of the largest cell, for which the job makes its buffers at
        once."""
        self.side, self.limit_s, self.ranks, self.rest = side, limit_s, ranks, b""
        self.folder = tempfile.TemporaryDirectory(dir=install.folder)
        self.errors = tempfile.TemporaryFile("w+")
        self.orders = [self._pipe(f"order.{rank}") for rank in range(ranks)]
        self.answers = self._pipe("answer")
        command = command_line(install, mpi, ranks, "mpi_door_bench", door,
                               ["--orders", self.folder.name, str(most_bytes)])
        self.program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors,
                                        env=environment())
        expected = ["ready", str(ranks), "door" if door else "bare"]
        ready = self._answer("start", READY_S)
        if ready != expected:
            self.end(kill=True)
            raise Failure(f"{' '.join(command)}: expected '{' '.join(expected)}', found '{' '.join(ready)}'")

    def _pipe(self, name):
        path = os.path.join(self.folder.name, name)
        os.mkfifo(path)
        return os.open(path, os.O_RDWR)  # opens at once; the ranks get the end of file when this process ends

    def _answer(self, what, limit_s):
        until = time.monotonic() + limit_s
        while b"\n" not in self.rest:
            ready = select.select([self.answers], [], [], 0.5)[0]
            if ready:
                self.rest += os.read(self.answers, 4096)
            elif self.program.poll() is not None:
                raise Failure(f"the job {self.side} the door ended at {what}:\n{self.said()}")
            elif time.monotonic() > until:
                raise Failure(f"the job {self.side} the door gave no answer within {limit_s:.0f} s to {what}")
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode().split()

    def measure(self, cell, time_ms, check):
        """Returns the time of a call in us, and whether its results are right."""
        order = f"{cell.collective} {cell.form} {cell.bytes} {time_ms} {'check' if check else 'trust'}\n"
        for pipe in self.orders:
            os.write(pipe, order.encode())
        words = self._answer(describe(cell), self.limit_s)
        return float(words[3]), words[4] != "wrong"

    def said(self):
        self.errors.seek(0)
        return "".join(self.errors.readlines()[-20:])

    def end(self, kill=False):
        """Ends the job; returns what it has printed."""
        for pipe in [*self.orders, self.answers]:
            os.close(pipe)
        if kill:
            self.program.terminate()  # mpirun ends its ranks
        try:
            self.program.wait(20)
        except subprocess.TimeoutExpired:
            self.program.terminate()
            try:
                self.program.wait(20)
            except subprocess.TimeoutExpired:
                self.program.kill()
                self.program.wait()
        said = self.said()
        self.errors.close()
        self.folder.cleanup()
        return said


# ---- measuring ----


class Runner:
    """Measures cells. start: function of an MPI, a number of ranks and a side, which returns a Job."""

    def __init__(self, start, ping, options, memory=contextlib.nullcontext):
        """ping: a bench_regime.LinePing; None: rounds are never dropped. memory: makes a context manager, in which the jobs
        of a round start and run (bench_pages.fresh)."""
        self.start, self.ping, self.options, self.memory = start, ping, options, memory
        self.latency_ns = None  # measured last
        self.jobs = {}
        self.notes = set()  # what jobs have printed

    def ping_ns(self):
        self.latency_ns = self.ping.latency_ns() if self.ping else 0
        return self.latency_ns

    def _job(self, cell, side):
        if side not in self.jobs:
            self.jobs[side] = self.start(cell.mpi, cell.ranks, side)
        return self.jobs[side]

    def end_jobs(self, kill=False):
        for job in self.jobs.values():
            self.notes.update(line.rstrip() for line in job.end(kill).splitlines() if line.strip())
        self.jobs = {}

    def _measure_both(self, row, order, check):
        times = {side: [] for side in order}
        time_ms = self.options.time_ms / 2 * (LONG_TIMES if row.cell.bytes >= LONG_BYTES else 1)
        for side in order:
            time_us, right = self._job(row.cell, side).measure(row.cell, time_ms, check and not times[side])
            times[side].append(time_us)
            if not right:
                row.problems.append(f"wrong {side} the door")
        return {side: sum(some) / len(some) for side, some in times.items()}

    def measure_round(self, row, turn, place):
        """Adds a round to the row, unless the regime changed during each attempt."""
        order = [WITHOUT, WITH, WITH, WITHOUT] if (turn + place) % 2 == 0 else [WITH, WITHOUT, WITHOUT, WITH]
        for attempt in range(TRIES):
            before = self.latency_ns or self.ping_ns()
            try:
                times = self._measure_both(row, order, turn == 0 and attempt == 0)
            except Failure as problem:
                row.problems.append(str(problem))
                self.end_jobs(kill=True)
                return
            if not self.ping or bench_regime.is_steady(bench_regime.regime([before, self.ping_ns()])):
                for side, time_us in times.items():
                    row.times_us[side].append(time_us)
                return
            row.dropped += 1

    def measure_all(self, wanted, tell=lambda sentence: None):
        """Returns a row for each cell. Measures those again that look slower."""
        rows = [Row(cell) for cell in wanted]
        self._measure_rows(rows, self.options.rounds, tell)
        suspects = [row for row in rows if row.looks_bad()]
        if suspects and self.options.again:
            for row in suspects:
                row.again = Row(row.cell)
            self._measure_rows([row.again for row in suspects], self.options.again * self.options.rounds,
                               lambda sentence: tell(sentence and f"again: {sentence}"))
        return rows

    def _measure_rows(self, rows, rounds, tell):
        for turn in range(rounds):
            for (mpi, ranks), some in by_job(rows).items():
                self.latency_ns = None
                with self.memory():
                    for place, row in enumerate(some):
                        tell(f"round {turn + 1} of {rounds}: {describe(row.cell)}")
                        if len(row.problems) < 2:
                            self.measure_round(row, turn, place)
                    self.end_jobs()
        tell("")


def by_job(rows):
    found = {}
    for row in rows:
        found.setdefault((row.cell.mpi, row.cell.ranks), []).append(row)
    return found


def list_cells(mpis, ranks_list, forms, collectives, sizes):
    found = []
    for mpi in mpis:
        for ranks in ranks_list:
            for collective in collectives:
                for form in forms if collective not in NO_COLLECTIVES else ["blocking"]:
                    counts_bytes = [0] if collective in ["barrier", *NO_COLLECTIVES] else sizes
                    found += [Cell(mpi, ranks, form, collective, count) for count in counts_bytes]
    return found


# ---- text ----


def show_us(value):
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def show_ratio(row):
    if row is None:
        return ""
    if row.ratio() is None:
        return "?"
    return f"**{row.ratio():.2f}**" if row.is_bad() else f"{row.ratio():.2f}"


def align(head, lines):
    """Returns a table in Markdown whose columns are also aligned as text."""
    widths = [max(map(len, column)) for column in zip(head, *lines)]
    padded = [[word.ljust(width) for word, width in zip(line, widths)] for line in [head, *lines]]
    return bars.as_markdown(padded[0], padded[1:])


def format_block(block, rows, cpus):
    """Formats the speed-ups of a block: a line for each collective, a column for each size."""
    sizes = sorted({row.cell.bytes for row in rows if row.cell.bytes}) or [0]
    lines = []
    for collective in dict.fromkeys(row.cell.collective for row in rows):
        found = {row.cell.bytes or sizes[0]: row for row in rows if row.cell.collective == collective}
        known = [row.ratio() for row in found.values() if row.ratio() is not None]
        lines.append([collective, *(show_ratio(found.get(size)) for size in sizes), f"{mean(known):.2f}" if known else "?"])
    known = [row.ratio() for row in rows if row.ratio() is not None]
    title = f"{describe_block(block)}: geometric mean {mean(known):.2f}" if known else f"{describe_block(block)}: no results"
    if not counts(rows[0].cell, cpus):
        title += " (not counted)"
    return title + "\n\n" + align(["collective", *map(cells.show_bytes, sizes), "mean"], lines)


def describe_rounds(row):
    if not row.ratios():
        return ["?"] * 5
    return [*(show_us(median(row.times_us[side])) for side in (WITHOUT, WITH)), f"{row.ratio():.2f}",
            f"{min(row.ratios()):.2f} to {max(row.ratios()):.2f}", f"{row.slower()} of {len(row.ratios())}"]


def format_slow(rows, cpus):
    """Formats the cells that look slower: first those that are so in each measurement, the slowest first."""
    suspects = [row for row in rows if row.looks_bad() and counts(row.cell, cpus)]
    suspects.sort(key=lambda row: (not row.is_bad(), row.ratio()))
    if not suspects:
        return "No cell that counts is slower with the door."
    lines = [[describe(row.cell), *describe_rounds(row), *(describe_rounds(row.again) if row.again else [""] * 5),
              "yes" if row.is_bad() else "no"] for row in suspects]
    head = ["us without", "us with", "speed-up", "range", "rounds slower"]
    return align(["looks slower with the door", *head, *(f"again: {word}" for word in head), "slower?"], lines)


def format_all(rows, cpus):
    blocks = [format_block(block, some, cpus) for block, some in group(rows).items()]
    return "\n\n".join([*blocks, format_slow(rows, cpus)])


def format_end(verdicts):
    count = missed(verdicts)
    return "all bars met" if count == 0 else f"{count} of {len(verdicts)} bars missed"


def as_json(rows, verdicts):
    found = [{**row.cell._asdict(), "times_us": row.times_us, "dropped": row.dropped, "problems": row.problems,
              "times_again_us": row.again.times_us if row.again else None} for row in rows]
    return json.dumps({"cells": found, "verdicts": [vars(verdict) for verdict in verdicts]}, indent=1)


# ---- the cost of the door itself ----


def measure_cost(install, mpi, ranks, rounds):
    """Returns times in ns by collective: of a call without the door, with it, and of tutti called directly. The last two are
    measured in turns within the same process, rounds times as often."""
    found = {}
    for _ in range(rounds):
        for door in (False, True):
            command = command_line(install, mpi, ranks, "mpi_door_cost", door)
            done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=READY_S, check=False)
            if done.returncode != 0:
                raise Failure(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr.rstrip()}")
            for line in done.stdout.splitlines():
                name, mpi_ns, tutti_ns = line.split()
                times = found.setdefault(name, {"without": [], "with": [], "tutti": []})
                times["with" if door else "without"].append(float(mpi_ns))
                if door:
                    times["tutti"].append(float(tutti_ns))
    return {name: {side: median(values) for side, values in times.items()} for name, times in found.items()}


def format_cost(found):
    """found: results of measure_cost by MPI and number of ranks."""
    lines = [[NAMES[mpi], str(ranks), name, *(f"{times[side]:.0f}" for side in ("without", "with", "tutti")),
              f"{times['with'] - times['tutti']:.0f}"]
             for (mpi, ranks), its in found.items() for name, times in its.items()]
    return align(["MPI", "ranks", "collective, 8 B", "without ns", "with ns", "tutti ns", "cost of the door ns"], lines)
