# SPDX-License-Identifier: Apache-2.0
"""Cases of the operators of com.microsoft: one node each, drawn over its options, with what ONNX Runtime gives.

  python3 tests/golden/make/contrib_operators.py [--seed N] [--out FILE]

The results of the recorded seed lie in tests/golden/onnx/contrib_operators.json. Numbers are multiples of 1/64, so that
the file says them exactly; results of floating numbers have six digits.
"""
import argparse
import json
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).resolve().parent
TYPES = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64,
         "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "bool": TensorProto.BOOL}


class Drawn:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.cases = []

    def floats(self, *shape, scale=1.0):
        return (np.round(self.random.uniform(-1, 1, shape) * scale * 64) / 64).astype(np.float32)

    def codes(self, dtype, *shape, low=None, high=None):
        info = np.iinfo(dtype)
        return self.random.integers(info.min if low is None else low, (info.max if high is None else high) + 1, shape).astype(dtype)

    def choose(self, *values):
        return values[self.random.integers(len(values))]

    def add(self, op, inputs, outputs=1, tolerance=None, **attributes):
        attributes = {name: value for name, value in attributes.items() if value is not None}
        names = [f"i{i}" if x is not None else "" for i, x in enumerate(inputs)]
        while names and not names[-1]:
            names.pop()
        shown = outputs if isinstance(outputs, list) else list(range(outputs))
        results = [f"o{i}" if i in shown else "" for i in range(max(shown) + 1)]
        node = helper.make_node(op, names, results, domain="com.microsoft", **attributes)
        given = {f"i{i}": x for i, x in enumerate(inputs) if x is not None}
        graph = helper.make_graph(
            [node], "case",
            [helper.make_tensor_value_info(name, TYPES[str(x.dtype)], x.shape) for name, x in given.items()],
            [onnx.ValueInfoProto(name=f"o{i}") for i in shown])
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17),
                                                                      helper.make_opsetid("com.microsoft", 1)])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            found = session.run(None, given)
        except Exception as error:  # forms that ONNX Runtime has on other devices alone
            print(f"left out: {op} {attributes}: {str(error).splitlines()[0][:200]}")
            return

        def written(x):
            flat = x.ravel().tolist()
            return {"type": str(x.dtype), "shape": list(x.shape),
                    "values": [float(f"{v:.6g}") for v in flat] if x.dtype == np.float32 else [int(v) for v in flat]}

        case = {"op": op, "attributes": attributes,
                "inputs": [None if x is None else written(x) for x in inputs],
                "outputs": {str(i): written(x) for i, x in zip(shown, found)}}
        if tolerance:
            case["tolerance"] = tolerance
        self.cases.append(case)


def rows(d):
    for _ in range(2):
        x = d.floats(2, 3, 4, scale=4)
        d.add("Gelu", [x])
        d.add("QuickGelu", [x], alpha=d.choose(None, 1.0, 0.5))
        d.add("BiasGelu", [x, d.floats(4)])
        d.add("FastGelu", [x, d.choose(None, d.floats(4))])
        skip = d.choose(d.floats(2, 3, 4), d.floats(1, 3, 4), d.floats(3, 4))
        d.add("SkipLayerNormalization", [x, skip, d.floats(4), d.choose(None, d.floats(4)), d.choose(None, d.floats(4))],
              [0, 3], epsilon=d.choose(1e-5, 1e-3))
        d.add("SkipSimplifiedLayerNormalization", [x, skip, d.floats(4), d.choose(None, d.floats(4))], [0, 3],
              epsilon=d.choose(1e-5, 1e-3))
    for segments in (True, False):
        ids = d.codes(np.int32, 2, 3, low=0, high=4)
        d.add("EmbedLayerNormalization",
              [ids, d.codes(np.int32, 2, 3, low=0, high=1) if segments else None, d.floats(5, 4), d.floats(6, 4),
               d.floats(2, 4) if segments else None, d.floats(4), d.floats(4),
               d.codes(np.int32, 2, 3, low=0, high=1) if segments else None,
               None if segments else d.codes(np.int32, 2, 3, low=0, high=5)], 3, epsilon=1e-5)


def products(d):
    for a, b, options in [((2, 3, 4), (2, 4, 5), {}), ((2, 4, 3), (2, 4, 5), {"transA": 1}),
                          ((2, 3, 4), (2, 5, 4), {"transB": 1}), ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
                          ((2, 3, 4), (4, 2, 5), {"transBatchB": 1}), ((4, 2, 3), (5, 2, 4), {"transBatchA": 1, "transBatchB": 1, "transA": 1, "transB": 1}),
                          ((3, 4), (4, 5), {})]:
        d.add("FusedMatMul", [d.floats(*a), d.floats(*b)], alpha=d.choose(1.0, 0.25, -2.0), **options)
    for bits, block, K, N, zero, form in [(4, 32, 40, 3, False, None), (4, 16, 48, 5, True, None), (8, 32, 64, 3, True, None),
                                          (8, 16, 20, 2, False, None), (4, 32, 64, 17, True, "float"), (4, 16, 32, 3, False, "order")]:
        blocks = (K + block - 1) // block
        points = None
        if zero:
            points = d.floats(N, blocks, scale=8) if form == "float" else d.codes(np.uint8, N, (blocks * bits + 7) // 8)
        order = (np.arange(K)[::-1] // block).astype(np.int32) if form == "order" else None
        d.add("MatMulNBits", [d.floats(2, K), d.codes(np.uint8, N, blocks, block * bits // 8), d.floats(N, blocks) / 4,
                              points, order, d.choose(None, d.floats(N)) if form is None else None],
              K=K, N=N, bits=bits, block_size=block, tolerance=1e-4)
    for dtype in (np.uint8, np.int8):
        # Small codes: ONNX Runtime's kernels for signed weights saturate sums of two products on processors of AVX2.
        low, high = (0, 60) if dtype == np.uint8 else (-60, 60)
        b = d.codes(dtype, 6, 5, low=low, high=high)
        point = d.choose(None, np.array(7, dtype))
        d.add("DynamicQuantizeMatMul", [d.floats(2, 3, 6), b, d.choose(np.array(1 / 64, np.float32), np.abs(d.floats(5)) / 8 + 1 / 64),
                                        point, d.choose(None, d.floats(5))])
        d.add("MatMulIntegerToFloat", [d.codes(np.uint8, 3, 6), b, np.array(1 / 32, np.float32),
                                       d.choose(np.array(1 / 64, np.float32), np.abs(d.floats(5)) / 8 + 1 / 64),
                                       d.choose(None, np.array(120, np.uint8)), point, d.choose(None, d.floats(5))])
    for direction in ("forward", "reverse", "bidirectional"):
        D, I, H, T = (2 if direction == "bidirectional" else 1), 3, 2, 4
        d.add("DynamicQuantizeLSTM",
              [d.floats(T, 1, I), d.codes(np.uint8, D, I, 4 * H), d.codes(np.uint8, D, H, 4 * H), d.choose(None, d.floats(D, 8 * H)),
               None, d.choose(None, d.floats(D, 1, H)), d.choose(None, d.floats(D, 1, H)), d.choose(None, d.floats(D, 3 * H)),
               np.full((D,), 1 / 128, np.float32), np.full((D,), 128, np.uint8), np.full((D,), 1 / 64, np.float32), np.full((D,), 120, np.uint8)],
              3, hidden_size=H, direction=direction, tolerance=2e-4)
    d.add("FusedConv", [d.floats(1, 2, 4, 4), d.floats(3, 2, 3, 3), d.floats(3), d.floats(1, 3, 4, 4)], activation="Relu", pads=[1, 1, 1, 1])
    d.add("FusedConv", [d.floats(1, 2, 5, 5), d.floats(3, 2, 3, 3)], activation="LeakyRelu", activation_params=[0.25], strides=[2, 2])
    d.add("FusedConv", [d.floats(1, 2, 4, 4), d.floats(3, 2, 3, 3), d.floats(3)], activation="Clip", activation_params=[-0.5, 0.75])
    d.add("FusedGemm", [d.floats(3, 4), d.floats(5, 4), d.floats(5)], activation="Relu", transB=1, alpha=0.5)
    d.add("FusedGemm", [d.floats(3, 4), d.floats(4, 5), d.floats(5)], activation="LeakyRelu", activation_alpha=0.125)


def attentions(d):
    B, T, H, S = 2, 3, 2, 3
    size, width = 4, 8
    for kind in ("none", "lengths", "ends", "raw", "raw3"):
        past = d.choose(None, d.floats(2, B, H, 2, size)) if kind in ("raw", "none") else None
        total = T + (2 if past is not None else 0)
        mask = {"none": None, "lengths": np.array([3, 2], np.int32), "ends": np.array([3, 2, 1, 0], np.int32),
                "raw": np.array([[1] * total, [1] * (total - 1) + [0]], np.int32),
                "raw3": d.codes(np.int32, B, T, total, low=0, high=1)}[kind]
        d.add("Attention", [d.floats(B, T, 6), d.floats(6, 3 * width), d.choose(None, d.floats(3 * width)) if past is None else d.floats(3 * width), mask, past,
                            d.choose(None, d.floats(B, H, T, total))], 2, num_heads=H,
              unidirectional=d.choose(0, 1), scale=d.choose(None, 0.25), mask_filter_value=d.choose(None, -50.0))
    d.add("Attention", [d.floats(B, T, 6), d.floats(6, 2 * width + 4), d.floats(2 * width + 4)], num_heads=H, qkv_hidden_sizes=[width, width, 4])
    q, k, v = d.floats(B, T, width), d.floats(B, S, width), d.floats(B, S, width)
    d.add("MultiHeadAttention", [q, k, v, d.floats(3 * width), np.array([3, 2], np.int32)], num_heads=H)
    d.add("MultiHeadAttention", [q, k, v, None, d.codes(np.int32, B, S, low=0, high=1), d.floats(1, H, T, S)], num_heads=H, scale=0.75)
    d.add("MultiHeadAttention", [q, d.floats(B, H, 5, size), d.floats(B, H, 5, size)], num_heads=H)
    d.add("MultiHeadAttention", [q, k, v, None, None, None, d.floats(B, H, 2, size), d.floats(B, H, 2, size)], 3, num_heads=H, unidirectional=1)
    tables = [np.cos(np.arange(40).reshape(10, 4) / 7).astype(np.float32), np.sin(np.arange(40).reshape(10, 4) / 7).astype(np.float32)]
    tables = [np.round(t * 64) / 64 for t in tables]
    for interleaved in (0, 1):
        d.add("RotaryEmbedding", [d.floats(B, T, 16), d.codes(np.int64, B, T, low=0, high=9), *tables], interleaved=interleaved)
        d.add("RotaryEmbedding", [d.floats(B, 2, T, 8), np.array([2], np.int64), *tables], interleaved=interleaved)
        d.add("RotaryEmbedding", [d.floats(B, T, 20), d.codes(np.int64, B, T, low=0, high=9), *tables], interleaved=interleaved, num_heads=2, rotary_embedding_dim=8)
    groups(d, tables)
    x, w = d.codes(np.uint8, B, T, 6), d.codes(np.uint8, 6, 3 * width)
    d.add("QAttention", [x, w, d.floats(3 * width), np.array(1 / 64, np.float32), np.array(1 / 128, np.float32), np.array([3, 2], np.int32),
                         np.array(128, np.uint8), np.array(120, np.uint8)], num_heads=H, unidirectional=d.choose(0, 1), tolerance=1e-4)


def groups(d, tables):
    H, G = 4, 2
    for B, T, past, options in [(1, 4, 0, {}), (2, 1, 5, {}), (1, 3, 4, {"local_window_size": 3}), (2, 1, 3, {"softcap": 2.0, "scale": 0.5}),
                                (1, 4, 0, {"do_rotary": 1}), (2, 1, 4, {"do_rotary": 1, "rotary_interleaved": 1}), (1, 3, 0, {"smooth_softmax": 1}), (1, 2, 0, {"sink": 1})]:
        sink = d.floats(H) if options.pop("sink", 0) else None
        size = 16 if "do_rotary" in options else 8
        total = past + T
        lengths = np.array([total - 1] + [total - 2] * (B - 1), np.int32)
        rotary = [np.concatenate([t, t[::-1]], -1) for t in tables] if options.get("do_rotary") else [None, None]
        kv = [d.floats(B, T, G * size), d.floats(B, T, G * size)]
        q = d.floats(B, T, H * size)
        if past == 0 and d.choose(0, 1):
            q, kv = np.concatenate([q, *kv], -1), [None, None]
        d.add("GroupQueryAttention", [q, *kv, d.floats(B, G, past, size), d.floats(B, G, past, size), lengths,
                                      np.array(total, np.int32), *rotary, None, None, sink], 3, num_heads=H, kv_num_heads=G, **options)


def codes(d):
    for dtype in (np.uint8, np.int8):
        def point():
            return d.codes(dtype, low=3, high=9).reshape(())

        def scale():
            return np.array((d.random.integers(1, 8)) / 64, np.float32)

        def coded(*shape):
            return [d.codes(dtype, *shape), scale(), point()]

        def result():
            return [np.array(d.random.integers(2, 9) / 32, np.float32), point()]

        x = coded(2, 3, 4)
        d.add("QLinearAdd", [*x, *coded(3, 4), *result()])
        d.add("QLinearMul", [*x, *coded(2, 3, 4), *result()])
        d.add("QLinearSigmoid", [*x, np.array(1 / 256, np.float32), point()])
        d.add("QLinearLeakyRelu", [*x, *result()], alpha=d.choose(0.125, 0.5))
        d.add("QLinearSoftmax", [*x, np.array(1 / 256, np.float32), np.array(0 if dtype == np.uint8 else -128, dtype)], axis=d.choose(-1, 2), opset=13)
        d.add("QLinearConcat", [*result(), *coded(2, 3), *coded(2, 2)], axis=1)
        d.add("QLinearWhere", [d.codes(np.uint8, 2, 3, low=0, high=1).astype(bool), *coded(2, 3), *coded(2, 3), *result()])
        if dtype == np.uint8:
            d.add("QLinearAveragePool", [*coded(1, 2, 5, 5), *result()], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], count_include_pad=d.choose(0, 1))
            d.add("QLinearAveragePool", [*coded(1, 4, 4, 2), *result()], kernel_shape=[2, 2], channels_last=1)
        d.add("QLinearGlobalAveragePool", [*coded(1, 2, 3, 3), *result()], channels_last=0)
        d.add("QLinearGlobalAveragePool", [*coded(1, 3, 3, 2), *result()], channels_last=1)
    zero = np.array(5, np.uint8)
    a, b = d.codes(np.uint8, 3, 4), d.codes(np.uint8, 4, 5)
    d.add("QGemm", [a, np.array(1 / 32, np.float32), zero, b, np.array(1 / 16, np.float32), zero, d.codes(np.int32, 5, low=-500, high=500)], alpha=0.5)
    d.add("QGemm", [a, np.array(1 / 32, np.float32), zero, d.codes(np.uint8, 5, 4), np.array(1 / 64, np.float32), zero, None, np.array(0.25, np.float32), zero], transB=1, alpha=1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=str(HERE.parent / "onnx/contrib_operators.json"))
    arguments = parser.parse_args()
    drawn = Drawn(arguments.seed)
    for draw in (rows, products, attentions, codes):
        draw(drawn)
    path = pathlib.Path(arguments.out)
    path.parent.mkdir(exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in drawn.cases) + "\n]\n")
    print(f"{len(drawn.cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
