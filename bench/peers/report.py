"""report.py: formats the results as a table and as a JSON object."""
import json

from . import cells, measure, results, sides

COLUMNS = (f"{'collective':<15}{'bytes':>6}{'ranks':>6} {'mode':<8}{'regime':<7}{'private us':>12}{'heap us':>12}"
           f"{'best us':>12} {'best peer':<24}{'to best':>8}{'heap':>7}{'to dflt':>8}{'heap':>7}{'limit':>7}{'heap':>6}"
           f"{'pairs':>6}  spread")


def _number(value, width, digits=2, blank=""):
    return f"{value:>{width}.{digits}f}" if value is not None else f"{blank:>{width}}"


def _percent(value, width):
    return f"{value * 100:>{width - 1}.0f}%" if value is not None else " " * width


def format_row(row):
    best = row.best("private") or row.best("heap")
    c = row.cell
    line = f"{c.collective:<15}{cells.show_bytes(c.bytes):>6}{c.ranks:>6} {c.mode:<8}{row.regime:<7}"
    line += _number(row.time_us.get("private"), 12, 3) + _number(row.time_us.get("heap"), 12, 3)
    line += _number(best.time_us if best else None, 12, 3) + f" {best.name if best else '':<24}"
    line += _number(row.ratio("private"), 8) + _number(row.ratio("heap"), 7)
    line += _number(row.ratio("private", True), 8) + _number(row.ratio("heap", True), 7)
    line += _percent(row.limit.get("private"), 7) + _percent(row.limit.get("heap"), 6)
    if best:
        line += f"{best.pairs:>6}  {best.spread[0]:.2f}..{best.spread[1]:.2f}"
    return line + "".join(f"  ({note})" for note in row.notes)


def format_head(facts):
    """Returns the comment lines above the table: the machine, the peers and the columns."""
    lines = [f"# {facts['cpu']}, {facts['cpus']} CPUs; {'; '.join(facts['peers'])}",
             "# f32, sum. Ratios: peer time / tutti time in the same round and regime, medians; above 1, tutti is faster.",
             "# regime: latency of a cache line between two CPUs, near < 120 ns <= far; any: both regimes.",
             "# single: one operation per sample, its input just written and its output read; from 64K up, in both modes.",
             "# limit: share of the speed at which two processes copy 64 MiB each past their caches; over 100%: in caches.",
             f"# {facts['runs']} runs, of which {facts['dropped']} were dropped because the regime changed."]
    return "\n".join(lines)


def format_summary(summary):
    """Formats the means and ranges of ratios, one line per regime and group of modes, with both kinds of buffers."""
    head = f"{'ratios':<8}{'modes':<8}{'cells':>6}"
    for buffers in results.LOWEST:
        below = f"< {results.LOWEST[buffers]}"
        head += f"{buffers + ':':>11}{'mean':>7}{'lowest':>8}{'highest':>9}{below:>8}{'default':>9}"
    lines = [head]
    for entry in summary:
        line = f"{entry['regime']:<8}{entry['mode']:<8}{entry['cells']:>6}"
        for buffers in results.LOWEST:
            line += f"{entry[f'{buffers}_cells']:>11}" + _number(entry.get(f"{buffers}_to_best"), 7)
            line += _number(entry.get(f"{buffers}_lowest"), 8) + _number(entry.get(f"{buffers}_highest"), 9)
            line += f"{entry[f'{buffers}_below']:>8}" + _number(entry.get(f"{buffers}_to_default"), 9)
        lines.append(line)
    return "\n".join(line.rstrip() for line in lines)


def format_behind(rows):
    """Formats which cells are behind, the slowest first. Only rows over all regimes have all rounds."""
    known = [row for row in rows if row.regime == "any" and any(rival.by_round for rival in row.rivals)]
    behind = sorted((row for row in known if row.leader()), key=lambda row: row.leader().ratio["private"])
    lines = [f"{len(behind)} of {len(known)} cells are behind a peer: private buffers, the median of the rounds is below "
             f"{results.BEHIND}, and at least {results.AGREE:.0%} of the rounds are below 1."]
    for row in behind:
        rival = row.leader()
        lines.append(f"{measure.describe(row.cell)}: {rival.ratio['private']:.2f} ({min(rival.by_round):.2f}.."
                     f"{max(rival.by_round):.2f}; {sum(ratio < 1 for ratio in rival.by_round)} of {row.rounds} rounds), {rival.name}")
    return "\n".join(lines)


def format_table(rows, summary, facts):
    """Formats the whole table. If a cell has only one regime, its row "any" is left out, because it adds nothing."""
    lines = [format_head(facts), COLUMNS]
    for row in rows:
        alone = sum(other.cell == row.cell for other in rows) == 2
        if not (alone and row.regime == "any"):
            lines.append(format_row(row))
    return "\n".join(line.rstrip() for line in lines + ["", format_summary(summary), "", format_behind(rows)])


def format_late(late_ms, found):
    """Formats the CPU times of ranks that waited. found: list of (ranks, side name, CPU time in us or None)."""
    lines = [f"# maximum CPU time of a rank that waited for the last rank, which was {late_ms} ms late; allreduce of 8 bytes",
             f"{'ranks':>6} {'side':<24}{'cpu us':>12}{'ours is':>10}"]
    ours = {ranks: cpu for ranks, name, cpu in found if name.startswith("tutti:")}
    for ranks, name, cpu in found:
        share = ""
        if cpu and ours.get(ranks) is not None and not name.startswith("tutti:"):
            share = f"{ours[ranks] / cpu * 100:.2f}%"
        lines.append(f"{ranks:>6} {name:<24}{_number(cpu, 12, 0, 'failed')}{share:>10}")
    return "\n".join(lines)


def _raw(run):
    return {"side": run.side.name, "round": run.round, "place": run.position, "regime": run.regime, "copy_ms": run.copy_ms,
            "times": [[*cell, us] for cell, us in run.times_us.items()]}


def hosts_as_json(facts, found, cpu, late, verdicts):
    """Returns JSON with all runs of tools/bench-peers --hosts, and the verdicts."""
    tables = [{"shape": shape, "hosts": name, "runs": [_raw(run) for run in its.runs], "link_bits_per_s": its.wires,
               "hung": [[side, *cell, why] for (side, cell), why in its.hung.items()]} for (shape, name), its in found.items()]
    return json.dumps({"facts": facts, "tables": tables, "cpu_us": cpu, "late_cpu_us": late,
                       "bars": [vars(verdict) for verdict in verdicts]})


def _content(rows, summary, runs, hung):
    def of_rival(rival):
        return {"name": rival.name, "time_us": rival.time_us, "ratio": rival.ratio, "spread": rival.spread,
                "pairs": rival.pairs, "by_round": rival.by_round}

    def leader_of(row):
        rival = row.leader()
        return rival.name if rival else None

    table = [{**row.cell._asdict(), "regime": row.regime, "time_us": row.time_us, "limit": row.limit,
              "rivals": [of_rival(rival) for rival in row.rivals],
              **{f"{buffers}_to_{which}": row.ratio(buffers, which == "default")
                 for buffers in ("private", "heap") for which in ("best", "default")},
              "rounds": row.rounds, "behind": leader_of(row), "notes": row.notes} for row in rows]
    return {"summary": summary, "cells": table, "runs": [_raw(run) for run in runs],
            "hung": [[name, *cell, why] for (name, cell), why in hung.items()]}


def as_json(rows, summary, facts, runs, hung):
    """Returns JSON with all runs, so that the table can be made again from one or several such files."""
    return json.dumps({"facts": facts, **_content(rows, summary, runs, hung)})


def busy_as_json(facts, found):
    """Returns JSON with all runs of tools/bench-peers --busy. found: busy.Found by load."""
    return json.dumps({"facts": facts, "loads": [
        {"load": load, **_content(its.rows, its.summary, its.runs, its.hung)} for load, its in found.items()]})


def read_json(text, first_round):
    """Reads (runs, hung, facts) from the output of as_json; the rounds read get numbers from first_round on."""
    data = json.loads(text)
    if "runs" not in data:
        raise sides.Failure("--read: expected a file of --json without --hosts and --busy, found none of runs")
    runs = []
    for raw in data["runs"]:
        side = sides.by_name(raw["side"])
        if side:
            times = {cells.Cell(*entry[:4]): entry[4] for entry in raw["times"]}
            runs.append(measure.Run(side, first_round + raw["round"], raw["place"], raw["regime"], times, raw["copy_ms"]))
    hung = {(entry[0], cells.Cell(*entry[1:5])): entry[5] for entry in data["hung"]}
    return runs, hung, data["facts"]
