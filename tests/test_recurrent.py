"""LSTM, GRU and RNN against onnxruntime and onnx.reference."""

import numpy as np
import pytest
from refactor_graph import InvalidInput, InvalidModel, Unsupported
from refactor_graph.onnx import make_compiler

from tests import models
from tests.single import assert_close, positional, reference, run

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FUNCTIONS = {
    "RNN": [["Relu"], ["Affine"], ["ThresholdedRelu"], ["ScaledTanh"], ["Softsign"], ["Softplus"], ["LeakyRelu"]],
    "GRU": [["HardSigmoid", "ScaledTanh"], ["Sigmoid", "Elu"]],
    "LSTM": [["HardSigmoid", "Tanh", "Softsign"], ["Sigmoid", "Affine", "Tanh"]],
}
# Dot products of up to 40 terms of size 0.2 in another order, over up to 9 contracting steps.
TOLERANCE = 16 * 9 * np.sqrt(40) * np.finfo(np.float32).eps / 10


def layer(op, random, dtype=np.float32, layout=0, optional=True, lengths=False, **attributes):
    """Inputs of a layer, its outputs, and its attributes."""
    steps, batch, inputs, hidden = (int(random.integers(1, n)) for n in (10, 6, 20, 40))
    d, g = 2 if attributes.get("direction") == "bidirectional" else 1, GATES[op]

    def normal(*shape, scale=0.3):
        return (random.standard_normal(shape) * scale).astype(dtype)

    def ordered(a, b, c):
        return normal(b, a, c, scale=1) if layout else normal(a, b, c, scale=1)

    arrays = [ordered(steps, batch, inputs), normal(d, g * hidden, inputs), normal(d, g * hidden, hidden)]
    if optional:
        arrays += [normal(d, 2 * g * hidden), None, ordered(d, batch, hidden)]
        if lengths:
            arrays[4] = random.integers(0, steps + 1, batch, np.int32)
        if op == "LSTM":
            arrays += [ordered(d, batch, hidden), normal(d, 3 * hidden)]
    if layout:
        attributes["layout"] = 1
    outputs = ["y", "h"] + (["c"] if op == "LSTM" else [])
    return arrays, outputs, attributes | {"hidden_size": hidden}


def node(op, arrays, outputs=("y",), opset=22, **options):
    return positional(op, arrays, outputs=outputs, opset=opset, **options)


def check(op, arrays, outputs, attributes, oracle=models.expected, **options):
    proto, feeds = node(op, arrays, outputs, opset=14, **options, **attributes)
    for actual, wanted in zip(run(proto, feeds, num_threads=2), oracle(proto, feeds), strict=True):
        assert_close(actual, wanted, TOLERANCE, TOLERANCE)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [False, True])
def test_directions(op, direction, lengths):
    random = models.generator(len(op) + lengths)
    for i in range(4):
        arrays, outputs, attributes = layer(op, random, lengths=lengths, direction=direction)
        check(op, arrays, outputs, attributes, constants=[1, 2, 3] if i % 2 else [], symbolic=i > 1)


@pytest.mark.parametrize(("op", "names"), [(op, names) for op, lists in FUNCTIONS.items() for names in lists])
@pytest.mark.parametrize("given", [False, True])
def test_activations(op, names, given):
    arrays, outputs, attributes = layer(op, models.generator(7), optional=False, activations=names)
    values = {"activation_alpha": [0.3] * len(names), "activation_beta": [0.6] * len(names)} if given else {}
    if not given and {"Affine", "ScaledTanh", "ThresholdedRelu"} & set(names):
        # The specification has the defaults of the operators of these names; onnxruntime takes 0.
        values = {"activation_alpha": [0.2] * names.count("HardSigmoid") + [1.0]}
        values["activation_beta"] = [0.5] * names.count("HardSigmoid") + [0.0 if "Affine" in names else 1.0]
        actual = run(*node(op, arrays, outputs, **attributes))
        for ours, explicit in zip(actual, run(*node(op, arrays, outputs, **attributes, **values)), strict=True):
            np.testing.assert_array_equal(ours, explicit)
    check(op, arrays, outputs, attributes | values)


@pytest.mark.parametrize(
    ("op", "flags"),
    [
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"linear_before_reset": 1, "clip": 0.4}),
        ("GRU", {"clip": 0.4}),
        ("LSTM", {"input_forget": 1}),
        ("LSTM", {"clip": 0.4}),
        ("RNN", {"clip": 0.4}),
    ],
)
def test_attributes(op, flags):
    for seed in range(4):
        arrays, outputs, attributes = layer(op, models.generator(seed), direction="bidirectional", **flags)
        check(op, arrays, outputs, attributes)


@pytest.mark.parametrize("op", GATES)
def test_layout(op):
    """Batch first is the same layer with the axes exchanged; onnxruntime does not have it."""
    arrays, outputs, attributes = layer(op, models.generator(21), direction="bidirectional", lengths=True)
    proto, feeds = node(op, arrays, outputs, opset=14, **attributes)
    wanted = run(proto, feeds)
    moved = [a.swapaxes(0, 1).copy() if i in (0, 5, 6) else a for i, a in enumerate(arrays)]
    proto, feeds = node(op, moved, outputs, opset=14, layout=1, **attributes)
    y, *states = run(proto, feeds)
    np.testing.assert_array_equal(y, wanted[0].transpose(2, 0, 1, 3))
    for actual, expected in zip(states, wanted[1:], strict=True):
        np.testing.assert_array_equal(actual, expected.swapaxes(0, 1))


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_other_floats(op, dtype):
    """Against the f32 result on the same numbers; f16 rounds the result once (2^-11)."""
    arrays, outputs, attributes = layer(op, models.generator(31), dtype=dtype)
    wanted = run(*node(op, [a if a is None else a.astype(np.float32) for a in arrays], outputs, **attributes))
    for actual, expected in zip(run(*node(op, arrays, outputs, **attributes)), wanted, strict=True):
        assert actual.dtype == dtype
        np.testing.assert_allclose(actual, expected, rtol=2**-11 + TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("op", GATES)
def test_old_opsets(op):
    arrays, outputs, attributes = layer(op, models.generator(41), optional=False)
    wanted = run(*node(op, arrays, outputs, opset=22, **attributes))
    for opset in (3, 7, 14):
        extra = {"output_sequence": 1} if opset < 7 else {}
        proto, feeds = node(op, arrays, outputs, opset=opset, **attributes, **extra)
        for actual, expected in zip(run(proto, feeds), wanted, strict=True):
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("op", GATES)
def test_only_the_last_state(op):
    arrays, outputs, attributes = layer(op, models.generator(43), optional=False)
    (state,) = run(*node(op, arrays, ["", "h"], **attributes))
    np.testing.assert_array_equal(state, run(*node(op, arrays, outputs, **attributes))[1])


def test_reference_agrees():
    arrays, outputs, attributes = layer("GRU", models.generator(51), linear_before_reset=1)
    check("GRU", arrays, outputs, attributes, oracle=reference)


@pytest.mark.parametrize(
    ("op", "change", "attributes", "pattern"),
    [
        ("LSTM", {}, {"direction": "backward"}, "direction is"),
        ("LSTM", {}, {"activations": ["Tanh"]}, "1 activations, expected 3"),
        ("RNN", {}, {"activations": ["Swish"]}, "does not exist"),
        ("GRU", {}, {"hidden_size": 5}, "hidden_size is 5"),
        ("GRU", {}, {"layout": 2}, "layout is 2"),
        ("GRU", {}, {"clip": -1.0}, "clip is"),
        ("GRU", {1: (1, 11, 3)}, {}, "size 1 of W is 11, expected 12"),
        ("GRU", {3: (1, 7)}, {}, "size 1 of B is 7, expected 24"),
        ("GRU", {5: (1, 3, 4)}, {}, "size 1 of initial_h is 3, expected 2"),
        ("GRU", {2: (12, 4)}, {}, "2 axes"),
    ],
)
def test_refusals(op, change, attributes, pattern):
    g = GATES[op]
    shapes = {0: (5, 2, 3), 1: (1, g * 4, 3), 2: (1, g * 4, 4), 3: (1, 2 * g * 4), 5: (1, 2, 4)} | change
    arrays = [np.ones(shapes[i], np.float32) if i in shapes else None for i in range(6)]
    proto, _ = node(op, arrays, opset=14, **attributes)
    with pytest.raises((InvalidModel, Unsupported), match=pattern):
        make_compiler(proto)


def test_a_length_beyond_the_sequence():
    arrays = [np.ones(s, np.float32) for s in ((5, 2, 3), (1, 4, 3), (1, 4, 4))] + [None, np.array([5, 6], np.int32)]
    proto, feeds = node("RNN", arrays)
    with pytest.raises(InvalidInput, match="sequence 1 has the length 6, expected 0 to 5"):
        run(proto, feeds)
