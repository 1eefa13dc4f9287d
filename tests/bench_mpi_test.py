"""bench_mpi_test.py SOURCE BUILD: tests tools/bench-mpi without an MPI: in which order the sides of a cell are measured,
which rounds are dropped, what happens if a job hangs, and how the times are judged; and error messages."""
import contextlib
import json
import os
import subprocess
import sys
import types
import unittest

sys.dont_write_bytecode = True
SOURCE = sys.argv[1] if len(sys.argv) > 1 else "."
sys.path[:0] = [os.path.join(SOURCE, "bench"), os.path.join(SOURCE, "tools")]
import bench_pages  # noqa: E402
import mpi_door as bench  # noqa: E402

Cell = bench.Cell


def options_of(rounds, again=0):
    return types.SimpleNamespace(rounds=rounds, time_ms=20, again=again)


OPTIONS = options_of(3)
BARE, DOOR = bench.WITHOUT, bench.WITH


def cell(collective="allreduce", count=8, mpi="openmpi", ranks=2, form="blocking"):
    return Cell(mpi, ranks, form, collective, count)


class Jobs:
    """Starts jobs in which a call takes as many us as `us` has for the side. hangs: numbers of measurements that fail."""

    def __init__(self, us, wrong=(), hangs=()):
        self.us, self.wrong, self.hangs = us, wrong, hangs
        self.started, self.measured, self.ended = [], [], []

    def __call__(self, mpi, ranks, side):
        self.started.append((mpi, ranks, side))

        def measure(which, time_ms, check):
            self.measured.append((side, which.collective, check))
            if len(self.measured) in self.hangs:
                raise bench.Failure("no answer")
            return self.us[side], side not in self.wrong or not check

        def end(kill=False):
            self.ended.append((side, kill))
            return f"said {side}\n" if kill else ""

        return types.SimpleNamespace(measure=measure, end=end)


class Ping:
    def __init__(self, *latencies_ns):
        self.left = list(latencies_ns)

    def latency_ns(self):
        return self.left.pop(0)


def row(*pairs, **words):
    """Returns a row with the times without and with the door of each round."""
    return bench.Row(cell(**words), {BARE: [bare for bare, _ in pairs], DOOR: [door for _, door in pairs]})


def met(verdicts):
    return {f"{verdict.what}: {verdict.bar.split(' (')[0]}": verdict.met for verdict in verdicts}


class Rounds(unittest.TestCase):
    def test_sides_alternate(self):
        jobs = Jobs({BARE: 10, DOOR: 4})
        rows = bench.Runner(jobs, None, OPTIONS).measure_all([cell(), cell("barrier", 0)])
        self.assertEqual(rows[0].times_us, {BARE: [10] * 3, DOOR: [4] * 3})
        self.assertEqual(rows[0].ratio(), 2.5)
        order = [side for side, collective, _ in jobs.measured if collective == "allreduce"]
        self.assertEqual(order, [BARE, DOOR, DOOR, BARE, DOOR, BARE, BARE, DOOR, BARE, DOOR, DOOR, BARE])
        order = [side for side, collective, _ in jobs.measured if collective == "barrier"]
        self.assertEqual(order, [DOOR, BARE, BARE, DOOR, BARE, DOOR, DOOR, BARE, DOOR, BARE, BARE, DOOR])
        self.assertEqual([check for _, _, check in jobs.measured], [True, True, False, False] * 2 + [False] * 16)

    def test_time_of_a_round_is_the_mean(self):
        times = iter([10, 4, 8, 20, 1, 3, 5, 1])  # without, with, with, without; then the other way round
        jobs = Jobs({})
        start = lambda *which: types.SimpleNamespace(measure=lambda *order: (next(times), True), end=jobs(*which).end)
        found = bench.Runner(start, None, options_of(2)).measure_all([cell()])[0]
        self.assertEqual(found.times_us, {BARE: [15, 4], DOOR: [6, 1]})

    def test_long_calls_are_measured_longer(self):
        told = []
        measure = lambda which, time_ms, check: (told.append((which.bytes, time_ms)), (1, True))[1]
        start = lambda *which: types.SimpleNamespace(measure=measure, end=lambda kill=False: "")
        bench.Runner(start, None, options_of(1)).measure_all([cell(count=(1 << 20) - 4), cell(count=1 << 20)])
        self.assertEqual(set(told), {((1 << 20) - 4, 10), (1 << 20, 30)})

    def test_each_round_has_jobs_of_its_own(self):
        jobs = Jobs({BARE: 10, DOOR: 4})
        bench.Runner(jobs, None, OPTIONS).measure_all([cell(), cell(ranks=4), cell("scan")])
        self.assertEqual(len(jobs.started), 2 * 2 * 3)
        self.assertEqual(len(jobs.ended), 12)
        self.assertEqual({name[:2] for name in jobs.started[:2]}, {("openmpi", 2)})

    def test_jobs_start_and_end_while_memory_is_taken(self):
        jobs, states = Jobs({BARE: 10, DOOR: 4}), []

        @contextlib.contextmanager
        def memory():
            states.append((len(jobs.started), len(jobs.ended)))
            yield
            states.append((len(jobs.started), len(jobs.ended)))

        bench.Runner(jobs, None, options_of(2), memory).measure_all([cell(), cell("scan")])
        self.assertEqual(states, [(0, 0), (2, 2), (2, 2), (4, 4)])

    def test_changed_regime(self):
        ping = Ping(50, 200, 200, 60, 60, 50, *[5000] * bench.TRIES)
        # The first attempt is dropped, as the latency changes; in the third round, all are.
        found = bench.Runner(Jobs({BARE: 10, DOOR: 4}), ping, OPTIONS).measure_all([cell()])[0]
        self.assertEqual((len(found.ratios()), found.dropped), (2, 1 + bench.TRIES))

    def test_wrong_results(self):
        found = bench.Runner(Jobs({BARE: 1, DOOR: 1}, wrong=[DOOR]), None, OPTIONS).measure_all([cell()])
        self.assertEqual(found[0].problems, ["wrong with the door"])
        self.assertEqual(bench.judge_right(found).met, "no")

    def test_hang(self):
        jobs = Jobs({BARE: 10, DOOR: 4}, hangs=[1])
        runner = bench.Runner(jobs, None, OPTIONS)
        rows = runner.measure_all([cell(), cell("scan")])
        self.assertEqual([len(each.ratios()) for each in rows], [2, 3])
        self.assertEqual(rows[0].problems, ["no answer"])
        self.assertIn((BARE, True), jobs.ended)
        self.assertEqual(runner.notes, {"said without"})

    def test_cell_that_always_hangs_is_given_up(self):
        jobs = Jobs({BARE: 10, DOOR: 4}, hangs=range(100))
        rows = bench.Runner(jobs, None, OPTIONS).measure_all([cell()])
        self.assertEqual((len(jobs.measured), len(rows[0].problems)), (2, 2))

    def test_cells_that_look_slower_are_measured_again(self):
        for later_us, bad in ((2, True), (1.06, True), (1.01, False), (0.5, False)):
            jobs = Jobs({BARE: 1, DOOR: 2})
            told = []
            runner = bench.Runner(jobs, None, options_of(2, again=3))

            def tell(sentence):
                told.append(sentence)
                if sentence.startswith("again: round 1 "):
                    jobs.us = {BARE: 1, DOOR: later_us}

            rows = runner.measure_all([cell(), cell("scan", ranks=4)], tell)
            self.assertEqual([len(each.again.ratios()) for each in rows], [6, 6])
            self.assertEqual([each.is_bad() for each in rows], [bad] * 2)
            self.assertEqual((len(jobs.started), len(jobs.ended)), (2 * 2 * (2 + 6),) * 2)
            self.assertEqual(told[-2], "again: round 6 of 6: scan 8, blocking, Open MPI, 4 ranks")

    def test_others_are_not_measured_again(self):
        jobs = Jobs({BARE: 2, DOOR: 2})
        self.assertIsNone(bench.Runner(jobs, None, options_of(2, again=3)).measure_all([cell()])[0].again)
        jobs = Jobs({BARE: 1, DOOR: 2})
        found = bench.Runner(jobs, None, options_of(2, again=0)).measure_all([cell()])[0]
        self.assertEqual((found.again, found.is_bad()), (None, True))

    def test_cells(self):
        found = bench.list_cells(["mpich"], [4], ["blocking"], ["scan", "barrier"], [8, 64])
        self.assertEqual([tuple(each) for each in found], [("mpich", 4, "blocking", *rest) for rest in (
            ("scan", 8), ("scan", 64), ("barrier", 0))])


class Pages(unittest.TestCase):
    def test_bytes(self):
        most = bench_pages.CPU_BYTES
        self.assertEqual(bench_pages.ballast_bytes(2, 100 * most), most)
        self.assertEqual(bench_pages.ballast_bytes(2, 4 * most), most // 2)
        self.assertEqual(bench_pages.ballast_bytes(3, 12 * 4096 + 5), 4096)

    def test_pages_are_taken_until_the_end(self):
        def resident_bytes():
            with open("/proc/self/statm", encoding="ascii") as line:
                return int(line.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        cpus, size = os.sched_getaffinity(0), 64 << 20
        before = resident_bytes()
        with bench_pages.fresh(size):
            taken = resident_bytes() - before
            self.assertGreater(taken, 0.9 * len(cpus) * bench_pages.ballast_bytes(len(cpus), bench_pages.available_bytes(), size))
            self.assertEqual(os.sched_getaffinity(0), cpus)
        self.assertLess(resident_bytes() - before, 0.1 * taken)


class Bars(unittest.TestCase):
    def test_bad_cell(self):
        slow, fast, close = (1, 2), (2, 1), (0.96, 1)
        for pairs, bad in (([slow] * 5, True), ([slow] * 4 + [fast], True), ([slow] * 3 + [fast] * 2, False),
                           ([close] * 5, False), ([close] * 2 + [slow] * 3, True), ([fast] * 5, False), ([], False)):
            self.assertEqual(row(*pairs).is_bad(), bad, pairs)

    def test_bad_again(self):
        for pairs, bad in (([(1, 2)], True), ([(2, 1)], False), ([], True)):
            found = row((1, 2))
            found.again = row(*pairs)
            self.assertEqual(found.is_bad(), bad)
            verdict = bench.judge_cells("block", [found, row((2, 1))])
            self.assertEqual((verdict.measured, verdict.met),
                             (f"{int(bad)} of 2 cells (1 measured again)", "no" if bad else "yes"))

    def test_wrong_results_of_the_second_measurement(self):
        found = row((1, 2))
        found.again = row((2, 1))
        found.again.problems.append("wrong with the door")
        self.assertEqual(bench.judge_right([found]).met, "no")

    def test_same_on_both_sides(self):
        verdicts = bench.judge([row((1, 1)), row((1, 1), form="nonblocking")], 2, same=True)
        self.assertEqual([verdict.met for verdict in verdicts], ["yes"] * 3)

    def test_median_of_ratios(self):
        self.assertEqual(row((10, 1), (100, 90), (1000, 100)).ratio(), 10)

    def test_means(self):
        rows = [row((8, 1)), row((1, 1), collective="scan"), row((2, 1), form="nonblocking"), row((1.2, 1), mpi="mpich")]
        found = met(bench.judge(rows, 2))
        self.assertEqual(found["Open MPI, 2 ranks, blocking: geometric mean >= 1.3"], "yes")
        self.assertEqual(found["Open MPI, all cells: geometric mean >= 2"], "yes")
        self.assertEqual(found["MPICH, 2 ranks, blocking: geometric mean >= 1.3"], "no")
        self.assertAlmostEqual(bench.mean([8, 1, 2]), 16 ** (1 / 3))
        self.assertEqual(len(found), 1 + 3 * 2 + 1)

    def test_mean_is_of_counted_cells(self):
        rows = [row((1, 1)), row((100, 1), mpi="mpich", ranks=4)]
        verdicts = bench.judge(rows, 2)
        self.assertNotIn("MPICH", " ".join(verdict.what for verdict in verdicts))
        self.assertIn("MPICH", " ".join(verdict.what for verdict in bench.judge(rows, 4)))
        self.assertIn("(not counted)", bench.format_all(rows, 2))

    def test_missed(self):
        rows = [row((10, 1)), row((1, 2), collective="scan")]
        verdicts = bench.judge(rows, 2)
        self.assertEqual(bench.missed(verdicts), 1)
        self.assertEqual(bench.format_end(verdicts), "1 of 4 bars missed")
        self.assertEqual(bench.format_end(bench.judge(rows[:1], 2)), "all bars met")

    def test_missing_cell(self):
        rows = [row((10, 1)), bench.Row(cell("scan"))]
        verdicts = bench.judge(rows, 2)
        self.assertEqual([verdict.met for verdict in verdicts], ["yes", "open", "yes", "yes"])
        self.assertEqual(bench.missed(verdicts), 1)


class Text(unittest.TestCase):
    def words(self, line):
        return [word.strip() for word in line.split("|")[1:-1]]

    def test_table(self):
        rows = [row((10, 4)), row((1, 2), count=1 << 20), row((9, 1), collective="barrier", count=0), bench.Row(cell("scan"))]
        lines = bench.format_block(bench.block_of(rows[0].cell), rows, 2).splitlines()
        self.assertEqual(lines[0], "Open MPI, 2 ranks, blocking: geometric mean 2.24")
        self.assertEqual(list(map(self.words, lines[2:])), [
            ["collective", "8", "1M", "mean"], ["---"] * 4, ["allreduce", "2.50", "**0.50**", "1.12"],
            ["barrier", "9.00", "", "9.00"], ["scan", "?", "", "?"]])

    def test_slow_cells(self):
        rows = [row((1, 2)), row((1, 4), collective="scan"), row((2, 1), count=64), row((1, 8), collective="reduce")]
        rows[3].again = row((3, 1), (1, 1))
        lines = bench.format_slow(rows, 2).splitlines()
        self.assertEqual(self.words(lines[2]), ["scan 8, blocking, Open MPI, 2 ranks", "1.00", "4.00", "0.25", "0.25 to 0.25",
                                                "1 of 1", "", "", "", "", "", "yes"])
        self.assertEqual(self.words(lines[4])[5:], ["1 of 1", "2.00", "1.00", "2.00", "1.00 to 3.00", "0 of 2", "no"])
        self.assertEqual(len(lines), 5)
        self.assertEqual(bench.format_slow(rows[2:3], 2), "No cell that counts is slower with the door.")

    def test_cost(self):
        found = {("mpich", 1): {"barrier": {"without": 3, "with": 71.4, "tutti": 64}}}
        self.assertEqual(self.words(bench.format_cost(found).splitlines()[2]), ["MPICH", "1", "barrier", "3", "71", "64", "7"])

    def test_json(self):
        rows = [row((1, 2))]
        found = json.loads(bench.as_json(rows, bench.judge(rows, 2)))
        self.assertEqual(found["cells"][0]["times_us"], {"without": [1], "with": [2]})
        self.assertIsNone(found["cells"][0]["times_again_us"])
        rows[0].again = row((3, 4))
        found = json.loads(bench.as_json(rows, bench.judge(rows, 2)))
        self.assertEqual(found["cells"][0]["times_again_us"], {"without": [3], "with": [4]})


class Command(unittest.TestCase):
    def test_command_line(self):
        install = bench.Install("/run", "/build")
        line = " ".join(bench.command_line(install, "openmpi", 1000, "program", True))
        self.assertEqual(line, "mpirun.openmpi -n 1000 --oversubscribe -x LD_PRELOAD=/build/libtutti_mpi_openmpi.so "
                               "/run/program.openmpi")
        line = " ".join(bench.command_line(install, "mpich", 1, "program", True, ["word"]))
        self.assertEqual(line, "mpirun.mpich -n 1 -genv LD_PRELOAD /build/libtutti_mpi_mpich.so /run/program.mpich word")
        self.assertNotIn("LD_PRELOAD", " ".join(bench.command_line(install, "mpich", 1, "program", False)))

    def test_usage(self):
        tool = os.path.join(SOURCE, "tools/bench-mpi")
        for arguments, fact in (("--collectives gossip", "'gossip'"), ("--sizes 8T", "'8T'"), ("--ranks 1", "--ranks of 2"),
                                ("--rounds 0", "--rounds of 1"), ("--again -1", "--again of 0"), ("--mpi lam", "'lam'"),
                                ("--forms persistent", "'persistent'"),
                                ("--build /nowhere", "/nowhere/libtutti_mpi_openmpi.so")):
            done = subprocess.run([sys.executable, tool, *arguments.split()], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(fact, done.stderr)


if __name__ == "__main__":
    outcome = unittest.main(argv=sys.argv[:1], exit=False).result
    bad = len(outcome.failures) + len(outcome.errors)
    print(f"{outcome.testsRun - bad} passed, {bad} failed")
    sys.exit(bad > 0)
