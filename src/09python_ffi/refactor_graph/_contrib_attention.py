"""Attention operators of com.microsoft in terms of MultiHeadAttention.

Source: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from refactor_graph._bodies import END, Body, BodyOp
from refactor_graph._errors import Unsupported


def _quantized_attention(b: Body) -> None:
    x, weights, bias, x_scale, w_scale, mask, x_zero, w_zero, past = b.inputs(*range(9))
    if b.attributes["do_rotary"] or b.attributes["past_present_share_buffer"]:
        raise Unsupported("do_rotary and past_present_share_buffer")
    operands = b.split(b.contrib("MatMulIntegerToFloat", x, weights, x_scale, w_scale, x_zero, w_zero, bias), 3, 2)
    pasts = [b.add("Gather", past, b.constant(part), axis=0) for part in range(2)] if past else ["", ""]
    options = {name: b.attributes[name] for name in ("mask_filter_value", "num_heads", "scale", "unidirectional")}
    y, keys, values = b.contrib("MultiHeadAttention", *operands, "", mask, "", *pasts, outputs=3, **options)
    b.give(0, y)
    b.give(1, b.add("Concat", b.unsqueeze(keys, 0), b.unsqueeze(values, 0), axis=0))


def _decoder_attention(b: Body) -> None:
    query, key, value, mask, bias, past_key, past_value, length, _, indirection, offsets = b.inputs(*range(11))
    if indirection:
        raise Unsupported("cache_indirection")
    if b.asks(3):
        raise Unsupported("the output qk")
    shared = b.attributes["past_present_share_buffer"] and length
    options = {name: b.attributes[name] for name in ("mask_filter_value", "num_heads", "scale")}
    buffers = [past_key, past_value]
    pasts = buffers
    if shared:  # the first elements along axis 2 are the past, the others room
        filled = b.add("Reshape", b.add("Cast", length, to=7), b.constant([1]))
        pasts = [b.part(buffer, 2, 0, filled) for buffer in buffers]
    operands = [query, key, value, offsets, mask, bias, *pasts]
    y, *states = b.contrib("MultiHeadAttention", *operands, outputs=3, **options)
    b.give(0, y)
    for index, state in enumerate(states):
        if shared:
            room = b.part(buffers[index], 2, b.size(state, 2), END)
            state = b.add("Concat", state, room, axis=2)
        b.give(index + 1, state)


_COMMON = {"mask_filter_value": -10000.0, "num_heads": int, "past_present_share_buffer": 0, "scale": float}

ATTENTION_OPS = (
    BodyOp(
        "DecoderMaskedMultiHeadAttention",
        (1, 11),
        (1, 4),
        {**_COMMON, "output_qk": 0},
        _decoder_attention,
        frozenset({"num_heads"}),
    ),
    BodyOp(
        "QAttention",
        (5, 9),
        (1, 2),
        {**_COMMON, "do_rotary": 0, "unidirectional": 0},
        _quantized_attention,
        frozenset({"num_heads"}),
    ),
)
