"""table.py: docs/performance.tsv, a table with one line per cell, tab separated. Writes it from measurements and reads it.
The picture is always drawn from this table, so a picture from measurements and one from the file are equal."""
import math
import re
from dataclasses import dataclass, field

from . import cells, results, sides

KINDS = ["private", "heap"]
RATIOS = {  # for each column: regime, kind of buffers, True: ratio to the best default setting
    f"{regime}_{buffers}{'_default' if defaults else ''}": (regime, buffers, defaults)
    for regime, defaults in (("any", False), ("near", False), ("far", False), ("near", True), ("far", True))
    for buffers in KINDS}
TIMES = [*(f"{buffers}_us" for buffers in KINDS), "best_us"]
COLUMNS = [*cells.Cell._fields, *RATIOS, *TIMES, "best_peer"]

# Formats of the lines of the head that are read back. {name}: a fact of report.format_head.
MACHINE, PEERS, MEASURED = "# machine: {cpu}, {cpus} CPUs", "# peers: {peers}", "# measured: {measured}"
RUNS = "# runs: {runs}, of which {dropped} were dropped because the regime changed"
NOTE = "# note: {note}"
HEAD = """\
# f32, sum. Written by tools/bench-peers --table. tools/bench-peers --read-table prints its means and draws the picture.
# near, far, any: regimes. near: latency of a cache line between two CPUs < 120 ns <= far; any: both regimes.
# private, heap: tutti's buffers; heap: from tutti_alloc.
# These columns are ratios: peer time / tutti time in the same round and regime, median; above 1, tutti is faster.
# The peer is the best peer in its best setting; in columns _default, the best default setting. Empty: not known.
# us: median times over both regimes; best_peer and best_us: the peer of any_private. Their quotient is not the ratio.
# mode single: one operation per sample, its input just written and its output read; from 64K up, counts in both modes."""


@dataclass
class Line:
    """One cell of the table."""
    cell: cells.Cell
    ratios: dict = field(default_factory=dict)  # known ratios by (regime, kind of buffers, defaults)
    times_us: dict = field(default_factory=dict)  # known times by column
    best_peer: str = ""


@dataclass
class RegimeRow:
    """One cell of the table in one regime. It serves as a results.Row for the picture and the summary."""
    line: Line
    regime: str

    @property
    def cell(self):
        return self.line.cell

    def ratio(self, buffers, defaults=False):
        return self.line.ratios.get((self.regime, buffers, defaults))


def rows_of(lines):
    """Returns one row per cell and regime."""
    return [RegimeRow(line, regime) for line in lines for regime in [*results.REGIMES, "any"]]


def lines_of(rows):
    """Returns the lines for measured rows (results.Row)."""
    lines = {}
    for row in rows:
        line = lines.setdefault(row.cell, Line(row.cell))
        for regime, buffers, defaults in RATIOS.values():
            ratio = row.ratio(buffers, defaults)
            if regime == row.regime and ratio:
                line.ratios[regime, buffers, defaults] = ratio
        if row.regime == "any":
            best = row.best("private") or row.best("heap")
            times = {**{f"{buffers}_us": us for buffers, us in row.time_us.items()}, "best_us": best and best.time_us}
            line.times_us = {column: us for column, us in times.items() if us}
            line.best_peer = best.name if best else ""
    return list(lines.values())


def notes_of(rows):
    """Returns a sentence for each measured cell with peers that gave no result."""
    return [f"{row.cell.collective} {cells.show_bytes(row.cell.bytes)}, {row.cell.ranks} ranks, {row.cell.mode}: "
            + "; ".join(row.notes) for row in rows if row.regime == "any" and row.notes]


def show_number(value, digits):
    """Returns a number with this many decimals, or, if that would leave less than one digit, with two digits."""
    if value is None:
        return ""
    return f"{value:.{digits}f}" if value >= 10 ** -digits else f"{value:.2g}"


def _format_line(line):
    cell = line.cell
    words = [cell.collective, cells.show_bytes(cell.bytes), str(cell.ranks), cell.mode]
    words += [show_number(line.ratios.get(key), 2) for key in RATIOS.values()]
    words += [show_number(line.times_us.get(column), 3) for column in TIMES]
    return "\t".join([*words, line.best_peer])


def as_text(lines, facts):
    """Returns the table as text. facts: those of report.format_head, with "measured" (when and how) and
    "notes" if these are known."""
    known = {"measured": "unknown", **facts, "peers": "; ".join(facts["peers"])}
    head = [form.format(**known) for form in (MACHINE, PEERS, MEASURED, RUNS)]
    notes = [NOTE.format(note=note) for note in facts.get("notes", [])]
    return "\n".join([*head, HEAD, *notes, "\t".join(COLUMNS), *map(_format_line, lines)])


def _expression(form):
    """Returns the regular expression that reads a line of the head that was written with this format."""
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.*)", re.escape(form)))


def _read_head(comments, path):
    facts = {"notes": []}
    for comment in comments:
        for form in (MACHINE, PEERS, MEASURED, RUNS, NOTE):
            found = _expression(form).fullmatch(comment)
            if found and form == NOTE:
                facts["notes"].append(found["note"])
            elif found:
                facts.update(found.groupdict())
    for key, form in (("cpus", MACHINE), ("peers", PEERS), ("runs", RUNS)):
        if key not in facts:
            raise sides.Failure(f"{path}: expected a line '{form}' in the head, found none")
    for key in ("cpus", "runs", "dropped"):
        if not facts[key].isdigit():
            raise sides.Failure(f"{path}: expected a number of {key} in the head, found '{facts[key]}'")
        facts[key] = int(facts[key])
    facts["peers"] = facts["peers"].split("; ")
    return facts


def _read_number(column, word):
    try:
        value = float(word)
    except ValueError:
        value = 0
    if not 0 < value < math.inf:
        raise ValueError(f"{column}: expected a number above 0, or nothing, found '{word}'")
    return value


def _read_line(text):
    """Reads one line of the table. Raises ValueError with a message if the line is invalid."""
    words = text.split("\t")
    if len(words) != len(COLUMNS):
        raise ValueError(f"expected {len(COLUMNS)} columns, separated by tabs, found {len(words)}")
    entry = dict(zip(COLUMNS, words))
    for column, known in (("collective", cells.COLLECTIVES), ("mode", [*cells.MODES, "single"])):
        if entry[column] not in known:
            raise ValueError(f"{column}: expected one of {', '.join(known)}, found '{entry[column]}'")
    if not entry["ranks"].isdigit() or int(entry["ranks"]) < 2:
        raise ValueError(f"ranks: expected a number of 2 or more, found '{entry['ranks']}'")
    cell = cells.Cell(entry["collective"], cells.parse_bytes(entry["bytes"]), int(entry["ranks"]), entry["mode"])
    numbers = {column: _read_number(column, entry[column]) for column in [*RATIOS, *TIMES] if entry[column]}
    return Line(cell, {key: numbers[column] for column, key in RATIOS.items() if column in numbers},
                {column: numbers[column] for column in TIMES if column in numbers}, entry["best_peer"])


def read(text, path):
    """Returns the lines and the facts of a table that as_text wrote. Raises sides.Failure with path and line number."""
    comments, lines, seen, head = [], [], {}, False
    for number, words in enumerate(text.splitlines(), 1):
        if words.startswith("#"):
            comments.append(words)
            continue
        if not head:
            if words.split("\t") != COLUMNS:
                raise sides.Failure(f"{path}:{number}: expected the names of the columns: {', '.join(COLUMNS)}")
            head = True
            continue
        try:
            line = _read_line(words)
        except ValueError as error:
            raise sides.Failure(f"{path}:{number}: {error}") from error
        if line.cell in seen:
            raise sides.Failure(f"{path}:{number}: the cell of line {seen[line.cell]} again")
        seen[line.cell] = number
        lines.append(line)
    if not head:
        raise sides.Failure(f"{path}: expected a line with the names of the columns, found none")
    return lines, _read_head(comments, path)
