"""The `torch.compile` backend: a model of PyTorch runs on executors of RefactorGraph, for inference.

>>> model = torch.compile(model.eval(), backend="refactor_graph")  # doctest: +SKIP
>>> with torch.no_grad():  # doctest: +SKIP
...     y = model(x)
>>> compiled_graphs()[-1].executors[0].bench()  # doctest: +SKIP

See docs/torch.md. Source: https://docs.pytorch.org/docs/stable/torch.compiler_custom_backends.html
"""

from __future__ import annotations

import inspect
import itertools
import operator
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch.nn import Parameter

from refactor_graph._errors import Error, InvalidInput, InvalidModel, Unsupported
from refactor_graph._torch_export import decompositions, export, keep_composites
from refactor_graph._torch_tensors import content, device_of, onnx_type, reader_for, writer_for
from refactor_graph.executor import Executor
from refactor_graph.onnx import Compiler, _find_targets

__all__ = ["CompiledGraph", "compile_fx", "compiled_graphs"]

_OPTIONS = [name for name in inspect.signature(Compiler.compile).parameters if name not in ("self", "keep")]
_OPTIONS += ["fallback"]
_NOT_POSSIBLE = (Unsupported, InvalidModel)
"""Errors that are about a graph, and not about options or devices: `fallback` is for these."""

_address: Callable[[Tensor], int] = Tensor.data_ptr
_version: Callable[[Tensor], int] = operator.attrgetter("_version")
_numbers = itertools.count()
_graphs: weakref.WeakValueDictionary[int, CompiledGraph] = weakref.WeakValueDictionary()


def compile_fx(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile one graph of Dynamo: what `torch.compile(model, backend="refactor_graph", options={...})` calls.

    Parameters
    ----------
    module
        The graph.
    example_inputs
        What it is called with the first time.
    options
        Keywords of `Compiler.compile`: `target` (by default where the inputs are), `allocator`, `passes`, `num_threads`
        (by default `torch.get_num_threads()`), `precision`, `weights`, `tune` and so on. With `fallback=True` a graph
        that cannot be compiled runs in eager mode, after a warning with the reasons.
    mode
        None or "default": other modes are inductor's.

    Returns
    -------
    Callable
        Takes the inputs of the graph. What makes a graph impossible to compile is raised as it is by the first call
        (what a backend raises while it compiles would reach the user as a `BackendCompilerFailed` of Dynamo):
        `InvalidInput` for an unknown option; `Unsupported` where gradients are needed, and, as `InvalidModel`, naming
        every node with the reasons, that of FX and that of ONNX.
    """
    error: Error
    compiled: Callable[..., Any]
    try:
        settings = _checked(options, mode)
        names = [node.name for node in module.graph.find_nodes(op="placeholder")]
        with keep_composites():
            backend = aot_autograd(
                fw_compiler=_refuse_training,
                inference_compiler=lambda graph, inputs: CompiledGraph(graph, names, settings),
                decompositions=decompositions(),
            )
            compiled = backend(module, example_inputs)
            return compiled
    except _NOT_POSSIBLE as refusal:
        if settings.get("fallback"):
            _warn(refusal)
            compiled = module.forward
            return compiled
        error = refusal
    except Error as refusal:
        error = refusal

    def refuse(*args: Any) -> Any:
        raise error.with_traceback(None)

    return refuse


def _checked(options: Mapping[str, Any] | None, mode: str | None) -> dict[str, Any]:
    """Return the options; raises `InvalidInput` for unknown ones."""
    if mode not in (None, "default"):
        raise InvalidInput(f"mode {mode!r} is one of inductor's, this backend has options: {', '.join(_OPTIONS)}")
    settings = dict(options or {})
    unknown = [repr(name) for name in settings if name not in _OPTIONS]
    if unknown:
        raise InvalidInput(f"unknown options {', '.join(unknown)}, expected some of: {', '.join(_OPTIONS)}")
    if settings.get("fallback", False) not in (True, False):
        raise InvalidInput(f"fallback: expected True or False, got {settings['fallback']!r}")
    return settings


def _refuse_training(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    raise Unsupported(
        "an input or parameter requires grad and gradients are on, but compiled graphs have no backward pass: call the "
        "model under torch.no_grad() or torch.inference_mode()"
    )


def _warn(error: Error) -> None:
    warnings.warn(f"a graph runs in eager mode: {error}", RuntimeWarning, stacklevel=2)


def compiled_graphs() -> list[CompiledGraph]:
    """All graphs of this process that are alive, in the order in which they were compiled.

    `torch.compiler.reset()` drops them. Their executors are as all executors: `graph.executors[0].bench()`, `trace`
    and `dbg` repeat or describe the last call.
    """
    return [graph for _, graph in sorted(_graphs.items())]


class _Variant:
    """A graph with the weights of one module: an executor for each call that is under way at the same time.

    Attributes
    ----------
    executors
        All of them.
    spare
        Those that no call uses: popped by a call, and appended again after it.
    versions
        How often each weight had been written to when it was read, as `count` tells.
    """

    def __init__(self, weights: Sequence[Tensor], make: Callable[[], Executor]) -> None:
        self.count = _version_if_any if any(weight.is_inference() for weight in weights) else _version
        self.versions = tuple(map(self.count, weights))  # before they are read
        executor = make()
        self.executors = [executor]
        self.spare = [executor]
        self._origin = executor.clone()  # has never run, so that it may be cloned while others run
        self._lock = threading.Lock()

    def is_of(self, weights: Sequence[Tensor]) -> bool:
        """Whether the weights, which lie where those of this variant do, have not been written to since."""
        return self.versions == tuple(map(self.count, weights))

    def another(self) -> Executor:
        """Return an executor more, for a call while all others are in use."""
        with self._lock:
            self.executors.append(self._origin.clone())
            return self.executors[-1]


class CompiledGraph:
    """One graph of a compiled model, called by PyTorch.

    Weights (parameters, and other tensors of modules that the graph does not write to) are constants, packed and fused
    when a call first brings them. A call with others, or with ones that were written to since, compiles anew; a buffer
    that was written to twice is an input from then on. Threads may call it at the same time: each call that is under
    way has an executor of its own, cloned from the first.

    Attributes
    ----------
    exported
        The graph as ONNX (`exported.proto`, without weights), and what its nodes stand for.
    number
        How many graphs were compiled before.
    refusal
        Why the graph runs in eager mode, None if it does not.
    """

    _boxed_call = True  # for PyTorch: the arguments come as a list that is ours

    def __init__(self, graph: fx.GraphModule, names: Sequence[str], options: Mapping[str, Any]) -> None:
        self.number = next(_numbers)
        self.refusal: Error | None = None
        self._eager = graph.forward if options.get("fallback") else None
        self._options = {"num_threads": torch.get_num_threads(), **options}
        self._options.pop("fallback", None)
        self._variants: dict[tuple[int, ...], _Variant] = {}
        self._writes: Counter[int] = Counter()
        self._lock = threading.Lock()
        try:
            self.exported = export(graph, names)
            self._inputs = {number: (name, example) for name, number, example in self.exported.inputs}
            self._place()
            self._choose_constants(_constants() & self._inputs.keys())
        except _NOT_POSSIBLE as error:
            self._fall_back(error)
        _graphs[self.number] = self

    def _place(self) -> None:
        """Find the device, and how values come in and go out."""
        examples = [example for _, example in self._inputs.values()]
        place = device_of([*examples, *self.exported.outputs])
        target = self._options.setdefault("target", place)
        self._on_host = _find_targets(target)[0].kind == "cpu"
        if self._on_host != (place == "cpu"):
            raise InvalidInput(f"target {target!r}, but the tensors of the graph are on {place}")
        self._readers = {number: reader_for(example) for number, (_, example) in self._inputs.items()}
        self._writers = [writer_for(example) for example in self.exported.outputs]
        self._in_order = [result.output for result in self.exported.results] == list(range(len(self._writers)))

    def _choose_constants(self, numbers: Iterable[int]) -> None:
        self._weights = sorted(numbers)
        self._pick = _picker(self._weights)
        self._read = [(number, read) for number, read in self._readers.items() if number not in numbers]
        self._variants.clear()

    @property
    def executors(self) -> list[Executor]:
        """Executors made so far, those for the weights that came last at the end."""
        return [executor for variant in list(self._variants.values()) for executor in variant.executors]

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        """Run the graph once; `args` is emptied."""
        # While Dynamo is active every Python function costs about as much as the run of a small model: there is one.
        if self.refusal is not None:
            return self._run_eagerly(args)
        weights = self._pick(args)
        variant = self._variants.get(tuple(map(_address, weights)))
        if variant is None or variant.versions != tuple(map(variant.count, weights)):
            try:
                variant = self._compile(args)
            except _NOT_POSSIBLE as error:
                self._fall_back(error)
                return self._run_eagerly(args)
        try:
            executor = variant.spare.pop()
        except IndexError:
            executor = variant.another()
        values, made = [], []
        try:
            for number, read in self._read:
                values.append(read(args[number]))
            if self._on_host:
                outputs: Iterable[Any] = executor(*values).values()
            else:
                outputs = self._run_on_device(executor, values)
        finally:
            variant.spare.append(executor)
        write = iter(self._writers)
        for output in outputs:
            made.append(next(write)(output))
        if not self._in_order:
            made = [result.of(args, made) for result in self.exported.results]
        args.clear()
        return made

    def _run_on_device(self, executor: Executor, values: Sequence[Any]) -> list[Any]:
        """Run in PyTorch's current stream; nothing waits."""
        for number, value in enumerate(values):
            executor.set_input_blob(number, value)
        executor.run(stream=torch.cuda.current_stream(executor.device.ordinal).cuda_stream)
        return [executor.get_output_blob(number) for number in range(len(self._writers))]

    def _run_eagerly(self, args: list[Any]) -> Sequence[Any]:
        assert self._eager is not None
        values = list(args)
        args.clear()
        made: Sequence[Any] = self._eager(*values)
        return made

    def _fall_back(self, error: Error) -> None:
        if self._eager is None:
            raise error
        _warn(error)
        self.refusal = error

    def _compile(self, args: list[Any]) -> _Variant:
        """Return an executor for the weights of a call, compiled unless another thread has just done so."""
        with self._lock:
            weights = self._pick(args)
            old = self._variants.get(tuple(map(_address, weights)))
            if old is not None:
                if old.is_of(weights):
                    return old
                self._note_writes(weights, old)
                weights = self._pick(args)
            variant = _Variant(weights, lambda: self._make(weights))
            key = tuple(map(_address, weights))
            self._variants[key] = variant
            if weights:  # when the module goes, so does what was compiled for it
                weakref.finalize(weights[0], self._variants.pop, key, None).atexit = False
            return variant

    def _make(self, weights: Sequence[Tensor]) -> Executor:
        """Compile with these weights."""
        contents = {
            self._inputs[number][0]: (onnx_type(weight.dtype), weight.shape, content(weight))
            for number, weight in zip(self._weights, weights, strict=True)
        }
        try:
            return Compiler(self.exported.load(f"FX graph {self.number}", contents)).compile(**self._options)
        except _NOT_POSSIBLE as error:
            problems = [self.exported.explain(problem) for problem in error.problems]
            raise type(error)("\n  ".join([str(error).split("\n")[0], *problems]), problems) from None

    def _note_writes(self, weights: Sequence[Tensor], old: _Variant) -> None:
        """Make inputs of the buffers that keep changing."""
        for number, weight, before in zip(self._weights, weights, old.versions, strict=True):
            if old.count(weight) != before and not isinstance(weight, Parameter):
                self._writes[number] += 1
        changing = {number for number, count in self._writes.items() if count > 1}
        if changing & set(self._weights):
            self._choose_constants(set(self._weights) - changing)

    def __repr__(self) -> str:
        if self.refusal is not None:
            return f"<CompiledGraph {self.number}: in eager mode>"
        nodes, executors = len(self.exported.proto.graph.node), len(self.executors)
        return f"<CompiledGraph {self.number}: nodes: {nodes}, executors: {executors}>"


def _constants() -> set[int]:
    """Numbers of the inputs of the graph being compiled that are tensors of modules, and not written to."""
    context = TracingContext.try_get()
    found = context.fw_metadata if context else None
    if found is None:
        return set()
    return {number for number in found.static_input_indices if not found.input_info[number].mutates_data}


def _picker(numbers: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Tensor]]:
    if len(numbers) > 1:
        return operator.itemgetter(*numbers)
    return lambda args: [args[number] for number in numbers]


def _version_if_any(weight: Tensor) -> int:
    """How often a tensor was written to; those that were made in inference mode do not count."""
    return 0 if weight.is_inference() else _version(weight)
