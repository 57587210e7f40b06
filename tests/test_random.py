"""Random operators: distributions, seeds, and that nothing is computed ahead or merged."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph import InvalidModel
from refactor_graph.onnx import make_compiler

from tests import models
from tests.single import model, positional, run

COUNT = 40_000
FLOATS = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
}


def executor_of(op, feeds, **options):
    return make_compiler(model(op, feeds, opset=22, **options)).compile()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("like", [False, True])
def test_moments(dtype, like):
    """Mean and deviation within 5 standard errors, one rounding added."""
    feeds = {"x": np.zeros((200, COUNT // 200), np.int32)} if like else {}
    shape = {} if like else {"shape": [200, COUNT // 200]}
    suffix = "Like" if like else ""
    epsilon = 2.0**-8 if dtype == TensorProto.BFLOAT16 else 2.0**-11
    (u,) = run(
        model("RandomUniform" + suffix, feeds, opset=22, dtype=dtype, low=-1.0, high=3.0, seed=3.0, **shape), feeds
    )
    (g,) = run(
        model("RandomNormal" + suffix, feeds, opset=22, dtype=dtype, mean=2.0, scale=0.5, seed=3.0, **shape), feeds
    )
    assert u.dtype == g.dtype == FLOATS[dtype]
    assert u.shape == (200, COUNT // 200)
    u, g = u.astype(np.float64), g.astype(np.float64)
    assert u.min() >= -1
    assert u.max() < 3
    np.testing.assert_allclose(u.mean(), 1, atol=5 * 4 / np.sqrt(12 * COUNT) + epsilon)
    np.testing.assert_allclose(g.mean(), 2, atol=5 * 0.5 / np.sqrt(COUNT) + epsilon)
    np.testing.assert_allclose(g.std(), 0.5, atol=5 * 0.5 / np.sqrt(2 * COUNT) + epsilon)


def test_seeds_and_runs():
    """A seed fixes the sequence of runs; without one two models differ; two nodes never share numbers by accident."""
    make = lambda **seed: executor_of("RandomNormal", {}, shape=[33], **seed)  # noqa: E731
    draw = lambda executor: next(iter(executor({}).values()))  # noqa: E731
    first, second = make(seed=1.5), make(seed=1.5)
    for _ in range(3):
        np.testing.assert_array_equal(draw(first), draw(second))
    assert not np.array_equal(draw(first), draw(first))
    assert not np.array_equal(draw(make(seed=1.5)), draw(make(seed=2.5)))
    assert not np.array_equal(draw(make()), draw(make()))
    clone = first.clone()
    assert not np.array_equal(draw(clone), draw(first))


def test_nodes_are_not_merged():
    nodes = [helper.make_node("RandomUniform", [], [name], name, shape=[64]) for name in "ab"]
    nodes.append(helper.make_node("Sub", ["a", "b"], ["y"]))
    executor = make_compiler(models.model(nodes, [], [models.value("y", [64])], opset=22)).compile()
    y = executor({})["y"]
    assert np.count_nonzero(y) > 32
    assert not np.array_equal(y, executor({})["y"])


def test_follows_a_symbolic_shape():
    proto, _ = positional("RandomUniformLike", [np.zeros((2, 3), np.float32)], opset=22, symbolic=True)
    executor = make_compiler(proto).compile()
    for shape in ((4, 5), (1, 7), (0, 3)):
        assert executor({"x0": np.zeros(shape, np.float32)})["y0"].shape == shape


@pytest.mark.parametrize("dtype", [None, TensorProto.BOOL, TensorProto.INT8, TensorProto.DOUBLE, TensorProto.FLOAT16])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_bernoulli(dtype, kind):
    p = np.repeat(np.array([0, 0.2, 0.7, 1], kind), COUNT)
    extra = {} if dtype is None else {"dtype": dtype}
    (y,) = run(model("Bernoulli", {"p": p}, opset=22, seed=4.0, **extra), {"p": p})
    assert y.dtype == (kind if dtype is None else helper.tensor_dtype_to_np_dtype(dtype))
    means = y.astype(np.float64).reshape(4, COUNT).mean(1)
    np.testing.assert_allclose(means, [0, 0.2, 0.7, 1], atol=5 * 0.5 / np.sqrt(COUNT))
    assert means[0] == 0
    assert means[3] == 1


def test_multinomial():
    p = np.array([[0.1, 0.6, 0.3], [0.5, 0.25, 0.25]])
    feeds = {"x": np.log(p).astype(np.float32)}
    (y,) = run(model("Multinomial", feeds, opset=22, sample_size=COUNT, seed=9.0, dtype=TensorProto.INT64), feeds)
    assert y.dtype == np.int64
    for row, wanted in zip(y, p, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / COUNT, wanted, atol=5 * 0.5 / np.sqrt(COUNT))


# ---------------------------------------------------------------------- Dropout
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("constants", [[], ["t"], ["r", "t"]])
@pytest.mark.parametrize("ratio", [0.0, 0.25, 0.75])
def test_training_dropout(dtype, constants, ratio):
    x = models.generator(1).uniform(1, 2, COUNT).astype(dtype)
    feeds = {"x": x, "r": np.array(ratio, np.float32), "t": np.array(True)}
    y, mask = run(model("Dropout", feeds, opset=13, outputs=2, constants=constants, seed=3), feeds)
    np.testing.assert_allclose(mask.mean(), 1 - ratio, atol=5 * 0.5 / np.sqrt(COUNT) if ratio else 0)
    wanted = np.where(mask, (x.astype(np.float64) / (1 - ratio)), 0)
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=2 * np.finfo(dtype).eps)


@pytest.mark.parametrize("constants", [[], ["t"]])
def test_dropout_of_inference(constants):
    feeds = {"x": np.arange(6, dtype=np.float32), "r": np.array(0.5, np.float32), "t": np.array(False)}
    y, mask = run(model("Dropout", feeds, opset=22, outputs=2, constants=constants), feeds)
    np.testing.assert_array_equal(y, feeds["x"])
    assert mask.all()


def test_dropout_of_opset_6():
    feeds = {"x": np.ones(COUNT, np.float32)}
    y, mask = run(model("Dropout", feeds, opset=6, outputs=2, ratio=0.25), feeds)
    assert mask.dtype == np.float32
    np.testing.assert_allclose(mask.mean(), 0.75, atol=5 * 0.5 / np.sqrt(COUNT))
    np.testing.assert_allclose(y, mask / 0.75, rtol=1e-6)
    np.testing.assert_array_equal(run(model("Dropout", feeds, opset=6, ratio=0.25), feeds)[0], feeds["x"])


@pytest.mark.parametrize(
    ("op", "feeds", "attributes", "pattern"),
    [
        ("RandomUniform", {}, {"shape": [2], "dtype": TensorProto.INT32}, "i32"),
        ("RandomUniform", {}, {"shape": [-2]}, "negative"),
        ("RandomUniform", {}, {}, "shape"),
        ("RandomNormalLike", {"x": np.zeros(3, np.int64)}, {}, "i64"),
        ("Multinomial", {"x": np.zeros((2, 3), np.float32)}, {"dtype": TensorProto.FLOAT}, "f32"),
        ("Multinomial", {"x": np.zeros((2, 0), np.float32)}, {}, "no classes"),
        ("Multinomial", {"x": np.zeros(3, np.float32)}, {}, "axes"),
        ("Dropout", {"x": np.zeros(3, np.float32), "r": np.zeros(2, np.float32)}, {}, "expected a scalar"),
    ],
)
def test_refusals(op, feeds, attributes, pattern):
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(model(op, feeds, opset=22, **attributes))
