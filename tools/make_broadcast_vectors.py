#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/vectors/broadcast.safetensors, cases of `clattn check`: torch's scaled_dot_product_attention on tensors of
any rank that broadcast, and its gradients. Needs torch; the same bytes in every run of one version of it.

  tools/make_broadcast_vectors.py tests/vectors/broadcast.safetensors
"""
import json
import struct
import sys

import torch
from torch.nn.functional import scaled_dot_product_attention

N, M, D, V = 3, 4, 5, 2
TYPES = {"f64": torch.float64, "f32": torch.float32}
TOLERANCES = {"f64": [1e-11, 1e-12], "f32": [1e-5, 1e-5]}
tensors, cases = {}, {}

# name: leading axes of Q, of K, of V, shape of the mask or None, options
CASES = {
    "rank2": ([], [], [], None, {}),
    "rank2_mask": ([], [], [], [N, M], {}),
    "rank3": ([3], [3], [3], None, dict(is_causal=1)),
    "rank3_mask": ([3], [3], [3], [3, N, M], {}),
    "rank3_mask_of_rank4": ([3], [3], [3], [1, 3, 1, M], {}),
    "rank3_groups": ([4], [2], [2], None, dict(enable_gqa=1)),
    "rank5": ([2, 3, 2], [2, 3, 2], [2, 3, 2], None, {}),
    "rank5_causal": ([2, 3, 2], [2, 3, 2], [2, 3, 2], None, dict(is_causal=1)),
    "rank5_mask": ([2, 3, 2], [2, 3, 2], [2, 3, 2], [2, 3, 2, N, M], {}),
    "rank5_mask_of_ones": ([2, 3, 2], [2, 3, 2], [2, 3, 2], [2, 1, 1, N, M], {}),
    "rank5_mask_of_rank4": ([2, 3, 2], [2, 3, 2], [2, 3, 2], [3, 1, N, 1], {}),
    "rank5_mask_of_rank3": ([2, 3, 2], [2, 3, 2], [2, 3, 2], [2, 1, M], {}),
    "rank5_mask_of_rank2": ([2, 3, 2], [2, 3, 2], [2, 3, 2], [N, M], {}),
    "rank5_groups": ([2, 1, 4], [2, 2, 2], [1, 2, 2], [2, 1, 4, N, M], dict(enable_gqa=1)),
    "rank6": ([2, 1, 2, 2], [1, 2, 2, 2], [2, 2, 1, 1], None, {}),
    "batch_of_keys": ([2, 3], [1, 3], [1, 3], None, {}),
    "batch_of_values": ([2, 3], [2, 3], [1, 3], [2, 1, N, M], {}),
    "batch_of_queries": ([1, 3], [2, 3], [2, 3], [2, 1, N, M], {}),
    "batch_of_groups": ([2, 4], [1, 2], [1, 2], None, dict(enable_gqa=1)),
    "head_of_queries": ([2, 1], [2, 3], [2, 3], None, {}),
    "head_of_keys": ([2, 3], [2, 1], [2, 3], None, {}),
    "head_of_both": ([2, 3], [2, 1], [2, 1], None, {}),
    "groups_apart": ([2, 4], [2, 2], [2, 4], None, dict(enable_gqa=1)),
    "groups_of_one": ([2, 4], [2, 1], [2, 2], None, dict(enable_gqa=1)),
    "queries_of_rank2": ([], [2, 3], [2, 3], None, {}),
    "keys_of_rank2": ([2, 3], [], [], None, dict(is_causal=1)),
    "keys_of_rank3": ([2, 3], [3], [1], None, {}),
    "keys_of_rank4": ([2, 2, 3], [2, 3], [2, 3], None, {}),
}


def random(*shape):
    return torch.randn(*shape)


def make(name, leading, mask, options, boolean):
    inputs = {"Q": random(*leading[0], N, D), "K": random(*leading[1], M, D), "V": random(*leading[2], M, V)}
    if mask:
        inputs["attn_mask"] = random(*mask) > -0.5 if boolean else random(*mask)
    outputs, forward = {}, {}
    for of, dtype in TYPES.items():
        q, k, v = (inputs[i].to(dtype).clone().requires_grad_(True) for i in "QKV")
        bias = inputs.get("attn_mask")
        y = scaled_dot_product_attention(q, k, v, bias if boolean or bias is None else bias.to(dtype), **{
            key: bool(value) for key, value in options.items()})
        inputs.setdefault("dY", random(*y.shape))
        y.backward(inputs["dY"].to(dtype))
        forward[f"Y_{of}"] = y
        outputs |= {f"d{i}_{of}": x.grad for i, x in zip("QKV", (q, k, v))}
    keep(f"sdpa_{name}", "sdpa", options, {i: x for i, x in inputs.items() if i != "dY"}, forward)
    keep(f"grad_{name}", "sdpa_grad", options, inputs, forward | outputs)


def keep(case, op, options, inputs, outputs):
    for name, value in (inputs | outputs).items():
        tensors[f"{case}/{name}"] = value.detach().contiguous()
    attributes = {"is_causal": 0, "causal_lower_right": 0, "scale": None, "enable_gqa": 0, "layout": "BHSD"} | options
    cases[case] = json.dumps({"op": op, "opset": None, "attrs": attributes, "in": list(inputs), "out": {
        name: TOLERANCES[name[-3:]] for name in outputs}}, separators=(",", ":"))


def save(path):
    codes = {torch.float64: ("F64", "d"), torch.float32: ("F32", "f"), torch.bool: ("BOOL", "?")}
    header, data = {"__metadata__": cases}, b""
    for name, value in sorted(tensors.items()):
        of, code = codes[value.dtype]
        begin = len(data)
        data += struct.pack(f"<{value.numel()}{code}", *value.flatten().tolist())
        header[name] = {"dtype": of, "shape": list(value.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


torch.manual_seed(1)
for number, (case, (q_axes, k_axes, v_axes, of_mask, chosen)) in enumerate(CASES.items()):
    make(case, (q_axes, k_axes, v_axes), of_mask, chosen, number % 2 == 0)
save(sys.argv[1])
