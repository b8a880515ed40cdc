#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX files as they are, run by Transom and by ONNX Runtime in turns.

  onnx_race.py FILE.onnx ... --transom build/release/bin/transom [--extents 1,128 8,128] [--runs 10 --turns 5 --threads 2]

Inputs are random, made of what the file declares: ids below 100, masks of ones, numbers of a normal distribution. An
extent without a number is that of `--extents`: the first is batch, all others are the second. `--inputs FILE` gives
them instead. Each contender is a
process of its own that stays warm; shown are milliseconds of a run, its ratio (above 1: Transom is faster) of medians
and of the fastest runs, seconds from the start of the process to the end of the first run, and the peak of memory. That
both give the same is checked first, to a thousandth of the largest number; of detectors, where rows whose scores are
equal but for rounding stand in either order, `--any_order` compares the numbers of an output sorted."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

TYPES = {"tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32, "tensor(bool)": numpy.bool_,
         "tensor(float)": numpy.float32, "tensor(float16)": numpy.float16}


def session_of(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # it would take the core of the other
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def inputs_of(session, *extents):
    """Symbolic dimensions take the extents in order, those behind the last one the last."""
    random = numpy.random.default_rng(0)
    inputs = {}
    for port in session.get_inputs():
        shape = [extent if isinstance(extent, int) else extents[min(i, len(extents) - 1)] for i, extent in
                 enumerate(port.shape)]
        kind = TYPES[port.type]
        if "mask" in port.name:
            inputs[port.name] = numpy.ones(shape, kind)
        elif port.name == "token_type_ids":
            inputs[port.name] = numpy.zeros(shape, kind)
        elif port.name == "position_ids":
            inputs[port.name] = numpy.broadcast_to(numpy.arange(shape[-1], dtype=kind), shape).copy()
        elif numpy.issubdtype(kind, numpy.integer):
            inputs[port.name] = random.integers(2, 100, shape).astype(kind)
        else:
            inputs[port.name] = random.standard_normal(shape).astype(kind)
    return inputs


def peer(path, inputs, threads):
    """ONNX Runtime as `transom bench --interactive` is asked."""
    from safetensors.numpy import load_file

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    session, feed = session_of(path, threads), load_file(inputs)
    session.run(None, feed)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        if not line.startswith("run "):
            break
        seconds = []
        for _ in range(int(line.split()[1])):
            begin = time.perf_counter()
            session.run(None, feed)
            seconds.append(time.perf_counter() - begin)
        print(json.dumps({"seconds": seconds}), file=answers, flush=True)


def check(path, inputs, options, folder):
    """The largest distance of the two by the largest number."""
    from safetensors.numpy import load_file

    session, outputs = session_of(path, options.threads), os.path.join(folder, "outputs.safetensors")
    subprocess.run([options.transom, "forward", "--model", path, "--inputs", inputs, "--outputs", outputs], check=True,
                   stdout=subprocess.DEVNULL)
    found, worst = load_file(outputs), 0.0
    for port, expected in zip(session.get_outputs(), session.run(None, load_file(inputs))):
        scale = max(float(numpy.abs(expected).max()), 1e-6)
        got = found[port.name].astype(numpy.float64)
        if got.shape != expected.shape:
            return numpy.inf
        if options.any_order:
            got, expected = numpy.sort(got, None), numpy.sort(expected, None)
        distance = float(numpy.abs(got - expected).max()) / scale
        worst = max(worst, distance if distance == distance else numpy.inf)
    return worst


def race(path, inputs, options):
    from race import Contender, environment_of

    ours = [options.transom, "bench", path, "--task", "forward", "--inputs", inputs, "--mode", options.mode, "--threads",
            str(options.threads), "--interactive"]
    theirs = [sys.executable, __file__, path, "--transom", options.transom, "--threads", str(options.threads), "--peer",
              inputs]
    contenders = []
    try:
        for name, command in (("transom", ours), ("onnxruntime", theirs)):
            begin = time.perf_counter()
            contenders.append(Contender(name, command, environment_of(options)))
            contenders[-1].start = time.perf_counter() - begin
        for turn in range(options.turns + 1):  # the first turn warms up
            for contender in contenders if turn % 2 else reversed(contenders):
                time.sleep(0.1)
                seconds = contender.run(options.runs)
                if turn:
                    contender.seconds += seconds
    finally:
        for contender in contenders:
            contender.close()
    return contenders


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--transom", required=True)
    parser.add_argument("--extents", nargs="+", default=["1,128", "8,128"])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--inputs", help="a safetensors file of inputs, in place of random ones")
    parser.add_argument("--mode", default="compile", help="lazy where shapes depend on what is computed")
    parser.add_argument("--any_order", action="store_true", help="outputs may be in another order (detectors)")
    parser.add_argument("--peer", metavar="INPUTS", help="run ONNX Runtime alone (used by the script itself)")
    options = parser.parse_args()
    if options.peer:
        return peer(options.files[0], options.peer, options.threads)
    from safetensors.numpy import save_file

    print("| file | inputs | transom ms | ONNX Runtime ms | ratio | of minima | start s | its | MB | its | apart |\n"
          "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for path in options.files:
        for extents in ["given"] if options.inputs else options.extents:
            with tempfile.TemporaryDirectory() as folder:
                inputs = options.inputs or os.path.join(folder, "inputs.safetensors")
                if not options.inputs:
                    save_file(inputs_of(session_of(path, options.threads), *map(int, extents.split(","))), inputs)
                apart = check(path, inputs, options, folder)
                if not apart <= 1e-3:
                    return f"{path}: the outputs are {apart:.1e} apart"
                ours, theirs = race(path, inputs, options)
            medians = [1e3 * statistics.median(each.seconds) for each in (ours, theirs)]
            minima = min(theirs.seconds) / min(ours.seconds)
            print(f"| {Path(path).parent.name}/{Path(path).name} | {extents.replace(',', ' x ')} | {medians[0]:.2f} | "
                  f"{medians[1]:.2f} | {medians[1] / medians[0]:.2f} | {minima:.2f} | {ours.start:.2f} | "
                  f"{theirs.start:.2f} | {ours.memory:.0f} | {theirs.memory:.0f} | {apart:.0e} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
