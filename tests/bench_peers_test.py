# test: fast waits timeout=180
"""bench_peers_test.py SOURCE BUILD: tests tools/bench-peers without peers: which cells are measured together, which
results are compared, what happens if a program hangs, whether a table is read back as it was written, and whether the
picture is valid."""
import io
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import xml.dom.minidom

sys.dont_write_bytecode = True
SOURCE = sys.argv[1] if len(sys.argv) > 1 else "."
BUILD = sys.argv[2] if len(sys.argv) > 2 else "build"
sys.path[:0] = [os.path.join(SOURCE, "bench"), os.path.join(SOURCE, "tools")]
import bench_load  # noqa: E402
from peers import bars, busy, cells, hosts, measure, picture, report, results, sides, table  # noqa: E402

Cell = cells.Cell
OPENMPI, UCX, GLOO = (sides.by_name(name) for name in ("openmpi:default", "openmpi:ucx", "gloo:default"))
FACTS = {"cpu": "A & B <CPU>", "cpus": 2, "peers": ["Open MPI 4", "Gloo"], "runs": 4, "dropped": 1}


def whole_table():
    return cells.list_cells(cells.COLLECTIVES, [cells.parse_bytes(word) for word in cells.SIZES.split(",")], [2, 4, 8],
                            cells.MODES)


def run_of(side, position, regime, times, turn=0, copy_ms=0):
    return measure.Run(side, turn, position, regime, times, copy_ms)


def is_gone(pid):
    """Returns true if a process ends within ten seconds."""
    for _ in range(500):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


class Cells(unittest.TestCase):
    def test_sizes(self):
        for text, count in (("8", 8), ("64K", 65536), ("1M", 1 << 20), ("2G", 2 << 30)):
            self.assertEqual((cells.parse_bytes(text), cells.show_bytes(count)), (count, text))
        for text in ("", "K", "-8", "1.5M", "8T"):
            self.assertRaises(ValueError, cells.parse_bytes, text)

    def test_actual_sizes_are_those_of_the_command(self):
        wanted = [8, 100, 4096]
        said = subprocess.run([os.path.join(BUILD, "tutti"), "bench", "-n", "3", "allreduce", "alltoall", "gather", "barrier",
                               "--bytes", ",".join(map(str, wanted)), "--time-ms", "0", "--json"],
                              capture_output=True, text=True, check=True).stdout
        found = [(entry["collective"], entry["bytes"]) for entry in map(json.loads, said.splitlines())]
        expected = [(cell.collective, cell.bytes)
                    for cell in cells.list_cells(["allreduce", "alltoall", "gather", "barrier"], wanted, [3], ["loop"])]
        self.assertEqual(found, expected)

    def test_long_ones_are_measured_once(self):
        modes = {cell.mode for cell in whole_table() if cell.bytes >= cells.SINGLE_BYTES}
        self.assertEqual(modes, {"single"})
        self.assertEqual({cell.mode for cell in whole_table() if cell.bytes < cells.SINGLE_BYTES}, {"loop", "barrier"})

    def test_every_cell_is_in_one_block(self):
        blocks = cells.list_blocks(whole_table())
        self.assertEqual(sorted(cell for block in blocks for cell in block.cells), sorted(whole_table()))
        for block in blocks:  # one start of a program measures all its collectives at all its sizes
            names = {cell.collective for cell in block.cells} - {"barrier"}
            counts = {cell.bytes for cell in block.cells} - {0}
            self.assertTrue(len(names) * len(counts) >= len([cell for cell in block.cells if cell.bytes]))
            self.assertEqual({cell.ranks for cell in block.cells}, {block.ranks})

    def test_copied_bytes(self):
        self.assertEqual(cells.copied_bytes(Cell("allreduce", 100, 2, "single")), 200)
        self.assertEqual(cells.copied_bytes(Cell("broadcast", 100, 4, "single")), 300)
        self.assertEqual(cells.copied_bytes(Cell("reduce", 100, 2, "single")), 150)
        # A call that takes as long as two processes need to copy 64 MiB each is at the limit.
        cell = Cell("allreduce", 64 << 20, 2, "single")
        self.assertAlmostEqual(results.limit_fraction(cell, 6000, 6, 2), 1)


class Rounds(unittest.TestCase):
    def test_runs_whose_regime_changed_are_dropped_and_repeated(self):
        cell = Cell("allreduce", 8, 2, "loop")
        block, options = cells.Block([cell], 2, "loop"), types.SimpleNamespace(verbose=False)
        for latencies, regime, dropped in (([40, 160, 160, 40, 40, 45], "near", 2), ([160, 200], "far", 0),
                                           ([900, 5000, 100, 125], "far", 1), ([40, 160] * measure.TRIES, None, measure.TRIES)):
            left = iter(latencies)
            ping = types.SimpleNamespace(latency_ns=lambda left=left: next(left))
            measurer = measure.Measurer(None, ping, options, io.StringIO())
            measurer.run_program = lambda side, block, wanted: {cell: 1.0}
            run = measurer.steady_run(OPENMPI, block, [cell], (0, 0))
            self.assertEqual((run.regime if run else None, measurer.counts["dropped"]), (regime, dropped))

    def test_without_regimes_no_run_is_dropped(self):
        cell = Cell("allreduce", 1 << 20, 2, "single")
        block, options = cells.Block([cell], 2, "loop"), types.SimpleNamespace(verbose=False, rounds=2, heap=False, keep_all=True)
        measurer = measure.Measurer(None, None, options, io.StringIO())
        measurer.run_program = lambda side, block, wanted: {cell: 2.0 if side.ours else 1.0}
        runs = measurer.measure_block(block, [OPENMPI])
        self.assertEqual([(run.regime, run.round) for run in runs], [("any", turn) for turn in (0, 0, 0, 1, 1, 1)])
        self.assertEqual(measurer.counts, {"runs": 6, "dropped": 0})
        rows = results.make_rows([cell], runs, {}, 2)
        self.assertEqual([(row.regime, row.ratio("private")) for row in rows], [("any", 0.5)])

    def test_ours_stands_beside_every_peer(self):
        peers = sides.SETTINGS
        for turn in range(3):
            order = measure.sequence(peers, True, turn)
            self.assertEqual({side.name for side in order}, {side.name for side in [*peers, sides.PRIVATE, sides.HEAP]})
            for position, side in enumerate(order):
                if not side.ours:
                    near = order[max(0, position - 2):position + 3]
                    self.assertIn(sides.PRIVATE, near + order[position + 3:position + 4])
        self.assertNotEqual(measure.sequence(peers, False, 0), measure.sequence(peers, False, 1))
        self.assertNotIn(sides.HEAP, measure.sequence(peers, False, 0))

    def test_who_is_far_off_is_not_asked_again(self):
        one, two = Cell("allreduce", 8, 2, "loop"), Cell("allreduce", 64, 2, "loop")
        peers = [OPENMPI, UCX, GLOO]
        ratios = {OPENMPI: {one: 2, two: 2}, UCX: {one: 4, two: 1}, GLOO: {one: 90, two: 90}}
        self.assertEqual(measure.keep_promising(peers, [one, two], ratios), [OPENMPI, UCX])
        ratios[UCX] = {one: 1, two: 1}
        self.assertEqual(measure.keep_promising(peers, [one, two], ratios), [OPENMPI, UCX])  # the best default
        del ratios[GLOO]
        self.assertEqual(measure.keep_promising(peers, [one, two], ratios), peers)  # not yet compared

    def test_copies_count_only_where_they_agree(self):
        runs = [run_of(sides.PRIVATE, 0, "near", {}), run_of(sides.PRIVATE, 1, "far", {}), run_of(OPENMPI, 2, "near", {})]
        measure.note_copies(runs, [("near", 6.0, 8.0), ("near", 6.5, 8.0), None])
        self.assertEqual([run.copy_ms for run in runs], [6.0, 0, 0])
        runs[0].copy_ms = 0
        measure.note_copies(runs, [("near", 6.0, 8.0), ("near", 9.0, 8.0)])
        self.assertEqual(runs[0].copy_ms, 0)


class Programs(unittest.TestCase):
    """A fake program: a shell script that prints 1.5 us for each size, and hangs at 64 bytes. At 512 bytes, a line of its
    error output comes in between."""

    def setUp(self):
        self.started = []
        machine = types.SimpleNamespace(command=self.command, clean=lambda: None)
        options = types.SimpleNamespace(cell_limit_s=3, start_limit_s=60, time_ms=1, verbose=False)
        self.measurer = measure.Measurer(machine, None, options, io.StringIO())

    def command(self, side, ranks, arguments):
        self.started.append(arguments)
        counts = arguments[arguments.index("--bytes") + 1].split(",")
        lines = [json.dumps({"collective": "gather", "bytes": int(count), "ranks": ranks, "time_us": 1.5,
                             "wrong": int(count == "256")}) for count in counts]
        lines = [line.replace('512, ', '512, a warning\n') for line in lines]
        silent = "; ".join("sleep 60" if '"bytes": 64,' in line else f"echo '{line}'" for line in lines)
        return ["sh", "-c", f"echo a word; {silent}"], side.env

    def test_silence_is_marked_and_the_rest_measured(self):
        wanted = [Cell("gather", count, 2, "loop") for count in (8, 64, 256, 1024)]
        times = self.measurer.run_program(OPENMPI, cells.Block(wanted, 2, "loop"), wanted)
        self.assertEqual({cell.bytes: us for cell, us in times.items()}, {8: 1.5, 1024: 1.5})
        marks = {cell.bytes: why for (_, cell), why in self.measurer.hung.items()}
        self.assertEqual(sorted(marks), [64, 256])
        self.assertIn("3 s", marks[64])
        self.assertIn("wrong", marks[256])
        self.assertEqual(len(self.started), 2)

    def test_a_line_in_between_spoils_one_result(self):
        wanted = [Cell("gather", count, 2, "loop") for count in (8, 512, 1024)]
        times = self.measurer.run_program(OPENMPI, cells.Block(wanted, 2, "loop"), wanted)
        self.assertEqual({cell.bytes: us for cell, us in times.items()}, {8: 1.5, 1024: 1.5})
        self.assertEqual(list(self.measurer.hung), [("openmpi:default", wanted[1])])

    def test_an_interruption_stops_the_program(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
        self.addCleanup(signal.signal, signal.SIGINT, before)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "pid")
            command = ["sh", "-c", f"sleep 60 & echo $! >{path}; sleep 0.5; kill -INT {os.getpid()}; wait"]
            with self.assertRaises(KeyboardInterrupt):
                self.measurer._watch(command, dict(os.environ), 60)
            with open(path, encoding="utf-8") as file:
                self.assertTrue(is_gone(file.read().strip()))

    def test_our_failure_is_a_failure(self):
        wanted = [Cell("gather", 64, 2, "loop")]
        with self.assertRaises(sides.Failure) as caught:
            self.measurer.run_program(sides.PRIVATE, cells.Block(wanted, 2, "loop"), wanted)
        self.assertIn("gather 64", str(caught.exception))


class Results(unittest.TestCase):
    cell = Cell("allreduce", 1 << 20, 2, "single")

    def times(self, us):
        return {self.cell: us}

    def rows(self):
        near = [run_of(sides.PRIVATE, 0, "near", self.times(100), copy_ms=6), run_of(OPENMPI, 1, "near", self.times(300)),
                run_of(sides.HEAP, 2, "near", self.times(50)), run_of(UCX, 3, "near", self.times(200))]
        far = [run_of(sides.PRIVATE, 0, "far", self.times(1000), 1), run_of(UCX, 1, "far", self.times(1500), 1)]
        lost = [run_of(UCX, 0, "far", self.times(1), 2)]  # no run of this library in that round and regime
        hung = {("gloo:default", self.cell): "no result within 30 s"}
        return {row.regime: row for row in results.make_rows([self.cell], near + far + lost, hung, 2)}

    def test_ratios(self):
        rows = self.rows()
        self.assertEqual(sorted(rows), ["any", "far", "near"])
        near = rows["near"]
        self.assertEqual(near.best("private").name, "openmpi:ucx")
        self.assertEqual((near.ratio("private"), near.ratio("private", True)), (2, 3))
        self.assertEqual((near.ratio("heap"), near.ratio("heap", True)), (4, 6))
        self.assertEqual((rows["far"].ratio("private"), rows["far"].ratio("heap")), (1.5, None))
        self.assertEqual(rows["any"].ratio("private"), 1.75)
        self.assertEqual(near.notes, ["gloo:default: no result within 30 s"])
        self.assertAlmostEqual(near.limit["private"], 6000 / 64 / 100)
        self.assertNotIn("private", rows["far"].limit)

    def test_a_weak_peer_alone_is_no_win(self):
        runs = [run_of(sides.PRIVATE, 0, "near", self.times(100)), run_of(UCX, 1, "near", self.times(150)),
                run_of(sides.PRIVATE, 0, "far", self.times(100), 1), run_of(GLOO, 1, "far", self.times(9000), 1)]
        near, far, whole = results.make_rows([self.cell], runs, {}, 2)
        self.assertEqual((near.regime, far.regime, whole.regime), ("near", "far", "any"))
        self.assertEqual((near.ratio("private"), far.ratio("private"), whole.ratio("private")), (1.5, None, 1.5))

    def test_what_stands_beside(self):
        ours = [run_of(sides.PRIVATE, position, regime, self.times(us), turn)
                for position, regime, us, turn in ((0, "near", 10, 0), (4, "near", 90, 0), (6, "near", 11, 0), (5, "far", 30, 0),
                                                (0, "near", 70, 1))]
        self.assertEqual(results.time_beside(run_of(UCX, 3, "near", {}), self.cell, ours), 11)  # 90 was disturbed
        self.assertEqual(results.time_beside(run_of(UCX, 1, "far", {}), self.cell, ours), 30)
        self.assertIsNone(results.time_beside(run_of(UCX, 1, "far", {}, turn=1), self.cell, ours))
        self.assertEqual(results.ratios_to(self.cell, [run_of(UCX, 3, "near", self.times(22))], ours), [2])

    def test_what_is_known_so_far(self):
        runs = [run_of(sides.PRIVATE, 0, "near", self.times(10)), run_of(UCX, 1, "near", self.times(20)),
                run_of(GLOO, 2, "far", self.times(20))]
        self.assertEqual(measure.ratios_so_far([UCX, GLOO], [self.cell], runs), {UCX: {self.cell: 2}, GLOO: {}})

    def test_behind(self):
        for ratios, rounds, behind in (
                ([0.9, 0.9, 0.9, 0.9, 1.5], 5, True),  # 4 of 5 rounds agree
                ([0.9, 0.9, 0.9, 1.0, 1.5], 5, False),  # 3 do
                ([0.98, 0.96, 0.96, 0.96, 0.99], 5, True), ([0.97] * 5, 5, False), ([0.9], 1, True),
                ([0.9] * 4, 5, True), ([0.9] * 3, 5, False), ([0.5], 5, False),  # a round without a ratio does not agree
                ([0.9] * 8 + [1.1] * 2, 10, True), ([0.9] * 7 + [1.1] * 3, 10, False), ([], 0, False), ([], 5, False)):
            self.assertEqual(results.is_behind(ratios, rounds), behind, (ratios, rounds))
        self.assertTrue(results.is_behind([0.9] * 5, 5, 0.95))
        self.assertFalse(results.is_behind([0.96] * 5, 5, 0.95))

    def test_cells_behind(self):
        """One cell is behind one peer; the best peer of the other cell was the best only once."""
        one, two = Cell("allreduce", 8, 2, "loop"), Cell("reduce", 64, 4, "barrier")
        runs = []
        for turn in range(5):
            runs += [run_of(sides.PRIVATE, 0, "near", {one: 10, two: 10}, turn),
                     run_of(OPENMPI, 1, "near", {one: 9 - turn / 10, two: 12}, turn)]
        runs.append(run_of(UCX, 2, "near", {one: 5, two: 5}, 0))
        rows = results.make_rows([one, two], runs, {}, 2)
        self.assertEqual([row.leader() and row.leader().name for row in rows if row.regime == "any"], ["openmpi:default", None])
        text = report.format_table(rows, results.summarize(rows), FACTS).split("\n\n")[-1]
        self.assertIn("1 of 2 cells are behind", text)
        self.assertEqual(text.splitlines()[1:], ["allreduce 8, 2 ranks, loop: 0.88 (0.86..0.90; 5 of 5 rounds), openmpi:default"])
        data = json.loads(report.as_json(rows, [], FACTS, runs, {}))
        self.assertEqual([(cell["behind"], cell["rounds"]) for cell in data["cells"] if cell["regime"] == "any"],
                         [("openmpi:default", 5), (None, 5)])

    def test_means(self):
        summary = {entry["regime"]: entry for entry in results.summarize(list(self.rows().values()))}
        self.assertEqual((summary["near"]["private_to_best"], summary["near"]["heap_to_default"]), (2, 6))
        self.assertEqual((summary["near"]["private_below"], summary["near"]["heap_below"]), (0, 0))
        self.assertEqual((summary["far"]["cells"], summary["far"]["private_cells"], summary["far"]["heap_cells"]), (1, 1, 0))
        rows = []
        for count, mode, us in ((8, "loop", 2), (8, "barrier", 2), (1 << 20, "single", 8)):
            cell = Cell("gather", count, 2, mode)
            runs = [run_of(sides.PRIVATE, 0, "near", {cell: 1}), run_of(UCX, 1, "near", {cell: us})]
            rows += results.make_rows([cell], runs, {}, 2)[:1]
        self.assertAlmostEqual(results.geometric_mean(rows, "private", False), 4)  # of 2, 2, 8 and 8
        summary = {entry["mode"]: entry for entry in results.summarize(rows)}
        self.assertEqual({mode: (entry["cells"], entry["private_to_best"]) for mode, entry in summary.items()},
                         {"loop": (2, 4), "barrier": (1, 2), "all": (3, 4)})
        self.assertEqual((summary["loop"]["private_lowest"], summary["loop"]["private_highest"]), (2, 8))

    def test_text_and_json(self):
        rows = list(self.rows().values())
        summary = results.summarize(rows)
        text = report.format_table(rows, summary, FACTS)
        self.assertIn("openmpi:ucx", text)
        self.assertIn("gloo:default: no result within 30 s", text)
        runs = [run_of(sides.PRIVATE, 0, "near", self.times(100)), run_of(UCX, 1, "near", self.times(200))]
        hung = {("gloo:default", self.cell): "why"}
        again, again_hung, facts = report.read_json(report.as_json(rows, summary, FACTS, runs, hung), 0)
        self.assertEqual((again, again_hung, facts), (runs, hung, FACTS))

    def test_late(self):
        text = report.format_late(100, [(2, "tutti:private", 150.0), (2, "openmpi:default", 60000.0), (4, "gloo:default", None)])
        self.assertIn("0.25%", text)
        self.assertIn("failed", text)


class Table(unittest.TestCase):
    one, two = Cell("allreduce", 1 << 20, 2, "single"), Cell("gather", 64, 2, "barrier")

    def runs(self):
        return [run_of(sides.PRIVATE, 0, "near", {self.one: 100, self.two: 1}), run_of(OPENMPI, 1, "near", {self.one: 300}),
                run_of(sides.HEAP, 2, "near", {self.one: 50.0004}), run_of(UCX, 3, "near", {self.one: 200, self.two: 0.00312}),
                run_of(sides.PRIVATE, 0, "far", {self.one: 1000}, 1), run_of(UCX, 1, "far", {self.one: 1500}, 1)]

    def rows(self):
        return results.make_rows([self.one, self.two], self.runs(), {("gloo:default", self.one): "no result within 30 s"}, 2)

    def text(self):
        return table.as_text(table.lines_of(self.rows()), {**FACTS, "notes": table.notes_of(self.rows())})

    def test_written(self):
        names, *lines = [line.split("\t") for line in self.text().splitlines() if not line.startswith("#")]
        one, two = (dict(zip(names, line)) for line in lines)
        self.assertEqual(one, {
            "collective": "allreduce", "bytes": "1M", "ranks": "2", "mode": "single", "best_peer": "openmpi:ucx",
            "any_private": "1.75", "any_heap": "4.00", "near_private": "2.00", "near_heap": "4.00", "far_private": "1.50",
            "far_heap": "", "near_private_default": "3.00", "near_heap_default": "6.00", "far_private_default": "",
            "far_heap_default": "", "private_us": "550.000", "heap_us": "50.000", "best_us": "850.000"})
        self.assertEqual([two[name] for name in ("any_private", "near_private", "far_private", "heap_us")],
                         ["0.0031", "0.0031", "", ""])  # not 0.00: a ratio is never 0
        self.assertIn("# note: allreduce 1M, 2 ranks, single: gloo:default: no result within 30 s", self.text())

    def test_read_back(self):
        lines, facts = table.read(self.text(), "FILE")
        self.assertEqual({key: facts[key] for key in FACTS}, FACTS)
        self.assertEqual(table.as_text(lines, facts), self.text())
        rounded = {(row.cell, row.regime): row for row in table.rows_of(lines)}
        for row in self.rows():
            for buffers, defaults in (("private", False), ("heap", False), ("private", True), ("heap", True)):
                if row.regime != "any" or not defaults:
                    found, expected = rounded[row.cell, row.regime].ratio(buffers, defaults), row.ratio(buffers, defaults)
                    self.assertEqual(found is None, expected is None)
                    self.assertAlmostEqual(found or 0, expected or 0, 2)
        empty = table.as_text([], FACTS)
        self.assertEqual(table.as_text(*table.read(empty, "FILE")), empty)

    def test_malformed_ones_are_reported(self):
        head = self.text().count("\n#") + 1
        for old, new, facts in (
                ("\t4.00", "\tfour", f"FILE:{head + 2}: any_heap: |above 0|'four'"),
                ("\t1.75", "\t0", f"FILE:{head + 2}: any_private: |above 0"),
                ("\t1.75", "\tnan", "'nan'"), ("\t1.75", "\tinf", "'inf'"), ("\t1.75", "\t-1", "'-1'"),
                ("\t1M", "", f"FILE:{head + 2}: |{len(table.COLUMNS)} columns"),
                ("\t1M", "\t1T", "8, 64K or 1M|'1T'"),
                ("\t2\tsingle", "\t1\tsingle", "ranks: |2 or more|'1'"),
                ("\tsingle", "\tfast", "mode: |loop, barrier, single|'fast'"),
                ("\nallreduce", "\nallredux", "collective: |allreduce, "),
                ("\ngather\t64\t2\tbarrier", "\nallreduce\t1M\t2\tsingle",
                 f"FILE:{head + 3}: |line {head + 2}"),
                ("\tany_heap", "\tany_stack", f"FILE:{head + 1}: |columns"),
                ("# machine: ", "# ", "'# machine: "), ("# peers: ", "# ", "'# peers: "),
                ("# runs: ", "# ", "'# runs: "), ("2 CPUs", "two CPUs", "cpus|head")):
            self.assertIn(old, self.text())
            with self.assertRaises(sides.Failure, msg=new) as caught:
                table.read(self.text().replace(old, new, 1), "FILE")
            for fact in facts.split("|"):
                self.assertIn(fact, str(caught.exception))
            self.assertTrue(str(caught.exception).startswith("FILE:"))
        self.assertRaises(sides.Failure, table.read, "", "FILE")

    def command(self, *arguments):
        return subprocess.run([sys.executable, os.path.join(SOURCE, "tools/bench-peers"), *arguments], capture_output=True,
                              text=True, check=False)

    def test_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            names = ("all.json", "table.tsv", "measured.svg", "read.svg", "bad.tsv")
            measured, lines, first, again, bad = (os.path.join(folder, name) for name in names)
            with open(measured, "w", encoding="utf-8") as out:
                out.write(report.as_json([], [], {**FACTS, "measured": "today"}, self.runs(), {}))
            done = self.command("--read", measured, "--table", lines, "--svg", first)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(lines, encoding="utf-8") as file:
                self.assertIn("# measured: today\n", file.read())
            done = self.command("--read-table", lines, "--svg", again)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(first, encoding="utf-8") as one, open(again, encoding="utf-8") as other:
                self.assertEqual(one.read(), other.read())
            fields = [line.split()[:5] for line in done.stdout.splitlines()]
            self.assertIn(["near", "loop", "1", "1", "2.00"], fields)
            done = self.command("--read-table", lines, "--collectives", "allreduce")
            self.assertIn(["any", "all", "1", "1", "1.75"], [line.split()[:5] for line in done.stdout.splitlines()])
            with open(bad, "w", encoding="utf-8") as out:
                out.write("no table\n")
            for arguments, status, facts in (
                    ((bad,), 1, [f"{bad}:1: ", "names", "collective"]),
                    ((lines, "--ranks", "8"), 1, [lines, "no line", "ranks"]),
                    ((os.path.join(folder, "none"),), 1, ["No such file"]),
                    ((lines, "--json", "x"), 2, ["--read-table: unexpected"])):
                done = self.command("--read-table", *arguments)
                self.assertEqual((done.returncode, done.stdout), (status, ""))
                for fact in facts: self.assertIn(fact, done.stderr)
                self.assertNotIn("Traceback", done.stderr)


class Documents(unittest.TestCase):
    def content(self, name):
        with open(os.path.join(SOURCE, "docs", name), encoding="utf-8") as file:
            return file.read()

    def test_table_and_picture_are_those_of_the_tool(self):
        lines, facts = table.read(self.content("performance.tsv"), "performance.tsv")
        self.assertEqual(table.as_text(lines, facts) + "\n", self.content("performance.tsv"))
        self.assertEqual(picture.draw(table.rows_of(lines), facts) + "\n", self.content("performance.svg"), "run make docs")
        for name in self.MORE.values():
            lines, facts = table.read(self.content(name), name)
            self.assertEqual(table.as_text(lines, facts) + "\n", self.content(name))

    # Tables of other machines than that of performance.tsv, by their name in PERFORMANCE.md.
    MORE = {"mesh": "performance-mesh.tsv", "16 cores": "performance-16.tsv"}

    def test_means_of_other_machines_are_those_of_their_tables(self):
        page = self.content("PERFORMANCE.md")
        for title, name in self.MORE.items():
            lines, _ = table.read(self.content(name), name)
            summary = {(entry["regime"], entry["mode"]): entry for entry in results.summarize(table.rows_of(lines))}
            for when, mode in (("in a loop", "loop"), ("a barrier before each", "barrier"), ("both", "all")):
                means = [summary["near", mode][f"{buffers}_to_{to}"] for buffers in table.KINDS for to in ("best", "default")]
                cells_of = str(summary["near", mode]["cells"])
                self.assertIn(" | ".join([f"| {title}, {when}", cells_of, *(f"{mean:.2f}" for mean in means)]), page)

    def test_means_beside_loads_are_those_of_their_table(self):
        lines = [line.split("\t") for line in self.content("performance-busy.tsv").splitlines() if not line.startswith("#")]
        rows = [dict(zip(lines[0], line)) for line in lines[1:]]
        page = self.content("PERFORMANCE.md")
        for load in ("1", "2", "pool"):
            groups = [[row for row in rows if row["load"] == load and (ranks is None or row["ranks"] == ranks)]
                      for ranks in ("2", "4", "8", None)]
            means = [math.exp(sum(math.log(float(row["ratio"])) for row in group) / len(group)) for group in groups]
            shown = [f"{mean:.{2 if mean < 10 else 1 if mean < 100 else 0}f}" for mean in means]
            behind = sum(1 for row in groups[-1] if row["behind"])
            line = " | ".join([f"| {load}", *shown, f"{behind} of {len(groups[-1])} |"])
            self.assertTrue(line in page, line)

    def test_means_and_counts_are_those_of_the_table(self):
        lines, _ = table.read(self.content("performance.tsv"), "performance.tsv")
        summary = {(entry["regime"], entry["mode"]): entry for entry in results.summarize(table.rows_of(lines))}
        page = self.content("PERFORMANCE.md")
        for title, key in (("near, in a loop", ("near", "loop")), ("near, a barrier before each", ("near", "barrier")),
                           ("near, both", ("near", "all")), ("far, both", ("far", "all"))):
            means = [summary[key][f"{buffers}_to_{to}"] for buffers in table.KINDS for to in ("best", "default")]
            self.assertIn(" | ".join([f"| {title}", str(summary[key]["cells"]), *(f"{mean:.2f}" for mean in means)]), page)
        for title, mode in (("any cell, in a loop", "loop"), ("any cell, a barrier before each", "barrier")):
            words = [f"| {title}"]
            for buffers, lowest in (("private", "0.95"), ("heap", "1.0")):
                entries = [summary[regime, mode] for regime in ("near", "far")]
                words += [lowest, *(f"{entry[f'{buffers}_below']} of {entry[f'{buffers}_cells']} below" for entry in entries)]
            self.assertIn(" | ".join(words), page)


class Picture(unittest.TestCase):
    def test_is_well_formed_and_holds_every_point(self):
        table = whole_table()
        rows = []
        for cell in table:
            times = 1 + math.sin(cell.bytes + cell.ranks) / 2
            runs = [run_of(sides.PRIVATE, 0, "near", {cell: 1}), run_of(UCX, 1, "near", {cell: times})]
            rows += results.make_rows([cell], runs, {}, 2)
        svg = xml.dom.minidom.parseString(picture.draw(rows, FACTS))
        height = float(svg.documentElement.getAttribute("height"))
        for circle in svg.getElementsByTagName("circle"):
            self.assertTrue(0 < float(circle.getAttribute("cx")) < picture.WIDTH)
            self.assertTrue(0 < float(circle.getAttribute("cy")) < height)
        lines = svg.getElementsByTagName("polyline")
        self.assertEqual(len(lines), 3 * (len(cells.COLLECTIVES) - 1))
        self.assertEqual(min(len(line.getAttribute("points").split()) for line in lines), 13)

    def test_little_is_a_picture_too(self):
        for some in ([], [Cell("barrier", 0, 2, "loop")], [Cell("allreduce", 8, 2, "loop")]):
            runs = [run_of(sides.PRIVATE, 0, "near", {cell: 1 for cell in some}),
                    run_of(UCX, 1, "near", {cell: 1 for cell in some})]
            xml.dom.minidom.parseString(picture.draw(results.make_rows(some, runs, {}, 2), FACTS))

    def words_outside(self, text):
        """Returns texts that are cut at the left or right if a letter is 0.56 of the font size wide, as a digit is."""
        found = []
        svg = xml.dom.minidom.parseString(text)
        for node in svg.getElementsByTagName("text"):
            words, x = node.firstChild.data, float(node.getAttribute("x"))
            width = 0.56 * float(node.getAttribute("font-size")) * len(words)
            begin = x - {"start": 0, "middle": width / 2, "end": width}[node.getAttribute("text-anchor")]
            if begin < 0 or begin + width > float(svg.documentElement.getAttribute("width")):
                found.append(words)
        return found

    def test_no_words_are_cut(self):
        cell = Cell("allreduce", 8, 2, "loop")
        long = {**FACTS, "cpu": "Some Vendor(R) Long Name(TM) Platinum 9999X CPU @ 2.70GHz, stepping 3",
                "peers": ["Open MPI 4.1.4", "MPICH 4.0.2", "Gloo 0.0~git20220518.5b14351-3"]}
        for ratio in (1 / 5000, 1 / 20, 1, 20, 5000):
            runs = [run_of(sides.PRIVATE, 0, "near", {cell: 1}), run_of(UCX, 1, "near", {cell: ratio})]
            for facts in (FACTS, long):
                svg = picture.draw(results.make_rows([cell], runs, {}, 2), facts)
                self.assertEqual(self.words_outside(svg), [], f"ratio {ratio}")

    def test_no_words_are_cut_in_the_documents(self):
        with open(os.path.join(SOURCE, "docs", "performance.svg"), encoding="utf-8") as file:
            self.assertEqual(self.words_outside(file.read()), [])

    def test_rooted_ones_are_shown_with_a_barrier(self):
        self.assertTrue(picture.shown_mode(Cell("gather", 8, 2, "barrier")))
        self.assertFalse(picture.shown_mode(Cell("gather", 8, 2, "loop")))
        self.assertTrue(picture.shown_mode(Cell("allreduce", 8, 2, "loop")))


class Hosts(unittest.TestCase):
    """Several hosts, without hosts."""

    def found(self, times, wires=None, shape="none", layout="2x1", hung=()):
        """times: [(side, round, {bytes: us})]"""
        ranks = hosts.ranks_of(hosts.parse_layouts(layout)[0])

        def cell(count):
            return Cell("allreduce", count, ranks, "single" if count >= cells.SINGLE_BYTES else "loop")

        runs = [run_of(side, position, "near", {cell(count): us for count, us in by_bytes.items()}, turn)
                for position, (side, turn, by_bytes) in enumerate(times)]
        wanted = sorted({cell for run in runs for cell in run.times_us})
        rows = [row for row in results.make_rows(wanted, runs, {}, 2) if row.regime == "any"]
        return {(shape, layout): bars.Found(rows, runs, dict(hung), wires or {})}

    def setting(self, name):
        return next(side for side in hosts.SETTINGS if side.name == name)

    def test_layouts(self):
        self.assertEqual(hosts.parse_layouts("2x1,4x2,2x1"), [hosts.Layout(2, 1), hosts.Layout(4, 2)])
        for text in ("", "2", "1x2", "2x0", "2x1,", "axb", "2x1x1"):
            self.assertRaises(sides.Failure, hosts.parse_layouts, text)

    def test_the_worst_size_in_the_best_setting_counts(self):
        times = [(sides.PRIVATE, 0, {8: 11, 1024: 20, 2048: 900}), (self.setting("openmpi:tcp"), 0, {8: 10, 1024: 10, 2048: 10}),
                 (self.setting("openmpi:yield"), 0, {8: 5, 1024: 19, 2048: 9}), (GLOO, 0, {8: 1, 1024: 1})]
        for limit, met in ((2.3, "yes"), (2.1, "no")):
            verdict = bars.judge(bars.Bar(8, 1024, "2x1", limit), self.found(times))
            self.assertEqual((verdict.met, verdict.measured), (met, "2.20 (8, Open MPI; of 8,1K)"))
        verdict = bars.judge(bars.Bar(8, 1024, "2x1", 2.3, ("openmpi", "gloo")), self.found(times))
        self.assertEqual((verdict.met, verdict.measured), ("no", "20.00 (1K, Gloo; of 8,1K)"))

    def test_ratios_are_medians_of_rounds(self):
        times = [row for turn, (ours, theirs) in enumerate(((1, 2), (4, 1), (3, 3)))
                 for row in ((sides.PRIVATE, turn, {8: ours}), (self.setting("openmpi:tcp"), turn, {8: theirs}))]
        self.assertEqual(bars.judge(bars.Bar(8, 8, "2x1", 1), self.found(times)).measured, "1.00 (8, Open MPI; of 8)")

    def test_what_is_not_known_is_not_met(self):
        bar = bars.Bar(8, 1024, "2x1", 1.1)
        self.assertEqual(bars.judge(bar, {}).met, "not measured")
        self.assertEqual(bars.judge(bar, self.found([(sides.PRIVATE, 0, {4096: 1})])).met, "not measured")
        alone = self.found([(sides.PRIVATE, 0, {8: 1, 1024: 1}), (self.setting("openmpi:tcp"), 0, {8: 1})])
        verdict = bars.judge(bar, alone)
        self.assertEqual((verdict.met, verdict.measured), ("open", "1.00 (8, Open MPI; of 8,1K); no result: 1K, Open MPI"))
        self.assertEqual(bars.judge_cpu({"openmpi:tcp": [1]}).met, "not measured")
        self.assertEqual(bars.judge_late({}, 100).met, "not measured")

    def test_shaped_links(self):
        # 4 hosts: 1.5 x 16 MiB leave each; 1 Gbit/s moves them in 201.3 ms.
        count = 16 << 20
        for ms, met in ((150, "open"), (210, "yes"), (225, "no")):
            found = self.found([(sides.PRIVATE, turn, {count: ms * 1000}) for turn in range(2)], dict.fromkeys((0, 1), (1e8, 1e9)),
                               "1gbit", "4x1")
            self.assertEqual(bars.judge_wire("1gbit", "4x1", count, found).met, met)
        self.assertEqual(bars.judge_wire("1gbit", "4x1", count, found).measured, "1/0.89 (iperf3: 1000 and 100 Mbit/s)")
        # Each round counts with the rate of its own link; a round without one does not count.
        times = [(sides.PRIVATE, 0, {count: 201326}), (sides.PRIVATE, 1, {count: 402653}), (sides.PRIVATE, 2, {count: 1})]
        found = self.found(times, {0: (1e9, 9e8), 1: (5e8, 1e8), 2: None}, "1gbit", "4x1")["1gbit", "4x1"]
        shares = bars.wire_times(found, hosts.Layout(4, 1), count)
        self.assertEqual([round(share, 4) for share in shares], [1, 1])
        lacking = self.found(times[:1], {0: None}, "1gbit", "4x1")
        verdict = bars.judge_wire("1gbit", "4x1", count, lacking)
        self.assertEqual((verdict.met, verdict.measured), ("not measured", "no result of iperf3"))

    def test_a_flat_plan_beside(self):
        found = self.found([(sides.PRIVATE, 0, {4 << 20: 50}), (hosts.FLAT, 0, {4 << 20: 100})], shape="100mbit", layout="2x2")
        bar = next(bar for bar in bars.BARS if bar.peers == ("flat",))
        verdict = bars.judge(bar, found)
        self.assertEqual((verdict.met, verdict.measured), ("yes", "0.50 (4M, flat direct; of 4M)"))

    def test_cpu(self):
        cpu = {"tutti:private": [60, 70, 900], "openmpi:tcp": [200], "openmpi:malloc": [100], "gloo:default": [1]}
        self.assertEqual((bars.judge_cpu(cpu).measured, bars.judge_cpu(cpu).met), ("0.70", "yes"))
        cpu["openmpi:malloc"] = [99]
        self.assertEqual(bars.judge_cpu(cpu).met, "no")
        for us, met in ((1000, "yes"), (1100, "no")):
            self.assertEqual(bars.judge_late({"tutti:private": [us]}, 100).met, met)
        self.assertEqual(bars.judge_late({"tutti:private": [1]}, 50).met, "not measured")

    def test_rates(self):
        end = {"sum_received": {"bits_per_second": 9e8}, "sum_received_bidir_reverse": {"bits_per_second": 8e8}}
        self.assertEqual(hosts.read_rates(json.dumps({"end": end})), [9e8, 8e8])
        for text in ("", '{"error": "unable to connect"}', '{"end": {}}'):
            self.assertIsNone(hosts.read_rates(text))

    def test_every_peer_is_kept(self):
        one, peers = Cell("allreduce", 8, 2, "loop"), [self.setting(name) for name in ("openmpi:tcp", "openmpi:yield", "mpich:ucx")]
        ratios = dict(zip(peers, ({one: 1}, {one: 2}, {one: 50})))
        options = types.SimpleNamespace(verbose=False)
        kept = hosts.HostsMeasurer(None, None, options, "none").keep(peers, [one], ratios)
        self.assertEqual([side.name for side in kept], ["openmpi:tcp", "mpich:ucx"])

    def test_tables(self):
        found = self.found([(sides.PRIVATE, 0, {8: 11}), (self.setting("openmpi:yield"), 0, {8: 10})],
                           hung={("mpich:ucx", Cell("allreduce", 8, 2, "loop")): "wrong results"}.items())
        text = bars.format_times("none", found, ["openmpi", "mpich"])
        self.assertIn("| 2x1 | allreduce | 8 | 11.0 | 10.0 | yield | 1.10 | wrong results |  |  |", text)
        data = json.loads(report.hosts_as_json({}, found, {}, {}, bars.judge_all(found, {}, {}, 100)))
        self.assertEqual(len(data["tables"][0]["runs"]), 2)
        self.assertEqual({bar["met"] for bar in data["bars"]}, {"yes", "not measured"})
        self.assertEqual(len(data["bars"]), len(bars.format_verdicts(bars.judge_all(found, {}, {}, 100)).splitlines()) - 2)


class Busy(unittest.TestCase):
    """Beside other programs, without programs."""
    one, two = Cell("allreduce", 8, 2, "loop"), Cell("gather", 1 << 20, 4, "single")

    def found(self):
        """Beside load 0 both cells are ahead; beside the pool, the first is behind Open MPI, and ahead of Gloo."""
        found = {}
        for load, theirs in (("0", 20), ("pool", 5)):
            runs = []
            for turn in range(5):
                runs += [run_of(sides.PRIVATE, 0, "any", {self.one: 10, self.two: 10}, turn),
                         run_of(OPENMPI, 1, "any", {self.one: theirs, self.two: 20}, turn),
                         run_of(GLOO, 2, "any", {self.one: 80, self.two: 5 if turn == 4 else 80}, turn)]
            hung = {("gloo:bcube", self.one): "wrong results"}
            found[load] = busy.Found(runs, hung, results.make_rows([self.one, self.two], runs, hung, 2))
        return found

    def test_loads(self):
        self.assertEqual(busy.parse_loads("0,1,pool,2,01,pool"), ["0", "1", "pool", "2"])
        for text in ("", "1,", "-1", "1.5", "100", "pools", "\u00b2"):
            with self.assertRaises(sides.Failure, msg=text) as caught:
                busy.parse_loads(text)
            self.assertIn(f"found '{text.split(',')[-1]}'", str(caught.exception))
        self.assertEqual([busy.loops_of(load) for load in ("0", "2", "pool")], [[], [None, None], []])

    def test_all_sides_get_the_same_load(self):
        machine = sides.Machine(SOURCE, BUILD)
        machine.launchers = {"openmpi": "mpirun", "mpich": "mpirun"}
        machine.help, machine.make_scratch = "", lambda: None
        machine.scratch = "meet"
        options = types.SimpleNamespace(verbose=False, time_ms=1)
        block = cells.Block([self.one], 2, "loop")
        for load, pool in (("1", []), ("pool", ["--pool", str(sides.cpu_count())])):
            measurer = busy.BusyMeasurer(machine, options, load, io.StringIO())
            for side in (sides.PRIVATE, OPENMPI, GLOO, sides.by_name("mpich:default")):
                arguments = measurer._arguments(side, block, block.cells)
                self.assertEqual(arguments[arguments.index("--time-ms") + 2:], pool)
                command, _ = machine.command(side, 2, arguments)
                bound = load != "pool" and sides.cpu_count() >= 2 and side != GLOO
                self.assertEqual("core" in command, bound, command)

    def test_the_mean_of_the_samples_counts(self):
        line = json.dumps({"collective": "allreduce", "bytes": 8, "ranks": 2, "time_us": 1, "time_us_mean": 3, "wrong": 0})
        machine = types.SimpleNamespace(command=lambda *_: (["echo", line], {}), clean=lambda: None)
        options = types.SimpleNamespace(cell_limit_s=30, start_limit_s=60, time_ms=1, verbose=False, rounds=1, heap=False,
                                        keep_all=False)
        runs = busy.BusyMeasurer(machine, options, "2", io.StringIO()).measure_block(cells.Block([self.one], 2, "loop"), [OPENMPI])
        self.assertEqual([(run.regime, run.times_us) for run in runs], [("any", {self.one: 3})] * 3)

    def test_text(self):
        text = busy.format_all(FACTS, self.found(), ["openmpi", "gloo"])
        self.assertIn("MPICH is left out", text)
        self.assertNotIn("MPICH is", busy.format_head({**FACTS, "peers": ["MPICH 4"]}))
        lines = [[word.strip() for word in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
        self.assertEqual(lines[0], ["load", "ranks", "cells", "behind", "mean to the best", "to Open MPI", "to Gloo", "lowest"])
        self.assertEqual([" ".join(line) for line in lines[2:]], [
            "0 2 1 0 2.00 2.00 8.00 2.00", "0 4 1 0 2.00 2.00 8.00 2.00", "0 all 2 0 2.00 2.00 8.00 2.00",
            "pool 2 1 1 0.50 0.50 8.00 0.50", "pool 4 1 0 2.00 2.00 8.00 2.00", "pool all 2 1 1.00 1.00 8.00 0.50"])
        self.assertIn("load 0: 0 of 2 cells are behind", text)
        self.assertIn("load pool: 1 of 2 cells are behind", text)
        self.assertIn("\nallreduce 8, 2 ranks, loop: 0.50 (0.50..0.50; 5 of 5 rounds), openmpi:default", text)

    def test_table_and_json(self):
        text = busy.as_table({**FACTS, "measured": "today"}, self.found())
        self.assertIn("# note: load pool: allreduce 8, 2 ranks, loop: gloo:bcube: wrong results\n", text)
        names, *lines = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(names, busy.COLUMNS)
        self.assertEqual(lines[2], ["pool", "allreduce", "8", "2", "loop", "0.50", "5", "5", "openmpi:default", "10.000", "5.000",
                                    "openmpi:default"])
        self.assertEqual([(line[0], line[1], line[6], line[7], line[8]) for line in lines[::3]],
                         [("0", "allreduce", "5", "0", ""), ("pool", "gather", "5", "0", "")])
        self.assertRaises(sides.Failure, table.read, text, "FILE")
        data = report.busy_as_json(FACTS, self.found())
        loads = json.loads(data)["loads"]
        self.assertEqual([(its["load"], len(its["cells"]), len(its["runs"]), len(its["hung"])) for its in loads],
                         [("0", 2, 15, 1), ("pool", 2, 15, 1)])
        self.assertEqual([cell["behind"] for its in loads for cell in its["cells"]], [None, None, "openmpi:default", None])
        self.assertRaises(sides.Failure, report.read_json, data, 0)

    def test_usage(self):
        tool = os.path.join(SOURCE, "tools/bench-peers")
        for arguments, facts in (("--busy fast", ("--busy", "0 to 99, or pool", "'fast'")), ("--busy 1 --late", ("--busy", "--late")),
                                 ("--busy 1 --hosts 2x1", ("--hosts", "one host")), ("--busy 1 --read x", ("--busy", "--read")),
                                 ("--busy 1 --svg x", ("--busy", "--svg")), ("--busy 1 --peers lam", ("'lam'", ":ucx+yield")),
                                 ("--peers openmpi:yield", ("'openmpi:yield'",))):
            done = subprocess.run([sys.executable, tool, BUILD, *arguments.split()], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            for fact in facts:
                self.assertIn(fact, done.stderr)
            self.assertNotIn("Traceback", done.stderr)


class Loops(unittest.TestCase):
    """The endless loops that stand for other programs."""

    def test_they_run_and_are_ended(self):
        cpu = min(os.sched_getaffinity(0))
        for error in (None, ValueError, KeyboardInterrupt):
            try:
                with bench_load.loops([None, [cpu]]) as started:
                    pids = [loop.pid for loop in started]
                    bench_load.check(started)
                    self.assertEqual(os.sched_getaffinity(pids[0]), os.sched_getaffinity(0))
                    self.assertEqual(os.sched_getaffinity(pids[1]), {cpu})
                    self.assertNotIn(os.getpgid(0), [os.getpgid(pid) for pid in pids])  # Ctrl-C does not reach them
                    if error:
                        raise error
            except (ValueError, KeyboardInterrupt):
                pass
            self.assertEqual([is_gone(pid) for pid in pids], [True, True])

    def test_a_loop_that_ends_early_is_reported(self):
        with bench_load.loops([None]) as started:
            started[0].kill()
            started[0].wait()
            with self.assertRaises(bench_load.LoadError) as caught:
                bench_load.check(started)
        self.assertIn(str(started[0].pid), str(caught.exception))

    def test_they_end_with_a_tool_that_is_killed(self):
        code = ("import bench_load\nwith bench_load.loops([None, None]) as started:\n"
                "    print(*(loop.pid for loop in started), flush=True)\n    input()")
        tool = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": os.path.join(SOURCE, "tools"), "PYTHONDONTWRITEBYTECODE": "1"})
        pids = tool.stdout.readline().split()
        tool.kill()
        tool.communicate()
        self.assertEqual([is_gone(pid) for pid in pids], [True, True])


class Command(unittest.TestCase):
    def test_usage(self):
        tool = os.path.join(SOURCE, "tools/bench-peers")
        for arguments, fact in (("--peers lam", "'lam'"), ("--sizes 8T", "'8T'"), ("--ranks 1", "--ranks of 2"),
                                ("--collectives allreduc", "'allreduc'"), ("--modes fast", "'fast'"),
                                ("--hosts 2x1,1x4", "'1x4'"), ("--hosts 2x1 --shape 5gbit", "'5gbit'"),
                                ("--hosts 2x1 --peers openmpi:ucx", "'openmpi:ucx'"), ("--hosts 2x1 --ranks 2", "--ranks"),
                                ("--shape 1gbit", "--hosts")):
            done = subprocess.run([sys.executable, tool, BUILD, *arguments.split()], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(fact, done.stderr)
        done = subprocess.run([sys.executable, tool, "/no/such/folder"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("make", done.stderr)


if __name__ == "__main__":
    outcome = unittest.main(argv=sys.argv[:1], exit=False).result
    bad = len(outcome.failures) + len(outcome.errors)
    print(f"{outcome.testsRun - bad} passed, {bad} failed")
    sys.exit(bad > 0)
