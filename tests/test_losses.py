"""Losses, optimizer steps, cumulative products and Einsum against onnx.reference, onnxruntime and numpy."""

import ml_dtypes
import numpy as np
import pytest
from onnx import helper
from refactor_graph import InvalidInput, InvalidModel
from refactor_graph.onnx import make_compiler

from tests import models
from tests.single import assert_close, check, model, positional, reference, run

LOSSES = ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]


# ---------------------------------------------------------------------- losses
@pytest.mark.parametrize("op", LOSSES)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", [(5, 7), (3, 5, 2), (2, 3, 4, 5)])
def test_losses(op, reduction, shape):
    random = models.generator(len(shape))
    for weighted in (False, True):
        for ignore in (None, 2, -1, 100):
            for index in (np.int32, np.int64):
                labels = random.integers(0, shape[1], shape[:1] + shape[2:], index)
                if ignore is not None and ignore != 2:
                    labels.flat[1] = ignore
                arrays = [random.standard_normal(shape, np.float32), labels]
                if weighted:
                    arrays.append(random.uniform(0.2, 2, shape[1]).astype(np.float32))
                extra = {} if ignore is None else {"ignore_index": ignore}
                outputs = 2 if op.startswith("Softmax") else 1
                proto, feeds = positional(op, arrays, opset=13, outputs=outputs, reduction=reduction, **extra)
                for ours, theirs in zip(run(proto, feeds), models.expected(proto, feeds), strict=True):
                    assert_close(ours, theirs, 2e-6, 2e-6)


@pytest.mark.parametrize("op", LOSSES)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_losses_of_other_floats(op, dtype):
    """Every instruction rounds to the type: a handful of roundings of values up to 8."""
    random = models.generator(5)
    x, labels = random.standard_normal((9, 6)), random.integers(0, 6, 9)
    weights = random.uniform(0.5, 1.5, 6)
    arrays = [x.astype(dtype), labels, weights.astype(dtype)]
    (actual,) = run(*positional(op, arrays, opset=22 if op.startswith("Neg") else 13, ignore_index=1))
    wide = [arrays[0].astype(np.float64), labels, arrays[2].astype(np.float64)]
    (wanted,) = run(*positional(op, wide, opset=13, ignore_index=1))
    assert actual.dtype == dtype
    epsilon = {np.float16: 2.0**-11, np.float64: 1e-15}.get(dtype, 2.0**-8)
    np.testing.assert_allclose(actual.astype(np.float64), wanted, rtol=0, atol=epsilon * 32)


def test_ignored_infinity_counts_nothing():
    with np.errstate(divide="ignore"):
        x = np.log(np.array([[0.25, 0.75], [0.0, 1.0]], np.float32))
    proto, feeds = positional(LOSSES[0], [x, np.array([1, 0])], opset=13, ignore_index=0)
    np.testing.assert_allclose(run(proto, feeds)[0], -np.log(0.75), rtol=1e-6)


@pytest.mark.parametrize(
    ("arrays", "attributes", "pattern"),
    [
        ([np.zeros((2, 3), np.float32), np.zeros(3, np.int64)], {}, "size 0 of the labels is 3, expected 2"),
        ([np.zeros((2, 3), np.float32), np.zeros((2, 1), np.int64)], {}, "axes"),
        ([np.zeros((2, 3), np.float32), np.zeros(2, np.int64), np.ones(2, np.float32)], {}, "number of weights is 2"),
        ([np.zeros((2, 3), np.float32), np.zeros(2, np.int64)], {"reduction": "max"}, "reduction is"),
        ([np.zeros((2, 3), np.float32), np.zeros(2, np.float32)], {}, "is f32"),
    ],
)
@pytest.mark.parametrize("op", LOSSES)
def test_refused_losses(op, arrays, attributes, pattern):
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(positional(op, arrays, opset=13, **attributes)[0])


@pytest.mark.parametrize("op", LOSSES)
def test_a_label_that_is_no_class(op):
    proto, feeds = positional(op, [np.zeros((2, 3), np.float32), np.array([0, 3])], opset=13)
    with pytest.raises(InvalidInput, match="3"):
        run(proto, feeds)


# ---------------------------------------------------------------------- optimizers
@pytest.mark.parametrize("tensors", [1, 3])
@pytest.mark.parametrize("count", [0, 5])
@pytest.mark.parametrize(
    ("op", "states", "attributes"),
    [
        ("Adagrad", 1, {"norm_coefficient": 0.1, "decay_factor": 0.2, "epsilon": 1e-4}),
        ("Adam", 2, {"norm_coefficient": 0.1, "norm_coefficient_post": 0.05, "alpha": 0.8, "beta": 0.95}),
        ("Momentum", 1, {"norm_coefficient": 0.1, "alpha": 0.9, "beta": 0.3, "mode": "standard"}),
        ("Momentum", 1, {"norm_coefficient": 0.1, "alpha": 0.9, "beta": 0.3, "mode": "nesterov"}),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_optimizers(op, states, attributes, tensors, count, dtype):
    random = models.generator(count)
    shapes = [(3,), (2, 5), ()][:tensors]
    arrays = [np.array(0.1, dtype), np.array(count, np.int64)]
    for group in range(2 + states):
        arrays += [
            np.array(np.abs(x) if group > 1 else x) for x in (random.standard_normal(s).astype(dtype) for s in shapes)
        ]
    options = {"opset": 17, "outputs": tensors * (1 + states), "domain": "ai.onnx.preview.training"}
    proto, feeds = positional(op, arrays, **options, **attributes)
    if op == "Momentum" and tensors > 1:
        # onnx.reference pairs the outputs of several tensors in another order than the specification.
        wanted = []
        for i in range(tensors):
            part = arrays[:2] + arrays[2 + i :: tensors]
            wanted.append(reference(*positional(op, part, **(options | {"outputs": 2}), **attributes)))
        wanted = [pair[k] for k in range(2) for pair in wanted]
    else:
        wanted = reference(proto, feeds)
    for ours, theirs in zip(run(proto, feeds), wanted, strict=True):
        # onnx.reference takes 1 - attribute in f32 whatever the tensors are.
        epsilon = np.finfo(np.float32).eps
        assert_close(ours, np.asarray(theirs, dtype), 16 * epsilon, 16 * epsilon)


@pytest.mark.parametrize(
    ("arrays", "outputs", "pattern"),
    [
        ([np.float32(1), np.int64(0), *[np.zeros(2, np.float32)] * 4], 2, "4 tensors, expected a multiple of 3"),
        ([np.float32(1), np.int64(0), *[np.zeros(2, np.float32)] * 3], 1, "1 outputs, expected 2"),
        ([np.ones(2, np.float32), np.int64(0), *[np.zeros(2, np.float32)] * 3], 2, "expected a scalar"),
        (
            [np.float32(1), np.int64(0), *[np.zeros(2, np.float32)] * 2, np.zeros(3, np.float32)],
            2,
            "size 0 of input 4 is 3",
        ),
    ],
)
def test_refused_optimizers(arrays, outputs, pattern):
    proto, _ = positional("Adagrad", arrays, opset=17, outputs=outputs, domain="ai.onnx.preview.training")
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(proto)


# ---------------------------------------------------------------------- cumulative products
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.int64, np.uint32]
)
@pytest.mark.parametrize("op", ["CumProd", "CumSum"])
def test_cumulative(op, dtype):
    random = models.generator(3)
    x = random.uniform(-1.5, 1.5, (3, 5, 4)) if np.dtype(dtype).kind not in "iu" else random.integers(0, 9, (3, 5, 4))
    x = x.astype(dtype)
    for axis in (-1, 0, 1):
        for exclusive in (0, 1):
            for reverse in (0, 1):
                feeds = {"x": x, "axis": np.int64(axis)}
                options = {"opset": 26, "constants": ["axis"], "exclusive": exclusive, "reverse": reverse}
                wide = x.astype(np.float64) if x.dtype.kind not in "iu" else x
                wide = np.flip(wide, axis) if reverse else wide
                if exclusive:
                    start = np.full_like(np.take(wide, [0], axis), op == "CumProd")
                    wide = np.concatenate([start, np.delete(wide, -1, axis)], axis)
                wanted = (np.cumprod if op == "CumProd" else np.cumsum)(wide, axis, dtype=wide.dtype)
                wanted = (np.flip(wanted, axis) if reverse else wanted).astype(dtype)
                check(op, feeds, oracle=[wanted], steps=2, **options)


# ---------------------------------------------------------------------- Einsum
EQUATIONS = [
    ("ij,jk->ik", [(3, 5), (5, 2)]),
    ("ij,ij->ij", [(3, 5), (3, 5)]),
    ("i,j->ij", [(3,), (5,)]),
    ("bij,bjk->bik", [(2, 3, 5), (2, 5, 4)]),
    ("ii->i", [(4, 4)]),
    ("ii", [(4, 4)]),
    ("iij->j", [(3, 3, 5)]),
    ("ijij->ij", [(3, 4, 3, 4)]),
    ("iii->i", [(3, 3, 3)]),
    ("...ii->...i", [(2, 5, 4, 4)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 5), (7, 5, 4)]),
    ("i...,i->...", [(3, 4, 5), (3,)]),
    ("...,...->...", [(3, 1), (2, 1, 5)]),
    ("...a->a...", [(2, 3, 4)]),
    ("...ab,b...->a...", [(2, 3, 4), (4, 2)]),
    ("ab...,...", [(2, 3, 4), (4,)]),
    ("ij->ji", [(3, 5)]),
    ("ij->", [(3, 5)]),
    (" b A , A c -> c b ", [(2, 3), (3, 4)]),
    ("bA,Ac", [(2, 3), (3, 4)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("ii,i->i", [(3, 3), (3,)]),
    (",->", [(), ()]),
    ("->", [()]),
    (",ij->ij", [(), (2, 3)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
@pytest.mark.parametrize("symbolic", [False, True])
def test_einsum(equation, shapes, symbolic):
    random = models.generator(len(equation))
    arrays = [np.asarray(random.standard_normal(s), np.float32) for s in shapes]
    proto, feeds = positional("Einsum", arrays, opset=12, symbolic=symbolic, equation=equation)
    text = equation.replace(" ", "") if equation != "ab...,..." else "ab...,...->...ab"
    wanted = np.einsum(text, *arrays, dtype=np.float64)
    assert_close(run(proto, feeds)[0], np.asarray(wanted, np.float32), 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64, np.float16, ml_dtypes.bfloat16])
def test_einsum_types(dtype):
    random = models.generator(1)
    arrays = [random.integers(-4, 5, s).astype(dtype) for s in ((2, 3, 3), (2, 3, 4))]
    for equation, used in (("bii->bi", 1), ("bij,bjk->bik", 2), ("bii,bik->bk", 2)):
        (y,) = run(*positional("Einsum", arrays[:used], opset=28, equation=equation))
        wanted = np.einsum(equation, *(a.astype(np.int64) for a in arrays[:used]))
        assert y.dtype == dtype
        np.testing.assert_array_equal(y.astype(np.int64), wanted)


@pytest.mark.parametrize(
    ("equation", "shapes", "pattern"),
    [
        ("ij,jk->ik", [(2, 3), (4, 5)], "size of 'j' is 4, expected 3"),
        ("ij->ijk", [(2, 3)], "names 'k', which no input has"),
        ("ij->ii", [(2, 3)], "names 'i' twice"),
        ("ii->i", [(2, 3)], "size of 'i' is 3, expected 2"),
        ("ij", [(2,)], "has 1 axes, the equation names 2"),
        ("ij,jk->ik", [(2, 3)], "2 operands, the node 1"),
        ("i1->i", [(2, 3)], "the character '1'"),
        ("..i->i", [(2, 3)], "at most one"),
        ("...i...->i", [(2, 3)], "at most one"),
        ("...i->i", [(2, 3)], 'no "..." for the 1 axes'),
        ("...i,...i->...i", [(2, 3), (4, 3)], "do not broadcast"),
    ],
)
def test_refused_equations(equation, shapes, pattern):
    proto, _ = positional("Einsum", [np.zeros(s, np.float32) for s in shapes], opset=12, equation=equation)
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(proto)


def test_gradient_is_explained():
    """It asks for a differentiated graph: no operator."""
    node = helper.make_node("Gradient", ["x"], ["y"], domain="ai.onnx.preview.training", xs=["x"], y="x")
    proto = model("Neg", {"x": np.float32([1])}, opset=17, domain="ai.onnx.preview.training")
    proto.graph.node[0].CopyFrom(node)
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_empty_tensor_value_info("y"))
    with pytest.raises(Exception, match="Gradient"):
        make_compiler(proto)
