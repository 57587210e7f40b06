"""Models of one ai.onnx.ml node, and random trees: what the tests of that domain share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, TypeProto, helper
from refactor_graph.onnx import make_compiler

Feeds = Mapping[str, Any]


def _map_type(value: Mapping[Any, Any]) -> TypeProto:
    key, element = next(iter(value.items()))
    proto = TypeProto()
    proto.map_type.key_type = TensorProto.STRING if isinstance(key, str) else TensorProto.INT64
    kinds = {str: TensorProto.STRING, int: TensorProto.INT64, float: TensorProto.FLOAT}
    proto.map_type.value_type.tensor_type.elem_type = kinds[type(element)]
    return proto


def _port(name: str, value: Any, symbolic: bool) -> onnx.ValueInfoProto:
    if isinstance(value, Mapping):
        return helper.make_value_info(name, _map_type(value))
    array = np.asarray(value)
    text = array.dtype.kind in "OU"
    dtype = TensorProto.STRING if text else helper.np_dtype_to_tensor_dtype(array.dtype)
    sizes = [f"{name}{i}" if symbolic else size for i, size in enumerate(array.shape)]
    return helper.make_tensor_value_info(name, dtype, sizes)


def model(
    op: str, feeds: Feeds, *, version: int = 1, outputs: int = 1, symbolic: bool = False, **attributes: Any
) -> onnx.ModelProto:
    """Make a model of one node; `symbolic` leaves the sizes of its inputs open."""
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, list(feeds), names, domain="ai.onnx.ml", **attributes)
    ports = [_port(name, value, symbolic) for name, value in feeds.items()]
    graph = helper.make_graph([node], "single", ports, [helper.make_empty_tensor_value_info(name) for name in names])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def run(proto: onnx.ModelProto, feeds: Feeds, **options: Any) -> list[Any]:
    """Run our executor."""
    return list(make_compiler(proto).compile("cpu", **options)(dict(feeds)).values())


def onnxruntime_results(proto: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    """Run onnxruntime on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def assert_equal(actual: Any, wanted: Any, relative: float = 0, absolute: float = 0) -> None:
    """Compare tensors, text, lists and maps; floats within a tolerance."""
    if isinstance(wanted, list):
        assert len(actual) == len(wanted)
        for ours, theirs in zip(actual, wanted, strict=True):
            assert_equal(ours, theirs, relative, absolute)
        return
    if isinstance(wanted, Mapping):
        assert actual.keys() == wanted.keys()
        np.testing.assert_allclose([actual[key] for key in wanted], list(wanted.values()), relative, absolute)
        return
    assert actual.shape == wanted.shape
    if wanted.dtype.kind in "OU":
        assert actual.tolist() == wanted.tolist()
        return
    assert actual.dtype == wanted.dtype
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(actual, wanted, relative, absolute)
    else:
        np.testing.assert_array_equal(actual, wanted)


def compare(
    op: str,
    feeds: Feeds,
    *,
    relative: float = 2e-6,
    absolute: float = 1e-6,
    version: int = 1,
    outputs: int = 1,
    **attributes: Any,
) -> list[Any]:
    """Run one node, with fixed and with open sizes, and compare with onnxruntime."""
    proto = model(op, feeds, version=version, outputs=outputs, **attributes)
    wanted = onnxruntime_results(proto, feeds)
    actual = run(proto, feeds)
    assert_equal(actual, wanted, relative, absolute)
    open_sizes = model(op, feeds, version=version, outputs=outputs, symbolic=True, **attributes)
    assert_equal(run(open_sizes, feeds, num_threads=3), wanted, relative, absolute)
    return actual


def random_trees(
    random: np.random.Generator,
    *,
    trees: int,
    depth: int,
    features: int,
    modes: list[str],
    missing: bool = False,
    values: np.ndarray | None = None,
) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Make attributes nodes_* of random trees, and the leaves as pairs of tree and node.

    Parameters
    ----------
    values
        What splits are drawn from, so that rows hit them exactly; by default normal numbers.
    """
    names = ["treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids"]
    nodes: dict[str, Any] = {f"nodes_{name}": [] for name in names}
    leaves: list[tuple[int, int]] = []
    if missing:
        nodes["nodes_missing_value_tracks_true"] = []
    for tree in range(trees):
        queue, used = [(0, 0)], 1
        while queue:
            node, level = queue.pop(0)
            leaf = level == depth or (level > 0 and random.random() < 0.2)
            split = random.choice(values) if values is not None else random.standard_normal()
            row = [tree, node, int(random.integers(features)), float(np.float32(split)), str(random.choice(modes))]
            row += [0, 0] if leaf else [used, used + 1]
            if leaf:
                row[2:5] = [0, 0.0, "LEAF"]
                leaves.append((tree, node))
            else:
                queue += [(used, level + 1), (used + 1, level + 1)]
                used += 2
            for name, item in zip(names, row, strict=True):
                nodes[f"nodes_{name}"].append(item)
            if missing:
                nodes["nodes_missing_value_tracks_true"].append(0 if leaf else int(random.integers(2)))
    return nodes, leaves


def weights(prefix: str, rows: list[tuple[tuple[int, int], int, float]]) -> dict[str, Any]:
    """Make attributes class_* or target_* of (leaf, class or target, weight)."""
    return {
        f"{prefix}_treeids": [leaf[0] for leaf, _, _ in rows],
        f"{prefix}_nodeids": [leaf[1] for leaf, _, _ in rows],
        f"{prefix}_ids": [target for _, target, _ in rows],
        f"{prefix}_weights": [float(weight) for _, _, weight in rows],
    }
