"""Attention of decoders, whose keys and values are caches with new ones behind them."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph import InvalidInput, load
from refactor_graph.onnx import make_compiler

from tests import models
from tests.conftest import missing_gpu

pytestmark = pytest.mark.cuda

EPSILON = {"f32": 2.0**-22, "f16": 2.0**-11, "bf16": 2.0**-8}


@pytest.fixture(autouse=True)
def gpu():
    if missing_gpu():
        pytest.skip(missing_gpu())


def layer(number, x, heads, kv_heads, depth, random, keys="present_k", values="present_v"):
    """Nodes and constants of one attention of `x`, which joins its own caches unless it reads another's."""
    width = x_width = heads * depth
    kv_width = kv_heads * depth
    name = f"{number}_".__add__
    constants = [
        models.constant(name("heads"), np.array([0, 0, heads, depth])),
        models.constant(name("kv_heads"), np.array([0, 0, kv_heads, depth])),
        models.constant(name("joined"), np.array([0, 0, width])),
        models.constant(name("cuts"), np.array([width, kv_width, kv_width])),
        models.constant(name("wo"), random.standard_normal((width, width)).astype(np.float32) * width**-0.5),
        models.constant(
            name("w"), random.standard_normal((x_width, width + 2 * kv_width)).astype(np.float32) * x_width**-0.5
        ),
    ]
    nodes = [
        helper.make_node("MatMul", [x, name("w")], [name("qkv")]),
        helper.make_node("Split", [name("qkv"), name("cuts")], [name("q0"), name("k0"), name("v0")], axis=-1),
        helper.make_node("Reshape", [name("q0"), name("heads")], [name("q1")]),
        helper.make_node("Transpose", [name("q1")], [name("q")], perm=[0, 2, 1, 3]),
    ]
    if keys == "present_k":
        keys, values = name(keys), name(values)
        for part, present in (("k", keys), ("v", values)):
            nodes += [
                helper.make_node("Reshape", [name(f"{part}0"), name("kv_heads")], [name(f"{part}1")]),
                helper.make_node("Transpose", [name(f"{part}1")], [name(part)], perm=[0, 2, 1, 3]),
                helper.make_node("Concat", [name(f"past_{part}"), name(part)], [present], axis=2),
            ]
    nodes += [
        helper.make_node("Attention", [name("q"), keys, values], [name("a")], name=name("attention"), is_causal=1),
        helper.make_node("Transpose", [name("a")], [name("t")], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", [name("t"), name("joined")], [name("j")]),
        helper.make_node("MatMul", [name("j"), name("wo")], [name("y")]),
    ]
    return nodes, constants


def decoder(heads=4, kv_heads=2, depth=16, layers=2, batch="N"):
    """Layers with caches of their own, all of which are results."""
    random = models.generator(heads)
    nodes, constants, x = [], [], "x"
    inputs, outputs = [models.value("x", ("N", "S", heads * depth))], []
    for number in range(layers):
        more, fixed = layer(number, x, heads, kv_heads, depth, random)
        nodes, constants, x = nodes + more, constants + fixed, f"{number}_y"
        for part in "kv":
            inputs.append(models.value(f"{number}_past_{part}", (batch, kv_heads, "P", depth)))
            outputs.append(models.value(f"{number}_present_{part}", None))
    return models.model(nodes, inputs, [models.value(x, None), *outputs], constants, opset=23)


def feeds_of(proto, sizes, random, kind=np.float32):
    feeds = {}
    for each in proto.graph.input:
        shape = [dim.dim_value or sizes[dim.dim_param] for dim in each.type.tensor_type.shape.dim]
        feeds[each.name] = random.standard_normal(shape).astype(kind)
    return feeds


def kernels(executor):
    return [row.kernel.split(":")[2] for row in executor.bench(repeats=1, quiet=True) if "Attention" in row.type]


def count(executor, kind):
    return [row.type for row in executor.bench(repeats=1, quiet=True)].count(kind)


@pytest.mark.parametrize("precision", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("depth", [16, 5])
def test_a_step_joins_its_caches_and_attends_in_one_launch(precision, depth):
    """Prompts, whose queries are many, join first."""
    proto = decoder(depth=depth)
    plain, executor = (
        make_compiler(proto).compile(device, precision=wanted, verify=True)
        for device, wanted in (("cpu", "f32"), ("cuda", precision))
    )
    random = models.generator(depth)
    cases = ((1, 40, "one_launch"), (17, 40, "composed"), (1, 300, "one_launch"), (17, 0, "composed"))
    for queries, past, algorithm in (*cases, (3, 0, "one_launch")):
        feeds = feeds_of(proto, {"N": 2, "S": queries, "P": past}, random)
        actual, wanted = executor(feeds), plain(feeds)
        for name, array in wanted.items():
            assert actual[name].dtype == np.float32
            assert np.abs(actual[name] - array).max() <= 24 * EPSILON[precision] * np.abs(array).max(), name
        for name in feeds.keys() - {"x"}:
            np.testing.assert_array_equal(actual[name.replace("past", "present")][:, :, :past], feeds[name])
        assert kernels(executor) == [algorithm] * 2
        assert count(executor, "Concat") == 0


def test_what_one_launch_saves():
    """Of an attention and two concatenations."""
    proto = decoder()
    feeds = feeds_of(proto, {"N": 1, "S": 1, "P": 9}, models.generator(3))
    for precision in ("f32", "f16"):
        joined = make_compiler(proto).compile("cuda", precision=precision)
        apart = make_compiler(proto).compile("cuda", precision=precision, passes=["-join_caches"])
        joined(feeds), apart(feeds)
        lengths = [len(executor.bench(repeats=1, quiet=True)) for executor in (apart, joined)]
        assert lengths[0] - lengths[1] == 4
        assert count(joined, "CachedAttention") == 2


def test_long_prompts_are_not_joined():
    """Their number of queries is known to be large."""
    proto = decoder()
    for each in proto.graph.input:
        for dim in each.type.tensor_type.shape.dim:
            if dim.dim_param == "S":
                dim.dim_value = 9
    feeds = feeds_of(proto, {"N": 1, "P": 9}, models.generator(4))
    executor = make_compiler(proto).compile("cuda")
    executor(feeds)
    assert count(executor, "CachedAttention") == 0
    assert count(executor, "Attention") == 2


def test_attention_with_a_mask_in_a_model_of_halves():
    """ONNX's operator with caches of its own; the first row of the mask hides every key."""
    kind = ml_dtypes.bfloat16
    names = ["q", "k", "v", "mask", "past_k", "past_v"]
    node = helper.make_node("Attention", names, ["y", "present_k", "present_v"], name="attend", scale=0.5)
    shapes = {"q": (2, 4, 2, 16), "k": (2, 2, 2, 16), "v": (2, 2, 2, 16), "mask": (2, 1, 2, 11)}
    shapes |= {"past_k": (2, 2, 9, 16), "past_v": (2, 2, 9, 16)}
    inputs = [models.value(name, shape, TensorProto.BFLOAT16) for name, shape in shapes.items()]
    outputs = [models.value(name, None, TensorProto.BFLOAT16) for name in node.output]
    proto = models.model([node], inputs, outputs, opset=23)
    random = models.generator(5)
    feeds = {name: random.standard_normal(shape).astype(kind) for name, shape in shapes.items()}
    feeds["mask"][:, :, :, 3:5] = -np.inf
    executor = make_compiler(proto).compile("cuda", verify=True)
    actual, wanted = executor(feeds), make_compiler(proto).compile("cpu")(feeds)
    for name in wanted:
        assert actual[name].dtype == kind
        difference = np.abs(actual[name].astype(np.float32) - wanted[name].astype(np.float32))
        assert difference.max() <= 2.0**-6, name
    assert kernels(executor) == ["one_launch"]


@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_a_cache_that_two_layers_read(precision):
    """The second layer's queries come of what the first has read: that one joins, if one type does for both."""
    random = models.generator(6)
    first, constants = layer(0, "x", 4, 2, 8, random)
    second, more = layer(1, "0_y", 4, 2, 8, random, "0_present_k", "0_present_v")
    inputs = [models.value("x", (1, "S", 32))]
    inputs += [models.value(f"0_past_{part}", (1, 2, "P", 8)) for part in "kv"]
    outputs = [models.value(name, None) for name in ("1_y", "0_present_k", "0_present_v")]
    proto = models.model([*first, *second], inputs, outputs, constants + more, opset=23)
    executor = make_compiler(proto).compile("cuda", precision=precision, verify=True)
    feeds = feeds_of(proto, {"S": 1, "P": 6}, random)
    actual, wanted = executor(feeds), make_compiler(proto).compile("cpu")(feeds)
    for name, array in wanted.items():
        assert np.abs(actual[name] - array).max() <= 24 * EPSILON[precision] * np.abs(array).max()
    assert count(executor, "CachedAttention") == (1 if precision == "f32" else 0)


def test_caches_that_do_not_fit_are_refused():
    """Of another batch, of other heads; keys and values of different lengths."""
    executor = make_compiler(decoder(layers=1, batch="M")).compile("cuda")
    sizes = {"N": 2, "M": 2, "S": 1, "P": 4}
    random = models.generator(7)
    proto = decoder(layers=1, batch="M")
    with pytest.raises(InvalidInput, match="0_"):
        executor(feeds_of(proto, sizes | {"M": 1}, random))
    feeds = feeds_of(proto, sizes, random)
    for name, array in (("0_past_k", feeds["0_past_k"][:, :1]), ("0_past_v", feeds["0_past_v"][:, :, :3])):
        with pytest.raises(InvalidInput, match=name):
            executor(feeds | {name: array})
    executor(feeds)
    assert kernels(executor) == ["one_launch"]


def test_a_saved_plan_has_joined_caches(tmp_path):
    proto = decoder()
    executor = make_compiler(proto).compile("cuda", precision="f16")
    feeds = feeds_of(proto, {"N": 1, "S": 1, "P": 9}, models.generator(8))
    wanted = executor(feeds)
    executor.save(tmp_path / "decoder.rg")
    loaded = load(tmp_path / "decoder.rg")
    actual = loaded(feeds)
    for name, array in wanted.items():
        np.testing.assert_array_equal(actual[name], array)
    assert kernels(loaded) == ["one_launch"] * 2
