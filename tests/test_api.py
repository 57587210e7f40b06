import gc

import numpy as np
import onnx
import pytest
import refactor_graph
from onnx import TensorProto, helper
from refactor_graph import InvalidInput
from refactor_graph.onnx import check, find_device, make_compiler

from tests import models


def test_usage_script_of_the_original():
    model = models.mlp()
    array = models.generator().standard_normal((10, 8), np.float32)
    compiler = make_compiler(model)
    compiler.substitute("N", 10)
    find_device("cpu", 0)
    executor = compiler.compile("cpu", "default", [])
    executor.set_input(0, array)
    executor.dispatch(find_device("cpu", 0), "default")
    executor.run()
    models.assert_close(executor.get_output(0), models.expected(model, {"x": array})[0])


def test_sources_of_a_model(tmp_path):
    model = models.mlp()
    path = tmp_path / "mlp.onnx"
    onnx.save(model, path)
    array = models.generator().standard_normal((3, 8), np.float32)
    wanted = models.expected(model, {"x": array})[0]
    for source in (model, model.SerializeToString(), path, str(path)):
        models.assert_close(make_compiler(source).compile()({"x": array})["y"], wanted)


def test_large_file_is_not_copied_wrongly(tmp_path):
    random = models.generator(5)
    weights = random.standard_normal((600, 700), np.float32)
    small = random.standard_normal(700, np.float32)
    model = models.model(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])],
        [models.value("x", [2, 600])],
        [models.value("y", [2, 700])],
        [models.constant("b", small), models.constant("w", weights)],
    )
    path = tmp_path / "large.onnx"
    onnx.save(model, path)
    array = random.standard_normal((2, 600), np.float32)
    for source in (path, path.read_bytes()):
        executor = make_compiler(source).compile()
        del source
        gc.collect()
        models.assert_close(executor({"x": array})["y"], models.expected(model, {"x": array})[0])


def test_ports_and_variables():
    compiler = make_compiler(models.convolutions())
    assert compiler.variables == ["N", "H", "W"]
    (port,) = compiler.inputs
    assert (port.name, port.dtype, port.shape) == ("x", "f32", ("N", 3, "H", "W"))
    compiler.substitute("H", 16)
    assert compiler.inputs[0].shape == ("N", 3, 16, "W")
    assert compiler.variables == ["N", "W"]
    executor = compiler.compile()
    assert executor.inputs[0].shape == ("N", 3, 16, "W")
    assert executor.outputs[0].name == "y"


@pytest.mark.parametrize(("name", "number"), [("M", 1), ("N", -1), ("N", "ten"), ("N", True), (3, 3)])
def test_substitute_refuses(name, number):
    with pytest.raises(InvalidInput):
        make_compiler(models.mlp()).substitute(name, number)


@pytest.mark.parametrize("number", [2**63, 2**70, -(2**70)])
def test_substitute_names_the_range_of_sizes(number):
    with pytest.raises(InvalidInput, match=rf"expected a size from 0 to 2\^63 - 1 for 'N', got {number}"):
        make_compiler(models.mlp()).substitute("N", number)


def test_outputs_by_name_and_number():
    executor = make_compiler(models.decoder()).compile()
    arrays = {
        port.name: np.ones([2 if isinstance(size, str) else size for size in port.shape], np.float32)
        for port in executor.inputs
    }
    by_dict = executor(arrays)
    assert list(by_dict) == ["y", "k", "v"]
    by_order = executor(*arrays.values())
    for name, array in arrays.items():
        executor.set_input(name, array)
    executor.run()
    for index, name in enumerate(by_dict):
        np.testing.assert_array_equal(by_dict[name], by_order[name])
        np.testing.assert_array_equal(by_dict[name], executor.get_output(index))
        np.testing.assert_array_equal(by_dict[name], executor.get_output(name))


def test_output_is_not_overwritten_while_it_is_held():
    executor = make_compiler(models.mlp()).compile()
    random = models.generator()
    first, second = (random.standard_normal((2, 8), np.float32) for _ in range(2))
    held = executor({"x": first})["y"]
    copy = held.copy()
    other = executor({"x": second})["y"]
    assert not np.array_equal(other, copy)
    np.testing.assert_array_equal(held, copy)
    del executor
    gc.collect()
    np.testing.assert_array_equal(held, copy)


def test_set_input_copies():
    executor = make_compiler(models.mlp()).compile()
    array = models.generator().standard_normal((2, 8), np.float32)
    wanted = executor({"x": array})["y"]
    executor.set_input(0, array)
    array[:] = 0
    executor.run()
    np.testing.assert_array_equal(executor.get_output(0), wanted)


def _variants():
    base = models.generator(7).standard_normal((2, 8), np.float32)
    padded = np.zeros((4, 16), np.float32)
    padded[::2, ::2] = base
    raw = np.frombuffer(b"\0" + base.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 8)
    frozen = base.copy()
    frozen.setflags(write=False)
    return base, {
        "contiguous": base,
        "fortran": np.asfortranarray(base),
        "strided": padded[::2, ::2],
        "reversed": base[::-1, ::-1].copy()[::-1, ::-1],
        "unaligned": raw,
        "read_only": frozen,
        "big_endian": base.astype(">f4"),
        "matrix": np.asmatrix(base),
    }


@pytest.mark.parametrize("name", list(_variants()[1]))
def test_memory_orders(name):
    base, variants = _variants()
    executor = make_compiler(models.mlp()).compile()
    wanted = executor({"x": base})["y"]
    np.testing.assert_array_equal(executor({"x": variants[name]})["y"], wanted)
    executor.set_input("x", variants[name])
    executor.run()
    np.testing.assert_array_equal(executor.get_output("y"), wanted)


def test_dlpack_and_array_protocol():
    class Dlpack:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **arguments):
            return self.array.__dlpack__(**arguments)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    class Array:
        def __init__(self, array):
            self.array = array

        def __array__(self, dtype=None, copy=None):
            return self.array

    executor = make_compiler(models.mlp()).compile()
    array = models.generator().standard_normal((2, 8), np.float32)
    wanted = executor({"x": array})["y"]
    np.testing.assert_array_equal(executor({"x": Dlpack(array)})["y"], wanted)
    np.testing.assert_array_equal(executor({"x": Array(array)})["y"], wanted)


def test_scalars_and_empty_tensors():
    add = [helper.make_node("Add", ["a", "b"], ["y"])]
    scalar = models.model(add, [models.value("a", []), models.value("b", [])], [models.value("y", [])])
    executor = make_compiler(scalar).compile()
    result = executor({"a": np.float32(2), "b": np.array(3, np.float32)})["y"]
    assert result.shape == ()
    assert result == 5
    empty = models.model(add, [models.value("a", [0, 3]), models.value("b", [1, 3])], [models.value("y", [0, 3])])
    result = make_compiler(empty).compile()({"a": np.zeros((0, 3), np.float32), "b": np.ones((1, 3), np.float32)})["y"]
    assert result.shape == (0, 3)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_half_types(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name, np.float16))
    code = helper.np_dtype_to_tensor_dtype(dtype)
    proto = models.model(
        [helper.make_node("Add", ["x", "x"], ["y"])], [models.value("x", ["N"], code)], [models.value("y", ["N"], code)]
    )
    array = models.generator().standard_normal(9).astype(dtype)
    result = make_compiler(proto).compile()({"x": array})["y"]
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, array + array)


def test_clone_shares_inputs_and_runs_alone():
    executor = make_compiler(models.mlp()).compile()
    random = models.generator()
    first, second = (random.standard_normal((2, 8), np.float32) for _ in range(2))
    executor.set_input(0, first)
    clone = executor.clone()
    clone.run()
    executor.run()
    np.testing.assert_array_equal(clone.get_output(0), executor.get_output(0))
    clone.set_input(0, second)
    clone.run()
    executor.run()
    assert not np.array_equal(clone.get_output(0), executor.get_output(0))


def test_check_lists_nothing_for_a_good_model():
    assert check(models.transformer()) == []
    assert make_compiler(models.mlp()).check() == []


def test_metadata():
    proto = models.mlp()
    helper.set_model_props(proto, {"character": "a\nb"})
    assert make_compiler(proto).metadata == {"character": "a\nb"}


def test_input_of_unknown_rank():
    proto = models.mlp()
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    compiler = make_compiler(proto)
    assert compiler.inputs[0].shape is None
    executor = compiler.compile()
    for rows in (2, 5):
        array = models.generator(rows).standard_normal((rows, 8), np.float32)
        wanted = models.expected(models.mlp(), {"x": array})[0]
        models.assert_close(executor({"x": array})["y"], wanted)
        executor.set_input(0, array)
        executor.run()
        models.assert_close(executor.get_output("y"), wanted)
    relu = models.model([helper.make_node("Relu", ["x"], ["y"])], [models.value("x", None)], [models.value("y", None)])
    executor = make_compiler(relu).compile()
    for shape in ((), (3,), (2, 1, 4)):
        array = np.asarray(models.generator().standard_normal(shape), np.float32)
        np.testing.assert_array_equal(executor({"x": array})["y"], np.maximum(array, 0))
    assert executor.clone()({"x": array})["y"].shape == array.shape


def test_initializer_that_is_also_an_input_is_no_input():
    proto = models.mlp()
    proto.graph.input.append(models.value("w", [5, 8]))
    assert [port.name for port in make_compiler(proto).inputs] == ["x"]


def test_outputs_that_compute_nothing():
    proto = models.model(
        [helper.make_node("Identity", ["x"], ["i"])],
        [models.value("x", [2, 3])],
        [models.value("i", [2, 3]), models.value("x", [2, 3]), models.value("c", [2])],
        [models.constant("c", np.array([1, 2], np.float32))],
    )
    array = models.generator().standard_normal((2, 3), np.float32)
    outputs = make_compiler(proto).compile()({"x": array})
    np.testing.assert_array_equal(outputs["i"], array)
    np.testing.assert_array_equal(outputs["x"], array)
    np.testing.assert_array_equal(outputs["c"], [1, 2])
    array[:] = 0
    assert np.any(outputs["i"]), "outputs must not share the caller's array"


def test_integer_type_of_ports():
    (port,) = make_compiler(
        models.model(
            [helper.make_node("Neg", ["x"], ["y"])],
            [models.value("x", [1], TensorProto.INT32)],
            [models.value("y", [1], TensorProto.INT32)],
        )
    ).inputs
    assert port.dtype == "i32"


def test_names_of_passes():
    names = refactor_graph.pass_names()
    assert "fold_constants" in names
    assert len(set(names)) == len(names)
    assert "order of the default pipeline" in refactor_graph.pass_names.__doc__
    # As docs/debugging.md says.
    for passes in (["-all"], *([f"-{name}"] for name in names)):
        make_compiler(models.mlp()).compile("cpu", passes=passes)


def test_version_and_names():
    assert refactor_graph.__version__.count(".") == 2
    assert issubclass(refactor_graph.InvalidModel, refactor_graph.Error)
    assert issubclass(refactor_graph.InvalidModel, ValueError)
    assert issubclass(refactor_graph.Unsupported, NotImplementedError)
    assert issubclass(refactor_graph.OutOfMemory, MemoryError)
