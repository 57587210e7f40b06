"""How models run on a GPU: faults, several targets, recorded work, control flow, sharing, memory."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph import DeviceError, InvalidInput, Unsupported
from refactor_graph.onnx import find_device, make_compiler

from tests import models

pytestmark = pytest.mark.cuda
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


@pytest.fixture(autouse=True)
def gpu():
    try:
        return find_device("nvidia", 0)
    except DeviceError as error:
        pytest.skip(str(error))


def chain(*ops, shape=("N",), dtype=F32):
    names = ["x", *(f"t{i}" for i in range(len(ops) - 1)), "y"]
    nodes = [helper.make_node(op, [a], [b], name=op) for op, a, b in zip(ops, names[:-1], names[1:], strict=True)]
    return models.model(nodes, [models.value("x", shape, dtype)], [models.value("y", None, dtype)])


def random(*shape, seed=0):
    return models.generator(seed).standard_normal(shape, np.float32)


def division():
    nodes = [helper.make_node("Div", ["x", "z"], ["y"], name="quotient")]
    inputs = [models.value("x", ["N"], I64), models.value("z", ["N"], I64)]
    return models.model(nodes, inputs, [models.value("y", None, I64)])


@pytest.mark.parametrize("graphs", [True, False])
def test_faults_name_the_node(graphs):
    executor = make_compiler(division()).compile("cuda", device_graphs=graphs)
    good = {"x": np.array([7, -7, 5, -(2**63)]), "z": np.array([2, 2, -5, -1])}
    bad = good | {"z": np.array([1, 0, 1, 1])}
    for _ in range(4):
        np.testing.assert_array_equal(executor(good)["y"], [3, -3, -1, -(2**63)])
        with pytest.raises(InvalidInput, match=r'"quotient".*division of -7 by zero'):
            executor(bad)


def test_indices_out_of_range_are_faults():
    node = helper.make_node("Gather", ["x", "i"], ["y"], name="lookup")
    inputs = [models.value("x", [5, 3]), models.value("i", ["N"], I64)]
    executor = make_compiler(models.model([node], inputs, [models.value("y", None)])).compile("cuda")
    x = random(5, 3)
    for _ in range(3):
        np.testing.assert_array_equal(executor({"x": x, "i": np.array([4, -5])})["y"], x[[4, 0]])
        with pytest.raises(InvalidInput, match=r'"lookup".*index -6 is outside'):
            executor({"x": x, "i": np.array([1, -6])})


ADDENDS = 60


def residual():
    """Two sums of more inputs than a kernel of a GPU takes; what comes before is used behind them again."""
    addends = [f"p{i}" for i in range(ADDENDS)]
    nodes = [
        helper.make_node("Softmax", ["x"], ["a"], name="before"),
        helper.make_node("Sum", ["a", *addends], ["d"], name="wide"),
        helper.make_node("Softmax", ["a"], ["b"], name="beside", axis=0),
        helper.make_node("MatMul", ["b", "d"], ["c"], name="both"),
        helper.make_node("Sum", ["c", *addends], ["e"], name="again"),
        helper.make_node("MatMul", ["a", "e"], ["y"], name="behind"),
    ]
    inputs = [models.value(name, ["N", "N"]) for name in ["x", *addends]]
    return models.model(nodes, inputs, [models.value("y", None)])


def test_missing_kernels_are_refused_all_at_once():
    with pytest.raises(Unsupported, match="61 inputs, at most") as info:
        make_compiler(residual()).compile("cuda")
    text = str(info.value)
    assert "wide" in text
    assert "again" in text
    assert "before" not in text


@pytest.mark.parametrize("passes", [[], ["-all"]], ids=["all", "none"])
def test_two_targets(passes):
    proto = residual()
    executor = make_compiler(proto).compile(["cuda", "cpu"], passes=passes)
    assert executor.program.calls == 5
    for size in (3, 2, 3):
        inputs = {port.name: random(size, size, seed=i + size) for i, port in enumerate(proto.graph.input)}
        (wanted,) = models.expected(proto, inputs)
        models.assert_close(executor(inputs)["y"], wanted)
    text = executor.dbg(quiet=True)
    assert 'node "wide" runs on the host' in text
    assert '"a" (f32[N, N]) is copied to the host' in text
    assert {row.kernel.split(":")[1] for row in executor.bench(repeats=2, quiet=True)} == {"cpu", "nvidia"}
    models.assert_close(executor.clone()(inputs)["y"], wanted)


def test_two_targets_where_one_suffices():
    proto = chain("Relu", "Exp")
    executor = make_compiler(proto).compile(["cuda", "cpu"])
    assert executor.program.calls == 1
    assert "cut_by_device: 0 changes" in executor.dbg(quiet=True)
    executor = make_compiler(proto).compile(["cpu", "cuda"])
    assert executor.device.kind == "cpu"


def test_procedures_between_devices():
    attributes = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0}
    lists = {"ngram_counts": [0], "ngram_indexes": [0, 1, 2], "pool_int64s": [0, 2, 5]}
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"]),
        helper.make_node("TfIdfVectorizer", ["a"], ["n"], name="counts", **attributes, **lists),
        helper.make_node("Exp", ["n"], ["y"]),
    ]
    proto = models.model(nodes, [models.value("x", ["N"], I64)], [models.value("y", None)])
    with pytest.raises(Unsupported, match='TfIdfVectorizer node "counts"'):
        make_compiler(proto).compile("cuda")
    executor = make_compiler(proto).compile(["cuda", "cpu"])
    for count in (7, 1, 4):
        x = {"x": np.arange(count) % 3}
        models.assert_close(executor(x)["y"], models.expected(proto, x)[0])


def loop():
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["s", "w"], ["p"]),
            helper.make_node("Sin", ["p"], ["t"]),
            helper.make_node("Identity", ["go"], ["more"]),
            helper.make_node("Add", ["t", "s"], ["u"]),
        ],
        "body",
        [models.value("i", [], I64), models.value("go", [], BOOL), models.value("s", [3])],
        [models.value("more", [], BOOL), models.value("u", [3]), models.value("t", [3])],
    )
    nodes = [
        helper.make_node("Exp", ["x"], ["w"]),
        helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=body, name="loop"),
        helper.make_node("Relu", ["last"], ["y"]),
    ]
    inputs = [models.value("x", [3]), models.value("n", [], I64)]
    return models.model(nodes, inputs, [models.value("y", None), models.value("all", None)])


def conditional():
    branches = {
        name: helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [models.value(name, ["N"])])
        for name, op in (("then_branch", "Exp"), ("else_branch", "Neg"))
    }
    nodes = [
        helper.make_node("If", ["c"], ["a"], name="if", **branches),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    return models.model(nodes, [models.value("x", ["N"]), models.value("c", [], BOOL)], [models.value("y", None)])


def scan():
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["u"]), helper.make_node("Tanh", ["u"], ["t"])],
        "body",
        [models.value("s", [2]), models.value("e", [2])],
        [models.value("u", [2]), models.value("t", [2])],
    )
    nodes = [helper.make_node("Scan", ["s0", "x"], ["last", "y"], body=body, num_scan_inputs=1)]
    inputs = [models.value("s0", [2]), models.value("x", ["T", 2])]
    return models.model(nodes, inputs, [models.value("last", None), models.value("y", None)])


CONTROL = {
    "loop": (loop(), [{"x": random(3), "n": np.array(n)} for n in (3, 0, 5)]),
    "if": (conditional(), [{"x": random(n), "c": np.array(n > 4)} for n in (3, 5, 3)]),
    "scan": (scan(), [{"s0": random(2), "x": random(n, 2)} for n in (4, 1)]),
}


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow_runs_its_graphs_on_the_device(name):
    proto, runs = CONTROL[name]
    executor = make_compiler(proto).compile("cuda")
    for _ in range(2):
        for arrays in runs:
            for actual, wanted in zip(executor(arrays).values(), models.expected(proto, arrays), strict=True):
                models.assert_close(actual, wanted)


def test_work_is_recorded_and_repeated():
    proto = chain("Relu", "Exp", "Sqrt", shape=("N", 3))
    executor = make_compiler(proto).compile("cuda", passes=["-all"])
    states = []
    for size in (4, 4, 5, 4, 5, 5, 4):
        x = {"x": random(size, 3, seed=len(states))}
        models.assert_close(executor(x)["y"], models.expected(proto, x)[0])
        states.append("recorded" in executor.recording)
    assert states == [False, True, False, True, True, True, True]
    assert "recorded" in executor.dbg(quiet=True)
    clone = executor.clone()
    models.assert_close(clone(x)["y"], models.expected(proto, x)[0])
    assert "not yet" in clone.recording


def test_recording_can_be_forbidden(gpu):
    executor = make_compiler(chain("Relu", "Exp")).compile("cuda", device_graphs=False)
    for _ in range(3):
        executor({"x": random(4)})
    assert "not allowed" in executor.recording
    assert "not allowed" in executor.clone().recording
    executor.dispatch(gpu, "mru")
    assert "not allowed" in executor.recording


def test_recording_while_others_wait_for_the_device():
    """CUDA spoils what one thread records when another one waits for the whole device."""
    executor = make_compiler(chain(*["Relu", "Exp", "Sqrt"] * 200)).compile("cuda", passes=["-all"])
    first = make_compiler(chain("Relu")).compile("cuda")
    first({"x": random(5)})
    shared = ByCudaArray(first.get_output_blob("y"), stream=1)
    on_host = make_compiler(chain("Exp")).compile("cpu")

    def record():
        for size in range(1, 20):
            x = {"x": random(size)}
            executor(x), executor(x)
            assert ": recorded" in executor.recording

    with ThreadPoolExecutor(1) as pool:
        recording = pool.submit(record)
        while not recording.done():
            on_host.set_input_blob("x", shared)
        recording.result()


@pytest.mark.parametrize("name", ["loop", "scan", "if"])
@pytest.mark.parametrize("graphs", [True, False])
def test_recording_inside_of_control_flow(name, graphs):
    proto, runs = CONTROL[name]
    executor = make_compiler(proto).compile("cuda", device_graphs=graphs)
    for _ in range(4):
        executor(runs[0])
    inside = [line for line in executor.recording.splitlines() if line.startswith("  ")]
    assert inside
    assert all(line.endswith("recorded" if graphs else "not allowed") for line in inside), inside
    clone = executor.clone()
    clone(runs[0])
    assert ("not allowed" in clone.recording) == (not graphs)


def second_gpu(first):
    """Give another one, if there is one."""
    try:
        return find_device("nvidia", 1)
    except DeviceError:
        return first


def test_what_a_procedure_makes_is_shared_where_it_lies(gpu):
    """Boxes of a detector go on to another library; the next run waits for its work."""
    nodes = [helper.make_node("NonZero", ["x"], ["y"]), helper.make_node("Compress", ["x", "c"], ["z"])]
    inputs = [models.value("x", ["N"]), models.value("c", ["N"], BOOL)]
    proto = models.model(nodes, inputs, [models.value("y", None, I64), models.value("z", None)])
    executor = make_compiler(proto).compile("cuda")
    x = random(300)
    executor({"x": x, "c": x > 0.5})
    places, chosen = executor.get_output_blob("y"), executor.get_output_blob("z")
    assert {places.device.kind, chosen.device.kind} == {"nvidia"}
    executor({"x": -x, "c": x > 0})
    np.testing.assert_array_equal(places.numpy(), np.array(np.nonzero(x)))
    np.testing.assert_array_equal(chosen.numpy(), x[x > 0.5])
    executor.set_input_blob("x", chosen)
    executor.set_input("c", np.zeros(chosen.shape, bool))
    executor.run(stream=1)
    assert executor.get_output("z").shape == (0,)
    executor.dispatch(second_gpu(gpu), "default")
    np.testing.assert_array_equal(executor({"x": x, "c": x > 1})["z"], x[x > 1])


def test_outputs_and_inputs_are_shared_where_they_lie(gpu):
    first = make_compiler(chain("Relu")).compile("cuda")
    second = make_compiler(chain("Exp")).compile("cuda")
    x = random(5)
    first.set_input("x", x)
    first.run()
    blob = first.get_output_blob("y")
    assert (blob.shape, blob.dtype, blob.nbytes, blob.device.kind) == ((5,), "f32", 20, "nvidia")
    np.testing.assert_array_equal(blob.numpy(), np.maximum(x, 0))
    assert blob.__dlpack_device__() == (2, 0)
    for shared in (blob, ByDlpack(blob), ByOldDlpack(blob), ByCudaArray(blob)):
        second.set_input_blob("x", shared)
        second.run()
        models.assert_close(second.get_output("y"), np.exp(np.maximum(x, 0)))
    first({"x": -x})
    np.testing.assert_array_equal(blob.numpy(), np.maximum(x, 0), "a blob that is held is not overwritten")
    on_host = make_compiler(chain("Exp")).compile("cpu")
    models.assert_close(on_host({"x": ByDlpack(blob)})["y"], np.exp(np.maximum(x, 0)))
    models.assert_close(on_host({"x": blob})["y"], np.exp(np.maximum(x, 0)))
    host = on_host.get_output_blob(0)
    assert host.__dlpack_device__() == (1, 0)
    assert not hasattr(host, "__cuda_array_interface__")
    np.testing.assert_array_equal(np.from_dlpack(host), on_host.get_output(0))
    own = np.from_dlpack(host, copy=True)
    own[...] = -1
    np.testing.assert_array_equal(np.from_dlpack(host), on_host.get_output(0))
    with pytest.raises(BufferError, match="no other device"):
        host.__dlpack__(dl_device=(2, 7))


class ByDlpack:
    def __init__(self, blob):
        self.blob, self.streams = blob, []

    def __dlpack_device__(self):
        return self.blob.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        return self.blob.__dlpack__(stream=stream, max_version=max_version)


class ByOldDlpack(ByDlpack):
    def __dlpack__(self, *, stream=None):
        return self.blob.__dlpack__(stream=stream)


class ByCudaArray:
    def __init__(self, blob, **changes):
        self.__cuda_array_interface__ = blob.__cuda_array_interface__ | changes


def test_a_view_that_kernels_cannot_read_is_copied():
    """They read whole vectors: CuPy's x[1:] begins at no multiple of their size."""
    first = make_compiler(chain("Relu")).compile("cuda")
    second = make_compiler(chain("Exp")).compile("cuda")
    x = random(38)
    first({"x": x})
    blob = first.get_output_blob("y")
    address, _ = blob.__cuda_array_interface__["data"]
    second.set_input_blob("x", ByCudaArray(blob, data=(address + 4, False), shape=(37,)))
    second.run()
    models.assert_close(second.get_output("y"), np.exp(np.maximum(x[1:], 0)))


def test_what_cannot_be_shared_is_refused():
    executor = make_compiler(chain("Relu", shape=(2, 3))).compile("cuda")
    executor({"x": random(2, 3)})
    blob = executor.get_output_blob("y")
    with pytest.raises(InvalidInput, match="row-major"):
        executor.set_input_blob("x", ByCudaArray(blob, strides=(4, 8)))
    with pytest.raises(InvalidInput, match=r'"x": expected f32\[2, 3\], got f16\[2, 3\]'):
        executor.set_input_blob("x", ByCudaArray(blob, typestr="<f2"))
    executor.set_input_blob("x", ByCudaArray(blob, strides=(12, 4), stream=1))
    with pytest.raises(InvalidInput, match=r"expected f32\[2, 3\], got f32\[6\]"):
        executor.set_input_blob("x", ByCudaArray(blob, shape=(6,)))


def test_the_callers_stream_orders_the_run():
    executor = make_compiler(chain("Relu", "Exp")).compile("cuda")
    shared = None
    for seed in range(3):
        x = random(6, seed=seed)
        executor.set_input("x", x)
        executor.run(stream=1)
        blob = executor.get_output_blob("y")
        assert blob.__cuda_array_interface__["stream"] == 1
        shared = ByDlpack(blob)
        models.assert_close(executor.get_output("y"), np.exp(np.maximum(x, 0)))
    executor.set_input_blob("x", shared)
    assert shared.streams
    assert shared.streams[0] > 2
    executor = make_compiler(division()).compile("cuda")
    executor.set_input("x", np.array([1])), executor.set_input("z", np.array([0]))
    executor.run(stream=1)
    with pytest.raises(InvalidInput, match="by zero"):
        executor.get_output("y")
    executor.set_input("z", np.array([1]))
    executor.run(stream=1)
    assert executor.get_output("y")[0] == 1


def test_dispatch_between_devices(gpu):
    try:
        other = find_device("nvidia", 1)
    except DeviceError as error:
        pytest.skip(str(error))
    proto = models.mlp()
    x = {port.name: random(*(size if isinstance(size, int) else 3 for size in port.shape)) for port in inputs_of(proto)}
    (wanted,) = models.expected(proto, x)
    executor = make_compiler(proto).compile(["cuda", "cpu"])
    for name, array in x.items():
        executor.set_input(name, array)
    for place in (other, gpu, find_device("cpu"), other):
        executor.dispatch(place, "default")
        executor.run()
        assert executor.device.ordinal == place.ordinal
        assert executor.device.kind == place.kind
        models.assert_close(executor.get_output(0), wanted)
    executor = make_compiler(proto).compile(["cuda:1", "cpu"])
    assert executor.device.ordinal == 1
    models.assert_close(executor(x)[executor.outputs[0].name], wanted)
    source = make_compiler(chain("Relu")).compile("cuda")
    source({"x": x[next(iter(x))].ravel()})
    target = make_compiler(chain("Neg")).compile("cuda")
    target.dispatch(other)
    target.set_input_blob("x", source.get_output_blob("y"))
    target.run()
    np.testing.assert_array_equal(target.get_output("y"), -source.get_output("y"))


def inputs_of(proto):
    return make_compiler(proto).inputs


@pytest.mark.parametrize("sync", [True, False])
def test_bench_takes_times_either_way(sync):
    executor = make_compiler(chain("Relu", "Exp")).compile("cuda", passes=["-all"])
    executor({"x": random(9)})
    rows = executor.bench(sync=sync, repeats=3, quiet=True)
    assert len(rows) == 2
    assert all(row.nanoseconds > 0 for row in rows)


def in_process(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


LIMITED = """
import numpy as np
from onnx import TensorProto, helper
from refactor_graph import OutOfMemory
from refactor_graph.onnx import make_compiler
x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N"]) for n in "xy")
nodes = [helper.make_node("Exp", ["x"], ["y"])]
model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
executor = make_compiler(model).compile("cuda")
small, large = np.ones(1000, np.float32), np.ones(3000000, np.float32)
for _ in range(3):
    assert np.allclose(executor({"x": small})["y"], np.e)
    try:
        executor({"x": large})
    except OutOfMemory as error:
        assert "bytes" in str(error)
    else:
        raise AssertionError("there is not so much memory")
print("usable")
"""


def test_an_executor_survives_that_memory_runs_out(gpu):
    if "emulated" not in gpu.name:
        pytest.skip("only an emulated GPU can be made small")
    done = in_process(LIMITED, REFACTOR_GRAPH_EMULATED_BYTES=str(16 << 20))
    assert done.stdout == "usable\n", done.stderr


def test_steps_are_named_for_profilers(gpu, tmp_path):
    if "emulated" not in gpu.name:
        pytest.skip("needs a profiler")
    done = in_process(
        LIMITED.split("small, large")[0].replace('["y"])]', '["y"], name="first")]')
        + "executor({'x': np.ones(3, np.float32)})",
        REFACTOR_GRAPH_EMULATED_RANGES=str(tmp_path / "ranges"),
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ranges").read_text().splitlines() == ["Elementwise.0(first)"]


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "MatMul"])
@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.BFLOAT16], ids=["f16", "bf16"])
def test_scales_fold_into_halves(op, dtype):
    """Factors and addends of channels become those of weights and bias, rounded once more."""
    generator = models.generator(11)
    kind = helper.tensor_dtype_to_np_dtype(dtype)

    def constant(name, *shape):
        return models.constant(
            name, (generator.uniform(0.5, 1.5, shape) * generator.choice([-1, 1], shape)).astype(kind)
        )

    product, channels = op == "MatMul", (6,) if op == "MatMul" else (6, 1, 1)
    shape = (5, 7) if product else (2, 4, 9, 8)
    weights = {"Conv": (6, 4, 3, 3), "ConvTranspose": (4, 6, 3, 3), "MatMul": (7, 6)}[op]
    # With a stride of 1 it would be a convolution.
    window = {"strides": [2, 2]} if op == "ConvTranspose" else {}
    nodes = [
        helper.make_node(op, ["x", "w"], ["a"], **window),
        helper.make_node("Mul", ["a", "scale"], ["b"]),
        helper.make_node("Add", ["b", "shift"], ["y"]),
    ]
    constants = [constant("w", *weights), constant("scale", *channels), constant("shift", *channels)]
    proto = models.model(nodes, [models.value("x", shape, dtype)], [models.value("y", None, dtype)], constants)
    x = generator.standard_normal(shape).astype(kind)
    executor = make_compiler(proto).compile("cuda")
    y = executor({"x": x})["y"].astype(np.float64)
    # cuDNN's convolutions of halves have the channels last, a vector of them at least.
    assert [row.type for row in executor.bench(quiet=True) if row.type not in ("Transpose", "ChannelVectors")] == [op]
    wide = make_compiler(proto).compile("cpu")({"x": x})["y"].astype(np.float64)
    # Weights, sums and results are rounded once each, sums of 36 terms of up to about 5.
    step = 2.0 ** (-11 if dtype == TensorProto.FLOAT16 else -8)
    assert np.abs(y - wide).max() < 8 * step * np.abs(wide).max()


@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"])
def test_small_floats_inside_of_fused_programs(name):
    """Rounding to 8 bits and back, and elements of 8 bits in memory, are one pass with what surrounds them."""
    small = getattr(TensorProto, name)
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["a"]),
        helper.make_node("Cast", ["a"], ["b"], to=small),
        helper.make_node("Cast", ["b"], ["c"], to=F32),
        helper.make_node("Sub", ["c", "x"], ["d"]),
        helper.make_node("Cast", ["d"], ["y"], to=small),
    ]
    proto = models.model(nodes, [models.value("x", ["N"])], [models.value("y", None, small)], opset=19)
    executor = make_compiler(proto).compile("cuda")
    for count in (1, 37, 4096):
        x = np.exp(random(count, seed=count) * 4) * np.sign(random(count))
        np.testing.assert_array_equal(
            executor({"x": x})["y"].view(np.uint8), make_compiler(proto).compile("cpu")({"x": x})["y"].view(np.uint8)
        )
    assert [row.type for row in executor.bench(quiet=True)] == ["Elementwise"]


@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_sums_do_not_overflow(precision):
    """Sums, squares that only they read, and what is computed of them stay f32: a variance by the mean of squares."""
    random = models.generator(2)
    x = (random.standard_normal((3, 512)) + 300).astype(np.float32)
    w = (random.standard_normal((512, 512)) / 512**0.5).astype(np.float32) * 1e-2 + np.eye(512, dtype=np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("ReduceSum", ["a", "axes"], ["sum"]),
        helper.make_node("Mul", ["sum", "share"], ["mean"]),
        helper.make_node("Mul", ["a", "a"], ["square"]),
        helper.make_node("ReduceSum", ["square", "axes"], ["squares"]),
        helper.make_node("Mul", ["squares", "share"], ["mean_square"]),
        helper.make_node("Mul", ["mean", "mean"], ["square_mean"]),
        helper.make_node("Sub", ["mean_square", "square_mean"], ["variance"]),
        helper.make_node("Sqrt", ["variance"], ["deviation"]),
        helper.make_node("Sub", ["a", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "deviation"], ["y"]),
    ]
    constants = [
        models.constant("w", w),
        models.constant("axes", np.array([1])),
        models.constant("share", np.float32(1 / 512)),
    ]
    proto = models.model(nodes, [models.value("x", x.shape)], [models.value("y", None)], constants)
    wanted = make_compiler(proto).compile()({"x": x})["y"]
    executor = make_compiler(proto).compile("cuda", precision=precision)
    actual = executor({"x": x})["y"]
    assert f"matmul:nvidia:few_rows:{precision}" in executor.dbg(quiet=True)
    # What a has in front of its sums is rounded once: steps of 1/4, or 2, at 300.
    step = 0.25 if precision == "f16" else 2
    assert np.abs(actual - wanted).max() <= step * (1 + np.abs(wanted).max()) / 2
