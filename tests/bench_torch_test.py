"""bench_torch_test.py SOURCE BUILD: tests tools/bench-torch without torch: in which order the sides of a cell are measured,
which rounds are dropped, and how the times are judged; and error messages."""
import os
import subprocess
import sys
import types
import unittest

sys.dont_write_bytecode = True
SOURCE = sys.argv[1] if len(sys.argv) > 1 else "."
sys.path[:0] = [os.path.join(SOURCE, "bench"), os.path.join(SOURCE, "tools")]
import torch_bench as bench  # noqa: E402

Cell = bench.Cell
OPTIONS = types.SimpleNamespace(rounds=3, time_ms=20)


class Job:
    """Two ranks. An operation takes as many us as `us` has for the side; one more on rank 1."""

    def __init__(self, us, right=True):
        self.us, self.right, self.orders = us, right, []

    def order(self, **words):
        self.orders.append(words)
        return [{"us": [(self.us[words["side"]] + rank) * words["batch"]] * words["samples"], "right": self.right}
                for rank in (0, 1)]


class Ping:
    def __init__(self, *latencies_ns):
        self.left = list(latencies_ns)

    def latency_ns(self):
        return self.left.pop(0)


def row(collective, count, *pairs, memory_us=None, wrong=()):
    """Returns a row with the times of gloo and tutti of each round."""
    times = {bench.GLOO: [gloo for gloo, _ in pairs], bench.TUTTI: [tutti for _, tutti in pairs]}
    if memory_us:
        times[bench.MEMORY] = [memory_us] * len(pairs)
    return bench.Row(Cell(collective, count, 2), times, 0, set(wrong))


def met(verdicts):
    return {f"{verdict.what}, {verdict.bar.split(' <=')[0]}": verdict.met for verdict in verdicts}


class Rounds(unittest.TestCase):
    def test_sides_alternate(self):
        job = Job({"gloo": 99, "tutti": 9})
        found = bench.Runner(job, None, OPTIONS, False).measure_all([Cell("allreduce", 8, 2)])[0]
        self.assertEqual(found.times_us, {"gloo": [100] * 3, "tutti": [10] * 3})
        self.assertAlmostEqual(found.ratio(), 0.1)
        measured = [order["side"] for order in job.orders if order["batch"] > 1]
        self.assertEqual(measured, ["gloo", "tutti", "tutti", "gloo", "gloo", "tutti"])
        self.assertEqual([order["batch"] for order in job.orders[:4]], [1, 40, 1, 400])

    def test_long_vectors_are_single(self):
        job = Job({"gloo": 999, "tutti": 99999, "tutti memory": 9})
        found = bench.Runner(job, None, OPTIONS, True).measure_all([Cell("allreduce", 1 << 20, 2), Cell("barrier", 0, 2)])
        self.assertEqual({(order["single"], order["batch"]) for order in job.orders if order["cell"][1]}, {(True, 1)})
        self.assertEqual({order["samples"] for order in job.orders if order["cell"][1]}, {3, 20, 30})
        self.assertEqual([sorted(each.times_us) for each in found], [["gloo", "tutti", "tutti memory"], ["gloo", "tutti"]])

    def test_changed_regime(self):
        job = Job({"gloo": 99, "tutti": 9})
        # The first attempt is dropped, as the latency changes; in the third round, all are.
        ping = Ping(50, 200, 200, 60, 60, 50, *[5000] * bench.TRIES)
        found = bench.Runner(job, ping, OPTIONS, False).measure_all([Cell("allreduce", 8, 2)])[0]
        self.assertEqual((len(found.ratios()), found.dropped), (2, 1 + bench.TRIES))
        self.assertEqual(ping.left, [])

    def test_wrong_results(self):
        found = bench.Runner(Job({"gloo": 9, "tutti": 9}, False), None, OPTIONS, False).measure_all([Cell("allreduce", 8, 2)])
        self.assertEqual(found[0].wrong, {"gloo", "tutti"})

    def test_cells(self):
        found = bench.list_cells(["allgather_list", "barrier", "broadcast"], [8, 64], 4)
        self.assertEqual([tuple(cell) for cell in found], [("allgather_list", 16, 4), ("allgather_list", 64, 4), ("barrier", 0, 4),
                                                           ("broadcast", 8, 4), ("broadcast", 64, 4)])


class Bars(unittest.TestCase):
    def test_one_host(self):
        rows = [row("allreduce", 8, (10, 1)), row("barrier", 0, (10, 2.4)), row("allreduce", 1 << 20, (10, 4), memory_us=2)]
        self.assertEqual(met(bench.judge(rows, "here", True)), {
            "results, all right": "yes", "to 16K, each cell": "yes", "to 16K, geometric mean": "no",
            "above 16K, each cell": "yes", "above 16K, geometric mean": "no", "above 16K, memory of tutti, geometric mean": "yes"})
        rows[1] = row("barrier", 0, (10, 2.6), wrong=["tutti"])
        found = met(bench.judge(rows, "here", False))
        self.assertEqual((found["results, all right"], found["to 16K, each cell"]), ("no", "no"))

    def test_median_of_ratios(self):
        self.assertEqual(row("allreduce", 8, (10, 1), (100, 90), (1000, 100)).ratio(), 0.1)

    def test_missing_cell(self):
        rows = [row("allreduce", 8, (10, 1)), bench.Row(Cell("allreduce", 64, 2))]
        self.assertEqual(met(bench.judge(rows, "here", False))["to 16K, each cell"], "open")
        self.assertEqual(met(bench.judge(rows, "load", False))["beside other programs, no cell slower in 5 of 7 rounds"], "no")
        self.assertIn("no steady round", bench.format_rows(rows, "here", False))

    def test_hosts(self):
        for size, limit in ((64 << 10, 1 / 3), (1 << 20, 0.8), (64 << 20, 1.1)):
            for ratio, verdict in ((limit - 0.01, "yes"), (limit + 0.01, "no")):
                found = [v.met for v in bench.judge([row("allreduce", size, (1, ratio))], "hosts", False) if "cell" in v.bar]
                self.assertEqual(found, [verdict])

    def test_load(self):
        fast, slow = (2, 1), (1, 2)
        for slower, verdict in ((4, "yes"), (5, "no")):
            rows = [row("allreduce", 8, *[slow] * slower, *[fast] * (7 - slower))]
            self.assertEqual(bench.judge_slower(rows).met, verdict)

    def test_losses(self):
        for other, verdict in ((1.0000001, "yes"), (1.01, "no")):
            training = bench.Training("mlp", 2, {}, {"gloo": [[2, 1], [2, 1]], "tutti": [[2, 1], [2, other]]}, [])
            self.assertEqual(bench.judge_training(training).met, verdict)

    def test_every_cell_has_a_line(self):
        rows = [row("allreduce", 8, (10, 4), (10, 1)), row("allreduce", 1 << 20, (1e4, 11), memory_us=1)]
        lines = bench.format_rows(rows, "here", True).splitlines()
        self.assertEqual([word.strip() for word in lines[2].split("|")[1:-1]],
                         ["allreduce", "8", "2", "10.0", "2.5", "0.250", "0.100 to 0.400", "0 of 2", "", "", "0.25"])
        self.assertEqual([word.strip() for word in lines[3].split("|")[9:-1]], ["1.0", "0.000", "0.5"])


class Command(unittest.TestCase):
    def test_usage(self):
        tool = os.path.join(SOURCE, "tools/bench-torch")
        for arguments, fact in (("--collectives gather", "'gather'"), ("--sizes 8T", "'8T'"), ("--ranks 1", "--ranks of 2"),
                                ("--rounds 0", "--rounds of 1"), ("--hosts 1x4", "'1x4'"), ("--hosts 2x1 --load 3", "--load"),
                                ("--ddp --data /nowhere", "/nowhere"), ("--ddp --metadata", "not allowed with")):
            done = subprocess.run([sys.executable, tool, *arguments.split()], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(fact, done.stderr)


if __name__ == "__main__":
    outcome = unittest.main(argv=sys.argv[:1], exit=False).result
    bad = len(outcome.failures) + len(outcome.errors)
    print(f"{outcome.testsRun - bad} passed, {bad} failed")
    sys.exit(bad > 0)
