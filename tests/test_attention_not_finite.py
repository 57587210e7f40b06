"""Attentions with numbers that are not finite, on every kind of device: what is hidden does not reach results."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph.onnx import make_compiler

from tests import models

TOLERANCE = 2e-5  # scores of 8 products of size 1, means of up to 300 values of size 1


def softmax(scores):
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        return weights / np.sum(weights, axis=-1, keepdims=True)


def written_out(hidden=None, guarded=False):
    """Softmax of scores, of which `where(m, hidden, score)` is left, and its product with values."""
    nodes = [
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "t"], ["s0"]),
    ]
    constants = []
    if hidden is not None:
        constants.append(models.constant("hidden", np.float32(hidden)))
        nodes.append(helper.make_node("Where", ["m", "hidden", "s0"], ["s"]))
    nodes.append(helper.make_node("Softmax", ["s0" if hidden is None else "s"], ["p"], axis=-1))
    if guarded:
        constants.append(models.constant("zero", np.float32(0)))
        nodes.append(helper.make_node("IsNaN", ["p"], ["n"]))
        nodes.append(helper.make_node("Where", ["n", "zero", "p"], ["g"]))
    nodes.append(helper.make_node("MatMul", ["g" if guarded else "p", "v"], ["y"]))
    inputs = [models.value(name, ["B", "H", "S" if name == "q" else "T", 8]) for name in ("q", "k", "v")]
    if hidden is not None:
        inputs.append(models.value("m", ["S", "T"], TensorProto.BOOL))
    return models.model(nodes, inputs, [models.value("y", None)], constants, 18)


def operands(random, queries, keys):
    sizes = {"q": queries, "k": keys, "v": keys}
    return {name: random.standard_normal((1, 2, size, 8)).astype(np.float32) for name, size in sizes.items()}


def attend(proto, feeds, target):
    executor = make_compiler(proto).compile(target)
    y = executor(feeds)["y"]
    assert f"attention:{'cpu' if target == 'cpu' else 'nvidia'}:" in executor.dbg(quiet=True)
    return y


@pytest.mark.parametrize(("queries", "keys"), [(1, 30), (5, 40), (70, 300)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_nan_become_zeros(target, queries, keys, bad):
    feeds = operands(models.generator(1), queries, keys)
    feeds["q"][0, 1, queries // 2, 3] = bad
    for guarded in (False, True):
        y = attend(written_out(guarded=guarded), feeds, target)
        weights = softmax(feeds["q"] @ feeds["k"].transpose(0, 1, 3, 2))
        wanted = (np.nan_to_num(weights, nan=0.0) if guarded else weights) @ feeds["v"]
        np.testing.assert_allclose(y, wanted, TOLERANCE, TOLERANCE)
        assert np.isnan(y).sum() == (0 if guarded else 8)


@pytest.mark.parametrize(("queries", "keys"), [(1, 30), (5, 40), (70, 300)])
@pytest.mark.parametrize("hidden", [-np.inf, np.finfo(np.float32).min])
def test_scores_that_where_hides(target, queries, keys, hidden):
    feeds = operands(models.generator(2), queries, keys)
    feeds["m"] = np.triu(np.ones((queries, keys), bool), keys - queries + 1)
    feeds["m"][:, 4::9] = True
    feeds["k"][:, :, 4] = np.nan
    feeds["k"][:, :, 13, 0] = np.inf
    y = attend(written_out(hidden), feeds, target)
    with np.errstate(invalid="ignore"):
        scores = np.where(feeds["m"], np.float32(hidden), feeds["q"] @ feeds["k"].transpose(0, 1, 3, 2))
    np.testing.assert_allclose(y, softmax(scores) @ feeds["v"], TOLERANCE, TOLERANCE)
    assert np.isfinite(y).all()


@pytest.mark.parametrize("mask", [None, "bool", "float"])
@pytest.mark.parametrize(("queries", "keys"), [(1, 30), (5, 40), (70, 300)])
def test_what_lies_behind_the_lengths_does_not_count(target, mask, queries, keys):
    lengths = np.array([keys - 3, queries + 2], np.int64)
    random = models.generator(3)
    arrays = [random.standard_normal((2, 2, rows, 8)).astype(np.float32) for rows in (queries, keys, keys)]
    names = ["q", "k", "v", "m", "", "", "lengths"]
    inputs = [models.value(name, array.shape) for name, array in zip("qkv", arrays, strict=True)]
    feeds = dict(zip("qkv", arrays, strict=True))
    if mask:
        feeds["m"] = np.ones((queries, keys), bool) if mask == "bool" else np.zeros((queries, keys), np.float32)
        inputs.append(models.value("m", ["S", "T"], TensorProto.BOOL if mask == "bool" else TensorProto.FLOAT))
    else:
        names[3] = ""
    feeds["lengths"] = lengths
    inputs.append(models.value("lengths", [2], TensorProto.INT64))
    node = helper.make_node("Attention", names, ["y"], is_causal=1)
    proto = models.model([node], inputs, [models.value("y", None)], opset=24)
    wanted = attend(proto, feeds, target)
    assert np.isfinite(wanted).all()
    dirty = {name: array.copy() for name, array in feeds.items()}
    for sample, length in enumerate(lengths):
        dirty["k"][sample, :, length:] = np.nan
        dirty["v"][sample, :, length:] = np.inf
    np.testing.assert_allclose(attend(proto, dirty, target), wanted, TOLERANCE, TOLERANCE)
    # What the last query alone sees reaches no other.
    dirty["v"][0, 0, lengths[0] - 1] = np.nan
    y = attend(proto, dirty, target)
    assert np.isnan(y[0, 0, -1]).all()
    assert np.isnan(y).sum() == 8


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_scores_that_are_wanted_change_nothing(target, mode):
    feeds = operands(models.generator(4), 4, 6)
    feeds["q"][0, 0, 2, 3] = np.nan
    feeds["m"] = np.zeros((4, 6), np.float32)
    feeds["m"][1], feeds["m"][3, 2] = -np.inf, -np.inf
    inputs = [models.value(name, array.shape) for name, array in feeds.items()]
    node = helper.make_node("Attention", list(feeds), ["y", "", "", "scores"], qk_matmul_output_mode=mode)
    proto = models.model([node], inputs, [models.value("y", None), models.value("scores", None)], opset=23)
    outputs = make_compiler(proto).compile(target)(feeds)
    products = feeds["q"] @ feeds["k"].transpose(0, 1, 3, 2) / np.float32(np.sqrt(8))
    weights = softmax(products + feeds["m"])
    weights[:, :, 1] = 0  # all keys are hidden
    np.testing.assert_allclose(outputs["y"], weights @ feeds["v"], TOLERANCE, TOLERANCE)
    assert np.isnan(outputs["y"]).sum() == 8
    wanted = [products, products, products + feeds["m"], weights][mode]
    np.testing.assert_allclose(outputs["scores"], wanted, TOLERANCE, TOLERANCE)
