"""Operands and comparisons that the tests of quantised operators share."""

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import helper
from refactor_graph.onnx import make_compiler

from tests import single

MICROSOFT = "com.microsoft"
BYTES = [np.dtype(np.uint8), np.dtype(np.int8)]
INTEGERS = [*BYTES, np.dtype(np.uint16), np.dtype(np.int16)]
PACKED = [np.dtype(t) for t in (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)]
F8 = [
    np.dtype(t)
    for t in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz)
]
F4 = np.dtype(ml_dtypes.float4_e2m1fn)
BF16 = np.dtype(ml_dtypes.bfloat16)
PASSES = pytest.mark.parametrize("passes", [[], ["-all"]], ids=["all", "none"])


def codes(dtype, shape, random):
    """Random numbers of an integer type."""
    info = ml_dtypes.iinfo(dtype)
    return random.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def weights(dtype, shape, random):
    """Random weights whose products with bytes onnxruntime adds up exactly on every processor: i8 of 7 bits.

    Without VNNI it adds up pairs of u8 × i8 in 16 bits, which saturate (vpmaddubsw).
    """
    return codes(dtype, shape, random) // (2 if np.dtype(dtype) == np.int8 else 1)


def scales(shape, random, dtype=np.float32):
    """Random scales, of one magnitude."""
    return random.uniform(0.01, 0.05, shape).astype(dtype)


def run(proto, feeds, passes):
    """Compute by our executor, compiled with these passes and verified after each."""
    executor = make_compiler(proto).compile("cpu", "default", passes, verify=True)
    return list(executor({name: np.asarray(array) for name, array in feeds.items()}).values())


def by_onnxruntime(proto, feeds):
    """Compute by onnxruntime."""
    proto.ir_version = 8
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def assert_steps(actual, wanted, steps=0):
    """Compare quantised numbers, which may differ by `steps` where two float formulas round apart."""
    assert actual.dtype == wanted.dtype
    assert actual.shape == wanted.shape
    gap = np.abs(actual.astype(np.float64) - wanted.astype(np.float64))
    assert gap.max(initial=0) <= steps, f"{(gap > steps).sum()} of {gap.size} differ by up to {gap.max()}"


def check_reference(op, arrays, passes, steps=0, **options):
    """Run one node and compare with onnx.reference; `options` are those of `single.positional`."""
    proto, feeds = single.positional(op, arrays, **options)
    (actual,) = run(proto, feeds, passes)
    assert_steps(actual, single.reference(proto, feeds)[0], steps)


def check_onnxruntime(op, arrays, passes, steps=0, domain=MICROSOFT, softmax=None, **options):
    """Run one node and compare with onnxruntime; `softmax` is the attribute `opset` of QLinearSoftmax."""
    proto, feeds = single.positional(op, arrays, opset=17, domain=domain, **options)
    if softmax:
        proto.graph.node[0].attribute.append(helper.make_attribute("opset", softmax))
    (actual,) = run(proto, feeds, passes)
    (wanted,) = by_onnxruntime(proto, feeds)
    if wanted.dtype == np.float32:
        # The same sums of integers, scaled in another order.
        np.testing.assert_allclose(actual, wanted, rtol=1e-6, atol=1e-5)
    else:
        assert_steps(actual, wanted, steps)
