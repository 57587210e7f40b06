"""Which optimisation pass changes the results of a model, and at which tensor that begins.

>>> from refactor_graph.bisect import find_pass
>>> print(find_pass("model.onnx", {"input": array}, tolerance=1e-3))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from refactor_graph import _core
from refactor_graph._errors import InvalidInput
from refactor_graph._load import ModelSource
from refactor_graph.onnx import Compiler, make_compiler
from refactor_graph.precision import relative_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from refactor_graph.executor import Executor

__all__ = ["Finding", "TensorDifference", "find_pass"]

MOST_TENSORS = 5
"""Tensors that a finding lists: those behind the first differ because it does."""


@dataclass(frozen=True)
class TensorDifference:
    """A tensor that exists with and without a pass and differs: the result of a step, in running order."""

    tensor: str
    node: str
    kernel: str
    error: float


@dataclass(frozen=True)
class Finding:
    """What `find_pass` found; `str` of it is a report."""

    tolerance: float
    error: float
    """Of the outputs with all passes."""
    error_without_any: float
    """Of the outputs without passes: 0 unless `wanted` was given."""
    name: str | None = None
    """The pass with which the tolerance is exceeded first, if that is what a pass does."""
    error_before: float = 0
    """With the passes before it, in the order of `pass_names()`."""
    error_after: float = 0
    """With these and it."""
    error_without: float = 0
    """With all passes but it."""
    notes: list[str] = field(default_factory=list)
    """What the pass said of its changes."""
    tensors: list[TensorDifference] = field(default_factory=list)
    """The first tensors that it makes differ by more than the tolerance, at most `MOST_TENSORS`."""

    def __str__(self) -> str:
        if self.name is None:
            return self._no_pass()
        lines = [
            f"pass {self.name}: the error is {self.error_before:.3g} with the passes before it, {self.error_after:.3g} "
            f"with it, more than {self.tolerance:.3g}",
            f"with all passes: {self.error:.3g}; with all but this one, passes=[{'-' + self.name!r}]: "
            f"{self.error_without:.3g}",
        ]
        lines += [f"note: {note}" for note in self.notes]
        lines += [
            f"tensor {item.tensor!r}: error {item.error:.3g}, made by node {item.node!r} ({item.kernel})"
            for item in self.tensors
        ]
        if not self.tensors:
            lines.append("no tensor that exists with and without the pass differs so much, but outputs do")
        return "\n".join(lines)

    def _no_pass(self) -> str:
        if self.error <= self.tolerance:
            return f"no pass: with all of them the error is {self.error:.3g}, not more than {self.tolerance:.3g}"
        return (
            f"no pass: without any the error is {self.error_without_any:.3g} already, more than {self.tolerance:.3g}; "
            'try precision="exact" and REFACTOR_GRAPH_ISA=scalar; `Executor.trace` writes every tensor'
        )


def find_pass(
    model: ModelSource | Compiler,
    inputs: Mapping[str, Any],
    tolerance: float,
    *,
    wanted: Mapping[str, Any] | None = None,
    error: Callable[[Mapping[str, Any], Mapping[str, Any]], float] = relative_error,
    target: str | Sequence[str] = "cpu",
    **options: Any,
) -> Finding:
    """Find the pass with which the outputs of a model become wrong.

    Passes are switched on in the order of `refactor_graph.pass_names()`; how many it takes is found by halving, in
    about `log2 n` compilations. If several passes change results, it is the first of them.

    Parameters
    ----------
    model
        As of `make_compiler`, or a `Compiler`.
    inputs
        Inputs by name, for which results differ.
    tolerance
        Largest `error` of the outputs that is no fault: rounding differs with every fusion (for f32, 1e-5 is typical,
        1e-3 for deep models).
    wanted
        Right outputs by name (of onnxruntime, PyTorch …); without: those of the model compiled without passes, with
        `precision="exact"`.
    error
        Called with outputs and wanted outputs, both by name.
    target, options
        Of `Compiler.compile`, but for `passes`.

    Returns
    -------
    Finding
        The pass, errors with and without it, and the tensors at which results begin to differ. Its name is None if
        all passes together keep the tolerance, or not even the model without passes does.

    Raises
    ------
    InvalidInput
        If an argument makes no sense.
    """
    if not tolerance >= 0:
        raise InvalidInput(f"find_pass: expected a tolerance of at least 0, got {tolerance!r}")
    if "passes" in options:
        raise InvalidInput("find_pass: passes are what it chooses")
    compiler = model if isinstance(model, Compiler) else make_compiler(model)
    reference = wanted
    if reference is None:
        plain = {**options, "precision": "exact", "weights": "default"}
        reference = compiler.compile(target, passes=["-all"], **plain)(inputs)
    names = _core.pass_names()

    def compiled(selection: list[str]) -> Executor:
        return compiler.compile(target, passes=selection, **options)

    def error_of(selection: list[str]) -> float:
        return error(compiled(selection)(inputs), reference)

    def first(count: int) -> list[str]:
        return ["-all", *names[:count]]

    errors = {0: error_of(first(0)), len(names): error_of([])}
    every, none = errors[len(names)], errors[0]
    if every <= tolerance or not none <= tolerance:
        return Finding(tolerance, every, none)
    good, bad = 0, len(names)
    while bad - good > 1:
        middle = (good + bad) // 2
        errors[middle] = error_of(first(middle))
        good, bad = (middle, bad) if errors[middle] <= tolerance else (good, middle)
    name, with_it = names[good], compiled(first(bad))
    notes = [note for report in with_it.program.passes if report.name == name for note in report.notes]
    tensors = _differences(compiled(first(good)), with_it, inputs, tolerance)
    without = error_of([f"-{name}"])
    return Finding(tolerance, every, none, name, errors[good], errors[bad], without, notes, tensors)


def _differences(
    before: Executor, after: Executor, inputs: Mapping[str, Any], tolerance: float
) -> list[TensorDifference]:
    """Compare what steps of both make, by the names of tensors."""
    for executor in (before, after):
        for name, array in inputs.items():
            executor.set_input(name, array)
    known: dict[str, NDArray[Any]] = {}

    def keep(_step: int, _node: str, _edge: int, name: str, array: NDArray[Any], is_output: bool) -> None:
        if is_output:
            known[name] = array.copy()

    before.visit(keep)
    kernels = [row.kernel for row in after.bench(repeats=1, quiet=True)]
    found: list[TensorDifference] = []

    def compare(step: int, node: str, _edge: int, name: str, array: NDArray[Any], is_output: bool) -> None:
        other = known.get(name)
        if not is_output or other is None or other.shape != array.shape or len(found) == MOST_TENSORS:
            return
        error = relative_error({name: array}, {name: other.astype(array.dtype)})
        if not error <= tolerance:
            found.append(TensorDifference(name, node, kernels[step], error))

    after.visit(compare)
    return found
