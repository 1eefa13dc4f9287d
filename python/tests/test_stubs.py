"""Tests of the types of the package (PEP 561): the stub names what the package has, and mypy understands it."""

import ast
import importlib.util
import inspect
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tutti

STUB = Path(tutti.__file__).with_name("__init__.pyi")


def names_of_package():
    """Public names that the package defines itself."""
    plain = {name for name, value in vars(tutti).items() if isinstance(value, int) and name.isupper()}
    others = {name for name, value in vars(tutti).items() if getattr(value, "__module__", None) == "tutti"}
    return {name for name in plain | others if name[0] != "_"}


def names_of_stub(body):
    names = {item.name: item for item in body if isinstance(item, (ast.FunctionDef, ast.ClassDef))}
    for item in body:
        if isinstance(item, (ast.Assign, ast.AnnAssign)):
            target = item.targets[0] if isinstance(item, ast.Assign) else item.target
            names[target.id] = item
    return {name: item for name, item in names.items() if name[0] != "_"}


def parameters_of_stub(function):
    """Name, kind and default of each parameter. A default of ... is one that the stub does not tell."""
    kinds, arguments = inspect.Parameter, function.args
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    rows = [
        (item, kinds.POSITIONAL_ONLY if item in arguments.posonlyargs else kinds.POSITIONAL_OR_KEYWORD, default)
        for item, default in zip(positional, defaults)
    ]
    rows += [(arguments.vararg, kinds.VAR_POSITIONAL, None)] if arguments.vararg else []
    rows += [(item, kinds.KEYWORD_ONLY, default) for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    rows += [(arguments.kwarg, kinds.VAR_KEYWORD, None)] if arguments.kwarg else []
    return [(item.arg, kind, inspect.Parameter.empty if d is None else ast.literal_eval(d)) for item, kind, d in rows]


class Stub(unittest.TestCase):
    def setUp(self):
        self.names = names_of_stub(ast.parse(STUB.read_text()).body)

    def test_it_is_installed(self):
        self.assertTrue(STUB.with_name("py.typed").exists())

    def test_names(self):
        self.assertEqual(set(self.names), names_of_package())

    def check_signature(self, item, function):
        told = [row for row in parameters_of_stub(item) if row[0] != "self"]
        real = [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values() if p.name != "self"]
        for number, (row, other) in enumerate(zip(told, real)):
            if row[2] is ... and other[2] is not inspect.Parameter.empty:
                told[number] = row[:2] + other[2:]
        self.assertEqual(told, real)

    def test_functions(self):
        for name, item in self.names.items():
            if isinstance(item, ast.FunctionDef):
                with self.subTest(name=name):
                    self.check_signature(item, getattr(tutti, name))

    def test_classes(self):
        for name, item in self.names.items():
            if not isinstance(item, ast.ClassDef):
                continue
            cls, members = getattr(tutti, name), names_of_stub(item.body)
            with self.subTest(name=name):
                bases = [base.attr if isinstance(base, ast.Attribute) else base.id for base in item.bases]
                real = [] if name == "Communicator" else [base.__name__ for base in cls.__bases__ if base is not object]
                self.assertEqual(bases, real)
                inherited = set() if name == "Communicator" else set().union(*map(dir, cls.__bases__))
                self.assertEqual(set(members), {n for n in dir(cls) if n[0] != "_"} - inherited)
            for member, declared in members.items():
                with self.subTest(name=f"{name}.{member}"):
                    value = inspect.getattr_static(cls, member)
                    if isinstance(declared, ast.AnnAssign):
                        self.assertEqual(ast.unparse(declared.annotation), cls.__annotations__[member])
                    elif not isinstance(declared, ast.FunctionDef):
                        self.assertEqual(ast.literal_eval(declared.value), getattr(cls, member).value)
                    elif [d.id for d in declared.decorator_list] == ["property"]:
                        self.assertFalse(callable(value))
                    else:
                        self.check_signature(declared, value)


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
class Mypy(unittest.TestCase):
    text = """
import array
import math
import numpy as np
import tutti

def work(comm: tutti.Communicator) -> tutti.Request:
    x = comm.alloc((3, 4), np.float32)
    y: float = float(x[0, 0]) + comm.alloc(3).sum()
    comm.allreduce(x, op=tutti.MAX, dtype=tutti.BF16, timeout=math.inf)
    comm.allgather(tutti.IN_PLACE, array.array("d", [y]))
    comm.broadcast(bytearray(3), 1)
    comm.send(comm.alloc_bytes(3), 0)
    comm.send(b"123", 0)
    comm.recv(b"123", 0)  # error: bytes cannot be written
    comm.allreduce([1, 2])  # error
    comm.gatherv(x, None, [1, 2], root="0")  # error
    comm.nonesuch()  # error
    known: list[tutti.RankStats] = comm.stats()
    print(known[0].calls + comm.stats(comm.rank).awaited_ns)
    comm.stats(0).calls = 1  # error: it cannot be changed
    comm.stats("0")  # error
    part = comm.split(tutti.NO_COLOR)
    part.free()  # error: it may be None
    return comm.iallreduce(x)

with tutti.init(timeout=3.5) as world:
    tutti.wait_all([work(world), world.prepare("barrier")])
    tutti.init(7)  # error
    try:
        world.barrier()
    except tutti.TimeoutError as error:
        print(error, tutti.Datatype.F32.name)
"""

    def test_a_program(self):
        expected = {i for i, line in enumerate(self.text.split("\n"), 1) if "# error" in line}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "program.py").write_text(self.text)
            line = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", f"{folder}/cache", "program.py"]
            done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120)
        errors = [row.split(":") for row in done.stdout.split("\n") if ": error:" in row]
        self.assertEqual({int(row[1]) for row in errors}, expected, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
