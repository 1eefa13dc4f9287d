"""Tests of DLPack: tensors of other libraries as buffers, and memory of the library as tensors."""

import ctypes
import importlib.util
import math
import subprocess
import sys
import unittest

import numpy as np
import tutti
from test_tutti import HERE, program

HAS_TORCH = importlib.util.find_spec("torch") is not None


# DLPack, as its header dlpack.h defines it.
class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Plain(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Exporter:
    """Exports `memory` as a tensor of these properties, and counts in `ended` how many exports have ended."""

    def __init__(self, memory, *, shape, strides=None, code=0, bits=64, lanes=1, device=1, offset=0, major=None, flags=0):
        self.ended = 0
        self.deleter = DELETER(self.end)
        self.memory = memory
        tensor = Tensor(memory.ctypes.data, device, 0, len(shape), code, bits, lanes, byte_offset=offset)
        tensor.shape = (ctypes.c_int64 * len(shape))(*shape)
        if strides is not None:
            tensor.strides = (ctypes.c_int64 * len(strides))(*strides)
        self.is_plain = major is None
        if self.is_plain:
            self.managed = Plain(tensor, None, self.deleter)
        else:
            self.managed = Versioned(major, 0, None, self.deleter, flags, tensor)

    def end(self, managed):
        self.ended += 1

    def capsule(self):
        name = b"dltensor" if self.is_plain else b"dltensor_versioned"
        return new_capsule(ctypes.addressof(self.managed), name, None)

    def __dlpack__(self, **options):
        if self.is_plain and options:
            raise TypeError("max_version is unknown")
        return self.capsule()


class Exchange(unittest.TestCase):
    """Tensors of other libraries as buffers, and memory of the library as tensors."""

    @classmethod
    def setUpClass(cls):
        cls.comm = tutti.init()

    @classmethod
    def tearDownClass(cls):
        cls.comm.close()

    def test_buffers(self):
        cases = [
            dict(shape=[6]),
            dict(shape=[2, 3]),
            dict(shape=[2, 3], strides=[3, 1]),
            dict(shape=[1, 6, 1], strides=[77, 1, -5]),
            dict(shape=[], bits=64),
            dict(shape=[0, 9], strides=[1, 1]),
            dict(shape=[5], offset=8),
            dict(shape=[3], code=2, bits=32, device=3),
            dict(shape=[3], code=1, bits=8, device=11),
        ]
        for case in cases:
            for major in (None, 1):
                with self.subTest(case=case, major=major):
                    memory = np.arange(6)
                    tensor = Exporter(memory, major=major, **case)
                    self.comm.allreduce(tensor)
                    self.assertEqual(tensor.ended, 1)
                    got = np.full(6, 99)
                    self.comm.allreduce(tensor, Exporter(got, major=major, **case), op=tutti.MAX)
                    bytes_at = case.get("offset", 0)
                    length = math.prod(case["shape"]) * case.get("bits", 64) // 8
                    self.assertEqual(got.tobytes()[bytes_at:][:length], memory.tobytes()[bytes_at:][:length])
                    self.assertEqual(got.tobytes()[bytes_at + length :], np.full(6, 99).tobytes()[bytes_at + length :])
                    self.assertEqual(tensor.ended, 2)

    def test_types(self):
        """Two ranks add 1 + 1, so the bits tell the datatype."""
        done = program(
            2,
            """
from test_dlpack import Exporter
world = tutti.init(timeout=20)
for code, bits, one, two in (
  (0, 8, 1, 2), (0, 16, 1, 2), (0, 32, 1, 2), (0, 64, 1, 2), (1, 8, 1, 2), (1, 16, 1, 2), (1, 32, 1, 2), (1, 64, 1, 2),
  (2, 16, 0x3C00, 0x4000), (2, 32, 0x3F800000, 0x40000000), (2, 64, 0x3FF0 << 48, 0x4000 << 48),
  (4, 16, 0x3F80, 0x4000), (10, 8, 0x38, 0x40), (12, 8, 0x3C, 0x40)):
  x = np.full(3, one, f"u{bits // 8}")
  world.allreduce(Exporter(x, shape=[3], code=code, bits=bits))
  assert list(x) == [two] * 3, (code, bits, x)
""".replace("from test_dlpack", f"import sys; sys.path.insert(0, {str(HERE)!r})\nfrom test_dlpack"),
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_refusals(self):
        cases = [
            (dict(shape=[2, 3], strides=[1, 2]), "contiguous"),
            (dict(shape=[3], strides=[2]), "contiguous"),
            (dict(shape=[3], strides=[0]), "contiguous"),
            (dict(shape=[-1]), "contiguous"),
            (dict(shape=[1 << 40, 1 << 40]), "contiguous"),
            (dict(shape=[3], device=2), "memory of the CPU.*type 2;"),
            (dict(shape=[3], device=13), "memory of the CPU"),
            (dict(shape=[3], code=5), "type code 5, 64 bits and 1 lanes are no datatype"),
            (dict(shape=[3], code=8, bits=8), "no datatype"),
            (dict(shape=[3], bits=16, lanes=4), "no datatype"),
            (dict(shape=[3], code=17, bits=4), "4 bits cannot be used"),
            (dict(shape=[3], bits=0), "0 bits"),
            (dict(shape=[3], lanes=0), "cannot be used"),
            (dict(shape=[3], major=2), "DLPack 2.0"),
            (dict(shape=[3], major=1, flags=1), "read-only"),
            (dict(shape=[3], major=1, flags=2), "a copy"),
        ]
        for case, sentence in cases:
            with self.subTest(case=case):
                tensor = Exporter(np.zeros(6, int), **case)
                self.assertRaisesRegex(tutti.ArgumentError, sentence, self.comm.allreduce, tensor)
                self.assertEqual(tensor.ended, 1)
        self.comm.barrier()

    def test_read_only_input(self):
        out = np.zeros(3, int)
        self.comm.allreduce(Exporter(np.arange(3), shape=[3], major=1, flags=1), out)
        self.assertEqual(list(out), [0, 1, 2])

    def test_a_type_of_another_name(self):
        x = np.full(3, True)
        self.comm.allreduce(Exporter(x, shape=[3], code=6, bits=8), dtype=tutti.U8)
        self.comm.allreduce(Exporter(np.arange(3), shape=[3], bits=8, lanes=8), dtype=tutti.I64)

    def test_requests_hold_the_tensor(self):
        tensor = Exporter(np.zeros(3), shape=[3], code=2)
        request = self.comm.irecv(tensor, 0)
        self.assertEqual(tensor.ended, 0)
        self.comm.send(np.ones(3), 0)
        request.wait()
        self.assertEqual((tensor.ended, list(tensor.memory)), (1, [1] * 3))

    def test_exporters_that_fail(self):
        class Fails:
            def __init__(self, result):
                self.result = result

            def __dlpack__(self, **options):
                if isinstance(self.result, BaseException):
                    raise self.result
                return self.result

        used = Exporter(np.zeros(3), shape=[3], code=2)
        capsule = used.capsule()
        self.comm.allreduce(Fails(capsule))
        for thing in (None, 3, capsule):
            self.assertRaisesRegex(tutti.ArgumentError, "no new capsule", self.comm.allreduce, Fails(thing))
        self.assertEqual(used.ended, 1)
        for kind in (BufferError, RuntimeError, ValueError, TypeError):
            with self.assertRaisesRegex(tutti.ArgumentError, "recv: Fails cannot export its memory: gone"):
                self.comm.allreduce(Fails(kind("gone")))
        self.assertRaises(KeyboardInterrupt, self.comm.allreduce, Fails(KeyboardInterrupt()))
        self.assertRaisesRegex(tutti.ArgumentError, "buffer protocol.*DLPack.*got list", self.comm.allreduce, [1])

    def test_memory_as_a_tensor(self):
        memory = self.comm.alloc_bytes(24)
        self.assertEqual(memory.__dlpack_device__(), (1, 0))
        for options in ({}, {"max_version": (0, 8)}, {"max_version": (1, 0)}, {"max_version": (1, 3), "copy": False, "dl_device": (1, 0)}):
            with self.subTest(options=options):
                references = sys.getrefcount(memory)
                capsule = memory.__dlpack__(**options)
                name = "dltensor_versioned" if options.get("max_version", (0,))[0] else "dltensor"
                self.assertIn(f'"{name}"', repr(capsule))
                self.assertGreater(sys.getrefcount(memory), references)
                del capsule
                self.assertEqual(sys.getrefcount(memory), references)

                class Again:
                    def __dlpack__(self, **_):
                        return memory.__dlpack__(**options)

                memoryview(memory)[:] = bytes(range(24))
                out = bytearray(24)
                self.comm.allreduce(Again(), out)
                self.comm.allreduce(Again(), Again())
                self.assertEqual(out, bytes(range(24)))
                self.assertEqual(sys.getrefcount(memory), references)
        for options in ({"copy": True}, {"dl_device": (2, 0)}, {"stream": 1}):
            self.assertRaises(BufferError, memory.__dlpack__, **options)
        self.assertRaises(TypeError, memory.__dlpack__, max_version=3)

    def test_numpy(self):
        memory = self.comm.alloc_bytes(8)
        memoryview(memory)[:] = b"12345678"
        array = np.from_dlpack(memory)
        del memory
        self.assertEqual(array.tobytes(), b"12345678")
        out = np.zeros(8, np.uint8)
        self.comm.allreduce(array, out)
        self.assertEqual(out.tobytes(), b"12345678")

    @unittest.skipUnless(HAS_TORCH, "torch is not installed")
    def test_torch(self):
        import torch

        comm = tutti.init()
        tensor = torch.from_dlpack(comm.alloc_bytes(32)).view(torch.float32)
        tensor[:] = torch.arange(8)
        comm.allreduce(tensor)
        out = torch.zeros(2, 4)
        comm.allreduce(tensor, out)
        self.assertTrue(torch.equal(tensor, torch.arange(8.0)) and torch.equal(out.flatten(), tensor))
        comm.allreduce(torch.ones(3, dtype=torch.bfloat16))
        cases = [
            (torch.ones(2, 2).t(), "contiguous"),
            (torch.ones(2, requires_grad=True), "detach"),
            (torch.ones(2, dtype=torch.complex64), "no datatype"),
        ]
        for wrong, sentence in cases:
            self.assertRaisesRegex(tutti.ArgumentError, sentence, comm.allreduce, wrong)
        comm.allreduce(torch.ones(2, dtype=torch.bool).view(torch.uint8))
        comm.free()
        tensor[:] = 1
        self.assertEqual(tensor.sum(), 8)

    @unittest.skipUnless(HAS_TORCH, "torch is not installed")
    def test_a_tensor_that_outlives_the_interpreter(self):
        text = "import torch, tutti; torch.kept = torch.from_dlpack(tutti.init().alloc_bytes(9))"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
