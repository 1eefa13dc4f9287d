"""measure.py: runs the programs in turns. The machine's face changes within seconds (a virtual machine's CPUs are moved
about), so the latency of a cache line is taken before and after each run; a run during which it changed is dropped and
repeated, and times are only ever compared within a round and a regime."""
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
TRIES = 4  # of a run whose regime changed
OURS_EVERY = 3  # runs of peers between two of ours
CROWDED_LIMIT = 3  # so many times less patience with who never yields
DROP = 1.3  # who takes so many times as long as the best peer everywhere in a block is not asked again


@dataclass
class Run:
    """What one start of a program gave, in a steady regime."""
    side: sides.Side
    round: int
    place: int  # in the round's sequence
    regime: str
    times_us: dict = field(default_factory=dict)  # by cell
    copy_ms: float = 0  # two processes' 64 MiB, in the same round and regime; 0: not known


def sequence(peers, heap, turn):
    """Ours, a few peers, ours again, ... and ours at the end; who comes first changes from round to round."""
    ours = [sides.PRIVATE, sides.HEAP] if heap else [sides.PRIVATE]
    turned = peers[turn % len(peers):] + peers[:turn % len(peers)] if peers else []
    order = []
    for i in range(0, len(turned), OURS_EVERY):
        order += ours + turned[i:i + OURS_EVERY]
    return order + ours


def keep_promising(peers, block_cells, ratios):
    """Those that are near the best at some cell of the block: near the best default, if they are one. Who could not be
    compared at all stays. ratios[side][cell]: the median so far of their time by ours."""
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
    """By side and cell: the median of the peers' times by ours."""
    ours = [run for run in runs if run.side is sides.PRIVATE]
    found = {}
    for side in peers:
        theirs = [run for run in runs if run.side == side]
        ratios = {cell: results.ratios_to(cell, theirs, ours) for cell in block_cells}
        found[side] = {cell: statistics.median(values) for cell, values in ratios.items() if values}
    return found


class Measurer:
    def __init__(self, machine, ping, options, log=sys.stderr):
        """`ping` tells the latency of a cache line: a bench_regime.LinePing."""
        self.machine, self.ping, self.options, self.log = machine, ping, options, log
        self.hung = {}  # (side name, cell): why there is no time
        self.counts = {"runs": 0, "dropped": 0}

    def say(self, sentence):
        if self.log.isatty():
            self.log.write(f"\r\033[K{sentence}")
        elif self.options.verbose:
            self.log.write(sentence + "\n")
        self.log.flush()

    # ---- calibrations ----

    def copy_ms(self):
        """How long two processes (or as many as there are CPUs, if less) take; or None if it is not a quiet moment."""
        before = self.ping.latency_ns()
        said = subprocess.run([self.ping.program, "copy", str(min(2, sides.cpu_count()))],
                              capture_output=True, text=True, check=True).stdout
        regime = bench_regime.regime([before, self.ping.latency_ns()])
        past, usual = (float(word) for word in said.split())
        return (regime, past, usual) if bench_regime.is_steady(regime) else None

    # ---- one start of a program ----

    def _arguments(self, side, block, wanted):
        """The programs measure all collectives at all sizes given; so the cells of a start must be such a rectangle."""
        names = [name for name in cells.COLLECTIVES if any(cell.collective == name for cell in wanted)]
        counts = sorted({cell.bytes for cell in wanted if cell.collective != "barrier"}) or [8]
        return [*names, "--bytes", ",".join(map(str, counts)), "--mode", block.mode, "--json",
                "--time-ms", "0" if side.crowded(block.ranks) else str(self.options.time_ms)]

    def run_program(self, side, block, wanted):
        """Times by cell. A program that falls silent is stopped, its cell marked, and started anew with what follows."""
        times = {}
        while wanted:
            command, env = self.machine.command(side, block.ranks, self._arguments(side, block, wanted))
            limit_s = self.options.cell_limit_s / (CROWDED_LIMIT if side.crowded(block.ranks) else 1)
            found, why, said = self._watch(command, {**os.environ, **env}, limit_s)
            self.machine.clean()
            for result in found:
                cell = self._cell_of(result, block)
                if cell not in wanted:
                    continue
                if result["wrong"]:
                    self.hung[side.name, cell] = "wrong results"
                else:
                    times[cell] = result["time_us"]
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
        """The results that came, why it ended without all (or ""), and what else it said."""
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        lines = queue.Queue()

        def read():
            for line in program.stdout:
                lines.put(line)
            lines.put(None)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        found, other, ends = [], [], time.monotonic() + self.options.start_limit_s
        why = ""
        while True:
            silent = min(limit_s, ends - time.monotonic())
            try:
                line = lines.get(timeout=max(silent, 0.01))
            except queue.Empty:
                why = f"no result within {limit_s:.0f} s" if silent == limit_s else "out of time"
                stop(program)
                break
            if line is None:
                break
            if line.startswith("{"):
                found.append(json.loads(line))
            else:
                other.append(line)
        status = program.wait()
        reader.join(1)  # longer if something that it started lives on with its output: then that is left alone
        if not reader.is_alive():
            program.stdout.close()
        return found, why or f"status {status}", "".join(other[-20:])

    # ---- rounds ----

    def steady_run(self, side, block, wanted, where):
        """A Run, or None if the regime changed each time."""
        for _ in range(TRIES):
            before = self.ping.latency_ns()
            times = self.run_program(side, block, wanted)
            # Hundreds of times slower in either regime, and long enough to see both.
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
        for place, side in enumerate(sequence(peers, self.options.heap, turn)):
            wanted = [cell for cell in block.cells if side.takes(cell) and (side.name, cell) not in self.hung]
            if not wanted or (turn > 0 and side.crowded(block.ranks)):
                continue
            self.say(f"round {turn + 1} of {self.options.rounds}: {describe_block(block)}: {side.name}")
            run = self.steady_run(side, block, wanted, (turn, place))
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
                wanted = keep_promising(wanted, block.cells, ratios_so_far(wanted, block.cells, runs))
        return runs

    # ---- who waits ----

    def measure_late(self, side, ranks, late_ms):
        """CPU microseconds that the process which burned most took while the last rank was late; None: failed."""
        arguments = ["allreduce", "--bytes", "8", "--late-ms", str(late_ms), "--json"]
        command, env = self.machine.command(side, ranks, arguments)
        found, why, said = self._watch(command, {**os.environ, **env}, self.options.cell_limit_s)
        self.machine.clean()
        if found:
            return found[0]["cpu_us"]
        self.log.write(f"{' '.join(command)}\n{said}\n{side.name} failed ({why})\n")
        return None


def note_copies(runs, copies):
    """Each of our runs gets the copy time of its regime, if those of the round agree."""
    for run in runs:
        known = [copy[1] for copy in copies if copy and copy[0] == run.regime]
        if run.side.ours and known and max(known) <= COPY_STEADY * min(known):
            run.copy_ms = min(known)


def stop(program):
    """The whole family: launchers pass SIGTERM on to what they started elsewhere, SIGKILL cannot be passed on."""
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
