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


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY

_name_is = ctypes.pythonapi.PyCapsule_IsValid
_name_is.restype = ctypes.c_int
_name_is.argtypes = [ctypes.py_object, ctypes.c_char_p]
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
        return _of_dlpack(array, name, out)
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


def _capsule_of(array: Any, name: str) -> Any:
    try:
        try:
            return array.__dlpack__(max_version=(1, 0))
        except TypeError:  # of before version 1.0
            return array.__dlpack__()
    except BufferError as error:
        raise ArgumentError(f"{name} is not to be had by DLPack: {error}") from error


def _of_dlpack(array: Any, name: str, out: bool) -> Tensor:
    device = array.__dlpack_device__()
    if int(device[0]) != _ON_CPU:
        raise ArgumentError(f"{name} is not on the CPU (DLPack's device {tuple(map(int, device))}); copy it there first")
    capsule = _capsule_of(array, name)  # not consumed: it frees what it holds itself
    if _name_is(capsule, b"dltensor_versioned"):
        versioned = ctypes.cast(_pointer_of(capsule, b"dltensor_versioned"), ctypes.POINTER(_Versioned)).contents
        t, writeable = versioned.tensor, not versioned.flags & _READ_ONLY
    else:  # it cannot say whether it may be written; PyTorch's may
        t = ctypes.cast(_pointer_of(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
        writeable = hasattr(array, "new_empty")
    if out and not writeable:
        raise ArgumentError(f"{name} is written, but {type(array).__name__} does not say by DLPack that it may be")
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


def new_like(array: Any, shape: Sequence[int], whole: bool, dtype: str | None = None) -> Any:
    """A PyTorch tensor where `array` is one, else a NumPy array; of the type of `array` unless another is given. `whole`:
    all of it will be written; else it holds zeros."""
    if hasattr(array, "new_empty") and hasattr(array, "__dlpack__"):
        library = importlib.import_module(type(array.dtype).__module__)
        make = array.new_empty if whole else array.new_zeros
        return make(tuple(shape), dtype=getattr(library, dtype) if dtype else array.dtype)
    wanted = dtype or of(array, "q").dtype
    if wanted == "bfloat16" and not isinstance(array, np.ndarray):
        raise DtypeError("NumPy has no bfloat16: give out=")
    return (np.empty if whole else np.zeros)(tuple(shape), array.dtype if wanted == "bfloat16" else wanted)
