"""DynamicQuantizeLSTM against its definition in numpy, and against onnxruntime."""

import numpy as np
import pytest
from refactor_graph.onnx import make_compiler

from tests import models
from tests.single import assert_close, model, refuse, run

OPTIONS = {"opset": 17, "domain": "com.microsoft"}
FIXED = ("w", "r", "w_scale", "w_zero", "r_scale", "r_zero")
NAMES = ["x", "w", "r", "b", "lengths", "h", "c", "p", "w_scale", "w_zero", "r_scale", "r_zero"]


def layer(dtype=np.int8, direction="forward", columns=False, size=(5, 2, 6, 9), full=False):
    """Make all operands; sizes are steps, batch, inputs, hidden."""
    random = models.generator(77)
    steps, batch, inputs, hidden = size
    ways = 2 if direction == "bidirectional" else 1
    info = np.iinfo(dtype)
    middle = 128 if dtype == np.uint8 else 0

    def codes(*shape):
        return random.integers(info.min, info.max + 1, shape).astype(dtype)

    def normal(*shape):
        return random.standard_normal(shape).astype(np.float32)

    terms = (ways, 4 * hidden) if columns else (ways,)
    feeds = {"x": normal(steps, batch, inputs), "w": codes(ways, inputs, 4 * hidden)}
    feeds |= {"r": codes(ways, hidden, 4 * hidden), "b": normal(ways, 8 * hidden)}
    if full:
        feeds["lengths"] = random.integers(0, steps + 1, batch).astype(np.int32)
        feeds |= {"h": normal(ways, batch, hidden), "c": normal(ways, batch, hidden), "p": normal(ways, 3 * hidden)}
    for name in ("w", "r"):
        feeds[f"{name}_scale"] = (0.004 * (1 + random.random(terms))).astype(np.float32)
        feeds[f"{name}_zero"] = (middle + random.integers(-9, 9, terms)).astype(dtype)
    names = [name if name in feeds else "" for name in NAMES]
    options = {"hidden_size": hidden, "direction": direction, "inputs": names, "outputs": 3, **OPTIONS}
    return feeds, options


def product(rows, weights, scale, zero):
    """Multiply rows that are rounded as DynamicQuantizeLinear says, each by itself."""
    low, high = np.minimum(rows.min(-1), 0), np.maximum(rows.max(-1), 0)
    step = ((high - low) / np.float32(255)).astype(np.float32)
    step[step == 0] = 1
    origin = np.clip(np.rint(-low / step), 0, 255)
    code = np.clip(np.rint(rows / step[:, None]) + origin[:, None], 0, 255)
    sums = (code - origin[:, None]) @ (weights.astype(np.float64) - np.atleast_1d(zero))
    return sums * step[:, None] * np.atleast_1d(scale)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def expected(feeds, direction, hidden):
    """Compute Y, Y_h and Y_c step by step."""
    x = feeds["x"]
    steps, batch, _ = x.shape
    ways = len(feeds["w"])
    y = np.zeros((steps, ways, batch, hidden), np.float32)
    last = np.zeros((2, ways, batch, hidden), np.float32)
    lengths = feeds.get("lengths", np.full(batch, steps, np.int32))
    for way in range(ways):
        bias = feeds["b"][way].reshape(2, 4 * hidden).sum(0)
        peephole = feeds.get("p", np.zeros((ways, 3 * hidden)))[way].reshape(3, hidden)
        for n in range(batch):
            empty = lengths[n] == 0
            h, c = (feeds[s][way, n] if s in feeds and not empty else np.zeros(hidden, np.float32) for s in "hc")
            order = range(lengths[n])
            for t in reversed(order) if direction == "reverse" or way else order:
                sums = bias + sum(
                    product(row[None], *(feeds[f"{m}{part}"][way] for part in ("", "_scale", "_zero")))[0]
                    for row, m in ((x[t, n], "w"), (h.astype(np.float32), "r"))
                )
                i, o, f, g = sums.reshape(4, hidden)
                i, f = sigmoid(i + peephole[0] * c), sigmoid(f + peephole[2] * c)
                c = f * c + i * np.tanh(g)
                h = sigmoid(o + peephole[1] * c) * np.tanh(c)
                y[t, way, n] = h
            last[:, way, n] = h, c
    return y, *last


def check(feeds, options, actual, tolerance):
    wanted = expected(feeds, options["direction"], options["hidden_size"])
    for ours, theirs in zip(actual, wanted, strict=True):
        assert_close(ours, theirs, 0, tolerance)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("full", [False, True])
def test_definition(dtype, direction, columns, full):
    feeds, options = layer(dtype, direction, columns, full=full)
    # A state on the border between two codes may go either way: 2/255 times weights of up to 1.
    check(feeds, options, run(model("DynamicQuantizeLSTM", feeds, constants=FIXED, **options), feeds), 0.01)


def test_one_step_is_exact():
    for batch in (1, 7, 60):
        feeds, options = layer(size=(1, batch, 70, 33), full=True)
        proto = model("DynamicQuantizeLSTM", feeds, constants=FIXED, **options)
        for threads in (1, 2):
            check(feeds, options, run(proto, feeds, num_threads=threads), 3e-6)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_onnxruntime(dtype, direction):
    feeds, options = layer(dtype, direction, size=(6, 2, 4, 5))
    if dtype == np.int8:  # see `quantization.weights`
        for name in ("w", "r"):
            feeds[name] //= 2
    proto = model("DynamicQuantizeLSTM", feeds, constants=FIXED, **options)
    proto.ir_version = 9
    ports = {port.name for port in proto.graph.input}
    theirs = models.expected(proto, {name: array for name, array in feeds.items() if name in ports})
    # onnxruntime has one scale for all rows: steps of max |x| / 255, times 4 weights of up to 1, over 6 steps.
    for ours, wanted in zip(run(proto, feeds), theirs, strict=True):
        assert_close(ours, wanted, 0, np.abs(feeds["x"]).max() / 255 * 4 * 2)


@pytest.mark.parametrize("constants", [(), ("w", "w_scale", "w_zero"), ("w", "r")])
@pytest.mark.parametrize("columns", [False, True])
def test_weights_that_are_inputs(constants, columns, target):
    """Without constant weights, and on other devices, nothing is rounded: within half a code of each of 15 numbers."""
    feeds, options = layer(columns=columns, full=True)
    proto = model("DynamicQuantizeLSTM", feeds, constants=constants, **options)
    ports = {port.name for port in proto.graph.input}
    executor = make_compiler(proto).compile(target)
    actual = executor({name: array for name, array in feeds.items() if name in ports})
    check(feeds, options, [np.asarray(y) for y in actual.values()], 0.03)


def test_kernel_multiplies_bytes():
    feeds, options = layer()
    executor = make_compiler(model("DynamicQuantizeLSTM", feeds, constants=FIXED, **options)).compile("cpu")
    executor({"x": feeds["x"], "b": feeds["b"]})
    assert any("recurrent:cpu:quantized:u8" in row.kernel for row in executor.bench())


def test_zero_points_may_be_omitted():
    feeds, options = layer()
    for name in ("w_zero", "r_zero"):
        feeds[name] = np.zeros_like(feeds[name])
    whole = run(model("DynamicQuantizeLSTM", feeds, constants=FIXED, **options), feeds)
    options["inputs"] = ["" if name.endswith("zero") else name for name in options["inputs"]]
    fixed = [name for name in FIXED if not name.endswith("zero")]
    feeds = {name: array for name, array in feeds.items() if not name.endswith("zero")}
    for a, b in zip(run(model("DynamicQuantizeLSTM", feeds, constants=fixed, **options), feeds), whole, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("name", "array", "pattern"),
    [
        ("w_scale", np.ones(3, np.float32), "scale of W.*3"),
        ("r_scale", np.ones((1, 35), np.float32), "scale of R.*35"),
        ("w_zero", np.zeros(1, np.uint8), "zero point of W is u8, expected i8"),
        ("r_zero", np.zeros((1, 1, 36), np.int8), "zero point of R has the shape"),
        ("w", np.zeros((1, 36, 6), np.int8), "of W"),
        ("r", np.zeros((1, 9, 9), np.int8), "of R"),
        ("w", np.zeros((1, 6, 36), np.int32), "i32"),
        ("w_scale", None, "the scale of W is missing"),
        ("r_scale", None, "the scale of R is missing"),
    ],
)
def test_refusals(name, array, pattern):
    feeds, options = layer()
    if array is None:
        del feeds[name]
        options["inputs"] = ["" if port == name else port for port in options["inputs"]]
    else:
        feeds[name] = array
    refuse(pattern, "DynamicQuantizeLSTM", feeds, **options)
