"""measure.py: runs the programs in turns. A virtual machine's speed changes within seconds, when the host moves its CPUs.
So the latency of a cache line is measured before and after each run, and a run during which it changed is dropped and
repeated. Times are compared only within one round and one regime (near or far: the latency of a cache line)."""
import json
import math
import os
import queue
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import bench_regime

from . import cells, results, sides

COPY_STEADY = 1.3
TRIES = 4  # maximum number of attempts at a run if the latency of a cache line changes during the run
OURS_EVERY = 3  # number of peer runs between two runs of this library
CROWDED_LIMIT = 3  # divisor of the time limit for peers that never yield, with more ranks than CPUs
DROP = 1.3  # a peer slower than the best one by this factor in all cells measured together is not run again


@dataclass
class Run:
    """The results of one start of a program, during which the regime (near or far CPUs) did not change. Regime any: it was not
    measured, and all runs of a round are compared."""
    side: sides.Side
    round: int
    position: int  # in the round's sequence
    regime: str
    times_us: dict = field(default_factory=dict)  # time by cell of the table
    copy_ms: float = 0  # time of two processes that copy 64 MiB each, same round and regime; 0: unknown


def sequence(peers, heap, turn):
    """Returns the order of runs: this library before, between and after groups of peers. Rounds start with different peers."""
    ours = [sides.PRIVATE, sides.HEAP] if heap else [sides.PRIVATE]
    turned = peers[turn % len(peers):] + peers[:turn % len(peers)] if peers else []
    order = []
    for i in range(0, len(turned), OURS_EVERY):
        order += ours + turned[i:i + OURS_EVERY]
    return order + ours


def keep_promising(peers, block_cells, ratios):
    """Returns the peers to keep: those near the best peer in some cell of the block; default settings: near the best
    default setting. A peer without any comparison is kept. ratios[side][cell]: median so far of peer time / our time."""
    def near_best(side, rivals):
        for cell in block_cells:
            known = [ratios[rival][cell] for rival in rivals if cell in ratios.get(rival, {})]
            if known and ratios[side].get(cell, math.inf) <= DROP * min(known):
                return True
        return False

    defaults = [side for side in peers if side.setting == "default"]
    return [side for side in peers
            if not ratios.get(side) or near_best(side, peers) or (side in defaults and near_best(side, defaults))]


def ratios_so_far(peers, block_cells, runs):
    """Returns, by side and cell, the median of peer time / our time."""
    ours = [run for run in runs if run.side is sides.PRIVATE]
    found = {}
    for side in peers:
        theirs = [run for run in runs if run.side == side]
        ratios = {cell: results.ratios_to(cell, theirs, ours) for cell in block_cells}
        found[side] = {cell: statistics.median(values) for cell, values in ratios.items() if values}
    return found


def keep_each_peer(peers, block_cells, ratios):
    """Keeps the best settings of each peer, not only of the best one: for tables that show every peer."""
    return [side for peer in dict.fromkeys(side.peer for side in peers)
            for side in keep_promising([side for side in peers if side.peer == peer], block_cells, ratios)]


class Measurer:
    figure = "time_us"  # key of the time that counts in a program's results: the median of its samples

    def __init__(self, machine, ping, options, log=sys.stderr):
        """`ping`: a bench_regime.LinePing, which measures the latency of a cache line; None: all runs are of regime any, and
        none is dropped."""
        self.machine, self.ping, self.options, self.log = machine, ping, options, log
        self.hung = {}  # (side name, cell): reason why the time is missing
        self.counts = {"runs": 0, "dropped": 0}

    def say(self, sentence):
        if self.log.isatty():
            self.log.write(f"\r\033[K{sentence}")
        elif self.options.verbose:
            self.log.write(sentence + "\n")
        self.log.flush()

    # ---- calibrations ----

    def copy_ms(self):
        """Calibrates with copies by two processes, or one if there is one CPU. Returns the regime (near or far CPUs)
        and the times; None if the regime changed or is not measured."""
        if not self.ping:
            return None
        before = self.ping.latency_ns()
        said = subprocess.run([self.ping.program, "copy", str(min(2, sides.cpu_count()))],
                              capture_output=True, text=True, check=True).stdout
        regime = bench_regime.regime([before, self.ping.latency_ns()])
        past, usual = (float(word) for word in said.split())
        return (regime, past, usual) if bench_regime.is_steady(regime) else None

    # ---- one start of a program ----

    def _arguments(self, side, block, wanted):
        """Returns the arguments for the wanted cells. A program measures all given collectives at all given sizes, so
        the cells of one start must be all combinations of some collectives and some sizes."""
        names = [name for name in cells.COLLECTIVES if any(cell.collective == name for cell in wanted)]
        counts = sorted({cell.bytes for cell in wanted if cell.collective != "barrier"}) or [8]
        return [*names, "--bytes", ",".join(map(str, counts)), "--mode", block.mode, "--json",
                "--time-ms", "0" if side.crowded(block.ranks) else str(self.options.time_ms)]

    def run_program(self, side, block, wanted):
        """Runs a program; returns the times by cell. A program without output for too long is stopped; its current cell
        is marked as hung, and the program is started again with the following cells."""
        times = {}
        while wanted:
            command, env = self.machine.command(side, block.ranks, self._arguments(side, block, wanted))
            limit_s = self.options.cell_limit_s / (CROWDED_LIMIT if side.crowded(block.ranks) else 1)
            found, why, said = self._watch(command, {**os.environ, **env}, limit_s)
            for result in found:
                cell = self._cell_of(result, block)
                if cell not in wanted:
                    continue
                if result["wrong"]:
                    self.hung[side.name, cell] = "wrong results"
                else:
                    times[cell] = result[self.figure]
            missing = [cell for cell in wanted if cell not in times and (side.name, cell) not in self.hung]
            if not missing:
                break
            if side.ours:
                raise sides.Failure(f"{' '.join(command)}\n{said}\n{side.name} failed ({why}) at {describe(missing[0])}")
            self.hung[side.name, missing[0]] = why
            if self.options.verbose:
                self.log.write(f"{' '.join(command)}\n{said}\n{side.name} failed ({why}) at {describe(missing[0])}\n")
            wanted = missing[1:]
        return times

    @staticmethod
    def _cell_of(result, block):
        count = result["bytes"]
        mode = "single" if count >= cells.SINGLE_BYTES else block.mode
        return cells.Cell(result["collective"], count, result["ranks"], mode)

    def _watch(self, command, env, limit_s):
        """Runs a program; returns its results, the reason why it ended, and its other output. It has a process group of its
        own, so that it can be stopped with its children. A session would change its share of CPUs that other programs use."""
        program = None
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C waits until the program can be stopped

        def prepare():
            os.setpgrp()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

        try:
            program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                                       stdin=subprocess.DEVNULL, preexec_fn=prepare)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return self._read_results(program, limit_s)
        except BaseException:  # of Ctrl-C, above all, which does not reach the program
            if program:
                stop(program)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self.machine.clean()

    def _read_results(self, program, limit_s):
        lines = queue.Queue()

        def read():
            with program.stdout:
                for line in program.stdout:
                    lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()  # not joined: a surviving child may keep the pipe open
        found, other, ends = [], [], time.monotonic() + self.options.start_limit_s
        why = ""
        while True:
            silent = min(limit_s, ends - time.monotonic())
            try:
                line = lines.get(timeout=max(silent, 0.01))
            except queue.Empty:
                why = f"no result within {limit_s:.0f} s" if silent == limit_s else "time limit of the start exceeded"
                stop(program)
                break
            if line is None:
                break
            try:
                result = json.loads(line) if line.startswith("{") else None
            except ValueError:  # a line of the error output came in between
                result = None
            if result:
                found.append(result)
            else:
                other.append(line)
        status = program.wait()
        return found, why or f"status {status}", "".join(other[-20:])

    # ---- rounds ----

    def steady_run(self, side, block, wanted, where):
        """Returns a Run, or None if the regime (near or far CPUs) changed during each attempt."""
        if not self.ping:
            self.counts["runs"] += 1
            return Run(side, *where, "any", self.run_program(side, block, wanted))
        for _ in range(TRIES):
            before = self.ping.latency_ns()
            times = self.run_program(side, block, wanted)
            # With more polling ranks than CPUs, a run is hundreds of times slower, and so long that it meets both
            # regimes.
            after = before if side.crowded(block.ranks) else self.ping.latency_ns()
            regime = bench_regime.regime([before, after])
            self.counts["runs"] += 1
            if bench_regime.is_steady(regime):
                return Run(side, where[0], where[1], regime, times)
            self.counts["dropped"] += 1
            if self.options.verbose:
                self.log.write(f"dropped {side.name}: line latency {before}, then {after} ns\n")
        return None

    def measure_round(self, block, peers, turn):
        large = any(cell.bytes >= cells.LIMIT_BYTES for cell in block.cells)
        copies = [self.copy_ms()] if large else []
        runs = []
        for position, side in enumerate(sequence(peers, self.options.heap, turn)):
            wanted = [cell for cell in block.cells if side.takes(cell) and (side.name, cell) not in self.hung]
            if not wanted or (turn > 0 and side.crowded(block.ranks)):
                continue
            self.say(f"round {turn + 1} of {self.options.rounds}: {describe_block(block)}: {side.name}")
            run = self.steady_run(side, block, wanted, (turn, position))
            if run:
                runs.append(run)
        copies += [self.copy_ms()] if large else []
        note_copies(runs, copies)
        return runs

    def measure_block(self, block, peers):
        wanted = [side for side in peers if any(side.takes(cell) for cell in block.cells)]
        runs = []
        for turn in range(self.options.rounds):
            runs += self.measure_round(block, wanted, turn)
            if not self.options.keep_all:
                wanted = self.keep(wanted, block.cells, ratios_so_far(wanted, block.cells, runs))
        return runs

    def keep(self, peers, block_cells, ratios):
        return keep_promising(peers, block_cells, ratios)

    # ---- CPU time ----

    def measure_late(self, side, ranks, late_ms):
        """Returns the maximum CPU time of a process, in us, while the last rank was late; None: failed."""
        return self.measure_cpu(side, ranks, ["allreduce", "--bytes", "8", "--late-ms", str(late_ms), "--json"])

    def measure_cpu(self, side, ranks, arguments):
        """Returns the CPU time, in us, that a program prints in its first result; None: failed."""
        command, env = self.machine.command(side, ranks, arguments)
        found, why, said = self._watch(command, {**os.environ, **env}, self.options.cell_limit_s)
        if found and not found[0].get("wrong"):
            return found[0]["cpu_us"]
        self.log.write(f"{' '.join(command)}\n{said}\n{side.name} failed ({why})\n")
        return None


def note_copies(runs, copies):
    """Sets the copy time of each run of this library to the copy time of its regime, if the copies of the round agree."""
    for run in runs:
        known = [copy[1] for copy in copies if copy and copy[0] == run.regime]
        if run.side.ours and known and max(known) <= COPY_STEADY * min(known):
            run.copy_ms = min(known)


def stop(program):
    """Stops a program and its children. SIGTERM comes first: launchers forward it to processes that they started."""
    for number, patience_s in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(program.pid, number)
            program.wait(patience_s)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def describe(cell):
    return f"{cell.collective} {cells.show_bytes(cell.bytes)}, {cell.ranks} ranks, {cell.mode}"


def describe_block(block):
    names = sorted({cell.collective for cell in block.cells}, key=cells.COLLECTIVES.index)
    counts = [cell.bytes for cell in block.cells]
    what = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return (f"{block.ranks} ranks, {block.mode}, {cells.show_bytes(min(counts))} to "
            f"{cells.show_bytes(max(counts))}, {what}")
