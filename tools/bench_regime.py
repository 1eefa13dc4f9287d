"""bench_regime.py: recognizes the placement of a virtual machine's CPUs, for tools that time two programs in turns.

The host moves the CPUs of a virtual machine, which changes all times by up to a factor of ten. The latency of a cache line
(bench/calibrate.c) distinguishes the placements. Measured before, between and after two runs, it shows whether the runs
can be compared, and to which group (regime) their ratio belongs."""
import os
import subprocess

FAR_NS = 120.0  # from this latency on, the two CPUs share no cache
BUSY_NS = 1000.0  # longer than any latency between two CPUs: another program was running
CHANGE = 1.5  # maximum ratio of two latencies of one placement


class RegimeError(Exception):
    """An error; the text is one sentence."""


def regime(latencies_ns):
    """Returns near or far; changed or busy mean that the runs between the latencies cannot be used."""
    low, high = min(latencies_ns), max(latencies_ns)
    if high >= BUSY_NS:
        return "busy"
    if high > CHANGE * low:
        return "changed"
    return "near" if high < FAR_NS else "far"


def is_steady(name):
    return name in ("near", "far")


class LinePing:
    """Measures the latency of a cache line with bench/calibrate.c, which it builds in a folder."""

    def __init__(self, source, folder):
        self.program = os.path.join(folder, "calibrate")
        os.makedirs(folder, exist_ok=True)
        compiler = os.environ.get("CC", "cc").split()
        command = [*compiler, "-std=c17", "-D_GNU_SOURCE", "-O2", os.path.join(source, "bench", "calibrate.c")]
        try:
            built = subprocess.run([*command, "-o", self.program], capture_output=True, text=True)
        except OSError as problem:
            raise RegimeError(f"cannot run the compiler '{compiler[0]}': {problem.strerror}") from problem
        if built.returncode != 0:
            raise RegimeError(f"cannot build bench/calibrate.c:\n{built.stderr.rstrip()}")

    def latency_ns(self):
        """Returns the median one-way latency in ns. Takes some milliseconds on an idle machine."""
        ran = subprocess.run([self.program, "line"], capture_output=True, text=True)
        if ran.returncode != 0:
            raise RegimeError(f"calibrate line failed (status {ran.returncode}): {ran.stderr.rstrip()}")
        return float(ran.stdout)
