"""Function bodies for operators that neither the core nor ONNX knows: what they need to be written and looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, helper, numpy_helper

from refactor_graph._errors import InvalidModel, Unsupported
from refactor_graph._functions import label

END = 2**62
"""End of a slice that goes to the end of its axis."""

TypeOf = Callable[[str], TypeProto]
"""Type of a value of the model by its name; an empty one if it is not known."""

_OPSET = 21
"""Version of ONNX's own operator set that bodies are written in, whichever the model imports."""


class Body:
    """One call of an operator, and the nodes that replace it.

    Attributes
    ----------
    attributes
        Values by name, with the defaults of the operator.
    """

    def __init__(self, node: NodeProto, defaults: Mapping[str, Any], type_of: TypeOf) -> None:
        given = {item.name: _plain(helper.get_attribute_value(item)) for item in node.attribute}
        self.attributes = {**defaults, **given}
        self._type_of = type_of
        self._call = node
        self._nodes: list[NodeProto] = []

    def has(self, index: int) -> bool:
        """Return whether input `index` is given."""
        return index < len(self._call.input) and bool(self._call.input[index])

    def asks(self, index: int) -> bool:
        """Return whether output `index` is wanted."""
        return index < len(self._call.output) and bool(self._call.output[index])

    def input(self, index: int) -> str:
        """Name of an input; "" if it is omitted."""
        return f"x{index}" if self.has(index) else ""

    def inputs(self, *indices: int) -> list[str]:
        """Names of inputs in this order; of all if there are no numbers."""
        return [self.input(index) for index in indices or range(len(self._call.input))]

    def rank(self, index: int) -> int:
        """Return the rank of an input.

        Raises
        ------
        Unsupported
            If it is not known.
        """
        kind = self._type_of(self._call.input[index]).tensor_type
        if not kind.HasField("shape"):
            raise Unsupported(f"input {index} of unknown rank")
        return len(kind.shape.dim)

    def sizes(self, index: int) -> list[int | None] | None:
        """Return the sizes of an input, None for those that a run decides; None if the rank is not known."""
        kind = self._type_of(self._call.input[index]).tensor_type if self.has(index) else None
        if kind is None or not kind.HasField("shape"):
            return None
        return [size.dim_value if size.HasField("dim_value") else None for size in kind.shape.dim]

    def expect(self, holds: bool, *reason: Any) -> None:
        """Refuse the call, with a reason in pieces, unless a condition holds.

        Raises
        ------
        InvalidModel
            If it does not.
        """
        if not holds:
            raise InvalidModel(f"{label(self._call)}: {''.join(map(str, reason))}")

    def dtype(self, index: int) -> int:
        """Return the code of the element type of an input.

        Raises
        ------
        Unsupported
            If it is not known.
        """
        code = self._type_of(self._call.input[index]).tensor_type.elem_type
        if not code:
            raise Unsupported(f"input {index} of unknown type")
        return int(code)

    def add(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Append a node and return the name of its output, or a list of them; attributes that are None are left out."""
        names = [f"v{len(self._nodes)}.{index}" for index in range(outputs)]
        given = {name: value for name, value in attributes.items() if value is not None}
        self._nodes.append(helper.make_node(op, inputs, names, domain=domain, **given))
        return names[0] if outputs == 1 else names

    def contrib(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Append a node of com.microsoft; see `add`."""
        return self.add(op, *inputs, outputs=outputs, domain="com.microsoft", **attributes)

    def give(self, index: int, value: str) -> None:
        """Make `value` output `index`."""
        if self.asks(index):
            self._nodes.append(helper.make_node("Identity", [value], [f"y{index}"]))

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """Append a constant."""
        name: str = self.add("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))
        return name

    def reduce(self, op: str, x: str, axes: list[int], keepdims: int = 1) -> str:
        """Append a reduction."""
        return str(self.add(op, x, self.constant(axes), keepdims=keepdims))

    def unsqueeze(self, x: str, *axes: int) -> str:
        """Append an Unsqueeze."""
        return str(self.add("Unsqueeze", x, self.constant(axes)))

    def split(self, x: str, parts: int, axis: int) -> list[str]:
        """Append a Split into equal parts."""
        return list(self.add("Split", x, outputs=parts, axis=axis, num_outputs=parts))

    def part(self, x: str, axis: int, first: int | str, last: int | str) -> str:
        """Append a slice along one axis; ends are numbers or names of vectors of one number."""
        ends = [end if isinstance(end, str) else self.constant([end]) for end in (first, last)]
        return str(self.add("Slice", x, *ends, self.constant([axis])))

    def size(self, x: str, axis: int) -> str:
        """Append what computes a size, as a vector of one number."""
        return self.part(self.add("Shape", x), 0, axis, END if axis == -1 else axis + 1)

    def function(self) -> FunctionProto:
        """Return everything as a function."""
        imports = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
        inputs = [f"x{index}" for index in range(len(self._call.input))]
        outputs = [f"y{index}" for index in range(len(self._call.output))]
        return helper.make_function("com.microsoft", self._call.op_type, inputs, outputs, self._nodes, imports)


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


_KINDS: dict[type, int] = {int: AttributeProto.INT, float: AttributeProto.FLOAT, str: AttributeProto.STRING}


@dataclass(frozen=True)
class BodyOp:
    """An operator of com.microsoft that is replaced by others.

    Attributes
    ----------
    inputs, outputs
        Fewest and most.
    options
        Attributes: a default value, or a type if there is none; ``[int]``, ``[float]`` and ``[str]`` are lists, without
        a default. Those in `required` must be given.
    write
        Appends the nodes; raises `Unsupported` with the reason if it cannot.
    """

    name: str
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    options: Mapping[str, Any]
    write: Callable[[Body], None]
    required: frozenset[str] = field(default=frozenset())

    @property
    def min_input(self) -> int:
        """Fewest inputs."""
        return self.inputs[0]

    @property
    def max_input(self) -> int:
        """Most inputs."""
        return self.inputs[1]

    @property
    def min_output(self) -> int:
        """Fewest outputs."""
        return self.outputs[0]

    @property
    def max_output(self) -> int:
        """Most outputs."""
        return self.outputs[1]

    @property
    def attributes(self) -> dict[str, Any]:
        """Type of each attribute, and whether it is required, as `onnx.defs.OpSchema` has them."""
        result = {}
        for name, default in self.options.items():
            many = isinstance(default, list)
            kind = default[0] if many else default if isinstance(default, type) else type(default)
            code = _KINDS[kind] + (AttributeProto.INTS - AttributeProto.INT if many else 0)
            result[name] = SimpleNamespace(type=SimpleNamespace(value=code), required=name in self.required)
        return result

    def function(self, node: NodeProto, type_of: TypeOf) -> FunctionProto:
        """Return the body of one call, whose attributes are no references.

        Raises
        ------
        Unsupported
            With the reason.
        """
        defaults = {
            name: None if isinstance(default, (type, list)) else default for name, default in self.options.items()
        }
        body = Body(node, defaults, type_of)
        self.write(body)
        return body.function()
