"""What the fuzzer found: one test for each defect."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from refactor_graph import InvalidModel
from refactor_graph.onnx import make_compiler

from tests import models, single


def _run(nodes, inputs, feeds, constants=(), opset=17):
    outputs = [models.value(name, None) for name in nodes[-1].output]
    for output in outputs:
        output.ClearField("type")
    return next(iter(make_compiler(models.model(nodes, inputs, outputs, constants, opset)).compile()(feeds).values()))


@pytest.mark.parametrize("opset", [9, 13, 17])
def test_batch_normalization_of_unknown_channels_with_constant_parameters(opset):
    random = models.generator(1)
    x = random.standard_normal((2, 4, 7), np.float32)
    scale, bias, mean = (random.standard_normal(4).astype(np.float32) for _ in range(3))
    variance = random.uniform(0.5, 2, 4).astype(np.float32)
    constants = [models.constant(n, a) for n, a in zip("sbmv", (scale, bias, mean, variance), strict=True)]
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])
    y = _run([node], [models.value("x", ["N", "C", "W"])], {"x": x}, constants, opset)
    column = (slice(None), None)
    wanted = (x - mean[column]) / np.sqrt(variance[column].astype(np.float64) + 1e-5) * scale[column] + bias[column]
    # One division, one product and two sums of numbers of this size, each rounded once.
    np.testing.assert_allclose(y, wanted, rtol=0, atol=8 * np.finfo(np.float32).eps * np.abs(wanted).max())


@pytest.mark.parametrize("shape", [(2, 7, 0), (0, 7, 3), (2, 7, 0, 5)])
def test_constants_without_elements(shape):
    """Dividing by rows of no bytes was the end of the process."""
    random = models.generator(2)
    constants = [models.constant("x", np.zeros(shape, np.float32))]
    constants += [models.constant(name, random.uniform(0.5, 2, 7).astype(np.float32)) for name in "sbmv"]
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])
    y = _run([node], [], {}, constants)
    assert (y.shape, y.dtype) == (shape, np.float32)


def test_one_hot_takes_values_of_a_symbolic_size():
    node = helper.make_node("OneHot", ["i", "d", "v"], ["y"])
    inputs = [models.value("i", ["N"], TensorProto.INT64), models.value("v", ["K"])]
    constants = [models.constant("d", np.array(3))]
    values = np.array([-0.5, 2.5], np.float32)
    y = _run([node], inputs, {"i": np.array([2, 0, -1, 7]), "v": values}, constants)
    np.testing.assert_array_equal(y, np.array([[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 0, 0]], np.float32) * 3 - 0.5)
    with pytest.raises(InvalidModel, match="3"):
        _run([node], [inputs[0], models.value("v", [3])], {}, constants)


@pytest.mark.parametrize("constants", [[], ["x0"], ["x1"]])
@pytest.mark.parametrize("symbols", ["none", "larger", "all"])
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(4, 1), (3, 5)]),
        ("ij,jk->ik", [(4, 3), (1, 5)]),
        ("bij,bjk->bik", [(2, 4, 3), (1, 3, 5)]),
        ("bij,bjk->bik", [(1, 4, 3), (2, 3, 5)]),
        ("bhij,bhjk->bhik", [(2, 1, 4, 3), (1, 5, 3, 2)]),
        ("ij,ij->ij", [(1, 3), (4, 1)]),
        ("ij,ij->", [(1, 3), (4, 3)]),
        ("bi,bi,bi->b", [(1, 3), (4, 3), (4, 1)]),
        ("bi,bi,bj->j", [(1, 3), (4, 1), (1, 2)]),
        ("ij,kj,jl->il", [(4, 1), (3, 1), (5, 2)]),
        ("ii,i->i", [(3, 3), (1,)]),
        ("ii,ij->j", [(1, 1), (4, 3)]),
        ("i,ii->i", [(1,), (3, 3)]),
        ("...ij,...jk->...ik", [(2, 1, 4, 3), (5, 1, 2)]),
    ],
)
def test_einsum_broadcasts_axes_of_size_1(equation, shapes, symbols, constants):
    """With "all", that a size is 1 is known to a run alone, and the one after it has sizes that are equal."""
    random = models.generator(5)
    names = [f"x{i}" for i in range(len(shapes))]
    feeds = {name: random.standard_normal(shape, np.float32) for name, shape in zip(names, shapes, strict=True)}
    least = {"none": 1 << 30, "larger": 2, "all": 1}[symbols]
    dims = {
        name: [f"{name}_{k}" if size >= least else size for k, size in enumerate(array.shape)]
        for name, array in feeds.items()
    }
    inputs = [models.value(name, dims[name]) for name in names if name not in constants]
    proto = models.model(
        [helper.make_node("Einsum", names, ["y"], equation=equation)],
        inputs,
        [models.value("y", None)],
        [models.constant(name, feeds[name]) for name in constants],
    )
    executor = make_compiler(proto).compile(verify=True)

    def check(feeds):
        y = executor({name: array for name, array in feeds.items() if name not in constants})["y"]
        wanted = np.einsum(equation, *(array.astype(np.float64) for array in feeds.values()))
        assert y.shape == wanted.shape
        # At most 15 terms of a product of three.
        atol = 16 * np.finfo(np.float32).eps * max(np.abs(wanted).max(), 1)
        np.testing.assert_allclose(y, wanted, rtol=0, atol=atol)

    check(feeds)
    if symbols == "all" and not constants:
        largest = max(size for shape in shapes for size in shape)
        equal = {
            name: random.standard_normal([largest] * len(shape), np.float32)
            for name, shape in zip(names, shapes, strict=True)
        }
        check(equal)
        check(feeds)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(("op", "attributes"), [("Shrink", {"lambd": 0.5, "bias": 0.25}), ("ThresholdedRelu", {})])
def test_thresholds_do_not_hold_for_nan(op, attributes, dtype):
    x = np.array([np.nan, -np.inf, np.inf, -2, -0.25, 0, 0.25, 2] * 5, dtype)
    y = _run(
        [helper.make_node(op, ["x"], ["y"], **attributes)],
        [models.value("x", ["N"], helper.np_dtype_to_tensor_dtype(x.dtype))],
        {"x": x},
    )
    if op == "Shrink":
        wanted = np.where(x < -0.5, x + dtype(0.25), np.where(x > 0.5, x - dtype(0.25), dtype(0)))
    else:
        wanted = np.where(x > 1, x, dtype(0))
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_shrink_of_integers(dtype):
    x = np.arange(-5 if np.issubdtype(dtype, np.signedinteger) else 0, 9).astype(dtype)
    node = helper.make_node("Shrink", ["x"], ["y"], lambd=1.5, bias=1.0)
    y = _run([node], [models.value("x", ["N"], helper.np_dtype_to_tensor_dtype(x.dtype))], {"x": x})
    wide = x.astype(np.int64)
    np.testing.assert_array_equal(y, np.where(wide < -1.5, wide + 1, np.where(wide > 1.5, wide - 1, 0)).astype(dtype))


@pytest.mark.parametrize("bounds", [{}, {"min": -1.0}, {"max": 1.0}, {"min": -1.0, "max": 1.0}])
def test_clip_before_opset_11_makes_infinities_finite(bounds):
    x = np.array([-np.inf, np.inf, np.nan, -3, 0.5, 3], np.float32)
    node = helper.make_node("Clip", ["x"], ["y"], **bounds)
    y = _run([node], [models.value("x", ["N"])], {"x": x}, opset=8)
    most = np.finfo(np.float32).max
    np.testing.assert_array_equal(y, np.clip(x, bounds.get("min", -most), bounds.get("max", most)))


@pytest.mark.parametrize("last", ["Shape", "Size", "Expand", "ConstantOfShape"])
def test_a_size_may_be_all_that_is_wanted_of_data(last):
    x = np.arange(10, dtype=np.float32).reshape(5, 2) - 4
    mask = np.array([True, False, True, True, False])
    nodes = [helper.make_node("Compress", ["x", "m"], ["c"], axis=0), helper.make_node("Relu", ["c"], ["r"])]
    if last in ("Shape", "Size"):
        nodes.append(helper.make_node(last, ["r"], ["y"]))
    else:
        nodes.append(helper.make_node("Shape", ["r"], ["s"]))
        nodes.append(helper.make_node(last, ["v", "s"] if last == "Expand" else ["s"], ["y"]))
    inputs = [models.value("x", [5, 2]), models.value("m", [5], TensorProto.BOOL)]
    y = _run(nodes, inputs, {"x": x, "m": mask}, [models.constant("v", np.float32(1.5))])
    wanted = {"Shape": [3, 2], "Size": 6, "Expand": np.full((3, 2), 1.5), "ConstantOfShape": np.zeros((3, 2))}[last]
    np.testing.assert_array_equal(y, wanted)


def test_attention_to_nothing_but_nan_is_nan():
    q, k, v = (np.ones((1, 1, rows, 4), np.float32) for rows in (2, 3, 3))
    k[:] = np.nan
    proto = single.model("Attention", {"q": q, "k": k, "v": v}, opset=24)
    assert np.isnan(single.run(proto, {"q": q, "k": k, "v": v})[0]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64], ids=str)
@pytest.mark.parametrize("power", [2, 3])
def test_powers_of_what_a_fused_program_computed(dtype, power):
    x = (models.generator(504).standard_normal(1003) * 9).astype(dtype)
    nodes = [helper.make_node("Neg", ["x"], ["t"]), helper.make_node("Pow", ["t", "p"], ["y"])]
    inputs = [models.value("x", [1003], helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))]
    y = _run(nodes, inputs, {"x": x}, [models.constant("p", np.array(power, dtype))])
    np.testing.assert_allclose(y, (-x.astype(np.float64)) ** power, rtol=4 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("op", ["ReduceL1", "ReduceL2", "ReduceMean", "ReduceProd", "ReduceSumSquare"])
@pytest.mark.parametrize("axes", [[0], [0, 1]])
def test_reductions_of_sizes(op, axes):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "i"], ["g"]),
        helper.make_node("Cast", ["g"], ["c"], to=TensorProto.INT32),
        helper.make_node(op, ["c"], ["y"], keepdims=0),
    ]
    y = _run(
        nodes,
        [models.value("x", ["N", "M"])],
        {"x": np.zeros((7, 3), np.float32)},
        [models.constant("i", np.array(axes))],
    )
    proto = models.model(nodes[3:], [models.value("c", None, 6)], [models.value("y", None, 6)])
    assert y == ReferenceEvaluator(proto).run(None, {"c": np.array([7, 3], np.int32)[axes]})[0]


@pytest.mark.parametrize("rounding", ["round_prefer_ceil", "round_prefer_floor", "floor", "ceil"])
def test_resize_to_sizes_between_two_elements(rounding):
    nodes = [helper.make_node("Resize", ["x", "", "", "s"], ["y"], coordinate_transformation_mode="asymmetric")]
    nodes[0].attribute.append(helper.make_attribute("nearest_mode", rounding))
    for size in range(1, 17):
        x = np.arange(size, dtype=np.float32).reshape(1, 1, size)
        for wanted in range(1, 24):
            sizes = [models.constant("s", np.array([1, 1, wanted]))]
            y = _run(nodes, [models.value("x", x.shape)], {"x": x}, sizes)
            exact = np.arange(wanted) * size / wanted
            near = {"floor": np.floor(exact), "ceil": np.ceil(exact), "round_prefer_floor": np.ceil(exact - 0.5)}
            index = near.get(rounding, np.floor(exact + 0.5))
            np.testing.assert_array_equal(y[0, 0], np.minimum(index, size - 1))


@pytest.mark.parametrize("channels", [3, 32])
def test_means_of_large_planes_are_accurate(channels):
    """All elements are nearly the same: rounding errors of a running sum would add up."""
    x = models.generator(505).uniform(0.8, 0.9, (1, channels, 76, 700)).astype(np.float32)
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("GlobalAveragePool", ["r"], ["y"])]
    y = _run(nodes, [models.value("x", x.shape)], {"x": x})
    # Some 280 additions one behind the other: sqrt(280) roundings of half a unit, and twice that.
    np.testing.assert_allclose(y, x.astype(np.float64).mean((2, 3), keepdims=True), rtol=17 * np.finfo(np.float32).eps)
