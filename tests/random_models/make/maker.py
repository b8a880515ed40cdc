# SPDX-License-Identifier: Apache-2.0
"""Makes one random graph: values gather in a pool, from which each step takes what fits."""
import random

import numpy as np
from onnx import helper, numpy_helper

from evaluators import (NAMES, Unfit, Value, close, is_float, model_of, run_reference, run_runtime, same)

FLOATS = ["float32"] * 6 + ["float16", "float64"]
INTEGERS = ["int64", "int64", "int32", "uint8", "int8", "uint32", "uint64", "int16", "uint16"]
OPSETS = [13, 16, 17, 18, 18, 20, 21, 22, 23]
MOST_ELEMENTS = 4096
INT64_MAX = 2 ** 63 - 1
SUMS = {"Add", "Sub", "Sum", "Mean", "ReduceSum", "ReduceMean", "CumSum", "MatMul", "Gemm", "Einsum"}

STEPS = []


def step(weight):
    """A function of a Maker that adds a node or a few; Unfit where what it chose does not fit."""
    def register(function):
        STEPS.append((function, weight))
        return function
    return register


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.opset = self.random.choice(OPSETS)
        self.values, self.inputs, self.initializers, self.nodes = [], [], [], []
        self.differs = set()  # values that the two evaluators see differently
        self.alternatives = {}
        self.settled = set()  # values of which an evaluator is known to be wrong
        self.corrected = []  # operators of which ONNX Runtime was
        self.largest_rank = 4

    # ---- values

    def chance(self, p):
        return self.random.random() < p

    def extent(self):
        return self.random.choices([0, 1, 2, 3, 4, 5, 7, 8, 17], [4, 20, 20, 20, 12, 8, 4, 4, 4])[0]

    def shape(self, low=0, high=None):
        rank = self.random.randint(low, self.largest_rank if high is None else high)
        if low == 0 and self.chance(0.12):
            rank = 0
        shape = [self.extent() for _ in range(rank)]
        while np.prod(shape, dtype=float) > MOST_ELEMENTS:
            shape[shape.index(max(shape))] //= 3
        return tuple(shape)

    def numbers(self, dtype, shape):
        count, pick = int(np.prod(shape)), self.random
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            values = [pick.random() < 0.5 for _ in range(count)]
        elif dtype.kind == "f":
            kind = pick.randrange(6)
            if kind == 0:
                values = [float(pick.randint(-4, 4)) for _ in range(count)]
            elif kind == 1:
                values = [pick.uniform(0.1, 3) for _ in range(count)]
            else:
                values = [pick.uniform(-3, 3) for _ in range(count)]
            if kind >= 4:
                tiny = float(np.finfo(dtype).smallest_subnormal)
                special = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, tiny, -tiny * 9, 1.0, -1.0, 0.5, 2.5]
                if self.chance(0.4):
                    special += [float(np.finfo(dtype).max), float(np.finfo(dtype).min), float(np.finfo(dtype).tiny)]
                values = [pick.choice(special) if pick.random() < 0.35 else v for v in values]
        else:
            info, kind = np.iinfo(dtype), pick.randrange(5)
            low = 0 if info.min == 0 else -6
            values = [pick.randint(low, 9) for _ in range(count)]
            if kind == 0:
                ends = [info.min, info.max, info.max - 1, info.min + 1, 0, 1]
                values = [pick.choice(ends) if pick.random() < 0.5 else v for v in values]
        with np.errstate(all="ignore"):
            return np.array(values, dtype=dtype).reshape(shape)

    def new(self, array, constant=None):
        array = np.asarray(array)
        value = Value(f"v{len(self.values)}", array, True)
        if self.chance(0.3) if constant is None else constant:
            self.initializers.append(numpy_helper.from_array(array, value.name))
        else:
            self.inputs.append(value)
        self.values.append(value)
        return value

    def any(self, fits=lambda v: True, dtypes=None, low=0, high=None):
        dtypes = dtypes or FLOATS + INTEGERS + ["bool"]

        def good(v):
            high_rank = 9 if high is None else high
            return str(v.array.dtype) in dtypes and low <= v.array.ndim <= high_rank and fits(v)
        found = [v for v in self.values if good(v)]
        if found and not self.chance(0.15):
            return self.random.choice(found[-3:] if self.chance(0.7) else found)
        for _ in range(8):
            array = self.numbers(self.random.choice(dtypes), self.shape(low, high))
            if good(Value("", array, True)):
                return self.new(array)
        raise Unfit

    def floating(self, **how):
        return self.any(dtypes=FLOATS, **how)

    def exact(self, **how):
        fits = how.pop("fits", lambda v: True)
        return self.any(fits=lambda v: v.exact and fits(v), **how)

    def partner(self, x, dtype=None):
        """Of a shape that broadcasts with that of x."""
        dtype = dtype or x.array.dtype
        found = [v for v in self.values if v.array.dtype == dtype and v is not x and self.broadcasts(v, x)]
        if found and self.chance(0.4):
            return self.random.choice(found)
        shape = list(x.array.shape)
        while shape and self.chance(0.25):
            shape.pop(0)
        shape = [1 if self.chance(0.2) else n for n in shape]
        if self.chance(0.1):
            shape = []
        return self.new(self.numbers(dtype, shape))

    @staticmethod
    def broadcasts(x, y):
        try:
            return np.prod(np.broadcast_shapes(x.array.shape, y.array.shape), dtype=float) <= MOST_ELEMENTS
        except ValueError:
            return False

    def axis(self, rank):
        if rank == 0:
            raise Unfit
        return self.random.randint(-rank, rank - 1)

    def axes(self, rank, low=0):
        count = self.random.randint(min(low, rank), rank)
        return [a - rank if self.chance(0.4) else a for a in self.random.sample(range(rank), count)]

    def integers(self, values, constant=None, dtype="int64"):
        return self.new(np.array(values, dtype), constant if constant is not None else self.chance(0.8))

    # ---- nodes

    def add(self, op, inputs, outputs=1, exact=True, right=None, **attributes):
        """Adds a node, if one of the evaluators can compute it; gives its outputs. right(): the first of them by the
        standard, where an evaluator is known to be wrong."""
        names = [f"v{len(self.values) + i}" for i in range(outputs)]
        node = helper.make_node(op, [v.name if v else "" for v in inputs], names, **attributes)
        known = {v.name: v for v in self.values}
        used = {v.name: v for v in inputs if v}
        for attribute in node.attribute:  # what bodies read from around them
            for inner in attribute.g.node:
                used.update({name: known[name] for name in inner.input if name in known})
            used.update({o.name: known[o.name] for o in attribute.g.output if o.name in known})
        if not self.differs.isdisjoint(used):
            raise Unfit
        model = model_of([node], list(used.values()), [(name, None) for name in names], [], self.opset)
        feeds = {v.name: v.array for v in used.values()}
        runtime = run_runtime(model, feeds, names)
        if right:
            first, reference = np.asarray(right()), None
            if runtime and not close(np.asarray(runtime[0]), first):
                self.corrected.append(op)
                self.settled.add(names[0])
            runtime = [first] + list(runtime[1:] if runtime else [None] * (outputs - 1))
        else:
            reference = run_reference(model, feeds, names)
        results = []
        for i, name in enumerate(names):
            one, other = (runtime[i] if runtime else None), (reference[i] if reference else None)
            found = one if one is not None else other
            if not isinstance(found, (np.ndarray, np.generic)) or str(np.asarray(found).dtype) not in NAMES:
                raise Unfit
            array = np.asarray(found)
            if array.size > MOST_ELEMENTS:
                raise Unfit
            now_exact = exact and all(v.exact for v in used.values())
            if one is not None and other is not None:
                other = np.asarray(other)
                if not close(array, other):
                    self.differs.add(name)
                    self.alternatives[name] = other
                now_exact = now_exact and same(array, other)
            results.append(Value(name, array, now_exact))
        if self.cancels(op, used.values(), results):
            raise Unfit
        self.nodes.append(node)
        self.values += results
        return results[0] if outputs == 1 else results

    @staticmethod
    def cancels(op, inputs, results):
        """Whether a sum of what was rounded is so small beside its terms that it consists of their errors."""
        if op not in SUMS or all(v.exact for v in results):
            return False

        def largest(values):
            found = [np.abs(v.array[np.isfinite(v.array)], dtype="f8") for v in values if is_float(v)]
            return max([float(a.max()) for a in found if a.size] + [0.0])
        return 0 < largest(results) < 1e-3 * largest(inputs)

    def settle(self, value, array):
        """Gives the value of a node that the evaluators do not compute."""
        place = next(i for i, v in enumerate(self.values) if v.name == value.name)
        self.values[place] = Value(value.name, np.asarray(array, value.array.dtype), value.exact)
        self.alternatives.pop(value.name, None)
        self.differs.discard(value.name)
        self.settled.add(value.name)

    def add_sequence(self, inputs, axis, what):
        """SplitToSequence, and one node that reads the sequence: both at once, since a value here is an array."""
        own = f"q{len(self.values)}"
        split = helper.make_node("SplitToSequence", [v.name for v in inputs], [own], axis=axis)
        if what == "concat":
            reader = helper.make_node("ConcatFromSequence", [own], ["?"], axis=axis)
        elif what == "length":
            reader = helper.make_node("SequenceLength", [own], ["?"])
        else:
            place = self.integers(np.array(self.random.choice([0, -1])))
            inputs = inputs + [place]
            reader = helper.make_node("SequenceAt", [own, place.name], ["?"])
        name = f"v{len(self.values)}"
        reader.output[0] = name
        model = model_of([split, reader], inputs, [(name, None)], [], self.opset)
        feeds = {v.name: v.array for v in inputs}
        results = [r for r in (run(model, feeds, [name]) for run in (run_runtime, run_reference)) if r is not None]
        if not results or str(np.asarray(results[0][0]).dtype) not in NAMES:
            raise Unfit
        if len(results) == 2 and not close(np.asarray(results[0][0]), np.asarray(results[1][0])):
            self.differs.add(name)
            self.alternatives[name] = np.asarray(results[1][0])
        self.nodes += [split, reader]
        self.values.append(Value(name, np.asarray(results[0][0]), all(v.exact for v in inputs)))

    def make(self, count):
        for _ in range(count * 4):
            if len(self.nodes) >= count or self.differs:
                break
            before = len(self.values), len(self.inputs), len(self.initializers), len(self.nodes)
            try:
                self.random.choices([step for step, _ in STEPS], [weight for _, weight in STEPS])[0](self)
            except Unfit:
                del self.values[before[0]:], self.inputs[before[1]:], self.initializers[before[2]:], self.nodes[before[3]:]
                names = {v.name for v in self.values}
                self.differs &= names
                self.settled &= names
                self.alternatives = {name: array for name, array in self.alternatives.items() if name in names}

    def case(self):
        """The model, its inputs and outputs, or None."""
        if not self.nodes:
            return None
        made = {name for node in self.nodes for name in node.output}
        read = {name for node in self.nodes for name in node.input}
        for node in self.nodes:
            for attribute in node.attribute:
                read |= {name for inner in attribute.g.node for name in inner.input}
                read |= {output.name for output in attribute.g.output}
        outputs = [v for v in self.values if v.name in made and (v.name not in read or self.chance(0.2))]
        inputs = [v for v in self.inputs if v.name in read]
        initializers = [t for t in self.initializers if t.name in read]
        model = model_of(self.nodes, inputs, [(v.name, v.array) for v in outputs], initializers, self.opset,
                         shapes=self.chance(0.5))
        return model, inputs, outputs
