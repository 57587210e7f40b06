"""Operators that neither ONNX nor PyTorch's own decompositions know: the fast paths of PyTorch's transformer layers.

`torch.nn.TransformerEncoderLayer` and `MultiheadAttention` call them instead of their parts where no gradient is
needed. Source: aten/src/ATen/native/transformers/transformer.cpp and attention.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

_CAUSAL, _PADDING = 0, 1
"""Kinds of mask: [query, key], and [batch, key]; otherwise [batch, heads, query, key]."""


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    """`aten._native_multi_head_attention`: query, key, value [batch, length, embed_dim], mask true where masked."""
    operands = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    parts = (F.linear(x, weight, bias) for x, weight, bias in operands)
    q, k, v = (part.unflatten(-1, (num_head, embed_dim // num_head)).transpose(1, 2) for part in parts)
    allowed = None
    if mask is not None:
        allowed = mask.to(torch.bool).logical_not()
        if mask_type == _PADDING:
            allowed = allowed[:, None, None, :]
        elif mask_type == _CAUSAL:
            allowed = allowed[None, None, :, :]
    weights = query.new_empty(0)
    if need_weights:
        scores = q @ k.transpose(-1, -2) * (embed_dim // num_head) ** -0.5
        if allowed is not None:
            scores = scores.masked_fill(allowed.logical_not(), float("-inf"))
        weights = scores.softmax(-1)
        joined = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        joined = F.scaled_dot_product_attention(q, k, v, allowed)
    return F.linear(joined.transpose(1, 2).flatten(2), proj_weight, proj_bias), weights


def _encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """`aten._transformer_encoder_layer_fwd`: src [batch, length, embed_dim]."""

    def attend(x: Tensor) -> Tensor:
        projections = qkv_weight, qkv_bias, proj_weight, proj_bias
        return _attention(x, x, x, embed_dim, num_heads, *projections, mask, False, True, mask_type)[0]

    def feed(x: Tensor) -> Tensor:
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = F.gelu(hidden) if use_gelu else F.relu(hidden)
        return F.linear(hidden, ffn_weight_2, ffn_bias_2)

    def norm_1(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm_2(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attend(norm_1(src))
        return x + feed(norm_2(x))
    x = norm_1(src + attend(src))
    return norm_2(x + feed(x))


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._native_multi_head_attention.default: _attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
}
"""For operators without a counterpart."""

FOR_CONSTANTS = frozenset({torch.ops.aten.lift.default, torch.ops.aten.lift_fresh.default})
"""What marks tensors that a model makes of numbers; AOTAutograd sees to it, and has no fake tensor to decompose."""

MISCONVERTED = frozenset({torch.ops.aten._native_batch_norm_legit_functional.default})
"""Operators that PyTorch decomposes right, and its exporter converts wrong: this one as if outside of training."""
