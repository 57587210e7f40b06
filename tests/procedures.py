"""Graphs that no single plan can hold, and their comparison with a reference."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from refactor_graph.onnx import make_compiler

F32, I64, BOOL, TEXT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
value = helper.make_tensor_value_info
node = helper.make_node


def make(nodes, inputs, outputs, opset=18, initializers=()):
    """Return a model of one graph."""
    graph = helper.make_graph(nodes, "procedures", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def constant(name, array):
    """Return an initializer."""
    return onnx.numpy_helper.from_array(np.asarray(array), name)


def same(ours, theirs):
    """Assert that two values are the same, numbers within rounding."""
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


def compare(proto, *feeds, executor=None, oracle=ReferenceEvaluator, target="cpu"):
    """Assert that each of `feeds` gives what `oracle` computes, and return the executor."""
    executor = executor or make_compiler(proto).compile(target)
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


def sequence(name, kind=F32):
    """Declare a sequence of tensors."""
    return helper.make_tensor_sequence_value_info(name, kind, None)
