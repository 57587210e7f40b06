"""Judges executors of a lower precision beside ours of f32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np
import onnx
from refactor_graph._core import instruction_set

from tests.fuzz.graph import Graph
from tests.fuzz.judge import (
    DISPUTED,
    PASSED,
    REFUSED,
    Verdict,
    beside_a_clone,
    compile_graph,
    free_sizes,
    identical,
    resizings,
    run,
    with_size,
)
from tests.fuzz.oracle import Array, NodeFailure, Rounding, difference, evaluate_rounded, reads, worst

_CONTRIB_MATMULS = frozenset(
    {
        *("Attention", "CDist", "FusedGemm", "FusedMatMul", "GemmFastGelu", "MatMulBnb4", "MatMulNBits"),
        "TransposeMatMul",
    }
)
"""Operators of com.microsoft that are, or begin with, a matrix product."""

PRECISIONS = {
    "bf16": Rounding(2.0**-8),
    "int8": Rounding(2.0**-7, of_largest=True, readers=frozenset({"MatMul", "Gemm"}) | _CONTRIB_MATMULS),
}
"""Errors by precision: twice those of rounding once, as a tensor may be rounded more than once."""

_PRODUCTS = frozenset(
    {
        *("Attention", "CausalConvWithState", "Conv", "ConvTranspose", "DFT", "DeformConv", "Einsum", "GRU", "Gemm"),
        *("LSTM", "LinearAttention", "MatMul", "RNN", "STFT"),
        *("ConvTransposeWithDynamicPads", "FusedConv", "GroupQueryAttention", "MultiHeadAttention", "QAttention"),
        *_CONTRIB_MATMULS,
    }
)
"""Operators whose operands may be rounded. A graph without them computes what it computes in f32."""

_EXACT = frozenset({"scalar", "avx2", "avx512"})
"""Instruction sets without products of lower precisions."""

_DECIDING = frozenset(
    {
        *("ArgMax", "ArgMin", "BitCast", "Cast", "CastLike", "Ceil", "DynamicQuantizeLinear", "Equal", "Floor"),
        *("Greater", "GreaterOrEqual", "GridSample", "Hardmax", "If", "IsInf", "IsNaN", "Less", "LessOrEqual", "Loop"),
        *("MaxUnpool", "Mod", "NonMaxSuppression", "NonZero", "QuantizeLinear", "Range", "RoiAlign", "Round"),
        *("Shrink", "Sign", "ThresholdedRelu", "TopK", "Unique", "MaxRoiPool"),
    }
)
"""Operators whose results jump where floats change little."""

_SAMPLES, _MORE = 3, 24
"""Disturbed results beside which one is compared, and those beside which a difference has to remain."""

_LARGEST, _MEAN = 6.0, 2.5
"""Largest error of an element, and of the root of the mean of squares, in units of what disturbing all tensors changes.

Networks reach 2.7 and 0.75.
"""

_SIZES = 2
"""Most other sizes that an executor runs with."""

_VARIANTS: tuple[dict[str, Any], ...] = (
    {"num_threads": 1},
    {"num_threads": 2},
    {"passes": ["-narrow_blocks", "-narrow_rows"]},
)


def _operators(nodes: Any) -> Iterator[onnx.NodeProto]:
    """Nodes, and those of their sub-graphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from _operators(attribute.g.node)


def undecided(graph: Graph) -> set[str]:
    """Return the names of tensors that depend on what rounded floats decide."""
    found: set[str] = set()
    for node in graph.nodes:
        given = reads(node)
        decides = any(item.op_type in _DECIDING for item in _operators([node]))
        decides |= node.op_type == "MaxPool" and len(node.output) == 2
        floats = any(_is_float(graph.values[name]) for name in given - set(graph.constants))
        if given & found or (decides and floats):
            found |= set(node.output)
    return found


def _is_float(value: Any) -> bool:
    return isinstance(value, list) or value.dtype.kind in "fV"


class Tolerance:
    """How far results of a graph in a lower precision may be from those in f32."""

    def __init__(self, graph: Graph, rounding: Rounding) -> None:
        self.graph, self.rounding = graph, rounding
        products = any(node.op_type in _PRODUCTS for node in _operators(graph.nodes))
        self.rounds = products and instruction_set() not in _EXACT
        self.free = undecided(graph)
        self.samples: list[dict[str, Any]] = []
        self.seeds = 0

    def difference(self, results: dict[str, Any], wanted: dict[str, Any]) -> str | None:
        """Return how results differ from those in f32 by more than rounding explains; None if they do not."""
        if not self.rounds:
            changed = [name for name, value in wanted.items() if not identical(value, results[name])]
            return f"{changed} differ from f32, and nothing is to be rounded" if changed else None
        found = ((name, self._difference(name, results[name], wanted[name])) for name in self.graph.outputs)
        return next((f"{name}: {text}" for name, text in found if text), None)

    def _difference(self, name: str, mine: Any, right: Any) -> str | None:
        if name in self.free:
            return None if _type_of(mine) == _type_of(right) else "another type"
        text: str | None = ""
        for count in (_SAMPLES, _MORE):
            if text is not None:
                self._disturb(count)
                text = rounding_difference(mine, right, [values[name] for values in self.samples])
        return text

    def _disturb(self, count: int) -> None:
        """Have so many samples, less those with which the graph cannot be computed."""
        while self.seeds < count:
            self.seeds += 1
            with suppress(NodeFailure):
                random = np.random.default_rng(self.seeds)
                self.samples.append(evaluate_rounded(self.graph, random, self.rounding))


class Judge:
    """Judges graphs in one precision."""

    def __init__(self, precision: str) -> None:
        self.precision, self.rounding = precision, PRECISIONS[precision]

    def __call__(self, graph: Graph, note: Callable[[str], None] = lambda stage: None) -> Verdict:
        """Return what is wrong with the library's results for a graph; see `judge.judge`, which f32 is left to."""
        note("refactor_graph")
        tolerance = Tolerance(graph, self.rounding)
        for options in _VARIANTS:
            verdict = self._compare(tolerance, options)
            if verdict.kind != PASSED:
                return verdict
        return self._again(graph) if graph.symbolic else Verdict(PASSED)

    def _compare(self, tolerance: Tolerance, options: dict[str, Any]) -> Verdict:
        """Compile with some options in either precision, and run."""
        graph, name = tolerance.graph, " ".join([self.precision, *(f"{key}={value}" for key, value in options.items())])
        plain = compile_graph(graph, **options)
        wanted = plain if isinstance(plain, Verdict) else run(plain, graph)
        if isinstance(wanted, Verdict):
            return wanted if wanted.kind == REFUSED else Verdict(DISPUTED, f"in f32: {wanted.kind} {wanted.detail}")
        executor = compile_graph(graph, precision=self.precision, **options)
        results = executor if isinstance(executor, Verdict) else run(executor, graph)
        if isinstance(executor, Verdict) or isinstance(results, Verdict):
            assert isinstance(results, Verdict)
            kind = "refuses" if results.kind == REFUSED else results.kind
            return Verdict(kind, f"{name}: {results.detail}, f32 does not")
        text = tolerance.difference(results, wanted)
        if text:
            return Verdict("wrong", f"{name}: {text}")
        second = run(executor, graph)
        changed = [key for key in results if isinstance(second, Verdict) or not identical(results[key], second[key])]
        return Verdict("stale", f"{name}: a second run changes {changed}") if changed else Verdict(PASSED)

    def _again(self, graph: Graph) -> Verdict:
        """Run with inputs of other sizes, with the first ones again, and beside a clone."""
        plain = compile_graph(graph, **_VARIANTS[1])
        executor, fresh = (compile_graph(graph, precision=self.precision, **_VARIANTS[1]) for _ in range(2))
        assert not isinstance(plain, Verdict)
        assert not isinstance(executor, Verdict)
        assert not isinstance(fresh, Verdict)
        first = run(executor, graph)
        assert not isinstance(first, Verdict)
        expected = [(graph, first)]
        for other in islice(resizings(graph), _SIZES):
            sizes = {name: list(array.shape) for name, array in other.feeds().items()}
            wanted = run(plain, other)
            if isinstance(wanted, Verdict):
                continue
            results = run(executor, other)
            if isinstance(results, Verdict):
                return Verdict("stale", f"refuses inputs {sizes}, f32 does not: {results.detail}")
            text = Tolerance(other, self.rounding).difference(results, wanted)
            if text:
                return Verdict("wrong", f"{self.precision} with inputs {sizes}: {text}")
            expected.append((other, results))
        for size in sorted(free_sizes(graph)):
            none = with_size(graph, size, 0)
            wanted, results = run(plain, none), run(executor, none)
            if not isinstance(wanted, Verdict) and isinstance(results, Verdict):
                return Verdict("refuses", f"inputs whose sizes of {size} are 0: {results.detail}, f32 does not")
        for other, results in expected[:0:-1]:
            alone = run(fresh, other)
            if isinstance(alone, Verdict) or not all(identical(results[name], alone[name]) for name in results):
                return Verdict("stale", "other results after runs with other sizes in another order")
        return beside_a_clone(executor, expected)


def _type_of(value: Any) -> Any:
    return list if isinstance(value, list) else (value.dtype, value.ndim)


def rounding_difference(mine: Any, right: Any, samples: Sequence[Any]) -> str | None:
    """Return how a result differs from that of f32 by more than rounding explains; None if it does not.

    The tolerance is a multiple of what disturbing every tensor changes here, or in most elements that change at all;
    all errors together may be a smaller multiple of all changes.
    """
    if isinstance(mine, list) and isinstance(right, list) and len(mine) == len(right):
        pairs = enumerate(zip(mine, right, strict=True))
        parts = [rounding_difference(a, w, [s[i] for s in samples]) for i, (a, w) in pairs]
        return next((f"[{i}] {text}" for i, text in enumerate(parts) if text), None)
    alike = isinstance(mine, np.ndarray) and isinstance(right, np.ndarray) and mine.dtype == right.dtype
    if not alike or mine.shape != right.shape or not right.size or right.dtype.kind not in "fV":
        return difference(mine, right, [])
    if right.dtype.itemsize == 1:
        return None
    samples = [sample.astype(np.float64) for sample in samples if sample.shape == right.shape]
    if not samples:
        return None
    with np.errstate(all="ignore"):
        actual, wanted = mine.astype(np.float64), right.astype(np.float64)
        errors, changes = np.abs(actual - wanted), np.abs(np.stack(samples) - wanted)
        # Where disturbing changes what is finite, or the result is not, anything is right.
        judged = np.isfinite(wanted) & np.isfinite(changes).all(0)
        scale = float(np.abs(wanted[judged]).max(initial=0.0))
        least = 2.0**-20 * scale + 1e-37
        noise = changes.max(0)
        known = noise[judged & (noise > 0)]
        usual = float(np.quantile(known, 0.9)) if known.size else 0.0
        tolerance = _LARGEST * np.maximum(noise, usual) + _unit(right) * np.abs(wanted) + least
        found = worst(mine, right, ~(errors <= tolerance) & judged)
        mean, usual = _mean(errors[judged]), max((_mean(change[judged]) for change in changes), default=0.0)
        if found is None and not mean <= _MEAN * usual + _unit(right) * scale + least:
            found = f"errors of {mean:.3g}, rounding makes {usual:.3g} and the largest result is {scale:.3g}"
    return found


def _unit(array: Array) -> float:
    """Return how far neighbouring numbers of a type are from each other."""
    return 2.0**-7 if array.dtype.itemsize == 2 else 2.0**-20


def _mean(errors: Array) -> float:
    """Return the root of the mean of squares."""
    return float(np.sqrt(np.mean(np.square(errors)))) if errors.size else 0.0
