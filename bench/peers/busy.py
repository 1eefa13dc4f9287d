"""busy.py: the libraries beside other programs: endless loops (tools/bench_load.py), or a pool of threads in each rank
(bench/core/bench_pool.c).

The latency of a cache line cannot be measured while loops run, so runs have no regime, and none is dropped. The figure of a
run is the mean of its samples: a loop takes whole time slices, which a few samples pay for, and a median shows none of
it."""
from dataclasses import dataclass, field

from . import bars, cells, hosts, measure, report, results, sides, table

POOL = "pool"
LOOPS_MAX = 99
SIZES, MODES = "8,512,4K,64K,1M,16M", "loop"
TIME_MS = 100  # a time slice is some ms
PEERS = ["openmpi", "gloo"]  # MPICH only if asked for: its ranks never yield
# Open MPI finds out that its own ranks share CPUs, but not that other programs and threads use them.
SETTINGS = [*sides.SETTINGS, sides.Side("openmpi", "yield", hosts.YIELDS),
            sides.Side("openmpi", "ucx+yield", sides.OPENMPI_UCX + hosts.YIELDS, sides.SHARED_MEMORY)]


@dataclass
class Found:
    """All results beside one load."""
    runs: list = field(default_factory=list)  # measure.Run
    hung: dict = field(default_factory=dict)  # reason by (side name, cell)
    rows: list = field(default_factory=list)  # results.Row, one per cell

    @property
    def summary(self):
        return results.summarize(self.rows)


def parse_loads(text):
    """Reads loads, separated by commas: numbers of endless loops, and "pool"."""
    words = text.split(",")
    for word in words:
        if word != POOL and not (word.isdecimal() and int(word) <= LOOPS_MAX):
            raise sides.Failure(f"--busy: expected numbers of endless loops, 0 to {LOOPS_MAX}, or {POOL}, such as "
                                f"0,1,2,{POOL}; found '{word}'")
    return list(dict.fromkeys(word if word == POOL else str(int(word)) for word in words))


def loops_of(load):
    """Returns for each endless loop of the load the CPUs that it is bound to: none."""
    return [] if load == POOL else [None] * int(load)


class BusyMeasurer(measure.Measurer):
    """Measures beside one load. A rank that has a pool is not bound to a CPU, because its threads would be, too."""
    figure = "time_us_mean"

    def __init__(self, machine, options, load, *log):
        super().__init__(machine, None, options, *log)
        self.load = load
        self.pool = ["--pool", str(sides.cpu_count())] if load == POOL else []
        machine.binds = load != POOL

    def say(self, sentence):
        super().say(f"load {self.load}: {sentence}" if sentence else "")

    def _arguments(self, side, block, wanted):
        return super()._arguments(side, block, wanted) + self.pool

    def keep(self, peers, block_cells, ratios):
        return measure.keep_each_peer(peers, block_cells, ratios)


# ---- text ----

def format_head(facts):
    lines = [f"# {facts['cpu']}, {facts['cpus']} CPUs; {'; '.join(facts['peers'])}",
             "# f32, sum, private buffers. Ratios: peer time / tutti time in the same round, medians; above 1, tutti is faster.",
             "# Times of a run: means of its samples. Regimes are not known beside a load; no run is dropped.",
             f"# load: number of endless loops beside the ranks, not bound; {POOL}: {facts['cpus']} threads in each rank compute "
             "half of the time, and ranks are not bound."]
    if not any(name.startswith("MPICH") for name in facts["peers"]):
        lines.append("# MPICH is left out, because its ranks never yield; --peers openmpi,gloo,mpich measures it, too.")
    return "\n".join(lines)


def _ratio_to(peer):
    def ratio(row):
        rival = bars.best_rival(row, peer)
        return rival.ratio["private"] if rival else None
    return ratio


def _show(value):
    return f"{value:.2f}" if value else ""


def _line(load, ranks, rows, peers):
    known = [row for row in rows if row.ratio("private")]
    behind = sum(row.leader() is not None for row in known)
    lowest = min((row.ratio("private") for row in known), default=None)
    means = [results.geometric_mean(rows, "private", False), *(results.mean_of(rows, _ratio_to(peer)) for peer in peers)]
    return [load, ranks, str(len(known)), str(behind), *map(_show, means), _show(lowest)]


def format_loads(found, peers):
    """Formats the table: a line for each load and number of ranks."""
    head = ["load", "ranks", "cells", "behind", "mean to the best", *(f"to {bars.NAMES[peer]}" for peer in peers), "lowest"]
    lines = []
    for load, its in found.items():
        by_ranks = {ranks: [row for row in its.rows if row.cell.ranks == ranks] for ranks in {row.cell.ranks for row in its.rows}}
        lines += [_line(load, str(ranks), by_ranks[ranks], peers) for ranks in sorted(by_ranks)]
        if len(by_ranks) > 1:
            lines.append(_line(load, "all", its.rows, peers))
    return bars.as_markdown(head, lines)


def format_all(facts, found, peers):
    behind = [f"load {load}: {report.format_behind(its.rows)}" for load, its in found.items()]
    return "\n\n".join([format_head(facts), format_loads(found, peers), *behind])


# ---- the cells, tab separated ----

COLUMNS = ["load", *cells.Cell._fields, "ratio", "rounds", "slower", "behind", "tutti_us", "best_us", "best_peer"]
HEAD = """\
# Written by tools/bench-peers --busy --table.
# ratio: to the best peer in its best setting. slower: number of rounds in which it is below 1.
# behind: the peer that this cell is behind, by the rule of docs/PERFORMANCE.md. Empty: not behind, or not known."""


def _cell_words(load, row):
    c, best, leader = row.cell, row.best("private"), row.leader()
    slower = str(sum(ratio < 1 for ratio in best.by_round)) if best else ""
    return [load, c.collective, cells.show_bytes(c.bytes), str(c.ranks), c.mode, table.show_number(row.ratio("private"), 2),
            str(row.rounds), slower, leader.name if leader else "", table.show_number(row.time_us.get("private"), 3),
            table.show_number(best.time_us if best else None, 3), best.name if best else ""]


def as_table(facts, found):
    """Returns a table with one line per load and cell."""
    lines = ["\t".join(_cell_words(load, row)) for load, its in found.items() for row in its.rows]
    notes = [table.NOTE.format(note=f"load {load}: {note}") for load, its in found.items() for note in table.notes_of(its.rows)]
    return "\n".join([format_head(facts), table.MEASURED.format(**facts), HEAD, *notes, "\t".join(COLUMNS), *lines])
