"""Models of f64 give what numpy gives in f80, within the rounding of f64."""

import numpy as np
import pytest

from tests import models, single

WIDE = np.longdouble
EPS = np.finfo(np.float64).eps


def run(op, inputs, constants=(), threads=2, opset=17, **attributes):
    proto, feeds = single.positional(op, inputs, constants=constants, opset=opset, **attributes)
    (output,) = single.run(proto, feeds, num_threads=threads)
    assert output.dtype == np.float64
    return output


def assert_within(actual, wanted, absolute):
    assert actual.shape == wanted.shape
    assert np.all(np.abs(actual - wanted) <= absolute)


@pytest.fixture
def random():
    return models.generator()


@pytest.mark.parametrize("constants", [(), (1,)])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((37, 65), (65, 131)),
        ((1, 300), (300, 259)),
        ((130, 1), (1, 17)),
        ((61, 1031), (1031, 97)),
        ((3, 5, 70), (70, 1)),
        ((2, 1, 17, 33), (3, 33, 18)),
    ],
)
def test_products(random, a, b, constants):
    x, y = random.standard_normal(a), random.standard_normal(b)
    # Each of k products and additions rounds once: (k + 1) eps / 2 of the sum of magnitudes.
    bound = (a[-1] + 1) * EPS / 2 * np.matmul(np.abs(x), np.abs(y))
    assert_within(run("MatMul", [x, y], constants), np.matmul(x.astype(WIDE), y.astype(WIDE)), bound)


@pytest.mark.parametrize("threads", [1, 3])
def test_convolutions(random, threads):
    x, w, b = random.standard_normal((2, 6, 11, 13)), random.standard_normal((10, 3, 3, 3)), random.standard_normal(10)

    def by_definition(x, w, b):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
        parts = [
            np.einsum("ncijhw,mchw->nmij", windows[:, 3 * g : 3 * g + 3], w[5 * g : 5 * g + 5], dtype=x.dtype)
            for g in range(2)
        ]
        return np.concatenate(parts, 1) + b[:, None, None]

    actual = run("Conv", [x, w, b], (1, 2), threads, pads=[1] * 4, strides=[2, 2], group=2)
    # 27 products and a bias.
    bound = 29 * EPS / 2 * by_definition(np.abs(x), np.abs(w), np.abs(b))
    assert_within(actual, by_definition(x.astype(WIDE), w.astype(WIDE), b.astype(WIDE)), bound)


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_and_reductions(random, axis):
    x = random.standard_normal((67, 131)) * 4
    wide = x.astype(WIDE)
    e = np.exp(wide - wide.max(axis, keepdims=True))
    softmax = e / e.sum(axis, keepdims=True)
    # x - max, of magnitude up to 40, is rounded before the exponential, which adds about 2 ulp of its own, and so does
    # the sum. Its n additions are n / 2 roundings of it, and the logarithm is then off by as much; it is rounded,
    # as x - max and the result are: all are at most log n + |y|.
    assert_within(run("Softmax", [x], axis=axis), softmax, 45 * EPS * softmax)
    off = x.shape[axis] / 2 + 2 * (np.log(x.shape[axis]) + np.abs(np.log(softmax)))
    assert_within(run("LogSoftmax", [x], axis=axis), np.log(softmax), off * EPS)
    count, magnitudes = x.shape[axis], np.abs(wide).sum(axis)
    reduce = {"opset": 13, "axes": [axis], "keepdims": 0}
    assert_within(run("ReduceMean", [x], **reduce), wide.mean(axis), count * EPS / 2 * magnitudes / count)
    assert_within(run("ReduceL2", [x], **reduce), np.sqrt((wide**2).sum(axis)), count * EPS / 2 * magnitudes)
    assert_within(run("ReduceMax", [x], **reduce), wide.max(axis), 0)


def test_layer_normalisation(random):
    x, scale, bias = random.standard_normal((5, 129)) + 2, random.standard_normal(129), random.standard_normal(129)
    wide = x.astype(WIDE)
    centred = wide - wide.mean(1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(1, keepdims=True) + WIDE(np.float32(1e-5))) * scale + bias
    # Mean and variance of n terms in at least 4 lanes: n / 4 roundings of values of about 3 each.
    assert_within(run("LayerNormalization", [x, scale, bias], (1, 2), axis=-1), wanted, 129 / 4 * 3 * EPS)
