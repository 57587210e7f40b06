"""What only models on devices become: several nodes as one."""

import numpy as np
import pytest
from onnx import helper
from refactor_graph.onnx import make_compiler

from tests import models
from tests.conftest import missing_gpu

pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True)
def gpu():
    if missing_gpu():
        pytest.skip(missing_gpu())


@pytest.mark.parametrize("form", ["self", "cross", "gemm"])
@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_projections_of_one_tensor_are_one_product(precision, form):
    """Products that only an attention reads; where they are written as Gemm, their weights are transposed."""
    random = models.generator(len(form))
    heads, depth, queries, features = 2, 8, 9, 24
    width = heads * depth
    cross, gemm = form == "cross", form == "gemm"
    feeds = {"x": random.standard_normal((2, queries, features)).astype(np.float32)}
    if cross:
        feeds["z"] = random.standard_normal((2, 7, features)).astype(np.float32)
    constants = [
        models.constant("heads", np.array([2, -1, heads, depth])),
        models.constant("joined", np.array([0, 0, width])),
        models.constant("rows", np.array([-1, features])),
    ]
    nodes = [helper.make_node("Reshape", ["x", "rows"], ["r"])] if gemm else []
    for name in "qkv":
        sizes = (width, features) if gemm else (features, width)
        weights = random.standard_normal(sizes).astype(np.float32) * features**-0.5
        constants.append(models.constant(f"w{name}", weights))
        constants.append(models.constant(f"b{name}", random.standard_normal(width).astype(np.float32)))
        x = "z" if cross and name != "q" else "x"
        if gemm:
            nodes.append(helper.make_node("Gemm", ["r", f"w{name}", f"b{name}"], [f"{name}1"], transB=1))
        elif name == "k":  # without bias
            nodes.append(helper.make_node("MatMul", [x, f"w{name}"], [f"{name}1"]))
        else:
            nodes.append(helper.make_node("MatMul", [x, f"w{name}"], [f"{name}0"]))
            nodes.append(helper.make_node("Add", [f"{name}0", f"b{name}"], [f"{name}1"]))
        perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes.append(helper.make_node("Reshape", [f"{name}1", "heads"], [f"{name}2"]))
        nodes.append(helper.make_node("Transpose", [f"{name}2"], [name], perm=perm))
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["p"]),
        helper.make_node("Softmax", ["p"], ["w"], axis=-1),
        helper.make_node("MatMul", ["w", "v"], ["a"]),
        helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["t", "joined"], ["y"]),
    ]
    inputs = [models.value(name, array.shape) for name, array in feeds.items()]
    proto = models.model(nodes, inputs, [models.value("y", None)], constants)
    wanted = make_compiler(proto).compile("cpu")(feeds)["y"]
    executor = make_compiler(proto).compile("cuda", precision=precision, verify=True)
    tolerance = 2.0**-18 if precision == "f32" else 2.0**-7
    assert np.abs(executor(feeds)["y"] - wanted).max() <= tolerance * np.abs(wanted).max()
    kinds = [row.type for row in executor.bench(repeats=1, quiet=True)]
    assert kinds.count("MatMul") == (2 if cross else 1)
    assert not {"Split", "Transpose", "Slice"} & set(kinds)
    apart = make_compiler(proto).compile("cuda", passes=["-merge_projections"], precision=precision)
    apart(feeds)
    assert [row.type for row in apart.bench(repeats=1, quiet=True)].count("MatMul") == 3


def test_projections_that_others_read_stay():
    """One is a result of the model, too."""
    random = models.generator(4)
    constants = [models.constant("heads", np.array([0, 0, 2, 8]))]
    nodes = []
    for name in "qkv":
        constants.append(models.constant(f"w{name}", random.standard_normal((12, 16)).astype(np.float32) * 0.3))
        nodes.append(helper.make_node("MatMul", ["x", f"w{name}"], [f"{name}0"]))
        nodes.append(helper.make_node("Reshape", [f"{name}0", "heads"], [f"{name}1"]))
        perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes.append(helper.make_node("Transpose", [f"{name}1"], [name], perm=perm))
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["p"]),
        helper.make_node("Softmax", ["p"], ["w"], axis=-1),
        helper.make_node("MatMul", ["w", "v"], ["y"]),
    ]
    outputs = [models.value("y", None), models.value("k0", None)]
    proto = models.model(nodes, [models.value("x", (2, 5, 12))], outputs, constants)
    feeds = {"x": random.standard_normal((2, 5, 12)).astype(np.float32)}
    wanted = make_compiler(proto).compile("cpu")(feeds)
    executor = make_compiler(proto).compile("cuda", verify=True)
    actual = executor(feeds)
    for name in ("y", "k0"):
        assert np.abs(actual[name] - wanted[name]).max() <= 2.0**-18 * np.abs(wanted[name]).max()
    assert [row.type for row in executor.bench(repeats=1, quiet=True)].count("MatMul") == 2


def cache_model(depth, seen, read):
    """Keys of before ("past") and new ones, joined, which users see or a product reads."""
    random = models.generator(depth)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["n0"]),
        helper.make_node("Reshape", ["n0", "heads"], ["n1"]),
        helper.make_node("Transpose", ["n1"], ["new"], perm=[0, 2, 1, 3]),
        helper.make_node("Concat", ["past", "new"], ["present"], axis=2),
    ]
    if read:
        nodes.append(helper.make_node("MatMul", ["present", "v"], ["y"]))
    constants = [
        models.constant("heads", np.array([0, 0, 3, depth])),
        models.constant("w", random.standard_normal((12, 3 * depth)).astype(np.float32) * 0.3),
        models.constant("v", random.standard_normal((depth, 7)).astype(np.float32) * 0.3),
    ]
    inputs = [models.value("x", ("N", "S", 12)), models.value("past", ("N", 3, "P", depth))]
    outputs = [models.value(name, None) for name, wanted in {"present": seen, "y": read}.items() if wanted]
    return models.model(nodes, inputs, outputs, constants if read else constants[:2])


@pytest.mark.parametrize("precision", ["f16", "bf16"])
@pytest.mark.parametrize("depth", [8, 5])
@pytest.mark.parametrize(("seen", "read"), [(True, True), (True, False), (False, True)])
def test_caches_are_joined_without_casts(precision, depth, seen, read):
    """One kernel reads f32 and halves, and writes what the product reads and what users see."""
    proto = cache_model(depth, seen, read)
    random = models.generator(6)
    executor = make_compiler(proto).compile("cuda", precision=precision, verify=True)
    plain = make_compiler(proto).compile("cpu")
    epsilon = {"f16": 2.0**-11, "bf16": 2.0**-8}[precision]
    for past, new in ((9, 1), (6, 4), (0, 2)):
        feeds = {
            "x": random.standard_normal((2, new, 12)).astype(np.float32),
            "past": random.standard_normal((2, 3, past, depth)).astype(np.float32),
        }
        actual, wanted = executor(feeds), plain(feeds)
        for name, array in wanted.items():
            assert actual[name].dtype == np.float32
            assert np.abs(actual[name] - array).max() <= 6 * epsilon * np.abs(array).max()
        if seen:
            np.testing.assert_array_equal(actual["present"][:, :, :past], feeds["past"])
        table = executor.bench(repeats=1, quiet=True)
        low = precision if read else "f32"
        assert [row.kernel for row in table if row.type == "Concat"] == [f"concat:nvidia:converting:{low}"]
        # Of x in front, and of y behind.
        assert [row.type for row in table].count("Elementwise") == (2 if read else 1)


@pytest.mark.parametrize("precision", ["f16", "bf16"])
@pytest.mark.parametrize("depth", [8, 5])
@pytest.mark.parametrize("perm", [(0, 2, 1, 3), (0, 2, 3, 1)])
@pytest.mark.parametrize("read", [True, False])
def test_keys_are_moved_and_cast_at_once(precision, depth, perm, read):
    """What users see in f32 and a product reads as halves is written by one kernel, if its rows stay whole."""
    random = models.generator(depth)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["n0"]),
        helper.make_node("Reshape", ["n0", "heads"], ["n1"]),
        helper.make_node("Transpose", ["n1"], ["keys"], perm=perm),
    ]
    constants = [
        models.constant("heads", np.array([0, 0, 3, depth])),
        models.constant("w", random.standard_normal((12, 3 * depth)).astype(np.float32) * 0.3),
    ]
    outputs = [models.value("keys", None)]
    if read:
        nodes.append(helper.make_node("MatMul", ["keys", "v"], ["y"]))
        rows = depth if perm[-1] == 3 else 6
        constants.append(models.constant("v", random.standard_normal((rows, 7)).astype(np.float32) * 0.3))
        outputs.append(models.value("y", None))
    proto = models.model(nodes, [models.value("x", ("N", 6, 12))], outputs, constants)
    executor = make_compiler(proto).compile("cuda", precision=precision, verify=True)
    feeds = {"x": random.standard_normal((2, 6, 12)).astype(np.float32)}
    actual, wanted = executor(feeds), make_compiler(proto).compile("cpu")(feeds)
    for name, array in wanted.items():
        assert actual[name].dtype == np.float32
        assert np.abs(actual[name] - array).max() <= 2.0 ** (-9 if precision == "f16" else -6) * np.abs(array).max()
    table = executor.bench(repeats=1, quiet=True)
    whole = perm[-1] == 3
    low = precision if read else "f32"
    moved = f"transpose:nvidia:converting:{low}" if whole else f"transpose:nvidia:nvrtc:{precision}"
    assert [row.kernel for row in table if row.type == "Transpose"] == [moved]
    # Of x in front, of y behind, and of the keys where the transpose does not cast them.
    assert [row.type for row in table].count("Elementwise") == 1 + read + (not whole)


def test_many_pieces_of_several_types():
    """More than one launch takes: f32 and halves by turns."""
    count = 70
    nodes, inputs, feeds = [], [], {}
    random = models.generator(8)
    for i in range(count):
        feeds[f"x{i}"] = random.standard_normal((3, i % 4 + 1)).astype(np.float32)
        inputs.append(models.value(f"x{i}", feeds[f"x{i}"].shape))
        if i % 3 == 0:  # stored as halves
            nodes.append(helper.make_node("Abs", [f"x{i}"], [f"a{i}"]))
    names = [f"a{i}" if i % 3 == 0 else f"x{i}" for i in range(count)]
    nodes.append(helper.make_node("Concat", names, ["y"], axis=1))
    proto = models.model(nodes, inputs, [models.value("y", None)])
    executor = make_compiler(proto).compile("cuda", precision="f16", passes=["-fuse_elementwise"])
    arrays = [feeds[f"x{i}"] for i in range(count)]
    wanted = [np.abs(a).astype(np.float16).astype(np.float32) if i % 3 == 0 else a for i, a in enumerate(arrays)]
    np.testing.assert_array_equal(executor(feeds)["y"], np.concatenate(wanted, 1))
    assert [row.kernel for row in executor.bench(repeats=1, quiet=True)][-1] == "concat:nvidia:converting:f32"


def test_nodes_of_one_pass_stay_in_the_type_of_their_operand():
    """A cast before the normalisation would read as much as that."""
    random = models.generator(9)
    constants = [models.constant(name, random.standard_normal(24).astype(np.float32)) for name in ("s", "b")]
    constants.append(models.constant("w", random.standard_normal((24, 8)).astype(np.float32) * 0.2))
    nodes = [
        helper.make_node("LayerNormalization", ["x", "s", "b"], ["n"]),
        helper.make_node("MatMul", ["n", "w"], ["y"]),
    ]
    proto = models.model(nodes, [models.value("x", ("N", 24))], [models.value("y", None)], constants)
    feeds = {"x": random.standard_normal((5, 24)).astype(np.float32)}
    executor = make_compiler(proto).compile("cuda", precision="f16")
    wanted = make_compiler(proto).compile("cpu")(feeds)["y"]
    assert np.abs(executor(feeds)["y"] - wanted).max() <= 2.0**-8 * np.abs(wanted).max()
    kernels = {row.type: row.kernel for row in executor.bench(repeats=1, quiet=True)}
    assert kernels["LayerNorm"].endswith(":f32")
    assert kernels["MatMul"].endswith(":f16")


def normalised(form, norm, random, features=48):
    """A product, a normalisation, and products that read it: one, three behind a Reshape, or one and a sum."""
    rows = ["rows", features] if form == "open" else [1, 3, features]
    first = random.standard_normal((features, features)).astype(np.float32) * features**-0.5
    constants = [
        models.constant("first", first),
        models.constant("scale", random.standard_normal(features).astype(np.float32)),
    ]
    names = ["h", "scale"]
    if norm == "LayerNormalization":
        constants.append(models.constant("shift", random.standard_normal(features).astype(np.float32)))
        names.append("shift")
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["h"]),
        helper.make_node(norm, names, ["n"], axis=-1, epsilon=1e-3),
    ]
    outputs = ["y"]
    if form == "three":
        constants.append(models.constant("flat", np.array([-1, features])))
        nodes.append(helper.make_node("Reshape", ["n", "flat"], ["r"]))
        outputs = ["y", "y1", "y2"]
    for i, name in enumerate(outputs):
        weights = random.standard_normal((features, 20 + i)).astype(np.float32) * features**-0.5
        constants.append(models.constant(f"w{i}", weights))
        constants.append(models.constant(f"b{i}", random.standard_normal(20 + i).astype(np.float32)))
        rows_read = "r" if form == "three" else "n"
        nodes.append(helper.make_node("MatMul", [rows_read, f"w{i}"], [f"p{i}"]))
        nodes.append(helper.make_node("Add", [f"p{i}", f"b{i}"], [f"s{i}"]))
        nodes.append(helper.make_node("Relu" if i == 0 else "Sigmoid", [f"s{i}"], [name]))
    if form == "summed":
        nodes.append(helper.make_node("Add", ["n", "h"], ["z"]))
        outputs.append("z")
    values = [models.value(name, None) for name in outputs]
    return models.model(nodes, [models.value("x", rows)], values, constants, opset=23)


@pytest.mark.parametrize("precision", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("norm", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("form", ["one", "three", "open", "summed"])
def test_products_of_few_rows_normalise_them(form, norm, precision):
    random = models.generator(len(form))
    proto = normalised(form, norm, random)
    wanted = make_compiler(proto).compile("cpu")
    executor = make_compiler(proto).compile("cuda", precision=precision, verify=True)
    tolerance = {"f32": 2.0**-18, "f16": 2.0**-8, "bf16": 2.0**-5}[precision]
    for rows in [1, 20, 8] if form == "open" else [3]:
        x = random.standard_normal((rows, 48) if form == "open" else (1, 3, 48)).astype(np.float32)
        actual, exact = executor({"x": x}), wanted({"x": x})
        for name in exact:
            assert np.abs(actual[name] - exact[name]).max() <= tolerance * np.abs(exact[name]).max()
        table = executor.bench(repeats=1, quiet=True)
        fused = [row.kernel for row in table if row.type == "NormalizedMatMul"]
        algorithm = "in_steps" if rows > 8 else "few_rows"
        assert len(fused) == {"three": 3, "summed": 0}.get(form, 1)
        assert all(f":{algorithm}:" in kernel for kernel in fused)
        assert sum(row.type == "LayerNorm" for row in table) == (form == "summed")
    assert "fuse_prologues" in executor.dbg(quiet=True)


def test_products_of_many_rows_leave_normalisation_alone():
    random = models.generator(3)
    proto = normalised("one", "LayerNormalization", random)
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 9
    executor = make_compiler(proto).compile("cuda", precision="f16")
    executor({"x": random.standard_normal((1, 9, 48)).astype(np.float32)})
    assert "NormalizedMatMul" not in [row.type for row in executor.bench(repeats=1, quiet=True)]


def test_a_tensor_that_is_read_is_normalised_in_its_own_step():
    random = models.generator(4)
    proto = normalised("one", "LayerNormalization", random)
    executor = make_compiler(proto).compile("cuda", keep=["n"])
    executor({"x": random.standard_normal((1, 3, 48)).astype(np.float32)})
    assert "LayerNorm" in [row.type for row in executor.bench(repeats=1, quiet=True)]
