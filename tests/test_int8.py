"""`precision="int8"`: products by constant weights round both operands, block by block."""

import numpy as np
import pytest
from onnx import helper
from refactor_graph import DeviceError, InvalidInput, Unsupported, _core
from refactor_graph.onnx import find_device, make_compiler
from refactor_graph.precision import find_keep, relative_error

from tests import models

BYTES = "block_matmul:cpu:bytes:"
HAS_VNNI = _core.instruction_set() in ("avx2vnni", "avx512vnni", "avx512bf16", "avx512amx")
needs_vnni = pytest.mark.skipif(not HAS_VNNI, reason="no products of bytes without VNNI")


def layers(depth=192, width=130):
    """A product, an activation and a Gemm by a transposed matrix with factors and a bias."""
    random = models.generator(5)
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="bounded"),
        helper.make_node("Gemm", ["b", "w1", "bias"], ["y"], name="second", alpha=0.5, transB=1),
    ]
    arrays = {"w0": (depth, width), "w1": (160, width), "bias": (160,)}
    constants = [models.constant(name, random.standard_normal(shape, np.float32)) for name, shape in arrays.items()]
    return models.model(nodes, [models.value("x", ["N", depth])], [models.value("y", None)], constants)


def sample(rows=7, depth=192):
    return {"x": models.generator(rows).standard_normal((rows, depth), np.float32)}


def norm_of_error(outputs, wanted):
    return float(np.linalg.norm(outputs["y"] - wanted) / np.linalg.norm(wanted))


def kernels_of(executor):
    return {row.node: row.kernel for row in executor.bench(repeats=1, quiet=True)}


@needs_vnni
@pytest.mark.parametrize(("depth", "width"), [(192, 130), (384, 256), (100, 192), (33, 1031)])
def test_errors_are_those_of_bytes(depth, width):
    proto = layers(depth, width)
    executor = make_compiler(proto).compile("cpu", precision="int8")
    for rows in (7, 1, 40):
        arrays = sample(rows, depth)
        (wanted,) = models.expected(proto, arrays)
        # Four operands within 1/254 of a block's largest element, which is about three standard deviations: 0.7 % each.
        assert 1e-3 < norm_of_error(executor(arrays), wanted) < 0.02
    assert sum(kernel.startswith(BYTES) for kernel in kernels_of(executor).values()) == 2
    assert "2 products round both operands to 8 bits: " in executor.dbg(quiet=True)
    assert "; largest error of weights 0.00" in executor.dbg(quiet=True)


@needs_vnni
def test_rows_and_columns_of_zeros_stay_so():
    random = models.generator(6)
    weights = random.standard_normal((192, 128), np.float32)
    weights[:, 5] = 0
    weights[64:192, 9] = 0
    weights[:, 11] *= 1e-30
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    proto = models.model(
        [node], [models.value("x", ["N", 192])], [models.value("y", None)], [models.constant("w", weights)]
    )
    x = sample(9)["x"]
    x[3] = 0
    y = make_compiler(proto).compile("cpu", precision="int8")({"x": x})["y"]
    wanted = x.astype(np.float64) @ weights
    assert not y[3].any()
    assert not y[:, 5].any()
    scale = np.abs(wanted).max(axis=0) + 1e-37
    assert np.all(np.abs(y - wanted) / scale < 0.05)


@needs_vnni
def test_nodes_can_be_kept():
    proto, arrays = layers(), sample()
    (wanted,) = models.expected(proto, arrays)
    executor = make_compiler(proto).compile("cpu", precision="int8", keep_f32=["second"])
    executor(arrays)
    kernels = kernels_of(executor)
    assert kernels["first"].startswith(BYTES)
    assert kernels["second"].startswith("matmul:cpu:")
    report = executor.dbg(quiet=True)
    assert '"second" stays f32: the user keeps it' in report
    every = make_compiler(proto).compile("cpu", precision="int8", keep_f32=["first", "second"])
    models.assert_close(every(arrays)["y"], wanted)
    rounded = make_compiler(proto).compile("cpu", precision="int8")(arrays)
    tolerance = relative_error(rounded, {"y": wanted}) * 0.9
    keep = find_keep(proto, arrays, tolerance, precision="int8")
    assert len(keep) == 1
    outputs = make_compiler(proto).compile("cpu", precision="int8", keep_f32=keep)(arrays)
    assert relative_error(outputs, {"y": wanted}) <= tolerance


@needs_vnni
def test_what_cannot_be_rounded_stays():
    """Matrices that are small, not finite, a variable or a stack."""
    random = models.generator(7)
    weights = {"small": (192, 16), "stack": (2, 192, 192), "huge": (192, 192)}
    constants = [random.standard_normal(shape, np.float32) for shape in weights.values()]
    constants[2][4, 4] = np.inf
    nodes = [helper.make_node("MatMul", ["x", name], [f"y_{name}"], name=name) for name in [*weights, "variable"]]
    proto = models.model(
        nodes,
        [models.value("x", [2, 3, 192]), models.value("variable", [192, 192])],
        [models.value(f"y_{name}", None) for name in [*weights, "variable"]],
        [models.constant(name, array) for name, array in zip(weights, constants, strict=True)],
    )
    executor = make_compiler(proto).compile("cpu", precision="int8")
    arrays = {"x": random.standard_normal((2, 3, 192), np.float32)}
    arrays["variable"] = random.standard_normal((192, 192), np.float32)
    outputs = executor(arrays)
    for name, array in zip([*weights, "variable"], [*constants, arrays["variable"]], strict=True):
        if name != "huge":
            models.assert_close(outputs[f"y_{name}"], arrays["x"] @ array)
    assert not any(kernel.startswith(BYTES) for kernel in kernels_of(executor).values())
    assert '"huge" stays f32: an element is not finite or too large' in executor.dbg(quiet=True)


def blocks_of_four_bits():
    """MatMulNBits that asks for floats."""
    random = models.generator(8)
    constants = {
        "q": random.integers(0, 256, (64, 4, 16), np.uint8),
        "scales": random.uniform(0.01, 0.02, (64 * 4,)).astype(np.float32),
    }
    node = helper.make_node("MatMulNBits", ["x", "q", "scales"], ["y"], domain="com.microsoft", K=128, N=64)
    node.attribute.extend([helper.make_attribute("bits", 4), helper.make_attribute("block_size", 32)])
    proto = models.model(
        [node],
        [models.value("x", [5, 128])],
        [models.value("y", [5, 64])],
        [models.constant(name, array) for name, array in constants.items()],
    )
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return proto


@pytest.mark.skipif(_core.instruction_set() == "scalar", reason="no products of bytes without AVX2")
def test_what_the_model_packs_is_rounded_too():
    arrays = sample(5, 128)
    compiler = make_compiler(blocks_of_four_bits())
    wanted, rounding = compiler.compile("cpu"), compiler.compile("cpu", precision="int8")
    exact = wanted(arrays)["y"]
    assert 1e-4 < norm_of_error(rounding(arrays), exact) < 0.02
    assert not any(kernel.startswith(BYTES) for kernel in kernels_of(wanted).values())
    assert [kernel.startswith(BYTES) for kernel in kernels_of(rounding).values()] == [True]


def test_processors_without_products_of_bytes_say_so():
    if HAS_VNNI:
        pytest.skip("this one has them")
    executor = make_compiler(layers()).compile("cpu", precision="int8")
    (wanted,) = models.expected(layers(), sample())
    models.assert_close(executor(sample())["y"], wanted)
    assert f"2 products stay f32: {_core.instruction_set()} has no faster ones of bytes" in executor.dbg(quiet=True)


def test_other_types_of_weights_are_refused():
    with pytest.raises(InvalidInput, match='weights "int8" with the precision int8, expected default or int4'):
        make_compiler(layers()).compile("cpu", precision="int8", weights="int8")


@pytest.mark.cuda
def test_a_gpu_refuses_it():
    try:
        find_device("nvidia", 0)
    except DeviceError as error:
        pytest.skip(str(error))
    with pytest.raises(Unsupported, match="precision int8: rounds products on a CPU alone"):
        make_compiler(layers()).compile("cuda", precision="int8")
