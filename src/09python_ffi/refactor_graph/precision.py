"""Which nodes of a model have to stay in f32 when the rest is computed in f16, bf16, f8 or bytes.

>>> from refactor_graph.precision import find_keep
>>> keep = find_keep("model.onnx", {"input": array}, tolerance=1e-3)  # doctest: +SKIP
>>> executor = make_compiler("model.onnx").compile("cuda", precision="f16", keep_f32=keep)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refactor_graph._errors import InvalidInput
from refactor_graph._load import ModelSource
from refactor_graph.onnx import Compiler, make_compiler

__all__ = ["find_keep", "relative_error"]


def relative_error(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> float:
    """Return the largest error of any output, in units of that output's largest magnitude.

    Not finite where `actual` is not finite and `wanted` is. Outputs that are no float tensors count as 0 if they are
    equal, else as infinite.
    """
    worst = 0.0
    for name, reference in wanted.items():
        if not isinstance(reference, np.ndarray) or reference.dtype.kind != "f":
            same = np.array_equal(np.asarray(actual[name]), np.asarray(reference))
            worst = max(worst, 0.0 if same else np.inf)
            continue
        if not reference.size:
            continue
        with np.errstate(invalid="ignore"):
            difference = np.abs(actual[name].astype(np.float64) - reference)
        difference[np.equal(actual[name], reference) | (np.isnan(actual[name]) & np.isnan(reference))] = 0
        scale = np.max(np.abs(reference), where=np.isfinite(reference), initial=0.0) or 1.0
        error = float(np.max(difference)) / scale
        worst = max(worst, error if np.isfinite(error) else np.inf)
    return worst


def find_keep(
    model: ModelSource | Compiler,
    inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    tolerance: float,
    *,
    precision: str = "f16",
    target: str | Sequence[str] = "cpu",
    error: Callable[[Mapping[str, Any], Mapping[str, Any]], float] = relative_error,
) -> list[str]:
    """Find a list of nodes from which none can be taken out without exceeding `tolerance`.

    The list is found by halving (ddmin of A. Zeller and R. Hildebrandt, "Simplifying and isolating failure-inducing
    input", 2002): about `k log n` compilations for k nodes of n if errors add up as they usually do.

    Parameters
    ----------
    model
        As of `make_compiler`, or a `Compiler`.
    inputs
        Inputs by name, or several such sets, of which the worst counts. Typical ones: what overflows for them does not
        for others.
    tolerance
        Largest `error` of the outputs against those in f32.
    precision
        "bf16", for a GPU "f16" and "fp8", for a CPU "int8".
    target
        Where the outputs are computed. With "bf16" a CPU rounds operands of products, convolutions, attention and
        recurrent layers alone, a GPU also what lies between them.
    error
        Called with outputs and reference outputs, both by name.

    Returns
    -------
    list of str
        Names for `Compiler.compile(keep_f32=...)`, in running order; empty if none has to be kept.

    Raises
    ------
    InvalidInput
        If `tolerance` is exceeded even with all nodes in f32, or an argument makes no sense, as "f16" on a CPU, which
        rounds nothing to it.
    Unsupported
        If `target` does not multiply in "fp8" or "int8".
    """
    if precision not in ("f16", "bf16", "fp8", "int8"):
        raise InvalidInput(f"find_keep: expected the precision f16, bf16, fp8 or int8, got {precision!r}")
    targets = [target] if isinstance(target, str) else list(target)
    if precision == "f16" and targets == ["cpu"]:
        raise InvalidInput("find_keep: a CPU rounds nothing to f16; expected another precision, or a GPU as target")
    if not tolerance >= 0:
        raise InvalidInput(f"find_keep: expected a tolerance of at least 0, got {tolerance!r}")
    compiler = model if isinstance(model, Compiler) else make_compiler(model)
    samples = [inputs] if isinstance(inputs, Mapping) else list(inputs)
    reference = compiler.compile(target)
    wanted = [reference(sample) for sample in samples]

    def worst(keep: Sequence[str]) -> float:
        executor = compiler.compile(target, precision=precision, keep_f32=keep)
        return max(error(executor(sample), outputs) for sample, outputs in zip(samples, wanted, strict=True))

    if worst(()) <= tolerance:
        return []
    steps = list(dict.fromkeys(row.node for row in reference.bench(repeats=1, quiet=True)))
    names = compiler._model.known_nodes(steps)  # passes add nodes of their own
    reached = worst(names)
    if not reached <= tolerance:
        raise InvalidInput(f"find_keep: with all nodes in f32 the error is {reached:.3g}, more than {tolerance:.3g}")
    return _smallest(names, lambda keep: worst(keep) <= tolerance)


def _smallest(names: list[str], suffices: Callable[[list[str]], bool]) -> list[str]:
    """Drop parts of `names`, ever smaller ones, as long as what is left suffices."""
    parts = 2
    while len(names) >= 2:
        size = -(-len(names) // parts)
        chunks = [names[i : i + size] for i in range(0, len(names), size)]
        for i, chunk in enumerate(chunks):
            rest = [name for k, other in enumerate(chunks) if k != i for name in other]
            if len(chunks) > 2 and suffices(chunk):
                names, parts = chunk, 2
                break
            if suffices(rest):
                names, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(names))
    return names
