"""Operators that move, index and resample elements, on every kind of device, compared with onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph import InvalidInput
from refactor_graph.onnx import make_compiler

from tests import models

F16, F32, F64 = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE
I32, I64, U8, BOOL = TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.BOOL


class Case:
    """One node over named inputs `(shape, dtype, low, high)`; bounds make integers of their range."""

    def __init__(self, op, inputs, constants=(), outputs=1, opset=19, tolerance=0.0, **attributes):
        names = [*inputs, *(name for name, _ in constants)]
        order = attributes.pop("order", names)
        results = [f"y{i}" for i in range(outputs)]
        node = helper.make_node(op, order, results, **attributes)
        ports = [models.value(name, spec[0], spec[1]) for name, spec in inputs.items()]
        self.model = models.model(
            [node],
            ports,
            [helper.make_empty_tensor_value_info(name) for name in results],
            [models.constant(name, array) for name, array in constants],
            opset=opset,
        )
        self.inputs, self.tolerance = inputs, tolerance

    def arrays(self):
        random = models.generator(5)
        made = {}
        for name, (shape, dtype, *bounds) in self.inputs.items():
            kind = helper.tensor_dtype_to_np_dtype(dtype)
            if bounds:
                made[name] = random.integers(*bounds, shape, endpoint=True).astype(kind)
            elif kind.kind in "iu":
                made[name] = random.integers(0, 100, shape).astype(kind)
            else:
                made[name] = (random.standard_normal(shape) * 3).astype(kind)
        return made


def x(*shape, dtype=F32):
    return (shape, dtype)


def index(low, high, *shape, dtype=I64):
    return (shape, dtype, low, high)


def ints(name, *values):
    return (name, np.array(values, np.int64))


CASES = {
    "transpose": Case("Transpose", {"x": x(2, 3, 40, 50)}, perm=[0, 1, 3, 2]),
    "transpose_heads": Case("Transpose", {"x": x(2, 9, 4, 16)}, perm=[0, 2, 1, 3]),
    "transpose_f16": Case("Transpose", {"x": x(3, 70, 65, dtype=F16)}, perm=[2, 0, 1]),
    "depth_to_space": Case("DepthToSpace", {"x": x(2, 12, 5, 6)}, blocksize=2),
    "depth_to_space_crd": Case("DepthToSpace", {"x": x(2, 12, 5, 6)}, blocksize=2, mode="CRD"),
    "space_to_depth": Case("SpaceToDepth", {"x": x(2, 3, 6, 8)}, blocksize=2),
    "slice": Case(
        "Slice",
        {"x": x(3, 20, 17)},
        [ints("s", 2, -1), ints("e", 19, -18), ints("a", 1, 2), ints("t", 3, -2)],
    ),
    "split": Case("Split", {"x": x(3, 11, 4)}, [ints("s", 2, 5, 4)], outputs=3, axis=1),
    "concat": Case("Concat", {"a": x(3, 5, 4), "b": x(3, 1, 4), "c": x(3, 2, 4)}, axis=1),
    "expand": Case("Expand", {"x": x(3, 1, 5)}, [ints("s", 2, 3, 7, 5)]),
    "tile": Case("Tile", {"x": x(3, 5)}, [ints("r", 2, 3)]),
    "pad": Case("Pad", {"x": x(2, 5, 7)}, [ints("p", 0, 1, 2, 1, 0, 3), ("v", np.float32(1.5))]),
    **{
        f"pad_{mode}": Case("Pad", {"x": x(2, 5, 7)}, [ints("p", 0, 1, 2, 1, 0, 3)], mode=mode)
        for mode in ("reflect", "edge", "wrap")
    },
    "gather": Case("Gather", {"x": x(30, 24), "i": index(-30, 29, 4, 5)}),
    "gather_axis": Case("Gather", {"x": x(3, 9, 7), "i": index(-9, 8, 11, dtype=I32)}, axis=1),
    "gather_elements": Case("GatherElements", {"x": x(4, 9, 5), "i": index(-9, 8, 3, 12, 5)}, axis=1),
    "gather_nd": Case("GatherND", {"x": x(4, 5, 6), "i": index(-4, 3, 7, 2)}),
    "gather_nd_batch": Case("GatherND", {"x": x(4, 5, 6), "i": index(-5, 4, 4, 3, 1)}, batch_dims=1),
    "scatter_add": Case(
        "ScatterElements",
        {"x": x(6, 5, dtype=I32), "i": index(-6, 5, 20, 5), "u": x(20, 5, dtype=I32)},
        reduction="add",
        opset=18,
    ),
    "scatter_nd": Case(
        "ScatterND", {"x": x(6, 5), "u": x(3, 5)}, [("i", np.array([[4], [0], [-1]]))], order=["x", "i", "u"]
    ),
    "scatter_nd_max": Case(
        "ScatterND", {"x": x(6, 5), "i": index(-6, 5, 9, 1), "u": x(9, 5)}, reduction="max", opset=18
    ),
    "one_hot": Case("OneHot", {"i": index(-12, 12, 3, 4)}, [("d", np.int64(10)), ("v", np.float32([0.5, 2]))], axis=1),
    "trilu": Case("Trilu", {"x": x(3, 7, 9)}, [("k", np.int64(-1))], upper=0),
    "reverse_sequence": Case("ReverseSequence", {"x": x(6, 4, 3)}, [ints("l", 1, 6, 3, 2)]),
    "cumsum": Case("CumSum", {"x": x(3, 700)}, [("a", np.int64(1))], tolerance=1e-4),
    "cumsum_middle": Case("CumSum", {"x": x(3, 30, 7)}, [("a", np.int64(1))], reverse=1, exclusive=1, tolerance=1e-4),
    "top_k": Case("TopK", {"x": x(3, 500)}, [ints("k", 7)], outputs=2),
    "top_k_smallest": Case("TopK", {"x": x(40, 3)}, [ints("k", 9)], outputs=2, axis=0, largest=0),
    "resize_nearest": Case("Resize", {"x": x(1, 3, 5, 6)}, [ints("s", 1, 3, 10, 12)], order=["x", "", "", "s"]),
    "resize_linear": Case(
        "Resize",
        {"x": x(1, 3, 5, 6)},
        [ints("s", 1, 3, 11, 4)],
        order=["x", "", "", "s"],
        mode="linear",
        tolerance=1e-5,
    ),
    "resize_cubic": Case(
        "Resize",
        {"x": x(1, 3, 5, 6)},
        [("s", np.float32([1, 1, 2.5, 0.7]))],
        order=["x", "", "s"],
        mode="cubic",
        coordinate_transformation_mode="pytorch_half_pixel",
        tolerance=1e-5,
    ),
    "grid_sample": Case(
        "GridSample", {"x": x(2, 3, 7, 9), "g": x(2, 5, 4, 2)}, mode="bilinear", opset=16, tolerance=1e-5
    ),
    "roi_align": Case(
        "RoiAlign",
        {"x": x(2, 3, 12, 14)},
        [("r", np.float32([[1, 1, 9, 8], [0, 2, 5, 11]])), ints("b", 0, 1)],
        output_height=3,
        output_width=4,
        sampling_ratio=2,
        tolerance=1e-5,
    ),
    "bool_movement": Case("Transpose", {"x": ((5, 40), BOOL, 0, 1)}, perm=[1, 0]),
    "bytes": Case("Concat", {"a": x(3, 5, dtype=U8), "b": x(3, 2, dtype=U8)}, axis=1),
    "f64": Case("Gather", {"x": x(9, 3, dtype=F64), "i": index(0, 8, 4)}),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_onnxruntime(target, name):
    case = CASES[name]
    arrays = case.arrays()
    outputs = make_compiler(case.model).compile(target)(arrays)
    for actual, wanted in zip(outputs.values(), models.expected(case.model, arrays), strict=True):
        assert actual.dtype == wanted.dtype
        if case.tolerance:
            np.testing.assert_allclose(actual, wanted, rtol=case.tolerance, atol=case.tolerance)
        else:
            np.testing.assert_array_equal(actual, wanted)


def test_range_of_an_input(target):
    """A length that the data tells."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Squeeze", ["s"], ["n"]),
        helper.make_node("Range", ["zero", "n", "one"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=F32),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    constants = [models.constant("zero", np.int64(0)), models.constant("one", np.int64(1))]
    proto = models.model(nodes, [models.value("x", ["N"])], [models.value("y", ["N"])], constants)
    executor = make_compiler(proto).compile(target)
    for count in (1, 300, 17):
        array = models.generator(count).standard_normal(count, np.float32)
        np.testing.assert_array_equal(executor({"x": array})["y"], array + np.arange(count, dtype=np.float32))


def test_a_new_shape_compiles_nothing(target):
    """Rows of other lengths, one executor."""
    proto = models.model(
        [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])],
        [models.value("x", ["N", "M"])],
        [models.value("y", ["M", "N"])],
    )
    executor = make_compiler(proto).compile(target)
    for shape in ((40, 50), (3, 4), (1, 9), (64, 17)):
        array = models.generator(sum(shape)).standard_normal(shape, np.float32)
        np.testing.assert_array_equal(executor({"x": array})["y"], array.T)


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"])
def test_casts_to_eight_bits(target, kind):
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=getattr(TensorProto, kind))]
    proto = models.model(nodes, [models.value("x", [70])], [helper.make_empty_tensor_value_info("y")], opset=19)
    array = models.generator(8).standard_normal(70, np.float32) * 300
    actual, wanted = (make_compiler(proto).compile(name)({"x": array})["y"] for name in (target, "cpu"))
    np.testing.assert_array_equal(actual.view(np.uint8), wanted.view(np.uint8))


FAULTS = {
    "gather_elements": (Case("GatherElements", {"x": x(4, 9), "i": index(9, 9, 3, 9)}, axis=1), "index 9"),
    "gather_nd": (Case("GatherND", {"x": x(4, 5), "i": index(-7, -7, 3, 2)}), "index -7"),
    "scatter_nd": (Case("ScatterND", {"x": x(6, 5), "i": index(6, 6, 1, 1), "u": x(1, 5)}), "index 6"),
    "reverse_sequence": (Case("ReverseSequence", {"x": x(6, 2, 3), "l": index(7, 7, 2)}), "7"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_indices_out_of_range_are_named(target, name):
    case, message = FAULTS[name]
    executor = make_compiler(case.model).compile(target)
    with pytest.raises(InvalidInput, match=message):
        executor(case.arrays())
