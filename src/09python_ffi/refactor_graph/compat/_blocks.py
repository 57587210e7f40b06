"""onnxruntime's quantisation of weights in blocks, which its Python tools call: rows [K, N] to integers of few bits.

A block is `block_size` neighbours along K. Symmetric: the number of largest magnitude becomes the lowest integer, and
zero the middle one. Otherwise the block, with zero, fills the range. Source: onnxruntime, `MatMulNBits`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _blocks_of(weights: Array, block: int) -> Array:
    """[K, N] to [N, blocks, block], zeros behind the end."""
    rows, columns = weights.shape
    count = -(-rows // block)
    padded = np.zeros((count * block, columns), np.float32)
    padded[:rows] = weights
    blocks: Array = padded.T.reshape(columns, count, block)
    return blocks


def _quantized(blocks: Array, bits: int, symmetric: bool) -> tuple[Array, Array, Array]:
    """Return integers, scales [N, blocks] and zero points [N, blocks]."""
    low, high = blocks.min(-1, initial=0), blocks.max(-1, initial=0)
    most = np.float32((1 << bits) - 1)
    if symmetric:
        middle = np.float32(1 << (bits - 1))
        scale = np.where(np.abs(low) > np.abs(high), low, high) / -middle
        zero = np.full(scale.shape, middle, np.float32)
    else:
        scale = (high - low) / most
        ratio = np.divide(-low, scale, out=np.zeros_like(scale), where=scale != 0)
        zero = np.clip(np.rint(ratio), 0, most)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)
    integers = np.clip(np.rint(blocks * inverse[..., None] + zero[..., None]), 0, most)
    return integers.astype(np.uint8), scale, zero.astype(np.uint8)


def _packed(integers: Array, bits: int, filling: int = 0) -> Array:
    """Integers side by side in bytes along the last axis, the first one in the low bits."""
    per_byte = 8 // bits
    short = -integers.shape[-1] % per_byte
    padded = np.pad(integers, [(0, 0)] * (integers.ndim - 1) + [(0, short)], constant_values=filling)
    parts = padded.reshape(*padded.shape[:-1], -1, per_byte).astype(np.uint16)
    shifts = np.arange(per_byte, dtype=np.uint16) * np.uint16(bits)
    joined: Array = (parts << shifts).sum(-1).astype(np.uint8)
    return joined


def _quantizer(bits: int) -> Callable[[Array, Array, Array, Array, int, int, int, bool], None]:
    def quantize(
        packed: Array, weights: Array, scales: Array, zeros: Array, block: int, columns: int, rows: int, symmetric: bool
    ) -> None:
        """Fill `packed` [N, blocks, bytes], `scales` and, unless symmetric, `zeros` from `weights` [K, N]."""
        integers, scale, zero = _quantized(_blocks_of(weights, block), bits, symmetric)
        integers.reshape(columns, -1)[:, rows:] = 0
        packed[...] = _packed(integers, bits).reshape(packed.shape)
        scales[...] = scale.reshape(scales.shape)
        if not symmetric:
            zeros[...] = _packed(zero, bits, 1 << (bits - 1)).reshape(zeros.shape)

    quantize.__name__ = f"quantize_matmul_{bits}bits"
    return quantize


quantize_matmul_2bits = _quantizer(2)
quantize_matmul_4bits = _quantizer(4)
quantize_matmul_8bits = _quantizer(8)


def quantize_qdq_matmul_4bits(
    packed: Array, weights: Array, scales: Array, zeros: Array, block: int, columns: int, rows: int, symmetric: bool
) -> bool:
    """Fill `packed` [K · N / 2], `scales` [blocks, N] and, unless symmetric, `zeros` from `weights` [K, N].

    Returns whether the integers are signed: those of symmetric blocks are.
    """
    integers, scale, zero = _quantized(_blocks_of(weights, block), 4, symmetric)
    rows_first = integers.reshape(columns, -1)[:, :rows].T
    if symmetric:
        rows_first = rows_first ^ 8  # less 8, in 4 bits
    packed[...] = _packed(rows_first.reshape(-1), 4)
    scales[...] = scale.T
    if not symmetric:
        zeros[...] = _packed(zero.T.reshape(-1), 4)
    return symmetric
