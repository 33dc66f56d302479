# SPDX-License-Identifier: Apache-2.0
"""The cases of tests/vectors/torch.safetensors: what PyTorch computed."""

import json
import os
import struct

import numpy as np

_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "vectors", "torch.safetensors")
_DTYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_, "U8": np.uint8}


def sdpa_cases():
    """(name, attributes, inputs, outputs) of each scaled_dot_product_attention; outputs: name -> (array, rtol, atol).
    Without bf16, which NumPy has not."""
    with open(_PATH, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    cases = {name: json.loads(text) for name, text in header.pop("__metadata__").items() if text.startswith("{")}

    def read(name):
        entry = header[name]
        begin, end = entry["data_offsets"]
        return np.frombuffer(data[begin:end], _DTYPES[entry["dtype"]]).reshape(entry["shape"])

    for name, case in sorted(cases.items()):
        if case.get("op") == "sdpa":
            inputs = {x: read(f"{name}/{x}") for x in case["in"]}
            outputs = {x: (read(f"{name}/{x}"), *case["out"][x]) for x in case["out"] if header[f"{name}/{x}"]["dtype"] in _DTYPES}
            yield name, case["attrs"], inputs, outputs
