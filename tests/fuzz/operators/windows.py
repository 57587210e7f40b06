"""Convolutions, pools and resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.graph import F32, FLOATS, Draft, Reject
from tests.fuzz.operators import operator


def _window(draft: Draft, spatial: tuple[int, ...], kernel: tuple[int, ...], dilations: bool = True) -> dict[str, Any]:
    """Return strides, dilations and pads, or `auto_pad`; the window fits.

    With `auto_pad` the oracles crop where a stride is larger than the window, and ignore dilations: neither occurs.
    """
    rank = len(spatial)
    found: dict[str, Any] = {}
    if draft.chance(0.5):
        found["strides"] = [draft.integer(1, 3) for _ in range(rank)]
    if dilations and draft.chance(0.3):
        found["dilations"] = [draft.integer(1, 2) for _ in range(rank)]
    kind = draft.choice(["none", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if kind == "pads":
        found["pads"] = [draft.integer(0, max(0, size - 1)) for size in (*kernel, *kernel)]
    elif kind != "none":
        found["auto_pad"] = kind
        found.pop("dilations", None)
        if "strides" in found:
            found["strides"] = [min(stride, size) for stride, size in zip(found["strides"], kernel, strict=True)]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, found.get("dilations", [1] * rank), strict=True)]
    if not kind.startswith("SAME") and any(span > size for span, size in zip(spans, spatial, strict=True)):
        raise Reject("the window does not fit")
    return found


def _picture(draft: Draft, rank: int, channels: int | None = None) -> tuple[str, tuple[int, ...]]:
    """Return a tensor of `rank` spatial axes and its shape."""

    def fits(array: np.ndarray) -> bool:
        # One infinity makes a whole tile of Winograd's algorithm NaN.
        return array.ndim == rank + 2 and array.size > 0 and bool(np.isfinite(array).all())

    if channels is None:
        x = draft.pick((F32,), (rank + 2, rank + 2), where=fits)
    else:
        sizes = [draft.integer(2, (40, 13, 6)[rank - 1]) for _ in range(rank)]
        x = draft.new(F32, (draft.integer(1, 2), channels, *sizes))
        if not fits(draft.value(x)):
            raise Reject("not finite")
    return x, draft.value(x).shape


@operator("Conv")
def conv(draft: Draft, op: str) -> None:
    """One to three spatial axes, groups, depthwise."""
    rank = draft.choice([1, 2, 2, 2, 3])
    channels = draft.choice([None, 1, 3, 4, 8, 16, 17])
    x, shape = _picture(draft, rank, channels)
    groups = draft.choice([g for g in range(1, shape[1] + 1) if shape[1] % g == 0] + [1, 1, shape[1]])
    out = groups * draft.integer(1, max(1, 24 // groups))
    kernel = tuple(draft.choice([1, 2, 3, 3, 3, 5]) for _ in range(rank))
    options = _window(draft, shape[2:], kernel)
    if any(k > s + 2 for k, s in zip(kernel, shape[2:], strict=True)):
        raise Reject("the window does not fit")
    inputs = [x, draft.finite(F32, (out, shape[1] // groups, *kernel), draft.chance(0.8))]
    if draft.chance(0.6):
        inputs.append(draft.new(F32, (out,)))
    draft.add(op, inputs, group=groups if groups > 1 or draft.chance(0.3) else None, **options)


@operator("ConvTranspose")
def conv_transpose(draft: Draft, op: str) -> None:
    """Groups, output padding."""
    rank = draft.choice([1, 2, 2, 3])
    x, shape = _picture(draft, rank, draft.choice([1, 2, 4, 6]))
    groups = draft.choice([g for g in (1, 2) if shape[1] % g == 0])
    kernel = tuple(draft.integer(1, 3) for _ in range(rank))
    options: dict[str, Any] = {"strides": [draft.integer(1, 3) for _ in range(rank)]}
    if draft.chance(0.3):
        options["dilations"] = [draft.integer(1, 2) for _ in range(rank)]
    if draft.chance(0.4):
        options["pads"] = [draft.integer(0, max(0, k - 1)) for k in (*kernel, *kernel)]
    if draft.chance(0.3):
        options["output_padding"] = [draft.integer(0, s - 1) for s in options["strides"]]
    inputs = [x, draft.finite(F32, (shape[1], draft.integer(1, 4), *kernel))]
    if draft.chance(0.5):
        inputs.append(draft.new(F32, (draft.value(inputs[1]).shape[1] * groups,)))
    draft.add(op, inputs, group=groups, **options)


@operator("ConvInteger")
def conv_integer(draft: Draft, op: str) -> None:
    """Unsigned or signed, with zero points."""
    channels = draft.integer(1, 4)
    x = draft.new(np.dtype(np.uint8), (1, channels, draft.integer(3, 7), draft.integer(3, 7)))
    w = draft.new(np.dtype(np.uint8), (draft.integer(1, 5), channels, 3, draft.integer(1, 3)))
    zeros = [draft.constant(draft.integer(0, 5), np.uint8)] if draft.chance(0.6) else []
    draft.add(op, [x, w, *zeros], pads=draft.choice([None, [1, 0, 0, 1]]))


@operator("MaxPool", "AveragePool", "LpPool")
def pool(draft: Draft, op: str) -> None:
    """Padding, dilation and rounding up where the opset has them."""
    rank = draft.choice([1, 2, 2, 3])
    x, shape = _picture(draft, rank, draft.choice([None, 1, 3, 16, 17]))
    kernel = tuple(draft.integer(1, min(4, size)) for size in shape[2:])
    dilated = draft.opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]
    options = _window(draft, shape[2:], kernel, dilated)
    if draft.opset >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[op] and "auto_pad" not in options:
        options["ceil_mode"] = draft.choice([None, 0, 1])
    if op == "AveragePool":
        options["count_include_pad"] = draft.choice([None, 0, 1])
    if op == "LpPool":
        options["p"] = draft.choice([None, 1, 2, 3])
    outputs = 2 if op == "MaxPool" and draft.opset >= 8 and draft.chance(0.2) and "ceil_mode" not in options else 1
    draft.add(op, [x], outputs, kernel_shape=list(kernel), **options)


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(draft: Draft, op: str) -> None:
    """Over all spatial axes."""
    x, _ = _picture(draft, draft.choice([1, 2, 2, 3]))
    draft.add(op, [x])


@operator("Resize", "Upsample")
def resize(draft: Draft, op: str) -> None:
    """By scales or sizes, all modes and coordinates that both oracles know."""
    x, shape = _picture(draft, 2, draft.integer(1, 3))
    scales = [1.0, 1.0, *(draft.choice([0.5, 0.6, 1.0, 1.5, 2.0, 3.0]) for _ in range(2))]
    if any(int(size * scale) < 1 for size, scale in zip(shape, scales, strict=True)):
        raise Reject("nothing would be left")
    mode = draft.choice(["nearest", "linear"])
    if draft.opset < 11:
        if op == "Upsample":
            scales = [max(1.0, scale) for scale in scales]
        if op == "Upsample" and draft.opset < 9:
            draft.add(op, [x], mode=mode, scales=scales)
        else:
            draft.add(op, [x, draft.constant(scales, np.float32)], mode=mode)
        return
    coordinates = draft.choice([None, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    mode = draft.choice([mode, "cubic"])
    nearest = draft.choice([None, "floor", "ceil", "round_prefer_ceil"]) if mode == "nearest" else None
    roi = draft.constant([], np.float32) if draft.opset < 13 else ""
    if draft.chance(0.5):
        inputs = [x, roi, draft.constant(scales, np.float32)]
    else:
        sizes = [*shape[:2], *(max(1, int(s * f)) for s, f in zip(shape[2:], scales[2:], strict=True))]
        inputs = [x, roi, draft.constant([], np.float32) if draft.opset < 13 else "", draft.constant(sizes)]
    options: dict[str, Any] = {"coordinate_transformation_mode": coordinates, "mode": mode, "nearest_mode": nearest}
    if draft.opset >= 18 and mode != "nearest" and draft.chance(0.3):
        options["antialias"] = 1
    draft.add(op, inputs, **options)


@operator("GridSample")
def grid_sample(draft: Draft, op: str) -> None:
    """Two spatial axes."""
    x, shape = _picture(draft, 2, draft.integer(1, 3))
    size = (shape[0], draft.integer(1, 4), draft.integer(1, 4), 2)
    grid = draft.leaf(draft.random.uniform(-1.2, 1.2, size).astype(np.float32))
    names = ("bilinear", "nearest", "bicubic") if draft.opset < 20 else ("linear", "nearest", "cubic")
    options = {"mode": draft.choice([None, *names]), "align_corners": draft.choice([None, 0, 1])}
    draft.add(op, [x, grid], padding_mode=draft.choice([None, "zeros", "border", "reflection"]), **options)


@operator("AffineGrid")
def affine_grid(draft: Draft, op: str) -> None:
    """Two or three spatial axes."""
    rank = draft.integer(2, 3)
    batch = draft.integer(1, 2)
    theta = draft.new(draft.dtype(FLOATS[:2]), (batch, rank, rank + 1))
    size = draft.constant([batch, 2, *(draft.integer(1, 4) for _ in range(rank))])
    draft.add(op, [theta, size], align_corners=draft.choice([None, 0, 1]))


@operator("Col2Im")
def col2im(draft: Draft, op: str) -> None:
    """Two spatial axes."""
    image = (draft.integer(3, 6), draft.integer(3, 6))
    block = (draft.integer(1, 3), draft.integer(1, 3))
    strides = [draft.integer(1, 2) for _ in range(2)]
    count = int(np.prod([(i - b) // s + 1 for i, b, s in zip(image, block, strides, strict=True)]))
    x = draft.new(F32, (draft.integer(1, 2), draft.integer(1, 3) * block[0] * block[1], count))
    draft.add(op, [x, draft.constant(image), draft.constant(block)], strides=strides)


@operator("HannWindow", "HammingWindow", "BlackmanWindow")
def window(draft: Draft, op: str) -> None:
    """Periodic and symmetric."""
    draft.add(op, [draft.constant(draft.integer(2, 17))], periodic=draft.choice([None, 0, 1]))


@operator("DFT")
def dft(draft: Draft, op: str) -> None:
    """Real and complex, either direction."""
    if draft.opset < 20:
        raise Reject("the axis is an attribute")
    x = draft.new(F32, (draft.integer(1, 3), draft.integer(1, 9), draft.choice([1, 2])))
    inverse = draft.value(x).shape[-1] == 2 and draft.chance(0.5)
    draft.add(op, [x, "", draft.constant(1)], inverse=1 if inverse else None)


@operator("RoiAlign")
def roi_align(draft: Draft, op: str) -> None:
    """Average and maximum."""
    x = draft.new(F32, (2, draft.integer(1, 3), 7, 9))
    count = draft.integer(1, 3)
    corners = np.sort(draft.random.uniform(0, 6, (count, 2, 2)), 1).reshape(count, 4)
    rois = draft.leaf(corners.astype(np.float32))
    batch = draft.leaf(np.asarray(draft.random.integers(0, 2, count)).astype(np.int64))
    options = {"output_height": 2, "output_width": 3, "sampling_ratio": draft.integer(1, 2)}
    draft.add(op, [x, rois, batch], mode=draft.choice([None, "avg"]), **options)
