"""Weights of 8 bits with halves, and products of f8, on a GPU."""

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from onnx import helper
from refactor_graph import InvalidInput, Unsupported
from refactor_graph.onnx import make_compiler
from refactor_graph.precision import find_keep

from tests import models
from tests.conftest import missing_gpu


@pytest.fixture(autouse=True)
def gpu(request):
    if request.node.get_closest_marker("cuda") and missing_gpu():
        pytest.skip(missing_gpu())


def layers(rows, dtype=np.float32, sizes=(160, 256, 144)):
    """A hidden layer with bias and GELU, and one with a residual; weights as constants, the second one transposed."""
    random = models.generator(7)
    width, hidden, last = sizes
    arrays = {
        "w0": random.standard_normal((width, hidden)) / width**0.5,
        "b0": random.standard_normal(hidden) / 4,
        "w1": random.standard_normal((last, hidden)) / hidden**0.5,
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["p0"], name="first"),
        helper.make_node("Add", ["p0", "b0"], ["s0"]),
        helper.make_node("Gelu", ["s0"], ["h"], name="gelu"),
        helper.make_node("Transpose", ["w1"], ["w1t"], perm=[1, 0]),
        helper.make_node("MatMul", ["h", "w1t"], ["y"], name="second"),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    constants = [
        helper.make_tensor(name, kind, array.shape, array.astype(dtype).tobytes(), raw=True)
        for name, array in arrays.items()
    ]
    proto = models.model(
        nodes, [models.value("x", ["N", width], kind)], [models.value("y", ["N", last], kind)], constants, 20
    )
    return proto, {"x": random.standard_normal((rows, width)).astype(dtype)}


def reference(proto, inputs):
    """In f32, of a model in f32."""
    return make_compiler(proto).compile(num_threads=1)(inputs)["y"]


def difference(actual, wanted):
    return float(np.linalg.norm(actual.astype(np.float64) - wanted) / np.linalg.norm(wanted))


def products(executor):
    return [row.kernel for row in executor.bench(repeats=1, quiet=True) if row.type == "MatMul"]


ERRORS = {"int8": 2**-6, "f8e4m3fn": 2**-4, "f8e5m2": 2**-3}
"""Half a step of rounding weights, relative to them, for each of two layers; see test_weights.py."""


@pytest.mark.cuda
@pytest.mark.parametrize("weights", ERRORS)
@pytest.mark.parametrize("rows", [3, 40])
@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_small_weights_of_halves(weights, rows, precision):
    proto, inputs = layers(rows)
    wanted = reference(proto, inputs)
    executor = make_compiler(proto).compile("cuda", precision=precision, weights=weights, verify=True)
    # Activations and weights are rounded to the half, too.
    assert 0 < difference(executor(inputs)["y"], wanted) < 2 * ERRORS[weights] + 2**-7
    name = {"int8": "i8"}.get(weights, weights)
    algorithms = ["few_rows"] if rows == 3 else ["tiled", "widened"]
    allowed = {f"matmul:nvidia:{algorithm}:{precision}_{name}" for algorithm in algorithms}
    assert set(products(executor)) <= allowed


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_small_weights_of_a_model_of_halves(dtype):
    proto, inputs = layers(5, dtype)
    wide, _ = layers(5)
    wanted = reference(wide, {"x": inputs["x"].astype(np.float32)})
    executor = make_compiler(proto).compile("cuda", weights="int8")
    assert 0 < difference(executor(inputs)["y"], wanted) < 2 * ERRORS["int8"] + 2**-6
    assert all(kernel.endswith("_i8") for kernel in products(executor))


@pytest.mark.cuda
def test_f8_products():
    """Estimates prefer them where rounding the activations is little beside the product."""
    proto, inputs = layers(1536, sizes=(1024, 2048, 48))
    wanted = reference(proto, inputs)
    executor = make_compiler(proto).compile("cuda", precision="fp8", verify=True)
    # Both operands of the first product, weights of the second, are rounded to 3 bits of mantissa.
    assert 0 < difference(executor(inputs)["y"], wanted) < 2**-4
    assert products(executor) == ["matmul:nvidia:cublaslt_f8:bf16", "matmul:nvidia:widened:bf16_f8e4m3fn"]


@pytest.mark.cuda
def test_nodes_kept_in_f32_keep_their_weights():
    proto, inputs = layers(12)
    wanted = reference(proto, inputs)
    compiler = make_compiler(proto)
    executor = compiler.compile("cuda", precision="fp8", keep_f32=["first", "second", "gelu"])
    assert difference(executor(inputs)["y"], wanted) < 1e-5
    assert all(":f32" in kernel and "f8" not in kernel for kernel in products(executor))
    half = compiler.compile("cuda", precision="fp8", keep_f32=["first"])
    assert (
        1e-4
        < difference(half(inputs)["y"], wanted)
        < difference(compiler.compile("cuda", precision="fp8")(inputs)["y"], wanted)
    )


@pytest.mark.cuda
def test_the_smallest_list_of_kept_nodes():
    proto, inputs = layers(12)
    error = lambda actual, wanted: difference(actual["y"], wanted["y"])  # noqa: E731
    keep = find_keep(proto, inputs, 2**-5, precision="fp8", target="cuda", error=error)
    assert keep
    executor = make_compiler(proto).compile("cuda", precision="fp8", keep_f32=keep)
    assert difference(executor(inputs)["y"], reference(proto, inputs)) <= 2**-5


def test_f8_products_are_refused_by_name():
    proto, _ = layers(3)
    with pytest.raises(Unsupported, match=r"precision fp8: needs an NVIDIA GPU of compute capability 8\.9.*cpu"):
        make_compiler(proto).compile(precision="fp8")
    with pytest.raises(InvalidInput, match='weights "int8" with the precision fp8'):
        make_compiler(proto).compile(precision="fp8", weights="int8")
    with pytest.raises(InvalidInput, match="bf16, fp8"):
        make_compiler(proto).compile(precision="fp4")


@pytest.mark.cuda
def test_f8_products_are_refused_on_an_older_card(tmp_path):
    """The emulated one, which reads its capability when it is loaded."""
    if "emulated" not in os.environ.get("REFACTOR_GRAPH_PLUGIN_PATH", ""):
        pytest.skip("needs an older card, or the emulated one")
    path = tmp_path / "model.onnx"
    path.write_bytes(layers(3)[0].SerializeToString())
    code = f"from refactor_graph.onnx import *; make_compiler({str(path)!r}).compile('cuda', precision='fp8')"
    environment = os.environ | {"REFACTOR_GRAPH_EMULATED_CAPABILITY": "86"}
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 1
    assert "Unsupported: precision fp8: needs" in result.stderr
    assert "has 8.6" in result.stderr


def test_small_weights_of_halves_on_a_cpu_stay_f32():
    proto, inputs = layers(3)
    wanted = reference(proto, inputs)
    executor = make_compiler(proto).compile(precision="f16", weights="int8", num_threads=1)
    assert 0 < difference(executor(inputs)["y"], wanted) < 2 * ERRORS["int8"] + 2**-9
