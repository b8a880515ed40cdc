# SPDX-License-Identifier: Apache-2.0
"""Composites that exporters write as their parts, and what nearly is one."""
import numpy as np

import right
from evaluators import Unfit, is_calm
from maker import step


@step(8)
def pattern_values(m):
    x = m.any(dtypes=["float32"], fits=is_calm)
    number = lambda value: m.new(np.array(value, "float32"), True)  # noqa: E731
    kind = m.random.randrange(5)
    with_rows = x.array.ndim >= 1
    axis = m.integers([m.random.choice([-1, -1, 0])], True) if with_rows else None

    def mean(v):
        if m.opset >= 18:
            return m.add("ReduceMean", [v] + ([axis] if with_rows else []), exact=False, keepdims=1)
        attributes = {"axes": [-1]} if with_rows else {}
        return m.add("ReduceMean", [v], exact=False, keepdims=1, **attributes)
    if kind == 0:  # gelu
        inner = m.add("Div", [x, number(1.4142135)])
        half = m.add("Mul", [x, m.add("Add", [m.add("Erf", [inner], exact=False), number(1.0)], exact=False)], exact=False)
        return m.add("Mul", [half, number(m.random.choice([0.5, 0.5, 0.25]))], exact=False)
    if kind == 1:  # softmax
        if not with_rows or not x.array.size:
            raise Unfit
        place = int(axis.array[0]) if m.opset >= 18 else -1

        def by_standard():
            return right.extreme(x.array, [place], True, True, True)
        if m.opset >= 18:
            largest = m.add("ReduceMax", [x, axis], keepdims=1, right=by_standard)
        else:
            largest = m.add("ReduceMax", [x], keepdims=1, right=by_standard, axes=[-1])
        powers = m.add("Exp", [m.add("Sub", [x, largest])], exact=False)
        return m.add("Div", [powers, m.add("ReduceSum", [powers, axis], exact=False, keepdims=1)], exact=False)
    if kind == 2:  # a norm
        if not x.array.size:
            raise Unfit
        difference = m.add("Sub", [x, mean(x)], exact=False)
        squares = m.add("Mul", [difference, difference], exact=False) if m.chance(0.5) else \
            m.add("Pow", [difference, number(2.0)], exact=False)
        root = m.add("Sqrt", [m.add("Add", [mean(squares), number(1e-3)], exact=False)], exact=False)
        normal = m.add("Div", [difference, root], exact=False)
        width = x.array.shape[-1:] if m.chance(0.7) else ()
        scaled = m.add("Mul", [normal, m.new(m.numbers("float32", width), True)], exact=False)
        if not is_calm(scaled):
            raise Unfit
        return m.add("Add", [scaled, m.new(m.numbers("float32", width), True)], exact=False)
    if kind == 3:  # silu, or another function times its argument
        return m.add("Mul", [x, m.add(m.random.choice(["Sigmoid", "Tanh", "Relu"]), [x], exact=False)], exact=False)
    B, T, S, d = (m.random.choice([1, 2, 3]) for _ in range(4))  # attention
    S = m.random.choice([S, S, 0])
    q, k, v = (m.new(m.numbers("float32", (B, 2, n, d))) for n in (T, S, S))
    mask = m.new(m.numbers("float32", m.random.choice([(B, 1, 1, S), (1, 1, T, S), (T, S), (), (1, 2, T, 1)])))
    if not all(is_calm(one) and not np.isnan(one.array).any() for one in (q, k, v, mask)):
        raise Unfit
    scores = m.add("MatMul", [q, m.add("Transpose", [k], perm=[0, 1, 3, 2])], exact=False)
    scores = m.add(m.random.choice(["Mul", "Div"]), [scores, number(m.random.choice([0.5, 1.0, 0.25]))], exact=False)
    if m.chance(0.7):
        scores = m.add("Add", [scores, mask], exact=False)
    return m.add("MatMul", [m.add("Softmax", [scores], exact=False, axis=-1), v], exact=False)
