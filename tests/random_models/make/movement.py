# SPDX-License-Identifier: Apache-2.0
"""Steps that move elements."""
import numpy as np
from onnx import helper, numpy_helper

from evaluators import Unfit, is_calm, is_float
from maker import FLOATS, INT64_MAX, INTEGERS, step


@step(8)
def slices(m):
    x = m.any(low=1)
    axes = m.axes(x.array.ndim, low=1)
    far = [0, 1, -1, 2, -3, 5, INT64_MAX, -INT64_MAX - 1, -INT64_MAX, 100]
    inputs = [x, m.integers([m.random.choice(far) for _ in axes]), m.integers([m.random.choice(far) for _ in axes]),
              m.integers(axes)]
    if m.chance(0.7):
        inputs.append(m.integers([m.random.choice([1, 1, 2, -1, -2, 7, INT64_MAX, -INT64_MAX]) for _ in axes]))
    return m.add("Slice", inputs)


@step(6)
def gathering(m):
    x = m.any(low=1)
    axis = m.axis(x.array.ndim)
    extent = x.array.shape[axis]
    op = m.random.choice(["Gather", "GatherElements", "GatherND"])

    def places(shape, n):
        if n == 0 and np.prod(shape) > 0:
            raise Unfit
        return m.integers(np.array([m.random.randint(-n, n - 1) for _ in range(int(np.prod(shape)))]).reshape(shape),
                          dtype=m.random.choice(["int32", "int64"]) if op != "GatherND" else "int64")
    if op == "Gather":
        return m.add(op, [x, places(m.shape(0, 2), extent)], axis=axis)
    if op == "GatherElements":
        shape = list(x.array.shape)
        shape[axis] = m.extent()
        return m.add(op, [x, places(shape, extent)], axis=axis)
    n = m.random.randint(1, x.array.ndim)
    least = min(x.array.shape[:n])
    return m.add(op, [x, places(list(m.shape(0, 2)) + [n], least)])


@step(5)
def scattering(m):
    x = m.any(low=1, dtypes=FLOATS + ["int32", "int64"])
    reduction = m.random.choice(["none", "none", "add", "mul"]) if m.opset >= 16 else "none"
    if reduction != "none" and not is_calm(x):
        raise Unfit
    attributes = {} if reduction == "none" else {"reduction": reduction}
    if m.chance(0.5):
        axis = m.axis(x.array.ndim)
        shape = [min(n, m.extent()) for n in x.array.shape]
        n = x.array.shape[axis]
        shape[axis] = m.random.randint(0, n)
        flat = np.empty(shape, "int64")
        moved = np.moveaxis(flat, axis, -1)
        for line in np.ndindex(*moved.shape[:-1]):  # without repeats: the order would matter
            moved[line] = [p - n if m.chance(0.3) else p for p in m.random.sample(range(n), shape[axis])]
        updates = m.new(m.numbers(x.array.dtype, shape))
        if reduction != "none" and not is_calm(updates):
            raise Unfit
        return m.add("ScatterElements", [x, m.integers(flat), updates], exact=reduction == "none", axis=axis, **attributes)
    n = m.random.randint(1, x.array.ndim)
    rows = int(np.prod(x.array.shape[:n]))
    count = m.random.randint(0, min(rows, 4))
    places = [list(np.unravel_index(p, x.array.shape[:n])) for p in m.random.sample(range(rows), count)]
    updates = m.new(m.numbers(x.array.dtype, [count] + list(x.array.shape[n:])))
    if reduction != "none" and not is_calm(updates):
        raise Unfit
    return m.add("ScatterND", [x, m.integers(np.array(places, "int64").reshape(count, n)), updates],
                 exact=reduction == "none", **attributes)


@step(12)
def reshaping(m):
    x = m.any()
    rank, shape = x.array.ndim, list(x.array.shape)
    op = m.random.choice(["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Tile", "Shape", "Size"])
    if op == "Reshape":
        target = m.random.choice([[-1], [0, -1] if rank > 0 and shape[0] else [-1], shape[::-1], [1] + shape, [int(np.prod(shape)), 1],
                                  shape + [-1] if x.array.size else shape])
        allow = {"allowzero": 1} if m.opset >= 14 and 0 in target and -1 not in target else {}
        return m.add(op, [x, m.integers(target)], **allow)
    if op == "Flatten":
        return m.add(op, [x], axis=m.random.randint(-rank, rank))
    if op == "Squeeze":
        ones = [i - rank if m.chance(0.4) else i for i, n in enumerate(shape) if n == 1 and m.chance(0.6)]
        return m.add(op, [x] if m.chance(0.3) else [x, m.integers(ones)])
    if op == "Unsqueeze":
        count = m.random.randint(0, 2)
        places = m.random.sample(range(rank + count), count)
        return m.add(op, [x, m.integers([p - rank - count if m.chance(0.4) else p for p in places])])
    if op == "Transpose":
        return m.add(op, [x], **({"perm": m.random.sample(range(rank), rank)} if rank and m.chance(0.8) else {}))
    if op == "Expand":
        return m.add(op, [x, m.integers([m.random.choice([1, 2, 0, 3]) if n == 1 else m.random.choice([1, n])
                                         for n in ([1] + shape if m.chance(0.3) else shape)])])
    if op == "Tile":
        return m.add(op, [x, m.integers([m.random.choice([0, 1, 1, 2, 3]) for _ in shape])])
    return m.add(op, [x])


@step(6)
def joining(m):
    x = m.any(low=1)
    axis = m.axis(x.array.ndim)
    if m.chance(0.5):
        others = []
        for _ in range(m.random.randint(0, 2)):
            shape = list(x.array.shape)
            shape[axis] = m.extent()
            others.append(m.new(m.numbers(x.array.dtype, shape)))
        return m.add("Concat", [x] + others, axis=axis)
    extent, parts = x.array.shape[axis], m.random.randint(1, 3)
    cuts = sorted(m.random.randint(0, extent) for _ in range(parts - 1))
    sizes = [b - a for a, b in zip([0] + cuts, cuts + [extent])]
    results = m.add("Split", [x, m.integers(sizes)], outputs=parts, axis=axis)
    return results


@step(6)
def padding(m):
    x = m.any(fits=lambda v: v.array.dtype.kind != "b", dtypes=FLOATS + ["int32", "int64", "uint8", "int8"])
    mode = m.random.choice(["constant", "constant", "edge", "reflect"] + (["wrap"] if m.opset >= 19 else []))
    low, high = [], []
    for n in x.array.shape:
        most = max(n - 1, 0) if mode == "reflect" else n if mode == "wrap" else 3 if n or mode == "constant" else 0
        least = -min(n // 2, 2) if mode == "constant" else 0
        low.append(m.random.randint(least, min(most, 3)))
        high.append(m.random.randint(least, min(most, 3)))
    inputs = [x, m.integers(low + high)]
    if mode == "constant" and m.chance(0.5):
        inputs.append(m.new(m.numbers(x.array.dtype, ())))
    return m.add("Pad", inputs, mode=mode)


@step(5)
def other_movement(m):
    op = m.random.choice(["Trilu", "NonZero", "Compress", "ConstantOfShape", "Range", "EyeLike", "OneHot", "Unique",
                          "ReverseSequence", "CastLike", "DepthToSpace"])
    if op == "Trilu":
        if m.opset < 14:
            raise Unfit
        x = m.any(low=2)
        k = m.integers(np.array(m.random.choice([0, 1, -2, 9, -9, INT64_MAX, -INT64_MAX - 1])))
        return m.add(op, [x, k] if m.chance(0.7) else [x], upper=m.random.randint(0, 1))
    if op == "NonZero":
        return m.add(op, [m.exact(low=1)])
    if op == "Compress":
        x = m.any(low=1)
        axis = m.axis(x.array.ndim)
        condition = m.new(m.numbers("bool", (m.random.randint(0, x.array.shape[axis]),)))
        return m.add(op, [x, condition], axis=axis)
    if op == "ConstantOfShape":
        value = numpy_helper.from_array(m.numbers(m.random.choice(FLOATS + INTEGERS), (1,)))
        return m.add(op, [m.integers(list(m.shape()))], value=value)
    if op == "Range":
        start = m.random.choice([0, 3, -2, 2 ** 53, -INT64_MAX])
        step_size = m.random.choice([1, 2, -1, 3])
        stop = start + step_size * m.random.randint(-1, 5) + m.random.choice([0, 1])
        return m.add(op, [m.integers(np.array(v)) for v in (start, stop, step_size)])
    if op == "EyeLike":
        return m.add(op, [m.any(low=2, high=2, dtypes=["float32", "int64"])], k=m.random.choice([0, 1, -2, 7]))
    if op == "OneHot":
        depth = m.random.choice([1, 3, 5])
        places = m.integers(np.array([m.random.randint(-depth, depth - 1) for _ in range(3)]))
        return m.add(op, [places, m.integers(np.array(depth)), m.new(m.numbers("float32", (2,)))],
                     axis=m.random.choice([-1, 0, 1]))
    if op == "Unique":
        x = m.exact(low=1, dtypes=["float32", "int64"], fits=lambda v: not (is_float(v) and np.isnan(v.array).any()))
        return m.add(op, [x], outputs=4, sorted=m.random.randint(0, 1))
    if op == "ReverseSequence":
        x = m.any(low=2)
        lengths = [m.random.randint(1, max(x.array.shape[0], 1)) for _ in range(x.array.shape[1])]
        return m.add(op, [x, m.integers(lengths)], time_axis=0, batch_axis=1)
    if op == "CastLike":
        x = m.exact(dtypes=["int32", "int64", "bool"])
        return m.add(op, [x, m.any(dtypes=["float32", "float64", "int64"])])
    x = m.new(m.numbers("float32", (m.random.randint(0, 2), 4, m.random.randint(1, 3), 2)))
    return m.add(op, [x], blocksize=2, mode=m.random.choice(["DCR", "CRD"]))
