#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the vectors of tests/test_train_vectors.c: gradients of PyTorch's modules, its cross-entropy and optimizers, in
float64. Needs torch; the same bytes in every run of one version of it.

  tools/make_train_vectors.py tests/vectors/train.safetensors

Tensors are CASE/NAME: inputs, `d_y`, what comes out, parameters by PyTorch's names, and their gradients as
CASE/grad.NAME.
"""
import json
import struct
import sys

import torch
from torch import nn

E, H, F, B, N, M = 8, 2, 12, 2, 5, 6
tensors = {}


def keep(case, **values):
    for name, value in values.items():
        tensors[f"{case}/{name}"] = value.detach().clone().contiguous()


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def of_module(case, module, inputs, masks=None):
    """Keeps the parameters, inputs, result and all gradients of module(*inputs, **masks)."""
    for parameter in module.parameters():  # biases and norms too
        parameter.data = parameter.data + 0.3 * torch.randn_like(parameter)
    for value in inputs.values():
        value.requires_grad_(True)
    y = module(*inputs.values(), **(masks or {}))
    y = y[0] if isinstance(y, tuple) else y
    d_y = random(*y.shape)
    y.backward(d_y)
    keep(case, y=y, d_y=d_y, **inputs, **{f"d_{name}": value.grad for name, value in inputs.items()})
    keep(case, **dict(module.named_parameters()))
    keep(case, **{f"grad.{name}": value.grad for name, value in module.named_parameters()})


def modules():
    causal = torch.triu(torch.ones(N, N, dtype=torch.bool), 1)
    padding = torch.zeros(B, M, dtype=torch.bool)
    padding[1, 4:] = True
    for first in (False, True):
        options = dict(d_model=E, nhead=H, dim_feedforward=F, dropout=0.0, batch_first=True, norm_first=first,
                       activation="gelu" if first else "relu", dtype=torch.float64)
        order = "before" if first else "after"
        layer = nn.TransformerEncoderLayer(**options)
        stack = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(E, dtype=torch.float64) if first else None,
                                      enable_nested_tensor=False)
        of_module(f"encoder_{order}", stack, dict(x=random(B, N, E)))
        layer = nn.TransformerDecoderLayer(**options)
        stack = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(E, dtype=torch.float64) if first else None)
        of_module(f"decoder_{order}", stack, dict(x=random(B, N, E), memory=random(B, M, E)),
                  dict(tgt_mask=causal, memory_key_padding_mask=padding))
    attention = nn.MultiheadAttention(E, H, kdim=6, vdim=7, add_bias_kv=True, batch_first=True, dtype=torch.float64)
    of_module("multihead", attention, dict(query=random(B, N, E), key=random(B, M, 6), value=random(B, M, 7)))


def losses():
    logits, targets = random(7, 5).requires_grad_(True), torch.tensor([0, 4, -100, 2, 2, 1, -100])
    for reduction in ("mean", "sum"):
        logits.grad = None
        loss = nn.functional.cross_entropy(logits, targets, reduction=reduction, label_smoothing=0.1)
        loss.backward()
        keep(f"loss_{reduction}", logits=logits, targets=targets, loss=loss.reshape(1), d_logits=logits.grad)


def optimizers():
    cases = dict(adamw=lambda p: torch.optim.AdamW([p], lr=0.05, weight_decay=0.1),
                 adam=lambda p: torch.optim.Adam([p], lr=0.05, betas=(0.8, 0.95), weight_decay=0.1),
                 sgd=lambda p: torch.optim.SGD([p], lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1))
    for case, make in cases.items():
        parameter = nn.Parameter(random(3, 4))
        optimizer, gradients = make(parameter), random(4, 3, 4)
        keep(case, start=parameter, gradients=gradients)
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimizer.step()
        keep(case, end=parameter)


def save(path):
    header, data, end = {}, b"", 0
    for name, value in sorted(tensors.items()):
        code = "d" if value.dtype == torch.float64 else "q"
        data += struct.pack(f"<{value.numel()}{code}", *value.flatten().tolist())
        header[name] = {"dtype": "F64" if code == "d" else "I64", "shape": list(value.shape),
                        "data_offsets": [end, len(data)]}
        end = len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


torch.manual_seed(1)
modules()
losses()
optimizers()
save(sys.argv[1])
