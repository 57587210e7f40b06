"""FX graphs of PyTorch to ONNX, by PyTorch's own exporter; weights stay where they are.

AOTAutograd gives a graph without mutation and aliases whose parameters, buffers and symbolic sizes are inputs. All of
them become inputs of the ONNX graph; which of these are constants is decided when the graph is called, so that one
export serves every module that runs it.

Source: https://docs.pytorch.org/docs/stable/export.ir_spec.html and onnx_ir. The functions of PyTorch that are used
beside its public ones are named in :func:`_private`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from onnx import ModelProto, TensorProto, helper
from torch import fx
from torch.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree

from refactor_graph._errors import Unsupported
from refactor_graph._external import ExternalFiles
from refactor_graph._load import LoadedModel
from refactor_graph._torch_decompositions import DECOMPOSITIONS, FOR_CONSTANTS, MISCONVERTED
from refactor_graph._torch_tensors import onnx_type

if TYPE_CHECKING:
    import onnx_ir

_OPSET = 20
"""The first operator set with Gelu."""


@functools.cache
def _private() -> SimpleNamespace:
    """Whatever of PyTorch has no public name, at one place.

    Raises
    ------
    Unsupported
        If this PyTorch does not have it.
    """
    try:
        import onnx_ir
        from onnxscript import version_converter
        from torch._subclasses.fake_tensor import unset_fake_temporarily
        from torch.export import exported_program
        from torch.onnx._internal.exporter import _core, _decomp, _dispatching, _fx_passes, _registration

        log, _registration.logger.disabled = _registration.logger, True  # of packages that are not installed
        registry = _registration.ONNXRegistry.from_torchlib()
        log.disabled = False
        known = set(_decomp.get_onnx_implemented_overloads(registry)) - MISCONVERTED
        table = _decomp.create_onnx_friendly_decomposition_table(known)
        preserved, python = exported_program._split_decomp_table_to_cia_and_python_decomp(table)
        return SimpleNamespace(
            convert=functools.partial(_core._exported_program_to_onnx_program, registry=registry),
            convert_version=version_converter.convert_version,
            decompositions={op: body for op, body in (python | DECOMPOSITIONS).items() if op not in FOR_CONSTANTS},
            dispatch=functools.partial(_dispatching.dispatch, registry=registry),
            insert_type_promotion=_fx_passes.insert_type_promotion_nodes,
            known=known,
            preserve=functools.partial(exported_program._override_composite_implicit_decomp, preserved),
            real_tensors=unset_fake_temporarily,
            remove_assertions=_fx_passes.remove_assertion_nodes,
            to_proto=onnx_ir.to_proto,
        )
    except (ImportError, AttributeError) as error:
        needed = "torch 2.13 (or one whose exporter has the same parts) with onnxscript"
        raise Unsupported(f"the torch.compile backend needs {needed}, this is {torch.__version__}: {error}") from error


def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Decompositions of the operators that ONNX has no counterpart of."""
    found: Mapping[Any, Callable[..., Any]] = _private().decompositions
    return found


def keep_composites() -> AbstractContextManager[None]:
    """Keep operators whole that the exporter converts whole (LSTM, attention, linear) while a graph is traced."""
    context: AbstractContextManager[None] = _private().preserve()
    return context


@dataclass(frozen=True)
class Result:
    """What one result of the FX graph is: a `value` of its own, input number `source`, or output number `output`."""

    value: Any = None
    source: int | None = None
    output: int | None = None

    def of(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """Return the result of one call."""
        if self.output is not None:
            return outputs[self.output]
        return self.value if self.source is None else inputs[self.source]


@dataclass(frozen=True)
class Exported:
    """An FX graph as ONNX.

    Attributes
    ----------
    proto
        The model; everything that the graph reads is an input.
    inputs
        Name, number among the inputs of the FX graph, and example (a FakeTensor, SymInt or number) of each input.
    outputs
        Example of each output.
    results
        Where the results of the FX graph come from.
    origins
        For each node of the model, the FX node that it stands for, and the line of the program.
    """

    proto: ModelProto
    inputs: list[tuple[str, int, Any]]
    outputs: list[Any]
    results: list[Result]
    origins: dict[str, str]

    def load(self, name: str, weights: Mapping[str, tuple[int, Sequence[int], memoryview]]) -> LoadedModel:
        """Return the model with some inputs as constants.

        Parameters
        ----------
        name
            How messages call it.
        weights
            ONNX type, shape and content of each constant. The content is borrowed, not copied.
        """
        proto = ModelProto()
        proto.CopyFrom(self.proto)
        kept = [port for port in proto.graph.input if port.name not in weights]
        del proto.graph.input[:]
        proto.graph.input.extend(kept)
        raw = {}
        for weight, (dtype, dims, data) in weights.items():
            raw[len(proto.graph.initializer)] = data
            proto.graph.initializer.append(TensorProto(name=weight, data_type=dtype, dims=dims))
        return LoadedModel(proto, ExternalFiles(None), name, raw)

    def explain(self, problem: str) -> str:
        """Add to a problem that names a node of ONNX which FX node and line of the program that is."""
        found = re.search(r'"([^"]+)"', problem)
        origin = self.origins.get(found[1]) if found else None
        return f"{problem}\n    FX node {origin}" if origin else problem


def export(module: fx.GraphModule, names: Sequence[str]) -> Exported:
    """Convert the graph of `module`.

    Parameters
    ----------
    module
        A functional ATen graph with `meta["val"]` at each node, as AOTAutograd makes it; it is not changed.
    names
        Names for its inputs.

    Raises
    ------
    Unsupported
        Naming every FX node that cannot be converted, with the reason.
    """
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    graph.output_node().meta.update(module.graph.output_node().meta)
    module = fx.GraphModule(module, graph)
    numbers = _name_inputs(graph, names)
    _find_sizes(graph)
    results, outputs = _split_results(graph, numbers)
    for node in graph.find_nodes(op="placeholder"):
        if not node.users:
            graph.erase_node(node)
    _refuse(graph, outputs)
    examples = [node.meta["val"] for node in outputs]
    private = _private()
    private.remove_assertions(module)
    try:
        program = _program(module)
        private.insert_type_promotion(module)
        for node in graph.nodes:  # the exporter misses it of nodes that are not of a module
            node.meta.setdefault("nn_module_stack", {"": ("", "")})
        converted = private.convert(program)
        with private.real_tensors():
            private.convert_version(converted.model, _OPSET, fallback=False)
            proto = private.to_proto(converted.model)
            _restore_types(proto, examples)
    except Unsupported:
        raise
    except Exception as error:  # whatever a conversion runs into is a reason
        raise Unsupported(_listing([_reason(error)])) from error
    placeholders = graph.find_nodes(op="placeholder")
    inputs = [(node.name, numbers[node], node.meta["val"]) for node in placeholders if node in numbers]
    return Exported(proto, inputs, examples, results, dict(_origins(converted.model)))


def _restore_types(model: ModelProto, examples: Sequence[Any]) -> None:
    """Round outputs that the exporter computes in a wider type than PyTorch gives them (sums of halves)."""
    for number, (port, example) in enumerate(zip(model.graph.output, examples, strict=True)):
        if not isinstance(example, torch.Tensor) or port.type.tensor_type.elem_type == onnx_type(example.dtype):
            continue
        wide, port.name = port.name, f"rounded_{number}"
        port.type.tensor_type.elem_type = onnx_type(example.dtype)
        model.graph.node.append(
            helper.make_node("Cast", [wide], [port.name], f"round_{number}", to=onnx_type(example.dtype))
        )


def _name_inputs(graph: fx.Graph, names: Sequence[str]) -> dict[fx.Node, int]:
    """Give the inputs readable names; returns their numbers."""
    placeholders = graph.find_nodes(op="placeholder")
    if len(names) == len(placeholders):
        for node, name in zip(placeholders, names, strict=True):
            node._rename(name)
            node.target = node.name
    return {node: number for number, node in enumerate(placeholders)}


def _find_sizes(graph: fx.Graph) -> None:
    """Take symbolic sizes from the tensors that have them, not from inputs: the compiler then knows they are equal."""
    placeholders = graph.find_nodes(op="placeholder")
    found: dict[Any, tuple[fx.Node, int]] = {}
    for node in placeholders:
        if isinstance(node.meta["val"], torch.Tensor):
            for axis, size in enumerate(node.meta["val"].shape):
                if isinstance(size, torch.SymInt):
                    found.setdefault(size.node.expr, (node, axis))
    last = placeholders[-1] if placeholders else None
    for node in placeholders:
        value = node.meta["val"]
        if not isinstance(value, torch.SymInt) or value.node.expr not in found or not node.users or last is None:
            continue
        with graph.inserting_after(last):
            size = graph.call_function(torch.ops.aten.sym_size.int, found[value.node.expr])
        size.meta["val"] = value
        node.replace_all_uses_with(size)


def _split_results(graph: fx.Graph, numbers: Mapping[fx.Node, int]) -> tuple[list[Result], list[fx.Node]]:
    """Leave only what is computed among the outputs, each once; returns where all results come from, and these."""
    (values,) = graph.output_node().args
    results, outputs = [], list[fx.Node]()
    for value in values if isinstance(values, list | tuple) else [values]:
        if not isinstance(value, fx.Node):
            results.append(Result(value=value))
        elif value in numbers:
            results.append(Result(source=numbers[value]))
        else:
            if value not in outputs:
                outputs.append(value)
            results.append(Result(output=outputs.index(value)))
    graph.output_node().args = (tuple(outputs),)
    return results, outputs


def _refuse(graph: fx.Graph, outputs: Sequence[fx.Node]) -> None:
    """Raise `Unsupported` for every node that has no counterpart, or another meaning than in PyTorch."""
    private = _private()
    problems = []
    for node in graph.nodes:
        value = node.meta.get("val")
        for item in value if isinstance(value, list | tuple) else [value]:
            if (
                isinstance(item, torch.Tensor)
                and item.dtype.is_complex
                and (node.op == "placeholder" or node in outputs)
            ):
                problems.append(f"{_describe(node)}: inputs and outputs of complex numbers are not supported")
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        if torch.Tag.nondeterministic_seeded in node.target.tags and not _is_certain(node):
            problems.append(f"{_describe(node)}: it takes random numbers from PyTorch's generator")
        elif node.target not in private.known and not node.target.name().startswith("aten::_assert"):
            problems.append(f"{_describe(node)}: PyTorch's exporter has no ONNX operator for it")
        elif (reason := private.dispatch(node))[0] is None:
            problems.append(f"{_describe(node)}: {reason[1]}")
    if problems:
        raise Unsupported(_listing(problems), problems)


def _is_certain(node: fx.Node) -> bool:
    """Whether an operator that may draw random numbers does not: dropout of nothing, or outside of training."""
    schema = node.target._schema.arguments
    values = {argument.name: argument.default_value for argument in schema} | node.kwargs
    values |= zip((argument.name for argument in schema), node.args, strict=False)
    return values.get("train", True) is False or any(values.get(name) == 0 for name in ("p", "dropout", "dropout_p"))


def _program(module: fx.GraphModule) -> ExportedProgram:
    """Wrap a graph for the exporter: all placeholders are inputs of the user, tensors that it holds are constants."""
    graph, constants = module.graph, dict[str, Any]()
    specs = [InputSpec(InputKind.USER_INPUT, _argument(node), None) for node in graph.find_nodes(op="placeholder")]
    for node in graph.find_nodes(op="get_attr"):
        value = getattr(module, node.target, None)
        if not isinstance(value, torch.Tensor):
            continue
        with graph.inserting_before():  # all others
            constant = graph.placeholder(node.name)
        constant.meta["val"] = node.meta.get("val", value)
        node.replace_all_uses_with(constant)
        graph.erase_node(node)
        constants[node.target] = value
        specs.insert(0, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(constant.name), node.target))
    module.recompile()
    (outputs,) = graph.output_node().args
    assert isinstance(outputs, tuple)
    made = [OutputSpec(OutputKind.USER_OUTPUT, _argument(node), None) for node in outputs]
    in_tree = _pytree.tree_flatten((tuple(range(len(specs) - len(constants))), {}))[1]
    out_tree = _pytree.tree_flatten(tuple(range(len(made))))[1]
    call = ModuleCallEntry("", ModuleCallSignature([], [], in_tree, out_tree))
    signature = ExportGraphSignature(specs, made)
    return ExportedProgram(module, graph, signature, {}, {}, [call], None, constants)


_SYMBOLS = {torch.SymInt: SymIntArgument, torch.SymFloat: SymFloatArgument, torch.SymBool: SymBoolArgument}


def _argument(node: Any) -> Any:
    return _SYMBOLS.get(type(node.meta["val"]), TensorArgument)(name=node.name)


def _describe(node: fx.Node) -> str:
    """Name, operator and line of the program."""
    place = _place(node.meta.get("stack_trace"))
    return f'"{node.name}" ({node.target}{", " + place if place else ""})'


def _place(trace: str | None) -> str:
    """Innermost line of a stack trace."""
    lines = re.findall(r'File "([^"]+)", line (\d+)', trace or "")
    return f"{lines[-1][0]}:{lines[-1][1]}" if lines else ""


def _origins(model: onnx_ir.Model) -> Iterator[tuple[str, str]]:
    for node in model.graph.all_nodes():
        described = re.match(r"%(\w+).*target=([\w.:]+)", node.metadata_props.get("pkg.torch.onnx.fx_node", ""))
        if described and node.name:
            place = _place(node.metadata_props.get("pkg.torch.onnx.stack_trace"))
            yield node.name, f'"{described[1]}" ({described[2]}{", " + place if place else ""})'


def _reason(error: BaseException) -> str:
    """Messages of an exception and of what caused it, first lines only."""
    lines = [str(error).split("\n")[0]]
    while (cause := error.__cause__) is not None:
        lines.append(str(cause).split("\n")[0])
        error = cause
    return ": ".join(lines)


def _listing(problems: Sequence[str]) -> str:
    return "\n".join(["the FX graph cannot be converted to ONNX:", *(f"  {problem}" for problem in problems)])
