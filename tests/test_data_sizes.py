"""Sizes that only data tells: each model is compiled once, whatever its size inputs hold, for each device."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from refactor_graph import InvalidInput, Unsupported
from refactor_graph.onnx import make_compiler

SEED = 20261121
X = np.random.default_rng(SEED).standard_normal((4, 9)).astype(np.float32)


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _model(nodes: list[onnx.NodeProto], feeds: dict[str, Any], **constants: np.ndarray) -> onnx.ModelProto:
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    fixed = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "sizes", ports, [helper.make_empty_tensor_value_info("y")], fixed)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    proto.ir_version = 9
    return proto


def _node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


CASES: dict[str, tuple[list[onnx.NodeProto], list[dict[str, Any]], dict[str, np.ndarray]]] = {
    "top_k": (
        [_node("TopK", "x k", "v i"), _node("Mul", "v v")],
        [{"x": X, "k": _ints(k)} for k in (1, 3, 9, 0, 3)],
        {},
    ),
    "top_k_sizes_only": (
        [_node("TopK", "x k", "v i"), _node("Shape", "v")],
        [{"x": X, "k": _ints(k)} for k in (1, 9)],
        {},
    ),
    "constant_of_shape": (
        [_node("ConstantOfShape", "s")],
        [{"s": _ints(*sizes)} for sizes in ((1, 2, 3), (0, 2, 3), (4, 1, 1))],
        {},
    ),
    "expand": (
        [_node("Expand", "x s", "z"), _node("Relu", "z")],
        [{"x": X[:, :1], "s": _ints(*sizes)} for sizes in ((1, 1, 1), (2, 4, 3), (1, 4, 5))],
        {},
    ),
    "tile": ([_node("Tile", "x s")], [{"x": X, "s": _ints(*times)} for times in ((1, 1), (2, 4), (0, 4))], {}),
    "range_integer": (
        [_node("Range", "a b c", "z"), _node("Add", "z a")],
        [{"a": np.int64(a), "b": np.int64(b), "c": np.int64(c)} for a, b, c in ((0, 5, 1), (5, 0, -2), (-4, 9, 3))],
        {},
    ),
    "range_float": (
        [_node("Range", "a b c")],
        [{"a": np.float32(a), "b": np.float32(b), "c": np.float32(c)} for a, b, c in ((0, 5, 0.3), (5, 0, -2))],
        {},
    ),
    "range_to_maximum": (
        [
            _node("ReduceMax", "l", "m", keepdims=0),
            _node("Range", "zero m one", "r"),
            _node("Unsqueeze", "l last", "column"),
            _node("Less", "r column"),
        ],
        [{"l": _ints(*lengths)} for lengths in ((3, 1, 2), (5, 9, 0))],
        {"zero": np.int64(0), "one": np.int64(1), "last": _ints(1)},
    ),
    "slice": (
        [_node("Slice", "x s e", "z"), _node("Abs", "z")],
        [
            {"x": X, "s": _ints(*s), "e": _ints(*e)}
            for s, e in (((0, 0), (4, 9)), ((1, 2), (-1, -2)), ((3, 3), (1, 1)), ((-100, -3), (100, 100)))
        ],
        {},
    ),
    "slice_steps": (
        [_node("Slice", "x s e axes steps")],
        [
            {"x": X, "s": _ints(*s), "e": _ints(*e), "steps": _ints(*t)}
            for s, e, t in (((8, 3), (-100, -100), (-1, -2)), ((1, 2), (-1, -1), (3, 1)))
        ],
        {"axes": _ints(1, 0)},
    ),
    "resize": (
        [_node("Resize", "x none none s", mode="nearest")],
        [{"x": X[None, None], "s": _ints(1, 1, *sizes)} for sizes in ((8, 9), (2, 3))],
        {"none": np.zeros(0, np.float32)},
    ),
    "one_hot": (
        [_node("OneHot", "i d v")],
        [{"i": _ints(0, 1, 2), "d": np.int64(depth), "v": np.array([0, 1], np.float32)} for depth in (4, 7)],
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_from_data(name, target):
    nodes, runs, constants = CASES[name]
    proto = _model(nodes, runs[0], **constants)
    executor, reference = make_compiler(proto).compile(target), ReferenceEvaluator(proto)
    for feeds in runs:
        expected = reference.run(None, feeds)[0]
        (actual,) = executor(feeds).values()
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6, err_msg=f"{name} {feeds}, seed {SEED}")
        assert (actual.shape, actual.dtype) == (np.shape(expected), np.asarray(expected).dtype)
    assert "Deferred" not in {row.type for row in executor.bench()}


def test_a_negative_size_is_refused(target):
    nodes, runs, constants = CASES["top_k"]
    executor = make_compiler(_model(nodes, runs[0], **constants)).compile(target)
    with pytest.raises(InvalidInput, match='element 0 of "k" is -1, expected a size'):
        executor({"x": X, "k": _ints(-1)})
    with pytest.raises(Unsupported, match="k is 12, expected 0 to 9"):
        executor({"x": X, "k": _ints(12)})
    assert executor({"x": X, "k": _ints(2)})["y"].shape == (4, 2)


@pytest.mark.parametrize(("bound", "message"), [((1, 1, 0), "delta is 0"), ((0, 1 << 62, 1), "elements")])
def test_a_range_without_end_is_refused(bound, message, target):
    nodes, runs, constants = CASES["range_integer"]
    executor = make_compiler(_model(nodes, runs[0], **constants)).compile(target)
    with pytest.raises(InvalidInput, match=message):
        executor(dict(zip("abc", map(np.int64, bound), strict=True)))


def test_a_step_of_zero_is_refused(target):
    nodes, runs, constants = CASES["slice_steps"]
    executor = make_compiler(_model(nodes, runs[0], **constants)).compile(target)
    with pytest.raises(InvalidInput, match="the step of axis 0 is 0"):
        executor({**runs[0], "steps": _ints(1, 0)})


def test_content_is_asked_for_where_a_size_must_be_a_number(target):
    # The aspect ratio is a number of the sizes.
    x = X[None, None]
    node = _node("Resize", "x none none s", mode="nearest", keep_aspect_ratio_policy="not_larger", axes=[2, 3])
    proto = _model([node], {"x": x, "s": _ints(8, 9)}, none=np.zeros(0, np.float32))
    executor = make_compiler(proto).compile(target)
    assert executor({"x": x, "s": _ints(8, 9)})["y"].shape == (1, 1, 4, 9)
    assert executor({"x": x, "s": _ints(2, 9)})["y"].shape == (1, 1, 2, 5)


def test_sizes_that_are_sums_of_others(target):
    """Every program knows the sizes that the sizes of its operands are made of, however deep."""
    nodes = [
        _node("Split", "s", "s0 s1", axis=0, num_outputs=2),
        _node("Slice", "x s0 three one", "p"),
        _node("Slice", "x zero s0 one", "q"),
        _node("Concat", "p q", "r", axis=1),
        _node("Slice", "r s1 five two", "u"),
        _node("Slice", "r zero s1 two", "v"),
        _node("Concat", "u v", "w", axis=2),
        _node("Slice", "w s0 three one", "k"),
        _node("Slice", "w zero s0 one", "l"),
        _node("Concat", "k l", axis=1),
    ]
    x = np.arange(120, dtype=np.float32).reshape(4, 3, 5, 2)
    constants = {"zero": _ints(0), "one": _ints(1), "two": _ints(2), "three": _ints(3), "five": _ints(5)}
    executor = make_compiler(_model(nodes, {"x": x, "s": _ints(1, 2)}, **constants)).compile(target)
    for first, second in ((2, 1), (0, 3), (1, 5)):
        (y,) = executor({"x": x, "s": _ints(first, second)}).values()
        np.testing.assert_array_equal(y, np.roll(x, (-2 * first, -second), (1, 2)))
