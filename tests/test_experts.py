"""Mixtures of experts of com.microsoft: MoE and QMoE."""

import numpy as np
import onnx
import pytest
from refactor_graph import InvalidModel, Unsupported, _core
from refactor_graph.onnx import make_compiler

from tests import models, single
from tests.quantization import MICROSOFT, PASSES, by_onnxruntime, run

EXPERTS, HIDDEN, INNER, TOKENS = 6, 64, 96, 7
# Sums of up to 96 terms of size 1 in another order, twice, and 4 bits' zero points.
TOLERANCE = {"rtol": 1e-5, "atol": 3e-5}
QMOE_INPUTS = 15


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x),
    "identity": lambda x: x,
}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def swiglu(gate, linear, alpha=1.0, beta=0.0, limit=np.inf):
    gate, linear = np.minimum(gate, limit), np.clip(linear, -limit, limit)
    return gate * sigmoid(alpha * gate) * (linear + beta)


class Layer:
    """Weights of all experts [experts, n, k], as they are and packed."""

    def __init__(self, random, n, k, bits=4, block=32, zeros=False):
        self.bits, self.block = bits, block
        blocks = k // block if block else 1
        codes = random.integers(0, 1 << bits, (EXPERTS, n, k))
        self.scales = random.uniform(0.5, 1.5, (EXPERTS, n, blocks)).astype("f") / np.float32(k**0.5 * (1 << bits) / 4)
        points = np.full(self.scales.shape, 1 << (bits - 1))
        if zeros:
            points = random.integers((1 << (bits - 1)) - 1, (1 << (bits - 1)) + 2, points.shape)
        wide = np.repeat(points, k // blocks, -1)
        self.values = (codes - wide) * np.repeat(self.scales.astype(np.float64), k // blocks, -1)
        self.bias = random.standard_normal((EXPERTS, n)).astype("f") / 10
        self.packed = self.pack(codes)
        if not block:
            self.scales, points = self.scales[..., 0], points[..., 0]
        self.zeros = self.pack(points) if zeros else None

    def pack(self, numbers):
        per_byte = 8 // self.bits
        numbers = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % per_byte)])
        parts = numbers.reshape(*numbers.shape[:-1], -1, per_byte) << self.bits * np.arange(per_byte)
        return parts.sum(-1).astype(np.uint8)

    def rows(self, expert, x):
        return self.values[expert] @ x + self.bias[expert]


def mixture(x, experts, weights, up, down, act):
    """The weighted sum over the chosen experts, in f64; `act` takes the row and what `up` makes of it."""
    y = np.zeros((len(x), HIDDEN))
    for t, row in enumerate(x.astype(np.float64)):
        for expert, weight in zip(experts[t], weights[t], strict=True):
            y[t] += weight * down.rows(expert, act(expert, row, up.rows(expert, row)))
    return y


def best(scores, k):
    experts = np.argsort(-scores, -1, kind="stable")[:, :k]
    return experts, softmax(np.take_along_axis(scores.astype(np.float64), experts, -1))


def tokens(random, shape=(TOKENS,)):
    x = random.standard_normal((*shape, HIDDEN)).astype("f")
    return x, random.standard_normal((int(np.prod(shape)), EXPERTS)).astype("f")


def qmoe(x, scores, up, down, third=None, router_weights=None, **attributes):
    arrays = [None] * QMOE_INPUTS
    arrays[:2] = x, scores
    for at, layer in ((2, up), (5, down), (8, third)):
        if layer:
            arrays[at : at + 3] = layer.packed, layer.scales, layer.bias
            arrays[11 + (at - 2) // 3] = layer.zeros
    arrays[14] = router_weights
    options = {"k": 2, "normalize_routing_weights": 1, "expert_weight_bits": up.bits, "activation_type": "silu"}
    if up.block:
        options["block_size"] = up.block
    constants = [i for i in range(2, 14) if arrays[i] is not None]
    return single.positional(
        "QMoE",
        arrays,
        constants=constants,
        opset=18,
        domain=MICROSOFT,
        **{"weights_prepacked": 0, **options, **attributes},
    )


def moe(x, scores, up, down, third=None, **attributes):
    arrays = [x, scores, up.values.astype("f"), up.bias, down.values.astype("f"), down.bias]
    if third:
        arrays += [third.values.astype("f"), third.bias]
    options = {"k": 2, "normalize_routing_weights": 1, "activation_type": "silu", **attributes}
    return single.positional(
        "MoE", arrays, constants=list(range(2, len(arrays))), opset=18, domain=MICROSOFT, **options
    )


@PASSES
@pytest.mark.parametrize(
    ("bits", "block", "zeros"),
    [(4, 32, False), (4, 16, True), (8, 32, True), (2, 32, False), (4, 0, True), (8, 0, False)],
)
def test_packed_experts(bits, block, zeros, passes):
    random = models.generator(701)
    x, scores = tokens(random)
    up, down = (Layer(random, n, k, bits, block, zeros) for n, k in ((INNER, HIDDEN), (HIDDEN, INNER)))
    proto, feeds = qmoe(x, scores, up, down)
    (actual,) = run(proto, feeds, passes)
    wanted = mixture(x, *best(scores, 2), up, down, lambda _, __, h: ACTIVATIONS["silu"](h))
    np.testing.assert_allclose(actual, wanted, **TOLERANCE)
    if bits == 4:  # blocks of 8 bits are products of rounded rows there
        np.testing.assert_allclose(actual, by_onnxruntime(proto, feeds)[0], **TOLERANCE)


@pytest.mark.parametrize(("bits", "block", "zeros"), [(4, 32, False), (4, 16, True), (8, 32, True), (2, 32, False)])
def test_devices(target, bits, block, zeros):
    random = models.generator(712)
    up, down = Layer(random, 2 * INNER, HIDDEN, bits, block, zeros), Layer(random, HIDDEN, INNER, bits, block, zeros)
    x, scores = tokens(random)
    proto, feeds = qmoe(x, scores, up, down, activation_type="swiglu", swiglu_fusion=1)
    (actual,) = make_compiler(proto).compile(target)(feeds).values()
    wanted = mixture(x, *best(scores, 2), up, down, lambda _, __, h: swiglu(h[::2], h[1::2]))
    np.testing.assert_allclose(actual, wanted, **TOLERANCE)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_activations(activation, packed, gated):
    random = models.generator(702)
    x, scores = tokens(random)
    up, down = Layer(random, INNER, HIDDEN), Layer(random, HIDDEN, INNER)
    third = Layer(random, INNER, HIDDEN) if gated else None
    proto, feeds = (qmoe if packed else moe)(x, scores, up, down, third, activation_type=activation)
    (actual,) = run(proto, feeds, [])

    def act(expert, row, h):
        return ACTIVATIONS[activation](h) * (third.rows(expert, row) if third else 1)

    np.testing.assert_allclose(actual, mixture(x, *best(scores, 2), up, down, act), **TOLERANCE)
    if not gated:  # not implemented there
        np.testing.assert_allclose(actual, by_onnxruntime(proto, feeds)[0], **TOLERANCE)


@pytest.mark.parametrize("fusion", [0, 1, 2])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("options", [{}, {"alpha": 1.702, "beta": 1.0, "limit": 0.75}])
def test_swiglu(fusion, packed, options):
    random = models.generator(703)
    x, scores = tokens(random)
    up, down = Layer(random, INNER * (2 if fusion else 1), HIDDEN), Layer(random, HIDDEN, INNER)
    third = None if fusion else Layer(random, INNER, HIDDEN)
    names = {"alpha": "activation_alpha", "beta": "activation_beta", "limit": "swiglu_limit"}
    attributes = {names[name]: value for name, value in options.items()}
    proto, feeds = (qmoe if packed else moe)(
        x, scores, up, down, third, activation_type="swiglu", swiglu_fusion=fusion, **attributes
    )
    (actual,) = run(proto, feeds, [])

    def act(expert, row, h):
        pairs = {0: lambda: (h, third.rows(expert, row)), 1: lambda: (h[::2], h[1::2]), 2: lambda: np.split(h, 2)}
        return swiglu(*pairs[fusion](), **options)

    np.testing.assert_allclose(actual, mixture(x, *best(scores, 2), up, down, act), **TOLERANCE)
    if fusion == 1:  # the only one there
        np.testing.assert_allclose(actual, by_onnxruntime(proto, feeds)[0], **TOLERANCE)


def sparse_mixer(scores):
    """Choose by SparseMixer (arXiv 2310.00811) with a jitter of 0.01, expert by expert."""
    experts, weights = best(scores, 2)[0], np.zeros((len(scores), 2))
    for t, s in enumerate(scores.astype(np.float64)):
        left = np.ones(len(s), bool)
        for i, expert in enumerate(experts[t]):
            near = left & ((s[expert] - s) / np.maximum(np.abs(s), s[expert]) <= 0.02)
            weights[t, i] = 1 / np.exp(s[near] - s[expert]).sum()
            left[expert] = False
    return experts, weights


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("k", [1, 3, EXPERTS])
@pytest.mark.parametrize("normalized", [0, 1])
def test_routing(packed, k, normalized):
    random = models.generator(704)
    x, scores = tokens(random)
    up, down = Layer(random, INNER, HIDDEN), Layer(random, HIDDEN, INNER)
    proto, feeds = (qmoe if packed else moe)(x, scores, up, down, k=k, normalize_routing_weights=normalized)
    (actual,) = run(proto, feeds, [])
    experts, weights = best(scores, k)
    if not normalized:
        weights = np.take_along_axis(softmax(scores.astype(np.float64)), experts, -1)
    wanted = mixture(x, experts, weights, up, down, lambda _, __, h: ACTIVATIONS["silu"](h))
    np.testing.assert_allclose(actual, wanted, **TOLERANCE)
    if normalized or not packed:  # QMoE always normalises there
        np.testing.assert_allclose(actual, by_onnxruntime(proto, feeds)[0], **TOLERANCE)


@pytest.mark.parametrize("normalized", [0, 1])
def test_router_weights_of_their_own(normalized):
    random = models.generator(705)
    x, scores = tokens(random)
    up, down = Layer(random, INNER, HIDDEN), Layer(random, HIDDEN, INNER)
    weights = random.uniform(0.1, 1, scores.shape).astype("f")
    proto, feeds = qmoe(x, scores, up, down, router_weights=weights, normalize_routing_weights=normalized)
    (actual,) = run(proto, feeds, [])
    experts, _ = best(scores, 2)
    chosen = np.take_along_axis(weights.astype(np.float64), experts, -1)
    if normalized:
        chosen /= chosen.sum(-1, keepdims=True)
    wanted = mixture(x, experts, chosen, up, down, lambda _, __, h: ACTIVATIONS["silu"](h))
    np.testing.assert_allclose(actual, wanted, **TOLERANCE)
    np.testing.assert_allclose(actual, by_onnxruntime(proto, feeds)[0], **TOLERANCE)


def test_sparse_mixer():
    random = models.generator(706)
    x, scores = tokens(random)
    scores[:4] = 3 + 0.05 * scores[:4]  # several within 2 %
    up, down = Layer(random, INNER, HIDDEN), Layer(random, HIDDEN, INNER)
    for make in (moe, qmoe):
        proto, feeds = make(x, scores, up, down, use_sparse_mixer=1, normalize_routing_weights=0)
        (actual,) = run(proto, feeds, [])
        wanted = mixture(x, *sparse_mixer(scores), up, down, lambda _, __, h: ACTIVATIONS["silu"](h))
        np.testing.assert_allclose(actual, wanted, **TOLERANCE)


@pytest.mark.skipif(_core.instruction_set() == "scalar", reason="no products of bytes without AVX2")
def test_rows_rounded_to_bytes():
    random = models.generator(707)
    x, scores = tokens(random)
    up, down = Layer(random, INNER, HIDDEN), Layer(random, HIDDEN, INNER)
    (exact,) = run(*qmoe(x, scores, up, down), [])
    (actual,) = run(*qmoe(x, scores, up, down, accuracy_level=4), [])
    error = np.abs(actual - exact).max() / np.abs(exact).max()
    assert 1e-4 < error < 3e-2


def test_any_number_of_tokens():
    random = models.generator(708)
    x, scores = tokens(random, (2, 5))
    up, down = Layer(random, INNER, HIDDEN), Layer(random, HIDDEN, INNER)
    proto, _ = qmoe(x, scores, up, down)
    for port, names in zip(proto.graph.input[:2], (("batch", "length", None), ("tokens", None)), strict=True):
        for size, name in zip(port.type.tensor_type.shape.dim, names, strict=True):
            if name:
                size.dim_param = name
    executor = make_compiler(proto).compile("cpu")
    names = [port.name for port in proto.graph.input[:2]]
    for shape in ((2, 5), (1, 1), (3, 40), (1, 0)):
        x, scores = tokens(random, shape)
        (actual,) = executor(dict(zip(names, (x, scores), strict=True))).values()
        rows = x.reshape(-1, HIDDEN)
        wanted = mixture(rows, *best(scores, 2), up, down, lambda _, __, h: ACTIVATIONS["silu"](h))
        np.testing.assert_allclose(actual, wanted.reshape(x.shape), **TOLERANCE)


def test_halves():
    random = models.generator(709)
    x, scores = (array.astype(np.float16) for array in tokens(random))
    up, down = Layer(random, INNER, HIDDEN), Layer(random, HIDDEN, INNER)
    for layer in (up, down):
        layer.scales, layer.bias = layer.scales.astype(np.float16), layer.bias.astype(np.float16)
    proto, feeds = qmoe(x, scores, up, down)
    (actual,) = run(proto, feeds, [])
    assert actual.dtype == np.float16
    wanted = mixture(x, *best(scores, 2), up, down, lambda _, __, h: ACTIVATIONS["silu"](h))
    np.testing.assert_allclose(actual, wanted, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize(
    ("attributes", "error", "words"),
    [
        ({"k": 0}, InvalidModel, "k is 0, expected 1 to 6 experts"),
        ({"k": 7}, InvalidModel, "k is 7, expected 1 to 6 experts"),
        ({"activation_type": "tanh"}, InvalidModel, "activation_type is tanh"),
        ({"activation_type": "swiglu"}, InvalidModel, "swiglu needs FC3 or swiglu_fusion"),
        ({"swiglu_fusion": 3}, InvalidModel, "swiglu_fusion is 3"),
        ({"activation_type": "swiglu", "swiglu_fusion": 1}, InvalidModel, "weights of FC2"),
        ({"quant_type": "fp8"}, Unsupported, "quant_type = fp8"),
        ({"weights_prepacked": 1}, Unsupported, "weights_prepacked = 1"),
        ({"expert_weight_bits": 3}, InvalidModel, "FC1: weights of 3 bits, expected 2, 4 or 8"),
        ({"fc2_expert_weight_bits": 8}, InvalidModel, "FC2: blocks of 32 do not divide 48"),
        ({"block_size": 24}, InvalidModel, "FC1: blocks of 24, expected a power of 2"),
        ({"block_size": 16}, InvalidModel, "size 2 of the scales of FC1 is 2, expected 4"),
        ({"use_sparse_mixer": 1, "k": 3}, InvalidModel, "use_sparse_mixer with k = 3"),
    ],
)
def test_refusals(attributes, error, words):
    random = models.generator(710)
    x, scores = tokens(random)
    proto, _ = qmoe(x, scores, Layer(random, INNER, HIDDEN), Layer(random, HIDDEN, INNER), **attributes)
    with pytest.raises(error, match=words):
        make_compiler(proto)


def test_refuses_shapes_that_do_not_fit():
    random = models.generator(711)
    x, scores = tokens(random)
    up, down = Layer(random, INNER, HIDDEN), Layer(random, HIDDEN, INNER)
    for bad, words in (
        (lambda: qmoe(x[:, :32], scores, up, down), "last size of the input is 32, expected 64"),
        (lambda: qmoe(x, scores[:3], up, down), "rows of input 1 is 3, expected 7"),
        (lambda: qmoe(x, scores[:, :3], up, down), "width of input 1 is 3, expected 6"),
        (lambda: moe(x, scores, up, Layer(random, HIDDEN, 32)), "size 2 of the weights of FC2 is 32, expected 96"),
        (lambda: moe(x, scores, down, down), "last size of the input is 64, expected 96"),
    ):
        with pytest.raises(InvalidModel, match=words):
            make_compiler(bad()[0])
    proto, _ = qmoe(x, scores, up, down)
    node = proto.graph.node[0]
    node.input[5] = ""
    with pytest.raises(InvalidModel, match="FC2: its weights are omitted"):
        make_compiler(onnx.ModelProto.FromString(proto.SerializeToString()))
