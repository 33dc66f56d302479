# SPDX-License-Identifier: Apache-2.0
"""Every option against the formula in NumPy on `cpu`, arrays of other libraries, and what wrong use says."""

import os
import re
import threading

import clattn
import numpy as np
import pytest

B, H, N, M, D = 2, 4, 5, 7, 8
rng = np.random.default_rng(3)
Q = rng.standard_normal((B, H, N, D))
K, V = (rng.standard_normal((B, 2, M, D)) for _ in range(2))
KEEP = rng.random((N, M)) < 0.7
BIAS = rng.standard_normal((H, N, M))


def formula(q, k, v, seen=True, bias=0.0, scale=None, softcap=0.0, sinks=None):
    """O, P, LSE of plain NumPy in f64."""
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    s = np.where(seen, s + bias, -np.inf)
    top = s.max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    e = np.exp(s - top)
    total = e.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(np.asarray(sinks)[None, :, None, None] - top)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(total > 0, e / total, 0)
        return p @ v, p, (top + np.log(total))[..., 0]


rows, columns = np.arange(N)[:, None], np.arange(M)[None]
OPTIONS = [
    ("plain", {}, {}),
    ("causal", {"causal": True, "align": "bottom-right"}, {"seen": columns <= rows + M - N}),
    ("top_left", {"causal": True, "align": "top-left"}, {"seen": columns <= rows}),
    ("offsets", {"causal": True, "offsets": [0, 3]}, {"seen": columns <= rows + np.array([0, 3])[:, None, None, None]}),
    ("window", {"window": (1, 2), "align": "top-left"}, {"seen": (columns >= rows - 1) & (columns <= rows + 2)}),
    ("window_left", {"window": (1, None), "align": "top-left"}, {"seen": columns >= rows - 1}),
    ("keep", {"keep": KEEP}, {"seen": KEEP}),
    ("drop", {"drop": ~KEEP}, {"seen": KEEP}),
    ("bias", {"bias": BIAS}, {"bias": BIAS}),
    ("scale", {"scale": 0.3}, {"scale": 0.3}),
    ("softcap", {"softcap": 2.0}, {"softcap": 2.0}),
    ("sinks", {"sinks": np.arange(4.0)}, {"sinks": np.arange(4.0)}),
    ("key_lengths", {"key_lengths": [4, 0]}, {"seen": columns < np.array([4, 0])[:, None, None, None]}),
    ("query_lengths", {"query_lengths": [2, 5]}, {"seen": rows < np.array([2, 5])[:, None, None, None]}),
    (
        "alibi",
        {"alibi": True, "align": "top-left"},
        {"bias": -(0.25 ** np.arange(1, 5))[:, None, None] * np.abs(rows - columns)},
    ),
    (
        "slopes",
        {"alibi": [0.5, 0.25, 1, 2], "align": "top-left"},
        {"bias": -np.array([0.5, 0.25, 1, 2])[:, None, None] * np.abs(rows - columns)},
    ),
    (
        "segments",
        {"query_segments": np.tile(np.arange(N) // 2, (B, 1)), "key_segments": np.tile(np.arange(M) // 3, (B, 1))},
        {"seen": rows // 2 == columns // 3},
    ),
    (
        "prefix",
        {"causal": True, "align": "top-left", "prefix_lengths": [3, 0]},
        {"seen": (columns <= rows) | (columns < np.array([3, 0])[:, None, None, None])},
    ),
]


@pytest.mark.parametrize("name,options,terms", OPTIONS, ids=[option[0] for option in OPTIONS])
def test_options(name, options, terms):
    o, p, lse = formula(Q, K, V, **terms)
    got = clattn.attention(Q, K, V, device="cpu", lse=True, weights=True, column_sums=True, entropy=True, **options)
    for result, wanted in ((got.o, o), (got.weights, p), (got.lse, lse), (got.column_sums, p.sum(-2))):
        assert result.shape == wanted.shape and result.dtype == np.float64
        np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-11)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum(np.where(p > 0, p * np.log(p), 0), -1)
    np.testing.assert_allclose(got.entropy, entropy, rtol=1e-9, atol=1e-11)


def test_forms_and_parts_of_weights():
    s = Q @ np.repeat(K, 2, 1).swapaxes(-1, -2) * D**-0.5
    scaled = clattn.attention(Q, K, V, device="cpu", weights=True, weights_form="scaled").weights
    np.testing.assert_allclose(scaled, s, rtol=1e-9)
    _, p, _ = formula(Q, K, V)
    mean = clattn.attention(Q, K, V, device="cpu", weights=True, weights_mean=True).weights
    np.testing.assert_allclose(mean, p.mean(1, keepdims=True), rtol=1e-9)
    some = clattn.attention(Q, K, V, device="cpu", weights=True, weights_queries=[3, 0], weights_heads=[2]).weights
    np.testing.assert_allclose(some, p[:, [2]][:, :, [3, 0]], rtol=1e-9)


def test_sequences_and_pages():
    cu_queries, cu_keys = [0, 2, 5], [0, 3, 7]
    o = clattn.attention(Q[:1], K[:1], V[:1], device="cpu", cu_queries=cu_queries, cu_keys=cu_keys)
    for i in range(2):
        a, b, c, d = cu_queries[i], cu_queries[i + 1], cu_keys[i], cu_keys[i + 1]
        wanted, _, _ = formula(Q[:1, :, a:b], K[:1, :, c:d], V[:1, :, c:d])
        np.testing.assert_allclose(o[:, :, a:b], wanted, rtol=1e-9)
    segments = dict(query_segments=np.array([[0, 1, 9], [0, 0, 1]]), key_segments=np.array([[0, 1, 1, 9], [0, 0, 1, 1]]))
    o = clattn.attention(Q[:1], K[:1], V[:1], device="cpu", cu_queries=cu_queries, cu_keys=cu_keys, **segments)
    seen = np.equal.outer([0, 0, 1], [0, 0, 1, 1])
    np.testing.assert_allclose(o[:, :, 2:], formula(Q[:1, :, 2:], K[:1, :, 3:], V[:1, :, 3:], seen=seen)[0], rtol=1e-9)
    part = clattn.attention(Q[:1], K[:1], V[:1], device="cpu", cu_queries=[0, 2], cu_keys=[0, 7], lse=True)
    assert not part.o[:, :, 2:].any() and not part.lse[:, :, 2:].any() and part.o[:, :, :2].any()
    page = 2
    k_pages, v_pages = (x[0, :, :6].reshape(2, 3, page, D).transpose(1, 0, 2, 3)[[1, 2, 0]] for x in (K, V))
    paged = clattn.attention(Q[:1], k_pages, v_pages, device="cpu", block_table=[[2, 0, 1]], key_lengths=[5])
    np.testing.assert_allclose(paged, formula(Q[:1], K[:1, :, :5], V[:1, :, :5])[0], rtol=1e-9)


def test_ranks_strides_and_types():
    o, _, _ = formula(Q, K, V)
    for rank in (2, 3):
        lead = (0,) * (4 - rank)
        got = clattn.attention(Q[lead], K[lead], V[lead], device="cpu", lse=True)
        np.testing.assert_allclose(got.o, o[lead] if rank == 2 else formula(Q[:1], K[:1], V[:1])[0][0], rtol=1e-9)
        assert got.lse.shape == Q[lead].shape[:-1]
    packed = np.ascontiguousarray(Q.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)  # [b, n, h, d]
    np.testing.assert_allclose(clattn.attention(packed, K[..., ::-1, :], V[..., ::-1, :], device="cpu"), o, rtol=1e-9)
    swapped = Q.astype(">f8")
    np.testing.assert_allclose(clattn.attention(swapped, K, V, device="cpu"), o, rtol=1e-9)
    half = clattn.attention(Q.astype("f2"), K.astype("f2"), V.astype("f2"), device="cpu")
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, o, rtol=2e-2, atol=2e-2)
    out = np.zeros((B, N, H, D)).transpose(0, 2, 1, 3)
    assert clattn.attention(Q, K, V, device="cpu", out=out) is out
    np.testing.assert_allclose(out, o, rtol=1e-9)
    none = clattn.attention(Q[:, :, :0], K, V, device="cpu", column_sums=True)
    assert none.o.shape == (B, H, 0, D) and not none.column_sums.any()
    assert not clattn.attention(Q, K[:, :, :0], V[:, :, :0], device="cpu").any()


def test_dropout_is_that_of_its_seed():
    def run(**more):
        return clattn.attention(Q, K, V, device="cpu", dropout=0.5, **more)

    assert (run(dropout_seed=1) == run(dropout_seed=1)).all()
    assert (run(dropout_seed=1) != run(dropout_seed=2)).any()
    assert (run(dropout_seed=1) != run(dropout_seed=1, dropout_offset=1)).any()


def test_sums_are_f64_where_any_array_is():
    q, k, v = (x.astype("f4") for x in (Q, K, V))
    _, p, lse = formula(q.astype("f8"), k.astype("f8"), v.astype("f8"), bias=BIAS, sinks=np.arange(4.0))
    for options in ({"bias": BIAS}, {"bias": BIAS.astype("f4"), "out": np.empty((B, H, N, D))}):
        asked = dict(lse=True, weights=True, column_sums=True, entropy=True, sinks=np.arange(4))
        got = clattn.attention(q, k, v, device="cpu", **options, **asked)
        assert {x.dtype for x in (got.lse, got.weights, got.column_sums, got.entropy)} == {np.dtype("f8")}
        np.testing.assert_allclose(got.lse, lse, rtol=1e-6)
        np.testing.assert_allclose(got.weights, p, rtol=1e-6)


def test_sinks_of_any_type_become_that_of_the_sums():
    single = [x.astype("f4") for x in (Q, K, V)]
    wanted = clattn.attention(*single, sinks=np.arange(4, dtype="f4"), device="cpu")
    for sinks in ([0.0, 1.0, 2.0, 3.0], range(4), np.arange(4.0), Foreign(np.arange(4.0)), Foreign(np.arange(4, dtype="f4"))):
        np.testing.assert_array_equal(clattn.attention(*single, sinks=sinks, device="cpu"), wanted)


class Foreign:
    """An array of another library: nothing but DLPack."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


class Old(Foreign):
    """The same before DLPack 1.0."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


def test_arrays_of_others():
    o, _, _ = formula(Q, K, V)
    got = clattn.attention(*(Foreign(x) for x in (Q, K[:, :, ::1], V)), keep=Foreign(np.ones((N, M), np.uint8)), device="cpu")
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, o, rtol=1e-9)
    out = np.empty_like(o)
    clattn.attention(Foreign(Q), K, V, out=Foreign(out), device="cpu")
    np.testing.assert_allclose(out, o, rtol=1e-9)
    np.testing.assert_allclose(clattn.attention(Old(Q), Old(K), Old(V), device="cpu"), o, rtol=1e-9)
    fixed = np.zeros_like(o)
    fixed.flags.writeable = False
    for unwriteable in (Old(out), Foreign(fixed)):
        with pytest.raises(clattn.ArgumentError, match="o is written"):
            clattn.attention(Q, K, V, out=unwriteable, device="cpu")
    with pytest.raises(clattn.ArgumentError, match="q is not on the CPU"):
        clattn.attention(Foreign(Q, (2, 0)), K, V)


def test_structs_are_those_of_the_library_and_what_it_does_not_know_is_refused():
    from clattn._library import check, context_of, ffi, lib

    args = ffi.new("clattn_attention_args *")
    assert not any(args.reserved)
    assert all("reserved" not in device for device in clattn.devices())
    args.reserved[len(args.reserved) - 1] = 1
    with pytest.raises(clattn.Error, match="^.*clattn_attention_args: reserved.* is not 0"):
        check(lib.clattn_attention(context_of("cpu").handle, args))
    assert ffi.offsetof("clattn_attention_args", "reserved") + 8 * len(args.reserved) == ffi.sizeof("clattn_attention_args")


def test_pytorch_tensors():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    q, k, v = (torch.from_numpy(x) for x in (Q, K, V))
    got = clattn.attention(q, k, v, device="cpu", lse=True)
    assert isinstance(got.o, torch.Tensor) and got.lse.dtype == torch.float64
    np.testing.assert_allclose(got.o.numpy(), formula(Q, K, V)[0], rtol=1e-9)
    half = clattn.attention(*(x.to(torch.bfloat16) for x in (q, k, v)), device="cpu", lse=True)
    assert half.o.dtype == torch.bfloat16 and half.lse.dtype == torch.float32
    np.testing.assert_allclose(half.o.float().numpy(), formula(Q, K, V)[0], rtol=5e-2, atol=5e-2)
    with pytest.raises(clattn.ArgumentError, match="DLPack"):
        clattn.attention(q.clone().requires_grad_(), k, v, device="cpu")
    keep = torch.from_numpy(KEEP)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)
    np.testing.assert_allclose(clattn.attention(q, k, v, keep=keep, device="cpu").numpy(), want.numpy(), rtol=1e-9)


WRONG = [
    (clattn.ArgumentError, "q, k, v are of shapes", lambda: clattn.attention(Q[0], K, V)),
    (clattn.ArgumentError, "q, k, v are of shapes", lambda: clattn.attention(Q[0, 0, 0], K[0, 0, 0], V[0, 0, 0])),
    (clattn.ArgumentError, "k", lambda: clattn.attention(Q, K[..., :3], V)),
    (clattn.ArgumentError, "align", lambda: clattn.attention(Q, K, V, causal=True)),
    (clattn.ArgumentError, "q is None", lambda: clattn.attention(None, K, V)),
    (clattn.ArgumentError, "causal is 'bottom-right'", lambda: clattn.attention(Q, K, V, causal="bottom-right")),
    (clattn.ArgumentError, "window is 3", lambda: clattn.attention(Q, K, V, window=3)),
    (clattn.ArgumentError, "align is 'left'", lambda: clattn.attention(Q, K, V, causal=True, align="left")),
    (clattn.ArgumentError, "exclude", lambda: clattn.attention(Q, K, V, align="top-left", offsets=[0, 0])),
    (clattn.ArgumentError, "key_lengths has 1", lambda: clattn.attention(Q, K, V, key_lengths=[1])),
    (clattn.ArgumentError, "integers", lambda: clattn.attention(Q, K, V, key_lengths=[1.5, 2])),
    (clattn.ArgumentError, "do not fit int32", lambda: clattn.attention(Q, K, V, query_segments=np.full((B, N), 2**32))),
    (
        clattn.ArgumentError,
        "query_segments has 5 numbers; 8",
        lambda: clattn.attention(Q[:1], K[:1], V[:1], cu_queries=[0, 1, 5], cu_keys=[0, 1, 7], query_segments=np.zeros(5, int)),
    ),
    (clattn.ArgumentError, "block_table is of shape", lambda: clattn.attention(Q, K, V, block_table=[0, 1])),
    (clattn.ArgumentError, "cu_keys", lambda: clattn.attention(Q, K, V, cu_keys=[0, 1])),
    (clattn.ArgumentError, "slopes", lambda: clattn.attention(Q, K, V, alibi=[1.0])),
    (clattn.ArgumentError, "weights_form is 'x'", lambda: clattn.attention(Q, K, V, weights_form="x")),
    (clattn.ArgumentError, "o is written", lambda: clattn.attention(Q, K, V, out=Q[..., ::-1])),
    (clattn.ArgumentError, "o is written", lambda: clattn.attention(Q, K, V, out=[1.0])),
    (clattn.ArgumentError, "dropout", lambda: clattn.attention(Q, K, V, dropout=1.0)),
    (clattn.DtypeError, "q is of complex128", lambda: clattn.attention(Q * 1j, K, V)),
    (clattn.DtypeError, "i32", lambda: clattn.attention(Q.astype("i4"), K, V)),
    (clattn.ArgumentError, "no_such", lambda: clattn.attention(Q, K, V, algorithm="no_such")),
    (clattn.Error, "no_such", lambda: clattn.attention(Q, K, V, device="no_such")),
    (clattn.ArgumentError, "keep is one number", lambda: clattn.attention(Q, K, V, keep=np.array(False))),
    (clattn.ArgumentError, "drop is one number", lambda: clattn.attention(Q, K, V, drop=True)),
    (clattn.ArgumentError, "bias is one number", lambda: clattn.attention(Q, K, V, bias=0.5)),
    (clattn.ArgumentError, "sinks is one number", lambda: clattn.attention(Q, K, V, sinks=0.5)),
    (clattn.ArgumentError, "9 axes", lambda: clattn.attention(Q, K, V, bias=np.zeros((1,) * 9))),
]


@pytest.mark.parametrize("kind,text,call", WRONG)
def test_wrong_use_is_a_named_error(kind, text, call):
    with pytest.raises(kind, match=text) as caught:
        call()
    assert str(caught.value)


def test_errors_are_also_those_of_python():
    with pytest.raises(ValueError):
        clattn.attention(Q, K[..., :3], V)
    with pytest.raises(TypeError):
        clattn.attention(Q * 1j, K, V)
    with pytest.raises(clattn.Error) as caught:
        clattn.Context("no_such")
    assert caught.value.status.startswith("CLATTN_E_")


def test_devices_and_contexts():
    found = clattn.devices()
    assert found[-1]["spec"] == "cpu" and found[-1]["is_opencl"] is False
    context = clattn.Context("cpu")
    assert context.info["spec"] == "cpu" and "cpu" in repr(context)
    np.testing.assert_allclose(clattn.attention(Q, K, V, device=context), formula(Q, K, V)[0], rtol=1e-9)


def test_threads_share_a_device():
    wanted, failures = formula(Q, K, V)[0], []

    def work():
        try:
            for _ in range(10):
                np.testing.assert_allclose(clattn.attention(Q, K, V), wanted, rtol=1e-9)
        except Exception as error:  # a thread's exception would not fail the test
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_self_check():
    clattn.attention(Q, K, V, self_check="all")
    clattn.attention(Q, K, V, self_check=3)


def test_the_version_is_the_packages():
    with open(os.path.join(os.path.dirname(__file__), "..", "pyproject.toml"), encoding="utf-8") as file:
        assert re.search(r'^version = "(.*)"$', file.read(), re.M).group(1) == clattn.version() == clattn.__version__


def test_the_readme_is_right(capsys):
    with open(os.path.join(os.path.dirname(__file__), "..", "README.md"), encoding="utf-8") as file:
        text = file.read()
    exec(re.search(r"```python\n(.*?)```", text, re.S).group(1), {})
    assert capsys.readouterr().out == re.search(r"```text\n(.*?)```", text, re.S).group(1)
