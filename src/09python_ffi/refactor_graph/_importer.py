"""Feeds a parsed ONNX model into the native builder.

What only the protobuf side can see is checked here (type tags, tensor data, external data, functions); structure,
operators, types and shapes are checked natively. Both report into the same list, so that the user reads all problems
at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

from refactor_graph import _core
from refactor_graph._attributes import (
    AttributeValueError,
    RawAttribute,
    checked_kind,
    convert,
    duplicate_names,
    kind_name,
)
from refactor_graph._contrib import CONTRIB_OPS
from refactor_graph._custom import natives as custom_natives
from refactor_graph._declared import RawType, UnsupportedTypeError, raw_dims, raw_type
from refactor_graph._errors import InvalidModel, Unsupported, quote
from refactor_graph._functions import (
    Functions,
    domain_of,
    label,
    operator_body,
    schema_of,
    signature_problems,
)
from refactor_graph._inference import operand_types
from refactor_graph._load import LoadedModel
from refactor_graph._tensors import Tensor, TensorError, read_sparse, read_tensor

_REFUSED = (None, (), None)
"""A tensor that a problem has been reported for: the native builder says nothing more about it."""


@dataclass(slots=True)
class Scope:
    """Where nodes are emitted from: the model itself, or the body of one call of a function.

    Attributes
    ----------
    imports
        Version of each operator domain.
    prefix
        Put before names that the body of a function defines; empty for the model itself.
    bound
        Names of the function's inputs and outputs in the scope of the caller.
    references
        Value of each attribute of the call, None if it has none; with the scope that it was written in.
    """

    imports: Mapping[str, int]
    prefix: str = ""
    bound: dict[str, str] = field(default_factory=dict)
    references: dict[str, tuple[AttributeProto, Scope]] | None = None

    def name(self, text: str) -> str:
        """Return the name of a value in the flat model."""
        if not text or not self.prefix:
            return text
        return self.bound.get(text, self.prefix + text)


class Importer:
    """Imports one model."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self._builder = _core.ModelBuilder()
        self._functions = Functions(loaded.proto)
        self._native: dict[tuple[str, str, int], bool] = {}
        self._types: dict[str, TypeProto] | None = None
        self._calls = 0

    def build(self) -> _core.Model:
        """Import everything.

        Raises
        ------
        InvalidModel
            Listing all problems.
        Unsupported
            If nothing is illegal but something is not supported; lists all of it.
        """
        proto = self._loaded.proto
        for problem in self._functions.problems:
            self._builder.add_invalid(problem)
        if proto.HasField("ir_version"):
            self._builder.set_ir_version(proto.ir_version)
        for op in custom_natives(self._loaded.custom_ops):
            self._builder.add_custom(op)
        for opset in proto.opset_import:
            self._builder.add_opset(opset.domain, opset.version)
        scope = Scope({domain_of(opset.domain): opset.version for opset in proto.opset_import})
        if proto.HasField("graph"):
            self._graph(proto.graph, self._builder.graph(), scope, self._loaded.raw)
        else:
            self._builder.add_invalid("it has no graph")
        return self._builder.build()

    # ------------------------------------------------------------------ graphs
    def _graph(
        self, proto: GraphProto, out: _core.GraphBuilder, scope: Scope, raw: Mapping[int, memoryview] | None = None
    ) -> None:
        constants = self._initializers(proto, out, scope, raw or {})
        for port in proto.input:
            if port.name in constants:
                continue
            out.add_input(scope.name(port.name), self._port("input", port, main=raw is not None))
        for port in proto.output:
            out.add_output(scope.name(port.name), self._port("output", port, main=False))
        for info in proto.value_info:
            if info.type.HasField("tensor_type"):
                out.add_value_info(scope.name(info.name), (info.type.tensor_type.elem_type, raw_dims(info.type)))
        for node in proto.node:
            self._node(node, out, scope)

    def _initializers(
        self, proto: GraphProto, out: _core.GraphBuilder, scope: Scope, raw: Mapping[int, memoryview]
    ) -> set[str]:
        names = set()
        for index, tensor in enumerate(proto.initializer):
            name = tensor.name
            names.add(name)
            try:
                content = read_tensor(tensor, self._loaded.files, raw.get(index))
            except TensorError as error:
                self._builder.add_invalid(f"initializer {quote(name)}: {error}")
                out.add_initializer(scope.name(name), *_REFUSED)
                continue
            out.add_initializer(scope.name(name), *_native_tensor(content))
        for sparse in proto.sparse_initializer:
            name = sparse.values.name
            names.add(name)
            try:
                content = read_sparse(sparse, self._loaded.files)
            except TensorError as error:
                self._builder.add_invalid(f"sparse initializer {quote(name)}: {error}")
                out.add_initializer(scope.name(name), *_REFUSED)
                continue
            out.add_initializer(scope.name(name), *_native_tensor(content))
        return names

    def _port(self, what: str, port: ValueInfoProto, *, main: bool) -> RawType:
        declared = port.type if port.HasField("type") else TypeProto()
        if declared.WhichOneof("value") is None and main:
            self._builder.add_invalid(f"{what} {quote(port.name)} has no type")
            return TensorProto.FLOAT, None
        try:
            return raw_type(declared)
        except UnsupportedTypeError as error:
            self._builder.add_unsupported(f"{what} {quote(port.name)} is {error}")
            return TensorProto.FLOAT, None

    # ------------------------------------------------------------------ nodes
    def _is_native(self, domain: str, op: str, version: int) -> bool:
        key = (domain, op, version)
        known = self._native.get(key)
        if known is None:
            known = self._native[key] = _core.is_supported(domain, op, version)
        return known

    def _node(self, node: NodeProto, out: _core.GraphBuilder, scope: Scope) -> None:
        function = self._functions.find(node)
        if function is not None:
            if domain_of(node.domain) not in scope.imports:
                self._builder.add_invalid(f"{label(node)}: domain {quote(node.domain)} is not among the imported ones")
            self._call(node, function, out, scope, None)
            return
        domain = domain_of(node.domain)
        if not self._is_native(domain, node.op_type, scope.imports.get(domain, 0)) and self._expand(node, out, scope):
            return
        attributes = self._attributes(node, scope) if len(node.attribute) else []
        inputs, outputs = node.input, node.output
        name, version = node.name, 0
        if scope.prefix:
            name = scope.prefix + (name or node.op_type)
            inputs, outputs = [scope.name(i) for i in inputs], [scope.name(o) for o in outputs]
            version = scope.imports.get(domain, 0)
        out.add_node(name, node.domain, node.op_type, list(inputs), list(outputs), attributes, version)

    def _attributes(self, node: NodeProto, scope: Scope) -> list[RawAttribute]:
        result = []
        names = [attribute.name for attribute in node.attribute]
        for name in duplicate_names(names):
            self._builder.add_invalid(f"{label(node)}: attribute {name} occurs twice")
        for attribute in node.attribute:
            try:
                converted = self._attribute(attribute, scope)
            except (AttributeValueError, TensorError, UnsupportedTypeError) as error:
                self._builder.add_invalid(f"{label(node)}: attribute {quote(attribute.name)}: {error}")
                converted = attribute.name, int(AttributeProto.TENSOR), _REFUSED
            if converted is not None:
                result.append(converted)
        return result

    def _attribute(self, proto: AttributeProto, scope: Scope) -> RawAttribute | None:
        if not proto.name:
            raise AttributeValueError("it has no name")
        name, source = proto.name, scope
        if proto.ref_attr_name:
            if scope.references is None:
                raise AttributeValueError(f"it refers to attribute {quote(proto.ref_attr_name)} outside of a function")
            if proto.ref_attr_name not in scope.references:
                return None
            wanted = proto.type
            proto, source = scope.references[proto.ref_attr_name]
            if wanted and wanted != proto.type:
                raise AttributeValueError(f"it is {kind_name(wanted)}, the caller's value is {kind_name(proto.type)}")
        kind = checked_kind(proto, self._loaded.proto.ir_version)
        found = convert(proto, kind, self._tensor, self._sparse, lambda graph: self._subgraph(graph, source))
        if found is None:
            raise AttributeValueError(f"attributes of type {kind_name(kind)} are not supported")
        return name, found[1], found[2]

    def _tensor(self, proto: TensorProto) -> Any:
        return _native_tensor(read_tensor(proto, self._loaded.files))

    def _sparse(self, proto: SparseTensorProto) -> Any:
        return _native_tensor(read_sparse(proto, self._loaded.files))

    def _subgraph(self, proto: GraphProto, scope: Scope) -> _core.GraphBuilder:
        builder = _core.GraphBuilder()
        self._graph(proto, builder, scope)
        return builder

    # ------------------------------------------------------------------ functions
    def _expand(self, node: NodeProto, out: _core.GraphBuilder, scope: Scope) -> bool:
        """Replace an operator that has no native form by its ONNX function body; returns whether there was one."""
        domain = domain_of(node.domain)
        if domain == "com.microsoft" and node.op_type in CONTRIB_OPS:
            self._expand_contrib(node, out, scope)
            return True
        version = scope.imports.get(domain, 0)
        schema = schema_of(domain, node.op_type, version)
        if schema is None or not (schema.has_function or schema.has_context_dependent_function):
            return False
        for problem in signature_problems(schema, node):  # expanded even so, for its results to be known
            self._builder.add_invalid(f"{label(node)}: {problem}")
        types = None
        if not schema.has_function:
            found = [self._type_of(scope.name(name)) for name in node.input]
            types = (
                found
                if all(name == "" or item.WhichOneof("value") for name, item in zip(node.input, found, strict=True))
                else None
            )
        try:
            body = operator_body(schema, version, node, types)
        except Exception:  # the body generator of the onnx package failed: report the operator as unsupported
            body = None
        if body is None:
            return False
        defaults = {name: item.default_value for name, item in schema.attributes.items() if item.default_value.name}
        self._call(node, body, out, scope, defaults)
        return True

    def _type_of(self, name: str) -> TypeProto:
        if self._types is None:
            self._types = operand_types(self._loaded.proto)
        return self._types.get(name, TypeProto())

    def _expand_contrib(self, node: NodeProto, out: _core.GraphBuilder, scope: Scope) -> None:
        """Replace an operator of com.microsoft by the body that the package has, or report why there is none for it."""
        op = CONTRIB_OPS[node.op_type]
        problems = signature_problems(op, node)
        for problem in problems:
            self._builder.add_invalid(f"{label(node)}: {problem}")
        if problems:
            self._refuse(node, out, scope)
            return
        call = NodeProto()
        call.CopyFrom(node)
        del call.attribute[:]
        for item in node.attribute:
            known = (scope.references or {}).get(item.ref_attr_name) if item.ref_attr_name else (item, scope)
            if known is not None:
                value = call.attribute.add()
                value.CopyFrom(known[0])
                value.name = item.name
        try:
            body = op.function(call, lambda name: self._type_of(scope.name(name)))
        except InvalidModel as reason:
            self._builder.add_invalid(str(reason))
            self._refuse(node, out, scope)
        except Unsupported as reason:
            self._builder.add_unsupported(f"{label(node)}: {reason}")
            self._refuse(node, out, scope)
        else:
            self._call(node, body, out, scope, {})

    def _refuse(self, node: NodeProto, out: _core.GraphBuilder, scope: Scope) -> None:
        """Take in a node whose problem has been reported."""
        inputs, outputs = ([scope.name(name) for name in names] for names in (node.input, node.output))
        out.add_refused(node.name, inputs, outputs)

    def _call(
        self,
        node: NodeProto,
        function: FunctionProto,
        out: _core.GraphBuilder,
        scope: Scope,
        defaults: Mapping[str, AttributeProto] | None,
    ) -> None:
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            self._builder.add_invalid(
                f"{label(node)}: it has {len(node.input)} inputs and {len(node.output)} outputs, its function takes "
                f"{len(function.input)} and makes {len(function.output)}"
            )
            return
        self._calls += 1
        prefix = f"{scope.prefix}{node.name or node.op_type}#{self._calls}/"
        imports = {domain_of(opset.domain): opset.version for opset in function.opset_import} or dict(scope.imports)
        inner = Scope(imports, prefix)
        references: dict[str, tuple[AttributeProto, Scope]] = {
            name: (item, inner) for name, item in (defaults or {}).items()
        }
        references |= {item.name: (item, inner) for item in function.attribute_proto}
        for item in node.attribute:
            value = (item, scope)
            if item.ref_attr_name:
                if not scope.references or item.ref_attr_name not in scope.references:
                    continue
                value = scope.references[item.ref_attr_name]
            references[item.name] = value
        inner.references = references
        formal = list(function.input)
        for index, name in enumerate(formal):
            inner.bound[name] = scope.name(node.input[index]) if index < len(node.input) else ""
        for source, target in zip(function.output, node.output, strict=False):
            if not target:
                continue
            if source in inner.bound:  # an input handed through, or one value returned twice
                out.add_node(f"{prefix}{target}", "", "Identity", [inner.bound[source]], [scope.name(target)], [])
            else:
                inner.bound[source] = scope.name(target)
        for item in function.node:
            self._node(item, out, inner)


def _native_tensor(tensor: Tensor) -> tuple[int, tuple[int, ...], Any]:
    return tensor.dtype, tensor.dims, tensor.data


def import_model(loaded: LoadedModel) -> _core.Model:
    """Check `loaded` and return the native model; raises as `Importer.build` does."""
    return Importer(loaded).build()
