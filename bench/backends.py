# SPDX-License-Identifier: Apache-2.0
"""Who is timed: clattn and its peers, each in a worker of its own (worker.py), all on the same arrays.

open() gives the ways in which a peer can compute a scenario, {name: function}, of which the fastest counts; what is
prepared in open() is not timed. store() puts a result into the shared array. Refused says why a peer cannot."""
import math


class Refused(Exception):
    pass


class Clattn:
    title = "clattn"

    def __init__(self, options):
        from ours import Library

        self.library = Library(options["build"])
        self.owner = self.library.open(options["device"])
        self.problem = None

    def version(self):
        return self.library.lib.bench_device(self.owner).decode()

    def open(self, s, arrays, out, call_only=False):
        self.problem = self.library.open_problem(self.owner, s, arrays, out, call_only)
        lib, check, problem = self.library.lib, self.library.check, self.problem
        self.facts = {} if call_only else self.library.facts(problem)
        call = {"call": lambda: check(lib.bench_call(problem))}
        return call if call_only else {"plan": lambda: check(lib.bench_run(problem)), **call}

    def store(self, result, out):
        self.library.check(self.library.lib.bench_fetch(self.problem))

    def close(self):
        self.library.lib.bench_problem_close(self.problem)
        self.problem = None

    def peak(self, read_bytes):
        return self.library.peak(self.owner, read_bytes)


class Torch:
    title = "PyTorch"

    def __init__(self, options):
        import torch

        self.torch = torch
        torch.set_num_threads(options["threads"])
        torch.set_grad_enabled(False)

    def version(self):
        return self.torch.__version__.split("+")[0]

    def types(self):
        t = self.torch
        return {"f32": t.float32, "f16": t.float16, "bf16": t.bfloat16, "f64": t.float64, "bool": t.bool}

    def view(self, array):
        if array.dtype not in self.types():
            raise Refused(f"no {array.dtype}")
        return self.torch.frombuffer(array.map, dtype=self.types()[array.dtype], count=array.count).view(array.shape)

    def open(self, s, arrays, out):
        import torch.nn.functional as F

        x = {name: self.view(array) for name, array in arrays.items()}
        if s.linear:
            bias = x.get("bias")
            linear = lambda: F.linear(x["x"], x["w"], bias)
            return {"linear": (lambda: F.gelu(linear())) if s.gelu else linear}
        if s.backward:
            return {f"autograd of {way}": f for way, f in self.autograd(s, x).items()}
        if s.k == s.q and s.v == s.q:
            return self.sdpa(s, x)
        if s.k != s.v or s.k not in ("f16", "bf16"):
            raise Refused(f"no q, k, v of {s.q}, {s.k}, {s.v}")
        ways = {}  # of one type all: that of k, and the other one of 16 bits
        for name in ("f16", "bf16"):
            same = {n: t.to(self.types()[name]) if n in ("q", "k", "v", "bias") else t for n, t in x.items()}
            ways.update({f"{way} in {name}": f for way, f in self.sdpa(s, same).items()})
        return ways

    def sdpa(self, s, x):
        import torch.nn.functional as F

        q, k, v = x["q"], x["k"], x["v"]
        mask, scale = x["keep"] if s.keep else None, s.scale or None
        causal = s.causal and not s.bottom_right and not s.window and mask is None and not s.bias
        if (s.causal and not causal) or s.window:
            seen = self.interval(s)
            mask = seen if mask is None else mask & seen
        if s.bias:
            mask = x["bias"] if mask is None else x["bias"].masked_fill(~mask, -math.inf)
        if s.H == s.Hk:
            return {"sdpa": lambda: F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)}
        ways = {"enable_gqa": lambda: F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=True)}
        if s.N == 1 and mask is None and not causal:  # the heads of a group as queries of one head
            folded = q.view(s.B, s.Hk, s.H // s.Hk, s.D)
            ways["groups as queries"] = lambda: F.scaled_dot_product_attention(folded, k, v, scale=scale)
        else:
            group = s.H // s.Hk
            ways["heads repeated"] = lambda: F.scaled_dot_product_attention(
                q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), mask, is_causal=causal, scale=scale
            )
        return ways

    def autograd(self, s, x):
        """Forward and backward pass; dQ, dK, dV."""
        leaves = {name: x[name].detach().requires_grad_() for name in "qkv"}

        def of(forward):
            def run():
                with self.torch.enable_grad():
                    return self.torch.autograd.grad(forward(), list(leaves.values()), x["d_o"])

            return run

        return {way: of(forward) for way, forward in self.sdpa(s, {**x, **leaves}).items()}

    def interval(self, s):
        t = self.torch
        p = t.arange(s.N)[:, None] + (s.M - s.N if s.bottom_right else 0)
        j = t.arange(s.M)[None, :]
        seen = j <= p if s.causal else t.ones(s.N, s.M, dtype=t.bool)
        left, right = s.window or (-1, -1)
        seen = seen & (j >= p - left) if left >= 0 else seen
        return seen & (j <= p + right) if right >= 0 else seen

    def store(self, result, out):
        flat = self.torch.cat([r.reshape(-1) for r in result]) if isinstance(result, tuple) else result
        self.view(out).copy_(flat.reshape(out.shape))

    def close(self):
        pass


class Numpy:
    """The code of the article, in f32."""

    title = "NumPy"

    def __init__(self, options):
        import numpy

        self.np = numpy

    def version(self):
        return self.np.__version__

    def view(self, array):
        types = {"f32": "f4", "f16": "f2", "f64": "f8", "bool": "?"}
        if array.dtype not in types:
            raise Refused(f"no {array.dtype}")
        return self.np.frombuffer(array.map, types[array.dtype], array.count).reshape(array.shape)

    def open(self, s, arrays, out):
        np = self.np
        if s.backward:
            raise Refused("no backward pass")
        if s.gelu:
            raise Refused("no erf")
        if any(a.dtype not in ("f32", "bool") for a in arrays.values()):
            raise Refused("products of f32 only")
        if s.H != s.Hk or s.window:
            raise Refused("not in the article")
        if s.scores() > 1 << 29:
            raise Refused(f"arrays of scores of {s.scores() * 4 >> 30} GiB")
        x = {name: self.view(array) for name, array in arrays.items()}
        if s.linear:
            return {"x @ w.T": (lambda: x["x"] @ x["w"].T + x["bias"]) if s.bias else lambda: x["x"] @ x["w"].T}
        q, k, v = x["q"], x["k"], x["v"]
        seen = np.tril(np.ones((s.N, s.M), bool), s.M - s.N if s.bottom_right else 0) if s.causal else x.get("keep")

        def attention():
            scores = (q @ np.swapaxes(k, -1, -2)) / np.sqrt(np.float32(s.D))
            if s.bias:
                scores += x["bias"]
            if seen is not None:
                scores = np.where(seen, scores, np.float32(-np.inf))
            scores -= scores.max(-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(-1, keepdims=True)
            return scores @ v

        return {"article": attention}

    def store(self, result, out):
        self.view(out)[...] = self.np.reshape(result, out.shape)

    def close(self):
        pass


class OnnxRuntime(Numpy):
    title = "ONNX Runtime"

    def __init__(self, options):
        super().__init__(options)
        import onnx
        import onnxruntime

        self.onnx, self.ort, self.threads = onnx, onnxruntime, options["threads"]
        onnxruntime.set_default_logger_severity(4)

    def version(self):
        return self.ort.__version__

    def session(self, nodes, inputs, shape, domain):
        """A function that runs the nodes on inputs {name: numpy array} and returns the array of y."""
        helper = self.onnx.helper
        of = lambda array: helper.np_dtype_to_tensor_dtype(array.dtype)
        kind = of(next(iter(inputs.values())))
        graph = helper.make_graph(
            nodes, "g",
            [helper.make_tensor_value_info(name, of(array), array.shape) for name, array in inputs.items()],
            [helper.make_tensor_value_info("y", kind, shape)],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 23)] + ([helper.make_opsetid(domain, 1)] if domain else [])
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = self.ort.InferenceSession(
            helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
        )
        binding, y = session.io_binding(), self.np.empty(shape, next(iter(inputs.values())).dtype)
        values = {name: self.ort.OrtValue.ortvalue_from_numpy(array) for name, array in inputs.items()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        result = self.ort.OrtValue.ortvalue_from_numpy(y)
        binding.bind_ortvalue_output("y", result)

        def run(keep=(values, result)):
            session.run_with_iobinding(binding)
            return keep[1]

        return run

    def open(self, s, arrays, out):
        if s.backward:
            raise Refused("no backward pass")
        if s.window:
            raise Refused("no windows")
        if s.k != s.q or s.v != s.q:
            raise Refused(f"no q, k, v of {s.q}, {s.k}, {s.v}")
        node = self.onnx.helper.make_node
        x = {name: self.view(array) for name, array in arrays.items()}
        if s.linear:
            last = ["z" if s.gelu else "y"]
            nodes = [node("Gemm", ["x", "w"] + (["bias"] if s.bias else []), last, transB=1)]
            nodes += [node("Gelu", ["z"], ["y"])] if s.gelu else []
            inputs = {name: x[name] for name in ("x", "w", "bias") if name in x}
            return {"Gemm": self.session(nodes, inputs, out.shape, None)}
        if s.causal and s.bottom_right and s.N != s.M:
            raise Refused("causal is top-left")
        inputs = {name: x[name] for name in ("q", "k", "v")}
        mask = "keep" if s.keep else "bias" if s.bias else None
        if s.keep and s.bias:
            raise Refused("one mask")
        if mask:
            inputs[mask] = x[mask]
        ways, reasons = {}, []
        scale = {"scale": s.scale} if s.scale else {}
        names = ["q", "k", "v"] + ([mask] if mask else [])
        attention = node("Attention", names, ["y"], is_causal=int(s.causal), **scale)
        self.offer(ways, reasons, "Attention", [attention], inputs, out.shape, None)
        if s.H == s.Hk:
            self.offer(ways, reasons, "MultiHeadAttention", *self.multi_head(s, inputs, mask))
        if not ways:
            raise Refused(reasons[0])
        return ways

    def offer(self, ways, reasons, name, *session):
        try:
            ways[name] = self.session(*session)
        except Exception as failure:  # what ONNX Runtime refuses has many types
            reasons.append(" ".join(str(failure).split())[:120])

    def multi_head(self, s, inputs, mask):
        """Microsoft's own operator, on [B, N, H * D]."""
        np = self.np
        side = lambda t: np.ascontiguousarray(t.transpose(0, 2, 1, 3)).reshape(t.shape[0], t.shape[2], -1)
        x = {name: side(inputs[name]) for name in ("q", "k", "v")}
        names = ["q", "k", "v"]
        if mask:
            bias = inputs[mask]
            bias = np.where(bias, 0, -np.inf).astype(np.float32) if mask == "keep" else bias
            x["bias"] = np.ascontiguousarray(bias.astype(x["q"].dtype)[None, None])
            names += ["", "", "bias"]
        node = self.onnx.helper.make_node(
            "MultiHeadAttention", names, ["y"], domain="com.microsoft", num_heads=s.H, unidirectional=int(s.causal),
            **({"scale": s.scale} if s.scale else {}),
        )  # fmt: skip
        return [node], x, (s.B, s.N, s.H * s.Dv), "com.microsoft"

    def store(self, result, out):
        y = result.numpy()
        if y.ndim == 3 and len(out.shape) == 4:
            b, h, n, d = out.shape
            y = y.reshape(b, n, h, d).transpose(0, 2, 1, 3)
        self.view(out)[...] = y


class OpenVino(Numpy):
    title = "OpenVINO"

    def __init__(self, options):
        super().__init__(options)
        import openvino

        self.ov = openvino
        self.core = openvino.Core()
        self.threads = options["threads"]

    def version(self):
        return self.ov.__version__.split("-")[0]

    def compiled(self, result, parameters, arrays, kind):
        settings = {"INFERENCE_PRECISION_HINT": kind, "INFERENCE_NUM_THREADS": self.threads, "PERFORMANCE_HINT": "LATENCY"}
        request = self.core.compile_model(self.ov.Model([result], parameters), "CPU", settings).create_infer_request()
        for i, array in enumerate(arrays):
            request.set_input_tensor(i, self.ov.Tensor(array, shared_memory=True))

        def run():
            request.infer()
            return request

        return run

    def open(self, s, arrays, out):
        import openvino.opset13 as op

        if s.backward:
            raise Refused("no backward pass")
        if s.window:
            raise Refused("no windows")
        if s.k != s.q or s.v != s.q:
            raise Refused(f"no q, k, v of {s.q}, {s.k}, {s.v}")
        x = {name: self.view(array) for name, array in arrays.items()}
        parameter = lambda t: op.parameter(list(t.shape), t.dtype)
        kind = {"f16": "f16", "f32": "f32", "f64": "f64"}[s.q]
        if s.linear:
            of = {name: parameter(x[name]) for name in ("x", "w", "bias") if name in x}
            y = op.matmul(of["x"], of["w"], False, True)
            y = op.add(y, of["bias"]) if s.bias else y
            y = op.gelu(y, "erf") if s.gelu else y
            return {"MatMul": self.compiled(y, list(of.values()), [x[n] for n in of], kind)}
        if s.causal and s.bottom_right and s.N != s.M:
            raise Refused("causal is top-left")
        names = ["q", "k", "v"] + (["keep"] if s.keep else ["bias"] if s.bias else [])
        of = {name: parameter(x[name]) for name in names}
        k, v = of["k"], of["v"]
        if s.H != s.Hk:
            repeat = lambda t, d: op.reshape(
                op.broadcast(op.unsqueeze(t, 2), [s.B, s.Hk, s.H // s.Hk, s.M, d], "BIDIRECTIONAL"), [s.B, s.H, s.M, d], False
            )
            k, v = repeat(k, s.D), repeat(v, s.Dv)
        more = {"attention_mask": of[names[3]]} if len(names) > 3 else {}
        y = op.scaled_dot_product_attention(of["q"], k, v, causal=s.causal, **more)
        return {"ScaledDotProductAttention": self.compiled(y, list(of.values()), [x[n] for n in names], kind)}

    def store(self, result, out):
        self.view(out)[...] = result.get_output_tensor(0).data.reshape(out.shape)


BACKENDS = {"clattn": Clattn, "torch": Torch, "onnxruntime": OnnxRuntime, "openvino": OpenVino, "numpy": Numpy}
