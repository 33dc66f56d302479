# SPDX-License-Identifier: Apache-2.0
"""libclattn_bench through ctypes, and arrays that processes share. Standard library only."""
import ctypes as c
import mmap
import os

from scenario import DTYPES, bytes_of, count_of


class Attention(c.Structure):
    """bench_attention of bench.h."""

    _fields_ = (
        [(x, c.c_int64) for x in ("B", "H", "Hk", "N", "M", "D", "Dv")]
        + [(x, c.c_int32) for x in ("q_type", "k_type", "v_type", "o_type", "bias_type")]
        + [(x, c.c_int32) for x in ("causal", "bottom_right", "windowed", "call_only")]
        + [("left", c.c_int64), ("right", c.c_int64), ("scale", c.c_double), ("algorithm", c.c_char_p)]
        + [(x, c.c_void_p) for x in ("q", "k", "v", "o", "keep", "bias", "lse", "d_o")]
    )


class Array:
    """A file in memory that is mapped by every process: all read the same bytes."""

    def __init__(self, path, dtype, shape, create=False):
        self.path, self.dtype, self.shape = path, dtype, tuple(shape)
        self.count = count_of(shape)
        self.bytes = bytes_of(dtype, self.count)
        with open(path, "w+b" if create else "r+b") as file:
            if create:
                os.ftruncate(file.fileno(), max(self.bytes, 1))
            self.map = mmap.mmap(file.fileno(), max(self.bytes, 1))
        self.address = c.addressof(c.c_char.from_buffer(self.map))

    def describe(self):
        return {"path": self.path, "dtype": self.dtype, "shape": self.shape}


class Library:
    def __init__(self, build):
        self.lib = lib = c.CDLL(os.path.join(build, "bench", "libclattn_bench.so"))
        for name in ("bench_message", "bench_device"):
            getattr(lib, name).restype = c.c_char_p
        for name in ("bench_open", "bench_attention_open", "bench_linear_open"):
            getattr(lib, name).restype = c.c_void_p
        for name in ("bench_close", "bench_problem_close", "bench_run", "bench_call", "bench_fetch", "bench_device"):
            getattr(lib, name).argtypes = [c.c_void_p]
        p, i64, u64 = c.c_void_p, c.c_int64, c.c_uint64
        lib.bench_open.argtypes = [c.c_char_p]
        lib.bench_peak.argtypes = [p, u64, c.POINTER(c.c_double), c.POINTER(c.c_double)]
        lib.bench_fill.argtypes = [p, c.c_int, u64, u64]
        lib.bench_convert.argtypes = [p, c.c_int, p, c.c_int, u64]
        lib.bench_attention_open.argtypes = [p, c.POINTER(Attention)]
        lib.bench_linear_open.argtypes = [p, i64, i64, i64, c.c_int, p, p, p, p]
        lib.bench_facts.argtypes = [p, c.c_char_p, u64, c.POINTER(c.c_double), c.POINTER(c.c_double)]
        lib.bench_attention_error.argtypes = [c.POINTER(Attention), i64, i64, c.POINTER(c.c_double)]
        lib.bench_gradients_error.argtypes = [c.POINTER(Attention), c.POINTER(c.c_double)]
        lib.bench_linear_error.argtypes = [i64, i64, i64, c.c_int, p, p, p, p, i64, i64, c.POINTER(c.c_double)]

    def check(self, result):
        """0 and pointers pass; else the library's message is raised."""
        if result is None or result == 1:
            raise RuntimeError(self.lib.bench_message().decode())
        return result

    def fill(self, array, seed):
        self.check(self.lib.bench_fill(array.address, DTYPES[array.dtype], array.count, seed))

    def open(self, device):
        return self.check(self.lib.bench_open(device.encode() if device else None))

    def attention(self, s, arrays, out, algorithm=None, lse=None, call_only=False):
        address = lambda name: arrays[name].address if name in arrays else None
        return Attention(
            s.B, s.H, s.Hk, s.N, s.M, s.D, s.Dv,
            DTYPES[s.q], DTYPES[s.k], DTYPES[s.v], DTYPES[s.q], DTYPES[s.q],
            s.causal, s.bottom_right, bool(s.window), call_only, *(s.window or (0, 0)), 0.0,
            algorithm.encode() if algorithm else None,
            address("q"), address("k"), address("v"), out.address, address("keep"), address("bias"), lse,
            address("d_o"),
        )  # fmt: skip

    def open_problem(self, owner, s, arrays, out, call_only=False):
        if s.linear:
            bias = arrays["bias"].address if s.bias else None
            problem = self.lib.bench_linear_open(
                owner, s.M, s.N, s.D, s.gelu, arrays["x"].address, arrays["w"].address, bias, out.address
            )
        else:
            problem = self.lib.bench_attention_open(owner, c.byref(self.attention(s, arrays, out, call_only=call_only)))
        return self.check(problem)

    def facts(self, problem):
        name, operations, moved = c.create_string_buffer(64), c.c_double(), c.c_double()
        self.check(self.lib.bench_facts(problem, name, 64, c.byref(operations), c.byref(moved)))
        return {"algorithm": name.value.decode(), "operations": operations.value, "moved_bytes": moved.value}

    def peak(self, owner, read_bytes):
        gflops, gbytes = c.c_double(), c.c_double()
        self.check(self.lib.bench_peak(owner, int(read_bytes), c.byref(gflops), c.byref(gbytes)))
        return {"gflops": gflops.value, "gbytes": gbytes.value}

    def error(self, s, arrays, out, begin, count):
        """The largest error of those rows against double, in shares of the largest |V| (linear: |y|); of gradients that of
        all rows, in shares of the largest number of each."""
        error = c.c_double()
        if s.linear:
            bias = arrays["bias"].address if s.bias else None
            self.check(
                self.lib.bench_linear_error(
                    s.M, s.N, s.D, s.gelu, arrays["x"].address, arrays["w"].address, bias, out.address, begin, count,
                    c.byref(error),
                )  # fmt: skip
            )
        elif s.backward:
            self.check(self.lib.bench_gradients_error(c.byref(self.attention(s, arrays, out)), c.byref(error)))
        else:
            a = self.attention(s, arrays, out)
            self.check(self.lib.bench_attention_error(c.byref(a), begin, count, c.byref(error)))
        return error.value
