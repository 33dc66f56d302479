# SPDX-License-Identifier: Apache-2.0
"""Transformer attention on any OpenCL device, and on CPUs.

import clattn
o = clattn.attention(q, k, v, causal=True)
"""

from ._attention import Result, attention
from ._library import ArgumentError, Context, DtypeError, Error, OutOfMemoryError, devices, version

__version__ = version()
__all__ = [
    "ArgumentError",
    "Context",
    "DtypeError",
    "Error",
    "OutOfMemoryError",
    "Result",
    "attention",
    "devices",
    "version",
]
