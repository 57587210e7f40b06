"""Refusals of arguments and inputs: a typed exception that names what was expected and what was given."""

import contextlib
import threading

import numpy as np
import pytest
import refactor_graph
from onnx import TensorProto, helper
from refactor_graph import CancellationToken, Cancelled, DeviceError, InvalidInput, InvalidModel, Unsupported
from refactor_graph.onnx import find_device, make_compiler

from tests import models


@pytest.fixture(scope="module")
def executor():
    model = models.mlp()
    model.graph.input[0].CopyFrom(models.value("x", [2, 8]))
    return make_compiler(model).compile()


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ones(8, np.float32), ["'x'|\"x\"", r"2, ?8", "f32"]),
        (np.ones((1, 2, 8), np.float32), [r"2, ?8"]),
        (np.ones((2, 9), np.float32), [r"2, ?9"]),
        (np.ones((3, 8), np.float32), [r"3, ?8"]),
        (np.float32(1), ["f32"]),
        (np.ones((2, 8), np.float64), ["float64"]),
        (np.ones((2, 8), np.float16), ["float16"]),
        (np.ones((2, 8), np.int32), ["int32"]),
        (np.ones((2, 8), np.int64), ["int64"]),
        (np.ones((2, 8), bool), ["bool"]),
        (np.ones((2, 8), np.complex64), ["complex64"]),
        (np.ones((2, 8), ">f8"), ["f8"]),
        (np.array([["a"] * 8] * 2, object), ["object"]),
        (np.array([["a"] * 8] * 2), ["U1"]),
        (np.zeros((2, 8), "datetime64[s]"), ["datetime64"]),
        (np.zeros((2, 8), [("a", "f4")]), ["a"]),
        (None, ["NoneType"]),
        ("text", ["str"]),
        ([[1.0] * 8] * 2, ["list"]),
        ({}, ["dict"]),
        (1.0, ["float"]),
        (np.zeros((0, 8), np.float32), [r"0, ?8"]),
    ],
)
def test_wrong_input(executor, array, words):
    for action in (lambda: executor.set_input(0, array), lambda: executor({"x": array})):
        with pytest.raises(InvalidInput, match="x") as info:
            action()
        for word in words:
            assert info.match(word)


def test_input_that_does_not_exist(executor):
    array = np.ones((2, 8), np.float32)
    with pytest.raises(InvalidInput, match="x"):
        executor.set_input("z", array)
    with pytest.raises(InvalidInput, match="1"):
        executor.set_input(1, array)
    with pytest.raises(InvalidInput):
        executor.set_input(-1, array)
    with pytest.raises(InvalidInput):
        executor.set_input(None, array)
    with pytest.raises(InvalidInput, match="z"):
        executor({"x": array, "z": array})
    with pytest.raises(InvalidInput, match="missing"):
        executor({})
    with pytest.raises(InvalidInput, match="2"):
        executor(array, array)
    with pytest.raises(InvalidInput, match="speed"):
        executor({"x": array}, speed=3)
    with pytest.raises(InvalidInput):
        executor.get_output("z")
    with pytest.raises(InvalidInput):
        executor.get_output(1)


def test_run_without_inputs_and_output_without_run():
    executor = make_compiler(models.mlp()).compile()
    with pytest.raises(InvalidInput, match="x"):
        executor.run()
    with pytest.raises(InvalidInput, match="y"):
        executor.get_output(0)


def test_errors_leave_the_executor_usable(executor):
    array = models.generator().standard_normal((2, 8), np.float32)
    wanted = executor({"x": array})["y"].copy()
    with pytest.raises(InvalidInput):
        executor({"x": array.astype(np.int32)})
    np.testing.assert_array_equal(executor({"x": array})["y"], wanted)


def test_symbol_with_two_values():
    proto = models.model(
        [helper.make_node("MatMul", ["a", "b"], ["y"])],
        [models.value("a", ["N", "K"]), models.value("b", ["K", "M"])],
        [models.value("y", ["N", "M"])],
    )
    executor = make_compiler(proto).compile()
    with pytest.raises(InvalidInput, match="b"):
        executor({"a": np.ones((2, 3), np.float32), "b": np.ones((4, 5), np.float32)})
    assert executor({"a": np.ones((2, 3), np.float32), "b": np.ones((3, 5), np.float32)})["y"].shape == (2, 5)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (["gpu"], {}, ["cpu", "cuda"]),
        ([[]], {}, ["cpu"]),
        (["cpu", "fast"], {}, ["default", "plain", "mru", "bestfit", "compact"]),
        (["cpu", "default", ["no_such_pass"]], {}, ["no_such_pass", "fold_constants"]),
        (["cpu", "default", "fold_constants"], {}, ["list"]),
        (["cpu"], {"precision": "half"}, ["exact"]),
        (["cpu"], {"weights": "int3"}, ["int3", "default", "f32", "f16", "bf16", "int8"]),
        (["cpu"], {"weights": "f8e5m2"}, ["f8e5m2 on cpu", "default, f32, f16, bf16, int8"]),
        (["cpu"], {"keep": ["nothing"]}, ["nothing"]),
        (["cpu"], {"keep_f32": ["gemm", "nothing"]}, ['keep_f32: the model has no node named "nothing"']),
        (["cpu"], {"keep_f32": ["nothing", "none"], "precision": "f16"}, ['"nothing", "none"']),
        (["cpu"], {"keep_f32": ["nothing"], "precision": "int8"}, ['"nothing"']),
        ([None], {}, ["target: expected a list of names, got NoneType"]),
        ([["cpu", 1]], {}, ["target: expected a list of names, got one with int"]),
        (["cpu", None], {}, ["unknown allocator None", "default"]),
        (["cpu", "default", None], {}, ["passes: expected a list of names, got NoneType"]),
        (["cpu", "default", [1]], {}, ["passes: expected a list of names, got one with int"]),
        (["cpu"], {"precision": None}, ["precision: expected a name, got NoneType"]),
        (["cpu"], {"weights": 8}, ["weights: expected a name, got int"]),
        (["cpu"], {"keep": None}, ["keep: expected a list of names, got NoneType"]),
        (["cpu"], {"keep_f32": [None]}, ["keep_f32: expected a list of names, got one with NoneType"]),
        (["cpu"], {"verify": "no"}, ["verify: expected True or False, got 'no'"]),
        (["cpu"], {"device_graphs": None}, ["device_graphs: expected True or False, got None"]),
        (["cpu"], {"tune": None}, ["tune: expected one of", "None"]),
        (["cpu"], {"num_threads": -1}, ["-1"]),
        (["cpu"], {"num_threads": 10**6}, ["1000000"]),
        (["cpu"], {"num_threads": 1.5}, ["1.5"]),
    ],
)
def test_wrong_options(arguments, options, words):
    with pytest.raises(InvalidInput) as info:
        make_compiler(models.mlp()).compile(*arguments, **options)
    for word in words:
        assert word in str(info.value)


def test_wrong_allocator_in_dispatch(executor):
    with pytest.raises(InvalidInput, match="bestfit"):
        executor.dispatch(find_device("cpu", 0), "fast")


def _no_gpu():
    try:
        find_device("nvidia", 0)
    except DeviceError:
        return True
    return False


@pytest.mark.skipif(not _no_gpu(), reason="an NVIDIA device is present")
def test_missing_gpu_is_named():
    with pytest.raises(DeviceError, match=r"(?i)(cuda|driver|nvidia)"):
        find_device("nvidia", 0)
    for target in ("cuda", ["cuda", "cpu"]):
        with pytest.raises(DeviceError):
            make_compiler(models.mlp()).compile(target)


def test_unknown_device():
    with pytest.raises(DeviceError):
        find_device("tpu", 0)
    with pytest.raises(DeviceError):
        find_device("cpu", 7)


@pytest.mark.parametrize("source", ["/no/such/model.onnx", "/", "\0", 3, None, ["x"]])
def test_model_that_cannot_be_read(source):
    with pytest.raises(InvalidInput):
        make_compiler(source)


@pytest.mark.parametrize("data", [b"", bytes(4096), b"text " * 30, b"\x08" + b"\xff" * 200, b"\x3a\x7f" * 64])
def test_not_a_model(data, tmp_path):
    with pytest.raises(InvalidModel):
        make_compiler(data)
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(InvalidModel, match=r"model\.onnx"):
        make_compiler(path)


def test_truncated_models():
    data = models.convolutions().SerializeToString()
    for end in range(3, len(data), 997):
        with pytest.raises(InvalidModel):
            make_compiler(data[:end])


def test_truncated_large_model():
    random = models.generator()
    proto = models.model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [models.value("x", [1, 512])],
        [models.value("y", [1, 600])],
        [models.constant("w", random.standard_normal((512, 600), np.float32))],
    )
    data = proto.SerializeToString()
    assert len(data) > 2**20
    for end in (2**20 + 1, len(data) - 100, len(data) - 1):
        with pytest.raises(InvalidModel):
            make_compiler(data[:end])


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (
            [
                helper.make_node("Frobnicate", ["x"], ["a"], "first"),
                helper.make_node("Add", ["a", "nowhere"], ["b"], "second"),
                helper.make_node("Relu", ["gone"], ["y"], "third"),
            ],
            ("Frobnicate", "nowhere", "gone"),
        ),
        (
            [
                helper.make_node("Softmax", ["x"], ["a"], "first", axis=99),
                helper.make_node("Transpose", ["x"], ["b"], "second", perm=[0, 0]),
                helper.make_node("Reshape", ["x", "sizes"], ["y"], "third"),
            ],
            ("first", "second", "third"),
        ),
    ],
    ids=["structure", "meaning"],
)
def test_all_problems_are_reported_at_once(nodes, words):
    proto = models.model(
        nodes, [models.value("x", [2, 3])], [models.value("y", [4])], [models.constant("sizes", np.array([7, 7]))]
    )
    with pytest.raises(InvalidModel) as info:
        make_compiler(proto)
    assert len(info.value.problems) >= 3
    for word in words:
        assert word in str(info.value)


def test_unsupported_operator_is_named():
    proto = models.model(
        [helper.make_node("Relu", ["x"], ["y"], "mine", domain="com.example")],
        [models.value("x", [2])],
        [models.value("y", [2])],
        domains=["com.example"],
    )
    with pytest.raises(Unsupported, match=r"com\.example.*Relu"):
        make_compiler(proto)


def test_data_dependent_errors_name_the_node():
    proto = models.model(
        [helper.make_node("Gather", ["x", "i"], ["y"], "look_up")],
        [models.value("x", [4, 6]), models.value("i", [2], TensorProto.INT64)],
        [models.value("y", [2, 6])],
    )
    executor = make_compiler(proto).compile()
    table = np.ones((4, 6), np.float32)
    for index in (4, -5, 2**62):
        with pytest.raises(InvalidInput, match="look_up"):
            executor({"x": table, "i": np.array([0, index])})
    assert executor({"x": table, "i": np.array([0, -4])})["y"].shape == (2, 6)


def test_timeout_and_token():
    model = models.chain(50, (4, 5))
    executor = make_compiler(model).compile("cpu", "default", ["-all"])
    array = np.ones((4, 5), np.float32)
    executor.set_input(0, array)
    with pytest.raises(Cancelled):
        executor.run(timeout=0.0)
    token = CancellationToken()
    executor.run(timeout=1e300, token=token)
    token.cancel()
    assert token.cancelled
    with pytest.raises(Cancelled):
        executor.run(token=token)
    with pytest.raises(Cancelled):
        executor({"x": array}, token=token)
    with pytest.raises(Cancelled):
        executor({"x": array}, timeout=0)
    for wrong in (-1, float("nan")):
        with pytest.raises(InvalidInput):
            executor.run(timeout=wrong)
    executor.run()


def test_executor_in_use_by_another_thread():
    model = models.transformer(layers=4, width=256)
    executor = make_compiler(model).compile(num_threads=1)
    inputs = {"ids": np.zeros((16, 64), np.int64), "mask": np.ones((16, 64), np.int64)}
    executor(inputs)
    stop, refused = threading.Event(), []

    def work():
        while not stop.is_set():
            with contextlib.suppress(InvalidInput):  # the other thread may come first
                executor(inputs)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(200):
            try:
                executor.set_input("ids", inputs["ids"])
            except InvalidInput as error:
                refused.append(str(error))
                break
            stop.wait(0.001)
    finally:
        stop.set()
        thread.join()
    assert refused
    assert "clone" in refused[0]


def test_every_error_is_an_error():
    for name in (
        "InvalidModel",
        "InvalidInput",
        "Unsupported",
        "OutOfMemory",
        "DeviceError",
        "Cancelled",
        "InternalError",
    ):
        assert issubclass(getattr(refactor_graph, name), refactor_graph.Error)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda executor: executor.dispatch(None), "dispatch: expected a Device .*, got NoneType"),
        (lambda executor: executor.bench(repeats=None), "repeats: expected a number of at least 1, got None"),
        (lambda executor: executor.carry(None), "carry: expected a dict of outputs and inputs, got NoneType"),
        (lambda _: make_compiler(models.mlp(), 3), "base_dir_or_uri: expected a path or a file:// URI, got int"),
        (lambda _: make_compiler(models.mlp(), custom_ops=None), "custom_ops: expected a list of operators, got None"),
        (lambda _: refactor_graph.check(models.mlp(), target=None), "target: expected a list of names, got NoneType"),
        (lambda _: make_compiler(models.mlp()).check(None), "target: expected a list of names, got NoneType"),
    ],
)
def test_arguments_of_the_wrong_type(executor, call, words):
    with pytest.raises(InvalidInput, match=words):
        call(executor)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": "1"}, "timeout: expected seconds, got str"),
        ({"token": 3}, "token: expected a CancellationToken, got int"),
    ],
)
def test_options_of_the_wrong_type(executor, options, words):
    with pytest.raises(InvalidInput, match=words):
        executor({"x": np.ones((2, 8), np.float32)}, **options)
