"""Control flow, sequences, results of a size that the data tells, and nodes that wait for content."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from refactor_graph import Cancelled, InvalidInput, InvalidModel, Unsupported
from refactor_graph.onnx import make_compiler

from tests import models

F32, I64, BOOL, TEXT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
value = helper.make_tensor_value_info
node = helper.make_node


def make(nodes, inputs, outputs, opset=18, initializers=()):
    graph = helper.make_graph(nodes, "procedures", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def constant(name, array):
    return onnx.numpy_helper.from_array(np.asarray(array), name)


def same(ours, theirs):
    if isinstance(theirs, list):
        assert isinstance(ours, list)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
        return
    if theirs is None:
        assert ours is None
        return
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    if theirs.dtype.kind in "OU":
        assert ours.tolist() == theirs.tolist()
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def compare(proto, *feeds, executor=None, oracle=ReferenceEvaluator):
    executor = executor or make_compiler(proto).compile("cpu")
    reference = oracle(proto)
    for feed in feeds:
        ours = executor(feed)
        for port, theirs in zip(proto.graph.output, reference.run(None, feed), strict=True):
            same(ours[port.name], theirs)
    return executor


def onnxruntime(proto):
    """For what `onnx.reference` gets wrong: a Loop without a condition, Unique that is not sorted."""
    module = pytest.importorskip("onnxruntime")
    return module.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])


# ---------------------------------------------------------------------- sizes that the data tells
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


def test_sizes_that_the_data_tells_flow_on():
    proto = select_model()
    random = models.generator()
    feeds = [{"x": random.standard_normal((n, 5), np.float32)} for n in (3, 1, 7, 3)]
    feeds.append({"x": np.full((2, 5), -1, np.float32)})
    executor = compare(proto, *feeds)
    assert executor.program.calls == 3
    assert "nonzero:cpu:scan:any" in executor.dbg(quiet=True)


def test_procedures_work_with_every_tool(tmp_path):
    executor = make_compiler(select_model()).compile("cpu", "bestfit", num_threads=2)
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


def test_results_stay_when_the_executor_runs_again():
    executor = make_compiler(select_model()).compile("cpu")
    first = executor({"x": np.arange(10, dtype=np.float32).reshape(2, 5)})["y"]
    kept = first.copy()
    executor({"x": -np.arange(10, dtype=np.float32).reshape(2, 5)})
    executor({"x": np.ones((2, 5), np.float32)})
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i4", "i8", "u1", "u8", "?"])
def test_nonzero_of_every_type(dtype):
    x = models.generator().integers(-1, 2, (3, 4, 5)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    proto = make([node("NonZero", ["x"], ["y"])], [value("x", kind, [3, 4, 5])], [value("y", I64, None)])
    ours = make_compiler(proto).compile("cpu")({"x": x})["y"]
    np.testing.assert_array_equal(ours, np.array(np.nonzero(x)))


def test_nonzero_over_many_blocks():
    x = (models.generator().random(300_000) < 0.3).astype(np.float32)
    x[::7] = -0.0
    proto = make([node("NonZero", ["x"], ["y"])], [value("x", F32, ["N"])], [value("y", I64, None)])
    ours = make_compiler(proto).compile("cpu", num_threads=3)({"x": x})["y"]
    np.testing.assert_array_equal(ours[0], np.nonzero(x)[0])


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress(axis):
    attributes = {} if axis is None else {"axis": axis}
    proto = make(
        [node("Compress", ["x", "c"], ["y"], **attributes)],
        [value("x", F32, [3, 4]), value("c", BOOL, ["K"])],
        [value("y", F32, None)],
    )
    random = models.generator()
    x = random.standard_normal((3, 4), np.float32)
    compare(proto, *({"x": x, "c": random.random(k) < 0.5} for k in (1, 3)))
    with pytest.raises(InvalidInput, match="asks for element 19"):
        make_compiler(proto).compile("cpu")({"x": x, "c": np.ones(20, bool)})


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_unique(axis, ordered):
    attributes = {"sorted": ordered} | ({} if axis is None else {"axis": axis})
    names = ["y", "first", "inverse", "counts"]
    proto = make(
        [node("Unique", ["x"], names, **attributes)],
        [value("x", F32, ["N", 3])],
        [value("y", F32, None), *(value(name, I64, None) for name in names[1:])],
    )
    x = models.generator().integers(0, 2, (9, 3)).astype(np.float32)
    compare(proto, {"x": x}, oracle=onnxruntime)


def test_unique_texts_and_nans():
    proto = make([node("Unique", ["x"], ["y"])], [value("x", TEXT, ["N"])], [value("y", TEXT, None)])
    ours = make_compiler(proto).compile("cpu")({"x": np.array(["b", "a", "b", ""], object)})["y"]
    assert ours.tolist() == ["", "a", "b"]
    proto = make([node("Unique", ["x"], ["y"])], [value("x", F32, ["N"])], [value("y", F32, None)])
    ours = make_compiler(proto).compile("cpu")({"x": np.array([np.nan, 1, np.nan, 0], np.float32)})["y"]
    np.testing.assert_array_equal(ours, [0, 1, np.nan])


@pytest.mark.parametrize("center", [0, 1])
def test_non_max_suppression_equals_onnxruntime(center):
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
    executor = make_compiler(proto).compile("cpu", num_threads=2)
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
def test_axes_that_are_an_input(keepdims):
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
    compare(proto, *feeds)


def test_a_target_shape_that_is_an_input():
    proto = make(
        [node("Relu", ["x"], ["a"]), node("Reshape", ["a", "s"], ["b"]), node("Neg", ["b"], ["y"])],
        [value("x", F32, [2, 6]), value("s", I64, ["R"])],
        [value("y", F32, None)],
    )
    x = models.generator().standard_normal((2, 6), np.float32)
    executor = compare(proto, *({"x": x, "s": np.array(s)} for s in ([3, 4], [-1], [2, 2, 3], [0, -1])))
    with pytest.raises(InvalidModel, match="Reshape"):
        executor({"x": x, "s": np.array([5, 5])})
    compare(proto, {"x": x, "s": np.array([3, 4])}, executor=executor)


def test_content_that_is_computed():
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
    compare(proto, *({"k": np.array(k)} for k in ([3, 1], [5], [3, 3, 3])))


def test_inputs_of_unknown_rank():
    proto = make(
        [node("Relu", ["x"], ["a"]), node("Add", ["a", "b"], ["y"])],
        [value("x", F32, None), value("b", F32, [1])],
        [value("y", F32, None)],
    )
    random = models.generator()
    b = np.ones(1, np.float32)
    shapes = ((3,), (2, 3), (), (2, 3), (1, 2, 2))
    feeds = [{"x": random.standard_normal(shape, np.float32), "b": b} for shape in shapes]
    executor = compare(proto, *feeds)
    with pytest.raises(InvalidInput, match="f32"):
        executor({"x": np.zeros(3), "b": b})


# ---------------------------------------------------------------------- loops and branches
def counting_loop():
    body = helper.make_graph(
        [
            node("Add", ["state", "step"], ["next"]),
            node("Identity", ["going"], ["going_on"]),
            node("Mul", ["next", "next"], ["square"]),
        ],
        "body",
        [value("i", I64, []), value("going", BOOL, []), value("state", F32, None)],
        [value("going_on", BOOL, []), value("next", F32, None), value("square", F32, None)],
    )
    nodes = [node("Loop", ["trips", "", "start"], ["last", "squares"], body=body), node("Neg", ["squares"], ["y"])]
    ports = [value("trips", I64, []), value("start", F32, ["N"]), value("step", F32, ["N"])]
    return make(nodes, ports, [value("last", F32, None), value("y", F32, None)])


def test_loop_with_states_stacks_and_captures():
    random = models.generator()
    feeds = [
        {"trips": np.array(trips), "start": random.standard_normal(n, np.float32), "step": np.ones(n, np.float32)}
        for trips, n in ((4, 2), (1, 5), (30, 3))
    ]
    executor = compare(counting_loop(), *feeds, oracle=onnxruntime)
    nothing = executor(feeds[0] | {"trips": np.array(0)})
    np.testing.assert_array_equal(nothing["last"], feeds[0]["start"])
    assert nothing["y"].shape[0] == 0


def test_loop_whose_state_grows():
    body = helper.make_graph(
        [
            node("Concat", ["state", "x"], ["longer"], axis=0),
            node("ReduceSum", ["longer"], ["sum"], keepdims=0),
            node("Less", ["sum", "limit"], ["going_on"]),
        ],
        "body",
        [value("i", I64, []), value("going", BOOL, []), value("state", F32, None)],
        [value("going_on", BOOL, []), value("longer", F32, None)],
    )
    proto = make(
        [node("Loop", ["", "go", "x"], ["y"], body=body)],
        [value("go", BOOL, []), value("x", F32, ["N"]), value("limit", F32, [])],
        [value("y", F32, None)],
    )
    x = np.array([1, 2], np.float32)
    cases = ((True, 20), (False, 1))
    compare(proto, *({"go": np.array(go), "x": x, "limit": np.float32(limit)} for go, limit in cases))


def test_a_loop_that_does_not_run_stacks_nothing_of_the_declared_type():
    """The type of what would be stacked is known to the declaration alone."""
    body = helper.make_graph(
        [node("Identity", ["c"], ["go"]), node("Reshape", ["x", "s"], ["z"])],
        "body",
        [value("i", I64, []), value("c", BOOL, [])],
        [value("go", BOOL, []), value("z", F32, [None, 1])],
    )
    nodes = [node("Loop", ["n", "yes"], ["l"], body=body), node("Neg", ["l"], ["y"])]
    ports = [value("n", I64, []), value("x", F32, [2]), value("s", I64, ["k"])]
    proto = make(nodes, ports, [value("y", F32, None)], initializers=[constant("yes", np.array(True))])
    executor = make_compiler(proto).compile("cpu")
    for trips, shape in ((0, (0, 0, 1)), (3, (3, 2, 1))):
        (y,) = executor({"n": np.int64(trips), "x": np.ones(2, np.float32), "s": np.array([2, 1])}).values()
        assert (y.dtype, y.shape) == (np.float32, shape)


def test_a_loop_whose_body_declares_vectors():
    """Older exporters declare the iteration and the condition as [1], and onnxruntime gives them so."""
    body = helper.make_graph(
        [
            node("Squeeze", ["i"], ["k"], axes=[0]),
            node("Gather", ["x", "k"], ["z"], axis=0),
            node("Identity", ["c"], ["go"]),
        ],
        "body",
        [value("i", I64, [1]), value("c", BOOL, [1])],
        [value("go", BOOL, [1]), value("z", F32, [3])],
    )
    constants = [constant("n", np.array([2])), constant("yes", np.array([True]))]
    loop = node("Loop", ["n", "yes"], ["y"], body=body)
    proto = make([loop], [value("x", F32, [4, 3])], [value("y", F32, None)], 11, constants)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    (y,) = make_compiler(proto).compile("cpu")({"x": x}).values()
    np.testing.assert_array_equal(y, onnxruntime(proto).run(None, {"x": x})[0])


def test_nested_loops_see_outer_values():
    inner = helper.make_graph(
        [node("Add", ["s", "outer_i_f"], ["t"]), node("Add", ["t", "x"], ["n"]), node("Identity", ["c"], ["d"])],
        "inner",
        [value("j", I64, []), value("c", BOOL, []), value("s", F32, [2])],
        [value("d", BOOL, []), value("n", F32, [2])],
    )
    outer = helper.make_graph(
        [
            node("Cast", ["i"], ["outer_i_f"], to=F32),
            node("Loop", ["two", "", "state"], ["after"], body=inner),
            node("Identity", ["go"], ["go_on"]),
        ],
        "outer",
        [value("i", I64, []), value("go", BOOL, []), value("state", F32, [2])],
        [value("go_on", BOOL, []), value("after", F32, [2])],
    )
    proto = make(
        [node("Loop", ["three", "", "x"], ["y"], body=outer)],
        [value("x", F32, [2])],
        [value("y", F32, [2])],
        initializers=[constant("two", np.int64(2)), constant("three", np.int64(3))],
    )
    compare(proto, {"x": np.array([1, -2], np.float32)}, oracle=onnxruntime)


def test_an_endless_loop_can_be_stopped():
    body = helper.make_graph(
        [node("Identity", ["going"], ["going_on"]), node("Identity", ["s"], ["t"])],
        "body",
        [value("i", I64, []), value("going", BOOL, []), value("s", F32, [1])],
        [value("going_on", BOOL, []), value("t", F32, [1])],
    )
    proto = make(
        [node("Loop", ["", "go", "x"], ["y"], body=body)],
        [value("go", BOOL, []), value("x", F32, [1])],
        [value("y", F32, [1])],
    )
    executor = make_compiler(proto).compile("cpu")
    with pytest.raises(Cancelled):
        executor({"go": np.array(True), "x": np.ones(1, np.float32)}, timeout=0.05)
    assert executor({"go": np.array(False), "x": np.ones(1, np.float32)})["y"] == 1


def test_branches_of_different_shapes():
    then = helper.make_graph([node("Concat", ["x", "x"], ["a"], axis=0)], "then", [], [value("a", F32, None)])
    other = helper.make_graph([node("ReduceSum", ["x"], ["b"], keepdims=1)], "else", [], [value("b", F32, None)])
    proto = make(
        [node("If", ["c"], ["z"], then_branch=then, else_branch=other), node("Neg", ["z"], ["y"])],
        [value("c", BOOL, []), value("x", F32, ["N", 2])],
        [value("y", F32, None)],
    )
    x = models.generator().standard_normal((3, 2), np.float32)
    compare(proto, *({"c": np.array(c), "x": x} for c in (True, False, True)))


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan(axis, reverse):
    body = helper.make_graph(
        [node("Add", ["s", "e"], ["n"]), node("Mul", ["n", "k"], ["o"])],
        "body",
        [value("s", F32, [3]), value("e", F32, [3])],
        [value("n", F32, [3]), value("o", F32, [3])],
    )
    proto = make(
        [
            node(
                "Scan",
                ["start", "x"],
                ["last", "y"],
                body=body,
                num_scan_inputs=1,
                scan_input_axes=[axis],
                scan_input_directions=[reverse],
                scan_output_axes=[axis],
                scan_output_directions=[reverse],
            )
        ],
        [value("start", F32, [3]), value("x", F32, ["T", 3] if axis == 0 else [3, "T"]), value("k", F32, [])],
        [value("last", F32, [3]), value("y", F32, None)],
    )
    x = models.generator().standard_normal((4, 3) if axis == 0 else (3, 4), np.float32)
    start = np.zeros(3, np.float32)
    executor = make_compiler(proto).compile("cpu")
    ours = executor({"start": start, "x": x, "k": np.float32(2)})
    steps = np.moveaxis(x, axis, 0)[:: -1 if reverse else 1]
    sums = np.cumsum(steps, 0)
    np.testing.assert_allclose(ours["last"], sums[-1], rtol=1e-6)
    np.testing.assert_allclose(ours["y"], np.moveaxis(2 * sums[:: -1 if reverse else 1], 0, axis), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_scan_over_text(axis):
    body = helper.make_graph(
        [node("StringConcat", ["s", "e"], ["t"]), node("Identity", ["e"], ["z"])],
        "body",
        [value("s", TEXT, [2]), value("e", TEXT, [2])],
        [value("t", TEXT, [2]), value("z", TEXT, [2])],
    )
    scan = node("Scan", ["s0", "x"], ["all", "y"], body=body, num_scan_inputs=1, scan_input_axes=[axis])
    ports = [value("s0", TEXT, [2]), value("x", TEXT, [None, None])]
    proto = make([scan], ports, [value("all", TEXT, None), value("y", TEXT, None)], 20)
    x = np.array([["a", "b"], ["c", ""], ["d", "é"]], object)
    executor = make_compiler(proto).compile("cpu")
    total, y = executor({"s0": np.array(["<", ">"], object), "x": x if axis == 0 else x.T.copy()}).values()
    assert total.tolist() == ["<acd", ">bé"]
    assert y.tolist() == x.tolist()


def test_what_is_wrong_with_a_body_is_said():
    body = helper.make_graph(
        [node("Add", ["s", "nope"], ["n"]), node("Identity", ["c"], ["d"])],
        "body",
        [value("i", I64, []), value("c", BOOL, []), value("s", F32, [1])],
        [value("d", BOOL, []), value("n", F32, [1])],
    )
    proto = make(
        [node("Loop", ["t", "", "x"], ["y"], body=body)],
        [value("t", I64, []), value("x", F32, [1])],
        [value("y", F32, [1])],
    )
    with pytest.raises(InvalidModel, match="nope"):
        make_compiler(proto)
    body.node[0].input[1] = "i"
    with pytest.raises(InvalidModel, match=r"in body: .*Add"):
        make_compiler(make([node("Loop", ["t", "", "x"], ["y"], body=body)], *_ports()))
    body.node[0].op_type, body.node[0].input[1] = "Sinc", "s"
    with pytest.raises(Unsupported, match="Sinc"):
        make_compiler(make([node("Loop", ["t", "", "x"], ["y"], body=body)], *_ports()))


def _ports():
    return [value("t", I64, []), value("x", F32, [1])], [value("y", F32, [1])]


def test_states_of_another_type_are_refused():
    body = helper.make_graph(
        [node("Cast", ["s"], ["n"], to=I64), node("Identity", ["c"], ["d"])],
        "body",
        [value("i", I64, []), value("c", BOOL, []), value("s", F32, [1])],
        [value("d", BOOL, []), value("n", I64, [1])],
    )
    with pytest.raises(InvalidModel, match="state"):
        make_compiler(make([node("Loop", ["t", "", "x"], ["y"], body=body)], *_ports()))


# ---------------------------------------------------------------------- sequences, optionals, text
def sequence(name, kind=F32):
    return helper.make_tensor_sequence_value_info(name, kind, None)


def test_sequences_in_and_out():
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
    executor = compare(proto, *({"s": elements, "x": x, "k": np.array(k)} for k in (0, 2, -1, 1)))
    with pytest.raises(InvalidInput, match="position 4 is outside of the sequence of 4"):
        executor({"s": elements, "x": x, "k": np.array(4)})
    with pytest.raises(InvalidInput, match="list"):
        executor({"s": x, "x": x, "k": np.array(0)})
    with pytest.raises(InvalidInput, match=r"['\"]s['\"]"):
        executor({"s": [np.zeros(3)], "x": x, "k": np.array(0)})


@pytest.mark.parametrize("new_axis", [0, 1])
def test_split_and_concatenate(new_axis):
    proto = make(
        [
            node("SplitToSequence", ["x", "parts"], ["s"], axis=1),
            node("ConcatFromSequence", ["s"], ["y"], axis=-1, new_axis=new_axis),
        ],
        [value("x", F32, [2, "N", 3]), value("parts", I64, [])],
        [value("y", F32, None), sequence("s")],
    )
    x = models.generator().standard_normal((2, 4, 3), np.float32)
    executor = compare(proto, {"x": x, "parts": np.array(2)}, {"x": x, "parts": np.array(4)})
    with pytest.raises(InvalidInput, match="split is 0"):
        executor({"x": x, "parts": np.array(0)})


def test_optionals():
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(F32, [2]))
    proto = make(
        [node("OptionalHasElement", ["o"], ["has"])],
        [helper.make_value_info("o", kind)],
        [value("has", BOOL, [])],
    )
    executor = make_compiler(proto).compile("cpu")
    assert not executor({"o": None})["has"]
    assert executor({"o": np.zeros(2, np.float32)})["has"]
    with pytest.raises(InvalidInput, match=r"f32\[2\]"):
        executor({"o": np.zeros(3, np.float32)})
    proto.graph.node[0].op_type = "OptionalGetElement"
    proto.graph.output[0].type.tensor_type.elem_type = F32
    executor = make_compiler(proto).compile("cpu")
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


def nested_loops(depth):
    """Loops in each other, each of which changes the size of its state."""
    nodes = [node("Identity", [f"c{depth}"], [f"go{depth}"])]
    inner = f"s{depth}"
    if depth:
        inner = f"t{depth}"
        nodes.append(node("Loop", ["n", "yes", f"s{depth}"], [inner], body=nested_loops(depth - 1)))
    nodes.append(node("Concat", [inner, "one"], [f"o{depth}"], axis=0))
    inputs = [value(f"i{depth}", I64, []), value(f"c{depth}", BOOL, []), value(f"s{depth}", F32, None)]
    return helper.make_graph(nodes, "body", inputs, [value(f"go{depth}", BOOL, []), value(f"o{depth}", F32, None)])


@pytest.mark.parametrize("depth", [2, 5, 28])
def test_loops_in_loops_in_loops(depth):
    body = nested_loops(depth - 1)
    constants = [constant("one", np.ones(1, np.float32)), constant("yes", np.array(True))]
    ports = [value("x", F32, [3]), value("n", I64, [])]
    proto = make([node("Loop", ["n", "yes", "x"], ["y"], body=body)], ports, [value("y", F32, None)], 17, constants)
    if depth == 28:
        with pytest.raises(Unsupported, match="so many nested loops take too long"):
            make_compiler(proto)
        return
    (y,) = make_compiler(proto).compile("cpu")({"x": np.zeros(3, np.float32), "n": np.array(2)}).values()
    assert y.shape == (2 ** (depth + 1) + 1,)


def test_an_optional_state_may_be_what_it_holds() -> None:
    """The first iteration gets nothing or a sequence, the others a sequence, as in `test_loop16_seq_none` of ONNX."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 16]>
        optional_state (int64 trips, bool go_on, optional(seq(float)) start) => (seq(float) y) {
            y = Loop (trips, go_on, start) <body = body (int64 i, bool on, optional(seq(float)) state)
                => (bool still_on, seq(float) next) {
                still_on = Identity (on)
                given = OptionalHasElement (state)
                known = If (given) <
                    then_branch = held () => (seq(float) content) { content = OptionalGetElement (state) },
                    else_branch = none () => (seq(float) fresh) {
                        zero = Constant <value_float = 0.0> ()
                        fresh = SequenceConstruct (zero)
                    }>
                x = Constant <value_floats = [1.0, 2.0, 3.0]> ()
                first = Constant <value_ints = [0]> ()
                one = Constant <value_ints = [1]> ()
                end = Add (i, one)
                part = Slice (x, first, end)
                next = SequenceInsert (known, part)
            }>
        }""")
    executor = make_compiler(model).compile()
    for start in (None, [np.array(7, np.float32)]):
        got = executor({"trips": np.array(3), "go_on": np.array(True), "start": start})["y"]
        expected = [np.array(0 if start is None else 7), *(np.arange(1, n + 2) for n in range(3))]
        assert [x.tolist() for x in got] == [x.tolist() for x in expected]
