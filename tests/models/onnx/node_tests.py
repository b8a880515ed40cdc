#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the ONNX standard's own node tests, those of the Python package onnx, through `transom forward`.

  tests/models/onnx/node_tests.py TRANSOM [--only TEXT] [--details FILE]

TRANSOM is the program. Needs the packages onnx, numpy and ml_dtypes; no test of the tree needs it. Tests whose values no
safetensors file can carry (strings, sequences, types below 8 bits) are left out. Each test is right, refused (one line
that holds "not supported"), wrong, an error (another line) or a crash; the exit status is 0 if none is wrong, in error or
a crash.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import warnings

import ml_dtypes
import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

TYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "u2", "I16": "i2", "U32": "u4", "I32": "i4", "U64": "u8", "I64": "i8",
         "F16": "f2", "F32": "f4", "F64": "f8", "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn,
         "F8_E5M2": ml_dtypes.float8_e5m2}
NAMES = {numpy.dtype(dtype): name for name, dtype in TYPES.items()}


def write(path, tensors):
    header, data = {}, b""
    for name, values in tensors:
        values = numpy.ascontiguousarray(values).reshape(numpy.shape(values))
        header[name] = {"dtype": NAMES[values.dtype], "shape": list(values.shape),
                        "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read(path):
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    data, tensors = content[8 + size:], {}
    for name, entry in json.loads(content[8:8 + size]).items():
        begin, end = entry["data_offsets"]
        tensors[name] = numpy.frombuffer(data[begin:end], dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def carried(infos, values):
    """Names and arrays, or None where safetensors lacks a type."""
    result = []
    for info, value in zip(infos, values):
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        if not isinstance(value, (numpy.ndarray, numpy.generic)) or numpy.asarray(value).dtype not in NAMES:
            return None
        result.append((info.name, numpy.asarray(value)))
    return result


def differs(found, expected, atol):
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{list(found.shape)} in place of {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind in "?biu":
        return None if numpy.array_equal(found, expected) else "other integers"
    x, y = found.astype("f8"), expected.astype("f8")
    if expected.dtype.itemsize == 1:
        return None if numpy.array_equal(x, y, equal_nan=True) else "other numbers"
    finite = numpy.abs(y[numpy.isfinite(y)])
    atol = max(atol, 2e-6 * (finite.max() if finite.size else 0))
    rtol = {"bfloat16": 2 ** -6, "float16": 2 ** -9}.get(str(expected.dtype), 1e-3)
    return None if numpy.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True) else "other numbers"


def judge(program, folder, test, inputs, expected):
    place = folder / test.name
    place.mkdir()
    onnx.save(test.model, str(place / "model.onnx"))
    write(place / "in.safetensors", inputs)
    command = [program, "forward", "--model", place / "model.onnx", "--inputs", place / "in.safetensors", "--outputs",
               place / "out.safetensors"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "crash", "it took too long"
    line = done.stderr.strip()
    if done.returncode not in (0, 1):
        return "crash", f"exit status {done.returncode}: {line[-200:]}"
    if done.returncode == 1:
        return ("refused" if "not supported" in line and "\n" not in line else "error"), line
    found = read(place / "out.safetensors")
    for name, values in expected:
        fault = f"{name} is missing" if name not in found else differs(found[name], values, test.atol or 1e-7)
        if fault:
            return "wrong", f"{name}: {fault}"
    return "right", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default="", help="tests whose name holds this text")
    parser.add_argument("--details", help="a file for one line a test")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(arguments.workers) as pool:
        running = {}
        for test in load_model_tests(kind="node"):
            if arguments.only not in test.name or not test.data_sets:
                continue
            inputs = carried(test.model.graph.input, test.data_sets[0][0])
            expected = carried(test.model.graph.output, test.data_sets[0][1])
            if inputs is not None and expected is not None:
                running[test.name] = pool.submit(judge, arguments.program, pathlib.Path(name), test, inputs, expected)
        verdicts = {test: future.result() for test, future in running.items()}
    counts = collections.Counter(verdict for verdict, _ in verdicts.values())
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    for test, (verdict, why) in verdicts.items():
        if verdict in ("wrong", "error", "crash"):
            print(f"{verdict} {test}: {why}")
    if arguments.details:
        lines = [f"{verdict}\t{test}\t{why}\n" for test, (verdict, why) in verdicts.items()]
        pathlib.Path(arguments.details).write_text("".join(lines))
    sys.exit(any(counts[verdict] for verdict in ("wrong", "error", "crash")))


if __name__ == "__main__":
    main()
