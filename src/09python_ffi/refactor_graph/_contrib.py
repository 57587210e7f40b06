"""Operators of com.microsoft that are others of ONNX or of com.microsoft in other words.

Source: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from refactor_graph._bodies import END, Body, BodyOp
from refactor_graph._contrib_attention import ATTENTION_OPS
from refactor_graph._contrib_language import LANGUAGE_OPS
from refactor_graph._contrib_quantized import QUANTIZED_OPS
from refactor_graph._errors import Unsupported


def _renamed(op: str, domain: str = "") -> Callable[[Body], None]:
    """Return a body that hands everything to another operator."""

    def write(b: Body) -> None:
        b.give(0, b.add(op, *b.inputs(), domain=domain, **b.attributes))

    return write


def _cdist(b: Body) -> None:
    metric = b.attributes["metric"]
    if metric not in ("euclidean", "sqeuclidean"):
        raise Unsupported(f"metric {metric!r}, expected 'euclidean' or 'sqeuclidean'")
    # |x|² + |y|² - 2xy loses what |x - y|² keeps, so that both are first moved to where the second one is: by the
    # median of three rows, which no single one moves far away, as it would the mean.
    half = b.add("Div", b.size(b.input(1), 0), b.constant([2]))
    first, last = b.part(b.input(1), 0, 0, 1), b.part(b.input(1), 0, -1, END)
    other = b.part(b.input(1), 0, half, b.add("Add", half, b.constant([1])))
    upper, lower = b.add("Max", first, last), b.add("Min", first, last)
    middle = b.add("Max", lower, b.add("Min", upper, other))
    x, y = b.add("Sub", b.input(0), middle), b.add("Sub", b.input(1), middle)
    rows = b.reduce("ReduceSumSquare", x, [1])
    columns = b.add("Reshape", b.reduce("ReduceSumSquare", y, [1]), b.constant([1, -1]))
    squares = b.add("Relu", b.add("Gemm", x, y, b.add("Add", rows, columns), alpha=-2.0, transB=1))
    b.give(0, b.add("Sqrt", squares) if metric == "euclidean" else squares)


def _conv_transpose(b: Body) -> None:
    if b.attributes["auto_pad"] != "NOTSET":
        raise Unsupported("auto_pad")
    rank = len(b.attributes["kernel_shape"]) + 2 if b.attributes["kernel_shape"] else b.rank(1)
    full = b.add("ConvTranspose", *b.inputs(0, 1), **b.attributes)
    if b.has(2):  # negative padding cuts, and what is positive after all has no term but the bias
        sizes = b.add("Neg", b.add("Reshape", b.input(2), b.constant([2, rank - 2])))
        sizes = b.add("Concat", b.constant([[0, 0], [0, 0]]), sizes, axis=1)
        full = b.add("Pad", full, b.add("Reshape", sizes, b.constant([-1])))
    if b.has(3):
        full = b.add("Add", full, b.add("Reshape", b.input(3), b.constant([1, -1] + [1] * (rank - 2))))
    b.give(0, full)


def _expand_dims(b: Body) -> None:
    axis = b.add("Reshape", b.add("Cast", b.input(1), to=TensorProto.INT64), b.constant([1]))
    b.give(0, b.add("Unsqueeze", b.input(0), axis))


def _range(b: Body) -> None:
    step = b.input(2) or b.add("Cast", b.constant(1), to=b.dtype(0))
    b.give(0, b.add("Range", *(b.add("Reshape", x, b.constant([])) for x in (*b.inputs(0, 1), step))))


def _pad(b: Body) -> None:
    pads = b.add("Reshape", b.input(1), b.constant([-1]))
    value = [b.add("Reshape", b.input(2), b.constant([]))] if b.has(2) else []
    b.give(0, b.add("Pad", b.input(0), pads, *value, mode=b.attributes["mode"]))


def _unique(b: Body) -> None:
    values, _, places, counts = b.add("Unique", b.input(0), outputs=4, sorted=0)
    for index, value in enumerate((values, places, counts)):
        b.give(index, value)


def _fused_matmul_activation(b: Body) -> None:
    options = dict(b.attributes)
    activation = options.pop("activation")
    numbers = {name.removeprefix("activation_"): options.pop(name) for name in [*options] if "activation" in name}
    if activation not in ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Softplus", "Elu", "Selu", "Softsign"):
        raise Unsupported(f"activation {activation!r}")
    taken = {"LeakyRelu": ("alpha",), "Elu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Selu": ("alpha", "gamma")}
    product = b.contrib("FusedMatMul", *b.inputs(0, 1), **options)
    b.give(0, b.add(activation, product, **{name: numbers[name] for name in taken.get(activation, ())}))


def _gemm_fast_gelu(b: Body) -> None:
    b.give(0, b.contrib("FastGelu", b.add("MatMul", *b.inputs(0, 1)), *b.inputs()[2:]))


def _normalized_groups(b: Body, x: str) -> str:
    """Append the normalisation of x [N, H, W, C] or [N, C, H, W] by groups of channels."""
    last = b.attributes["channels_last"]
    x = b.add("Transpose", x, perm=[0, 3, 1, 2]) if last else x
    groups = b.attributes["groups"]
    narrow = b.add("Cast", x, to=TensorProto.FLOAT)
    ones, zeros = b.constant(np.ones(groups), np.float32), b.constant(np.zeros(groups), np.float32)
    parts = b.add("Reshape", narrow, b.constant([0, groups, -1]))
    parts = b.add("InstanceNormalization", parts, ones, zeros, epsilon=b.attributes["epsilon"])
    y = b.add("Reshape", parts, b.add("Shape", x))
    scale, bias = (b.add("Reshape", b.input(index), b.constant([1, -1, 1, 1])) for index in (1, 2))
    y = b.add("Add", b.add("Mul", y, scale), bias)
    if b.attributes["activation"]:
        y = b.add("Mul", y, b.add("Sigmoid", y))
    y = b.add("Transpose", y, perm=[0, 2, 3, 1]) if last else y
    return str(b.add("Cast", y, to=b.dtype(0)))


def _group_norm(b: Body) -> None:
    b.give(0, _normalized_groups(b, b.input(0)))


def _skip_group_norm(b: Body) -> None:
    skip = b.input(3)
    total = b.add("Add", b.input(0), skip)
    if b.has(4):
        total = b.add("Add", total, b.input(4))
    b.give(0, _normalized_groups(b, total))
    b.give(1, total)


_NORM = {"activation": int, "channels_last": 1, "epsilon": 1e-5, "groups": int}
_NORM_REQUIRED = frozenset({"activation", "groups"})
_CONV_TRANSPOSE = {
    **{"auto_pad": "NOTSET", "dilations": [int], "group": 1, "kernel_shape": [int], "output_padding": [int]},
    "strides": [int],
}
_PRODUCT = {"alpha": 1.0, "transA": 0, "transB": 0}
_BATCHED = {**_PRODUCT, "transBatchA": 0, "transBatchB": 0}
_ACTIVATION = {"activation": str, "activation_alpha": 0.01, "activation_beta": 0.0, "activation_gamma": 0.0}

CONTRIB_OPS = {
    op.name: op
    for op in (
        *ATTENTION_OPS,
        *LANGUAGE_OPS,
        *QUANTIZED_OPS,
        BodyOp("CDist", (2, 2), (1, 1), {"metric": "sqeuclidean"}, _cdist),
        BodyOp("ConvTransposeWithDynamicPads", (2, 4), (1, 1), _CONV_TRANSPOSE, _conv_transpose),
        BodyOp("ExpandDims", (2, 2), (1, 1), {}, _expand_dims),
        BodyOp("FusedMatMulActivation", (2, 2), (1, 1), {**_BATCHED, **_ACTIVATION}, _fused_matmul_activation),
        BodyOp("GatherND", (2, 2), (1, 1), {}, _renamed("GatherND")),
        BodyOp("GemmFastGelu", (2, 3), (1, 1), {}, _gemm_fast_gelu),
        BodyOp("GroupNorm", (3, 3), (1, 1), _NORM, _group_norm, _NORM_REQUIRED),
        BodyOp("Pad", (2, 3), (1, 1), {"mode": "constant"}, _pad),
        BodyOp("Range", (2, 3), (1, 1), {}, _range),
        BodyOp("SkipGroupNorm", (4, 5), (1, 2), _NORM, _skip_group_norm, _NORM_REQUIRED),
        BodyOp("TransposeMatMul", (2, 2), (1, 1), _PRODUCT, _renamed("FusedMatMul", "com.microsoft")),
        BodyOp("Trilu", (1, 2), (1, 1), {"upper": 1}, _renamed("Trilu")),
        BodyOp("Unique", (1, 1), (3, 3), {}, _unique),
    )
}
"""By name."""
