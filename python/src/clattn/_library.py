# SPDX-License-Identifier: Apache-2.0
"""The shared library: its declarations, its errors, and open devices."""

from __future__ import annotations

import os
import re
import threading
from typing import Any

import cffi

_HERE = os.path.dirname(os.path.abspath(__file__))

ffi = cffi.FFI()


def _declarations() -> str:
    """Of the public headers, without the bodies of their inline functions."""
    with open(os.path.join(_HERE, "declarations.h"), encoding="utf-8") as file:
        return re.sub(r"\bstatic\s+[^{;]*\{[^}]*\}", "", file.read())


ffi.cdef(_declarations())
lib: Any = ffi.dlopen(os.path.join(_HERE, "libclattn.so"))


class Error(RuntimeError):
    """A call that failed; the text is the library's, with tensor, numbers and remedy. `status` is its name."""

    status: str = ""


class ArgumentError(Error, ValueError):
    """An argument or a shape that is not valid."""


class DtypeError(Error, TypeError):
    """A data type that is not the one needed."""


class OutOfMemoryError(Error, MemoryError):
    """No memory, on the host or the device."""


for _class in (Error, ArgumentError, DtypeError, OutOfMemoryError):
    _class.__module__ = "clattn"  # as it is called by

_CLASSES = {
    "CLATTN_E_ARGUMENT": ArgumentError,
    "CLATTN_E_SHAPE": ArgumentError,
    "CLATTN_E_DTYPE": DtypeError,
    "CLATTN_E_MEMORY": OutOfMemoryError,
}


def check(status: int) -> None:
    """Raises unless the call succeeded."""
    if status != lib.CLATTN_OK:
        name = ffi.string(lib.clattn_status_name(status)).decode()
        error = _CLASSES.get(name, Error)(ffi.string(lib.clattn_last_error()).decode())
        error.status = name
        raise error


def version() -> str:
    """Of the library that runs, such as "0.1.0"."""
    return ffi.string(lib.clattn_version()).decode()


def devices() -> list[dict[str, Any]]:
    """Every device: what `device=` takes as "spec", its name, platform, driver, and limits in bytes."""
    count = ffi.new("size_t *")
    check(lib.clattn_devices(ffi.NULL, 0, count))
    found = ffi.new("clattn_device_info[]", max(1, count[0]))
    check(lib.clattn_devices(found, count[0], count))
    return [_as_dict(found[i]) for i in range(count[0])]


def _as_dict(struct: Any) -> dict[str, Any]:
    """Numbers and texts of a C struct."""
    fields = {}
    for name, field in ffi.typeof(struct).fields:
        if name == "reserved":
            continue
        value = getattr(struct, name)
        if field.type.kind == "array" and field.type.item.cname == "char":
            value = ffi.string(value).decode(errors="replace")
        elif field.type.kind == "enum":
            value = field.type.elements[int(value)]
        fields[name] = value
    return fields


class Context:
    """An open device. Threads may share it; it closes when nothing refers to it any more."""

    def __init__(self, device: str | None = None) -> None:
        """device: None (the environment's CLATTN_DEVICE, else OpenCL's best, else "cpu"), "opencl", "opencl:gpu",
        "opencl:PLATFORM:DEVICE" or "cpu"; see devices()."""
        handle = ffi.new("clattn_context **")
        check(lib.clattn_context_create(ffi.NULL if device is None else device.encode(), ffi.NULL, handle))
        self.handle = ffi.gc(handle[0], lib.clattn_context_destroy)

    @property
    def info(self) -> dict[str, Any]:
        """As an entry of devices()."""
        info = ffi.new("clattn_device_info *")
        check(lib.clattn_context_info(self.handle, info))
        return _as_dict(info[0])

    def __repr__(self) -> str:
        return f"<clattn.Context {self.info['spec']}>"


_opened: dict[str | None, Context] = {}
_lock = threading.Lock()


def context_of(device: str | Context | None) -> Context:
    """A device by name is opened once and kept."""
    if isinstance(device, Context):
        return device
    with _lock:
        if device not in _opened:
            _opened[device] = Context(device)
        return _opened[device]
