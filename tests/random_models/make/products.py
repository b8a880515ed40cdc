# SPDX-License-Identifier: Apache-2.0
"""Products, windows, norms, quantisation."""
import numpy as np

import right
from evaluators import Unfit, is_calm
from maker import INT64_MAX, step


@step(8)
def matrix_product(m):
    x = m.floating(low=1, fits=is_calm)
    shape = list(x.array.shape)
    other = [shape[-1]] if m.chance(0.25) else [n if m.chance(0.7) else 1 for n in shape[:-2]] + [shape[-1], m.extent()]
    y = m.new(m.numbers(x.array.dtype, other))
    if not is_calm(y):
        raise Unfit
    return m.add("MatMul", [x, y], exact=False)


@step(4)
def gemm(m):
    x = m.floating(low=2, high=2, fits=is_calm)
    turned, turned_y = m.random.randint(0, 1), m.random.randint(0, 1)
    depth, rows, columns = x.array.shape[0 if turned else 1], x.array.shape[1 if turned else 0], m.extent()
    y = m.new(m.numbers(x.array.dtype, (columns, depth) if turned_y else (depth, columns)))
    c = m.new(m.numbers(x.array.dtype, m.random.choice([(), (columns,), (rows, 1), (1, columns), (rows, columns)])))
    if not is_calm(y) or not is_calm(c):
        raise Unfit
    return m.add("Gemm", [x, y, c] if m.chance(0.7) else [x, y], exact=False, transA=turned, transB=turned_y,
                 alpha=m.random.choice([1.0, 0.5]), beta=m.random.choice([1.0, 0.0, 2.0]))


@step(7)
def einsum(m):
    letters = m.random.sample("abijkAZ", m.random.randint(1, 4))
    extents = {c: m.random.choice([0, 1, 2, 3, 4]) if m.chance(0.2) else m.random.choice([2, 3]) for c in letters}
    dots = m.random.choice([None, None, None, (), (2,), (2, 3)])
    dtype, terms, inputs = m.random.choice(["float32", "float32", "float64"]), [], []
    for _ in range(m.random.randint(1, 3)):
        term = [m.random.choice(letters) for _ in range(m.random.randint(0, 3))]
        shape = [extents[c] for c in term]
        if dots is not None and m.chance(0.8):
            at, own = m.random.randint(0, len(term)), dots[m.random.randint(0, len(dots)):]
            own = [1 if m.chance(0.2) else n for n in own]
            term.insert(at, "...")
            shape[at:at] = own
        terms.append("".join(term))
        inputs.append(m.new(m.numbers(dtype, shape)))
    if not all(is_calm(v) for v in inputs) or (len(inputs) > 1 and any(np.isinf(v.array).any() for v in inputs)):
        raise Unfit  # with infinities the order of the products shows
    equation = ",".join(terms)
    if m.chance(0.5):
        used = sorted({c for c in equation if c.isalpha()})
        result = m.random.sample(used, m.random.randint(0, len(used)))
        if "..." in equation:
            result.insert(m.random.randint(0, len(result)), "...")
        equation += "->" + "".join(result)
    return m.add("Einsum", inputs, exact=False, equation=equation)


def window_attributes(m, spatial, largest=3):
    kernel = [m.random.randint(1, largest) for _ in range(spatial)]
    attributes = {"kernel_shape": kernel, "strides": [m.random.randint(1, 3) for _ in range(spatial)]}
    kind = m.random.randrange(4)
    if kind == 0:
        attributes["auto_pad"] = m.random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif kind == 1:
        attributes["pads"] = [m.random.randint(0, k - 1) for k in kernel + kernel]
    return attributes


@step(6)
def convolution(m):
    spatial = m.random.randint(1, 2)
    groups = m.random.choice([1, 1, 2])
    channels, outputs = groups * m.random.randint(1, 2), groups * m.random.randint(1, 2)
    shape = [m.random.choice([0, 1, 1, 2]), channels] + [m.random.randint(1, 7) for _ in range(spatial)]
    attributes = window_attributes(m, spatial)
    transposed = m.chance(0.35)
    weight = [channels, outputs // groups] if transposed else [outputs, channels // groups]
    x, w = m.new(m.numbers("float32", shape)), m.new(m.numbers("float32", weight + attributes["kernel_shape"]))
    bias = [m.new(m.numbers("float32", (outputs,)))] if m.chance(0.5) else []
    if not all(is_calm(v) for v in [x, w] + bias):
        raise Unfit
    if not transposed and m.chance(0.3):
        attributes["dilations"] = [m.random.randint(1, 2) for _ in range(spatial)]
    if not transposed and right.Windows(shape, **attributes).pads() and not np.isfinite(w.array).all():
        raise Unfit  # zeros of padding times infinity: not said by the standard
    function = right.transposed_convolution if transposed else right.convolution
    arrays = [v.array for v in [x, w] + bias]
    if not bias:
        arrays.append(None)
    return m.add("ConvTranspose" if transposed else "Conv", [x, w] + bias, exact=False,
                 right=lambda: function(*arrays, groups, **attributes), group=groups, **attributes)


@step(6)
def pooling(m):
    spatial = m.random.randint(1, 2)
    shape = [m.random.choice([0, 1, 2]), m.random.randint(1, 3)] + [m.random.randint(1, 7) for _ in range(spatial)]
    x = m.new(m.numbers("float32", shape))
    op = m.random.choice(["MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"])
    if op != "MaxPool" and op != "GlobalMaxPool" and not is_calm(x):
        raise Unfit
    if op == "GlobalMaxPool":
        return m.add(op, [x], right=lambda: right.global_max_pool(x.array))
    if op == "GlobalAveragePool":
        return m.add(op, [x], exact=False)
    attributes = window_attributes(m, spatial)
    if op == "AveragePool" and m.chance(0.4):
        attributes["count_include_pad"] = 1
    function = right.max_pool if op == "MaxPool" else right.average_pool
    return m.add(op, [x], exact=op == "MaxPool", right=lambda: function(x.array, **attributes), **attributes)


@step(5)
def norm(m):
    op = m.random.choice(["LayerNormalization", "InstanceNormalization", "BatchNormalization", "LpNormalization"])

    def parameter(shape, positive=False):
        value = m.new(np.abs(m.numbers("float32", shape)) if positive else m.numbers("float32", shape))
        if not is_calm(value) or not np.isfinite(value.array).all():
            raise Unfit
        return value
    if op == "LayerNormalization":
        if m.opset < 17:
            raise Unfit
        x = m.any(low=1, fits=is_calm, dtypes=["float32"])
        axis = m.axis(x.array.ndim)
        return m.add(op, [x, parameter(x.array.shape[axis:]), parameter(x.array.shape[axis:])], exact=False, axis=axis)
    if op == "LpNormalization":
        x = m.any(low=1, fits=is_calm, dtypes=["float32"])
        return m.add(op, [x], exact=False, axis=m.axis(x.array.ndim), p=m.random.randint(1, 2))
    channels = m.random.randint(1, 3)
    x = m.new(m.numbers("float32", [m.random.randint(0, 2), channels, m.random.randint(1, 4)]))
    if not is_calm(x):
        raise Unfit
    rows = [parameter((channels,)) for _ in range(2)]
    if op == "InstanceNormalization":
        return m.add(op, [x] + rows, exact=False)
    inputs = [x] + rows + [parameter((channels,)), parameter((channels,), True)]
    return m.add(op, inputs, exact=False, right=lambda: right.batch_normalization(*(v.array for v in inputs)))


@step(4)
def quantization(m):
    x = m.exact(dtypes=["float32"], fits=is_calm)
    scale = m.new(np.array(m.random.choice([0.5, 0.25, 2.0]), "float32"))
    zero = m.new(np.array(m.random.choice([0, 3, 127]), m.random.choice(["uint8", "int8"])))
    if np.isnan(x.array).any():
        raise Unfit
    codes = m.add("QuantizeLinear", [x, scale, zero])
    return m.add("DequantizeLinear", [codes, scale, zero]) if m.chance(0.6) else codes


@step(3)
def boxes(m):
    count = m.random.choice([0, 1, 5])
    corners = np.array([m.random.uniform(0, 4) for _ in range(count * 4)], "float32").reshape(1, count, 4)
    scores = np.array([m.random.choice([0.1, 0.5, 0.9, 0.25]) + i * 0.001 for i in range(count)], "float32")
    most = m.random.choice([0, 1, 3, INT64_MAX, 2 ** 53 + 1])
    return m.add("NonMaxSuppression", [m.new(corners), m.new(scores.reshape(1, 1, count)), m.integers([most]),
                                       m.new(np.array([m.random.choice([0.0, 0.5, 1.0])], "float32")),
                                       m.new(np.array([m.random.choice([0.0, 0.3])], "float32"))])
