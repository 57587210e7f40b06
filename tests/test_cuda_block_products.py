"""Products with packed numbers (MatMulNBits) on devices, in the type of what they multiply."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph.onnx import make_compiler

from tests import models
from tests.conftest import missing_gpu

pytestmark = pytest.mark.cuda

K, N, BLOCK = 96, 40, 32
"""Sizes of the matrix; numbers that share a scale."""
TYPES = {"f16": (np.float16, TensorProto.FLOAT16), "f32": (np.float32, TensorProto.FLOAT)}


@pytest.fixture(autouse=True)
def gpu():
    if missing_gpu():
        pytest.skip(missing_gpu())


def product(kind, bits, zeros, ordered, random, name="w"):
    """Names of the operands of MatMulNBits behind A, and their constants."""
    dtype = TYPES[kind][0]
    blocks, packed = K // BLOCK, BLOCK * bits // 8
    constants = [
        models.constant(f"{name}_q", random.integers(0, 256, (N, blocks, packed)).astype(np.uint8)),
        models.constant(f"{name}_s", (random.random(N * blocks) * 2.0**-bits).astype(dtype)),
        models.constant(f"{name}_b", random.standard_normal(N).astype(dtype)),
    ]
    names = [f"{name}_q", f"{name}_s", "", "", f"{name}_b"]
    if zeros:
        values = random.integers(0, 256, N * ((blocks * bits + 7) // 8)).astype(np.uint8)
        constants.append(models.constant(f"{name}_z", values))
        names[2] = f"{name}_z"
    if not ordered:
        constants.append(models.constant(f"{name}_i", random.permutation(np.arange(K) // BLOCK).astype(np.int32)))
        names[3] = f"{name}_i"
    return names, constants


def model(kind, bits, zeros, ordered, random):
    names, constants = product(kind, bits, zeros, ordered, random)
    attributes = {"K": K, "N": N, "bits": bits, "block_size": BLOCK, "domain": "com.microsoft"}
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("MatMulNBits", ["t", *names], ["p"], "product", **attributes),
        helper.make_node("Relu", ["p"], ["y"]),
    ]
    element = TYPES[kind][1]
    values = [models.value("x", ["B", "S", K], element)], [models.value("y", None, element)]
    return models.model(nodes, *values, constants, domains=["com.microsoft"])


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_packed_numbers_times_halves(kind, bits, zeros, ordered):
    """A model of halves, and one of f32 that is computed in them: no cast stands before or behind the product."""
    random = models.generator(bits)
    proto = model(kind, bits, zeros, ordered, random)
    executor = make_compiler(proto).compile("cuda", precision="f16", verify=True)
    reference = make_compiler(proto).compile("cpu")
    for rows in (1, 5, 33):
        x = random.standard_normal((1, rows, K)).astype(TYPES[kind][0])
        wanted = reference({"x": x})["y"].astype(np.float64)
        # X and Y are rounded to f16, and so are scales and biases of a model of halves.
        assert np.abs(executor({"x": x})["y"] - wanted).max() <= 2.0**-9 * np.abs(wanted).max()
        table = executor.bench(repeats=1, quiet=True)
        kernels = [row.kernel for row in table if row.type == "BlockMatMul"]
        algorithm = "few_rows" if ordered and rows <= 8 else "tiled"
        assert kernels == [f"block_matmul:nvidia:{algorithm}:f16"]
        # Tanh and Relu.
        assert [row.type for row in table].count("Elementwise") == 2


def test_other_types_are_named():
    proto = model("f32", 4, False, True, models.generator(1))
    executor = make_compiler(proto).compile("cuda", precision="f16", keep_f32=["product"])
    executor({"x": np.ones((1, 2, K), np.float32)})
    assert "block_matmul:nvidia:few_rows:f32" in [row.kernel for row in executor.bench(repeats=1, quiet=True)]
