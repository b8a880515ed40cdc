# SPDX-License-Identifier: Apache-2.0
"""Steps of whole layers: recurrent ones, resizing and sampling, losses, integer products, sequences."""
import numpy as np

from evaluators import Unfit, is_calm
from maker import INT64_MAX, step


def calm(m, shape, dtype="float32"):
    value = m.new(m.numbers(dtype, shape))
    if not is_calm(value) or not np.isfinite(value.array).all():
        raise Unfit
    return value


@step(4)
def recurrent(m):
    op = m.random.choice(["LSTM", "GRU", "RNN"])
    T, B, D, H = m.random.choice([0, 1, 2, 3]), m.random.choice([1, 2]), m.random.randint(1, 3), m.random.randint(1, 3)
    direction = m.random.choice(["forward", "reverse", "bidirectional"])
    directions, gates = 2 if direction == "bidirectional" else 1, {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    x = calm(m, (T, B, D))
    inputs = [x, calm(m, (directions, gates * H, D)), calm(m, (directions, gates * H, H))]
    inputs.append(calm(m, (directions, 2 * gates * H)) if m.chance(0.6) else None)
    inputs.append(m.integers([m.random.randint(min(T, 1), T) for _ in range(B)], dtype="int32") if m.chance(0.3) else None)
    if m.chance(0.4):
        inputs.append(calm(m, (directions, B, H)))
        if op == "LSTM":
            inputs.append(calm(m, (directions, B, H)))
    while inputs[-1] is None:
        inputs.pop()
    attributes = {"linear_before_reset": m.random.randint(0, 1)} if op == "GRU" else {}
    results = m.add(op, inputs, outputs=3 if op == "LSTM" else 2, exact=False, hidden_size=H, direction=direction, **attributes)
    if T and any(0 < float(np.abs(one.array).max(initial=0)) < 1e-3 for one in results):
        raise Unfit  # sums of numbers about 1 of which their errors are left
    if T == 0:  # the state is the one that it begins with; ONNX Runtime gives zeros, or what its memory held
        for i, state in enumerate(results[1:]):
            m.settle(state, inputs[5 + i].array if len(inputs) > 5 else np.zeros((directions, B, H)))
    return results


@step(4)
def resize(m):
    shape = [m.random.choice([1, 2]), m.random.choice([1, 2])] + [m.random.randint(1, 5) for _ in range(2)]
    x = calm(m, shape)
    mode = m.random.choice(["nearest", "linear", "cubic"])
    how = m.random.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    attributes = {"mode": mode, "coordinate_transformation_mode": how}
    if mode == "nearest":
        attributes["nearest_mode"] = m.random.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    extents = [m.random.randint(1, 7) for _ in range(2)]
    if m.chance(0.5):
        return m.add("Resize", [x, None, None, m.integers(shape[:2] + extents)], exact=False, **attributes)
    scales = m.new(np.array([1, 1, m.random.choice([0.5, 1, 2, 1.5]), m.random.choice([0.5, 1, 2, 3])], "float32"), True)
    if (np.array(shape) * scales.array < 1).any():
        raise Unfit
    return m.add("Resize", [x, None, scales], exact=False, **attributes)


@step(2)
def sampled(m):
    if m.opset < 16:
        raise Unfit
    x = calm(m, (1, m.random.randint(1, 2), m.random.randint(1, 4), m.random.randint(1, 4)))
    grid = calm(m, (1, m.random.choice([0, 1, 3]), 2, 2))
    mode = m.random.choice(["bilinear", "nearest"] if m.opset < 20 else ["linear", "nearest"])
    return m.add("GridSample", [x, grid], exact=False, mode=mode, align_corners=m.random.randint(0, 1),
                 padding_mode=m.random.choice(["zeros", "border", "reflection"]))


@step(3)
def integer_product(m):
    op = m.random.choice(["MatMulInteger", "ConvInteger", "QLinearMatMul", "DynamicQuantizeLinear"])
    if op == "DynamicQuantizeLinear":
        x = calm(m, m.shape(0, 2))
        if 0 < np.abs(x.array).max(initial=0) < 1e-30:
            raise Unfit  # the scale would be no normal number, or 0
        return m.add(op, [x], outputs=3)
    x = m.new(m.numbers("uint8", (m.extent(), 3) if op != "ConvInteger" else (1, 2, 4, m.random.randint(1, 4))))
    w = m.new(m.numbers("int8" if m.chance(0.5) else "uint8", (3, m.extent()) if op != "ConvInteger" else (2, 2, 2, 1)))
    x_zero, w_zero = m.new(np.array(m.random.choice([0, 3, 255]), "uint8")), m.new(np.array(2, w.array.dtype))
    if op == "QLinearMatMul":
        scales = [m.new(np.array(s, "float32")) for s in (0.5, 0.25, 4.0)]
        return m.add(op, [x, scales[0], x_zero, w, scales[1], w_zero, scales[2], m.new(np.array(7, "uint8"))])
    return m.add(op, [x, w, x_zero, w_zero] if m.chance(0.7) else [x, w])


@step(3)
def other_norm(m):
    op = m.random.choice(["GroupNormalization", "LRN", "MeanVarianceNormalization", "Hardmax", "RMSNormalization"])
    if op == "Hardmax":
        x = m.exact(low=1, dtypes=["float32"], fits=lambda v: not np.isnan(v.array).any())
        return m.add(op, [x], axis=m.axis(x.array.ndim))
    if op == "RMSNormalization":
        if m.opset < 23:
            raise Unfit
        x = m.any(low=1, fits=is_calm, dtypes=["float32"])
        axis = m.axis(x.array.ndim)
        return m.add(op, [x, calm(m, x.array.shape[axis:])], exact=False, axis=axis)
    channels = m.random.choice([2, 4])
    x = calm(m, (m.random.randint(0, 2), channels, m.random.randint(1, 3), m.random.randint(1, 3)))
    if op == "GroupNormalization":
        if m.opset < 21:
            raise Unfit
        return m.add(op, [x, calm(m, (channels,)), calm(m, (channels,))], exact=False, num_groups=m.random.choice([1, 2]))
    if op == "LRN":
        return m.add(op, [x], exact=False, size=m.random.choice([1, 3]))
    return m.add(op, [x], exact=False)


@step(2)
def loss(m):
    rows, classes = m.random.choice([1, 3]), m.random.randint(1, 4)
    rest = m.random.choice([(), (2,)])
    scores = calm(m, (rows, classes) + rest)
    labels = m.integers(np.array([m.random.randrange(classes) for _ in range(rows * int(np.prod(rest)))]).reshape((rows,) + rest))
    attributes = {"reduction": m.random.choice(["none", "mean", "sum"])}
    if m.chance(0.3):
        attributes["ignore_index"] = m.random.choice([0, -1])
    op = m.random.choice(["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
    return m.add(op, [scores, labels] + ([calm(m, (classes,))] if m.chance(0.3) else []), exact=False, **attributes)


@step(2)
def more_movement(m):
    op = m.random.choice(["SpaceToDepth", "CenterCropPad", "Col2Im", "LpPool", "Det"])
    if op == "SpaceToDepth":
        return m.add(op, [m.new(m.numbers("float32", (m.random.randint(0, 2), m.random.randint(1, 2), 4, 2)))], blocksize=2)
    if op == "CenterCropPad":
        x = m.any(low=1)
        if m.opset < 18:
            raise Unfit
        axes = m.axes(x.array.ndim, low=1)
        return m.add(op, [x, m.integers([m.extent() for _ in axes])], axes=axes)
    if op == "Col2Im":
        if m.opset < 18:
            raise Unfit
        return m.add(op, [calm(m, (m.random.randint(0, 2), 2 * 4, 4)), m.integers([3, 3]), m.integers([2, 2])], exact=False)
    if op == "LpPool":
        return m.add(op, [calm(m, (1, 2, m.random.randint(2, 5)))], exact=False, kernel_shape=[2], p=m.random.randint(1, 2))
    n = m.random.randint(1, 3)
    return m.add(op, [calm(m, m.random.choice([(n, n), (2, n, n), (0, n, n)]))], exact=False)


@step(3)
def sequences(m):
    """A list that is made, changed, and read: its own outputs are tensors."""
    x = m.any(low=1, dtypes=["float32", "int64"])
    axis = m.axis(x.array.ndim)
    size = m.random.choice([None, 1, 2, INT64_MAX])
    parts = m.random.choice(["length", "concat", "at"])
    inputs = [x] + ([m.integers(np.array(size))] if size else [])
    return m.add_sequence(inputs, axis, parts)
