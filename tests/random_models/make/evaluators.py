# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime and onnx's reference evaluator, and how far they agree."""
import collections

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

NAMES = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
         "uint64": "U64", "int64": "I64", "float16": "F16", "float32": "F32", "float64": "F64"}

Value = collections.namedtuple("Value", "name array exact")


class Unfit(Exception):
    """What was chosen does not fit together."""


def is_float(value):
    return value.array.dtype.kind == "f"


def is_calm(value):
    """Sums of it depend on the order of their terms by rounding alone."""
    finite = value.array[np.isfinite(value.array)] if is_float(value) else np.zeros(0)
    return not finite.size or float(np.abs(finite).max()) < (100 if value.array.dtype == np.float16 else 1e6)


def type_of(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def model_of(nodes, inputs, outputs, initializers, opset, shapes=True):
    infos = [helper.make_tensor_value_info(v.name, type_of(v.array), list(v.array.shape) if shapes else
                                           [None] * v.array.ndim) for v in inputs]
    results = [onnx.ValueInfoProto(name=name) if array is None else
               helper.make_tensor_value_info(name, type_of(array), [None] * array.ndim) for name, array in outputs]
    graph = helper.make_graph(nodes, "g", infos, results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run_runtime(model, feeds, names):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return session.run(names, feeds)
    except Exception:  # noqa: BLE001: it has no kernel, or refuses the values
        return None


def run_reference(model, feeds, names):
    try:
        return ReferenceEvaluator(model).run(names, feeds)
    except Exception:  # noqa: BLE001
        return None


def same(x, y):
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind != "f":
        return np.array_equal(x, y)
    return np.array_equal(x, y, equal_nan=True)


def close(x, y):
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind != "f":
        return np.array_equal(x, y)
    a, b = x.astype("f8"), y.astype("f8")
    finite = np.abs(b[np.isfinite(b)])
    tolerance = {2: 2e-3, 4: 2e-5, 8: 1e-9}[x.dtype.itemsize]
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * (finite.max() if finite.size else 0), equal_nan=True))
