# SPDX-License-Identifier: Apache-2.0
"""Attention as one call. What the options mean exactly stands in the header clattn/attention.h."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence, Union

import numpy as np

from . import _tensor
from ._library import ArgumentError, Context, check, context_of, ffi, lib

Array = Any  # a NumPy array, or an array that exports DLPack on the CPU
Numbers = Union[Sequence[int], Array]

_ALIGNS = {"top-left": "CLATTN_ALIGN_TOP_LEFT", "bottom-right": "CLATTN_ALIGN_BOTTOM_RIGHT"}
_FORMS = {
    "softmax": "CLATTN_WEIGHTS_SOFTMAX",
    "scaled": "CLATTN_WEIGHTS_SCALED",
    "capped": "CLATTN_WEIGHTS_CAPPED",
    "masked": "CLATTN_WEIGHTS_MASKED",
}


@dataclass
class Result:
    """What was asked for; None is what was not."""

    o: Array
    lse: Array | None = None
    weights: Array | None = None
    column_sums: Array | None = None
    entropy: Array | None = None


class _Arguments:
    """clattn_attention_args, and what its pointers point at."""

    def __init__(self) -> None:
        self.c = ffi.new("clattn_attention_args *")
        self._held: list[Any] = []

    def tensor(self, field: str, array: Array | None, out: bool = False) -> _tensor.Tensor | None:
        if array is None:
            return None
        t = _tensor.of(array, field, out)
        if not t.shape:  # the library takes it for absent
            raise ArgumentError(f"{field} is one number, without axes; what broadcasts has axes of 1")
        self._held.append(t)
        setattr(self.c, field, t.c[0])
        return t

    def numbers(self, field: str, values: Numbers | None, dtype: Any, count: int | None, what: str = "numbers") -> int:
        """A host array of options. count: how many are needed; None: as many as there are, which is returned."""
        if values is None:
            return 0
        array = np.asarray(values)
        if array.size and array.dtype.kind not in "iub" and dtype is not np.float32:
            raise ArgumentError(f"{field} are {array.dtype}; integers are needed")
        flat = np.ascontiguousarray(array, dtype=dtype).reshape(-1)
        if dtype is not np.float32 and not np.array_equal(flat, array.reshape(-1)):
            raise ArgumentError(f"{field} has numbers that do not fit {np.dtype(dtype).name}")
        if count is not None and flat.size != count:
            raise ArgumentError(f"{field} has {flat.size} {what}; {count} are needed")
        self._held.append(flat)
        pointer = {np.int64: "int64_t *", np.int32: "int32_t *", np.float32: "float *"}[dtype]
        setattr(self.c, field, ffi.cast(pointer, flat.ctypes.data))
        return flat.size

    def text(self, field: str, value: str | None) -> None:
        if value is not None:
            held = ffi.new("char[]", value.encode())
            self._held.append(held)
            setattr(self.c, field, held)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    out: Array | None = None,
    keep: Array | None = None,
    drop: Array | None = None,
    bias: Array | None = None,
    short_masks: bool = False,
    causal: bool = False,
    align: str | None = None,
    offsets: Numbers | None = None,
    window: tuple[int | None, int | None] | None = None,
    key_lengths: Numbers | None = None,
    query_lengths: Numbers | None = None,
    prefix_lengths: Numbers | None = None,
    query_segments: Numbers | None = None,
    key_segments: Numbers | None = None,
    cu_queries: Numbers | None = None,
    cu_keys: Numbers | None = None,
    block_table: Array | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    alibi: bool | Array = False,
    sinks: Array | None = None,
    dropout: float = 0.0,
    dropout_seed: int = 0,
    dropout_offset: int = 0,
    lse: bool = False,
    weights: bool = False,
    weights_form: str = "softmax",
    weights_mean: bool = False,
    weights_queries: Numbers | None = None,
    weights_heads: Numbers | None = None,
    column_sums: bool = False,
    entropy: bool = False,
    device: str | Context | None = None,
    algorithm: str | None = None,
    variant: str | None = None,
    max_workspace: int = 0,
    batch_invariant: bool = False,
    self_check: int | str = 0,
) -> Any:
    """O = softmax(scale Q K^T + bias, masked) V.

    Arrays are NumPy's, or any that export DLPack on the CPU (PyTorch's among them); none is copied where its strides can
    be used as they are. Types: f32, f16, bf16, each its own, with sums in f32; or f64.

    q            [B, H, N, D]; ranks 2 [N, D] and 3 [H, N, D] count as one batch, and one head
    k, v         [B, Hk, M, D] and [B, Hk, M, Dv]; H is a multiple of Hk
    out          [B, H, N, Dv], written and returned instead of a new array
    keep, drop   bool or uint8, broadcast to [B, H, N, M]: nonzero = may be seen; may not be seen
    bias         numbers added to the scores; -inf hides a key
    short_masks  masks may have fewer columns than keys: the missing ones are not seen
    causal       a query sees no later key; with N unlike M, or a window or alibi, `align` or `offsets` is needed
    align        "top-left" (query i stands at key i) or "bottom-right" (the last query stands at the last key)
    offsets      the key at which query 0 stands, one a batch
    window       (left, right): keys seen to each side; None: no limit
    key_lengths, query_lengths, prefix_lengths   one a batch: keys that count, queries that count, keys that causal
                 does not hide
    query_segments, key_segments   [B, N] and [B, M]: a query sees keys of its own segment; with sequences
                 [sequences, the longest's length]
    cu_queries, cu_keys   [sequences + 1]: sequences one after another in one batch; B above is then their number.
                 Rows behind the last one are not written (in new arrays: zeros)
    block_table  [B, pages] of int32: k and v are pages [pages, Hk, page, D]; with key_lengths
    scale        1 / sqrt(D) if None
    softcap      softcap * tanh(score / softcap), before everything else; 0: none
    alibi        True: the usual slopes; an array [H]: others
    sinks        [H]: a logit in each row's sum, without a value; converted to the type of the sums
    dropout      the share of weights that are dropped, by dropout_seed and dropout_offset
    lse, weights, column_sums, entropy   True: also returned, [B, H, N], [B, H, N, M], [B, H, M], [B, H, N];
                 weights_form "softmax", "scaled", "capped" or "masked"; weights_mean: over the heads [B, 1, N, M];
                 weights_queries, weights_heads: of these alone
    device       None, a name ("opencl", "cpu", ...; see devices()) or a Context
    algorithm, variant, max_workspace, batch_invariant   how it is computed
    self_check   rows that are computed again by plain loops, or "all": raises where one is wrong

    Returns O, or a Result where lse, weights, column_sums or entropy are asked for: PyTorch tensors where q is one, else
    NumPy arrays. A query that sees no key gives zeros, and -inf as lse.
    Raises ArgumentError (shapes, options), DtypeError, OutOfMemoryError, Error.
    """
    a = _Arguments()
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array is None:
            raise ArgumentError(f"{name} is None; queries, keys and values are needed")
    tq, tk, tv = (a.tensor(name, array) for name, array in (("q", q), ("k", k), ("v", v)))
    rank = len(tq.shape)
    if not 2 <= rank <= 4 or len(tk.shape) != rank and block_table is None or len(tv.shape) != len(tk.shape):
        raise ArgumentError(f"q, k, v are of shapes {tq.shape}, {tk.shape}, {tv.shape}; each is [B, H, S, D], or [H, S, D], or [S, D]")
    if len(tk.shape) < 2:
        raise ArgumentError(f"k and v are of shapes {tk.shape} and {tv.shape}; [B, H, S, D], [H, S, D] or [S, D] are needed")
    batches, heads, queries, _ = (1,) * (4 - rank) + tq.shape
    keys = tk.shape[-2]

    sequences = _sequences(a, cu_queries, cu_keys)
    rows = sequences or batches
    if block_table is not None:
        table = np.asarray(block_table)
        if table.ndim != 2 or table.shape[0] != rows:
            raise ArgumentError(f"block_table is of shape {table.shape}; [{rows}, pages] is needed")
        a.numbers("block_table", table, np.int32, None)
        a.c.table_pages = table.shape[1]
        keys *= table.shape[1]
    for field, array in (("keep", keep), ("drop", drop)):
        a.tensor(field, array)
    tbias = a.tensor("bias", bias)
    a.c.short_masks = short_masks
    _positions(a, causal, align, offsets, window, rows)
    a.numbers("key_lengths", key_lengths, np.int64, rows)
    a.numbers("query_lengths", query_lengths, np.int64, rows)
    a.numbers("prefix_lengths", prefix_lengths, np.int64, rows)
    longest_queries = _longest(cu_queries, queries)
    longest_keys = keys if block_table is not None else _longest(cu_keys, keys)
    a.numbers("query_segments", query_segments, np.int32, rows * longest_queries)
    a.numbers("key_segments", key_segments, np.int32, rows * longest_keys)
    _scores(a, heads, scale, softcap, alibi)
    a.c.dropout, a.c.dropout_seed, a.c.dropout_offset = dropout, dropout_seed, dropout_offset
    a.text("algorithm", algorithm)
    a.text("variant", variant)
    a.c.max_workspace, a.c.batch_invariant = max_workspace, batch_invariant
    a.c.self_check = 2**63 - 1 if self_check == "all" else self_check

    lead = tq.shape[:-2]
    whole = not sequences and queries > 0  # else some places are not written
    result = Result(out if out is not None else _tensor.new_like(q, lead + (queries, tv.shape[-1]), whole))
    to = a.tensor("o", result.o, out=True)
    sums = "float64" if any(t is not None and t.dtype == "float64" for t in (tq, tk, tv, to, tbias)) else "float32"
    a.tensor("sinks", _sinks_of(sinks, sums))
    shown_queries = a.numbers("weights_queries", weights_queries, np.int64, None) if weights_queries is not None else queries
    shown_heads = a.numbers("weights_heads", weights_heads, np.int64, None) if weights_heads is not None else heads
    if weights_queries is not None:
        a.c.weights_query_count = shown_queries
    if weights_heads is not None:
        a.c.weights_head_count = shown_heads
    if weights_form not in _FORMS:
        raise ArgumentError(f"weights_form is {weights_form!r}; {', '.join(_FORMS)} are known")
    a.c.weights_form = getattr(lib, _FORMS[weights_form])
    a.c.weights_mean = weights_mean
    full = {
        "lse": (lse, (batches, heads, queries)),
        "weights": (weights, (batches, 1 if weights_mean else shown_heads, shown_queries, keys)),
        "column_sums": (column_sums, (batches, heads, keys)),
        "entropy": (entropy, (batches, heads, queries)),
    }
    for field, (wanted, shape) in full.items():
        if wanted:
            array = _tensor.new_like(q, shape[4 - rank :] if rank < 4 else shape, whole, sums)
            a.tensor(field, array, out=True)
            setattr(result, field, array)
    check(lib.clattn_attention(context_of(device).handle, a.c))
    return result if any(wanted for wanted, _ in full.values()) else result.o


def _sequences(a: _Arguments, cu_queries: Numbers | None, cu_keys: Numbers | None) -> int:
    """How many there are; 0: none."""
    if cu_queries is None:
        if cu_keys is not None:
            raise ArgumentError("cu_keys needs cu_queries")
        return 0
    count = a.numbers("cu_queries", cu_queries, np.int64, None)
    if count < 2:
        raise ArgumentError(f"cu_queries has {count} numbers; one more than there are sequences are needed")
    a.numbers("cu_keys", cu_keys, np.int64, count)
    a.c.sequences = count - 1
    return count - 1


def _longest(ends: Numbers | None, whole: int) -> int:
    """The longest of the sequences that begin and end there."""
    return whole if ends is None else max(0, int(np.diff(np.asarray(ends).reshape(-1)).max()))


def _positions(
    a: _Arguments,
    causal: bool,
    align: str | None,
    offsets: Numbers | None,
    window: tuple[int | None, int | None] | None,
    rows: int,
) -> None:
    if not isinstance(causal, (bool, np.bool_, int)):
        raise ArgumentError(f"causal is {causal!r}; it is True or False, and align= says where queries stand")
    a.c.causal = bool(causal)
    if offsets is not None:
        if align is not None:
            raise ArgumentError("align and offsets exclude each other")
        a.c.align = lib.CLATTN_ALIGN_OFFSET
        a.numbers("offsets", offsets, np.int64, rows)
    elif align is not None:
        if align not in _ALIGNS:
            raise ArgumentError(f"align is {align!r}; {', '.join(_ALIGNS)} are known, or offsets=")
        a.c.align = getattr(lib, _ALIGNS[align])
    if window is not None:
        if not isinstance(window, (tuple, list)) or len(window) != 2:
            raise ArgumentError(f"window is {window!r}; it is (left, right), None for a side without a limit")
        left, right = window
        a.c.has_window = True
        a.c.window_left = 2**63 - 1 if left is None else left
        a.c.window_right = 2**63 - 1 if right is None else right


def _sinks_of(sinks: Array | None, sums: str) -> Array | None:
    """In the type of the sums, as the library needs them."""
    if sinks is None:
        return None
    if not isinstance(sinks, np.ndarray) and hasattr(sinks, "__dlpack__"):
        if _tensor.of(sinks, "sinks").dtype in (sums, "bfloat16"):  # NumPy has no bfloat16: the library says what is needed
            return sinks
        sinks = np.from_dlpack(sinks)
    return np.asarray(sinks, dtype=sums)


def _scores(a: _Arguments, heads: int, scale: float | None, softcap: float, alibi: bool | Array) -> None:
    if scale is not None:
        a.c.has_scale, a.c.scale = True, scale
    a.c.softcap = softcap
    if isinstance(alibi, (bool, np.bool_)):
        if alibi:
            slopes = np.empty(heads, np.float32)
            lib.clattn_alibi_slopes(heads, ffi.cast("float *", slopes.ctypes.data))
            a.numbers("alibi_slopes", slopes, np.float32, heads)
    else:
        a.numbers("alibi_slopes", alibi, np.float32, heads, "slopes")
