"""Outputs that become inputs of the next run: caches of decoders, states of recurrent models."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph import CancellationToken, Cancelled, InvalidInput
from refactor_graph.onnx import make_compiler

from tests import models

I64 = TensorProto.INT64
HEADS, CAPACITY, DEPTH = 2, 5000, 8


def cache_model():
    """Write a row into a cache of fixed size, and sum up its rows."""
    return models.model(
        [
            helper.make_node("TensorScatter", ["past", "row", "at"], ["present"], axis=2),
            helper.make_node("ReduceSum", ["present", "axis"], ["sum"]),
        ],
        [
            models.value("past", ["B", HEADS, "C", DEPTH]),
            models.value("row", ["B", HEADS, 1, DEPTH]),
            models.value("at", ["B"], I64),
        ],
        [models.value("sum", None), models.value("present", ["B", HEADS, "C", DEPTH])],
        [models.constant("axis", np.array([2]))],
        opset=24,
    )


def growing_model():
    """Append to a cache that grows, and count what is behind it."""
    return models.model(
        [
            helper.make_node("Concat", ["past", "rows"], ["present"], axis=1),
            helper.make_node("ReduceSum", ["present", "axis"], ["sum"], keepdims=0),
        ],
        [models.value("past", [HEADS, "P", DEPTH]), models.value("rows", [HEADS, "S", DEPTH])],
        [models.value("present", [HEADS, "T", DEPTH]), models.value("sum", [HEADS, DEPTH])],
        [models.constant("axis", np.array([1]))],
    )


def counter_model(extra=()):
    """next = state + x; `extra` nodes make y of it."""
    nodes = [helper.make_node("Add", ["state", "x"], ["next"]), *extra]
    outputs = [models.value("next", ["N"]), *([models.value("y", None, I64)] if extra else [])]
    return models.model(nodes, [models.value("state", ["N"]), models.value("x", ["N"])], outputs)


def carrying(proto, target="cpu", **states):
    executor = make_compiler(proto).compile(target, num_threads=1)
    executor.carry(states)
    return executor


def address(executor, name):
    if executor.device.kind == "cpu":
        return executor.get_output(name).__array_interface__["data"][0]
    return executor.get_output_blob(name).__cuda_array_interface__["data"][0]


def cache_feeds(random, position):
    return {"row": random.standard_normal((1, HEADS, 1, DEPTH), np.float32), "at": np.array([position])}


def empty_cache():
    return np.zeros((1, HEADS, CAPACITY, DEPTH), np.float32)


def test_a_cache_of_fixed_size_stays_where_it_is(target):
    executor = carrying(cache_model(), target, past="present")
    random, expected = models.generator(), empty_cache()
    start, places = empty_cache(), set()
    for position in range(6):
        feeds = cache_feeds(random, position)
        expected[:, :, position] = feeds["row"][:, :, 0]
        result = executor({**feeds, "past": start} if position == 0 else feeds)
        assert list(result) == ["sum"]
        np.testing.assert_allclose(result["sum"][:, :, 0], expected.sum(2), atol=1e-5)
        places.add(address(executor, "present"))
    np.testing.assert_array_equal(executor.get_output("present"), expected)
    assert len(places) == 1
    assert not start.any()


def test_an_array_that_is_held_is_not_overwritten(target):
    executor = carrying(cache_model(), target, past="present")
    random = models.generator()
    executor({**cache_feeds(random, 0), "past": empty_cache()})
    held = executor.get_output("present") if target == "cpu" else executor.get_output_blob("present")
    before = np.array(executor.get_output("present"))
    executor(cache_feeds(random, 1))
    if target == "cpu":
        np.testing.assert_array_equal(held, before)
    else:
        assert address(executor, "present") != held.__cuda_array_interface__["data"][0]
    assert executor.get_output("present")[0, 0, 1].any()
    np.testing.assert_array_equal(executor.get_output("present")[:, :, 0], before[:, :, 0])


def test_a_failed_run_can_be_repeated(target):
    executor = carrying(cache_model(), target, past="present")
    random = models.generator()
    first, second = cache_feeds(random, 0), cache_feeds(random, 1)
    executor({**first, "past": empty_cache()})
    with pytest.raises(InvalidInput, match="writes 1 rows from -1" if target == "cpu" else "index -1 is outside"):
        executor({**second, "at": np.array([-1])})
    token = CancellationToken()
    token.cancel()
    with pytest.raises(Cancelled):
        executor(second, token=token)
    executor(second)
    present = executor.get_output("present")
    np.testing.assert_array_equal(present[:, :, 0], first["row"][:, :, 0])
    np.testing.assert_array_equal(present[:, :, 1], second["row"][:, :, 0])
    assert not present[:, :, 2:].any()


def test_a_cache_that_is_read_again_is_not_overwritten(target):
    proto = cache_model()
    proto.graph.node.append(helper.make_node("Sub", ["present", "past"], ["change"]))
    proto.graph.output.append(models.value("change", None))
    executor = carrying(proto, target, past="present")
    random = models.generator()
    start = random.standard_normal((1, HEADS, CAPACITY, DEPTH), np.float32)
    executor({**cache_feeds(random, 0), "past": start})
    before = executor.get_output("present").copy()
    for position in (1, 2):
        feeds = cache_feeds(random, position)
        change = executor(feeds)["change"]
        np.testing.assert_array_equal(change[:, :, position], feeds["row"][:, :, 0] - before[:, :, position])
        assert np.count_nonzero(change) == HEADS * DEPTH


def test_a_cache_that_grows(target):
    executor = carrying(growing_model(), target, past="present")
    random = models.generator()
    parts = [random.standard_normal((HEADS, rows, DEPTH), np.float32) for rows in (0, 7, 1, 1, 1, 40, 1)]
    for number, rows in enumerate(parts[1:]):
        result = executor({"past": parts[0], "rows": rows} if number == 0 else {"rows": rows})
        expected = np.concatenate(parts[: number + 2], 1)
        np.testing.assert_array_equal(executor.get_output("present"), expected)
        np.testing.assert_allclose(result["sum"], expected.sum(1), atol=1e-5)


def test_a_cache_that_grows_beside_its_mask(target):
    """Between two runs the mask is too short for the cache."""
    nodes = [
        helper.make_node("Concat", ["past", "rows"], ["present"], axis=1),
        helper.make_node("Mul", ["present", "mask"], ["masked"]),
    ]
    proto = models.model(
        nodes,
        [models.value("past", [1, "P"]), models.value("rows", [1, "S"]), models.value("mask", [1, "M"])],
        [models.value("present", [1, "T"]), models.value("masked", None)],
    )
    executor = carrying(proto, target, past="present")
    random = models.generator()
    everything, start = np.zeros((1, 3), np.float32), {"past": np.zeros((1, 3), np.float32)}
    for rows in (4, 1, 1, 2):
        fresh = random.standard_normal((1, rows), np.float32)
        everything = np.concatenate([everything, fresh], 1)
        mask = random.standard_normal(everything.shape, np.float32)
        result = executor({"rows": fresh, "mask": mask, **start})
        np.testing.assert_array_equal(result["masked"], everything * mask)
        start = {}


def test_setting_starts_again(target):
    executor = carrying(counter_model(), target, state="next")
    x = np.array([1, 2], np.float32)
    executor({"state": x, "x": x})
    executor({"x": x})
    np.testing.assert_array_equal(executor.get_output("next"), 3 * x)
    executor({"x": x, "state": 0 * x})
    np.testing.assert_array_equal(executor.get_output("next"), x)
    executor.set_input("x", 2 * x)
    executor.run()
    np.testing.assert_array_equal(executor.get_output("next"), 3 * x)


def test_bench_and_trace_do_not_advance(tmp_path):
    executor = carrying(counter_model(), state="next")
    x = np.array([1, 2], np.float32)
    executor({"state": x, "x": x})
    executor.bench(repeats=3, quiet=True)
    executor.trace(tmp_path)
    executor({"x": x})
    np.testing.assert_array_equal(executor.get_output("next"), 3 * x)


def test_a_clone_goes_its_own_way(target):
    executor = carrying(cache_model(), target, past="present")
    random = models.generator()
    executor({**cache_feeds(random, 0), "past": empty_cache()})
    other = executor.clone()
    mine, yours = cache_feeds(random, 1), cache_feeds(random, 1)
    for one, feeds in ((executor, mine), (other, yours)):
        one(feeds)
    for one, feeds in ((executor, mine), (other, yours)):
        np.testing.assert_array_equal(one.get_output("present")[:, :, 1], feeds["row"][:, :, 0])
    np.testing.assert_array_equal(other.get_output("present")[:, :, 0], executor.get_output("present")[:, :, 0])


def test_models_of_several_programs(target):
    """What is not zero is known to the run alone."""
    executor = carrying(counter_model([helper.make_node("NonZero", ["next"], ["y"])]), target, state="next")
    x = np.array([1, 0, -1], np.float32)
    np.testing.assert_array_equal(executor({"state": 0 * x, "x": x})["y"], [[0, 2]])
    result = executor({"x": np.array([-1, 1, 0], np.float32)})
    assert list(result) == ["y"]
    np.testing.assert_array_equal(result["y"], [[1, 2]])
    np.testing.assert_array_equal(executor.get_output("next"), [0, 1, -1])


def test_an_empty_dict_ends_it():
    executor = carrying(counter_model(), state="next")
    x = np.array([1, 2], np.float32)
    executor({"state": x, "x": x})
    executor.carry({})
    with pytest.raises(InvalidInput, match='input "state" is missing'):
        executor({"x": x})
    np.testing.assert_array_equal(executor({"state": x, "x": x})["next"], 2 * x)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"nothing": "present"}, "no input 'nothing'"),
        ({"past": "nothing"}, "no output 'nothing'"),
        ({"at": "present"}, r'output "present", f32.* cannot become input "at", i64'),
        ({"row": "sum", "past": "sum", 1: "sum"}, 'input "row" is carried twice'),
    ],
)
def test_refusals(states, message):
    executor = make_compiler(cache_model()).compile("cpu", num_threads=1)
    with pytest.raises(InvalidInput, match=message):
        executor.carry(states)


def test_refuses_sizes_that_can_never_fit():
    proto = growing_model()
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_value = DEPTH
    executor = make_compiler(proto).compile("cpu", num_threads=1)
    with pytest.raises(InvalidInput, match=r'output "sum".* cannot become input "past"'):
        executor.carry({"past": "sum"})
    with pytest.raises(InvalidInput, match='input "past" is missing'):
        carrying(growing_model(), past="present")({"rows": np.zeros((HEADS, 1, DEPTH), np.float32)})
