"""results.py: from runs to ratios. A ratio is a peer's time by ours in the same round and regime; what is shown is the
median of a cell's ratios. Above 1 this library is faster."""
import math
from dataclasses import dataclass, field
from statistics import median

from . import cells

REGIMES = ["near", "far"]
COPY_BYTES = 64 << 20  # each process, in the copy calibration
LOWEST = {"private": 0.95, "heap": 1.0}  # the summary names the cells that are below


@dataclass
class Rival:
    """One peer in one setting, at one cell."""
    name: str
    time_us: float
    ratio: dict  # by buffers: private, heap
    spread: tuple  # of the ratios to private: least, most
    pairs: int


@dataclass
class Row:
    cell: cells.Cell
    regime: str
    time_us: dict = field(default_factory=dict)  # ours, by buffers
    limit: dict = field(default_factory=dict)  # fraction of the copy limit, by buffers
    rivals: list = field(default_factory=list)  # Rival, best first
    notes: list = field(default_factory=list)
    whole: "Row" = None  # the row over all regimes, if this is one of them

    def best(self, buffers, defaults=False):
        """The hardest rival, or None. Who is hardest over all regimes must have been met in this one: that a weak peer alone
        happened to run in it is no win."""
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


def time_beside(run, cell, candidates):
    """The median time of those that ran in the same round and regime, or None: one that was disturbed does not decide."""
    fitting = [other.times_us[cell] for other in candidates
               if (other.round, other.regime) == (run.round, run.regime) and cell in other.times_us]
    return median(fitting) if fitting else None


def ratios_to(cell, theirs, ours):
    """Of the runs of a peer at that cell: one for each that has some of ours beside it."""
    pairs = [(run.times_us[cell], time_beside(run, cell, ours)) for run in theirs if cell in run.times_us]
    return [their_us / our_us for their_us, our_us in pairs if our_us]


def _rival(cell, name, theirs, ours):
    ratios = {buffers: ratios_to(cell, theirs, runs) for buffers, runs in ours.items()}
    some = ratios["private"] or ratios["heap"]
    return Rival(name, median(run.times_us[cell] for run in theirs),
                 {buffers: median(values) for buffers, values in ratios.items() if values},
                 (min(some), max(some)) if some else (0, 0), len(some))


def limit_fraction(cell, time_us, copy_ms, processes):
    """How near to the time that copying as much takes, with `processes` copying at once."""
    ideal_us = cells.copied_bytes(cell) / (processes * COPY_BYTES) * copy_ms * 1000
    return ideal_us / time_us


def make_row(cell, regime, runs, processes):
    row = Row(cell, regime)
    ours = {buffers: [run for run in runs if run.side.ours and run.side.setting == buffers]
            for buffers in ("private", "heap")}
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
    """One row for each cell and regime that was met, and one over all regimes ("any"): its pairs are of one regime each."""
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


def geometric_mean(rows, buffers, defaults):
    """Of a table's ratios, or None. A cell that is the same in all modes stands for each of those that were measured."""
    modes = max(1, len({row.cell.mode for row in rows} - {"single"}))
    total = count = 0
    for row in rows:
        ratio = row.ratio(buffers, defaults)
        if ratio:
            weight = modes if row.cell.mode == "single" else 1
            total += math.log(ratio) * weight
            count += weight
    return math.exp(total / count) if count else None


def summarize(rows):
    """One dict for each regime met, with the means and how many cells are slower than they may be."""
    found = []
    for regime in REGIMES + ["any"]:
        some = [row for row in rows if row.regime == regime]
        if not some:
            continue
        entry = {"regime": regime, "cells": len(some)}
        for buffers, lowest in LOWEST.items():
            for defaults in (False, True):
                mean = geometric_mean(some, buffers, defaults)
                if mean:
                    entry[f"{buffers}_to_{'default' if defaults else 'best'}"] = round(mean, 3)
            entry[f"{buffers}_below"] = sum((row.ratio(buffers) or math.inf) < lowest for row in some)
        found.append(entry)
    return found
