# SPDX-License-Identifier: Apache-2.0
"""Makes random ONNX files with the values that ONNX Runtime and onnx's reference evaluator give.

  python3 tests/random_models/make FILE --seed 1 --count 1000 [--per_file 1000]
  python3 tests/random_models/make FILE --seeds 17 25 31
  python3 tests/random_models/make FILE --steps pooling recurrent --count 100

FILE (or FILE-0, FILE-1 ... with more than --per_file cases) is a safetensors file that the program random_models and
the tests read: of case 17 `17/model` holds the bytes of the ONNX file, `17/in/x` inputs, and outputs as `17/exact/y` (of
operators that all round alike: equal to the bit but for signs of zeros) or `17/near/y`; where the two evaluators differ,
`17/or/y` is what the reference gives, and either is right, unless one is known to be wrong (right.py). Graphs have one to four nodes over most of the operators;
their values hold scalars, extents 0 and 1, NaN, infinities, subnormal numbers, the ends of the integer types, negative
axes, empty tensors, indices that repeat, and control flow that runs zero times. The same seed makes the same case.

Needs the packages numpy, onnx and onnxruntime; no test of the tree does: tests/random_models/recorded holds what this made.
"""
import argparse
import collections
import itertools
import json
import multiprocessing
import pathlib
import struct
import warnings

import numpy as np

import composites  # noqa: F401
import control_flow  # noqa: F401
import elements  # noqa: F401
import movement  # noqa: F401
import networks  # noqa: F401
import products  # noqa: F401
from evaluators import NAMES, close, run_runtime
from maker import STEPS, Maker


def random_case(seed, whole):
    maker = Maker(seed)
    maker.make(maker.random.choice([1, 1, 2, 2, 3, 4]) if whole else 1)
    case = maker.case()
    if case is None:
        return None
    model, inputs, outputs = case
    names = [v.name for v in outputs]
    feeds = {v.name: v.array for v in inputs}
    runtime = run_runtime(model, feeds, names)
    tensors = [("model", np.frombuffer(model.SerializeToString(), "uint8"))]
    tensors += [(f"in/{v.name}", v.array) for v in inputs]
    for i, value in enumerate(outputs):
        expected = value.array
        known = value.name in maker.alternatives or maker.settled
        if runtime and not known and not close(np.asarray(runtime[i]), expected):
            maker.alternatives[value.name] = np.asarray(runtime[i])
        tensors.append((f"{'exact' if value.exact else 'near'}/{value.name}", expected))
        other = maker.alternatives.get(value.name)
        if other is not None and str(other.dtype) in NAMES:
            tensors.append((f"or/{value.name}", other))
    return tensors, maker.corrected


def write(path, tensors):
    header, offset, data = {}, 0, []
    for name, array in tensors:
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        header[name] = {"dtype": NAMES[str(array.dtype)], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
        data.append(array.tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def send_cases(seed, pipe, whole):
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    while True:
        pipe.send((seed, random_case(seed, whole)))
        seed += 1


def cases_from(seed, seeds=None, whole=True):
    """The cases of all seeds from one on, or of these alone, made in a process of their own: some models end the
    evaluators."""
    for seed in seeds or []:
        for seed, *case in itertools.islice(cases_from(seed, None, whole), 1):
            yield (seed, *case)
    while not seeds:
        here, there = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=send_cases, args=(seed, there, whole), daemon=True)
        process.start()
        there.close()
        try:
            while True:
                seed, case = here.recv()
                if case is not None:
                    yield (seed, *case)
                seed += 1
        except EOFError:
            seed += 1
        finally:
            process.kill()
            process.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--per_file", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", help="these alone")
    parser.add_argument("--steps", nargs="+", help="graphs of one of these alone: pooling, recurrent ...")
    arguments = parser.parse_args()
    if arguments.steps:
        STEPS[:] = [(step, 1) for step, _ in STEPS if step.__name__ in arguments.steps]
    arguments.count = len(arguments.seeds) if arguments.seeds else arguments.count
    contested, made, files, tensors, wrong = 0, 0, 0, [], collections.Counter()
    for seed, case, corrected in cases_from(arguments.seed, arguments.seeds, not arguments.steps):
        wrong.update(corrected)
        tensors += [(f"{seed}/{name}", array) for name, array in case]
        contested += any(name.startswith("or/") for name, _ in case)
        made += 1
        if made == arguments.count or made % arguments.per_file == 0:
            several = arguments.count > arguments.per_file
            write(f"{arguments.file}-{files}" if several else arguments.file, tensors)
            files, tensors = files + 1, []
        if made == arguments.count:
            break
    print("ONNX Runtime is not by the standard:", ", ".join(f"{op} {n}" for op, n in wrong.most_common()) or "never")
    print(f"{made} cases ({contested} contested) in {files} files; the next seed is {seed + 1}")


if __name__ == "__main__":
    main()
