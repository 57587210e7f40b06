"""Refusals of the importer: tensors, attributes, operator sets, structure, functions."""

import re

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper
from refactor_graph import Error, InvalidModel, Unsupported
from refactor_graph.onnx import make_compiler

from tests import models, single

WEIGHTS = np.arange(40, dtype=np.float32).reshape(5, 8)


def refuse(proto, pattern, kind=InvalidModel):
    with pytest.raises(kind, match=re.compile(pattern, re.S)):
        make_compiler(proto)


# ---------------------------------------------------------------------- tensors
def with_weight(tensor):
    proto = models.mlp()
    del proto.graph.initializer[0]
    tensor.name = "w"
    proto.graph.initializer.append(tensor)
    return proto


def raw(dims, data, dtype=TensorProto.FLOAT):
    tensor = TensorProto(data_type=dtype, raw_data=data)
    tensor.dims.extend(dims)
    return tensor


def typed(field, count, dtype=TensorProto.FLOAT, value=1):
    tensor = TensorProto(data_type=dtype, dims=[5, 8])
    getattr(tensor, field).extend([value] * count)
    return tensor


DATA = WEIGHTS.tobytes()


@pytest.mark.parametrize(
    ("tensor", "pattern"),
    [
        (raw([5, 8], DATA[:-4]), "156 bytes.*160"),
        (raw([5, 8], b""), "0 bytes"),
        (raw([5, 8], DATA + b"1234"), "164 bytes"),
        (raw([-5, -8], DATA), "negative size -5"),
        (raw([2**40, 2**30], DATA), "too large"),
        (raw([2**32, 2**32], b""), "too large"),
        (raw([2**63 - 1, 2], DATA), "too large"),
        (raw([1] * 100 + [5, 8], DATA), "102 dimensions"),
        (raw([5, 8], DATA, 0), "data_type 0"),
        (raw([5, 8], DATA, 999), "data_type 999"),
        (raw([5, 8], DATA, -1), "data_type -1"),
        (typed("float_data", 39), "39 entries.*40"),
        (typed("float_data", 41), "41 entries"),
        (typed("int64_data", 40), "float_data.*int64_data"),
        (typed("string_data", 40, value=b"a"), "float_data.*string_data"),
        (typed("int32_data", 40, TensorProto.INT64), "int64_data.*int32_data"),
        (raw([5, 8], bytes(80), TensorProto.STRING), "raw_data"),
        (TensorProto(), "data_type 0"),
    ],
)
def test_bad_tensor(tensor, pattern):
    refuse(with_weight(tensor), f"'w'.*{pattern}")


def test_tensor_in_two_fields():
    tensor = raw([5, 8], DATA)
    tensor.float_data.extend([1.0] * 40)
    refuse(with_weight(tensor), "more than one field")


def test_tensor_with_segment():
    tensor = raw([5, 8], DATA)
    tensor.segment.begin = 0
    refuse(with_weight(tensor), "segment")


@pytest.mark.parametrize(
    "dtype",
    [
        *(TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT8, TensorProto.UINT8),
        *(TensorProto.INT16, TensorProto.UINT16, TensorProto.INT32, TensorProto.UINT32, TensorProto.INT64),
        *(TensorProto.UINT64, TensorProto.BOOL, TensorProto.FLOAT),
    ],
)
@pytest.mark.parametrize("form", ["raw", "typed"])
def test_every_field_of_a_tensor(dtype, form):
    numbers = [0, 1, 3, 100, 1, 0]
    array = np.array(numbers).astype(helper.tensor_dtype_to_np_dtype(dtype))
    data = array.tobytes() if form == "raw" else array.astype(array.dtype if array.dtype.kind != "V" else np.float32)
    tensor = helper.make_tensor("c", dtype, [6], data, raw=form == "raw")
    proto = models.model([helper.make_node("Identity", ["c"], ["y"])], [], [models.value("y", [6], dtype)], [tensor])
    result = make_compiler(proto).compile()({})["y"]
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result.view(np.uint8), array.view(np.uint8))


def sparse(indices, dims=(5, 8), count=None, shape=None):
    proto = models.mlp()
    del proto.graph.initializer[0]
    number = len(indices) if count is None else count
    values = models.constant("w", np.arange(1, number + 1, dtype=np.float32))
    places = models.constant("w_indices", np.array(indices, np.int64).reshape(shape or -1))
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, list(dims)))
    return proto


def test_old_types_of_initializers_are_ignored():
    """What tools that convert a model to halves leave behind."""
    proto = models.mlp()
    proto.graph.value_info.append(models.value("w", [5, 8], TensorProto.FLOAT16))
    array = models.generator().standard_normal((3, 8), np.float32)
    models.assert_close(make_compiler(proto).compile()({"x": array})["y"], models.expected(proto, {"x": array})[0])
    proto.graph.value_info.append(models.value("r", [None, 5], TensorProto.FLOAT16))
    refuse(proto, 'output "r" is declared as f16, but is f32')


@pytest.mark.parametrize("two_dimensional", [False, True])
def test_sparse_initializer(two_dimensional):
    indices = [[0, 1], [2, 3], [4, 7]]
    linear = [row * 8 + column for row, column in indices]
    proto = sparse(indices if two_dimensional else linear, count=3, shape=(3, 2) if two_dimensional else None)
    dense = models.mlp()
    weights = np.zeros(40, np.float32)
    weights[linear] = [1, 2, 3]
    dense.graph.initializer[0].CopyFrom(models.constant("w", weights.reshape(5, 8)))
    array = models.generator().standard_normal((2, 8), np.float32)
    models.assert_close(make_compiler(proto).compile()({"x": array})["y"], models.expected(dense, {"x": array})[0])


@pytest.mark.parametrize(
    ("proto", "pattern"),
    [
        (sparse([1, 5, 999]), "outside"),
        (sparse([-5, 1, 3]), "outside"),
        (sparse([1, 2, 2**60]), "outside"),
        (sparse([5, 5, 1]), "ascending"),
        (sparse([1, 2, 3], count=7), "7 values"),
        (sparse([1, 2, 3], (2**31, 2**31)), "too large|dense form"),
        (sparse([1, 2, 3], (2**20, 2**20)), "dense form"),
        (sparse([1, 2, 3], (-5, 8)), "negative"),
    ],
)
def test_bad_sparse_initializer(proto, pattern):
    refuse(proto, f"'w'.*{pattern}")


# ---------------------------------------------------------------------- attributes
@pytest.mark.parametrize("size", [1, 63, 64, 1000])
def test_long_attributes(size):
    """Lists are handed over element by element or serialized."""
    random = models.generator(size)
    ints = [*random.integers(-(2**63), 2**63 - 1, size - 1).tolist(), -(2**63)]
    floats = [*random.standard_normal(size - 1).astype(np.float32).tolist(), -np.inf]
    texts = ["", *(f"{i} ä" for i in range(size - 1))]
    lists = {"value_ints": ints, "value_floats": floats, "value_strings": texts}
    nodes = [helper.make_node("Constant", [], [name], **{name: values}) for name, values in lists.items()]
    for node in nodes:
        node.attribute[0].doc_string = "a field that is no element"
    proto = models.model(nodes, [], [helper.make_empty_tensor_value_info(name) for name in lists], opset=13)
    outputs = make_compiler(proto).compile("cpu")({})
    assert {name: values.tolist() for name, values in outputs.items()} == lists


def with_attribute(change):
    proto = models.mlp()
    change(proto.graph.node[0])
    return proto


def _set(**values):
    def change(node):
        for name, value in values.items():
            setattr(node.attribute[0], name, value)

    return change


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (_set(type=AttributeProto.FLOAT), "transB.*float.*'i'"),
        (_set(type=0), "transB.*type"),
        (_set(name=""), "no name"),
        (_set(ref_attr_name="outer"), "outside of a function"),
        (lambda node: node.attribute.append(helper.make_attribute("transB", 0)), "transB.*twice"),
        (lambda node: node.attribute.append(helper.make_attribute("bogus", 3)), "bogus"),
        (lambda node: node.attribute[0].CopyFrom(helper.make_attribute("transB", "yes")), "transB"),
        (lambda node: node.attribute[0].CopyFrom(helper.make_attribute("transB", [1, 2])), "transB"),
    ],
)
def test_bad_attribute(change, pattern):
    refuse(with_attribute(change), f"gemm.*{pattern}")


# ---------------------------------------------------------------------- versions
@pytest.mark.parametrize("version", [0, -1, 999, 2**40])
def test_bad_versions(version):
    proto = models.mlp()
    proto.ir_version = version
    refuse(proto, "(?i)ir.?version", Error)
    proto = models.mlp()
    proto.opset_import[0].version = version
    refuse(proto, "opset|operator set", Error)


def test_missing_parts():
    for field, pattern in (("ir_version", "ir.?version"), ("opset_import", "opset|operator set"), ("graph", "graph")):
        proto = models.mlp()
        proto.ClearField(field)
        refuse(proto, f"(?i){pattern}")
    proto = models.mlp()
    del proto.graph.output[:]
    refuse(proto, "output")
    proto = models.mlp()
    proto.opset_import.append(helper.make_opsetid("", 9))
    refuse(proto, "opset|operator set|domain|twice")


# ---------------------------------------------------------------------- structure
def _changed(change):
    proto = models.mlp()
    change(proto.graph)
    return proto


def _assign(node, place, index, name):
    def change(graph):
        getattr(graph.node[node], place)[index] = name

    return change


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (lambda graph: graph.initializer.pop(0), "w"),
        (_assign(0, "input", 0, "nope"), "nope"),
        (lambda graph: setattr(graph.output[0], "name", "nope"), "nope"),
        (_assign(0, "input", 0, "y"), "cycle|gemm"),
        (_assign(1, "input", 0, "r"), "cycle|relu"),
        (_assign(1, "output", 0, "g"), "g"),
        (lambda graph: graph.initializer.append(models.constant("w", WEIGHTS)), "w"),
        (lambda graph: graph.input.append(models.value("x", [2, 8])), "x"),
        (_assign(0, "output", 0, "x"), "x"),
        (lambda graph: graph.node[1].input.append("x"), "relu"),
        (lambda graph: graph.node[1].input.pop(), "relu"),
        (lambda graph: graph.node[1].output.append("more"), "relu"),
        (lambda graph: graph.node[1].output.pop(), "r"),
        (lambda graph: graph.input[0].ClearField("type"), "x.*type"),
        (lambda graph: setattr(graph.input[0].type.tensor_type, "elem_type", 999), "x"),
        (lambda graph: setattr(graph.output[0].type.tensor_type, "elem_type", TensorProto.INT64), "y"),
    ],
)
def test_bad_structure(change, pattern):
    refuse(_changed(change), pattern)


def test_nodes_in_any_order():
    proto = models.mlp()
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in reversed(proto.graph.node)]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    array = models.generator().standard_normal((2, 8), np.float32)
    models.assert_close(
        make_compiler(proto).compile()({"x": array})["y"], models.expected(models.mlp(), {"x": array})[0]
    )


def test_sparse_inputs_are_refused_by_name():
    proto = models.mlp()
    proto.graph.input.append(helper.make_sparse_tensor_value_info("s", TensorProto.FLOAT, [3]))
    refuse(proto, "'s'.*sparse_tensor, which no operator of ONNX takes", Unsupported)


def test_long_chain_is_fast():
    import time

    proto = models.chain(40_000)
    start = time.perf_counter()
    executor = make_compiler(proto).compile()
    assert time.perf_counter() - start < 20
    array = models.generator().standard_normal((2, 3), np.float32)
    wanted = array
    for index in range(40_000):
        wanted = np.maximum(wanted, 0) if index % 2 else -wanted
    np.testing.assert_array_equal(executor({"x": array})["t40000"], wanted)


# ---------------------------------------------------------------------- functions
def function(name, nodes, inputs=("a",), outputs=("b",), **arguments):
    opsets = [helper.make_opsetid("", models.OPSET), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, list(inputs), list(outputs), nodes, opsets, **arguments)


def calling(functions, name="F", **attributes):
    return models.model(
        [helper.make_node(name, ["x"], ["y"], "call", domain="local", **attributes)],
        [models.value("x", [2, 3])],
        [models.value("y", [2, 3])],
        functions=functions,
        domains=["local"],
    )


def test_functions_have_operator_sets_of_their_own():
    """Softmax took all axes behind the given one together before version 13; ReduceSum had its axes as an attribute."""
    nodes = [
        helper.make_node("Softmax", ["a"], ["s"], axis=1),
        helper.make_node("ReduceSum", ["s"], ["b"], axes=[2], keepdims=0),
    ]
    old = helper.make_function("local", "F", ["a"], ["b"], nodes, [helper.make_opsetid("", 11)])
    call = helper.make_node("F", ["x"], ["t"], domain="local")
    proto = models.model(
        [call, helper.make_node("Softmax", ["t"], ["y"], axis=0)],
        [models.value("x", [2, 3, 4])],
        [models.value("y", [2, 3])],
        functions=[old],
        domains=["local"],
    )
    x = models.generator(1).standard_normal((2, 3, 4)).astype(np.float32)
    weights = np.exp(x.reshape(2, 12).astype(np.float64))
    sums = (weights / weights.sum(1, keepdims=True)).reshape(2, 3, 4).sum(2)
    wanted = np.exp(sums) / np.exp(sums).sum(0)
    np.testing.assert_allclose(make_compiler(proto).compile("cpu")({"x": x})["y"], wanted, rtol=1e-5)


@pytest.mark.parametrize("version", [-1, 99])
def test_functions_of_unknown_operator_sets_are_refused(version):
    body = [helper.make_node("Relu", ["a"], ["b"])]
    proto = calling([helper.make_function("local", "F", ["a"], ["b"], body, [helper.make_opsetid("", version)])])
    with pytest.raises((Unsupported, InvalidModel), match="opset"):
        make_compiler(proto)


def test_function_with_attributes_and_nested_call():
    inner = function("G", [helper.make_node("LeakyRelu", ["a"], ["b"])], attributes=["alpha"])
    reference = inner.node[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "alpha", AttributeProto.FLOAT
    call = helper.make_node("G", ["t"], ["b"], domain="local")
    passed = call.attribute.add()
    passed.name, passed.ref_attr_name, passed.type = "alpha", "slope", AttributeProto.FLOAT
    outer = function("F", [helper.make_node("Neg", ["a"], ["t"]), call], attributes=["slope"])
    proto = calling([outer, inner], slope=0.25)
    array = models.generator().standard_normal((2, 3), np.float32)
    wanted = np.where(-array < 0, np.float32(0.25) * -array, -array)
    np.testing.assert_allclose(make_compiler(proto).compile()({"x": array})["y"], wanted, rtol=1e-6)


def test_function_that_hands_its_input_through():
    proto = models.model(
        [helper.make_node("F", ["x"], ["y", "z"], domain="local")],
        [models.value("x", [2, 3])],
        [models.value("y", [2, 3]), models.value("z", [2, 3])],
        functions=[function("F", [helper.make_node("Neg", ["a"], ["b"])], outputs=["b", "a"])],
        domains=["local"],
    )
    array = models.generator().standard_normal((2, 3), np.float32)
    outputs = make_compiler(proto).compile()({"x": array})
    np.testing.assert_array_equal(outputs["y"], -array)
    np.testing.assert_array_equal(outputs["z"], array)


def _relu(name="F", source="a", target="b"):
    return function(name, [helper.make_node("Relu", [source], [target])])


def _call(name, source="a", target="b"):
    return helper.make_node(name, [source], [target], domain="local")


def _bomb():
    functions = [_relu("F0")]
    for level in range(1, 25):
        functions.append(function(f"F{level}", [_call(f"F{level - 1}", "a", "t"), _call(f"F{level - 1}", "t", "b")]))
    return calling(functions, "F24")


def _tower():
    functions = [_relu("F0")]
    functions += [function(f"F{level}", [_call(f"F{level - 1}")]) for level in range(1, 3000)]
    return calling(functions, "F2999")


@pytest.mark.parametrize(
    ("proto", "pattern"),
    [
        (calling([function("F", [_call("F")])]), "call themselves"),
        (calling([function("F", [_call("G")]), function("G", [_call("F")])]), "call themselves"),
        (calling([_relu(source="zz")]), "zz"),
        (calling([_relu(), _relu()]), "twice"),
        (calling([_relu(target="c")]), "never makes"),
        (_bomb(), "expand to"),
        (_tower(), "levels"),
        (models.model([helper.make_node("F", ["x", "x"], ["y"], domain="local")], [models.value("x", [2])],
                      [models.value("y", [2])], functions=[_relu()], domains=["local"]), "takes 1"),
    ],
)  # fmt: skip
def test_bad_function(proto, pattern):
    refuse(proto, pattern)


def test_missing_function():
    refuse(calling([_relu("G")]), "F", Error)


@pytest.mark.parametrize("op", ["MeanVarianceNormalization", "Celu", "Shrink", "Softsign", "ThresholdedRelu", "Selu"])
def test_operators_with_a_function_body(op):
    shape = [2, 3, 4, 5]
    proto = models.model([helper.make_node(op, ["x"], ["y"])], [models.value("x", shape)], [models.value("y", shape)])
    array = models.generator().standard_normal(shape, np.float32)
    models.assert_close(make_compiler(proto).compile()({"x": array})["y"], models.expected(proto, {"x": array})[0])


@pytest.mark.parametrize(
    ("attributes", "inputs", "pattern"),
    [
        ({"bogus": 1}, 2, r"1 problem:.*node 'swiglu' \(SwiGLU\): unknown attribute 'bogus', it has: alpha"),
        ({"alpha": 1}, 2, "attribute 'alpha' is int, expected float"),
        ({"alpha": 1.5}, 1, "SwiGLU.*: 1 inputs, expected 2"),
    ],
)
def test_expanded_operators_know_their_attributes(attributes, inputs, pattern):
    names = ["x", "y"][:inputs]
    single.refuse(pattern, "SwiGLU", dict.fromkeys(names, np.ones((3, 4), np.float32)), opset=28, **attributes)


def test_unknown_attributes_come_with_the_known_ones():
    feeds = {"x": np.ones((3, 4), np.float32)}
    single.refuse('unknown attribute "bogus", it has: axis', "Softmax", feeds, opset=13, bogus=1)
    single.refuse('unknown attribute "bogus", it has none', "Abs", feeds, opset=13, bogus=1)
