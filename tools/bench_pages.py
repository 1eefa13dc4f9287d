"""bench_pages.py: gives programs that are measured against each other the same kind of memory.

The kernel keeps lists of free pages per CPU, and short runs of free pages, and hands these out first. So a program that starts
after others have ended gets pages in any order, and one that starts when those are used up gets long runs of pages. Memory of
the second kind is copied up to 1.6 times as fast (AMD EPYC, a virtual machine, pages of 4 KiB), and which of two programs gets
it is chance."""
import contextlib
import mmap
import os

CPU_BYTES = 1 << 30  # more than the kernel keeps for a CPU
PART = 4  # at most so much of the memory that is available


def ballast_bytes(cpus, available_bytes, most_bytes=CPU_BYTES):
    """Returns the bytes to take on each CPU."""
    return min(most_bytes, available_bytes // PART // cpus) // mmap.PAGESIZE * mmap.PAGESIZE


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


@contextlib.contextmanager
def fresh(most_bytes=CPU_BYTES):
    """Takes, on each CPU, the pages that the kernel would hand out first, until the body ends. Programs that start in the body
    get pages that have not been used for long. most_bytes: most that is taken on a CPU."""
    cpus = os.sched_getaffinity(0)
    size = ballast_bytes(len(cpus), available_bytes(), most_bytes)
    with contextlib.ExitStack() as taken:
        try:
            for cpu in cpus:
                os.sched_setaffinity(0, {cpu})
                taken.enter_context(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE))
        finally:
            os.sched_setaffinity(0, cpus)
        yield
