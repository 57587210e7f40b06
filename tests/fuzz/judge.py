"""Runs one graph everywhere and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from refactor_graph import Error, Executor, InternalError, InvalidModel, Unsupported
from refactor_graph.onnx import make_compiler

from tests.fuzz.graph import MAX_ELEMENTS, Graph
from tests.fuzz.oracle import NodeFailure, difference, evaluate, reads, run_onnxruntime

_MIXING = frozenset(
    {
        *("AveragePool", "Conv", "ConvTranspose", "DFT", "Einsum", "Gemm", "GridSample", "LRN", "MatMul"),
        *("Resize", "Upsample"),
    }
)
"""Operators with products that may be left out where a factor is zero, or are added in any order."""

_BROADCASTS = 8
"""First operator set whose operators all broadcast: the library lets them do so in any."""

_SIZES = 3
"""Most other sizes that an executor runs with."""

_MISFITS = 6
"""Most axes that are tried: `onnx.reference` is slow."""

_LOOSE = frozenset({"GroupNormalization", "NegativeLogLikelihoodLoss", "PRelu", "SoftmaxCrossEntropyLoss"})
"""Operators for which the oracles take sizes that the standard forbids, or that broadcast only sizes known to be 1.

The same goes for all of com.microsoft: onnxruntime takes a skip of another batch than its input, say.
"""

PASSED, REFUSED, DISPUTED = "passed", "refused", "disputed"
"""Verdicts that are no findings: "refused" is not supported, about "disputed" the oracles do not agree."""


@dataclass(frozen=True)
class Verdict:
    """What became of a graph.

    Attributes
    ----------
    kind
        "passed", "refused", "disputed", or a kind of finding: "wrong", "doubtful" (a node that `onnx.reference` alone
        can tell about), "stale" (after a run with other sizes, or beside a clone), "accepted" (sizes
        that contradict each other), "invalid", "internal", "failed", "crash", "hang".
    detail
        What exactly.
    """

    kind: str
    detail: str = ""

    @property
    def finding(self) -> bool:
        """Return whether it is a defect of the library."""
        return self.kind not in (PASSED, REFUSED, DISPUTED)


def _compile(graph: Graph) -> Executor | Verdict:
    """Return an executor for the graph; half of them without algorithms that change the error bound."""
    precision = "exact" if len(graph.nodes) % 2 == 0 else "default"
    large = max(np.size(graph.values[name]) for name in graph.inputs or graph.outputs) > MAX_ELEMENTS
    threads = 2 if large != (len(graph.nodes) % 5 == 0) else 1
    return compile_graph(graph, num_threads=threads, precision=precision)


def compile_graph(graph: Graph, **options: Any) -> Executor | Verdict:
    """Return an executor for the graph, made with options of `Compiler.compile`."""
    try:
        return make_compiler(graph.model()).compile(verify=True, **options)
    except Unsupported as error:
        return Verdict(REFUSED, error.problems[0])
    except InvalidModel as error:
        return Verdict("invalid", error.problems[0])
    except InternalError as error:
        return Verdict("internal", str(error))
    except Error as error:
        return Verdict("failed", f"{type(error).__name__} in compile: {error}")


def run(executor: Executor, graph: Graph) -> dict[str, Any] | Verdict:
    """Return the library's results."""
    try:
        return dict(executor(graph.feeds()))
    except Unsupported as error:
        return Verdict(REFUSED, str(error))
    except InternalError as error:
        return Verdict("internal", str(error))
    except Error as error:
        return Verdict("failed", f"{type(error).__name__}: {error}")


def judge(graph: Graph, note: Callable[[str], None] = lambda stage: None) -> Verdict:
    """Return what is wrong with the library's results for a graph.

    Parameters
    ----------
    graph
        A legal graph with the values that `onnx.reference` gives.
    note
        Is told what runs next: if the process dies, that is to blame.
    """
    note("refactor_graph")
    executor = _compile(graph)
    ours = executor if isinstance(executor, Verdict) else run(executor, graph)
    if isinstance(ours, Verdict):
        if ours.kind in (REFUSED, "internal"):
            return ours
        note("onnxruntime")
        theirs = run_onnxruntime(graph.model(), graph.feeds())
        # A model that onnxruntime refuses as well may be one that only `onnx.reference` lets pass.
        return ours if isinstance(theirs, list) else Verdict(DISPUTED, f"{ours.detail} / {theirs}")
    disturbed = _disturbed(graph)
    problems = _differences(graph, ours, disturbed)
    if problems:
        note("onnxruntime")
        verdicts = [_settle(graph, name, ours[name], found, disturbed, note) for name, found in problems.items()]
        return next((verdict for verdict in verdicts if verdict.finding), verdicts[0])
    assert not isinstance(executor, Verdict)
    if not graph.symbolic:
        return Verdict(PASSED)
    verdict = _again(graph, executor, ours, note)
    return _misfit(graph, executor, note) if verdict.kind == PASSED else verdict


def _misfit(graph: Graph, executor: Executor, note: Callable[[str], None]) -> Verdict:
    """Run the executor of a passed graph with inputs that contradict each other or the constants."""
    others = misfits(graph)
    note("onnxruntime")
    if not others or isinstance(run_onnxruntime(graph.model(), graph.feeds()), str):
        return Verdict(PASSED)
    for other in others:
        note("refactor_graph")
        results = run(executor, other)
        if isinstance(results, Verdict):
            if results.kind == "internal":
                return results
            continue
        note("onnxruntime")
        theirs = run_onnxruntime(graph.model(), other.feeds())
        if isinstance(theirs, str) and any(np.size(value) for value in results.values()):
            sizes = {name: list(array.shape) for name, array in other.feeds().items()}
            found = {name: list(np.shape(value)) for name, value in results.items()}
            return Verdict("accepted", f"inputs {sizes} gave {found}, onnxruntime refuses: {theirs}")
    return Verdict(PASSED)


def misfits(graph: Graph) -> list[Graph]:
    """Return the graph with inputs that `onnx.reference` cannot compute it for: one axis of one input is longer."""
    found: list[Graph] = []
    computed = _computed(graph)
    if graph.opset < _BROADCASTS or any(node.domain for node in graph.nodes):
        return found
    arrays = {name: graph.values[name] for name in graph.inputs if not isinstance(graph.values[name], list)}
    for name, axis in [(name, axis) for name, array in arrays.items() for axis in range(array.ndim)][:_MISFITS]:
        shape = [size + (k == axis) for k, size in enumerate(arrays[name].shape)]
        values = graph.values | {name: np.resize(arrays[name], shape)}
        other = replace(graph, values=values)
        try:
            evaluate(other)
        except NodeFailure as failure:
            if failure.output in computed:
                found.append(other)
    return found


def _computed(graph: Graph) -> set[str]:
    """Return the tensors whose elements the outputs need; of others, nobody asks more than the sizes."""
    needed = set(graph.outputs)
    for node in reversed(graph.nodes):
        if needed & set(node.output) and node.op_type not in ("Shape", "Size"):
            needed |= reads(node) | set(node.output)
    return needed


def _again(graph: Graph, executor: Executor, first: dict[str, Any], note: Callable[[str], None]) -> Verdict:
    """Run the executor of a passed graph with inputs of other sizes, with the first ones again, and beside a clone."""
    others = list(islice(resizings(graph), _SIZES))
    expected = [(graph, first)]
    for other in others:
        results = run(executor, other)
        if isinstance(results, Verdict) or _differences(other, results, _disturbed(other)):
            alone = judge(replace(other, symbolic=False), note)
            if alone.kind != PASSED:
                return alone
            sizes = {name: list(array.shape) for name, array in other.feeds().items()}
            what = results.detail if isinstance(results, Verdict) else str(_differences(other, results, []))
            return Verdict("stale", f"wrong with inputs {sizes} after a run with others: {what}")
        expected.append((other, results))
    second = run(executor, graph) if others else first
    if isinstance(second, Verdict):
        return Verdict("stale", f"a second run with the same inputs fails: {second.detail}")
    changed = [name for name, value in first.items() if not identical(value, second[name])]
    if changed:
        return Verdict("stale", f"a second run with the same inputs changes {changed}")
    return beside_a_clone(executor, expected)


def beside_a_clone(executor: Executor, expected: list[tuple[Graph, dict[str, Any]]]) -> Verdict:
    """Run the executor and a clone at once, through all sizes, each in another order."""
    clone = executor.clone()

    def check(runner: Executor, order: list[tuple[Graph, dict[str, Any]]]) -> str | None:
        for graph, wanted in order:
            results = run(runner, graph)
            if isinstance(results, Verdict):
                return results.detail
            changed = [name for name, value in wanted.items() if not identical(value, results[name])]
            if changed:
                return f"changed {changed}"
        return None

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(check, executor, expected * 2), pool.submit(check, clone, expected[::-1] * 2)]
        found = [job.result() for job in jobs]
    return next((Verdict("stale", f"beside a clone: {text}") for text in found if text), Verdict(PASSED))


def identical(first: Any, second: Any) -> bool:
    """Return whether two results have the same bits."""
    if isinstance(first, list):
        return len(first) == len(second) and all(map(identical, first, second))
    if first.dtype == object:
        return bool(first.shape == second.shape and (first == second).all())
    return bool(first.shape == second.shape and first.tobytes() == second.tobytes())


def free_sizes(graph: Graph) -> set[int]:
    """Return the sizes of the inputs that may be others, but 0; none if there are sequences."""
    if any(isinstance(graph.values[name], list) for name in graph.inputs):
        return set()
    shapes = {name: graph.values[name].shape for name in graph.inputs}
    found = {(name, axis): size for name, shape in shapes.items() for axis, size in enumerate(shape)}
    return {size for place, size in found.items() if size and place not in graph.fixed}


def with_size(graph: Graph, size: int, other: int) -> Graph:
    """Return the graph with inputs whose axes of a size have another one; their values alone are those of the graph."""
    values = dict(graph.values)
    for name in graph.inputs:
        lengths = enumerate(graph.values[name].shape)
        shape = [other if k == size and (name, axis) not in graph.fixed else k for axis, k in lengths]
        values[name] = np.resize(graph.values[name], shape)
    return replace(graph, values=values)


def resized(graph: Graph) -> Graph | None:
    """Return the graph with inputs of other sizes and what follows from them; None if nothing fits."""
    return next(resizings(graph), None)


def resizings(graph: Graph) -> Iterator[Graph]:
    """Make graphs with inputs of other sizes and what follows from them."""
    if any(node.op_type in _LOOSE or node.domain for node in graph.nodes):
        return
    sizes = sorted(free_sizes(graph))
    for size, change in [(size, change) for change in (1, 2, -1) for size in sizes if size + change][:6]:
        other = with_size(graph, size, size + change)
        try:
            other.values = evaluate(other)
        except NodeFailure:
            continue
        yield other


def _differences(graph: Graph, results: dict[str, Any], disturbed: list[dict[str, Any]]) -> dict[str, str]:
    """Return by output how results differ from those of `onnx.reference`."""
    found = {
        name: difference(results[name], graph.values[name], [values[name] for values in disturbed])
        for name in graph.outputs
    }
    return {name: text for name, text in found.items() if text is not None}


def _only_infinite(part: Graph, mine: Any, name: str, samples: list[Any]) -> bool:
    """Return whether a result differs only where infinities or NaN come out of several terms, in whatever order."""
    mixes = len(part.nodes) > 1 or part.nodes[0].op_type in _MIXING
    return mixes and difference(mine, part.values[name], samples, finite_only=True) is None


def _settle(
    graph: Graph, name: str, mine: Any, text: str, disturbed: list[dict[str, Any]], note: Callable[[str], None]
) -> Verdict:
    """Return who is right about an output that differs from `onnx.reference`.

    onnxruntime decides; where it cannot run what makes the output, a node that differs by itself is looked for, and it
    decides on that. If no node differs by itself, the library has lost something in between.
    """
    part = graph.part([name])
    where = f"{part.nodes[0].op_type}, opset {graph.opset}, " if len(part.nodes) == 1 else ""
    text = f"{where}{name}: {text}"
    theirs = run_onnxruntime(part.model(), part.feeds())
    if isinstance(theirs, list):
        samples = [values[name] for values in disturbed]
        if difference(theirs[0], graph.values[name], samples) is None and not _only_infinite(part, mine, name, samples):
            return Verdict("wrong", f"{text} (onnxruntime agrees with onnx.reference)")
        other = theirs[0] if isinstance(theirs[0], list) else np.asarray(theirs[0])
        if difference(mine, other, samples) is None:
            return Verdict(DISPUTED, f"{text} (onnxruntime agrees with us)")
    for node in part.nodes:
        if len(part.nodes) == 1:
            break
        single = graph.part([item for item in node.output if item], [node])
        single.symbolic = False
        verdict = judge(single, note)
        if verdict.kind != PASSED:
            return verdict
    if _only_infinite(part, mine, name, [values[name] for values in disturbed]):
        return Verdict(DISPUTED, f"{text} (only where results are not finite)")
    reason = f"refuses: {theirs[:100]}" if isinstance(theirs, str) else "has another result still"
    # One node, and nobody agrees with anybody: the reference may be wrong.
    return Verdict("wrong" if len(part.nodes) > 1 else "doubtful", f"{text} (onnxruntime {reason})")


def _disturbed(graph: Graph) -> list[dict[str, Any]]:
    samples = []
    for seed in range(3):
        try:
            samples.append(evaluate(graph, np.random.default_rng(seed)))
        except NodeFailure:
            continue
    return samples
