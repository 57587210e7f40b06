"""Functions of a model and of operator sets: whether they are sound, and how large they become when inlined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Protocol, cast

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, defs

from refactor_graph._attributes import kind_name
from refactor_graph._errors import quote

MAX_NODES = 1_000_000
"""Nodes of a model after inlining; a few hundred bytes of nested functions can describe 2^64 of them."""

MAX_DEPTH = 64
"""Levels of functions that call functions."""

Key = tuple[str, str, str]
"""Domain, name and overload of a function."""


def domain_of(text: str) -> str:
    """Name of a domain; the default one has two."""
    return "" if text == "ai.onnx" else text


def label(node: NodeProto) -> str:
    """How messages call a node: its name and operator."""
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    if len(operator) > 60:
        operator = quote(operator, 60)
    if node.name:
        return f"node {quote(node.name)} ({operator})"
    return f"node making {quote(node.output[0]) if len(node.output) else 'nothing'} ({operator})"


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """Sub-graphs among the attributes of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def walk(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """All nodes, those of sub-graphs too."""
    for node in nodes:
        yield node
        if len(node.attribute):
            for graph in graphs_of(node):
                yield from walk(graph.node)


def key_of(node: NodeProto) -> Key:
    """Key of the function that a node would call."""
    return domain_of(node.domain), node.op_type, node.overload


class Functions:
    """The functions of one model.

    Attributes
    ----------
    problems
        Why functions cannot be used, one text each; then `find` knows none of them.
    """

    def __init__(self, model: ModelProto) -> None:
        self.problems: list[str] = []
        self._functions: dict[Key, FunctionProto] = {}
        for function in model.functions:
            key = (domain_of(function.domain), function.name, function.overload)
            if key in self._functions:
                self.problems.append(f"function {self._name(key)} is defined twice")
            self._functions[key] = function
            self.problems += _body_problems(self._name(key), function)
        if self._functions:
            self._check_size(model)
        if self.problems:
            self._functions = {}

    @staticmethod
    def _name(key: Key) -> str:
        return quote("::".join(part for part in key if part))

    def find(self, node: NodeProto) -> FunctionProto | None:
        """Return the function that `node` calls, or None."""
        return self._functions.get(key_of(node)) if self._functions else None

    def _check_size(self, model: ModelProto) -> None:
        sizes: dict[Key, int] = {}
        levels: dict[Key, int] = {}
        for key in self._functions:
            self._size(key, sizes, levels, [])
            if self.problems:
                return
        total = sum(self._expanded(node, sizes) for node in walk(model.graph.node))
        if total > MAX_NODES:
            self.problems.append(f"its functions expand to {total} nodes, at most {MAX_NODES} are possible")

    def _expanded(self, node: NodeProto, sizes: dict[Key, int]) -> int:
        return sizes.get(key_of(node), 1)

    def _size(self, key: Key, sizes: dict[Key, int], levels: dict[Key, int], path: list[Key]) -> int:
        if key in sizes:
            return sizes[key]
        if key in path:
            cycle = " → ".join(self._name(item) for item in [*path[path.index(key) :], key])
            self.problems.append(f"functions call themselves: {cycle}")
            return 0
        if len(path) >= MAX_DEPTH:
            return self._too_deep()
        path.append(key)
        total, level = 0, 1
        for node in walk(self._functions[key].node):
            called = key_of(node)
            total += self._size(called, sizes, levels, path) if called in self._functions else 1
            if self.problems:
                return 0
            level = max(level, levels.get(called, 0) + 1)
        path.pop()
        if level > MAX_DEPTH:
            return self._too_deep()
        sizes[key], levels[key] = total, level
        return total

    def _too_deep(self) -> int:
        self.problems.append(f"functions are nested more than {MAX_DEPTH} levels deep")
        return 0


def _body_problems(name: str, function: FunctionProto) -> list[str]:
    problems = []
    known = set(function.input)
    if len(known) != len(function.input):
        problems.append(f"function {name} has two inputs of one name")
    made = {output for node in function.node for output in node.output if output}
    for node in function.node:
        for value in node.output:
            if value and value in known:
                problems.append(f"function {name}: {label(node)} defines {quote(value)} again")
            known.add(value)
        problems += [
            f"function {name}: {label(node)} uses {quote(value)}, which nothing defines"
            for value in node.input
            if value and value not in made and value not in function.input
        ]
    problems += [f"function {name} never makes its output {quote(v)}" for v in function.output if v not in known]
    return problems


class Signature(Protocol):
    """How an operator is called."""

    @property
    def min_input(self) -> int:
        """Fewest inputs."""

    @property
    def max_input(self) -> int:
        """Most inputs."""

    @property
    def min_output(self) -> int:
        """Fewest outputs."""

    @property
    def max_output(self) -> int:
        """Most outputs."""

    @property
    def attributes(self) -> Any:
        """By name, each with its type and whether it is required."""


class Schema(Signature, Protocol):
    """The part of `onnx.defs.OpSchema` that is used here; the package's own stub lacks it."""

    name: str
    since_version: int
    has_function: bool
    has_context_dependent_function: bool
    function_opset_versions: list[int]
    context_dependent_function_opset_versions: list[int]

    def get_function_with_opset_version(self, version: int) -> bytes:
        """Return the serialized body."""

    def get_context_dependent_function_with_opset_version(self, version: int, node: bytes, types: list[bytes]) -> bytes:
        """Return the serialized body for one call."""


def signature_problems(schema: Signature, node: NodeProto) -> list[str]:
    """Why a node cannot be a call of an operator: numbers of operands, attributes it does not have or misses."""
    problems = []
    for what, count, least, most in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            problems.append(f"{count} {what}, expected {least if least == most else f'{least} to {most}'}")
    known = ", ".join(schema.attributes)
    for attribute in node.attribute:
        definition = schema.attributes.get(attribute.name)
        if definition is None:
            name = quote(attribute.name)
            problems.append(f"unknown attribute {name}, it has{f': {known}' if known else ' none'}")
        elif attribute.type and attribute.type != definition.type.value:
            kind, expected = kind_name(attribute.type), kind_name(definition.type.value)
            problems.append(f"attribute {quote(attribute.name)} is {kind}, expected {expected}")
    given = {attribute.name for attribute in node.attribute}
    problems += [
        f"the required attribute {quote(name)} is missing"
        for name, definition in schema.attributes.items()
        if definition.required and name not in given
    ]
    return problems


@lru_cache(maxsize=4096)
def schema_of(domain: str, op: str, version: int) -> Schema | None:
    """Definition of an operator in the newest version up to `version`, or None."""
    try:
        return cast(Schema, defs.get_schema(op, version, domain))
    except Exception:  # the package's own exception type is private
        return None


def operator_body(schema: Schema, version: int, node: NodeProto, types: list[TypeProto] | None) -> FunctionProto | None:
    """Body of an operator that ONNX defines as a function, or None.

    Parameters
    ----------
    schema
        The operator.
    version
        Version of its domain that the model imports.
    node
        The call; some bodies depend on its attributes and on which inputs it has.
    types
        Types of the inputs, which some bodies depend on; None if they are not known.
    """
    fitting = [v for v in schema.function_opset_versions if v <= version]
    if fitting:
        return _parse(schema.get_function_with_opset_version(max(fitting)))
    fitting = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if not fitting or types is None:
        return None
    body = schema.get_context_dependent_function_with_opset_version(
        max(fitting), node.SerializeToString(), [item.SerializeToString() for item in types]
    )
    return _parse(body) if body else None


def _parse(data: bytes) -> FunctionProto:
    function = FunctionProto()
    function.ParseFromString(data)
    return function
