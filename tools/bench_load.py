"""bench_load.py: endless loops that stand for other programs, for tools that measure beside them.

A loop ends with the tool that has started it, even if the tool is killed. It has a process group of its own, so that Ctrl-C
reaches only the tool, which then ends it; but no session, which would change its share of the CPUs."""
import contextlib
import os
import subprocess
import sys

# One look at the parent takes less than a thousandth of the time of the 100,000 turns before it.
LOOP = """
import os, sys
parent = int(sys.argv[1])
print(flush=True)
while os.getppid() == parent:
    for _ in range(100000): pass
"""


class LoadError(Exception):
    """An error; the text is one sentence."""


def _start(cpus):
    def prepare():
        os.setpgid(0, 0)
        if cpus:
            os.sched_setaffinity(0, cpus)

    return subprocess.Popen([sys.executable, "-c", LOOP, str(os.getpid())], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            preexec_fn=prepare)


@contextlib.contextmanager
def loops(masks):
    """Runs one endless loop for each list of CPUs; None: the loop is not bound. All loops run when the body begins. Yields
    the processes, for `check`."""
    started = []
    try:
        for cpus in masks:
            started.append(_start(cpus))
        for loop in started:
            if not loop.stdout.readline():
                raise LoadError(f"the endless loop of process {loop.pid} has not started")
        yield started
    finally:
        for loop in started:
            loop.kill()
            loop.wait()
            loop.stdout.close()


def check(started):
    """Raises LoadError if a loop has ended: what was measured since the last check had another load."""
    for loop in started:
        if loop.poll() is not None:
            raise LoadError(f"the endless loop of process {loop.pid} was ended from outside (status {loop.returncode}); "
                            "expected it to run until the measurement ends; measure again")
