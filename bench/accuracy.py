#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/numerics.md: errors against double of every algorithm, of gradients too, and of PyTorch and ONNX Runtime on the same
numbers, judged in the same way. BUILD/tests/accuracy computes the problems, the exact results and our rows.

    bench/accuracy.py [--build build] [--queries 64] [--docs docs/numerics.md]

A peer that is absent is left out with a line that says so. bench/run_peers.sh makes an environment that has them."""
import argparse
import glob
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

import report
from backends import BACKENDS, Refused
from scenario import Scenario

TYPES = {"F32": "f32", "F16": "f16", "BF16": "bf16", "F64": "f64"}
PEERS = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime"}


class View:
    """What backends need of an array: a writable buffer, a type, a shape."""

    def __init__(self, buffer, dtype, shape):
        self.map, self.dtype, self.shape = buffer, dtype, tuple(shape)
        self.count = math.prod(shape)


def load(path):
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        data = file.read()
    arrays = {}
    for name, of in header.items():
        if name != "__metadata__":
            begin, end = of["data_offsets"]
            arrays[name] = View(bytearray(data[begin:end]), TYPES[of["dtype"]], of["shape"])
    return arrays, {key: float(value) for key, value in header["__metadata__"].items()}


def numbers_of(view):
    """Of f32, f16, bf16 or f64, as Python floats."""
    if view.dtype == "bf16":
        wide = struct.pack(f"<{view.count}I", *[x << 16 for x in struct.unpack(f"<{view.count}H", view.map)])
        return struct.unpack(f"<{view.count}f", wide)
    return struct.unpack(f"<{view.count}{({'f32': 'f', 'f16': 'e', 'f64': 'd'})[view.dtype]}", view.map)


def result_of(backend, arrays, scale):
    """O in the type of q, by each way in turn: the numbers of the most exact one are for the caller to choose."""
    q, k, v = (arrays[name] for name in "qkv")
    b, h, n, d = q.shape
    s = Scenario("accuracy", "", B=b, H=h, Hk=k.shape[1], N=n, M=k.shape[2], D=d, Dv=v.shape[3], q=q.dtype, k=k.dtype, v=v.dtype)
    s.scale = scale
    size = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8}[q.dtype]
    for way, function in backend.open(s, {"q": q, "k": k, "v": v}, View(bytearray(0), q.dtype, (b, h, n, v.shape[3]))).items():
        out = View(bytearray(b"\xff" * (b * h * n * v.shape[3] * size)), q.dtype, (b, h, n, v.shape[3]))
        backend.store(function(), out)
        yield way, numbers_of(out)
    backend.close()


def measure(backend, path):
    """(error over max|V|, share of what is allowed) of a peer's most exact way; a text where it cannot."""
    arrays, about = load(path)
    exact = numbers_of(arrays["o"])
    best = None
    try:
        for _, got in result_of(backend, arrays, about["scale"]):
            error = max((abs(a - x) if a == a else math.inf) for a, x in zip(got, exact))
            best = error if best is None else min(best, error)
    except (Refused, RuntimeError) as reason:
        return str(reason)
    return best / about["largest"], best / about["allowed"]


def measure_gradients(backend, path):
    """[(error over the largest number, share of what is allowed)] of dQ, dK, dV; a text where it cannot."""
    arrays, allowed = load(path)
    s = Scenario("gradients", "", backward=True, B=1, H=1, Hk=1, N=arrays["q"].shape[2], M=arrays["k"].shape[2],
                 D=arrays["q"].shape[3], Dv=arrays["v"].shape[3], k="f32", v="f32")  # fmt: skip
    dtype, shape = s.arrays()["o"]
    out = View(bytearray(b"\xff" * (4 * math.prod(shape))), dtype, shape)
    try:
        backend.store(next(iter(backend.open(s, arrays, out).values()))(), out)
    except (Refused, RuntimeError) as reason:
        return str(reason)
    got, at, results = numbers_of(out), 0, []
    for name in ("d_q", "d_k", "d_v"):
        exact = numbers_of(arrays[name])
        error = max(abs(a - x) if a == a else math.inf for a, x in zip(got[at : at + len(exact)], exact))
        at += len(exact)
        results.append((error / max(map(abs, exact)), error / allowed[name]))
    return results


def row(title, dtype, results):
    cells = [f"{r[0]:.1e} ({r[1]:.2f})" if not isinstance(r, str) else "-" for r in results]
    return f"| {dtype} | {title} | " + " | ".join(cells) + " | - |"


def gradients_with_peers(text, backends, folder):
    """The table of gradients, with rows of the peers behind ours of each factor."""
    lines = []
    for line in [*text.splitlines(), ""]:
        before = re.match(r"\| (x\d+) \|", lines[-1]) if lines else None
        if before and not line.startswith(f"| {before[1]} |"):
            for name, backend in backends.items():
                results = measure_gradients(backend, os.path.join(folder, f"gradients-{before[1]}.safetensors"))
                if isinstance(results, str):
                    print(f"{PEERS[name]} takes no part in gradients: {results[:100]}", file=sys.stderr)
                else:
                    lines.append(f"| {before[1]} | {PEERS[name]} | " + " | ".join(f"{e:.1e} ({a:.2f})" for e, a in results) + " |")
        lines.append(line)
    return "\n".join(lines).rstrip("\n")


def with_peers(text, backends, folder):
    """The tables, with rows of the peers behind ours of each type."""
    text, mark, gradients = text.partition("Gradients in f32")
    return results_with_peers(text.rstrip("\n"), backends, folder) + "\n\n" + gradients_with_peers(mark + gradients, backends, folder)


def results_with_peers(text, backends, folder):
    lines, scale, done = [], None, []
    scales = iter(("0.125", "1"))
    for line in text.splitlines():
        if line.startswith("Scores of"):
            scale, done = next(scales), []
        dtype = re.match(r"\| (f32|f16|bf16|f64) \|", line)
        before = re.match(r"\| (f32|f16|bf16|f64) \|", lines[-1]) if lines else None
        if before and (not dtype or dtype[1] != before[1]) and before[1] not in done:
            lines += rows_of(before[1], scale, backends, folder)
            done.append(before[1])
        lines.append(line)
    last = re.match(r"\| (f32|f16|bf16|f64) \|", lines[-1])
    return "\n".join(lines + (rows_of(last[1], scale, backends, folder) if last and last[1] not in done else []))


def rows_of(dtype, scale, backends, folder):
    files = glob.glob(os.path.join(folder, f"{dtype}-*-{scale}.safetensors"))
    files.sort(key=lambda path: int(os.path.basename(path).split("-")[1]))
    rows = []
    for name, backend in backends.items():
        results = [measure(backend, path) for path in files]
        if all(isinstance(r, str) for r in results):
            print(f"{PEERS[name]} takes no part in {dtype}: {results[0][:100]}", file=sys.stderr)
        else:
            rows.append(row(PEERS[name], dtype, results))
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default="build")
    p.add_argument("--queries", type=int, default=64)
    p.add_argument("--docs", help="a Markdown file, whose part between the marks accuracy is replaced")
    options = p.parse_args()
    backends, absent = {}, 0
    for name in PEERS:
        try:
            backends[name] = BACKENDS[name]({"threads": len(os.sched_getaffinity(0))})
        except ImportError as missing:
            print(f"skipped peer {name}: {missing}", file=sys.stderr)
            absent += 1
    with tempfile.TemporaryDirectory(prefix="clattn-") as folder:
        program = os.path.join(options.build, "tests", "accuracy")
        got = subprocess.run([program, str(options.queries), folder], stdout=subprocess.PIPE, text=True, check=False)
        if got.returncode != 0:
            return got.returncode
        table = with_peers(got.stdout.strip("\n"), backends, folder)
    versions = "".join(f", {PEERS[name]} {backend.version()}" for name, backend in backends.items())
    text = f"{time.strftime('%Y-%m-%d')}, {report.machine()}; clattn {report.commit()}{versions}.\n\n{table}"
    print(text)
    print(f"{len(backends)} peers, {absent} absent", file=sys.stderr)
    if options.docs:
        report.insert(options.docs, "accuracy", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
