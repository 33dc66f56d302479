#!/usr/bin/env python3
"""Converts ANNalog's checkpoint and vocabulary, as its Python package has them, once:
    tools/convert_annalog.py FOLDER OUT
FOLDER holds Lev_extended.pt and stereo_experiment_vocab_ttf.pkl; OUT gets model.safetensors, with PyTorch's names, and
vocab.txt, a token a line. Needs nothing but Python: no torch, no numpy. Pickles are read by an unpickler that knows
what a checkpoint is made of and refuses everything else, so that a file cannot run code."""
import collections
import json
import os
import pickle
import struct
import sys
import zipfile
import zlib

# What files that are cut short, damaged or of another kind make Python's readers raise.
FAULTS = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, StopIteration, TypeError),
    *(ValueError, pickle.UnpicklingError, struct.error, zipfile.BadZipFile, zlib.error),
)


class Refused(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"refused {module}.{name}")


class Tensor:
    """Floats, row-major: (storage, offset, shape, strides) as torch writes them."""

    def __init__(self, storage, offset, shape, strides, *_):
        if any(not isinstance(number, int) or number < 0 for number in (offset, *shape)):
            raise ValueError(f"a tensor of shape {shape} at {offset} of its storage")
        count, expected = 1, []
        for size in reversed(shape):
            expected.insert(0, count)
            count *= size
        if any(a != b for a, b, size in zip(strides, expected, shape) if size > 1):
            raise ValueError(f"a tensor of strides {strides} is not row-major")
        self.shape = list(shape)
        self.data = storage[4 * offset : 4 * (offset + count)]
        if len(self.data) != 4 * count:
            raise ValueError(f"a tensor of shape {self.shape} goes past the end of its storage")


def read_checkpoint(path):
    """name -> Tensor"""
    archive = zipfile.ZipFile(path)
    root = next(n for n in archive.namelist() if n.endswith("/data.pkl"))[: -len("data.pkl")]
    known = {
        ("collections", "OrderedDict"): collections.OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): Tensor,
        ("torch", "FloatStorage"): "FloatStorage",
    }

    class Checkpoint(Refused):
        def find_class(self, module, name):
            return known.get((module, name)) or super().find_class(module, name)

        def persistent_load(self, pid):
            kind, storage, key = pid[:3]
            if kind != "storage" or storage != "FloatStorage":
                raise pickle.UnpicklingError(f"refused a storage {storage}")
            return archive.read(f"{root}data/{key}")

    state = Checkpoint(archive.open(root + "data.pkl")).load()
    for name, tensor in state.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{name} is no tensor")
    return dict(state)


def read_vocabulary(path):
    with open(path, "rb") as file:
        tokens = Refused(file).load()["itos"]
    if any(not isinstance(t, str) or not t or "\n" in t for t in tokens):
        raise ValueError(f"{path}: a token is no line of text")
    return tokens


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name in sorted(tensors):
        end = at + len(tensors[name].data)
        header[name] = {"dtype": "F32", "shape": tensors[name].shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            file.write(tensors[name].data)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: tools/convert_annalog.py FOLDER OUT")
    folder, out = sys.argv[1:]
    try:
        tensors = read_checkpoint(os.path.join(folder, "Lev_extended.pt"))
        tokens = read_vocabulary(os.path.join(folder, "stereo_experiment_vocab_ttf.pkl"))
        os.makedirs(out, exist_ok=True)
        with open(os.path.join(out, "vocab.txt"), "w", encoding="utf-8") as file:
            file.writelines(token + "\n" for token in tokens)
        write_safetensors(os.path.join(out, "model.safetensors"), tensors)
    except FAULTS as error:
        sys.exit(" ".join(f"convert_annalog: {type(error).__name__}: {error}".split()))


if __name__ == "__main__":
    main()
