"""Graphs under construction: nodes, and the value of every tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.oracle import NodeFailure, evaluate_node, reads, type_of

Array = np.ndarray[Any, Any]

MAX_ELEMENTS = 4096
"""Of most tensors: `onnx.reference` is slow."""

NETWORK_ELEMENTS = 1 << 19
"""Of tensors of the graphs that are whole networks."""

FLOATS = tuple(np.dtype(name) for name in ("float32", "float64", "float16", ml_dtypes.bfloat16))
INTEGERS = tuple(np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64))
BOOL = np.dtype(bool)
TYPES = (*FLOATS, *INTEGERS, BOOL)
SMALL = {
    **{np.dtype(getattr(ml_dtypes, f"float8_{name}")): 19 for name in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")},
    **{np.dtype(ml_dtypes.int4): 21, np.dtype(ml_dtypes.uint4): 21, np.dtype(ml_dtypes.float4_e2m1fn): 23},
    **{np.dtype(ml_dtypes.int2): 25, np.dtype(ml_dtypes.uint2): 25},
}
"""Types that only move and convert, with their first opset."""
F32, I64 = FLOATS[0], np.dtype(np.int64)
TEXT = np.dtype(object)

_WEIGHTS = {np.dtype(np.float32): 12.0, np.dtype(np.int64): 3.0, np.dtype(np.int32): 2.0, np.dtype(np.float64): 2.0}


class Reject(Exception):  # noqa: N818 (it is no error)
    """What was tried makes no legal node; nothing was added."""


@dataclass
class Graph:
    """A legal graph.

    Attributes
    ----------
    opset
        Version of the default domain.
    nodes
        In an order in which they can run.
    values
        Value of every tensor.
    constants, inputs
        Names of the tensors that no node makes.
    outputs
        Names of the graph's outputs.
    symbolic
        Whether the sizes of the inputs are declared as symbols.
    fixed
        Inputs and their axes that are declared as numbers all the same.
    shared
        Whether axes of one size have one symbol.
    """

    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    constants: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    symbolic: bool = False
    fixed: frozenset[tuple[str, int]] = frozenset()
    shared: bool = False

    def feeds(self) -> dict[str, Array]:
        """Return the values of the inputs."""
        return {name: self.values[name] for name in self.inputs}

    def model(self) -> onnx.ModelProto:
        """Return the model."""

        def port(name: str, symbolic: bool) -> onnx.ValueInfoProto:
            info = helper.make_value_info(name, type_of(self.values[name]))
            for axis, dim in enumerate(info.type.tensor_type.shape.dim if symbolic else ()):
                if (name, axis) not in self.fixed:
                    dim.dim_param = f"s{dim.dim_value}" if self.shared else f"{name}_{axis}"
            return info

        outputs = [port(name, False) for name in self.outputs]
        if self.symbolic:
            for output in outputs:
                output.ClearField("type")
        graph = helper.make_graph(
            self.nodes,
            "fuzz",
            [port(name, self.symbolic) for name in self.inputs],
            outputs,
            [numpy_helper.from_array(self.values[name], name) for name in self.constants],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        if any(node.domain == "com.microsoft" for node in self.nodes):
            opsets.append(helper.make_opsetid("com.microsoft", 1))
        ir_version = max(8, helper.find_min_ir_version_for(opsets, ignore_unknown=True))
        return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)

    def part(self, outputs: list[str], nodes: list[onnx.NodeProto] | None = None) -> Graph:
        """Return what makes some of the tensors; with `nodes`, of these alone, what others make becoming inputs."""
        chosen = list(self.nodes if nodes is None else nodes)
        made = {name for node in chosen for name in node.output}
        used = {name for node in chosen for name in reads(node)}
        inputs = [
            *self.inputs,
            *(n for n in self.values if n in used - made and n not in (*self.inputs, *self.constants)),
        ]
        found = replace(self, nodes=chosen, constants=list(self.constants), inputs=inputs, outputs=outputs)
        found.prune()
        return found

    def prune(self) -> None:
        """Drop nodes and leaves that no output needs."""
        needed, kept = set(self.outputs), []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                kept.append(node)
                needed |= reads(node)
        self.nodes = kept[::-1]
        self.constants = [name for name in self.constants if name in needed]
        self.inputs = [name for name in self.inputs if name in needed]

    def describe(self) -> str:
        """Return the graph as text, with the values of small tensors."""
        lines = [f"opset {self.opset}{', symbolic sizes' if self.symbolic else ''}{', shared' if self.shared else ''}"]
        for kind, names in (("input", self.inputs), ("constant", self.constants)):
            for name in names:
                array = self.values[name]
                content = f" = {array.tolist()}" if array.size <= 12 else ""
                numbers = [axis for item, axis in sorted(self.fixed) if item == name and self.symbolic]
                content += f", axes {numbers} fixed" if numbers else ""
                lines.append(f"  {kind} {name}: {array.dtype}{list(array.shape)}{content}")
        for node in self.nodes:
            attributes = ", ".join(_text_of(item) for item in node.attribute)
            lines.append(f"  {', '.join(node.output)} = {node.op_type}({', '.join(node.input)}) {attributes}".rstrip())
        return "\n".join([*lines, f"  outputs {', '.join(self.outputs)}"])


def _text_of(attribute: onnx.AttributeProto) -> str:
    value = helper.get_attribute_value(attribute)
    text = onnx.printer.to_text(value) if isinstance(value, onnx.GraphProto) else repr(value)
    return f"{attribute.name}={text}"


@lru_cache(maxsize=4096)
def schema(op: str, opset: int) -> Any:
    """Return the definition of an operator, or None if the opset has none."""
    try:
        found = onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        return None
    return None if found.deprecated else found


@lru_cache(maxsize=4096)
def allowed_types(op: str, opset: int, index: int) -> tuple[np.dtype[Any], ...]:
    """Return the element types that an input of an operator may have, of those that are generated."""
    found = schema(op, opset)
    if found is None:
        raise Reject(f"{op} is not in opset {opset}")
    formal = found.inputs[min(index, len(found.inputs) - 1)]
    texts = {
        text
        for item in found.type_constraints
        if item.type_param_str == formal.type_str
        for text in item.allowed_type_strs
    }
    texts = texts or {formal.type_str}
    names = {f"tensor({_onnx_name(dtype)})": dtype for dtype in TYPES}
    return tuple(dtype for text, dtype in names.items() if text in texts)


def _onnx_name(dtype: np.dtype[Any]) -> str:
    return str(TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(dtype))).lower()


def _result_type(
    op: str, opset: int, index: int, node: onnx.NodeProto, values: dict[str, Array], fallback: np.dtype[Any]
) -> np.dtype[Any]:
    """Return the type of an output that is bound to that of an input; `fallback` if it is not."""
    found = schema(op, opset)
    if found is None:
        raise Reject(f"{op} is not in opset {opset}")
    formal = found.outputs[min(index, len(found.outputs) - 1)]
    for place, name in enumerate(node.input):
        if name and found.inputs[min(place, len(found.inputs) - 1)].type_str == formal.type_str:
            return values[name].dtype
    return fallback


class Draft:
    """A graph that grows, and the dice."""

    def __init__(self, random: np.random.Generator, opset: int, *, is_network: bool = False) -> None:
        self.random = random
        self.graph = Graph(opset)
        self.opset = opset
        self.special = self.chance(0.1)
        """Whether infinities, NaN and the like occur; no denormals, which a run flushes to zero."""
        self.limit = MAX_ELEMENTS * (8 if self.chance(0.05) else 1)
        """Elements of a tensor; now and then enough for threads to share."""
        self.real = F32
        """Type of the weights and results of networks."""
        if is_network:
            self.limit, self.special = NETWORK_ELEMENTS, False
            self.real = np.dtype(np.float16) if self.chance(0.25) else F32

    # ------------------------------------------------------------------ dice
    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return bool(self.random.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`, both included."""
        return int(self.random.integers(low, high + 1))

    def choice(self, items: Sequence[Any]) -> Any:
        """Return one of the items."""
        if not len(items):
            raise Reject("nothing to choose from")
        return items[int(self.random.integers(len(items)))]

    def shape(self, low: int = 0, high: int = 4, largest: int = 7) -> tuple[int, ...]:
        """Return a shape of rank `low` to `high`; sizes are odd more often than not, rarely 1, very rarely 0."""
        sizes = []
        for _ in range(self.integer(low, high)):
            size = self.integer(1, largest if self.limit == MAX_ELEMENTS else 4 * largest)
            sizes.append(0 if self.chance(0.004) else size)
        return tuple(sizes)

    def dtype(self, types: Iterable[np.dtype[Any]] = TYPES) -> np.dtype[Any]:
        """Return one of the types, common ones more often."""
        listed = list(types)
        if not listed:
            raise Reject("no type is possible")
        weights = np.array([_WEIGHTS.get(item, 1.0) for item in listed])
        return listed[int(self.random.choice(len(listed), p=weights / weights.sum()))]

    def array(self, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
        """Return random signed numbers, with special ones among them now and then."""
        shape = tuple(shape)
        if dtype == BOOL:
            return self.random.random(shape) < 0.5
        if dtype in INTEGERS:
            low = 0 if dtype.kind == "u" else -9
            found = self.random.integers(low, 10, shape)
            return np.asarray(found).astype(dtype)
        scale = self.choice([0.5, 1.0, 1.0, 3.0])
        array = np.asarray(self.random.standard_normal(shape) * scale)
        if self.special and array.size and self.chance(0.3):
            special = self.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e4, 1e-30])
            array.reshape(-1)[self.integer(0, array.size - 1)] = special
        with np.errstate(all="ignore"):
            return array.astype(dtype)

    # ------------------------------------------------------------------ tensors
    def value(self, name: str) -> Array:
        """Return the value of a tensor."""
        return self.graph.values[name]

    def leaf(self, array: Array, *, constant: bool | None = None) -> str:
        """Add a tensor that no node makes."""
        if array.size > self.limit:
            raise Reject("too large")
        constant = self.chance(0.3) if constant is None else constant
        names = self.graph.constants if constant else self.graph.inputs
        name = f"{'c' if constant else 'x'}{len(names)}"
        names.append(name)
        self.graph.values[name] = np.ascontiguousarray(array).reshape(array.shape)
        return name

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Add an initializer, or now and then an input: sizes and axes that are given at run time."""
        return self.leaf(np.asarray(values, dtype), constant=True)

    def new(self, dtype: np.dtype[Any], shape: Sequence[int], constant: bool | None = None) -> str:
        """Add a tensor of random values."""
        return self.leaf(self.array(dtype, shape), constant=constant)

    def finite(self, dtype: np.dtype[Any], shape: Sequence[int], constant: bool | None = None) -> str:
        """Add weights: zeros, as padding and first states are, are multiplied with them, or left out."""
        array = self.array(dtype, shape)
        if not np.isfinite(array).all():
            raise Reject("not finite")
        return self.leaf(array, constant=constant)

    def pick(
        self,
        types: Iterable[np.dtype[Any]] = TYPES,
        ranks: tuple[int, int] = (0, 5),
        where: Callable[[Array], bool] = lambda array: True,
    ) -> str:
        """Return a tensor that is there, or a new one, of one of the types and of a rank in the range."""
        types = tuple(types)
        fitting = [
            name
            for name, array in self.graph.values.items()
            if isinstance(array, np.ndarray)
            and array.dtype in types
            and ranks[0] <= array.ndim <= ranks[1]
            and where(array)
        ]
        if fitting and self.chance(0.8):
            # Late tensors more often: chains are what passes work on.
            return fitting[max(self.integer(0, len(fitting) - 1), self.integer(0, len(fitting) - 1))]
        array = self.array(self.dtype(types), self.shape(ranks[0], max(ranks[0], min(ranks[1], 4))))
        if not where(array):
            raise Reject("no tensor fits")
        return self.leaf(array)

    def partner(self, name: str, dtype: np.dtype[Any] | None = None) -> str:
        """Return a tensor that broadcasts with `name`."""
        array = self.value(name)
        dtype = array.dtype if dtype is None else dtype

        def fits(other: Array) -> bool:
            try:
                shape = np.broadcast_shapes(other.shape, array.shape)
            except ValueError:
                return False
            return bool(np.prod(shape) <= self.limit)

        arrays = [(n, other) for n, other in self.graph.values.items() if isinstance(other, np.ndarray)]
        found = [n for n, other in arrays if other.dtype == dtype and fits(other)]
        if found and self.chance(0.5):
            return str(self.choice(found))
        shape = [1 if self.chance(0.3) else size for size in array.shape]
        return self.new(dtype, shape[self.integer(0, len(shape)) if self.chance(0.4) else 0 :])

    def axis(self, rank: int) -> int:
        """Return an axis, possibly counted from the end."""
        if rank == 0:
            raise Reject("a scalar has no axis")
        return self.integer(-rank, rank - 1)

    def axes(self, rank: int, least: int = 0) -> list[int]:
        """Return distinct axes, some counted from the end."""
        count = self.integer(min(least, rank), rank)
        found = self.random.permutation(rank)[:count]
        return [int(axis) - (rank if self.chance(0.3) else 0) for axis in found]

    # ------------------------------------------------------------------ nodes
    def add(self, op: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", **attributes: Any) -> list[str]:
        """Add a node and return its outputs.

        Raises
        ------
        Reject
            If `onnx.reference` cannot compute it, or its results are too large.
        """
        names = [f"t{len(self.graph.nodes)}" + ("" if i == 0 else f"_{i}") for i in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        node = helper.make_node(op, list(inputs), names, f"n{len(self.graph.nodes)}", domain=domain, **given)
        try:
            made = evaluate_node(node, self.opset, self.graph.values)
        except NodeFailure as failure:
            raise Reject(str(failure)) from None
        for index, array in enumerate(made):
            if isinstance(array, list):
                continue
            if domain == "" and array.dtype != _result_type(
                op, self.opset, index, node, self.graph.values, array.dtype
            ):
                raise Reject("onnx.reference returns another type")
            if (
                not isinstance(array, np.ndarray)
                or array.size > self.limit
                or array.dtype not in (*TYPES, *SMALL, TEXT)
            ):
                raise Reject("no result that can go on")
        self.graph.nodes.append(node)
        self.graph.values |= dict(zip(names, made, strict=True))
        return names
