"""picture.py: draws ratio over size as an SVG: one panel per number of ranks, one row of panels per kind of buffers, one
line per collective. Both axes are logarithmic; at ratio 1, the best peer in its best setting is equally fast."""
import math
import textwrap
from xml.sax.saxutils import escape

from . import cells

WIDTH, PANEL_HEIGHT = 900, 250
LEFT, RIGHT, TOP, GAP, ROW_GAP, LEGEND = 42, 18, 76, 30, 68, 24  # LEFT grows if labels need it
MARGIN, LABEL_GAP, LINE = 5, 6, 15  # outer margin; distance of labels from their axis; distance of text lines
SWATCH, LETTER = 22, 6.3  # width of a sample in the legend; upper estimate of the width of a letter of size 11
INK, FAINT, GRID, BACKGROUND = "#222222", "#666666", "#e4e4e4", "#ffffff"
STYLES = {  # colour (Okabe and Ito, with a darker yellow), dashes
    "allreduce": ("#d55e00", ""), "reduce": ("#e69f00", "5 3"), "broadcast": ("#0072b2", ""), "allgather": ("#009e73", ""),
    "reduce_scatter": ("#9a8500", "5 3"), "alltoall": ("#cc79a7", ""), "gather": ("#56b4e9", "5 3"),
    "scatter": ("#555555", "5 3"), "barrier": ("#000000", ""),
}
TITLES = {"private": "private buffers", "heap": "buffers from tutti_alloc"}


def shown_mode(cell):
    """Returns true if the picture shows this mode. A loop of a rooted collective measures the issue rate, not the time of one
    operation, so such collectives are shown with a barrier before each operation."""
    if cell.mode == "single":
        return True
    return cell.mode == ("barrier" if cell.collective in cells.ROOTED else "loop")


def lines_of(rows, buffers, ranks):
    """Returns for each collective a list of (bytes, ratio), by ascending size. Uses the other mode if the
    shown mode was not measured."""
    found = {}
    for row in rows:
        if row.regime == "any" and row.cell.ranks == ranks and row.ratio(buffers):
            points = found.setdefault(row.cell.collective, {})
            if shown_mode(row.cell) or row.cell.bytes not in points:
                points[row.cell.bytes] = row.ratio(buffers)
    return {name: sorted(found[name].items()) for name in cells.COLLECTIVES if name in found}


class Scale:
    """Maps values to coordinates logarithmically."""

    def __init__(self, low, high, start, end):
        self.low, self.high, self.start, self.end = math.log2(low), math.log2(high), start, end

    def __call__(self, value):
        part = (math.log2(value) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def _text(x, y, words, size=11, color=INK, anchor="middle", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(words)}</text>')


def _line(x1, y1, x2, y2, color, width=1.0):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"/>'


def _mark(x, y, color):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{color}"/>'


def _diamond(x, y, color):
    return f'<path d="M{x - 5:.1f} {y:.1f} l5 -5 l5 5 l-5 5 z" fill="{color}"/>'


def ratio_range(all_lines):
    """Returns the range of the axis of ratios: powers of two below and above all ratios and 1."""
    ratios = [ratio for lines in all_lines for points in lines.values() for _, ratio in points] or [1]
    low = 2 ** math.floor(math.log2(min(ratios + [0.9])))
    high = 2 ** math.ceil(math.log2(max(ratios + [1.1])))
    return low, high


def size_range(all_lines):
    counts = [count for lines in all_lines for points in lines.values() for count, _ in points if count] or [8, 16]
    return min(counts), max(max(counts), 2 * min(counts))


def ratio_label(power):
    """Returns the label of a power of two; below 1, a fraction, because it is short."""
    return f"{2 ** power}" if power >= 0 else f"1/{2 ** -power}"


def left_of(low, high):
    """Returns the x coordinate where the panels begin, so that the labels of the ratios fit to their left."""
    longest = max(len(ratio_label(round(math.log2(ratio)))) for ratio in (low, high))
    return max(LEFT, math.ceil(MARGIN + longest * LETTER + LABEL_GAP))


SIZES_NAMED = (3, 7, 11, 15, 19, 23, 26)  # labelled sizes, as exponents of two


def _axes(across, up, labels_left):
    """Draws the grid and labels of one panel, with the line at ratio 1 on top of the grid."""
    parts = []
    for power in SIZES_NAMED:
        if across.low <= power <= across.high:
            x = across(2.0 ** power)
            parts.append(_line(x, up.start, x, up.end, GRID))
            parts.append(_text(x, up.start + 15, cells.show_bytes(2 ** power), color=FAINT))
    powers = range(round(up.low), round(up.high) + 1)
    for power in sorted(powers, key=lambda power: power == 0):
        y, one = up(2.0 ** power), power == 0
        parts.append(_line(across.start, y, across.end, y, INK if one else GRID, 1.4 if one else 1))
        if labels_left:
            parts.append(_text(across.start - LABEL_GAP, y + 4, ratio_label(power), color=INK if one else FAINT, anchor="end",
                               weight="bold" if one else "normal"))
    parts.append(_text((across.start + across.end) / 2, up.start + 30, "bytes", color=FAINT))
    return parts


def _panel(lines, across, up, title, labels_left):
    parts = _axes(across, up, labels_left)
    parts.append(_text((across.start + across.end) / 2, up.end - 8, title, 12, weight="bold"))
    for name, points in lines.items():
        color, dashes = STYLES[name]
        width = 2.4 if name == "allreduce" else 1.5
        if name == "barrier":  # a barrier has no size: draw it at the smallest size
            parts.append(_diamond(across.start, up(points[0][1]), color))
            continue
        dots = [(across(count), up(ratio)) for count, ratio in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}" '
                     f'stroke-dasharray="{dashes}" stroke-linejoin="round"/>')
        parts += [_mark(x, y, color) for x, y in dots]
    return parts


def _swatch(name, x, y):
    color, dashes = STYLES[name]
    if name == "barrier":
        return [_diamond(x + SWATCH / 2, y, color)]
    width = 2.4 if name == "allreduce" else 1.5
    line = (f'<line x1="{x:.1f}" y1="{y}" x2="{x + SWATCH:.1f}" y2="{y}" stroke="{color}" stroke-width="{width}" '
            f'stroke-dasharray="{dashes}"/>')
    return [line, _mark(x + SWATCH / 2, y, color)]


def _legend(names, y):
    widths = [SWATCH + 5 + LETTER * len(name) + 13 for name in names]
    x = (WIDTH - sum(widths)) / 2
    parts = []
    for name, width in zip(names, widths):
        parts += _swatch(name, x, y)
        parts.append(_text(x + SWATCH + 5, y + 4, name, anchor="start"))
        x += width
    return parts


# Explains the lowest points of the picture.
ONE_WAY = ("Broadcast, scatter, gather and reduce up to 16 KiB are timed after a barrier, so the order in which ranks leave it matters: "
           "Open MPI's barrier lets the root of a broadcast go first; tutti's does not if ranks share CPUs.")


def _head(facts, left):
    """Returns the title, the wrapped lines of text below it, and the number of these lines."""
    peers = ", ".join(facts["peers"])
    words = (f"{peers}; f32, sum; {facts['cpu']}, {facts['cpus']} CPUs. Above 1, tutti is faster. {ONE_WAY}")
    lines = textwrap.wrap(words, int((WIDTH - left - MARGIN) / LETTER))
    title = _text(left, 24, "How many times faster than the best peer in its best setting", 15, anchor="start", weight="bold")
    return [title, *(_text(left, 43 + i * LINE, line, 11, FAINT, "start") for i, line in enumerate(lines))], len(lines)


def draw(rows, facts):
    ranks_list = sorted({row.cell.ranks for row in rows})
    kinds = [kind for kind in TITLES if any(row.ratio(kind) for row in rows)]
    all_lines = {(kind, ranks): lines_of(rows, kind, ranks) for kind in kinds for ranks in ranks_list}
    low, high = ratio_range(all_lines.values())
    sizes = size_range(all_lines.values())
    left = left_of(low, high)
    parts, head_lines = _head(facts, left)
    first_top = TOP + (head_lines - 1) * LINE
    height = first_top + len(kinds) * (PANEL_HEIGHT + ROW_GAP) + LEGEND
    panel = (WIDTH - left - RIGHT - GAP * (len(ranks_list) - 1)) / max(1, len(ranks_list))
    for i, kind in enumerate(kinds):
        top = first_top + i * (PANEL_HEIGHT + ROW_GAP)
        for k, ranks in enumerate(ranks_list):
            start = left + k * (panel + GAP)
            across = Scale(*sizes, start, start + panel)
            up = Scale(low, high, top + PANEL_HEIGHT, top)
            parts += _panel(all_lines[kind, ranks], across, up, f"{ranks} ranks, {TITLES[kind]}", k == 0)
    shown = [name for name in cells.COLLECTIVES if any(name in lines for lines in all_lines.values())]
    parts += _legend(shown, height - 18)
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'font-family="Helvetica, Arial, sans-serif">\n<rect width="100%" height="100%" fill="{BACKGROUND}"/>\n{body}\n'
            f'</svg>')
