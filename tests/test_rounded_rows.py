"""Transformers in bf16 on a CPU, whose rows between products are bf16 where nothing else reads them."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from refactor_graph import _core
from refactor_graph.onnx import make_compiler
from refactor_graph.precision import relative_error

from tests import models

pytestmark = pytest.mark.skipif(
    _core.instruction_set() not in ("avx512bf16", "avx512amx"), reason="no products of bf16"
)

HEADS = 4


class Transformer:
    """Layers of attention and products over x[batch, tokens, width], which add to x."""

    def __init__(self, seed, width):
        self.random, self.width = np.random.default_rng(seed), width
        self.nodes, self.constants, self.x = [], [], "x"

    def constant(self, array):
        self.constants.append(models.constant(f"c{len(self.constants)}", np.asarray(array)))
        return self.constants[-1].name

    def add(self, op, *inputs, **attributes):
        self.nodes.append(helper.make_node(op, list(inputs), [f"t{len(self.nodes)}"], f"{op}{len(self.nodes)}"))
        self.nodes[-1].attribute.extend(helper.make_attribute(*item) for item in attributes.items())
        return self.nodes[-1].output[0]

    def multiply(self, x, rows, columns):
        weights = self.random.standard_normal((rows, columns), np.float32) / np.sqrt(np.float32(rows))
        bias = self.constant(self.random.standard_normal(columns).astype(np.float32) / 4)
        return self.add("Add", self.add("MatMul", x, self.constant(weights)), bias)

    def normalise(self, x):
        scale = self.constant(self.random.uniform(0.5, 1.5, self.width).astype(np.float32))
        return self.add("LayerNormalization", x, scale, axis=-1)

    def heads(self, x, order):
        x = self.add("Reshape", x, self.constant(np.array([0, 0, HEADS, self.width // HEADS])))
        return self.add("Transpose", x, perm=order)

    def attention(self):
        x = self.normalise(self.x)
        query, key, value = (self.multiply(x, self.width, self.width) for _ in range(3))
        depth = np.float32(1 / np.sqrt(self.width / HEADS))
        scores = self.add("MatMul", self.heads(query, [0, 2, 1, 3]), self.heads(key, [0, 2, 3, 1]))
        weights = self.add("Softmax", self.add("Mul", scores, self.constant(depth)), axis=-1)
        result = self.add("Transpose", self.add("MatMul", weights, self.heads(value, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        result = self.add("Reshape", result, self.constant(np.array([0, 0, self.width])))
        self.x = self.add("Add", self.x, self.multiply(result, self.width, self.width))

    def feed_forward(self):
        x = self.multiply(self.normalise(self.x), self.width, 4 * self.width)
        gate = self.add("Sigmoid", self.multiply(self.normalise(self.x), self.width, 4 * self.width))
        hidden = self.add("Mul", self.add("Mul", x, x), gate) if self.random.integers(2) else self.add("Relu", x)
        self.x = self.add("Add", self.x, self.multiply(hidden, 4 * self.width, self.width))

    def compiler(self, layers):
        for _ in range(layers):
            self.attention()
            self.feed_forward()
        shape = ["batch", "tokens", self.width]
        return make_compiler(
            models.model(self.nodes, [models.value("x", shape)], [models.value(self.x, None)], self.constants)
        )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("width", [64, 60, 68])
def test_results_are_those_of_f32_rows(seed, width):
    """Rows are rounded as they are stored, not as they are read: the same numbers."""
    compiler = Transformer(seed, width).compiler(2)
    threads = 1 + seed % 2
    exact = compiler.compile("cpu", num_threads=threads)
    narrow = compiler.compile("cpu", num_threads=threads, precision="bf16", verify=True)
    wide = compiler.compile("cpu", num_threads=threads, precision="bf16", passes=["-narrow_rows"])
    random = np.random.default_rng(seed)
    for batch, tokens in [(1, 40), (3, 97), (2, 16), (1, 7), (2, 1)]:
        x = random.standard_normal((batch, tokens, width), np.float32)
        got, expected, f32 = (executor({"x": x}) for executor in (narrow, wide, exact))
        (name,) = got
        # Attention of few rows or keys does not round them, if they are f32.
        if tokens >= 16:
            np.testing.assert_array_equal(got[name], expected[name])
        assert relative_error(got, f32) < 0.02


@pytest.mark.skipif(
    _core.instruction_set() != "avx512amx" and "AuthenticAMD" not in Path("/proc/cpuinfo").read_text(),
    reason="products of f32 may be faster than rounded ones",
)
def test_tensors_are_bf16():
    compiler = Transformer(0, 64).compiler(1)
    executor = compiler.compile("cpu", num_threads=1, precision="bf16")
    executor({"x": np.zeros((1, 32, 64), np.float32)})
    kernels = [row.kernel for row in executor.bench(repeats=1, quiet=True)]
    assert kernels.count("layer_norm:cpu:rows:bf16:avx512bf16") >= 2
    assert "tensors between products are bf16" in executor.dbg(quiet=True)
