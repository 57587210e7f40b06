"""Matrix products, attention and recurrent networks."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graph import F32, FLOATS, Draft, Reject, allowed_types
from tests.fuzz.operators import operator


@operator("MatMul")
def matmul(draft: Draft, op: str) -> None:
    """Vectors, matrices, and batches that broadcast."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (1, 4), where=lambda array: array.ndim > 0)
    array = draft.value(x)
    inner = array.shape[-1]
    if draft.chance(0.15):
        shape: tuple[int, ...] = (inner,)
    else:
        batch = tuple(1 if draft.chance(0.5) else size for size in array.shape[:-2])
        shape = (*batch[draft.integer(0, len(batch)) :], inner, draft.integer(1, 19))
    draft.add(op, [x, draft.new(array.dtype, shape)])


@operator("Gemm")
def gemm(draft: Draft, op: str) -> None:
    """All options; C broadcasts."""
    dtype = draft.dtype(FLOATS[:2])
    m, k, n = draft.integer(1, 9), draft.integer(1, 19), draft.integer(1, 19)
    left, right = draft.integer(0, 1), draft.integer(0, 1)
    a = draft.pick((dtype,), (2, 2), where=lambda array: array.ndim == 2 and array.size > 0)
    m, k = draft.value(a).shape[::-1] if left else draft.value(a).shape
    b = draft.new(dtype, (n, k) if right else (k, n))
    inputs = [a, b]
    if draft.opset < 11 or draft.chance(0.7):
        inputs.append(draft.new(dtype, draft.choice([(n,), (1, n), (m, 1), (m, n), (1,), ()])))
    numbers = {name: round(float(draft.random.uniform(-2, 2)), 2) for name in ("alpha", "beta") if draft.chance(0.4)}
    draft.add(op, inputs, transA=left or None, transB=right or None, **numbers)


@operator("Einsum")
def einsum(draft: Draft, op: str) -> None:
    """Common equations."""
    equations = ["ij,jk->ik", "bij,bjk->bik", "bhid,bhjd->bhij", "ij->ji", "ij->", "ii->i", "i,j->ij", "bij,kj->bik"]
    equation = draft.choice([*equations, "...ij,...jk->...ik", "ij,ij->i"])
    sizes = {letter: draft.integer(1, 5) for letter in "bhijkd"}
    dtype = draft.dtype(FLOATS[:2])
    terms = equation.partition("->")[0].replace("...", "b").split(",")
    draft.add(op, [draft.new(dtype, [sizes[letter] for letter in term]) for term in terms], equation=equation)


@operator("MatMulInteger")
def matmul_integer(draft: Draft, op: str) -> None:
    """Zero points as scalars, or by row and column."""
    types = [draft.choice([np.int8, np.uint8]) for _ in range(2)]
    m, k, n = (draft.integer(1, 9) for _ in range(3))
    arrays = [draft.new(np.dtype(t), shape) for t, shape in zip(types, ((m, k), (k, n)), strict=True)]
    zeros = []
    if draft.chance(0.7):
        zeros.append(draft.constant(draft.integer(0, 5), types[0]))
        if draft.chance(0.7):
            shape: tuple[int, ...] = draft.choice([(), (n,)])
            zeros.append(draft.constant(draft.random.integers(0, 5, shape), types[1]))
    draft.add(op, arrays + zeros)


@operator("Det")
def determinant(draft: Draft, op: str) -> None:
    """Batches of small square matrices."""
    size = draft.integer(1, 4)
    draft.add(op, [draft.new(draft.dtype(FLOATS[:2]), (*draft.shape(0, 2, 3), size, size))])


@operator("LSTM", "GRU", "RNN")
def recurrent(draft: Draft, op: str) -> None:
    """One or two directions, with and without bias and first state; default activations."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    sequence, batch, size, hidden = (draft.integer(1, 5) for _ in range(4))
    direction = draft.choice([None, "forward", "reverse", "bidirectional"])
    number = 2 if direction == "bidirectional" else 1
    if number == 2:
        raise Reject("no oracle for two directions")
    inputs = [draft.new(F32, (sequence, batch, size))]
    # numpy leaves out products of single zeros with NaN, and only those.
    inputs += [draft.finite(F32, (number, gates * hidden, width)) for width in (size, hidden)]
    if draft.chance(0.6):
        inputs.append(draft.new(F32, (number, 2 * gates * hidden)))
        if draft.chance(0.5):
            inputs += ["", draft.new(F32, (number, batch, hidden))]
    before = draft.choice([None, 1]) if op == "GRU" else None
    draft.add(op, inputs, 2, hidden_size=hidden, direction=direction, linear_before_reset=before)


@operator("Attention")
def attention(draft: Draft, op: str) -> None:
    """Three tensors of rank 4, with grouped heads, masks and causality."""
    batch, groups, length, past, size = (draft.integer(1, 4) for _ in range(5))
    heads = groups * draft.integer(1, 2)
    query = draft.new(F32, (batch, heads, length, size))
    key, value = (draft.new(F32, (batch, groups, past, size)) for _ in range(2))
    inputs = [query, key, value]
    if draft.chance(0.4):
        inputs.append(draft.new(F32, draft.choice([(length, past), (batch, 1, length, past)])))
    scale = draft.choice([None, 0.3])
    softcap = draft.choice([None, None, 2.0])
    draft.add(op, inputs, is_causal=draft.choice([None, 0, 1]), scale=scale, softcap=softcap)


@operator("RotaryEmbedding")
def rotary(draft: Draft, op: str) -> None:
    """Rank 4, caches by position."""
    batch, heads, length, half, longest = (
        draft.integer(1, 3),
        draft.integer(1, 3),
        draft.integer(1, 4),
        draft.integer(1, 4),
        8,
    )
    inputs = [draft.new(F32, (batch, heads, length, 2 * half))]
    inputs += [draft.new(F32, (longest, half)) for _ in range(2)]
    inputs.append(draft.leaf(np.asarray(draft.random.integers(0, longest, (batch, length))).astype(np.int64)))
    draft.add(op, inputs, interleaved=draft.choice([None, 0, 1]))
