"""Control flow, sequences, and types that only move and convert."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from tests.fuzz.graph import BOOL, F32, SMALL, Draft, Reject
from tests.fuzz.operators import operator

_STEPS = ("Relu", "Neg", "Sigmoid", "Abs", "Identity", "Exp")


def _float(name: str) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _branch(draft: Draft, label: str, captured: list[str]) -> GraphProto:
    """Return a branch that computes one result from outer values."""
    prefix = f"{label}{len(draft.graph.nodes)}"
    nodes: list[NodeProto] = []
    last = draft.choice(captured)
    for index in range(draft.integer(1, 3)):
        name = f"{prefix}_{index}"
        if draft.chance(0.3):
            nodes.append(helper.make_node("Mul", [last, last], [name]))
        elif draft.chance(0.2):
            nodes.append(helper.make_node("Concat", [last, last], [name], axis=0))
        else:
            nodes.append(helper.make_node(draft.choice(_STEPS), [last], [name]))
        last = name
    return helper.make_graph(nodes, prefix, [], [_float(last)])


@operator("If")
def if_(draft: Draft, op: str) -> None:
    """Branches of different sizes; the condition is constant or not."""
    captured = [draft.pick((F32,), (1, 3)) for _ in range(2)]
    condition = draft.leaf(np.array(draft.chance(0.5)))
    branches = {name: _branch(draft, name, captured) for name in ("then_branch", "else_branch")}
    draft.add(op, [condition], **branches)


@operator("Loop")
def loop(draft: Draft, op: str) -> None:
    """A carried value, a scanned one, a captured one; it may not run at all."""
    start = draft.pick((F32,), (1, 2), where=lambda array: array.size < 64)
    captured = draft.new(F32, draft.value(start).shape)
    mark = f"loop{len(draft.graph.nodes)}"
    names = {key: f"{mark}_{key}" for key in ("i", "c", "v", "sum", "out", "c_out")}
    nodes = [
        helper.make_node("Add", [names["v"], captured], [names["sum"]]),
        helper.make_node(draft.choice(_STEPS), [names["sum"]], [names["out"]]),
        helper.make_node("Identity", [names["c"]], [names["c_out"]]),
    ]
    inputs = [
        helper.make_tensor_value_info(names["i"], TensorProto.INT64, []),
        helper.make_tensor_value_info(names["c"], TensorProto.BOOL, []),
        _float(names["v"]),
    ]
    outputs = [helper.make_tensor_value_info(names["c_out"], TensorProto.BOOL, []), _float(names["sum"])]
    body = helper.make_graph(nodes, mark, inputs, [*outputs, _float(names["out"])])
    count = draft.leaf(np.array(draft.integer(1, 4), np.int64))
    condition = draft.leaf(np.array(True)) if draft.chance(0.5) else ""
    draft.add(op, [count, condition, start], 2, body=body)


@operator("Scan")
def scan(draft: Draft, op: str) -> None:
    """One state, one scanned input and output."""
    if draft.opset < 9:
        raise Reject("another signature")
    length, width = draft.integer(1, 5), draft.integer(1, 4)
    mark = f"scan{len(draft.graph.nodes)}"
    nodes = [
        helper.make_node("Add", [f"{mark}_s", f"{mark}_x"], [f"{mark}_t"]),
        helper.make_node(draft.choice(_STEPS), [f"{mark}_t"], [f"{mark}_y"]),
    ]
    ports = [helper.make_tensor_value_info(f"{mark}_{name}", TensorProto.FLOAT, [width]) for name in "sx"]
    body = helper.make_graph(nodes, mark, ports, [_float(f"{mark}_t"), _float(f"{mark}_y")])
    inputs = [draft.new(F32, (width,)), draft.new(F32, (length, width))]
    draft.add(op, inputs, 2, body=body, num_scan_inputs=1)


@operator("*sequence")
def sequence(draft: Draft, _: str) -> None:
    """A sequence that is built, taken apart and put together again."""
    if draft.opset < 11:
        raise Reject("no sequences")
    x = draft.pick((F32,), (2, 3), where=lambda array: array.size > 0)
    others = [draft.new(F32, draft.value(x).shape) for _ in range(draft.integer(0, 2))]
    if draft.chance(0.2):
        parts = draft.constant(1) if draft.chance(0.5) else ""
        axis = draft.axis(draft.value(x).ndim)
        (made,) = draft.add(
            "SplitToSequence", [x, parts] if parts else [x], axis=axis, keepdims=draft.choice([None, 0, 1])
        )
        draft.add("SequenceAt", [made, draft.constant(draft.choice([0, -1]))])
        return
    if draft.chance(0.2):
        (empty,) = draft.add("SequenceEmpty", [], dtype=TensorProto.FLOAT)
        (made,) = draft.add("SequenceInsert", [empty, x])
    else:
        (made,) = draft.add("SequenceConstruct", [x, *others])
    if len(draft.value(made)) > 1 and draft.chance(0.3):
        (made,) = draft.add("SequenceErase", [made, draft.constant(draft.choice([0, -1]))])
    if draft.chance(0.5):
        (made,) = draft.add("SequenceInsert", [made, draft.new(F32, draft.value(x).shape)])
    if draft.opset >= 17 and draft.chance(0.3):
        mark = f"map{len(draft.graph.nodes)}"
        ports = [_float(f"{mark}_{name}") for name in "ab"]
        nodes = [helper.make_node("Add", [port.name for port in ports], [f"{mark}_sum"])]
        nodes.append(helper.make_node(draft.choice(_STEPS), [f"{mark}_sum"], [f"{mark}_out"]))
        body = helper.make_graph(nodes, mark, ports, [_float(f"{mark}_out")])
        (made,) = draft.add("SequenceMap", [made, draft.choice([made, x])], body=body)
    kind = draft.choice(["at", "concat", "length", "stay"])
    if kind == "at":
        draft.add("SequenceAt", [made, draft.constant(draft.integer(-1, 0))])
    elif kind == "concat":
        draft.add("ConcatFromSequence", [made], axis=draft.integer(0, 1), new_axis=draft.choice([None, 0, 1]))
    elif kind == "length":
        draft.add("SequenceLength", [made])


@operator("*small")
def small(draft: Draft, _: str) -> None:
    """To a type of 8, 4 or 2 bits, somewhere else, and back."""
    possible = [dtype for dtype, opset in SMALL.items() if opset <= draft.opset]
    to = draft.choice(possible)
    low, high = (0, 3) if "uint" in to.name else (-2, 1) if "2" in to.name else (-7, 7)
    shape = draft.shape(1, 3)
    x = draft.leaf(draft.random.integers(low, high + 1, shape).astype(np.float32))
    (y,) = draft.add("Cast", [x], to=helper.np_dtype_to_tensor_dtype(to))
    for _step in range(draft.integer(0, 2)):
        rank = draft.value(y).ndim
        kind = draft.choice(["Transpose", "Reshape", "Identity", "Unsqueeze"])
        if kind == "Transpose":
            (y,) = draft.add(kind, [y], perm=[int(i) for i in draft.random.permutation(rank)])
        elif kind == "Reshape":
            (y,) = draft.add(kind, [y, draft.constant([-1])])
        elif kind == "Unsqueeze":
            (y,) = draft.add(kind, [y, draft.constant([draft.integer(0, rank)])])
        else:
            (y,) = draft.add(kind, [y])
    if draft.chance(0.7):
        draft.add("Cast", [y], to=TensorProto.FLOAT)


@operator("*sizes")
def sizes(draft: Draft, _: str) -> None:
    """A size that depends on data, used by what follows."""
    x = draft.new(F32, (draft.integer(1, 6), draft.integer(1, 4)))
    (picked,) = draft.add("Compress", [x, draft.new(BOOL, (draft.value(x).shape[0],))], axis=0)
    (y,) = draft.add(draft.choice(_STEPS), [picked])
    if draft.chance(0.5):
        (shape,) = draft.add("Shape", [y])
        (y,) = draft.add("Expand", [draft.constant(1.5, np.float32), shape])
    if draft.chance(0.5):
        draft.add("Concat", [y, x], axis=0)
    if draft.chance(0.5):
        draft.add("Transpose", [y])
