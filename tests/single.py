"""Models of one node, run and compared with an oracle: what tests of operators share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from refactor_graph import InvalidModel
from refactor_graph.onnx import make_compiler

from tests import models

Feeds = Mapping[str, Any]


def floats(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Make normal numbers of both signs."""
    return models.generator(seed).standard_normal(shape).astype(dtype)


def model(
    op: str,
    feeds: Feeds,
    *,
    opset: int,
    constants: Sequence[str] = (),
    inputs: Sequence[str] | None = None,
    outputs: int | Sequence[str] = 1,
    domain: str = "",
    **attributes: Any,
) -> onnx.ModelProto:
    """Make a model of one node.

    Parameters
    ----------
    feeds
        The node's inputs in order; those named in `constants` become initializers.
    inputs
        Names of the node's inputs where some are omitted, "" each; by default those of `feeds`.
    outputs
        Their number, or their names where some are omitted.
    """
    names = list(feeds if inputs is None else inputs)
    made = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else list(outputs)
    node = helper.make_node(op, names, made, op.lower(), domain=domain, **attributes)
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype), array.shape)
        for name, array in feeds.items()
        if name not in constants
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in made if name]
    fixed = [numpy_helper.from_array(np.asarray(feeds[name]), name) for name in constants]
    graph = helper.make_graph([node], "single", ports, results, fixed)
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, 1))
    proto = helper.make_model(graph, opset_imports=imports)
    proto.ir_version = 10
    return proto


def run(proto: onnx.ModelProto, feeds: Feeds, **options: Any) -> list[np.ndarray]:
    """Run our executor on those of `feeds` that are inputs of the model."""
    ports = {port.name for port in proto.graph.input}
    executor = make_compiler(proto).compile("cpu", **options)
    outputs = executor({name: np.asarray(array) for name, array in feeds.items() if name in ports})
    return list(outputs.values())


def reference(proto: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """Run `onnx.reference`."""
    ports = {port.name for port in proto.graph.input}
    given = {name: np.asarray(array) for name, array in feeds.items() if name in ports}
    return list(ReferenceEvaluator(proto).run(None, given))


def assert_same(actual: Sequence[np.ndarray], wanted: Sequence[Any], steps: float = 8) -> None:
    """Compare outputs: types and shapes exactly, floats within `steps` roundings of the largest magnitude."""
    assert len(actual) == len(wanted)
    for ours, theirs in zip(actual, wanted, strict=True):
        expected = np.asarray(theirs)
        assert ours.dtype == expected.dtype
        assert ours.shape == expected.shape
        if expected.dtype.kind in "iub":
            np.testing.assert_array_equal(ours, expected)
            continue
        epsilon = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24, "float64": 2**-53}[expected.dtype.name]
        a, b = np.asarray(ours, np.float64), np.asarray(expected, np.float64)
        largest = np.abs(b[np.isfinite(b)]).max(initial=0)
        np.testing.assert_allclose(a, b, rtol=steps * epsilon, atol=steps * epsilon * max(largest, 1e-30))


def check(op: str, feeds: Feeds, *, steps: float = 8, oracle: Any = None, **options: Any) -> list[np.ndarray]:
    """Run one node and compare with `onnx.reference`, or with the arrays in `oracle`."""
    proto = model(op, feeds, **options)
    actual = run(proto, feeds)
    assert_same(actual, reference(proto, feeds) if oracle is None else oracle, steps)
    return actual


def refuse(pattern: str, op: str, feeds: Feeds, kind: type[Exception] = InvalidModel, **options: Any) -> None:
    """Expect that compiling one node fails with a message that `pattern` is found in."""
    with pytest.raises(kind, match=re.compile(pattern, re.S)):
        make_compiler(model(op, feeds, **options))


def compare_with_onnxruntime(op: str, feeds: Feeds, *, steps: float = 16, **options: Any) -> None:
    """Run one node and compare with onnxruntime."""
    proto = model(op, feeds, **options)
    ports = {port.name for port in proto.graph.input}
    wanted = models.expected(proto, {name: array for name, array in feeds.items() if name in ports})
    assert_same(run(proto, feeds), wanted, steps)


def positional(
    op: str,
    arrays: Sequence[Any],
    *,
    constants: Sequence[int] = (),
    symbolic: bool = False,
    **options: Any,
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Make a model of one node whose inputs are given by number, and what to feed it.

    Parameters
    ----------
    arrays
        The node's inputs in order, None where one is omitted.
    constants
        Numbers of the inputs that become initializers.
    symbolic
        Leave the sizes of the other inputs open.
    options
        Those of `model`.
    """
    feeds = {f"x{i}": np.asarray(array) for i, array in enumerate(arrays) if array is not None}
    names = ["" if array is None else f"x{i}" for i, array in enumerate(arrays)]
    proto = model(op, feeds, inputs=names, constants=[names[i] for i in constants], **options)
    if symbolic:
        for port in proto.graph.input:
            for i, size in enumerate(port.type.tensor_type.shape.dim):
                size.dim_param = f"{port.name}_{i}"
    ports = {port.name for port in proto.graph.input}
    return proto, {name: array for name, array in feeds.items() if name in ports}


def assert_close(actual: Any, wanted: Any, relative: float, absolute: float) -> None:
    """Compare type, shape and values; differences of 16-bit floats are taken in double."""
    assert actual.dtype == wanted.dtype
    assert actual.shape == wanted.shape
    if actual.dtype.itemsize == 2:
        actual, wanted = actual.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(actual, wanted, rtol=relative, atol=absolute)
