"""Runs PyTorch's own tests, and holds all that is changed for them from outside; their files stay as they are.

    python3 outside.py FILE list               prints the names of the tests in a file, as CLASS.TEST
    python3 outside.py FILE run FD             runs the tests that standard input names, one a line, and writes two lines for each
                                               to a descriptor: "begin TEST", then "end TEST RESULT SECONDS WHY", with tabs

TORCH_TUTTI_TESTS is the backend: gloo, or tutti, which then answers to the names of gloo. tests/torch/suite starts this.
"""

import dataclasses
import importlib
import multiprocessing.context
import os
import re
import sys
import time
import types
import unittest

BACKEND = os.environ.get("TORCH_TUTTI_TESTS", "gloo")


def expecttest_stand_in() -> None:
    """Debian 12 has no package of expecttest. torch.testing imports it as a base class; these tests do not use what it adds."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        module = types.ModuleType("expecttest")
        module.ACCEPT = False
        module.TestCase = type("TestCase", (unittest.TestCase,), {"longMessage": True})
        sys.modules["expecttest"] = module


def unhashable_defaults() -> None:
    """torch 1.13 has dataclasses whose default values are other dataclasses, which Python 3.11 refuses because they have no hash.
    The tests turn on the part of DDP that imports them. They get the hash that every object has."""
    get_field = dataclasses._get_field

    def get_field_of_torch(cls, name, *rest):
        default = getattr(cls, name, None)
        kind = type(default.default if isinstance(default, dataclasses.Field) else default)
        if kind.__hash__ is None and kind.__module__.startswith("torch."):
            kind.__hash__ = object.__hash__
        return get_field(cls, name, *rest)

    dataclasses._get_field = get_field_of_torch


class Rank(multiprocessing.context.ForkServerProcess):
    """A rank that is forked from a server, which has imported torch. Three ranks that are spawned import it three times, which
    takes longer than most of the tests. The server has no threads and no process group, so ranks begin as spawned ones do. It
    has the environment of its own start, so a rank brings that of its parent."""

    def __init__(self, **named: object) -> None:
        super().__init__(**named)
        self.environment = dict(os.environ)

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self.environment)
        tests = sys.modules.get("torch.testing._internal.distributed.distributed_test")
        if tests:
            tests.INIT_METHOD = os.environ["INIT_METHOD"]
        super().run()


def ranks_by_forkserver() -> None:
    from torch.testing._internal.common_distributed import MultiProcessTestCase

    multiprocessing.set_forkserver_preload(["__main__", "torch.testing._internal.distributed.distributed_test"])
    MultiProcessTestCase._spawn_processes = lambda self: self._start_processes(Rank)


def gloo_is_tutti() -> None:
    """The names ProcessGroupGloo stand for tutti's backend. A call of gloo's own constructor is an error."""
    os.environ["TORCH_TUTTI_AS_GLOO"] = "1"
    import torch
    import torch.distributed
    import tutti.torch

    c10d = torch._C._distributed_c10d
    gloo = c10d.ProcessGroupGloo

    def refuse(*_args: object, **_named: object) -> None:
        raise AssertionError("the constructor of gloo's ProcessGroupGloo was called")

    class Named(type):
        """isinstance(x, ProcessGroupGloo) is true for groups of tutti. torch 2.6 asks for it."""

        def __instancecheck__(cls, x: object) -> bool:
            return isinstance(x, tutti.torch.ProcessGroupTutti)

        def __call__(cls, store, rank, size, options=None, timeout=None):
            if timeout is None:
                timeout = getattr(options, "_timeout", options)
            if timeout is None:
                timeout = torch.distributed.default_pg_timeout
            return tutti.torch.ProcessGroupTutti(store, rank, size, timeout)

    class ProcessGroupGloo(metaclass=Named):
        """Devices and threads of gloo are accepted, and mean nothing."""

        Device = type("Device", (), {})

        class _Options:
            def __init__(self) -> None:
                self._timeout, self._devices, self._threads = torch.distributed.default_pg_timeout, [], 2

        @staticmethod
        def create_device(hostname: str = "", interface: str = "") -> object:
            return ProcessGroupGloo.Device()

        @staticmethod
        def create_default_device() -> object:
            return ProcessGroupGloo.Device()

    gloo.__init__ = refuse
    for module in c10d, torch.distributed.distributed_c10d, torch.distributed:
        module.ProcessGroupGloo = ProcessGroupGloo


# A rank imports this file too, as __mp_main__, before it unpickles its test.
expecttest_stand_in()
unhashable_defaults()
if BACKEND == "tutti":
    gloo_is_tutti()


# ---- the runner ----


class Report(unittest.TestResult):
    """Writes the result of each test to a descriptor, and tracebacks to standard output."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.to = descriptor

    def write(self, *fields: str) -> None:
        os.write(self.to, ("\t".join(fields) + "\n").encode())

    def startTest(self, test) -> None:
        super().startTest(test)
        self.outcome, self.since = ("pass", ""), time.monotonic()
        print("\n====", name_of(test), flush=True)
        self.write("begin", name_of(test))

    def stopTest(self, test) -> None:
        super().stopTest(test)
        self.write("end", name_of(test), self.outcome[0], f"{time.monotonic() - self.since:.1f}", self.outcome[1])

    def failed(self, error) -> None:
        text = self._exc_info_to_string(error, self.test)
        print(text, flush=True)
        # The error of a rank is in the text of the error that its parent raises.
        lines = [line for line in text.splitlines() if re.match(r"\S*(Error|Exception|Timeout)\b", line)]
        self.outcome = ("fail", " ".join((lines[-1] if lines else text.strip().splitlines()[-1]).split())[:200])

    def addError(self, test, err) -> None:
        self.test = test
        self.failed(err)

    addFailure = addError

    def addSubTest(self, test, subtest, err) -> None:
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test, reason) -> None:
        self.outcome = ("skip", " ".join(str(reason).split())[:200])

    def addExpectedFailure(self, test, err) -> None:
        self.outcome = ("pass", "fails, as expected")

    def addUnexpectedSuccess(self, test) -> None:
        self.outcome = ("fail", "unexpected success")


def name_of(test) -> str:
    return ".".join(test.id().split(".")[-2:])


def main() -> None:
    file, verb, *rest = sys.argv[1:]
    # torch.testing reads the arguments when it is imported.
    sys.argv[1:] = []
    sys.path[:0] = [os.path.dirname(file), os.path.dirname(os.path.dirname(file))]
    ranks_by_forkserver()
    module = importlib.import_module(os.path.splitext(os.path.basename(file))[0])
    # Not loadTestsFromModule: files have a function load_tests, which accepts only the classes of __main__.
    classes = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, unittest.TestCase)]
    own = [kind for kind in dict.fromkeys(classes) if kind.__module__ == module.__name__]
    tests = {name_of(test): test for kind in own for test in unittest.defaultTestLoader.loadTestsFromTestCase(kind)}
    if verb == "list":
        print("\n".join(tests))
    else:
        descriptor = int(rest[0])
        os.set_inheritable(descriptor, False)
        unittest.TestSuite(tests[name] for name in sys.stdin.read().split()).run(Report(descriptor))


if __name__ == "__main__":
    main()
