"""bench_regime: in which placement the machine's CPUs are, for tools that time two things in turns.

A virtual machine's CPUs are moved about by its host, which changes every time by up to ten times. The latency of a cache
line (bench/calibrate.c) tells the placements apart: taken before, between and after two runs, it says whether the two
may be compared, and with which others their ratio belongs."""
import os
import subprocess

FAR_NS = 120.0  # from here on the two CPUs share no cache
BUSY_NS = 1000.0  # nothing between two CPUs takes so long: somebody else was running
CHANGE = 1.5  # the largest latency over the smallest, above which the placement has changed


class RegimeError(Exception):
    """Says what failed, in a sentence."""


def regime(latencies_ns):
    """near or far; or changed or busy: what was measured meanwhile is worth nothing."""
    low, high = min(latencies_ns), max(latencies_ns)
    if high >= BUSY_NS:
        return "busy"
    if high > CHANGE * low:
        return "changed"
    return "near" if high < FAR_NS else "far"


def is_steady(name):
    return name in ("near", "far")


class LinePing:
    """What bench/calibrate.c, built into a folder, says of a cache line."""

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
        """The median one-way latency; some milliseconds on an idle machine."""
        ran = subprocess.run([self.program, "line"], capture_output=True, text=True)
        if ran.returncode != 0:
            raise RegimeError(f"calibrate line failed (status {ran.returncode}): {ran.stderr.rstrip()}")
        return float(ran.stdout)
