# SPDX-License-Identifier: Apache-2.0
"""Steps that work element by element, reduce and order."""
import numpy as np
from onnx import helper

import right
from evaluators import Unfit, is_calm, is_float
from maker import FLOATS, INTEGERS, step

EXACT_UNARY = ["Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Relu", "Sqrt", "Reciprocal", "Identity", "IsNaN", "IsInf"]
SMOOTH_UNARY = ["Exp", "Log", "Sin", "Cos", "Tan", "Tanh", "Erf", "Sigmoid", "Softplus", "Softsign", "Sinh", "Cosh", "Atan",
                "Asinh", "HardSwish", "Mish", "Selu"]


@step(16)
def exact_unary(m):
    op = m.random.choice(EXACT_UNARY)
    if op in ("Abs", "Neg", "Sign", "Identity") and m.chance(0.4):
        return m.add(op, [m.exact(dtypes=INTEGERS)])
    return m.add(op, [m.exact(dtypes=FLOATS)])


@step(10)
def smooth_unary(m):
    op = m.random.choice(SMOOTH_UNARY)
    if m.opset < {"Mish": 18, "HardSwish": 14}.get(op, 0):
        raise Unfit
    x = m.floating(fits=is_calm)
    by_standard = {"Erf": lambda: right.erf(x.array), "HardSwish": lambda: right.hard_swish(x.array)}
    return m.add(op, [x], exact=False, right=by_standard.get(op))


@step(10)
def parametric_unary(m):
    x = m.floating()
    op = m.random.choice(["LeakyRelu", "Elu", "Celu", "HardSigmoid", "ThresholdedRelu", "Shrink", "Clip", "Gelu", "PRelu"])
    if op in ("LeakyRelu", "Elu", "Celu") and not is_calm(x):
        raise Unfit
    if op == "LeakyRelu":
        return m.add(op, [x], exact=False, **({"alpha": m.random.choice([0.0, 0.25, 1.5])} if m.chance(0.6) else {}))
    if op in ("Elu", "Celu", "HardSigmoid"):
        return m.add(op, [x], exact=False, right=(lambda: right.hard_sigmoid(x.array)) if op == "HardSigmoid" else None)
    if op == "Gelu":
        if m.opset < 20:
            raise Unfit
        approximate = m.random.choice(["none", "tanh"])
        return m.add(op, [x], exact=False, right=lambda: right.gelu(x.array, approximate), approximate=approximate)
    if not x.exact:
        raise Unfit
    if op == "ThresholdedRelu":
        return m.add(op, [x], alpha=m.random.choice([0.0, 1.0, -0.5]))
    if op == "Shrink":
        return m.add(op, [x], lambd=0.5, bias=m.random.choice([0.0, 0.25]))
    if op == "PRelu":
        slope = m.new(m.numbers(x.array.dtype, x.array.shape if m.chance(0.5) else ()))
        return m.add(op, [x, slope], right=lambda: right.prelu(x.array, slope.array))
    limits = [m.new(np.array(v, x.array.dtype)) if m.chance(0.7) else None for v in (-1.0, m.random.choice([1.5, 0.0]))]
    return m.add(op, [x] + limits)


@step(24)
def arithmetic(m):
    op = m.random.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod", "Sum", "Mean"])
    if op in ("Sum", "Mean"):
        x = m.floating(fits=is_calm)
        others = [v for v in (m.partner(x) for _ in range(m.random.randint(0, 2))) if is_calm(v)]
        return m.add(op, [x] + others, exact=False)
    if op == "Pow":
        x = m.floating(fits=is_calm)
        return m.add(op, [x, m.new(np.array(m.random.choice([0, 1, 2, 3, -1, 0.5, -0.5]), x.array.dtype))], exact=False)
    x = m.exact(dtypes=INTEGERS if m.chance(0.3) else FLOATS)
    y = m.partner(x)
    if op in ("Div", "Mod") and not is_float(x):
        low = x.array.dtype.kind == "i" and (x.array == np.iinfo(x.array.dtype).min).any()
        if (y.array == 0).any() or low:  # no value is right
            raise Unfit
    if op == "Mod":
        if is_float(x):
            return m.add(op, [x, y], exact=False, fmod=1)
        return m.add(op, [x, y], **({"fmod": 1} if m.chance(0.3) else {}))
    inputs = [x, y] if m.chance(0.5) or op in ("Div", "Mod") else [y, x]
    if op in ("Max", "Min") and m.chance(0.3):
        inputs += [m.partner(x)]
    return m.add(op, inputs)


@step(6)
def with_number(m):
    """x and a scalar, or two scalars: what patterns look for."""
    x = m.exact(dtypes=["float32"])
    number = m.new(np.array(m.random.choice([0, 1, -1, 0.5, 2, 0.044715, 1e-5, 0.7071067811865476]), "float32"), True)
    op = m.random.choice(["Mul", "Add", "Div", "Sub"])
    return m.add(op, [x, number] if m.chance(0.7) else [number, x])


@step(8)
def comparison(m):
    op = m.random.choice(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor", "Not", "Where"])
    if op == "Not":
        return m.add(op, [m.any(dtypes=["bool"])])
    if op in ("And", "Or", "Xor"):
        x = m.any(dtypes=["bool"])
        return m.add(op, [x, m.partner(x)])
    if op == "Where":
        x = m.any()
        return m.add(op, [m.partner(x, "bool"), x, m.partner(x)])
    x = m.exact()
    if x.array.dtype.kind == "b" and op != "Equal":
        raise Unfit
    return m.add(op, [x, m.partner(x)])


@step(4)
def bits(m):
    x = m.any(dtypes=INTEGERS)
    op = m.random.choice(["BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
    if op == "BitShift":
        if x.array.dtype.kind != "u":
            raise Unfit
        places = m.new(np.array([m.random.randrange(x.array.dtype.itemsize * 8) for _ in range(x.array.size)],
                                x.array.dtype).reshape(x.array.shape))
        return m.add(op, [x, places], direction=m.random.choice(["LEFT", "RIGHT"]))
    if m.opset < 18:
        raise Unfit
    return m.add(op, [x] if op == "BitwiseNot" else [x, m.partner(x)])


@step(8)
def cast(m):
    x = m.exact()
    to = m.random.choice(FLOATS + INTEGERS + ["bool"])
    if is_float(x) and np.dtype(to).kind in "iu":
        low, high = (np.iinfo(to).min, np.iinfo(to).max) if np.dtype(to).itemsize < 4 else (-1000, 1000)
        low = max(low, 0) if np.dtype(to).kind == "u" else low
        if not (np.isfinite(x.array).all() and (x.array > low).all() and (x.array < high).all()):
            raise Unfit
    return m.add("Cast", [x], to=int(helper.np_dtype_to_tensor_dtype(np.dtype(to))))


REDUCTIONS = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
              "ReduceLogSumExp", "ReduceLogSum"]


@step(14)
def reduction(m):
    op = m.random.choice(REDUCTIONS)
    extreme = op in ("ReduceMax", "ReduceMin")
    x = m.exact() if extreme else m.any(fits=is_calm, dtypes=FLOATS + ["int32", "int64"])
    if not is_float(x) and op not in ("ReduceSum", "ReduceMax", "ReduceMin"):
        raise Unfit
    if (x.array.dtype.kind == "b" and m.opset < 20) or str(x.array.dtype) in ("int16", "uint16"):
        raise Unfit
    if op == "ReduceProd" and not ((np.abs(x.array) > 1e-3) & (np.abs(x.array) < 1e3) | (x.array == 0)).all():
        raise Unfit  # what leaves the range on the way depends on the order
    axes, attributes = m.axes(x.array.ndim), {"keepdims": m.random.randint(0, 1)}
    inputs = [x]
    if m.opset >= 18 or (op == "ReduceSum" and m.opset >= 13):
        if m.chance(0.85):
            inputs.append(m.integers(axes))
        if m.chance(0.3):
            attributes["noop_with_empty_axes"] = m.random.randint(0, 1)
    elif axes:
        attributes["axes"] = axes
    every = not attributes.get("noop_with_empty_axes") or (len(inputs) < 2 and "axes" not in attributes and m.opset < 18)
    given = axes if len(inputs) > 1 or "axes" in attributes else []
    by_standard = (lambda: right.extreme(x.array, given, attributes["keepdims"], op == "ReduceMax", every)) if extreme else None
    return m.add(op, inputs, exact=extreme or not is_float(x), right=by_standard, **attributes)


@step(6)
def place_of_extreme(m):
    x = m.exact(low=1, fits=lambda v: v.array.size > 0)
    attributes = {"axis": m.axis(x.array.ndim), "keepdims": m.random.randint(0, 1)}
    if m.chance(0.3):
        attributes["select_last_index"] = 1
    if is_float(x) and np.isnan(x.array).any():  # not said by the standard
        raise Unfit
    return m.add(m.random.choice(["ArgMax", "ArgMin"]), [x], **attributes)


@step(4)
def running_sum(m):
    x = m.any(low=1, fits=is_calm, dtypes=FLOATS + ["int32", "int64"])
    axis = m.new(np.array(m.axis(x.array.ndim), m.random.choice(["int32", "int64"])), m.chance(0.8))
    return m.add("CumSum", [x, axis], exact=not is_float(x), exclusive=m.random.randint(0, 1),
                 reverse=m.random.randint(0, 1))


@step(6)
def softmax(m):
    x = m.floating(low=1)
    op, axis = m.random.choice(["Softmax", "LogSoftmax"]), m.axis(x.array.ndim)
    return m.add(op, [x], exact=False, right=lambda: right.softmax(x.array, axis, op == "LogSoftmax"), axis=axis)


@step(5)
def top_k(m):
    x = m.exact(low=1, fits=lambda v: not (is_float(v) and np.isnan(v.array).any()), dtypes=FLOATS + ["int64", "int32"])
    axis = m.axis(x.array.ndim)
    k = m.random.randint(0, x.array.shape[axis])
    return m.add("TopK", [x, m.integers([k])], outputs=2, axis=axis, largest=m.random.randint(0, 1), sorted=1)
