# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan, also such as run zero times."""
import numpy as np
from onnx import helper, numpy_helper

from evaluators import Unfit, is_calm, type_of
from maker import INT64_MAX, step


def body_of(name, nodes, inputs, outputs):
    def info(value_name, array, with_shape=True):
        return helper.make_tensor_value_info(value_name, type_of(array), list(array.shape) if with_shape else None)
    return helper.make_graph(nodes, name, [info(*i) for i in inputs], [info(*o) for o in outputs])


@step(5)
def choice(m):
    x = m.any(dtypes=["float32", "int64"])
    y = m.partner(x)
    condition = m.new(np.array(m.chance(0.5)), m.chance(0.3))
    branches = []
    for name, op in (("then", "Add"), ("else", m.random.choice(["Sub", "Mul"]))):
        out = f"b{len(m.values)}_{name}"
        node = helper.make_node(op, [x.name, y.name], [out])
        branches.append(helper.make_graph([node], name, [], [helper.make_tensor_value_info(out, type_of(x.array), None)]))
    return m.add("If", [condition], exact=False, then_branch=branches[0], else_branch=branches[1])


@step(6)
def loop(m):
    x = m.any(dtypes=["float32", "int64"], fits=is_calm)
    step_by = m.new(m.numbers(x.array.dtype, ()))
    if not is_calm(step_by):
        raise Unfit
    own = f"l{len(m.values)}_"
    turns = m.random.choice([0, 0, 1, 3, INT64_MAX, -1])
    starts = m.chance(0.8)
    until = m.random.randint(0, 3)
    names = [own + n for n in ("i", "go", "state", "next", "limit", "again", "scan")]
    i, go, state, following, limit, again, scan = names
    nodes = [helper.make_node("Add", [state, step_by.name], [following]),
             helper.make_node("Constant", [], [limit], value=numpy_helper.from_array(np.array(until, "int64"))),
             helper.make_node("Less", [i, limit], [again])]
    outputs = [(again, np.array(True)), (following, x.array)]
    scans = m.chance(0.7)
    if scans:
        nodes.append(helper.make_node(m.random.choice(["Identity", "Neg"]), [following], [scan]))
        outputs.append((scan, x.array, m.chance(0.6)))
    body = body_of("body", nodes, [(i, np.array(0)), (go, np.array(True)), (state, x.array)], outputs)
    trip = m.integers(np.array(turns), constant=m.chance(0.5)) if m.chance(0.85) else None
    start = m.new(np.array(starts), m.chance(0.5)) if m.chance(0.85) else None
    return m.add("Loop", [trip, start, x], outputs=2 if scans else 1, exact=False, body=body)


@step(3)
def scan(m):
    x = m.any(low=1, high=3, dtypes=["float32", "int64"], fits=is_calm)
    own = f"s{len(m.values)}_"
    rest = np.zeros(x.array.shape[1:], x.array.dtype)
    nodes = [helper.make_node("Add", [own + "a", own + "x"], [own + "b"]),
             helper.make_node("Identity", [own + "b"], [own + "y"])]
    body = body_of("body", nodes, [(own + "a", rest), (own + "x", rest)], [(own + "b", rest), (own + "y", rest)])
    return m.add("Scan", [m.new(rest), x], outputs=2, exact=False, body=body, num_scan_inputs=1,
                 scan_input_directions=[m.random.randint(0, 1)], scan_output_directions=[m.random.randint(0, 1)])
