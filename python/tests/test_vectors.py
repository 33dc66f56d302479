# SPDX-License-Identifier: Apache-2.0
"""PyTorch's results in f16, f32 and f64: all on `cpu`, some on the best OpenCL device. Devices against each other are
what the library's own tests compare."""

import clattn
import numpy as np
import pytest
from vectors import sdpa_cases

CASES = list(sdpa_cases())
OPENCL = any(d["is_opencl"] and d["usable"] and d["has_f64"] for d in clattn.devices())
RUNS = [("cpu", *case) for case in CASES] + [("opencl", *case) for case in CASES[::15] if OPENCL]


def test_there_are_cases():
    assert len(CASES) >= 40


@pytest.mark.parametrize("device,name,attributes,inputs,outputs", RUNS, ids=[f"{run[0]}-{run[1]}" for run in RUNS])
def test_pytorch(device, name, attributes, inputs, outputs):
    options = {"scale": attributes["scale"], "causal": bool(attributes["is_causal"] or attributes["causal_lower_right"])}
    if options["causal"]:
        options["align"] = "bottom-right" if attributes["causal_lower_right"] else "top-left"
    mask = inputs.get("attn_mask")
    for output, (wanted, rtol, atol) in outputs.items():
        dtype = wanted.dtype
        q, k, v = (inputs[x].astype(dtype) for x in "QKV")
        if q.ndim == 4:
            q, k, v = (x.transpose([attributes["layout"].index(axis) for axis in "BHSD"]) for x in (q, k, v))
        if mask is not None and mask.dtype == np.bool_:
            options["keep"] = mask
        elif mask is not None:
            options["bias"] = mask.astype(dtype)
        got = clattn.attention(q, k, v, device=device, **options)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=max(atol, rtol * 1e-2))
