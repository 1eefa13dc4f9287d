"""cells.py: the cells of the table (collective, size, number of ranks and mode), and the blocks of cells that one start
of a program measures."""
from collections import namedtuple

COLLECTIVES = ["allreduce", "reduce", "broadcast", "allgather", "reduce_scatter", "alltoall", "gather", "scatter", "barrier"]
ROOTED = {"reduce", "broadcast", "gather", "scatter"}
SIZES = "8,64,256,512,1K,4K,16K,64K,256K,1M,4M,16M,64M"
MODES = ["loop", "barrier"]
ITEM_BYTES = 4  # f32

# From this size up, a sample is one operation after a barrier in both modes (tutti-bench(1)), so each cell is measured
# only once, as mode "single".
SINGLE_BYTES = 64 << 10
LIMIT_BYTES = 1 << 20  # from this size up, cells are compared with the copy speed of the memory

Cell = namedtuple("Cell", "collective bytes ranks mode")
Block = namedtuple("Block", "cells ranks mode")  # mode: the --mode of the programs, loop or barrier


def parse_bytes(text):
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    digits = text[:-1] if factor > 1 else text
    if not digits.isdigit():
        raise ValueError(f"expected a size as 8, 64K or 1M, found '{text}'")
    return int(digits) * factor


def show_bytes(count):
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if count and count % unit == 0:
            return f"{count // unit}{letter}"
    return str(count)


def actual_bytes(collective, wanted, ranks):
    """Returns the size that `tutti bench` measures for a wanted size: whole blocks of at least one element."""
    if collective == "barrier":
        return 0
    unit = ITEM_BYTES if collective in ("allreduce", "reduce", "broadcast") else ITEM_BYTES * ranks
    return max(1, wanted // unit) * unit


def size_class(count):
    """Returns the class (0 to 3) of a size. One start of a program measures sizes of one class only."""
    return 0 if count < SINGLE_BYTES else 1 if count < 4 << 20 else 2 if count < 64 << 20 else 3


def _group(collective, which_class):
    """Returns the number of the group of collectives that one start of a program measures: allreduce alone, because it
    has settings of its own; the larger the sizes, the fewer of the other collectives are in a group."""
    if collective == "allreduce":
        return 0
    return 1 + COLLECTIVES.index(collective) // (len(COLLECTIVES), len(COLLECTIVES), 3, 1)[which_class]


def list_cells(collectives, sizes, ranks_list, modes):
    cells = []
    for ranks in ranks_list:
        for collective in collectives:
            counts = [actual_bytes(collective, size, ranks) for size in sizes]
            for count in sorted(set(counts)):
                wanted = ["single"] if count >= SINGLE_BYTES else modes
                cells += [Cell(collective, count, ranks, mode) for mode in wanted]
    return cells


def list_blocks(cells):
    blocks = {}
    for cell in cells:
        which = size_class(cell.bytes)
        blocks.setdefault((cell.ranks, which, cell.mode, _group(cell.collective, which)), []).append(cell)
    order = sorted(blocks, key=lambda key: (key[0], key[1], key[2] != "loop", key[3]))
    return [Block(blocks[key], key[0], "barrier" if key[2] == "barrier" else "loop") for key in order]


def copied_bytes(cell):
    """Returns half of the bytes that all ranks together must at least read and write: the bytes of an equivalent copy."""
    n, m = cell.ranks, cell.bytes
    return {
        "allreduce": n * m, "allgather": n * m, "alltoall": n * m,
        "broadcast": (n - 1) * m, "gather": m, "scatter": m,
        "reduce": (n + 1) * m / 2, "reduce_scatter": (n + 1) * m / 2,
    }.get(cell.collective, 0)
