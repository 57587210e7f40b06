"""What `refactor-graph doctor --device cuda` tries on a GPU: every layer below a model, one after the other.

Each check is named before it begins and answered when it is through, so that the output of a process that dies tells
where it was. Results are compared with numpy.
"""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from refactor_graph import _core
from refactor_graph._errors import Error, Unsupported
from refactor_graph.onnx import make_compiler

__all__ = ["examine_gpu"]

_Array = np.ndarray[Any, np.dtype[Any]]
_Check = Callable[[str], str]


class _WrongResultError(Exception):
    """A check whose result is not what it should be."""


def examine_gpu(target: str, show: Callable[[str], None]) -> int:
    """Run all checks on `target` ("cuda", "cuda:1"); return how many failed.

    Nothing that a check raises ends the others, but after an error of the device all of them may fail.
    """
    if not faulthandler.is_enabled():
        faulthandler.enable()
    failed = 0
    for name, check in _CHECKS.items():
        show(f"{target}: {name} …")
        start = time.perf_counter()
        try:
            answer = check(target)
        except Unsupported as error:
            answer = f"not here: {_first_line(error)}"
        except (Error, _WrongResultError) as error:
            answer, failed = f"FAILED: {_first_line(error)}", failed + 1
        except Exception as error:
            answer, failed = f"FAILED: {type(error).__name__}: {_first_line(error)}", failed + 1
        show(f"{target}: {name}: {answer} ({time.perf_counter() - start:.2f} s)")
        if failed and check is _find:
            break
    show(f"{target}: {failed or 'no'} of {len(_CHECKS)} checks failed")
    return failed


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def _find(target: str) -> str:
    _, _, ordinal = target.partition(":")
    device = _core.find_device("nvidia", int(ordinal or 0))
    free, total = device.memory()
    return "; ".join([device.name, f"{free >> 20} of {total >> 20} MiB free", *device.libraries])


def _model(nodes: Sequence[Any], inputs: dict[str, _Array], constants: dict[str, _Array]) -> ModelProto:
    """Return a model of fixed sizes with the output "y"."""
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    kind = next(iter(inputs.values())).dtype
    output = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(kind), None)
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(list(nodes), "doctor", ports, [output], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def _try(
    target: str,
    proto: ModelProto,
    inputs: dict[str, _Array],
    wanted: _Array,
    tolerance: float,
    kernel: str = "",
    precision: str = "default",
) -> str:
    """Run a model a few times: the second run records its launches, later ones repeat them. Return what computed it."""
    executor = make_compiler(proto).compile(target, precision=precision)
    scale = float(np.abs(wanted).max())
    for run in range(3):
        actual = executor(inputs)["y"].astype(np.float64)
        error = float(np.abs(actual - wanted).max()) / scale
        if not error <= tolerance:
            raise _WrongResultError(
                f"run {run} has an error of {error:.2g} of the largest magnitude, at most {tolerance:.2g}"
            )
    ids = list(dict.fromkeys(row.kernel for row in executor.bench(repeats=1, quiet=True)))
    text = f"ok, by {', '.join(ids)}"
    if kernel and not any(kernel in each for each in ids):
        return f"{text}; SLOW: not by {kernel} (the environment's REFACTOR_GRAPH_LOG=info tells why)"
    return text


def _random(*shape: int, dtype: Any = np.float32) -> _Array:
    values: _Array = np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)
    return values


def _copy(target: str) -> str:
    x = _random(1 << 18)
    return _try(target, _model([helper.make_node("Identity", ["x"], ["y"])], {"x": x}, {}), {"x": x}, x, 0)


def _generated(target: str) -> str:
    x = _random(100003)
    nodes = [helper.make_node("Mul", ["x", "x"], ["s"]), helper.make_node("Sub", ["s", "x"], ["y"])]
    wanted = x.astype(np.float64) ** 2 - x
    return _try(target, _model(nodes, {"x": x}, {}), {"x": x}, wanted, 4 * 2.0**-23, "elementwise:nvidia:nvrtc")


def _rows(target: str) -> str:
    x = _random(301, 1003)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    proto = _model([helper.make_node("Softmax", ["x"], ["y"])], {"x": x}, {})
    return _try(target, proto, {"x": x}, e / e.sum(axis=1, keepdims=True), 1e-5, "softmax:nvidia:nvrtc")


# Rounding of the operands to the type, of sums of n products in f32, and of the result, generously.
_TOLERANCES = {"f32": 1e-5, "f16": 1e-2}
_TYPES = {"f32": np.float32, "f16": np.float16}


def _product(kind: str) -> _Check:
    """Two of them: the second one's workspace is not where the memory of all begins."""

    def check(target: str) -> str:
        shapes = ((250, 192), (192, 321), (321,), (321, 100))
        x, w, b, v = (_random(*shape, dtype=_TYPES[kind]) for shape in shapes)
        nodes = [
            helper.make_node("Gemm", ["x", "w", "b"], ["g"]),
            helper.make_node("Relu", ["g"], ["r"]),
            helper.make_node("MatMul", ["r", "v"], ["y"]),
        ]
        wanted = np.maximum(x.astype(np.float64) @ w.astype(np.float64) + b, 0) @ v.astype(np.float64)
        proto = _model(nodes, {"x": x}, {"w": w, "b": b, "v": v})
        return _try(target, proto, {"x": x}, wanted, _TOLERANCES[kind], "matmul:nvidia:cublaslt")

    return check


_F8_SIZES = (2048, 1024, 2048)
"""So large that rounding the operands pays."""


def _product_f8(target: str) -> str:
    m, k, n = _F8_SIZES
    x, w = _random(m, k), _random(k, n)
    proto = _model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": x}, {"w": w})
    # Both operands are rounded to 3 bits of mantissa, within 2^-4 of each factor.
    return _try(target, proto, {"x": x}, x.astype(np.float64) @ w, 2.0**-3, "matmul:nvidia:cublaslt_f8", "fp8")


def _convolution(kind: str) -> _Check:
    def check(target: str) -> str:
        x, w, b = (_random(*shape, dtype=_TYPES[kind]) for shape in ((1, 32, 14, 14), (48, 32, 3, 3), (48,)))
        padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        sums = np.einsum("ncyxij,ocij->noyx", windows, w.astype(np.float64), optimize=True)
        nodes = [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"]),
        ]
        wanted = np.maximum(sums + b.astype(np.float64)[:, None, None], 0)
        proto = _model(nodes, {"x": x}, {"w": w, "b": b})
        # Algorithms with fewer multiplications round more than sums in f32 do.
        precision = "exact" if kind == "f32" else "default"
        return _try(target, proto, {"x": x}, wanted, _TOLERANCES[kind], "conv:nvidia:cudnn", precision)

    return check


def _weighted(scores: _Array, values: _Array) -> _Array:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: _Array = weights / weights.sum(axis=-1, keepdims=True) @ values
    return result


def _masked_attention(target: str) -> str:
    """Written out, as exporters do, with a bias that hides the last keys, or whole tiles of first ones."""
    q, k, v = (_random(3, 4, 320, 64, dtype=np.float16) for _ in range(3))
    mask = np.zeros((3, 1, 1, 320), np.float16)
    mask[1, ..., 250:] = -np.inf
    mask[2, ..., :200] = -np.inf
    wide = [each.astype(np.float64) for each in (q, k, v)]
    wanted = _weighted(wide[0] @ wide[1].swapaxes(2, 3) / 8 + mask, wide[2])
    nodes = [
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "t"], ["p"]),
        helper.make_node("Mul", ["p", "scale"], ["s"]),
        helper.make_node("Add", ["s", "m"], ["b"]),
        helper.make_node("Softmax", ["b"], ["w"], axis=-1),
        helper.make_node("MatMul", ["w", "v"], ["y"]),
    ]
    inputs = {"q": q, "k": k, "v": v, "m": mask}
    proto = _model(nodes, inputs, {"scale": np.array(0.125, np.float16)})
    return _try(target, proto, inputs, wanted, 1e-2, "attention:nvidia:cudnn")


def _causal_attention(target: str) -> str:
    """With two heads for one of K and V."""
    q, k, v = (_random(2, heads, 64, 64, dtype=np.float16) for heads in (4, 2, 2))
    keys, values = (each.repeat(2, 1).astype(np.float64) for each in (k, v))
    scores = q.astype(np.float64) @ keys.swapaxes(2, 3) / 8
    wanted = _weighted(np.where(np.tri(64, dtype=bool), scores, -np.inf), values)
    inputs = {"q": q, "k": k, "v": v}
    proto = _model([helper.make_node("Attention", list(inputs), ["y"], is_causal=1)], inputs, {})
    return _try(target, proto, inputs, wanted, 1e-2, "attention:nvidia:cudnn")


def _recurrent(target: str) -> str:
    """One launch for all steps, on cards of compute capability 9.0 by clusters of blocks."""
    steps, sequences, units = 5, 3, 256
    x, w, r = (
        _random(steps, sequences, 40),
        _random(1, 4 * units, 40) / 8,
        _random(1, 4 * units, units) / 16,
    )
    h = c = np.zeros((sequences, units))
    outputs = []
    for step in x.astype(np.float64):
        i, o, f, g = np.split(step @ w[0].T.astype(np.float64) + h @ r[0].T.astype(np.float64), 4, axis=1)
        i, o, f = (1 / (1 + np.exp(-each)) for each in (i, o, f))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        outputs.append(h[None])
    proto = _model([helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=units)], {"x": x}, {"w": w, "r": r})
    return _try(target, proto, {"x": x}, np.stack(outputs), 1e-5, "recurrent:nvidia")


def _recording(target: str) -> str:
    x = _random(64, 64)
    proto = _model([helper.make_node("Softmax", ["x"], ["s"]), helper.make_node("Erf", ["s"], ["y"])], {"x": x}, {})
    executor = make_compiler(proto).compile(target)
    executor.set_input("x", x)
    first = None
    for _ in range(3):
        executor.run()
        now = executor.get_output("y").copy()
        if first is not None and not np.array_equal(now, first):
            raise _WrongResultError("a repeated recording gives other results")
        first = now
    state = " ".join(executor.recording.split())
    return f"ok: {state}"


_CHECKS: dict[str, _Check] = {
    "driver and device": _find,
    "copies": _copy,
    "generated code": _generated,
    "rows and barriers": _rows,
    "recorded launches": _recording,
    "product in f32": _product("f32"),
    "product in f16": _product("f16"),
    "product in f8": _product_f8,
    "convolution in f32": _convolution("f32"),
    "convolution in f16": _convolution("f16"),
    "masked attention in f16": _masked_attention,
    "causal attention in f16": _causal_attention,
    "recurrent layer in f32": _recurrent,
}
