"""Sequences, results of a size that the data tells, and nodes that wait for content."""

import numpy as np
import pytest
from onnx import helper
from refactor_graph import InvalidInput, InvalidModel
from refactor_graph.onnx import make_compiler

from tests import models
from tests.procedures import BOOL, F32, I64, TEXT, compare, constant, make, node, onnxruntime, sequence, value


def select_model():
    """Relu, then the places of what is left, then arithmetic on as many elements."""
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("NonZero", ["r"], ["places"]),
        node("Transpose", ["places"], ["t"], perm=[1, 0]),
        node("GatherND", ["r", "t"], ["found"]),
        node("Mul", ["found", "two"], ["y"]),
        node("Shape", ["y"], ["size"]),
        node("ReduceSum", ["y"], ["sum"], keepdims=0),
        node("ConstantOfShape", ["size"], ["zeros"]),
    ]
    ports = [value("x", F32, ["N", 5])]
    results = [value("y", F32, None), value("size", I64, [1]), value("sum", F32, []), value("zeros", F32, None)]
    return make(nodes, ports, results, initializers=[constant("two", np.float32(2))])


def test_sizes_that_the_data_tells_flow_on(target):
    proto = select_model()
    random = models.generator()
    feeds = [{"x": random.standard_normal((n, 5), np.float32)} for n in (3, 1, 7, 3)]
    feeds.append({"x": np.full((2, 5), -1, np.float32)})
    executor = compare(proto, *feeds, target=target)
    assert executor.program.calls == 3
    assert f"nonzero:{'cpu:scan:any' if target == 'cpu' else 'nvidia:nvrtc:f32'}" in executor.dbg(quiet=True)


def test_procedures_work_with_every_tool(tmp_path, target):
    executor = make_compiler(select_model()).compile(target, "bestfit", num_threads=2)
    feed = {"x": models.generator().standard_normal((3, 5), np.float32)}
    wanted = executor(feed)["y"]
    rows = executor.bench(quiet=True, repeats=2)
    assert "NonZero" in [row.type for row in rows]
    assert executor.trace(tmp_path) > 5
    assert any("places" in p.name or "value" in p.name for p in tmp_path.iterdir())
    clone = executor.clone()
    clone.run()
    np.testing.assert_array_equal(clone.get_output("y"), wanted)
    executor.dispatch(executor.device, "plain")
    np.testing.assert_array_equal(executor(feed)["y"], wanted)
    executor.trim()
    assert executor.memory()["planned"] >= 0


def test_results_stay_when_the_executor_runs_again(target):
    executor = make_compiler(select_model()).compile(target)
    first = executor({"x": np.arange(10, dtype=np.float32).reshape(2, 5)})["y"]
    kept = first.copy()
    executor({"x": -np.arange(10, dtype=np.float32).reshape(2, 5)})
    executor({"x": np.ones((2, 5), np.float32)})
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i4", "i8", "u1", "u8", "?"])
def test_nonzero_of_every_type(dtype, target):
    x = models.generator().integers(-1, 2, (3, 4, 5)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    proto = make([node("NonZero", ["x"], ["y"])], [value("x", kind, [3, 4, 5])], [value("y", I64, None)])
    ours = make_compiler(proto).compile(target)({"x": x})["y"]
    np.testing.assert_array_equal(ours, np.array(np.nonzero(x)))


def test_nonzero_over_many_blocks(target):
    x = (models.generator().random(300_000) < 0.3).astype(np.float32)
    x[::7] = -0.0
    proto = make([node("NonZero", ["x"], ["y"])], [value("x", F32, ["N"])], [value("y", I64, None)])
    ours = make_compiler(proto).compile(target, num_threads=3)({"x": x})["y"]
    np.testing.assert_array_equal(ours[0], np.nonzero(x)[0])


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress(axis, target):
    attributes = {} if axis is None else {"axis": axis}
    proto = make(
        [node("Compress", ["x", "c"], ["y"], **attributes)],
        [value("x", F32, [3, 4]), value("c", BOOL, ["K"])],
        [value("y", F32, None)],
    )
    random = models.generator()
    x = random.standard_normal((3, 4), np.float32)
    compare(proto, *({"x": x, "c": random.random(k) < 0.5} for k in (1, 3)), target=target)
    with pytest.raises(InvalidInput, match="asks for element 19"):
        make_compiler(proto).compile(target)({"x": x, "c": np.ones(20, bool)})


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_unique(axis, ordered, target):
    attributes = {"sorted": ordered} | ({} if axis is None else {"axis": axis})
    names = ["y", "first", "inverse", "counts"]
    proto = make(
        [node("Unique", ["x"], names, **attributes)],
        [value("x", F32, ["N", 3])],
        [value("y", F32, None), *(value(name, I64, None) for name in names[1:])],
    )
    x = models.generator().integers(0, 2, (9, 3)).astype(np.float32)
    compare(proto, {"x": x}, oracle=onnxruntime, target=target)


def test_unique_texts():
    proto = make([node("Unique", ["x"], ["y"])], [value("x", TEXT, ["N"])], [value("y", TEXT, None)])
    ours = make_compiler(proto).compile("cpu")({"x": np.array(["b", "a", "b", ""], object)})["y"]
    assert ours.tolist() == ["", "a", "b"]


def test_unique_nans(target):
    proto = make([node("Unique", ["x"], ["y"])], [value("x", F32, ["N"])], [value("y", F32, None)])
    ours = make_compiler(proto).compile(target)({"x": np.array([np.nan, 1, np.nan, 0], np.float32)})["y"]
    np.testing.assert_array_equal(ours, [0, 1, np.nan])


@pytest.mark.parametrize("center", [0, 1])
def test_non_max_suppression_equals_onnxruntime(center, target):
    proto = make(
        [node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["y"], center_point_box=center)],
        [
            *(value("boxes", F32, [2, "n", 4]), value("scores", F32, [2, 3, "n"]), value("most", I64, [1])),
            *(value("overlap", F32, [1]), value("least", F32, [1])),
        ],
        [value("y", I64, None)],
    )
    random = models.generator()
    session = onnxruntime(proto)
    executor = make_compiler(proto).compile(target, num_threads=2)
    for count, most, overlap, least in ((50, 5, 0.3, 0.4), (7, 100, 0.0, 0.0), (64, 9, 1.0, 0.9), (3, 0, 0.5, 0.5)):
        feed = {
            "boxes": random.random((2, count, 4), np.float32),
            "scores": random.random((2, 3, count), np.float32),
            "most": np.array([most]),
            "overlap": np.array([overlap], np.float32),
            "least": np.array([least], np.float32),
        }
        np.testing.assert_array_equal(executor(feed)["y"], session.run(None, feed)[0])
    with pytest.raises(InvalidInput, match="overlap"):
        executor(feed | {"overlap": np.array([2], np.float32)})


# ---------------------------------------------------------------------- content that decides
@pytest.mark.parametrize("keepdims", [0, 1])
def test_axes_that_are_an_input(keepdims, target):
    nodes = [
        node("ReduceSum", ["x", "axes"], ["s"], keepdims=keepdims),
        node("Neg", ["s"], ["y"]),
        node("Relu", ["x"], ["r"]),
    ]
    proto = make(
        nodes,
        [value("x", F32, ["N", 3, 4]), value("axes", I64, ["K"])],
        [value("y", F32, None), value("r", F32, None)],
    )
    x = models.generator().standard_normal((2, 3, 4), np.float32)
    feeds = [{"x": x, "axes": np.array(axes)} for axes in ([0], [1, 2], [-1], [0], [0, 1, 2])]
    compare(proto, *feeds, target=target)


def test_a_target_shape_that_is_an_input(target):
    proto = make(
        [node("Relu", ["x"], ["a"]), node("Reshape", ["a", "s"], ["b"]), node("Neg", ["b"], ["y"])],
        [value("x", F32, [2, 6]), value("s", I64, ["R"])],
        [value("y", F32, None)],
    )
    x = models.generator().standard_normal((2, 6), np.float32)
    executor = compare(proto, *({"x": x, "s": np.array(s)} for s in ([3, 4], [-1], [2, 2, 3], [0, -1])), target=target)
    with pytest.raises(InvalidModel, match="Reshape"):
        executor({"x": x, "s": np.array([5, 5])})
    compare(proto, {"x": x, "s": np.array([3, 4])}, executor=executor)


def test_content_that_is_computed(target):
    proto = make(
        [
            node("ReduceMax", ["k"], ["most"], keepdims=0),
            node("Range", ["zero", "most", "one"], ["r"]),
            node("Cast", ["r"], ["f"], to=F32),
            node("Unsqueeze", ["f", "where"], ["u"]),
            node("Mul", ["u", "f"], ["y"]),
        ],
        [value("k", I64, ["N"])],
        [value("y", F32, None)],
        initializers=[constant("zero", np.int64(0)), constant("one", np.int64(1)), constant("where", np.array([1]))],
    )
    compare(proto, *({"k": np.array(k)} for k in ([3, 1], [5], [3, 3, 3])), target=target)


@pytest.mark.parametrize("opset", [9, 18])
def test_squeeze_of_sizes_that_only_the_run_knows(opset, target):
    """Scores of a batch of any size, as many exporters of PyTorch write `.squeeze()`."""
    proto = make(
        [node("Relu", ["x"], ["a"]), node("Squeeze", ["a"], ["b"]), node("Neg", ["b"], ["y"])],
        [value("x", F32, ["N", 1, "M"])],
        [value("b", F32, None), value("y", F32, None)],
        opset,
    )
    random = models.generator()
    feeds = [{"x": random.standard_normal((n, 1, m), np.float32)} for n, m in ((3, 4), (1, 4), (1, 1), (3, 4), (0, 1))]
    executor = compare(proto, *feeds, target=target)
    assert "squeeze:cpu:share:any" in executor.dbg(quiet=True)


def test_squeeze_of_texts():
    proto = make(
        [node("Squeeze", ["x", "axis"], ["y"]), node("Squeeze", ["x"], ["z"])],
        [value("x", TEXT, ["N", 1, "M"])],
        [value("y", TEXT, None), value("z", TEXT, None)],
        initializers=[constant("axis", np.array([-2]))],
    )
    compare(proto, {"x": np.array([[["a", "b"]], [["c", "d"]]], object)}, {"x": np.array([[["a"]]], object)})
    every = make(
        [node("Squeeze", ["x", "axis"], ["y"])],
        [value("x", TEXT, ["N", 1, "M"])],
        [value("y", TEXT, None)],
        initializers=[constant("axis", np.array([0]))],
    )
    with pytest.raises(InvalidInput, match="axis 0 has the size 2, expected 1"):
        make_compiler(every).compile("cpu")({"x": np.array([[["a"]], [["b"]]], object)})


def test_inputs_of_unknown_rank(target):
    proto = make(
        [node("Relu", ["x"], ["a"]), node("Add", ["a", "b"], ["y"])],
        [value("x", F32, None), value("b", F32, [1])],
        [value("y", F32, None)],
    )
    random = models.generator()
    b = np.ones(1, np.float32)
    shapes = ((3,), (2, 3), (), (2, 3), (1, 2, 2))
    feeds = [{"x": random.standard_normal(shape, np.float32), "b": b} for shape in shapes]
    executor = compare(proto, *feeds, target=target)
    with pytest.raises(InvalidInput, match="f32"):
        executor({"x": np.zeros(3), "b": b})


# ---------------------------------------------------------------------- loops and branches


def test_sequences_in_and_out(target):
    proto = make(
        [
            node("SequenceInsert", ["s", "x"], ["longer"]),
            node("SequenceAt", ["longer", "k"], ["at"]),
            node("Neg", ["at"], ["y"]),
            node("SequenceLength", ["longer"], ["n"]),
            node("SequenceErase", ["longer", "k"], ["rest"]),
        ],
        [sequence("s"), value("x", F32, ["N"]), value("k", I64, [])],
        [value("y", F32, None), value("n", I64, []), sequence("rest"), sequence("longer")],
    )
    random = models.generator()
    elements = [random.standard_normal(shape, np.float32) for shape in ((2, 3), (4,), ())]
    x = random.standard_normal(3, np.float32)
    executor = compare(proto, *({"s": elements, "x": x, "k": np.array(k)} for k in (0, 2, -1, 1)), target=target)
    with pytest.raises(InvalidInput, match="position 4 is outside of the sequence of 4"):
        executor({"s": elements, "x": x, "k": np.array(4)})
    with pytest.raises(InvalidInput, match="list"):
        executor({"s": x, "x": x, "k": np.array(0)})
    with pytest.raises(InvalidInput, match=r"['\"]s['\"]"):
        executor({"s": [np.zeros(3)], "x": x, "k": np.array(0)})


@pytest.mark.parametrize("new_axis", [0, 1])
def test_split_and_concatenate(new_axis, target):
    proto = make(
        [
            node("SplitToSequence", ["x", "parts"], ["s"], axis=1),
            node("ConcatFromSequence", ["s"], ["y"], axis=-1, new_axis=new_axis),
        ],
        [value("x", F32, [2, "N", 3]), value("parts", I64, [])],
        [value("y", F32, None), sequence("s")],
    )
    x = models.generator().standard_normal((2, 4, 3), np.float32)
    executor = compare(proto, {"x": x, "parts": np.array(2)}, {"x": x, "parts": np.array(4)}, target=target)
    with pytest.raises(InvalidInput, match="split is 0"):
        executor({"x": x, "parts": np.array(0)})


def test_optionals(target):
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(F32, [2]))
    proto = make(
        [node("OptionalHasElement", ["o"], ["has"])],
        [helper.make_value_info("o", kind)],
        [value("has", BOOL, [])],
    )
    executor = make_compiler(proto).compile(target)
    assert not executor({"o": None})["has"]
    assert executor({"o": np.zeros(2, np.float32)})["has"]
    with pytest.raises(InvalidInput, match=r"f32\[2\]"):
        executor({"o": np.zeros(3, np.float32)})
    proto.graph.node[0].op_type = "OptionalGetElement"
    proto.graph.output[0].type.tensor_type.elem_type = F32
    executor = make_compiler(proto).compile(target)
    np.testing.assert_array_equal(executor({"o": np.arange(2, dtype=np.float32)})["has"], [0, 1])
    with pytest.raises(InvalidInput, match="holds nothing"):
        executor({"o": None})


def test_text_moves_like_everything_else():
    proto = make(
        [
            node("Reshape", ["x", "shape"], ["r"]),
            node("Gather", ["r", "k"], ["g"], axis=0),
            node("Concat", ["g", "r"], ["y"], axis=0),
        ],
        [value("x", TEXT, [4]), value("k", I64, ["K"])],
        [value("y", TEXT, None)],
        initializers=[constant("shape", np.array([2, 2]))],
    )
    x = np.array(["a", "\u00fc", "", "long text " * 9], object)
    compare(proto, {"x": x, "k": np.array([1])}, {"x": x, "k": np.array([0, 0, 1])})
    with pytest.raises(InvalidInput, match="int"):
        make_compiler(proto).compile("cpu")({"x": np.array([1, 2, 3, 4], object), "k": np.array([0])})
