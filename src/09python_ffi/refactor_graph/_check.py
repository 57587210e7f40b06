"""Everything that keeps a model from running, as data.

One import stops where it cannot go on: behind a node that failed nothing is known, and kernels are chosen only for what
could be inferred. So a copy of the model is imported again and again, each time without the nodes that failed, whose
results become inputs of the types that ONNX infers, until nothing new is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from onnx import ModelProto, NodeProto, TypeProto, ValueInfoProto

from refactor_graph import _core
from refactor_graph._errors import InvalidInput, InvalidModel, Unsupported
from refactor_graph._functions import domain_of, graphs_of, walk
from refactor_graph._importer import import_model
from refactor_graph._inference import operand_types
from refactor_graph._load import LoadedModel
from refactor_graph._types import core_name


@dataclass(frozen=True)
class Operand:
    """Type of an input of a node, as far as it is known.

    Attributes
    ----------
    name
        Name of the tensor; empty if the input is omitted.
    dtype
        "f32", "i64", …; None if it is unknown.
    shape
        A number or an expression for each dimension; None if not even the rank is known.
    """

    name: str
    dtype: str | None
    shape: tuple[int | str, ...] | None

    def __str__(self) -> str:
        sizes = "?" if self.shape is None else ", ".join(map(str, self.shape))
        return f"{self.dtype or '?'}[{sizes}]"


@dataclass(frozen=True)
class Problem:
    """One reason why a model cannot run.

    Attributes
    ----------
    kind
        "invalid": the model breaks its specification; "unsupported": it is legal, but cannot run here.
    reason
        What is wrong, with the actual and the expected value.
    node
        Name of the node, made of operator and number where the model gives none; None for the model as a whole.
    domain, operator
        What the node computes; the default domain is "ai.onnx".
    opset
        Version of the domain that the model imports.
    inputs
        Types of the node's inputs.
    target
        Target that has no kernel for the node; None if it is a matter of no target.
    """

    kind: str
    reason: str
    node: str | None = None
    domain: str | None = None
    operator: str | None = None
    opset: int | None = None
    inputs: tuple[Operand, ...] = ()
    target: str | None = None

    def __str__(self) -> str:
        prefix = "unsupported: " if self.kind == "unsupported" else ""
        if self.node is None:
            return f"{prefix}{self.reason}"
        operator = self.operator if self.domain == "ai.onnx" else f"{self.domain}.{self.operator}"
        types = f"; inputs {', '.join(map(str, self.inputs))}" if self.inputs else ""
        where = f" on {self.target}" if self.target else ""
        opset = f"opset {self.opset}" if self.opset is not None else "no opset"
        return f'{prefix}node "{self.node}" ({operator}, {opset}{types}){where}: {self.reason}'


_MARK = "check-node-"
_FOUND = re.compile(rf"{_MARK}(\d+)-")
_MORE = re.compile(r"and \d+ more")
_HEAD = re.compile(
    rf"""(?:\w+\ )?node\ (?P<quote>["'])?{_MARK}\d+-(?P=quote)?
    (?:\ \((?P<types>(?:[^()]|\([^()]*\))*)\))?
    (?:\ on\ (?P<target>\w+))?:?\s*""",
    re.VERBOSE,
)
"""How messages about a node begin: `node "a" (Relu, opset 17; inputs f32[N]): `, `MatMul node "b" (f32[N]) on cpu`."""
_OPERAND = re.compile(r"(?:(?P<dtype>[a-z]+\d*\w*)\[(?P<sizes>[^\]]*)\]|none|-)(?:, |$)")


def _size(text: str) -> int | str:
    return int(text) if text.isdigit() else text


class _Workpiece:
    """The copy of a model that nodes are taken out of."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = replace(loaded, proto=ModelProto())
        self.loaded.proto.CopyFrom(loaded.proto)
        self._types = operand_types(loaded.proto)
        self._opsets = {domain_of(item.domain): item.version for item in loaded.proto.opset_import}
        self._originals = list(walk(loaded.proto.graph.node))
        for index, node in enumerate(walk(self.loaded.proto.graph.node)):
            node.name = f"{_MARK}{index}-"  # ends in what no number contains, so that no name is part of another

    def problem(self, text: str, kind: str, target: str | None) -> tuple[Problem, int | None]:
        """Return what a message of the library says, and the number of the node that it is about."""
        if text.startswith("unsupported: "):
            text, kind = text.removeprefix("unsupported: "), "unsupported"
        found = _FOUND.search(text)
        if found is None:
            return Problem(kind, " ".join(text.split())), None
        index = int(found[1])
        node = self._originals[index]
        head = _HEAD.match(text)  # not if it is about a node inside: of a function's body, or made by a pass
        reason = text[head.end() :] if head else text
        domain = domain_of(node.domain)
        problem = Problem(
            kind,
            " ".join(_FOUND.sub(lambda item: self._label(int(item[1])), reason).split()),
            self._label(index),
            domain or "ai.onnx",
            node.op_type,
            self._opsets.get(domain),
            self._operands(node, head["types"] if head else None),
            target if head and head["target"] else None,
        )
        return problem, index

    def _label(self, index: int) -> str:
        node = self._originals[index]
        return node.name or f"{node.op_type}_{index}"

    def _operands(self, node: NodeProto, types: str | None) -> tuple[Operand, ...]:
        """Return types as the message gives them if it describes all inputs, else as ONNX infers them."""
        known = [self._operand(name) for name in node.input]
        listed = types.partition("; inputs ")[2] if types and "; inputs " in types else ""
        described = list(_OPERAND.finditer(listed))
        if len(described) != len(known):
            return tuple(known)
        for place, item in enumerate(described):
            if item["dtype"] is not None:
                sizes = None if item["sizes"] == "?" else tuple(map(_size, filter(None, item["sizes"].split(", "))))
                known[place] = Operand(node.input[place], item["dtype"], sizes)
        return tuple(known)

    def _operand(self, name: str) -> Operand:
        proto = self._types.get(name, TypeProto()).tensor_type
        dtype = core_name(proto.elem_type) if proto.elem_type else None
        if not proto.HasField("shape"):
            return Operand(name, dtype, None)
        dims = [dim.dim_param or (dim.dim_value if dim.HasField("dim_value") else "?") for dim in proto.shape.dim]
        return Operand(name, dtype, tuple(dims))

    def take_out(self, blamed: set[int]) -> bool:
        """Remove the nodes with these numbers, and what cannot be known without them; return whether any are left."""
        graph = self.loaded.proto.graph
        kept: list[NodeProto] = []
        lost: set[str] = set()
        opened: dict[str, ValueInfoProto] = {}
        for node in graph.node:
            numbers = {int(item.name.removeprefix(_MARK).rstrip("-")) for item in walk([node])}
            used = {name for item in walk([node]) for name in item.input}
            if not numbers & blamed and not used & lost:
                kept.append(node)
                continue
            for name in filter(None, node.output):
                port = self._input_for(name)
                if port is None:
                    lost.add(name)
                else:
                    opened[name] = port
        made = {name for node in kept for name in node.output if name}
        used = {name for node in kept for item in walk([node]) for name in item.input}
        declared = {port.name: port for port in graph.output}
        sub_outputs = {port.name for node in kept for sub in graphs_of(node) for port in sub.output}
        ends = [name for node in kept for name in node.output if name and (name in declared or name not in used)]
        copies = [NodeProto() for _ in kept]
        for target, source in zip(copies, kept, strict=True):
            target.CopyFrom(source)
        del graph.node[:], graph.output[:]
        graph.node.extend(copies)
        graph.output.extend(declared.get(name) or ValueInfoProto(name=name) for name in ends)
        present = {port.name for port in graph.input}
        needed = (used | sub_outputs) - made - present
        graph.input.extend(port for name, port in opened.items() if name in needed)
        return bool(kept)

    def _input_for(self, name: str) -> ValueInfoProto | None:
        """Return a graph input that stands for a value; None if its type is not known well enough."""
        proto = self._types.get(name)
        if proto is None or not proto.tensor_type.elem_type or not proto.tensor_type.HasField("shape"):
            return None
        return ValueInfoProto(name=name, type=proto)


def find_problems(loaded: LoadedModel, target: str, compile_model: Callable[[_core.Model], object]) -> list[Problem]:
    """Return everything that keeps a model from running, in the order of its nodes; empty if it can run.

    Parameters
    ----------
    loaded
        The model; it is not changed.
    target
        What it would run on, for the problems.
    compile_model
        Compiles for the target.
    """
    piece = _Workpiece(loaded)
    found: dict[Problem, int] = {}
    while True:
        try:
            model = import_model(piece.loaded)
            compile_model(model)
            break
        except (InvalidModel, Unsupported) as error:
            kind = "invalid" if isinstance(error, InvalidModel) else "unsupported"  # unless a text says otherwise
            texts = [text for text in error.problems if not _MORE.fullmatch(text)]
            fresh = [piece.problem(text, kind, target) for text in texts]
        except InvalidInput as error:
            fresh = [piece.problem(str(error), "invalid", target)]
        blamed = {index for problem, index in fresh if index is not None}
        for problem, index in fresh:
            found.setdefault(problem, -1 if index is None else index)
        if not blamed or not piece.take_out(blamed):
            break
    return [problem for problem, _ in sorted(found.items(), key=lambda item: item[1])]


def summary(problems: Sequence[Problem]) -> str:
    """Return one line: how many problems there are, and the operators that are not supported."""
    missing = sorted(
        {f"{item.domain}.{item.operator}" for item in problems if item.kind == "unsupported" and item.node}
    )
    text = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
    return f"{text}; operators that are refused: {', '.join(missing)}" if missing else text
