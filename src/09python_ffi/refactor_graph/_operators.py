"""Which operators can run: those with a native form, and those that ONNX defines by others that can."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, TypeProto, defs, helper

from refactor_graph import _core
from refactor_graph._contrib import CONTRIB_OPS
from refactor_graph._functions import Schema, domain_of, operator_body, schema_of, walk
from refactor_graph._python_ops import PYTHON_OPS

Range = tuple[int, int]
"""First and last version of a domain's operator set."""


@dataclass(frozen=True)
class SupportedOp:
    """An operator that models may use.

    Attributes
    ----------
    domain
        "ai.onnx", "ai.onnx.ml", "com.microsoft", …
    name
        The operator.
    native
        Versions of the domain's operator set, as ranges, in which it has a form of its own.
    expanded
        Versions in which it is replaced by the function that ONNX defines it by.
    """

    domain: str
    name: str
    native: tuple[Range, ...] = ()
    expanded: tuple[Range, ...] = ()

    @property
    def versions(self) -> tuple[Range, ...]:
        """All versions in which it can run, as ranges."""
        return merged([*self.native, *self.expanded])

    def supports(self, version: int) -> bool:
        """Return whether it can run in a version of the domain's operator set."""
        return any(first <= version <= last for first, last in self.versions)


def merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the same versions in as few ranges as possible, in order."""
    result: list[Range] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return tuple(result)


def _without(ranges: Iterable[Range], taken: Iterable[Range]) -> tuple[Range, ...]:
    """Return the versions of `ranges` that are not in `taken`."""
    covered = {version for first, last in taken for version in range(first, last + 1)}
    left = {version for first, last in ranges for version in range(first, last + 1)} - covered
    return merged((version, version) for version in left)


def newest_version(domain: str) -> int:
    """Return the newest version of a domain's operator set that is understood; 1 where ONNX does not define it."""
    if not domain:
        return _core.newest_opset()
    return max((item.since_version for item in defs.get_all_schemas_with_history() if item.domain == domain), default=1)


@lru_cache(maxsize=1)
def schema_ranges() -> dict[tuple[str, str], tuple[tuple[Schema, Range], ...]]:
    """All operators of the installed `onnx` by domain ("" is the default) and name, with the versions of each form."""
    found: dict[tuple[str, str], list[Schema]] = defaultdict(list)
    for item in defs.get_all_schemas_with_history():
        found[item.domain, item.name].append(cast(Schema, item))
    result = {}
    for key, schemas in found.items():
        schemas.sort(key=lambda schema: schema.since_version)
        starts = [schema.since_version for schema in schemas] + [newest_version(key[0]) + 1]
        result[key] = tuple((schema, (starts[i], starts[i + 1] - 1)) for i, schema in enumerate(schemas))
    return result


_PLAUSIBLE: dict[int, Any] = {
    AttributeProto.INT: 1,
    AttributeProto.FLOAT: 1.0,
    AttributeProto.STRING: "",
    AttributeProto.INTS: [1],
    AttributeProto.FLOATS: [1.0],
}
"""Values of required attributes for a call whose body is only looked at."""

_TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 4, 4, 8])


def _graph_of(inputs: int, outputs: int) -> GraphProto:
    """Return a plausible sub-graph, whose outputs are its first input."""
    ports = [helper.make_value_info(f"in{index}", _TENSOR) for index in range(inputs)]
    results = [helper.make_value_info(f"out{index}", _TENSOR) for index in range(outputs)]
    nodes = [helper.make_node("Identity", ["in0"], [result.name]) for result in results]
    return helper.make_graph(nodes, "plausible", ports, results)


def _call_of(schema: Any) -> tuple[NodeProto, list[TypeProto]]:
    """Return a plausible call of an operator, for bodies that depend on the call: all inputs, float, rank 4."""
    inputs = [f"x{index}" for index in range(max(len(schema.inputs), schema.min_input))]
    outputs = [f"y{index}" for index in range(max(len(schema.outputs), 1))]
    plausible = {**_PLAUSIBLE, AttributeProto.GRAPH: _graph_of(len(inputs), len(outputs))}
    attributes = {name: plausible[int(item.type.value)] for name, item in schema.attributes.items() if item.required}
    node = helper.make_node(schema.name, inputs, outputs, domain=schema.domain, **attributes)
    sequences = [all(name.startswith("seq(") for name in item.types) for item in schema.inputs]
    types = [helper.make_sequence_type_proto(_TENSOR) if is_sequence else _TENSOR for is_sequence in sequences]
    return node, types + [_TENSOR] * (len(inputs) - len(types))


def _body_of(schema: Schema, version: int) -> FunctionProto | None:
    try:
        node, types = _call_of(schema)
        return operator_body(schema, version, node, types)
    except Exception:  # the call was not plausible after all
        return None


def _body_runs(schema: Schema, version: int, seen: frozenset[tuple[str, str]]) -> bool:
    """Return whether there is a body, and all its operators can run."""
    body = _body_of(schema, version)
    if body is None:
        return False
    imports = {domain_of(item.domain): item.version for item in body.opset_import}
    for node in walk(body.node):
        domain = domain_of(node.domain)
        if _core.is_supported(domain, node.op_type, imports.get(domain, version)):
            continue
        key = (domain, node.op_type)
        inner = schema_of(domain, node.op_type, imports.get(domain, version))
        if inner is None or key in seen or not _body_runs(inner, imports.get(domain, version), seen | {key}):
            return False
    return True


def supported_ops() -> list[SupportedOp]:
    """Return all operators that models may use, sorted by domain and name.

    An operator may still be refused for a type or an attribute: `check` says so for a model.
    """
    native: dict[tuple[str, str], list[Range]] = defaultdict(list)
    in_python = [(op.domain, op.name, *op.versions) for op in PYTHON_OPS]
    for domain, name, first, last in [*_core.supported_operators(), *in_python]:
        schemas = schema_ranges().get((domain, name))
        oldest = schemas[0][1][0] if schemas else 1
        newest = newest_version(domain) if last is None else last
        if max(first, oldest) <= newest:
            native[domain, name].append((max(first, oldest), newest))
    expanded: dict[tuple[str, str], list[Range]] = defaultdict(list)
    for key, schemas in schema_ranges().items():
        for schema, (first, last) in schemas:
            left = _without([(first, last)], native.get(key, []))
            if left and _body_runs(schema, last, frozenset({key})):
                expanded[key] += left
    for name in CONTRIB_OPS:
        expanded["com.microsoft", name].append((1, 1))
    return [
        SupportedOp(domain or "ai.onnx", name, merged(native.get(key, [])), merged(expanded.get(key, [])))
        for key in sorted(native.keys() | expanded.keys())
        for domain, name in [key]
    ]
