"""Random networks of convolutions in bf16 on a CPU, whose tensors between layers are bf16 where kernels take them."""

import numpy as np
import pytest
from onnx import helper
from refactor_graph import _core
from refactor_graph.onnx import make_compiler
from refactor_graph.precision import relative_error

from tests import models

pytestmark = pytest.mark.skipif(
    _core.instruction_set() not in ("avx512bf16", "avx512amx"), reason="no products of bf16 without AVX512-BF16"
)


class Network:
    """A chain of layers with branches that are joined, made by a seeded generator."""

    def __init__(self, seed, channels):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants = [], []
        self.name, self.channels, self.features = "x", channels, [("x", channels)]

    def pick(self, *options):
        return options[self.random.integers(len(options))]

    def constant(self, array):
        name = f"w{len(self.constants)}"
        self.constants.append(models.constant(name, np.asarray(array)))
        return name

    def weights(self, *shape):
        fan_in = np.prod(shape[1:])
        return self.constant((self.random.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32))

    def add(self, op, *inputs, count=1, **attributes):
        names = [f"t{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"{op}{len(self.nodes)}", **attributes))
        return names[0] if count == 1 else names

    def convolve(self, group=1, channels=None):
        channels = channels or self.pick(8, 16, 24, 32, 40, 64, 72, 96)
        if group > 1:
            channels = self.channels
        taps = self.pick(1, 3, 5)
        w = self.weights(channels, self.channels // group, taps, taps)
        bias = self.constant(self.random.standard_normal(channels).astype(np.float32) / 4)
        self.name = self.add("Conv", self.name, w, bias, pads=[taps // 2] * 4, group=group)
        self.channels = channels

    def conv(self):
        self.convolve()

    def depthwise(self):
        self.convolve(group=self.channels)

    def grouped(self):
        self.convolve(group=4 if self.channels % 4 == 0 else 1)

    def activation(self):
        self.name = self.add(self.pick("Relu", "Sigmoid", "HardSwish", "LeakyRelu", "Tanh"), self.name)

    def silu(self):
        self.name = self.add("Mul", self.name, self.add("Sigmoid", self.name))

    def residual(self):
        before = self.name
        self.convolve(channels=self.channels)
        self.name = self.add("Add", self.name, before)

    def normalisation(self):
        factors = [self.random.random(self.channels) + 0.5, self.random.standard_normal(self.channels) / 4]
        for op, values in zip(("Mul", "Add"), factors, strict=True):
            self.name = self.add(op, self.name, self.constant(values.astype(np.float32).reshape(-1, 1, 1)))

    def gate(self):
        pooled = self.add("GlobalAveragePool", self.name)
        scale = self.add("Sigmoid", self.add("Conv", pooled, self.weights(self.channels, self.channels, 1, 1)))
        self.name = self.add("Mul", self.name, scale)

    def max_pool(self):
        self.name = self.add("MaxPool", self.name, kernel_shape=[3, 3], pads=[1] * 4)

    def average_pool(self):
        self.name = self.add("AveragePool", self.name, kernel_shape=[3, 3], pads=[1] * 4)

    def concat(self):
        before, channels = self.name, self.channels
        self.convolve()
        self.name = self.add("Concat", before, self.name, axis=1)
        self.channels += channels

    def split(self):
        if self.channels % 2:
            return
        first, second = self.add("Split", self.name, count=2, axis=1)
        if self.pick(True, False):
            first = self.add("Relu", first)
        self.name = self.add("Concat", second, first, axis=1)

    def resize(self):
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        larger = self.add("Resize", self.name, "", scales, mode=self.pick("nearest", "linear"))
        self.name = self.add("AveragePool", larger, kernel_shape=[2, 2], strides=[2, 2])

    def pad(self):
        amounts = self.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
        larger = self.add("Pad", self.name, amounts)
        self.name = self.add("Conv", larger, self.weights(self.channels, self.channels, 3, 3))

    def halves(self):
        smaller = self.add("Conv", self.name, self.weights(32, self.channels, 3, 3), strides=[2, 2], pads=[1] * 4)
        self.name = self.add("ConvTranspose", smaller, self.weights(32, 48, 2, 2), strides=[2, 2])
        self.channels = 48

    def transposed(self):
        turned = self.add("Transpose", self.name, perm=[0, 2, 3, 1])
        self.name = self.add("Transpose", self.add("Softmax", turned, axis=-1), perm=[0, 3, 1, 2])

    LAYERS = (
        [conv] * 3
        + [depthwise, grouped, activation, silu, residual, normalisation, gate, max_pool, average_pool]
        + [concat, split, resize, pad, halves, transposed]
    )

    def model(self, layers):
        for _ in range(layers):
            layer = self.LAYERS[self.random.integers(len(self.LAYERS))]
            layer(self)
        self.convolve(channels=self.pick(3, 40))
        size = ["N", self.features[0][1], "H", "W"]
        return models.model(self.nodes, [models.value("x", size)], [models.value(self.name, None)], self.constants)


def outputs_of(executor, x):
    return np.asarray(next(iter(executor({"x": x}).values())))


OF_PADDING = {
    "Conv": {"pads": [2] * 4},
    "depthwise": {"pads": [2] * 4, "group": 32},
    "grouped": {"pads": [2] * 4, "group": 4},
    "strided": {"pads": [2] * 4, "strides": [2, 2]},
    "ConvTranspose": {},
    "GlobalAveragePool": None,
    "GlobalMaxPool": None,
}


@pytest.mark.parametrize("kind", OF_PADDING)
def test_pictures_without_rows(kind):
    """Where f32 makes results of padding alone, or of nothing, so does bf16."""
    network, options = Network(1, channels=32), OF_PADDING[kind]
    network.name = network.add("Conv", "x", network.weights(32, 32, 1, 1))
    if options is None:
        network.name = network.add(kind, network.name)
    else:
        weights = network.weights(32, 32 // options.get("group", 1), 3, 3)
        op = kind if kind == "ConvTranspose" else "Conv"
        network.name = network.add(op, network.name, weights, network.constant(np.ones(32, np.float32)), **options)
        network.name = network.add("Conv", network.name, network.weights(32, 32, 1, 1))
    compiler = make_compiler(network.model(layers=0))
    exact, narrow = (compiler.compile("cpu", num_threads=2, precision=name) for name in ("default", "bf16"))
    for height, width in [(0, 6), (7, 6), (5, 0)]:
        x = network.random.standard_normal((2, 32, height, width), np.float32)
        want, got = outputs_of(exact, x), outputs_of(narrow, x)
        assert want.size
        assert relative_error({"y": got}, {"y": want}) < 0.02


@pytest.mark.parametrize("seed", range(24))
def test_rounds_as_its_operands(seed):
    random = np.random.default_rng(1000 + seed)
    network = Network(seed, channels=int(random.choice([3, 16, 40])))
    model = network.model(layers=10)
    compiler = make_compiler(model)
    exact = compiler.compile("cpu", num_threads=1)
    narrow = compiler.compile("cpu", num_threads=int(random.integers(1, 3)), precision="bf16", verify=True)
    wide = compiler.compile("cpu", num_threads=1, precision="bf16", passes=["-narrow_blocks"])
    for batch, height, width in [(1, 24, 32), (2, 14, 18)]:
        x = random.standard_normal((batch, network.features[0][1], height, width), np.float32)
        want, got = outputs_of(exact, x), outputs_of(narrow, x)
        # Each tensor is rounded once more than the operands that are made of it.
        bound = max(4 * relative_error({"y": outputs_of(wide, x)}, {"y": want}), 0.02)
        assert relative_error({"y": got}, {"y": want}) <= bound
