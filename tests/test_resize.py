"""Pad, Resize and Upsample against numpy, `onnx.reference` and onnxruntime."""

import numpy as np
import pytest
from refactor_graph import Unsupported
from refactor_graph.onnx import make_compiler

from tests import models, single
from tests.single import compare_with_onnxruntime, floats, refuse


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.bool_, np.uint64])
def test_pad(mode, dtype):
    x = (floats(3, 5, 4) * 9).astype(dtype)
    for pads in ([1, 2, 0, 2, 4, 3], [0, -2, 1, 0, 0, -1], [4, 0, 7, 0, 11, 9]):
        if mode != "constant" and min(pads) < 0:
            continue
        feeds = {"x": x, "pads": np.array(pads)}
        widths = [(max(pads[i], 0), max(pads[i + 3], 0)) for i in range(3)]
        cropped = x[tuple(slice(max(-pads[i], 0), x.shape[i] + min(pads[i + 3], 0)) for i in range(3))]
        single.check("Pad", feeds, opset=19, constants=["pads"], mode=mode, oracle=[np.pad(cropped, widths, mode=mode)])
    feeds = {"x": x, "pads": np.array([1, 2, 3, 0]), "value": np.array(1).astype(dtype), "axes": np.array([-1, 0])}
    widths = [(2, 0), (0, 0), (1, 3)]
    fill = {"constant_values": feeds["value"]} if mode == "constant" else {}
    wanted = np.pad(x, widths, mode=mode, **fill)
    single.check("Pad", feeds, opset=19, constants=["pads", "axes"], mode=mode, oracle=[wanted])
    if mode == "wrap":
        refuse("mode is", "Pad", {"x": x, "pads": feeds["pads"]}, opset=18, constants=["pads"], mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("place", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
@pytest.mark.parametrize("scales", [(1, 1, 0.6, 1.7), (1, 1, 2, 3), (1, 1, 1.37, 0.5)])
def test_resize_by_scales(mode, place, scales):
    x = floats(1, 2, 7, 9)
    feeds = {"x": x, "scales": np.float32(scales)}
    options = {"mode": mode, "coordinate_transformation_mode": place, "inputs": ["x", "", "scales"]}
    single.check("Resize", feeds, opset=19, constants=["scales"], steps=128, **options)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_by_sizes(policy, antialias, mode):
    feeds = {"x": floats(1, 2, 12, 9), "sizes": np.array([5, 7])}
    single.check(
        "Resize",
        feeds,
        opset=18,
        constants=["sizes"],
        inputs=["x", "", "", "sizes"],
        axes=[3, 2],
        mode=mode,
        antialias=antialias,
        keep_aspect_ratio_policy=policy,
        steps=128,
    )


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.uint32, np.uint64, np.int64, np.uint8])
def test_resize_integers(dtype):
    feeds = {"x": (np.abs(floats(1, 1, 5, 6)) * 99).astype(dtype), "scales": np.float32([1, 1, 1.5, 2])}
    options = {"opset": 19, "constants": ["scales"], "inputs": ["x", "", "scales"], "mode": "linear"}
    wide = {**feeds, "x": feeds["x"].astype(np.float64)}
    wanted = np.trunc(single.run(single.model("Resize", wide, **options), wide)[0]).astype(dtype)
    single.check("Resize", feeds, oracle=[wanted], **options)


def test_resize_moves_what_has_no_order():
    feeds = {"x": floats(2, 3) > 0, "scales": np.float32([2, 3])}
    options = {"opset": 19, "constants": ["scales"], "inputs": ["x", "", "scales"]}
    single.check("Resize", feeds, oracle=[feeds["x"].repeat(2, 0).repeat(3, 1)], **options)
    with pytest.raises(Unsupported, match="interpolation of bool"):
        single.run(single.model("Resize", feeds, mode="linear", **options), feeds)


@pytest.mark.parametrize("scale", [0.7, 1 / 3, 2.6, 1.2345, 0.123456, 3.0])
def test_resize_of_unknown_sizes(scale):
    feeds = {"x": floats(1, 2, 10, 10), "scales": np.float32([1, 1, scale, scale])}
    proto = single.model("Resize", feeds, opset=19, constants=["scales"], inputs=["x", "", "scales"], mode="linear")
    for i, name in enumerate("NCHW"):
        proto.graph.input[0].type.tensor_type.shape.dim[i].dim_param = name
    executor = make_compiler(proto).compile()
    for size in (9, 10, 31, 50):
        x = floats(1, 2, size, size)
        (y,) = executor({"x": x}).values()
        single.assert_same([y], models.expected(proto, {"x": x}), 64)


@pytest.mark.parametrize("scales", [(1, 1, 0.6, 0.7), (1, 1, 2, 0.4), (1, 1, 0.8, 3), (1, 2, 1, 1.5)])
def test_nearest_elements_of_opset_10(scales):
    feeds = {"x": floats(1, 2, 7, 9), "scales": np.float32(scales)}
    compare_with_onnxruntime("Resize", feeds, opset=10, constants=["scales"], steps=0)
