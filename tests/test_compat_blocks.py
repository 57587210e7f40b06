"""What onnxruntime's Python tools take from its native module, against that."""

import numpy as np
import pytest
from refactor_graph.compat.capi import _pybind_state as ours

from tests import models

theirs = pytest.importorskip("onnxruntime.capi._pybind_state")


def weights_of(rows, columns):
    weights = models.generator(71).standard_normal((rows, columns)).astype(np.float32)
    weights[:16, 0] = 0
    weights[16:32, 1] = np.abs(weights[16:32, 1])
    return weights


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("rows", "columns", "block"), [(64, 5, 16), (72, 3, 32)])
def test_blocks(bits, symmetric, rows, columns, block):
    weights, count = weights_of(rows, columns), -(-rows // block)
    results = []
    for module in (ours, theirs):
        packed = np.zeros((columns, count, block * bits // 8), np.uint8)
        scales = np.zeros((columns, count), np.float32)
        zeros = np.zeros((columns, -(-count * bits // 8)), np.uint8)
        quantize = getattr(module, f"quantize_matmul_{bits}bits")
        quantize(packed, weights, scales, zeros, block, columns, rows, symmetric)
        results.append((packed, scales, zeros))
    for mine, yours in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, yours)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("rows", "columns", "block"), [(64, 6, 16), (70, 4, 32)])
def test_blocks_of_rows(symmetric, rows, columns, block):
    weights, count = weights_of(rows, columns), -(-rows // block)
    results = []
    for module in (ours, theirs):
        packed = np.zeros(rows * columns // 2, np.uint8)
        scales, zeros = np.zeros((count, columns), np.float32), np.zeros(count * columns // 2, np.uint8)
        signed = module.quantize_qdq_matmul_4bits(packed, weights, scales, zeros, block, columns, rows, symmetric)
        results.append((packed, scales, zeros, signed))
    for mine, yours in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, yours)
