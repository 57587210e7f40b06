"""What is right: `onnx.reference` node by node, onnxruntime as a whole, and how far results may differ."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]

_EPS = {
    np.dtype(np.float64): 2.0**-52,
    np.dtype(np.float32): 2.0**-23,
    np.dtype(np.float16): 2.0**-10,
    np.dtype(ml_dtypes.bfloat16): 2.0**-7,
}


_ROUNDED = frozenset(_EPS) - {np.dtype(np.float64)}
"""Types whose tensors a lower precision rounds."""


_SINGLE = frozenset({"Erf", "Gelu", "HardSwish"})
"""Operators that the oracles compute with constants or tables of single precision, whatever the type."""


_BY_ONNXRUNTIME = frozenset(
    {
        *("AveragePool", "BatchNormalization", "ConvTranspose", "GlobalMaxPool", "Hardmax", "LRN", "Loop"),
        *(
            "LpNormalization",
            "LpPool",
            "MaxPool",
            "QLinearConv",
            "QLinearMatMul",
            "RoiAlign",
            "StringNormalizer",
            "TfIdfVectorizer",
        ),
    }
)
"""Operators that onnxruntime computes in the place of `onnx.reference`, which is wrong for some of their attributes."""

_SLOW = 1 << 15
"""Elements of an operand from which `onnx.reference` takes too long: onnxruntime computes the node."""

_CONVOLUTIONS = frozenset({"Conv", "FusedConv"})
_CANCELLING = _CONVOLUTIONS | {"BlackmanWindow", "ConvTranspose", "HammingWindow", "HannWindow", "Resize"}
"""Operators whose sums have larger terms than results: Winograd's transforms, cubic weights, cosines."""


@dataclass(frozen=True)
class Rounding:
    """Errors of a lower precision.

    Attributes
    ----------
    unit
        Of an error.
    of_largest
        Whether errors are relative to the largest element of a tensor, as where elements share a scale; else to each.
    readers
        Operators whose operands are rounded; all tensors if there are none.
    """

    unit: float
    of_largest: bool = False
    readers: frozenset[str] = frozenset()

    def disturbed(self, array: Array, random: np.random.Generator) -> Array:
        """Return `array` with errors, if its type is one that is rounded."""
        if isinstance(array, list) or array.dtype not in _ROUNDED:
            return array
        with np.errstate(all="ignore"):
            wide = np.abs(array.astype(np.float64))
            scale = (
                wide[np.isfinite(wide)].max(initial=0.0) if self.of_largest else np.where(np.isfinite(wide), wide, 0)
            )
            return np.asarray(array + self.unit * scale * random.uniform(-1, 1, array.shape)).astype(array.dtype)


class NodeFailure(Exception):  # noqa: N818 (it is no error of the fuzzer)
    """`onnx.reference` cannot compute a node."""

    output = ""
    """First output of the node, if it is one of a graph."""


def reads(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, those that its sub-graphs capture too."""
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            own = {port.name for port in attribute.g.input} | {item.name for item in attribute.g.initializer}
            own |= {name for item in attribute.g.node for name in item.output}
            found |= {name for item in attribute.g.node for name in reads(item)} - own
    return found - {""}


def type_of(value: Any) -> onnx.TypeProto:
    """Return the ONNX type of an array or a list of arrays."""
    if isinstance(value, list):
        element = type_of(value[0]).tensor_type.elem_type if value else onnx.TensorProto.FLOAT
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element, None))
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def evaluate_node(node: onnx.NodeProto, opset: int, values: Mapping[str, Any]) -> list[Any]:
    """Compute one node.

    Parameters
    ----------
    node
        The node.
    opset
        Version of the default domain.
    values
        Everything that the node reads, and more.

    Raises
    ------
    NodeFailure
        With the reason.
    """
    feeds = {name: values[name] for name in sorted(reads(node))}
    ports = [helper.make_value_info(name, type_of(value)) for name, value in feeds.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "node", ports, outputs)
    opsets = [helper.make_opsetid("", opset)]
    if node.domain:
        opsets.append(helper.make_opsetid(node.domain, 1))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    is_large = any(np.size(value) > _SLOW for value in feeds.values() if isinstance(value, np.ndarray))
    by_onnxruntime = node.op_type in _BY_ONNXRUNTIME or node.domain == "com.microsoft"
    if by_onnxruntime or is_large:
        results = run_onnxruntime(model, feeds)
        if isinstance(results, list):
            return results
        if by_onnxruntime:
            raise NodeFailure(results)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            made = ReferenceEvaluator(model).run(None, feeds)
    except Exception as error:
        raise NodeFailure(f"{type(error).__name__}: {error}") from None
    if node.op_type == "Optional" and isinstance(made[0], list) and not isinstance(feeds[node.input[0]], list):
        made = made[0]  # what it holds, in brackets
    return [value if isinstance(value, list) else _plain(np.asarray(value)) for value in made]


def _plain(array: Array) -> Array:
    """Return text as objects, whatever its length; everything else as it is."""
    return array.astype(object) if array.dtype.kind in "UTS" else array


def _scales(graph: Any) -> set[str]:
    """Return the names of scales of sizes."""
    return {name for node in graph.nodes if node.op_type in ("Resize", "Upsample") for name in node.input[1:]}


def evaluate(graph: Any, random: np.random.Generator | None = None) -> dict[str, Array]:
    """Compute all tensors of a graph; with `random`, floats that are no scales of sizes are disturbed by a few units.

    Raises
    ------
    NodeFailure
        If a node cannot be computed (for a disturbed index, say).
    """
    scales = _scales(graph)
    values = {
        name: _disturbed(graph.values[name], None if name in scales else random)
        for name in (*graph.inputs, *graph.constants)
    }
    for node in graph.nodes:
        try:
            made = evaluate_node(node, graph.opset, values)
        except NodeFailure as failure:
            failure.output = node.output[0]
            raise
        least = _EPS[np.dtype(np.float32)] if node.op_type in _SINGLE else 0.0
        for name, array in zip(node.output, made, strict=True):
            values[name] = _disturbed(array, random, least, _cancellation(node, values))
    return values


def evaluate_rounded(graph: Any, random: np.random.Generator, rounding: Rounding) -> dict[str, Array]:
    """Compute all tensors of a graph with the errors of a lower precision.

    Raises
    ------
    NodeFailure
        If a node cannot be computed.
    """
    exact = _scales(graph)
    if rounding.readers:
        read = {name for node in graph.nodes if node.op_type in rounding.readers for name in node.input}
        exact |= graph.values.keys() - read

    def disturbed(name: str, array: Array) -> Array:
        return array if name in exact else rounding.disturbed(array, random)

    values = {name: disturbed(name, graph.values[name]) for name in (*graph.inputs, *graph.constants)}
    for node in graph.nodes:
        for name, array in zip(node.output, evaluate_node(node, graph.opset, values), strict=True):
            values[name] = disturbed(name, array)
    return values


def _cancellation(node: onnx.NodeProto, values: Mapping[str, Any]) -> float:
    """Return how much larger than the largest result the terms are that cancel each other; 0 if none do.

    The magnitudes of n terms of either sign add up to about sqrt(n) times their sum, and what Winograd's transforms
    round is relative to the former. The 4 units by which everything is disturbed cover n = 16.
    """
    if node.op_type not in _CANCELLING:
        return 0.0
    terms = np.prod(np.shape(values[node.input[1]])[1:]) if node.op_type in _CONVOLUTIONS else 1
    return max(1.0, float(np.sqrt(terms)) / 4)


def _disturbed(array: Array, random: np.random.Generator | None, least: float = 0.0, cancelling: float = 0.0) -> Array:
    """Return `array` with errors as another order of summation would make: up to 4 eps, 1 eps of 16-bit types.

    Parameters
    ----------
    array
        Any tensor; only floats are changed.
    random
        None: nothing is changed.
    least
        A larger eps.
    cancelling
        If not 0, errors are relative to so many times the largest element of the tensor.
    """
    eps = None if isinstance(array, list) else _EPS.get(array.dtype)
    if random is None or eps is None:
        return array
    size = max(4 * eps if array.dtype.itemsize > 2 else eps, 4 * least)
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        largest = np.abs(wide[np.isfinite(wide)]).max(initial=0.0)
        scale = cancelling * largest if cancelling else np.abs(wide)
        return np.asarray(wide + size * scale * random.uniform(-1, 1, array.shape)).astype(array.dtype)


def difference(actual: Any, wanted: Array, disturbed: Sequence[Array], *, finite_only: bool = False) -> str | None:
    """Return how a result differs from what is wanted by more than rounding explains; None if it does not.

    The tolerance is 8 times what disturbing every tensor by a few units in the last place changes here or in most
    elements, and 32 units in the last place of the result: enough for any order of summation, too little for a wrong
    element. With `finite_only` elements that should be infinite or NaN do not count.
    """
    if isinstance(wanted, list) and isinstance(actual, list) and len(actual) == len(wanted):
        parts = [
            difference(a, w, [d[i] for d in disturbed]) for i, (a, w) in enumerate(zip(actual, wanted, strict=True))
        ]
        return next((f"[{i}] {text}" for i, text in enumerate(parts) if text), None)
    if not isinstance(actual, np.ndarray) or isinstance(wanted, list):
        if isinstance(actual, list) and isinstance(wanted, list):
            return f"{len(actual)} instead of {len(wanted)} elements"
        return f"{type(actual).__name__} instead of an array"
    if actual.dtype != wanted.dtype or actual.shape != wanted.shape:
        return f"{actual.dtype}{list(actual.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    if wanted.size == 0:
        return None
    eps = _EPS.get(wanted.dtype)
    if eps is None and wanted.dtype.name.startswith("float"):  # of 8 or 4 bits: exact, and NaN is like NaN
        return difference(
            actual.astype(np.float32), wanted.astype(np.float32), [v.astype(np.float32) for v in disturbed]
        )
    if eps is None:
        free = np.zeros(wanted.shape, bool)
        for other in disturbed:
            free |= (other != wanted) if other.shape == wanted.shape else True
        wrong = (actual != wanted) & ~free
        return worst(actual, wanted, wrong)
    with np.errstate(all="ignore"):
        mine, right = actual.astype(np.float64), wanted.astype(np.float64)
        noise = np.zeros(wanted.shape)
        for other in disturbed:
            moved = other.astype(np.float64) if other.shape == wanted.shape else np.full(wanted.shape, np.nan)
            # Where disturbing changes what is finite, anything is right.
            change = np.where(np.isfinite(moved) == np.isfinite(right), np.abs(moved - right), np.inf)
            noise = np.maximum(noise, np.where(np.isfinite(right), change, np.where(change == np.inf, np.inf, 0)))
        finite = noise[np.isfinite(noise)]
        usual = float(np.quantile(finite, 0.9)) if finite.size else 0.0
        scale = max(float(np.abs(right[np.isfinite(right)]).max(initial=0.0)), 0.0)
        tolerance = 8 * np.maximum(noise, usual) + 32 * eps * np.abs(right) + eps * scale + 1e-37
        # Sums of infinities are infinite or NaN, depending on their order.
        same = (mine == right) | (~np.isfinite(mine) & ~np.isfinite(right)) | (np.abs(mine - right) <= tolerance)
        ignored = ~np.isfinite(right) if finite_only else np.zeros(right.shape, bool)
        return worst(actual, wanted, ~(same | np.isinf(noise) | ignored))


def worst(actual: Array, wanted: Array, wrong: Array) -> str | None:
    """Return where results are wrong; None if they are nowhere."""
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {wrong.size} elements differ, first at {list(at)}: {actual[at]} instead of {wanted[at]}"
    )


def run_onnxruntime(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Any] | str:
    """Return onnxruntime's results, or why there are none."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.inter_op_num_threads = 4, 1, 1
    names = [port.name for port in model.graph.output]
    try:
        data = model.SerializeToString()
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        wanted = {port.name for port in session.get_inputs()}
        given = {name: array for name, array in feeds.items() if name in wanted}
        return list(session.run(names, given))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
