"""Operators of users: Python callables and shared libraries."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import refactor_graph as rg
from onnx import ModelProto, TensorProto, helper
from refactor_graph.onnx import check, make_compiler

DOMAIN = "test.python"


def proto(
    op: str, shape: Any = ("N",), *, domain: str = DOMAIN, outputs: int = 1, tail: str = "", **attributes: Any
) -> ModelProto:
    """Make a model of one custom node on x f32, and perhaps a node behind it."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = [f"y{i}" for i in range(outputs)]
    nodes = [helper.make_node(op, ["x"], made, "node", domain=domain, **attributes)]
    ends = made
    if tail:
        nodes.append(helper.make_node(tail, ["y0"] if tail != "Add" else ["y0", "x"], ["z"]))
        ends = ["z"]
    graph = helper.make_graph(nodes, "custom", [x], [helper.make_empty_tensor_value_info(name) for name in ends])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(domain, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def same(x: rg.TensorType, **_: Any) -> rg.TensorType:
    return x


def op(compute: Callable[..., Any], shape: Callable[..., Any] = same, **options: Any) -> rg.CustomOp:
    return rg.CustomOp(DOMAIN, "Mine", compute, shape, **options)


def executor(one: rg.CustomOp, *args: Any, **options: Any) -> rg.Executor:
    return make_compiler(proto("Mine", *args, **options), custom_ops=[one]).compile(num_threads=2)


X = np.array([1.5, -2, 3], np.float32)


def test_attributes_and_inputs() -> None:
    seen: dict[str, Any] = {}

    def compute(x: np.ndarray, scale: float = 1.0, **attributes: Any) -> np.ndarray:
        seen.update(attributes, writeable=x.flags.writeable)
        return x * np.float32(scale)

    run = executor(
        op(compute), scale=2.0, names=["ä", "b"], which=3, list=[1, 2], text="word", reals=[0.5],
        tensor=helper.make_tensor("t", TensorProto.INT32, [2], [4, 5]),
    )  # fmt: skip
    np.testing.assert_array_equal(run(X)["y0"], X * 2)
    assert not seen["writeable"]
    assert (seen["names"], seen["which"], seen["list"], seen["text"]) == (["ä", "b"], 3, [1, 2], "word")
    assert seen["reals"] == [0.5]
    np.testing.assert_array_equal(seen["tensor"], [4, 5])


def test_sizes_are_expressions() -> None:
    def shape(x: rg.TensorType) -> Any:
        n, m = x.shape
        assert m == 4
        assert isinstance(n, rg.Dim)
        return [(np.float32, [n * 2 + 1, m]), ("i64", [f"ceil_div({n}, 2)"]), (np.int32, [(n + 3) // 2 % 5])]

    def compute(x: np.ndarray) -> Any:
        n = len(x)
        return (
            np.zeros((2 * n + 1, 4), np.float32),
            np.zeros((n + 1) // 2, np.int64),
            np.zeros((n + 3) // 2 % 5, np.int32),
        )

    compiler = make_compiler(proto("Mine", ("N", 4), outputs=3), custom_ops=[op(compute, shape)])
    assert compiler.outputs[0].shape == ("2*N + 1", 4)
    assert compiler.outputs[1].shape == ("ceil_div(N, 2)",)
    assert compiler.outputs[1].dtype == "i64"
    run = compiler.compile()
    for n in (1, 6, 3):
        assert run(np.zeros((n, 4), np.float32))["y0"].shape == (2 * n + 1, 4)


@pytest.mark.parametrize("sizes", [[None], None])
def test_only_the_run_knows_the_size(sizes: Any) -> None:
    one = op(lambda x: x[x > 0], lambda x: (x.dtype, sizes))
    run = executor(one, tail="Neg")
    np.testing.assert_array_equal(run(X)["z"], -X[X > 0])
    np.testing.assert_array_equal(run(-X)["z"], [-2])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.zeros(3, np.float64), r'output 0 \("y0"\) is f64\[3\], announced was f32\[N\] = \[3\]'),
        (np.zeros(2, np.float32), r"is f32\[2\], announced was f32\[N\] = \[3\]"),
        (np.zeros((1, 3), np.float32), r"is f32\[1, 3\], announced was f32\[N\]"),
        ((np.zeros(3, np.float32),) * 2, "it returned 2 arrays, the node has 1 outputs"),
        ([1.0], "output 0 is an object of type float"),
        (None, "output 0 is an object of type NoneType"),
    ],
)
def test_bad_results(result: Any, message: str) -> None:
    run = executor(op(lambda x: result), tail="Add")
    with pytest.raises(rg.OperatorError, match=message) as caught:
        run(X)
    assert 'Mine node "node"' in str(caught.value)


def test_exceptions() -> None:
    def compute(x: np.ndarray) -> np.ndarray:
        if x[0] > 0:
            raise KeyError("lost")
        if x[0] < 0:
            raise rg.InvalidInput("negative")
        return x

    run = executor(op(compute))
    with pytest.raises(rg.OperatorError, match="Mine node \"node\": KeyError: 'lost'") as caught:
        run(X)
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__cause__.__traceback__ is not None
    with pytest.raises(rg.InvalidInput, match='Mine node "node": negative'):
        run(-X)
    np.testing.assert_array_equal(run(X * 0)["y0"], X * 0)  # the executor stays usable


def test_interrupts_pass() -> None:
    def compute(x: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executor(op(compute))(X)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (lambda x: 1 / 0, "its shape function failed: ZeroDivisionError"),
        (lambda x: ("f32", ["M"]), r'the size "M" cannot be read at character 0: .* symbols N'),
        (lambda x: ("f32", ["N +"]), "expected a number or a symbol"),
        (lambda x: ("f32", ["N)"]), "expected an operator or the end"),
        (lambda x: ("f32", ["N / 0"]), "division by zero"),
        (lambda x: ("f32", [1.5]), "a size is a float"),
        (lambda x: ("f33", ["N"]), "unknown element type 'f33'"),
        (lambda x: [x, x], "announces 2 outputs, the node has 1"),
        (lambda x: ("f32", [-1]), "-1"),
        (lambda x, y: x, "TypeError"),
    ],
)
def test_bad_shape_functions(shape: Callable[..., Any], message: str) -> None:
    with pytest.raises(rg.InvalidModel, match=message) as caught:
        executor(op(lambda x: x, shape))
    assert '"node"' in str(caught.value)


def test_deep_brackets_are_refused() -> None:
    with pytest.raises(rg.InvalidModel, match="too deep"):
        executor(op(lambda x: x, lambda x: ("f32", ["(" * 5000 + "N" + ")" * 5000])))


def test_constant_values_and_needs() -> None:
    def shape(x: rg.TensorType, k: rg.TensorType) -> Any:
        assert k.value is not None
        return "f32", [int(k.value[0]), x.shape[0]]

    one = rg.CustomOp(DOMAIN, "Repeat", lambda x, k: np.repeat(x[None], k[0], 0), shape, needs=[1])
    ports = [helper.make_tensor_value_info(n, t, [s]) for n, t, s in (("x", 1, "N"), ("k", 7, 1))]
    nodes = [helper.make_node("Repeat", ["x", "k"], ["y"], domain=DOMAIN), helper.make_node("Neg", ["y"], ["z"])]
    graph = helper.make_graph(nodes, "g", ports, [helper.make_empty_tensor_value_info("z")])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)]
    run = make_compiler(helper.make_model(graph, opset_imports=imports, ir_version=10), custom_ops=[one]).compile()
    for k in (2, 5, 2):
        np.testing.assert_array_equal(run(X, np.array([k]))["z"], -np.repeat(X[None], k, 0))


def test_registering() -> None:
    one = op(lambda x: x + 1)
    with pytest.raises(rg.Unsupported, match="Mine is not supported"):
        make_compiler(proto("Mine"))
    rg.register_op(one)
    try:
        np.testing.assert_array_equal(make_compiler(proto("Mine")).compile()(X)["y0"], X + 1)
        assert check(proto("Mine")) == []
        # Later ones and those of a compiler come first.
        np.testing.assert_array_equal(executor(op(lambda x: x + 2))(X)["y0"], X + 2)
        with pytest.raises(rg.Unsupported, match="Mine does not exist in opset 1"):
            make_compiler(proto("Mine", domain="other"), custom_ops=[rg.CustomOp("other", "Mine", same, same, (2, 3))])
    finally:
        rg.unregister_op(one)
    with pytest.raises(rg.InvalidInput, match="not registered"):
        rg.unregister_op(one)
    with pytest.raises(rg.InvalidInput, match="versions 3 to 2"):
        rg.CustomOp(DOMAIN, "Mine", same, same, (3, 2))


def test_built_in_operators_come_first() -> None:
    relu = rg.CustomOp("", "Relu", lambda x: x, same)
    one = helper.make_model(
        helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])], "g",
            [helper.make_tensor_value_info("x", 1, [3])], [helper.make_tensor_value_info("y", 1, [3])],
        ), opset_imports=[helper.make_opsetid("", 20)], ir_version=10,
    )  # fmt: skip
    np.testing.assert_array_equal(make_compiler(one, custom_ops=[relu]).compile()(X)["y"], np.maximum(X, 0))


def test_clones_on_threads() -> None:
    run = executor(op(lambda x: x * 2), tail="Add")
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        own, rng = run.clone(), np.random.default_rng(seed)
        try:
            for _ in range(50):
                x = rng.standard_normal(int(rng.integers(1, 9))).astype(np.float32)
                np.testing.assert_allclose(own(x)["z"], x * 3, rtol=1e-6)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_results_of_earlier_runs_stay() -> None:
    run = executor(op(lambda x: x + 1))
    first = run(X)["y0"]
    run(X * 10)
    np.testing.assert_array_equal(first, X + 1)


def test_text() -> None:
    upper = rg.CustomOp(DOMAIN, "Upper", lambda x: np.array([t.upper() for t in x], object), same)
    x = helper.make_tensor_value_info("x", TensorProto.STRING, ["N"])
    graph = helper.make_graph(
        [helper.make_node("Upper", ["x"], ["y"], domain=DOMAIN)], "g", [x], [helper.make_empty_tensor_value_info("y")]
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)]
    run = make_compiler(helper.make_model(graph, opset_imports=imports, ir_version=10), custom_ops=[upper]).compile()
    assert run(np.array(["ä", "b"], object))["y"].tolist() == ["Ä", "B"]


# ---------------------------------------------------------------------- shared libraries
@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> list[rg.LibraryOp]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = Path(__file__).parent / "custom_library" / "operators.c"
    target = tmp_path_factory.mktemp("library") / "operators.so"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-I", rg.get_include()]
    subprocess.run([compiler, *flags, str(source), "-o", str(target)], check=True)
    return rg.load_library(target)


def library_executor(library: list[rg.LibraryOp], op_type: str, *args: Any, **options: Any) -> rg.Executor:
    one = proto(op_type, *args, domain="test.library", **options)
    return make_compiler(one, custom_ops=library).compile(num_threads=2)


def test_library_scales(library: list[rg.LibraryOp]) -> None:
    rng = np.random.default_rng(seed := np.random.SeedSequence().entropy)
    print(f"seed {seed}")
    run = library_executor(library, "Scale", ("N", 7), tail="Add", factor=-2.5)
    for rows in (1, 4321, 0, 3):
        x = rng.standard_normal((rows, 7)).astype(np.float32)
        np.testing.assert_allclose(run(x)["z"], x * np.float32(-2.5) + x, rtol=1e-6)
    first = run(np.ones((1, 7), np.float32))["z"]
    run(np.zeros((1, 7), np.float32))
    assert first.sum() == np.float32(-1.5 * 7)


def test_library_finds_sizes_while_running(library: list[rg.LibraryOp]) -> None:
    run = library_executor(library, "Positive", tail="Neg")
    for x in (X, -X, X * 0, X):
        np.testing.assert_array_equal(run(x)["z"], -x[x > 0])


def test_library_text(library: list[rg.LibraryOp]) -> None:
    one = proto("Reverse", domain="test.library")
    one.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    run = make_compiler(one, custom_ops=library).compile()
    assert run(np.array(["abc", "", "xy"], object))["y0"].tolist() == ["cba", "", "yx", "end"]
    with pytest.raises(rg.OperatorError, match='Reverse node "node": a text is longer than 64 bytes'):
        run(np.array(["a" * 65], object))


def test_library_errors(library: list[rg.LibraryOp], tmp_path: Path) -> None:
    with pytest.raises(rg.OperatorError, match=r"is f32\[1, 3\], announced was f32\[.*, 2\]"):
        library_executor(library, "Lie")(X)
    with pytest.raises(rg.OperatorError, match="has not allocated output 0"):
        library_executor(library, "Lie", lazy=1)(X)
    wrong = proto("Scale", domain="test.library")
    wrong.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    with pytest.raises(rg.InvalidModel, match="x must be f32"):
        make_compiler(wrong, custom_ops=library)
    with pytest.raises(rg.InvalidInput, match="cannot be loaded"):
        rg.register_library(tmp_path / "none.so")


def test_the_cpu_is_named_where_another_target_is_asked_for() -> None:
    compiler = make_compiler(proto("Mine"), custom_ops=[op(lambda x: x)])
    try:
        rg.find_device("nvidia", 0)
    except rg.DeviceError as error:
        pytest.skip(str(error))
    with pytest.raises(rg.Unsupported, match="node"):
        compiler.compile("cuda")


# ---------------------------------------------------------------------- on a GPU
@pytest.fixture
def gpu() -> rg.Device:
    try:
        return rg.find_device("nvidia", 0)
    except rg.DeviceError as error:
        pytest.skip(str(error))


def plain(name: str, shape: Any = ("N",)) -> rg.Executor:
    """Make what works on the memory of a GPU as another library would."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        [helper.make_node(name, ["x"], ["y"])], name, [x], [helper.make_empty_tensor_value_info("y")]
    )
    return make_compiler(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])).compile("cuda")


def through(inner: rg.Executor, x: Any) -> rg.DeviceArray:
    inner.set_input_blob("x", x)
    inner.run()
    return inner.get_output_blob("y")


@pytest.mark.cuda
@pytest.mark.usefixtures("gpu")
def test_a_function_of_a_gpu_gets_and_gives_its_memory() -> None:
    inner, seen = plain("Exp"), []

    def compute(x: rg.DeviceArray, scale: float = 0) -> rg.DeviceArray:
        seen.append((type(x), x.device.kind, x.shape, x.dtype, scale, rg.current_stream()))
        return through(inner, x)

    compiler = make_compiler(proto("Mine", tail="Add", scale=2.5), custom_ops=[op(compute, device="cuda")])
    run = compiler.compile("cuda")
    assert "custom:nvidia:python:Mine" in str(run.program) + run.recording
    for n in (3, 5, 3):
        x = np.linspace(-1, 1, n, dtype=np.float32)
        np.testing.assert_allclose(run(x)["z"], np.exp(x) + x, rtol=1e-6)
        np.testing.assert_allclose(run.clone()(x)["z"], np.exp(x) + x, rtol=1e-6)
    assert {entry[:2] + entry[3:5] for entry in seen} == {(rg.DeviceArray, "nvidia", "f32", 2.5)}
    assert seen[0][2] == (3,)
    assert all(isinstance(entry[5], int) for entry in seen)
    assert rg.current_stream() is None


class Dlpack:
    def __init__(self, blob: rg.DeviceArray) -> None:
        self.blob, self.streams = blob, list[Any]()

    def __dlpack_device__(self) -> Any:
        return self.blob.__dlpack_device__()

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        self.streams.append((stream, rg.current_stream()))
        return self.blob.__dlpack__(stream=stream, max_version=max_version)


class CudaArray:
    def __init__(self, blob: rg.DeviceArray) -> None:
        self.__cuda_array_interface__ = blob.__cuda_array_interface__


@pytest.mark.cuda
@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("wrap", [Dlpack, CudaArray])
def test_results_of_other_libraries(wrap: Any) -> None:
    inner, made = plain("Neg"), []

    def compute(x: rg.DeviceArray) -> Any:
        made.append(wrap(through(inner, x)))
        return made[-1]

    run = make_compiler(proto("Mine", tail="Add"), custom_ops=[op(compute, device="cuda")]).compile(["cuda", "cpu"])
    for _ in range(3):
        np.testing.assert_array_equal(run(X)["z"], np.zeros(3))
    for one in made if wrap is Dlpack else []:
        assert all(asked == own for asked, own in one.streams), "the result is ordered before the run goes on"


@pytest.mark.cuda
@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda x: np.zeros(x.shape, np.float32), "output 0 is an object of type numpy.ndarray on the host, expected"),
        (lambda x: None, "output 0 is an object of type NoneType on the host"),
        (lambda x: (x, x), "it returned 2 arrays, the node has 1 outputs"),
        (lambda x: through(plain("Flatten", (3, 1)), _column(x)), r"is f32\[3, 1\], announced was f32\[N\] = \[3\]"),
        (lambda x: through(plain("Shape"), x), r"is i64\[1\], announced was f32\[N\] = \[3\]"),
        (lambda x: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
    ids=["host", "none", "number", "shape", "dtype", "raises"],
)
def test_wrong_results_of_a_gpu(result: Any, message: str) -> None:
    run = make_compiler(proto("Mine", tail="Add"), custom_ops=[op(result, device="cuda")]).compile("cuda")
    for _ in range(2):
        with pytest.raises(rg.OperatorError, match=message) as info:
            run(X)
        assert "node" in str(info.value)


def _column(x: rg.DeviceArray) -> Any:
    class Column(CudaArray):
        def __init__(self) -> None:
            self.__cuda_array_interface__ = x.__cuda_array_interface__ | {"shape": (3, 1)}

    return Column()


@pytest.mark.cuda
@pytest.mark.usefixtures("gpu")
def test_a_function_of_a_gpu_is_refused_elsewhere() -> None:
    compiler = make_compiler(proto("Mine"), custom_ops=[op(lambda x: x, device="cuda")])
    with pytest.raises(rg.Unsupported, match="its function runs on nvidia, not on cpu"):
        compiler.compile("cpu")
    text = op(lambda x: x, lambda x: ("string", x.shape), device="cuda")
    with pytest.raises(rg.Unsupported, match="text is in the memory of the host"):
        make_compiler(proto("Mine"), custom_ops=[text]).compile("cuda")


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(rg.InvalidInput, match="the device is 'tpu', expected one of: cpu, cuda"):
        op(lambda x: x, device="tpu")
