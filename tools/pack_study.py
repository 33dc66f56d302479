#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `clattn study` carries with it: the inputs and answers of its experiments, out of the test vectors.

  tools/pack_study.py tests/vectors/seed.safetensors tests/vectors/torch.safetensors host/cli/data/study.safetensors
"""
import json
import struct
import sys

CASES = {"s000_sdpa", "s001_sdpa", "s001_mask", "s000_mha", "s000_permutation_pe", "s000_causal", "enc_post_relu", "dec_post_relu"}


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        yield name, entry["dtype"], entry["shape"], data[8 + length + begin : 8 + length + end]


def main(*paths):
    sizes = {"F64": 8, "I64": 8, "F32": 4, "BOOL": 1}
    tensors = [t for path in paths[:-1] for t in read(path) if t[0].split("/")[0] in CASES]
    tensors.sort(key=lambda t: (-sizes[t[1]], t[0]))
    header, at = {}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(paths[-1], "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(t[3] for t in tensors))


if len(sys.argv) < 3:
    sys.exit(__doc__)
main(*sys.argv[1:])
