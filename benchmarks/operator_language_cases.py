"""What language models have: products with packed weights, mixtures of experts, states of linear attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from models import Case
from operator_cases import Operand, c, one, w, x

Cases = Iterator[tuple[str, Callable[[], Case]]]
BLOCK, BITS = 32, 4


def packed(*shape: int) -> Operand:
    """Make numbers of 4 bits, two in a byte."""
    return w(*shape[:-1], shape[-1] // 2, dtype="u1")


def scales(*shape: int) -> Operand:
    """Make a scale for each block of a row, so that the results are of the size of the inputs."""
    size = np.float32(1 / (4 * shape[-1] ** 0.5))
    return Operand(
        lambda random: random.uniform(0.5, 1.5, (*shape[:-1], shape[-1] // BLOCK)).astype("f4") * size, constant=True
    )


def product(rows: int, k: int, n: int, level: int) -> Case:
    weights = packed(n, k // BLOCK, BLOCK)
    options = {"K": k, "N": n, "bits": BITS, "block_size": BLOCK, "accuracy_level": level}
    return one("MatMulNBits", x(rows, k), weights, scales(n, k), domain="com.microsoft", **options)


def experts(tokens: int, count: int, chosen: int, hidden: int, inner: int, level: int) -> Case:
    layers = [
        operand
        for n, k in ((2 * inner, hidden), (hidden, inner))
        for operand in (packed(count, n, k), scales(count, n, k), c(np.zeros((count, n)), "f4"))
    ]
    options = {
        "k": chosen,
        "activation_type": "swiglu",
        "swiglu_fusion": 1,
        "normalize_routing_weights": 1,
        "expert_weight_bits": BITS,
        "block_size": BLOCK,
        "weights_prepacked": 0,
        "accuracy_level": level,
    }
    return one("QMoE", x(tokens, hidden), x(tokens, count), *layers, domain="com.microsoft", **options)


def products() -> Cases:
    for k, n in ((2048, 4096), (4096, 4096)):
        for level in (0, 4):
            for rows in (1, 4, 16, 32, 128):
                name = f"MatMulNBits {rows}x{k}x{n}, level {level}"
                yield name, lambda rows=rows, k=k, n=n, level=level: product(rows, k, n, level)


def mixtures() -> Cases:
    for name, sizes in (("gpt-oss", (32, 4, 2880, 2880)), ("Qwen3", (64, 8, 2048, 768))):
        for level in (0, 4):
            for tokens in (1, 16, 128):
                label = f"QMoE {name}, {tokens}x{sizes[2]}, level {level}"
                yield label, lambda tokens=tokens, sizes=sizes, level=level: experts(tokens, *sizes, level)


def state(tokens: int, heads: int, kv_heads: int, depth: int) -> Case:
    """Make a gated delta rule with a past; keys are of length 1 in the mean, decays at most 1."""
    keys = Operand(lambda r: (r.standard_normal((1, tokens, kv_heads * depth)) / depth**0.5).astype("f4"))
    decays = Operand(lambda r: -np.abs(r.standard_normal((1, tokens, kv_heads))).astype("f4"))
    rates = Operand(lambda r: r.uniform(0, 1, (1, tokens, kv_heads)).astype("f4"))
    operands = x(1, tokens, heads * depth), keys, x(1, tokens, kv_heads * depth), x(1, kv_heads, depth, depth)
    options = {"q_num_heads": heads, "kv_num_heads": kv_heads}
    return one("LinearAttention", *operands, decays, rates, outputs=2, domain="com.microsoft", **options)


def states() -> Cases:
    for heads, kv_heads in ((16, 32), (32, 32)):
        for tokens in (1, 16, 128):
            name = f"LinearAttention {heads} of {kv_heads} heads, {tokens}x128x128"
            yield name, lambda sizes=(tokens, heads, kv_heads, 128): state(*sizes)


def convolutions() -> Cases:
    for channels_last in (0, 1):
        for tokens in (1, 128):
            shape, past = ((tokens, 8192), (3, 8192)) if channels_last else ((8192, tokens), (8192, 3))
            options = {"activation": "silu", "channels_last": channels_last}
            operands = x(1, *shape), w(8192, 1, 4), w(8192), x(1, *past)
            name = f"CausalConvWithState {shape[0]}x{shape[1]}"
            yield (
                name,
                lambda a=operands, o=options: one("CausalConvWithState", *a, outputs=2, domain="com.microsoft", **o),
            )


FAMILIES = [products, mixtures, states, convolutions]
