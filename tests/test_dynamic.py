"""Sizes that change at run time give the results of a model compiled for them."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from refactor_graph import InvalidInput
from refactor_graph.onnx import make_compiler

from tests import models


def _text(batch, length, seed=0):
    random = models.generator(seed)
    mask = np.ones((batch, length), np.int64)
    mask[:, length - length // 3 :] = 0
    return {"ids": random.integers(0, 50, (batch, length)), "mask": mask}


@pytest.mark.parametrize("passes", [[], ["-all"]])
def test_transformer_at_twenty_lengths(passes):
    model = models.transformer()
    executor = make_compiler(model).compile("cpu", "default", passes, num_threads=1)
    lengths = [int(length) for length in models.generator().permutation(np.arange(1, 40, 2))]
    assert len(lengths) == 20
    for length in [*lengths, *lengths[:3]]:
        inputs = _text(1 + length % 3, length)
        result = executor(inputs)["y"]
        compiler = make_compiler(model)
        compiler.substitute("B", 1 + length % 3)
        compiler.substitute("S", length)
        fresh = compiler.compile("cpu", "default", passes, num_threads=1)(inputs)["y"]
        models.assert_close(result, fresh)
        models.assert_close(result, models.expected(model, inputs)[0])


def test_decoder_with_a_growing_cache():
    model = models.decoder()
    executor = make_compiler(model).compile(num_threads=1)
    random = models.generator()
    past = {name: np.zeros((1, 2, 0, 8), np.float32) for name in ("past_k", "past_v")}
    for step in range(24):
        inputs = {"x": random.standard_normal((1, 1, 16), np.float32), **past}
        outputs = executor(inputs)
        if step:  # onnxruntime refuses an empty cache in some versions
            for name, wanted in zip(outputs, models.expected(model, inputs), strict=True):
                models.assert_close(outputs[name], wanted)
        assert outputs["k"].shape == (1, 2, step + 1, 8)
        past = {"past_k": outputs["k"], "past_v": outputs["v"]}


@pytest.mark.parametrize("allocator", ["default", "plain", "mru", "bestfit", "compact"])
def test_pictures_of_changing_size(allocator):
    model = models.convolutions()
    executor = make_compiler(model).compile("cpu", allocator)
    for batch, height, width in ((1, 32, 32), (2, 17, 41), (4, 8, 8), (1, 64, 20), (1, 32, 32)):
        array = models.generator(height).standard_normal((batch, 3, height, width), np.float32)
        models.assert_close(executor({"x": array})["y"], models.expected(model, {"x": array})[0])


def test_more_shapes_than_the_cache_holds():
    model = models.mlp()
    executor = make_compiler(model).compile()
    for rows in [*range(1, 100), 1, 50]:
        array = models.generator(rows).standard_normal((rows, 8), np.float32)
        assert executor({"x": array})["y"].shape == (rows, 5)
    models.assert_close(executor({"x": array})["y"], models.expected(model, {"x": array})[0])


def test_results_are_identical_from_run_to_run():
    executor = make_compiler(models.transformer()).compile(num_threads=2)
    inputs = _text(2, 19)
    first = executor(inputs)["y"]
    for _ in range(5):
        np.testing.assert_array_equal(executor(inputs)["y"], first)


def _ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def _of_sizes(nodes, outputs, *constants, inputs=()):
    """A model of an image `x` [1, 2, h, w]."""
    graph = helper.make_graph(
        [helper.make_node(op, i.split(), o.split(), **attributes) for op, i, o, attributes in nodes],
        "sizes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, "h", "w"]), *inputs],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [_ints("two", 2), *constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_follows_from_sizes_is_computed_once():
    """Sums of what came before, by a matrix of ones below its diagonal that follows from the height."""
    nodes = [
        ("Shape", "x", "shape", {}),
        ("Gather", "shape two", "height", {}),
        ("Reshape", "height none", "count", {}),
        ("Range", "zero count one", "columns", {}),
        ("Unsqueeze", "columns axis", "rows", {}),
        ("LessOrEqual", "columns rows", "before", {}),
        ("Cast", "before", "mask", {"to": TensorProto.FLOAT}),
        ("MatMul", "mask x", "y", {}),
    ]
    scalars = [numpy_helper.from_array(np.array(value, np.int64), name) for value, name in ((0, "zero"), (1, "one"))]
    model = _of_sizes(nodes, ["y"], *scalars, _ints("axis", 1), numpy_helper.from_array(np.zeros(0, np.int64), "none"))
    executor, seen = make_compiler(model).compile(), make_compiler(model).compile(keep=["mask"])
    for height in (5, 12, 5):
        array = models.generator(height).standard_normal((1, 2, height, 3), np.float32)
        for each in (executor, executor.clone(), seen):
            np.testing.assert_allclose(each({"x": array})["y"], np.cumsum(array, axis=2), rtol=1e-5, atol=1e-6)
        assert [row.type for row in executor.bench(quiet=True)] == ["MatMul"]
        assert executor.memory()["made"] == 4 * height**2
        assert "@made" in executor.describe_plan()
    # What a user wants to see is computed in the run.
    shown: list[str] = []
    seen.visit(lambda step, node, edge, name, array, is_output: shown.append(name) if is_output else None)
    assert "mask" in shown


def test_pads_that_are_turned_around_stay_sizes():
    # Pads of F.pad, from the last axis to the first, are made those of ONNX.
    nodes = [
        ("Shape", "x", "shape", {}),
        ("Gather", "shape two", "height", {}),
        ("Mod", "height seven", "rest", {}),
        ("Sub", "seven rest", "missing", {}),
        ("Mod", "missing seven", "pad", {}),
        ("Concat", "zero zero pad pad zero zero zero pad", "pads", {"axis": 0}),
        ("Reshape", "pads pairs", "matrix", {}),
        ("Slice", "matrix minus_one lowest zero minus_one", "turned", {}),
        ("Transpose", "turned", "columns", {"perm": [1, 0]}),
        ("Reshape", "columns minus_one", "list", {}),
        ("Cast", "list", "cast", {"to": TensorProto.INT64}),
        ("Pad", "x cast", "y", {}),
    ]
    lowest = np.iinfo(np.int64).min + 1
    constants = [_ints("seven", 7), _ints("zero", 0), _ints("pairs", -1, 2), _ints("minus_one", -1)]
    model = _of_sizes(nodes, ["y"], *constants, _ints("lowest", lowest))
    executor = make_compiler(model).compile()
    reference = ReferenceEvaluator(model)
    for height, width in ((10, 12), (14, 3), (8, 7)):
        array = models.generator(height).standard_normal((1, 2, height, width), np.float32)
        np.testing.assert_array_equal(executor({"x": array})["y"], reference.run(None, {"x": array})[0])
    assert [row.kernel.split(":")[0] for row in executor.bench(quiet=True)] == ["pad"]


@pytest.mark.parametrize(("fmod", "divisor", "steps"), [(0, 4, 1), (0, -4, 1), (1, 4, 1), (1, -4, 2)])
def test_remainders_stay_sizes(fmod, divisor, steps):
    # Where torch.roll cuts: the place is the shift modulo the size, or the size modulo the shift.
    nodes = [
        ("Shape", "x", "shape", {}),
        ("Gather", "shape two", "height", {}),
        ("Mod", "height divisor", "place", {"fmod": fmod}),
        ("Slice", "x place end axis", "y", {}),
    ]
    constants = [_ints("divisor", divisor), _ints("end", 99), _ints("axis", 2)]
    model = _of_sizes(nodes, ["y"], *constants)
    executor = make_compiler(model).compile()
    reference = ReferenceEvaluator(model)
    for height in (8, 3, 10):
        array = models.generator(height).standard_normal((1, 2, height, 5), np.float32)
        np.testing.assert_array_equal(executor({"x": array})["y"], reference.run(None, {"x": array})[0])
    assert len(executor.bench(quiet=True)) == steps


@pytest.mark.parametrize(
    ("start", "end"), [("-h", "h"), ("1-h", "h"), ("h-1", "h"), ("-h", "-1"), ("h-6", "h"), ("zero", "h-6")]
)
def test_symbolic_bounds_of_slices(start, end):
    spelled = {
        "h": ("Add", "height zero"),
        "-h": ("Sub", "zero height"),
        "1-h": ("Sub", "one height"),
        "h-1": ("Sub", "height one"),
        "h-6": ("Sub", "height six"),
        "-1": ("Sub", "zero one"),
        "zero": ("Add", "zero zero"),
    }
    nodes = [("Shape", "x", "shape", {}), ("Gather", "shape two", "height", {})]
    nodes += [(*spelled[bound], name, {}) for name, bound in (("first", start), ("last", end))]
    nodes += [("Slice", "x first last axis", "y", {})]
    constants = [_ints("zero", 0), _ints("one", 1), _ints("six", 6), _ints("axis", 3)]
    model = _of_sizes(nodes, ["y"], *constants)
    executor = make_compiler(model).compile()
    reference = ReferenceEvaluator(model)
    for height, width in ((8, 9), (1, 4), (6, 7), (3, 2), (3, 9)):
        array = models.generator(height).standard_normal((1, 2, height, width), np.float32)
        np.testing.assert_array_equal(executor({"x": array})["y"], reference.run(None, {"x": array})[0])


@pytest.mark.parametrize(
    ("bound", "message"), [("-h", "the start along axis 3 is 0, expected -1"), ("h-1", "is -1, e")]
)
def test_bounds_that_empty_sizes_turn_around_are_refused(bound, message):
    """They are taken as what they are for all other sizes."""
    made = ("Sub", "zero height" if bound == "-h" else "height one", "first", {})
    nodes = [("Shape", "x", "shape", {}), ("Gather", "shape two", "height", {}), made]
    nodes += [("Slice", "x first last axis", "y", {})]
    model = _of_sizes(nodes, ["y"], _ints("zero", 0), _ints("one", 1), _ints("last", 99), _ints("axis", 3))
    executor = make_compiler(model).compile()
    assert executor({"x": np.zeros((1, 2, 0, 0), np.float32)})["y"].size == 0
    with pytest.raises(InvalidInput, match=message):
        executor({"x": np.zeros((1, 2, 0, 4), np.float32)})


def test_joined_rows_stay_sizes():
    nodes = [
        ("Shape", "x", "shape", {}),
        ("Gather", "shape two", "height", {}),
        ("Concat", "height two", "row", {"axis": 0}),
        ("Reshape", "row pair", "first", {}),
        ("Concat", "first second", "rows", {"axis": 0}),
        ("Transpose", "rows", "columns", {"perm": [1, 0]}),
        ("Reshape", "columns minus_one", "target", {}),
        ("Expand", "one target", "y", {}),
    ]
    second = numpy_helper.from_array(np.array([[3, 1]], np.int64), "second")
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    model = _of_sizes(nodes, ["y"], _ints("pair", 1, 2), _ints("minus_one", -1), second, one)
    executor = make_compiler(model).compile()
    for height in (4, 7):
        assert executor({"x": np.zeros((1, 2, height, 1), np.float32)})["y"].shape == (height, 3, 2, 1)
    assert [row.kernel.split(":")[0] for row in executor.bench(quiet=True)] == ["expand"]


def test_sizes_that_only_what_is_deferred_reads():
    # Pads are data; the bounds of Slice and the target of Reshape are sizes of what came before.
    nodes = [
        ("MaxPool", "x", "half", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Shape", "half", "sizes", {}),
        ("Gather", "sizes two", "height", {}),
        ("Gather", "sizes three", "width", {}),
        ("Pad", "half pads", "more", {}),
        ("Concat", "height width", "ends", {"axis": 0}),
        ("Slice", "more starts ends axes", "less", {}),
        ("Mul", "height width", "area", {}),
        ("Concat", "two area", "target", {"axis": 0}),
        ("Reshape", "less target", "y", {}),
    ]
    pads = helper.make_tensor_value_info("pads", TensorProto.INT64, [8])
    constants = [_ints("three", 3), _ints("starts", 0, 0), _ints("axes", 2, 3)]
    executor = make_compiler(_of_sizes(nodes, ["y"], *constants, inputs=[pads])).compile()
    for height, width in ((4, 6), (7, 6), (6, 2)):
        array = models.generator(height).standard_normal((1, 2, height, width), np.float32)
        inputs = {"x": array, "pads": np.array([0, 0, 0, 0, 0, 0, 2, 3])}
        wanted = array[:, :, : height // 2 * 2].reshape(1, 2, height // 2, 2, width // 2, 2).max((3, 5))
        np.testing.assert_array_equal(executor(inputs)["y"], wanted.reshape(2, -1))


def _strided_windows(kernel, stride, pads, channels=6):
    """x[1, 3, S] → Conv → Reshape to [channels, (S - cut) // stride + 1], counted by integer division, → Softmax."""
    cut = kernel - 2 * pads
    weights = models.generator(7).standard_normal((channels, 3, kernel), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", strides=[stride], pads=[pads, pads]),
        helper.make_node("Shape", ["x"], ["s"], "size", start=2, end=3),
        helper.make_node("Sub", ["s", "cut"], ["d"], "sub"),
        helper.make_node("Div", ["d", "stride"], ["q"], "windows"),
        helper.make_node("Add", ["q", "one"], ["n"], "add"),
        helper.make_node("Concat", ["channels", "n"], ["t"], "concat", axis=0),
        helper.make_node("Reshape", ["c", "t"], ["r"], "reshape"),
        helper.make_node("Softmax", ["r"], ["y"], "softmax"),
    ]
    numbers = {"cut": cut, "stride": stride, "one": 1, "channels": channels}
    constants = [models.constant(name, np.array([number], np.int64)) for name, number in numbers.items()]
    inputs, outputs = [models.value("x", [1, 3, "S"])], [models.value("y", [channels, "W"])]
    return models.model(nodes, inputs, outputs, [*constants, models.constant("w", weights)])


@pytest.mark.parametrize(("kernel", "stride", "pads"), [(7, 4, 3), (10, 5, 0)])
def test_counted_windows_are_sizes(kernel, stride, pads):
    model = _strided_windows(kernel, stride, pads)
    executor = make_compiler(model).compile("cpu")
    for length in (31, kernel - 2 * pads, 50, 64):
        array = models.generator(length).standard_normal((1, 3, length), np.float32)
        models.assert_close(executor({"x": array})["y"], models.expected(model, {"x": array})[0])
    assert {row.type for row in executor.bench(quiet=True)} <= {"Conv", "Reorder", "Softmax"}


def test_windows_that_do_not_fit_are_refused():
    executor = make_compiler(_strided_windows(10, 5, 0)).compile("cpu")
    with pytest.raises(InvalidInput, match='Div node "windows": the dividend is -3, expected 0'):
        executor({"x": np.zeros((1, 3, 7), np.float32)})
    assert executor({"x": np.zeros((1, 3, 15), np.float32)})["y"].shape == (6, 2)


def test_negated_sizes_divide_toward_zero():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Neg", ["s"], ["m"]),
        helper.make_node("Div", ["m", "two"], ["h"]),
        helper.make_node("Neg", ["h"], ["p"]),
        helper.make_node("Expand", ["one", "p"], ["y"]),
    ]
    constants = [models.constant("two", np.array([2])), models.constant("one", np.ones(1, np.float32))]
    model = models.model(nodes, [models.value("x", ["S"])], [models.value("y", ["P"])], constants)
    executor = make_compiler(model).compile("cpu")
    for length in (5, 8, 1, 0):
        assert executor({"x": np.zeros(length, np.float32)})["y"].shape == (length // 2,)
    assert not {"Deferred", "ContentSizes"} & {row.type for row in executor.bench(quiet=True)}


@pytest.mark.parametrize("passes", [[], ["-all"]])
def test_constants_in_shapes_of_open_sizes(passes):
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "last"], ["width"]),
        helper.make_node("Concat", ["rest", "width"], ["shape"], axis=0),
        helper.make_node("Reshape", ["factors", "shape"], ["row"]),
        helper.make_node("Mul", ["x", "row"], ["y"]),
    ]
    factors = np.arange(1, 5, dtype=np.float32)
    constants = [models.constant("last", [-1]), models.constant("rest", [-1]), models.constant("factors", factors)]
    model = models.model(nodes, [models.value("x", ["A", "H"])], [models.value("y", None)], constants)
    executor = make_compiler(model).compile("cpu", passes=passes)
    for shape, row in (((3, 4), factors), ((2, 2), factors.reshape(2, 2)), ((4, 1), factors.reshape(4, 1))):
        np.testing.assert_array_equal(executor({"x": np.ones(shape, np.float32)})["y"], np.broadcast_to(row, shape))


def _padded_positions():
    """x[N, 4, S] → Conv to S - 2 features, plus those of a wider window padded on both sides, cut at the end."""
    random = models.generator(3)
    constants = [models.constant(name, np.array([value])) for name, value in (("first", 0), ("end", -1), ("axis", 2))]
    for name, shape in (("w", (16, 4, 3)), ("v", (16, 16, 4))):
        constants.append(models.constant(name, random.standard_normal(shape, np.float32)))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "features"),
        helper.make_node("Conv", ["c", "v"], ["p"], "positions", pads=[2, 2]),
        helper.make_node("Slice", ["p", "first", "end", "axis"], ["cut"], "cut"),
        helper.make_node("Relu", ["cut"], ["r"], "relu"),
        helper.make_node("Add", ["c", "r"], ["y"], "add"),
    ]
    return models.model(nodes, [models.value("x", ["N", 4, "S"])], [models.value("y", None)], constants)


def test_sizes_bounded_below_are_those_of_other_tensors():
    model = _padded_positions()
    executor = make_compiler(model).compile("cpu")
    assert [str(size) for size in executor.outputs[0].shape] == ["N", "16", "S - 2"]
    for shape in ((1, 4, 9), (3, 4, 3), (2, 4, 40)):
        array = models.generator(shape[2]).standard_normal(shape, np.float32)
        models.assert_close(executor({"x": array})["y"], models.expected(model, {"x": array})[0])
    assert "Slice" not in {row.type for row in executor.bench(quiet=True)}
    with pytest.raises(InvalidInput, match="negative size -1"):
        executor({"x": np.zeros((1, 4, 1), np.float32)})
