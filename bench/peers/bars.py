"""bars.py: what this library must reach on several hosts, and whether it did. Both tables are in Markdown, for
docs/HOSTS.md."""
from dataclasses import dataclass, field
from statistics import median

from . import cells, hosts, sides

K, M = 1 << 10, 1 << 20
NAMES = {"openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo", "sockets": "bare sockets", "flat": "flat direct"}
WIRE_SHARE = 0.92  # of the bandwidth that iperf3 reaches
UNFILLED = 0.95  # below this share of the time of the link, iperf3 has not reached its bandwidth
LATE_SHARE = 0.01  # of the time that a rank waits
CPU_RATIO = 0.7


@dataclass
class Found:
    """All results of one layout with one shape."""
    rows: list  # results.Row over all regimes, one per cell
    runs: list  # measure.Run
    hung: dict  # reason by (side name, cell)
    wires: dict  # rates of both directions of a shaped link by round, bit/s; None: not measured


@dataclass
class Bar:
    """The time of an allreduce may be at most `limit` times that of each peer, at each size from low to high."""
    low: int
    high: int
    layout: str
    limit: float
    peers: tuple = ("openmpi",)
    shape: str = "none"


@dataclass
class Verdict:
    what: str
    bar: str
    measured: str
    met: str = field(default="not measured")


BARS = [
    Bar(8, K, "2x1", 1.1), Bar(8, K, "2x2", 1.3), Bar(8, K, "4x1", 1.8),
    Bar(2 * K, 8 * K, "2x1", 1.1), Bar(16 * K, 256 * K, "2x1", 0.8),
    Bar(64 * K, 64 * K, "2x2", 0.9), Bar(64 * K, 64 * K, "4x1", 0.9),
    Bar(M, M, "2x1", 0.95), Bar(4 * M, 4 * M, "2x1", 0.8), Bar(16 * M, 64 * M, "2x1", 0.8),
    Bar(16 * M, 64 * M, "2x1", 1.1, ("gloo",)),
    Bar(16 * M, 16 * M, "2x2", 1.0, ("openmpi", "gloo")), Bar(16 * M, 16 * M, "4x1", 1.0, ("openmpi", "gloo")),
    Bar(4 * M, 4 * M, "2x2", 0.55, ("flat",), "100mbit"),
]
WIRE_BARS = [("1gbit", layout, 16 * M) for layout in ("2x1", "2x2", "4x1")]


def best_rival(row, peer):
    """Returns the fastest setting of a peer in a row; None: it has no result beside one of ours."""
    known = [rival for rival in row.rivals if rival.name.startswith(peer + ":") and rival.ratio.get("private")]
    return min(known, key=lambda rival: rival.ratio["private"], default=None)


def time_ratio(row, peer):
    """Returns our time / the peer's time: the median of the rounds. None: unknown."""
    rival = best_rival(row, peer)
    return 1 / rival.ratio["private"] if rival else None


def met(good):
    return "yes" if good else "no"


def judge(bar, found):
    """Returns the verdict of a bar: of its worst size and peer. A size without a result of a peer leaves it open, unless
    the others miss the bar."""
    names = " and ".join(NAMES[peer] for peer in bar.peers)
    span = " to ".join(dict.fromkeys(cells.show_bytes(count) for count in (bar.low, bar.high)))
    link = "" if bar.shape == "none" else f", {bar.shape}"
    verdict = Verdict(f"allreduce {span}, {bar.layout}{link}", f"<= {bar.limit} x {names}", "")
    its = found.get((bar.shape, bar.layout))
    rows = [row for row in its.rows if row.cell.collective == "allreduce" and bar.low <= row.cell.bytes <= bar.high] if its else []
    known, lacking = [], []
    for row in rows:
        for peer in bar.peers:
            ratio, where = time_ratio(row, peer), f"{cells.show_bytes(row.cell.bytes)}, {NAMES[peer]}"
            if ratio is None:
                lacking.append(where)
            else:
                known.append((ratio, where))
    if known:
        worst, where = max(known)
        sizes = ",".join(cells.show_bytes(row.cell.bytes) for row in rows)
        verdict.measured = f"{worst:.2f} ({where}; of {sizes})"
        verdict.met = "no" if worst > bar.limit else "open" if lacking else "yes"
    if lacking:
        verdict.measured = "; ".join([*filter(None, [verdict.measured]), *(f"no result: {where}" for where in lacking)])
    return verdict


def wire_times(found, layout, count):
    """Returns, by round, our time / the time that the link needs to move what leaves each host: 2 (H - 1) / H of the
    vector, for H hosts. The faster direction counts: iperf3 often fills only one of them."""
    cell = cells.Cell("allreduce", count, hosts.ranks_of(layout), "single")
    bits = 2 * (layout.hosts - 1) / layout.hosts * count * 8
    times = {}
    for run in found.runs:
        if run.side.ours and cell in run.times_us and found.wires.get(run.round):
            times.setdefault(run.round, []).append(run.times_us[cell] / 1e6 * max(found.wires[run.round]) / bits)
    return [median(values) for values in times.values()]


def judge_wire(shape, name, count, found):
    verdict = Verdict(f"allreduce {cells.show_bytes(count)}, {name}, {shape}", f"<= 1/{WIRE_SHARE} x time of the link", "")
    its = found.get((shape, name))
    times = wire_times(its, hosts.parse_layouts(name)[0], count) if its else []
    if times:
        rates = [median(pick(pair) for pair in its.wires.values() if pair) / 1e6 for pick in (max, min)]
        verdict.measured = f"1/{1 / median(times):.2f} (iperf3: {rates[0]:.0f} and {rates[1]:.0f} Mbit/s)"
        verdict.met = met(median(times) <= 1 / WIRE_SHARE)
        if median(times) < UNFILLED:
            verdict.met = "open"
            verdict.measured += ": iperf3 does not fill the link"
    elif its and its.runs and not any(its.wires.values()):
        verdict.measured = "no result of iperf3"
    return verdict


def judge_cpu(cpu):
    """cpu: CPU times, in us, by name of the side. Open MPI counts in the setting that uses least."""
    verdict = Verdict(f"CPU time of allreduce {cells.show_bytes(hosts.CPU_BYTES)}", f"<= {CPU_RATIO} x Open MPI", "")
    theirs = [median(times) for name, times in cpu.items() if name.startswith("openmpi:")]
    ours = cpu.get(sides.PRIVATE.name)
    if ours and theirs:
        ratio = median(ours) / min(theirs)
        verdict.measured, verdict.met = f"{ratio:.2f}", met(ratio <= CPU_RATIO)
    return verdict


def judge_late(late, late_ms):
    verdict = Verdict(f"CPU time while a host is {hosts.LATE_MS} ms late", f"<= {LATE_SHARE:.0%}", "")
    ours = late.get(sides.PRIVATE.name)
    if ours and late_ms == hosts.LATE_MS:
        share = median(ours) / 1000 / late_ms
        verdict.measured, verdict.met = f"{share:.2%}", met(share <= LATE_SHARE)
    return verdict


def judge_all(found, cpu, late, late_ms):
    return ([judge(bar, found) for bar in BARS] + [judge_wire(*bar, found) for bar in WIRE_BARS] +
            [judge_cpu(cpu), judge_late(late, late_ms)])


# ---- text ----

def as_markdown(head, lines):
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def format_verdicts(verdicts):
    return as_markdown(["what", "bar", "measured", "met?"], [[v.what, v.bar, v.measured, v.met] for v in verdicts])


def _row_words(name, row, found, peers):
    words = [name, row.cell.collective, cells.show_bytes(row.cell.bytes), f"{row.time_us['private']:.1f}"]
    for peer in peers:
        rival = best_rival(row, peer)
        why = [reason for (side, cell), reason in found.hung.items() if cell == row.cell and side.startswith(peer + ":")]
        words += [f"{rival.time_us:.1f}", rival.name.split(":")[1], f"{time_ratio(row, peer):.2f}"] if rival else [
            why[0] if why else "", "", ""]
    return words


def format_times(shape, found, peers):
    """Formats the table of one shape: times in us, medians, and our time / the peer's time, medians of ratios."""
    peers = [*peers, "flat"] if shape != "none" else peers
    head = ["hosts", "collective", "bytes", "tutti us"] + [word for peer in peers for word in (f"{NAMES[peer]} us", "setting", "ratio")]
    return as_markdown(head, [_row_words(name, row, its, peers)
                              for (its_shape, name), its in found.items() if its_shape == shape for row in its.rows])


def format_cpu(what, cpu):
    lines = [[name, f"{median(times):.0f}", str(len(times))] for name, times in cpu.items()]
    return as_markdown([what, "CPU us", "rounds"], lines)
