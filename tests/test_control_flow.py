"""Loop, Scan and If."""

import numpy as np
import onnx
import pytest
from onnx import helper
from refactor_graph import Cancelled, InvalidInput, InvalidModel, Unsupported
from refactor_graph.onnx import make_compiler

from tests import models
from tests.procedures import BOOL, F32, I64, TEXT, compare, constant, make, node, onnxruntime, value


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


def test_branches_read_parts_where_the_whole_lies():
    """The parts of 16 elements lie in what was split, 64 bytes apart."""

    def branch(name, last):
        nodes = [
            node("Exp", ["x"], [f"{name}.e"]),
            node("Split", [f"{name}.e"], [f"{name}.{i}" for i in range(4)], axis=1, num_outputs=4),
            node("Sub", [f"{name}.1", f"{name}.3"], [f"{name}.d"]),
            node(last, [f"{name}.d"], [name]),
        ]
        return helper.make_graph(nodes, name, [], [value(name, F32, ["N", 16])])

    choice = node("If", ["go"], ["y"], then_branch=branch("a", "Tanh"), else_branch=branch("b", "Neg"))
    proto = make([choice], [value("go", BOOL, []), value("x", F32, ["N", 64])], [value("y", F32, ["N", 16])])
    random = models.generator()
    feeds = [
        {"go": np.array(go), "x": random.standard_normal((n, 64), np.float32)} for go in (True, False) for n in (1, 3)
    ]
    executor = compare(proto, *feeds)
    assert "if:cpu:branches" in executor.dbg(quiet=True)


def test_random_branches_are_taken_in_every_run():
    """Which one follows from the sizes alone."""

    def branch(name, **bounds):
        drawn = node("RandomUniform", [], [name], shape=[16], **bounds)
        return helper.make_graph([drawn], name, [], [value(name, F32, [16])])

    nodes = [
        node("Shape", ["x"], ["shape"], start=0, end=1),
        node("Greater", ["shape", "three"], ["large"]),
        node("If", ["large"], ["drawn"], then_branch=branch("a", low=4.0, high=5.0), else_branch=branch("b")),
        node("Add", ["drawn", "last"], ["y"]),
    ]
    three = constant("three", np.array([3]))
    proto = make(
        nodes, [value("x", F32, ["N"]), value("last", F32, [16])], [value("y", F32, [16])], initializers=[three]
    )
    executor = make_compiler(proto).compile("cpu")
    assert "if:cpu:branches" in executor.dbg(quiet=True)
    for size, least in ((2, 0), (8, 4)):
        feeds = {"x": np.ones(size, np.float32), "last": np.zeros(16, np.float32)}
        first, second = executor(feeds)["y"].copy(), executor(feeds)["y"]
        for drawn in (first, second):
            assert drawn.min() >= least
            assert drawn.max() < least + 1
        assert (first != second).any()


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


def test_states_of_a_scan_keep_their_sizes():
    body = helper.make_graph(
        [node("Add", ["s", "e"], ["n"])],
        "body",
        [value("s", F32, None), value("e", F32, None)],
        [value("n", F32, None)],
    )
    scan = node("Scan", ["start", "x"], ["last"], name="growing", body=body, num_scan_inputs=1)
    proto = make([scan], [value("start", F32, [1]), value("x", F32, ["T", "N"])], [value("last", F32, None)])
    executor = make_compiler(proto).compile("cpu")
    start = np.ones(1, np.float32)
    np.testing.assert_array_equal(executor({"start": start, "x": np.ones((3, 1), np.float32)})["last"], [4])
    with pytest.raises(InvalidInput, match=r'"growing".*element 0 .*state 0 f32\[2\], expected f32\[1\]'):
        executor({"start": start, "x": np.ones((3, 2), np.float32)})


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


def _carried(states, nodes, results, stacks, prefix=()):
    """A body with the state `h` and others of which `results` says what becomes of them."""
    inputs = [*prefix, value("h", F32, [1, 4]), *(value(name, dtype, None) for name, dtype in states)]
    types = dict(states)
    outputs = [value("next", F32, None), *(value(result, types[name], None) for name, result in results.items())]
    loops = [value("go_on", BOOL, [])] if prefix else []
    return helper.make_graph(nodes, "body", inputs, [*loops, *outputs, *(value(s, F32, None) for s in stacks)])


def _step(x):
    return [
        node("MatMul", ["h", "w"], ["hw"]),
        node("Add", ["hw", x], ["sum"]),
        node("Tanh", ["sum"], ["next"]),
        node("Reshape", ["next", "sizes"], ["reshaped"]),
        node("Identity", ["sizes"], ["sizes_again"]),
        node("Identity", ["sizes_again"], ["sizes_at_last"]),
    ]


def _array(name):
    arrays = {
        "w0": models.generator().standard_normal((4, 4), np.float32),
        "sizes0": np.array([2, 2]),
        "h0": np.zeros((1, 4), np.float32),
    }
    return arrays[name]


def _weights():
    return [constant(name, _array(name)) for name in ("w0", "sizes0", "h0")]


def test_states_that_a_loop_carries_unchanged_are_known_to_its_body():
    """As tf2onnx writes the weights of recurrent cells; a swapped pair changes."""
    states = [("w", F32), ("a", F32), ("sizes", I64), ("b", F32)]
    results = {"w": "w", "a": "b", "sizes": "sizes_at_last", "b": "a"}
    inner = [*_step("x"), node("Identity", ["going"], ["go_on"]), node("Add", ["a", "next"], ["stacked"])]
    prefix = (value("i", I64, []), value("going", BOOL, []))
    body = _carried(states, inner, results, ["reshaped", "stacked"], prefix)
    outputs = ["h_last", "w_last", "a_last", "sizes_last", "", "all", "sums"]
    loop = node("Loop", ["n", "", "h0", "w0", "a0", "sizes0", "x"], outputs, body=body)
    proto = make(
        [loop],
        [value("n", I64, []), value("x", F32, [1, 4]), value("a0", F32, [1, 4])],
        [value(name, I64 if "sizes" in name else F32, None) for name in outputs if name],
        initializers=_weights(),
    )
    sizes = {port.name: port.shape for port in make_compiler(proto).outputs}
    assert sizes["all"][1:] == (2, 2)
    random = models.generator()
    x, a0 = random.standard_normal((2, 1, 4), np.float32)
    executor = make_compiler(proto).compile("cpu")
    for n in (3, 2, 0):
        h, a, b, everything, sums = np.zeros((1, 4), np.float32), a0, x, [], []
        for _ in range(n):
            h = np.tanh(h @ _array("w0") + x)
            everything.append(h.reshape(2, 2)), sums.append(a + h)
            a, b = b, a
        wanted = {"h_last": h, "w_last": _array("w0"), "a_last": a, "sizes_last": _array("sizes0")}
        wanted |= {"all": np.reshape(everything, (n, 2, 2)), "sums": np.reshape(sums, (n, 1, 4))}
        got = executor({"n": np.array(n), "x": x, "a0": a0})
        for name, array in wanted.items():
            np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


def test_states_that_a_scan_carries_unchanged_are_known_to_its_body():
    body = helper.make_graph(
        _step("x"),
        "body",
        [value("h", F32, [1, 4]), value("w", F32, None), value("sizes", I64, None), value("x", F32, [1, 4])],
        [
            value("next", F32, None),
            value("w", F32, None),
            value("sizes_at_last", I64, None),
            value("reshaped", F32, None),
        ],
    )
    scan = node("Scan", ["h0", "w0", "sizes0", "xs"], ["h_last", "w_last", "s", "all"], body=body, num_scan_inputs=1)
    ports = [value("h_last", F32, None), value("w_last", F32, None), value("s", I64, None), value("all", F32, None)]
    proto = make([scan], [value("xs", F32, ["T", 1, 4])], ports, initializers=_weights())
    sizes = {port.name: port.shape for port in make_compiler(proto).outputs}
    assert sizes["all"] == ("T", 2, 2)
    xs = models.generator().standard_normal((5, 1, 4), np.float32)
    h, everything = np.zeros((1, 4), np.float32), []
    for x in xs:
        h = np.tanh(h @ _array("w0") + x)
        everything.append(h.reshape(2, 2))
    got = make_compiler(proto).compile("cpu")({"xs": xs})
    for name, wanted in {"h_last": h, "w_last": _array("w0"), "s": _array("sizes0"), "all": everything}.items():
        np.testing.assert_allclose(got[name], wanted, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_loop_of_nothing_but_an_unchanged_state():
    body = helper.make_graph(
        [node("Identity", ["c"], ["go"])],
        "body",
        [value("i", I64, []), value("c", BOOL, []), value("s", F32, None)],
        [value("go", BOOL, []), value("s", F32, None)],
    )
    proto = make(
        [node("Loop", ["n", "", "x"], ["y"], body=body)],
        [value("n", I64, []), value("x", F32, ["N"])],
        [value("y", F32, None)],
    )
    x = np.arange(3, dtype=np.float32)
    compare(proto, *({"n": np.array(n), "x": x} for n in (0, 4)), oracle=onnxruntime)


@pytest.mark.parametrize("index", ["i", "count", "word"])
def test_products_of_elements_that_a_loop_counts_are_those_of_the_sequence(index):
    """A state may count; a word of a table is no element that follows."""
    body = helper.make_graph(
        [
            node("Gather", ["xs", index], ["x"], axis=0),
            node("MatMul", ["x", "w"], ["xw"]),
            node("Identity", ["going"], ["go_on"]),
            node("Add", ["count", "one"], ["next"]),
            node("Gather", ["words", "count"], ["next_word"]),
        ],
        "body",
        [value("i", I64, []), value("going", BOOL, []), value("count", I64, []), value("word", I64, [])],
        [value("go_on", BOOL, []), value("next", I64, []), value("next_word", I64, []), value("xw", F32, None)],
    )
    loop = node("Loop", ["n", "", "zero", "zero"], ["", "", "y"], name="loop", body=body)
    weights = [
        constant("w", _array("w0")),
        constant("one", np.array(1)),
        constant("zero", np.array(0)),
        constant("words", np.array([2, 0, 1])),
    ]
    ports = [value("n", I64, []), value("xs", F32, ["T", 2, 4])]
    executor = make_compiler(make([loop], ports, [value("y", F32, None)], initializers=weights)).compile("cpu")
    xs = models.generator().standard_normal((3, 2, 4), np.float32)
    (y,) = executor({"n": np.array(3), "xs": xs}).values()
    order = [0, 2, 0] if index == "word" else [0, 1, 2]
    np.testing.assert_allclose(y, xs[order] @ _array("w0"), rtol=1e-5, atol=1e-6)
    assert ("loop/xw" in executor.dbg(quiet=True)) == (index != "word")
