# SPDX-License-Identifier: Apache-2.0
"""Arrays of others as tensors of the library, without copies: NumPy's, and those that export DLPack on the CPU."""

from __future__ import annotations

import ctypes
import importlib
from typing import Any, Sequence

import numpy as np

from ._library import ArgumentError, DtypeError, ffi, lib

_DTYPES = {
    "float32": "CLATTN_F32",
    "float64": "CLATTN_F64",
    "float16": "CLATTN_F16",
    "bfloat16": "CLATTN_BF16",
    "int32": "CLATTN_I32",
    "int64": "CLATTN_I64",
    "uint8": "CLATTN_U8",
    "bool": "CLATTN_BOOL",
}
# (type code, bits) of DLPack
_DLPACK = {
    (2, 32): "float32",
    (2, 64): "float64",
    (2, 16): "float16",
    (4, 16): "bfloat16",
    (0, 32): "int32",
    (0, 64): "int64",
    (1, 8): "uint8",
    (6, 8): "bool",
}
_ON_CPU = 1  # DLPack's kDLCPU


class _DLTensor(ctypes.Structure):
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


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Tensor:
    """A clattn_tensor, and what its memory belongs to."""

    def __init__(self, name: str, dtype: str, shape: Sequence[int], strides: Sequence[int], data: int, owner: Any) -> None:
        """strides in elements."""
        if len(shape) > lib_rank():
            raise ArgumentError(f"{name} has {len(shape)} axes; {lib_rank()} are the most")
        self.dtype, self.shape, self.owner = dtype, tuple(shape), owner
        self.c = ffi.new("clattn_tensor *")
        self.c.dtype = getattr(lib, _DTYPES[dtype])
        self.c.rank = len(shape)
        for axis, (length, stride) in enumerate(zip(shape, strides)):
            self.c.shape[axis], self.c.stride[axis] = length, stride
        self.c.host = ffi.cast("void *", data)


def lib_rank() -> int:
    """CLATTN_MAX_RANK: the length of a tensor's shape."""
    return ffi.typeof("clattn_tensor").fields[2][1].type.length


def of(array: Any, name: str, out: bool = False) -> Tensor:
    """The array itself; where it is an input and NumPy's layout is none of ours (byte order, negative or odd strides), a
    copy. `out`: the library writes it."""
    if not isinstance(array, np.ndarray) and hasattr(array, "__dlpack__"):
        return _of_dlpack(array, name)
    return _of_numpy(array, name, out)


def _of_numpy(array: Any, name: str, out: bool) -> Tensor:
    if out and not isinstance(array, np.ndarray):
        raise ArgumentError(f"{name} is written: a NumPy array or one that exports DLPack is needed, not {type(array).__name__}")
    array = np.asarray(array)
    if array.dtype.name not in _DTYPES:
        raise DtypeError(f"{name} is of {array.dtype}; the library has {', '.join(_DTYPES)}")
    size = array.itemsize
    fits = array.dtype.isnative and all(s >= 0 and s % size == 0 for s in array.strides) and array.flags.aligned
    if out and not (fits and array.flags.writeable):
        raise ArgumentError(f"{name} is written: it must be writeable, aligned and without negative strides")
    if not fits:
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return Tensor(name, array.dtype.name, array.shape, [s // size for s in array.strides], array.ctypes.data, array)


def _of_dlpack(array: Any, name: str) -> Tensor:
    device = array.__dlpack_device__()
    if int(device[0]) != _ON_CPU:
        raise ArgumentError(f"{name} is not on the CPU (DLPack's device {tuple(map(int, device))}); copy it there first")
    capsule = array.__dlpack__()  # not consumed: it frees what it holds itself
    t = ctypes.cast(_pointer_of(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
    dtype = _DLPACK.get((t.code, t.bits))
    if dtype is None or t.lanes != 1:
        raise DtypeError(f"{name} is of DLPack's type code {t.code} with {t.bits} bits; the library has {', '.join(_DTYPES)}")
    shape = [t.shape[i] for i in range(t.ndim)]
    strides = [t.strides[i] for i in range(t.ndim)] if t.strides else _row_major(shape)
    return Tensor(name, dtype, shape, strides, (t.data or 0) + t.byte_offset, (array, capsule))


def _row_major(shape: Sequence[int]) -> list[int]:
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(1, length)
    return strides[::-1]


def new_like(array: Any, shape: Sequence[int], dtype: str | None = None) -> Any:
    """A PyTorch tensor where `array` is one, else a NumPy array; of the type of `array` unless another is given."""
    if hasattr(array, "new_empty") and hasattr(array, "__dlpack__"):
        library = importlib.import_module(type(array).__module__.partition(".")[0])
        return array.new_empty(tuple(shape), dtype=getattr(library, dtype) if dtype else array.dtype)
    wanted = dtype or of(array, "q").dtype
    if wanted == "bfloat16" and not isinstance(array, np.ndarray):
        raise DtypeError("NumPy has no bfloat16: give out=")
    return np.empty(tuple(shape), array.dtype if wanted == "bfloat16" else wanted)
