"""Groups of nodes that passes look for."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graph import F32, Draft, Reject
from tests.fuzz.operators import operator

_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Elu")


def _activation(draft: Draft, x: str) -> str:
    return draft.add(draft.choice(_ACTIVATIONS), [x])[0]


@operator("*conv")
def conv_block(draft: Draft, _: str) -> None:
    """Convolution, batch normalisation, activation, residual."""
    channels, out = draft.choice([3, 8, 16, 17]), draft.choice([8, 16, 17])
    size = draft.integer(4, 9)
    x = draft.new(F32, (draft.integer(1, 2), channels, size, draft.integer(4, 9)), False)
    if not np.isfinite(draft.value(x)).all():
        raise Reject("one infinity makes a whole tile of Winograd's algorithm NaN")
    y = x
    for index in range(draft.integer(1, 2)):
        inputs = channels if index == 0 else out
        weights = [draft.new(F32, (out, inputs, 3, 3), True)]
        if draft.chance(0.5):
            weights.append(draft.new(F32, (out,), True))
        (y,) = draft.add("Conv", [y, *weights], pads=[1, 1, 1, 1])
        before = y
        if draft.chance(0.6):
            numbers = [draft.new(F32, (out,), True) for _ in range(3)]
            variance = draft.leaf(draft.random.uniform(0.5, 2, out).astype(np.float32), constant=True)
            (y,) = draft.add("BatchNormalization", [y, *numbers, variance])
        if draft.chance(0.6):
            y = _activation(draft, y)
        if draft.chance(0.3):
            (y,) = draft.add("Add", [before, y])


@operator("*linear")
def linear_block(draft: Draft, _: str) -> None:
    """Matrix product, bias, activation, residual."""
    k, n = draft.integer(1, 33), draft.integer(1, 33)
    x = draft.new(F32, (*draft.shape(0, 2, 4), draft.integer(1, 7), k), False)
    (y,) = draft.add("MatMul", [x, draft.new(F32, (k, n), True)])
    if draft.chance(0.7):
        bias = draft.new(F32, draft.choice([(n,), (1, n), (1,), (1, 1, n)]), draft.chance(0.8))
        (y,) = draft.add("Add", [y, bias] if draft.chance(0.5) else [bias, y])
    if draft.chance(0.6):
        y = _activation(draft, y)
    if draft.chance(0.3):
        draft.add("Add", [y, draft.new(F32, draft.value(y).shape)])


@operator("*layer_norm")
def layer_norm(draft: Draft, _: str) -> None:
    """Layer normalisation from its parts."""
    if draft.opset >= 18:
        axes, options = [draft.constant([-1])], {}
    else:
        axes, options = [], {"axes": [-1]}
    width = draft.integer(2, 19)
    x = draft.new(F32, (*draft.shape(1, 2), width), False)
    (mean,) = draft.add("ReduceMean", [x, *axes], **options)
    (centred,) = draft.add("Sub", [x, mean])
    (square,) = draft.add("Pow", [centred, draft.constant(2.0, np.float32)])
    (variance,) = draft.add("ReduceMean", [square, *axes], **options)
    (shifted,) = draft.add("Add", [variance, draft.constant(1e-5, np.float32)])
    (deviation,) = draft.add("Sqrt", [shifted])
    (y,) = draft.add("Div", [centred, deviation])
    (y,) = draft.add("Mul", [y, draft.new(F32, (width,), True)])
    if draft.chance(0.7):
        draft.add("Add", [y, draft.new(F32, (width,), True)])


@operator("*gelu")
def gelu(draft: Draft, _: str) -> None:
    """The error function's form."""
    x = draft.pick((F32,), (1, 4))
    (half,) = draft.add("Div", [x, draft.constant(np.sqrt(2), np.float32)])
    (erf,) = draft.add("Erf", [half])
    (one,) = draft.add("Add", [erf, draft.constant(1, np.float32)])
    (y,) = draft.add("Mul", [x, one] if draft.chance(0.5) else [one, x])
    draft.add("Mul", [y, draft.constant(0.5, np.float32)])


@operator("*swish")
def swish(draft: Draft, _: str) -> None:
    """A product with its own sigmoid."""
    x = draft.pick((F32,), (1, 4))
    (gate,) = draft.add("Sigmoid", [x])
    draft.add("Mul", [x, gate])


@operator("*attention")
def attention(draft: Draft, _: str) -> None:
    """Scaled products with a softmax between."""
    batch, heads, length, past, size = (
        draft.integer(1, 2),
        draft.integer(1, 3),
        draft.integer(1, 7),
        draft.integer(1, 9),
        8,
    )
    query = draft.new(F32, (batch, heads, length, size), False)
    key, value = (draft.new(F32, (batch, heads, past, size), False) for _ in range(2))
    (turned,) = draft.add("Transpose", [key], perm=[0, 1, 3, 2])
    (scores,) = draft.add("MatMul", [query, turned])
    scale = draft.constant(draft.choice([0.35355338, 2.0]), np.float32)
    (scores,) = draft.add(draft.choice(["Mul", "Div"]), [scores, scale])
    if draft.chance(0.5):
        (scores,) = draft.add("Add", [scores, draft.new(F32, (length, past))])
    (weights,) = draft.add("Softmax", [scores], axis=3)
    draft.add("MatMul", [weights, value])


@operator("*shape")
def shape_arithmetic(draft: Draft, _: str) -> None:
    """A reshape whose target is computed from shapes."""
    x = draft.pick((F32,), (2, 4), where=lambda array: array.size > 0 and array.ndim >= 2)
    (shape,) = draft.add("Shape", [x])
    (first,) = draft.add("Gather", [shape, draft.constant([0])], axis=0)
    (target,) = draft.add("Concat", [first, draft.constant([-1])], axis=0)
    draft.add("Reshape", [x, target])


@operator("*transposes")
def transposes(draft: Draft, _: str) -> None:
    """Transposes around elementwise operators."""
    x = draft.pick((F32,), (2, 4), where=lambda array: array.ndim >= 2)
    rank = draft.value(x).ndim
    permutation = [int(i) for i in draft.random.permutation(rank)]
    (y,) = draft.add("Transpose", [x], perm=permutation)
    y = _activation(draft, y)
    back = np.argsort(permutation).tolist() if draft.chance(0.6) else permutation
    draft.add("Transpose", [y], perm=back)


@operator("*qdq")
def quantised(draft: Draft, _: str) -> None:
    """A product between quantisations."""
    k, n = draft.integer(1, 9), draft.integer(1, 9)
    x = draft.new(F32, (draft.integer(1, 5), k), False)
    scale, zero = draft.constant(0.0625, np.float32), draft.constant(3, np.uint8)
    (q,) = draft.add("QuantizeLinear", [x, scale, zero])
    (d,) = draft.add("DequantizeLinear", [q, scale, zero])
    w = draft.leaf(draft.random.integers(-9, 10, (k, n)).astype(np.int8), constant=True)
    (v,) = draft.add("DequantizeLinear", [w, draft.constant(0.125, np.float32)])
    (y,) = draft.add("MatMul", [d, v])
    draft.add("QuantizeLinear", [y, draft.constant(0.25, np.float32), zero])
