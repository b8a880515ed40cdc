#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Arithmetic a second of products and attention in a trace, and their share of the chip's peak. Needs no package.

  bench/gpu/share.py TRACE.json --devices devices.txt          the peak of the chip that `transom devices` names there
  bench/gpu/share.py TRACE.json --peak 989                     in TFLOP/s, of dense bf16

A line for each kind of operation and shape: median of its times, TFLOP/s, share. Causal attention counts half of its
pairs (--causal), as tables of others do. What is wanted: attention 60 %, its gradient 50 %.
"""
import argparse
import collections
import json
import math
import re
import statistics

# Dense bf16, TFLOP/s, from the vendors' data sheets; of an MI250 one of its two devices.
PEAKS = {"H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L4": 121, "RTX 4090": 165,
         "B200": 2250, "MI325X": 1307, "MI300X": 1307, "MI300A": 981, "MI250X": 191, "MI250": 181, "MI210": 181,
         "7900 XTX": 123}


def shapes_of(types):
    return [[int(n) for n in re.findall(r"\d+", inside)] for inside in re.findall(r"\[([\d, ]*)\]", types)]


def arithmetic(operation, types, causal):
    """Of the products that the result needs; what is recomputed does not count."""
    shapes = shapes_of(types)
    if operation in ("attention", "attention_gradient", "biased_attention_gradient") and len(shapes) >= 3:
        q, k, v = shapes[:3]
        pairs = q[0] * q[1] * q[2] * k[1] * (0.5 if causal else 1)
        d, e = q[3], v[3]
        return 2 * pairs * (3 * d + 2 * e if operation.endswith("gradient") else d + e)
    if operation in ("linear", "integer_linear") and len(shapes) >= 2:
        return 2 * math.prod(shapes[0]) * shapes[1][0]
    if operation == "quantized_matmul" and len(shapes) >= 2:
        return 2 * math.prod(shapes[0]) * shapes[-1][-1]
    if operation == "dot_general" and len(shapes) >= 3:
        return 2 * math.sqrt(math.prod(shapes[0]) * math.prod(shapes[1]) * math.prod(shapes[-1]))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--devices")
    parser.add_argument("--peak", type=float)
    parser.add_argument("--causal", action="store_true")
    arguments = parser.parse_args()
    peak = arguments.peak
    if not peak and arguments.devices:
        with open(arguments.devices, encoding="utf-8") as file:
            text = file.read()
        peak = next((value for name, value in PEAKS.items() if name in text), None)
    with open(arguments.trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    times, kernels = collections.defaultdict(list), {}
    for event in events:
        if event.get("cat") == "kernel" and arithmetic(event["name"], event["args"]["types"], False):
            key = (event["name"], event["args"]["types"])
            times[key].append(event["dur"] * 1e-6)
            kernels[key] = event["args"]["kernel"]
    if not times:
        print("no products and no attention in this trace")
    for (operation, types), seconds in sorted(times.items(), key=lambda item: -sum(item[1])):
        middle = statistics.median(seconds)
        rate = arithmetic(operation, types, arguments.causal) / max(middle, 1e-9) / 1e12
        share = f", {100 * rate / peak:.0f} % of {peak:.0f}" if peak else ""
        print(f"{operation} [{kernels[operation, types]}] {types}: {middle * 1e3:.3f} ms of {len(seconds)}, "
              f"{rate:.2f} TFLOP/s{share}")


main()
