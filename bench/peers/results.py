"""results.py: computes ratios from runs. A ratio is peer time / our time, in the same round and regime. The table shows
the median of a cell's ratios; above 1, this library is faster."""
import math
from dataclasses import dataclass, field
from statistics import median

from . import cells

REGIMES = ["near", "far"]
COPY_BYTES = 64 << 20  # bytes per process in the copy calibration
LOWEST = {"private": 0.95, "heap": 1.0}  # the summary counts the cells with a lower ratio
BEHIND = 0.97  # a cell is behind if its ratio is below this, and ...
AGREE = 0.8  # ... below 1 in this share of the rounds


@dataclass
class Rival:
    """The results of one peer in one setting, in one cell of the table."""
    name: str
    time_us: float
    ratio: dict  # ratio by kind of buffers: private, heap
    spread: tuple  # minimum and maximum of the ratios to our time with private buffers
    pairs: int
    by_round: list = field(default_factory=list)  # ratios to our time with private buffers


@dataclass
class Row:
    cell: cells.Cell
    regime: str
    time_us: dict = field(default_factory=dict)  # time of this library by kind of buffers
    limit: dict = field(default_factory=dict)  # fraction of the copy speed that is reached, by kind of buffers
    rivals: list = field(default_factory=list)  # Rival, best first
    notes: list = field(default_factory=list)
    rounds: int = 0  # rounds with a time of ours, with private buffers
    whole: "Row" = None  # row over all regimes, if this row is of one regime

    def best(self, buffers, defaults=False):
        """Returns the fastest rival. Returns None if there is none, or if the fastest rival over all regimes did not
        run in this regime: a win against a slower peer alone would not count."""
        known = [rival for rival in self.rivals
                 if buffers in rival.ratio and (not defaults or rival.name.endswith(":default"))]
        if self.whole:
            hardest = self.whole.best(buffers, defaults)
            if not hardest or hardest.name not in [rival.name for rival in known]:
                return None
        return min(known, key=lambda rival: rival.ratio[buffers], default=None)

    def ratio(self, buffers, defaults=False):
        rival = self.best(buffers, defaults)
        return rival.ratio[buffers] if rival else None

    def leader(self):
        """Returns the rival that this library is behind, with private buffers: the fastest by the rule of is_behind; None: the
        cell is not behind. The best rival may have run in one round only, which proves nothing."""
        ahead = [rival for rival in self.rivals if is_behind(rival.by_round, self.rounds)]
        return min(ahead, key=lambda rival: rival.ratio["private"], default=None)


def is_behind(ratios, rounds, limit=BEHIND):
    """Returns true if this library is behind: by the median of the ratios of the rounds, and in most of all `rounds`. A round
    without a ratio does not agree."""
    return bool(ratios) and median(ratios) < limit and sum(ratio < 1 for ratio in ratios) >= AGREE * rounds


def time_beside(run, cell, candidates):
    """Returns the median time of the candidates in the round and regime of `run`, or None. The median ignores a
    disturbed run."""
    fitting = [other.times_us[cell] for other in candidates
               if (other.round, other.regime) == (run.round, run.regime) and cell in other.times_us]
    return median(fitting) if fitting else None


def ratios_to(cell, theirs, ours):
    """Returns the ratios of a peer in a cell: one for each of its runs with a run of ours in the same round and regime."""
    pairs = [(run.times_us[cell], time_beside(run, cell, ours)) for run in theirs if cell in run.times_us]
    return [their_us / our_us for their_us, our_us in pairs if our_us]


def _rival(cell, name, theirs, ours):
    ratios = {buffers: ratios_to(cell, theirs, runs) for buffers, runs in ours.items()}
    some = ratios["private"] or ratios["heap"]
    return Rival(name, median(run.times_us[cell] for run in theirs),
                 {buffers: median(values) for buffers, values in ratios.items() if values},
                 (min(some), max(some)) if some else (0, 0), len(some), ratios["private"])


def limit_fraction(cell, time_us, copy_ms, processes):
    """Returns the fraction of the copy speed that is reached: time of `processes` processes to copy as many
    bytes, divided by time_us."""
    ideal_us = cells.copied_bytes(cell) / (processes * COPY_BYTES) * copy_ms * 1000
    return ideal_us / time_us


def make_row(cell, regime, runs, processes):
    row = Row(cell, regime)
    ours = {buffers: [run for run in runs if run.side.ours and run.side.setting == buffers]
            for buffers in ("private", "heap")}
    row.rounds = len({run.round for run in ours["private"]})
    for buffers, mine in ours.items():
        if mine:
            row.time_us[buffers] = median(run.times_us[cell] for run in mine)
        fractions = [limit_fraction(cell, run.times_us[cell], run.copy_ms, processes) for run in mine if run.copy_ms]
        if fractions and cell.bytes >= cells.LIMIT_BYTES and cells.copied_bytes(cell):
            row.limit[buffers] = median(fractions)
    for name in sorted({run.side.name for run in runs if not run.side.ours}):
        row.rivals.append(_rival(cell, name, [run for run in runs if run.side.name == name], ours))
    row.rivals.sort(key=lambda rival: rival.ratio.get("private", rival.ratio.get("heap", math.inf)))
    return row


def make_rows(table_cells, runs, hung, processes):
    """Returns one row per cell and regime, and one over all regimes ("any"), whose ratios are each of one regime."""
    rows = []
    for cell in table_cells:
        there = [run for run in runs if cell in run.times_us]
        notes = [f"{name}: {why}" for (name, where), why in hung.items() if where == cell]
        if not any(run.side.ours for run in there):
            continue
        whole = make_row(cell, "any", there, processes)
        parts = []
        for regime in REGIMES:
            some = [run for run in there if run.regime == regime]
            if any(run.side.ours for run in some):
                parts.append(make_row(cell, regime, some, processes))
                parts[-1].whole = whole
        for row in [*parts, whole]:
            row.notes = notes
            rows.append(row)
    return rows


def mean_of(rows, ratio_of):
    """Returns the geometric mean of ratio_of(row) over the rows that have one, or None. A cell of mode "single" counts once per
    measured mode."""
    modes = max(1, len({row.cell.mode for row in rows} - {"single"}))
    total = count = 0
    for row in rows:
        ratio = ratio_of(row)
        if ratio:
            weight = modes if row.cell.mode == "single" else 1
            total += math.log(ratio) * weight
            count += weight
    return math.exp(total / count) if count else None


def geometric_mean(rows, buffers, defaults):
    return mean_of(rows, lambda row: row.ratio(buffers, defaults))


def mode_groups(rows):
    """Returns the groups of modes that are summarized: each measured mode, if there are several, and all modes. A cell of
    mode "single" is in the loop group."""
    there = {row.cell.mode for row in rows}
    groups = {"loop": there & {"loop", "single"}, "barrier": there & {"barrier"}}
    return {**(groups if all(groups.values()) else {}), "all": there}


def summarize(rows):
    """Returns a dict per regime and group of modes, with the number of cells that have a ratio, and for each kind of buffers
    the number, mean and range of these ratios, and the number of ratios below LOWEST."""
    found = []
    for regime in REGIMES + ["any"]:
        for mode, modes in mode_groups(rows).items():
            some = [row for row in rows if row.regime == regime and row.cell.mode in modes]
            entry = {"regime": regime, "mode": mode, "cells": sum(any(map(row.ratio, LOWEST)) for row in some)}
            for buffers, lowest in LOWEST.items():
                for defaults in (False, True):
                    mean = geometric_mean(some, buffers, defaults)
                    if mean:
                        entry[f"{buffers}_to_{'default' if defaults else 'best'}"] = round(mean, 6)
                ratios = [row.ratio(buffers) for row in some if row.ratio(buffers)]
                entry[f"{buffers}_cells"], entry[f"{buffers}_below"] = len(ratios), sum(ratio < lowest for ratio in ratios)
                if ratios:
                    entry[f"{buffers}_lowest"], entry[f"{buffers}_highest"] = min(ratios), max(ratios)
            if entry["cells"]:
                found.append(entry)
    return found
