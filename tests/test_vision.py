"""Operators of vision models against `onnx.reference` or onnxruntime, on odd sizes and all float types."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from onnx import helper
from refactor_graph import InvalidInput
from refactor_graph.onnx import make_compiler

from tests import models, single
from tests.single import compare_with_onnxruntime, floats, refuse

EPSILON = 2.0**-10  # exact as the f32 that attributes are
FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


# ---------------------------------------------------------------------- LRN and norms of order p
def lrn(x, size, alpha=1e-4, beta=0.75, bias=1.0):
    wide = np.asarray(x, np.float64)
    square = np.zeros_like(wide)
    for c in range(x.shape[1]):
        window = wide[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1]
        square[:, c] = (window**2).sum(1)
    return (wide / (bias + alpha / size * square) ** beta).astype(x.dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("beta", [0.75, 0.6])
def test_lrn(dtype, size, beta):
    x = floats(2, 7, 5, 67, dtype=dtype) * dtype(3)
    # Attributes are f32.
    options = {"size": size, "alpha": float(np.float32(0.3)), "beta": float(np.float32(beta)), "bias": 1.5}
    single.check("LRN", {"x": x}, opset=13, oracle=[lrn(x, **options)], **options)


def test_lrn_of_other_ranks_and_threads():
    for shape in [(1, 3, 9), (2, 70, 2, 3, 5), (1, 1, 4, 4), (0, 3, 2, 2)]:
        x = floats(*shape)
        for threads in (1, 2):
            proto = single.model("LRN", {"x": x}, opset=1, size=67)
            single.assert_same(single.run(proto, {"x": x}, num_threads=threads), [lrn(x, 67)])
    refuse("size is 0", "LRN", {"x": x}, opset=13, size=0)
    refuse('"size" is missing', "LRN", {"x": x}, opset=13)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("p", "axis"), [(1, 0), (2, 1), (2, -1), (1, 2)])
def test_lp_normalization(dtype, p, axis):
    x = floats(3, 5, 7, dtype=dtype)
    x[:, :, 3] = 0
    x[1] = 0
    wide = np.asarray(x, np.float64)
    norm = np.linalg.norm(wide, p, axis, keepdims=True)
    wanted = np.divide(wide, norm, out=np.zeros_like(wide), where=norm != 0).astype(dtype)
    single.check("LpNormalization", {"x": x}, opset=22, p=p, axis=axis, oracle=[wanted])
    refuse("p is 3", "LpNormalization", {"x": x}, opset=22, p=3)


def windows(x, kernel, strides, pads, dilations, fill):
    """All windows of the last axes, the elements of each in the last axis."""
    rank = len(kernel)
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)], constant_values=fill)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(padded, extents, tuple(range(2, 2 + rank)))
    view = view[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]
    view = view[(..., *(slice(None, None, d) for d in dilations))]
    return view.reshape(*view.shape[: 2 + rank], -1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "pads", "dilations"),
    [
        ((2, 3, 11), [3], [2], [1, 2], [2]),
        ((1, 17, 9, 13), [2, 3], [1, 2], [1, 0, 0, 2], [1, 2]),
        ((1, 2, 5, 6, 7), [2, 2, 3], [1, 2, 1], [0, 1, 1, 1, 0, 2], [1, 1, 1]),
    ],
)
def test_lp_pool(dtype, p, shape, kernel, strides, pads, dilations):
    x = floats(*shape, dtype=dtype)
    parts = windows(np.asarray(x, np.float64), kernel, strides, pads, dilations, 0)
    wanted = ((np.abs(parts) ** p).sum(-1) ** (1 / p)).astype(dtype)
    options = {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations}
    single.check("LpPool", {"x": x}, opset=22, p=p, oracle=[wanted], **options)
    whole = (np.abs(np.asarray(x, np.float64)) ** p).sum(tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)
    single.check("GlobalLpPool", {"x": x}, opset=22, p=p, oracle=[whole.astype(dtype)])


def test_lp_pool_of_the_first_opset():
    x = floats(1, 2, 6, 5)
    wanted = np.sqrt((windows(x, [2, 2], [1, 1], [0] * 4, [1, 1], 0) ** 2).sum(-1))
    single.check("LpPool", {"x": x}, opset=1, p=2.0, kernel_shape=[2, 2], oracle=[wanted])
    refuse("kernel_shape has 0", "LpPool", {"x": x}, opset=1)
    refuse("p is 0", "LpPool", {"x": x}, opset=22, p=0, kernel_shape=[2, 2])
    refuse("p is -1", "GlobalLpPool", {"x": x}, opset=22, p=-1)


# ---------------------------------------------------------------------- pooling
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_same_pooling_of_unknown_sizes(mode, op):
    node = helper.make_node(op, ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 2], auto_pad=mode)
    proto = models.model([node], [models.value("x", ["N", 17, "H", "W"])], [models.value("y", None)], opset=18)
    executor = make_compiler(proto).compile()
    for height, width in [(7, 9), (8, 8), (1, 1), (23, 50), (2, 5)]:
        x = floats(2, 17, height, width, seed=height)
        fixed = models.model([node], [models.value("x", x.shape)], [models.value("y", None)], opset=18)
        (actual,) = executor({"x": x}).values()
        single.assert_same([actual], models.expected(fixed, {"x": x}))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint8])
def test_max_pool_indices(order, dtype):
    x = (models.generator().permutation(2 * 3 * 7 * 9).reshape(2, 3, 7, 9) % 251).astype(dtype)
    options = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2], "ceil_mode": 1}
    proto = single.model("MaxPool", {"x": x}, opset=12, outputs=2, storage_order=order, **options)
    if dtype != np.float16:
        single.assert_same(single.run(proto, {"x": x}), models.expected(proto, {"x": x}))
    values, places = single.run(proto, {"x": x})
    plane = 7 * 9
    for n, c in itertools.product(range(2), range(3)):
        flat = x[n, c].reshape(-1) if order == 0 else x[n, c].T.reshape(-1)
        np.testing.assert_array_equal(flat[places[n, c] - (3 * n + c) * plane], values[n, c])


@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("shape", [(1, 2, 13), (2, 19, 11, 8), (1, 3, 5, 6, 7)])
def test_average_pool(ceil, include, shape):
    rank = len(shape) - 2
    options = {"kernel_shape": [3] * rank, "strides": [2] * rank, "pads": [1] * rank + [0] * rank}
    feeds = {"x": floats(*shape)}
    compare_with_onnxruntime("AveragePool", feeds, opset=11, ceil_mode=ceil, count_include_pad=include, **options)
    options["dilations"] = [2] * rank
    if rank < 3:
        compare_with_onnxruntime("AveragePool", feeds, opset=19, count_include_pad=include, **options)


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize("sizes", [(7, 7), ("H", "W")])
def test_pooling_windows_larger_than_the_input(op, sizes):
    # Rounded up there is one position; elements behind the pads are not counted.
    options = {"kernel_shape": [1280, 9], "strides": [1280, 4], "ceil_mode": 1, "pads": [0, 1, 0, 0]}
    if op == "AveragePool":
        options["count_include_pad"] = 1
    node = helper.make_node(op, ["x"], ["y"], **options)
    proto = models.model([node], [models.value("x", [1, 19, *sizes])], [models.value("y", None)], opset=18)
    x = floats(1, 19, 7, 7)
    wide = np.asarray(x, np.float64)
    wanted = {
        "AveragePool": wide.sum((2, 3), keepdims=True) / (7 * 8),
        "MaxPool": wide.max((2, 3), keepdims=True),
        "LpPool": np.sqrt((wide**2).sum((2, 3), keepdims=True)),
    }[op]
    single.assert_same(single.run(proto, {"x": x}), [wanted.astype(np.float32)])


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", [[5, 7], [6, 1280]])
def test_pooling_windows_of_the_whole_input(op, dtype, kernel):
    x = floats(2, 19, 5, 7, dtype=dtype)
    wide = np.asarray(x, np.float64)
    wanted = (wide.mean if op == "AveragePool" else wide.max)((2, 3), keepdims=True)
    options = {"kernel_shape": kernel, "strides": kernel, "ceil_mode": 1}
    single.check(op, {"x": x}, opset=22, oracle=[wanted.astype(dtype)], **options)


def test_pooling_windows_without_a_position_are_refused():
    x = floats(1, 1, 5, 5)
    for op in ("AveragePool", "MaxPool", "LpPool"):
        for options in ({"ceil_mode": 1, "strides": [1, 1]}, {"ceil_mode": 0, "strides": [9, 9]}):
            refuse("a window of 7 does not fit into 5", op, {"x": x}, opset=18, kernel_shape=[7, 7], **options)


def test_attributes_of_poolings_by_opset():
    x = floats(1, 1, 5, 5)
    refuse('unknown attribute "ceil_mode"', "AveragePool", {"x": x}, opset=9, kernel_shape=[2, 2], ceil_mode=1)
    refuse('unknown attribute "dilations"', "AveragePool", {"x": x}, opset=18, kernel_shape=[2, 2], dilations=[1, 1])
    refuse(
        'unknown attribute "count_include', "AveragePool", {"x": x}, opset=6, kernel_shape=[2, 2], count_include_pad=1
    )
    refuse('unknown attribute "storage_order"', "MaxPool", {"x": x}, opset=7, kernel_shape=[2, 2], storage_order=1)
    refuse("2 outputs, expected 1", "MaxPool", {"x": x}, opset=7, outputs=2, kernel_shape=[2, 2])
    refuse("is u8", "MaxPool", {"x": x.astype(np.uint8)}, opset=11, kernel_shape=[2, 2])


@pytest.mark.parametrize("dtype", FLOATS)
def test_max_unpool_undoes_max_pool(dtype):
    x = floats(2, 3, 8, 6, dtype=dtype)
    pool = single.model(
        "MaxPool", {"x": x.astype(np.float32)}, opset=12, outputs=2, kernel_shape=[2, 3], strides=[2, 3]
    )
    values, places = single.run(pool, {"x": x.astype(np.float32)})
    feeds = {"x": values.astype(dtype), "places": places}
    wanted = np.zeros(x.size, dtype)
    wanted[places.reshape(-1)] = feeds["x"].reshape(-1)
    options = {"opset": 22, "kernel_shape": [2, 3], "strides": [2, 3]}
    single.check("MaxUnpool", feeds, oracle=[wanted.reshape(x.shape)], **options)
    larger = np.zeros((2, 4, 9, 7), dtype)
    larger[:, :3, :8, :6] = wanted.reshape(x.shape)
    feeds["shape"] = np.array(larger.shape)
    single.check("MaxUnpool", feeds, constants=["shape"], oracle=[larger], **options)
    feeds["shape"] = np.array([2, 3, 7, 7])
    refuse("entry 7 for axis 2, expected at least 8", "MaxUnpool", feeds, constants=["shape"], **options)


def test_max_unpool_checks_places():
    feeds = {"x": floats(1, 1, 2, 2), "places": np.array([[[[0, 5], [-1, 3]]]])}
    with pytest.raises(InvalidInput, match=r"index -1 \(at position 2\) is outside of 16"):
        single.run(single.model("MaxUnpool", feeds, opset=11, kernel_shape=[2, 2], strides=[2, 2]), feeds)


# ---------------------------------------------------------------------- sampling
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 2, 3, 4, 5), (1, 2, 6)])
def test_grid_sample(mode, padding, align, shape):
    rank = len(shape) - 2
    if rank == 3 and mode == "cubic":
        shape = (1, 1, 3, 2, 3)
    if mode == "cubic" and padding == "border":
        pytest.skip("onnx.reference moves the position, not the elements; compared with onnxruntime")
    grid = models.generator(3).uniform(-1.7, 1.7, (shape[0], *[3, 2, 4][:rank], rank)).astype(np.float32)
    single.check(
        "GridSample",
        {"x": floats(*shape), "grid": grid},
        opset=20,
        mode=mode,
        padding_mode=padding,
        align_corners=align,
        steps=256,  # the place is rounded at 2^3, the weights of its distance are as wrong; cubic ones are up to 4
    )


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_16_by_onnxruntime(mode, padding):
    grid = models.generator(4).uniform(-1.3, 1.3, (2, 29, 31, 2)).astype(np.float32)
    feeds = {"x": floats(2, 5, 17, 23), "grid": grid}
    compare_with_onnxruntime("GridSample", feeds, opset=16, mode=mode, padding_mode=padding, steps=512)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.uint8])
def test_grid_sample_types(dtype):
    x = (floats(1, 3, 5, 7) * 40).astype(dtype)
    grid = models.generator(5).uniform(-1.2, 1.2, (1, 4, 6, 2)).astype(np.float32)
    wide = single.run(
        single.model("GridSample", {"x": x.astype(np.float64), "grid": grid}, opset=20),
        {
            "x": x.astype(np.float64),
            "grid": grid,
        },
    )
    wanted = np.trunc(wide[0]) if np.dtype(dtype).kind in "iu" else wide[0]
    single.check("GridSample", {"x": x, "grid": grid}, opset=20, oracle=[wanted.astype(dtype)])
    nearest = single.run(
        single.model("GridSample", {"x": x, "grid": grid}, opset=20, mode="nearest"), {"x": x, "grid": grid}
    )
    assert np.isin(nearest[0].astype(np.float64), [0, *x.astype(np.float64).reshape(-1)]).all()


def test_grid_sample_at_absurd_places():
    grid = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3e38, 1e-40, 0], np.float32).reshape(1, 2, 2, 2)
    x = floats(1, 2, 3, 4)
    for padding, mode, align in itertools.product(
        ["zeros", "border", "reflection"], ["linear", "nearest", "cubic"], [0, 1]
    ):
        feeds = {"x": x, "grid": grid}
        options = {"padding_mode": padding, "mode": mode, "align_corners": align}
        (y,) = single.run(single.model("GridSample", feeds, opset=20, **options), feeds)
        assert np.isfinite(y).all()
        if padding == "zeros":
            assert (y[..., 0, 1] == 0).all()


def test_grid_sample_refusals():
    x, grid = floats(1, 2, 3, 4), floats(1, 2, 2, 2)
    refuse("expected one of: linear, nearest, cubic", "GridSample", {"x": x, "grid": grid}, opset=20, mode="bilinear")
    refuse("expected one of: bilinear", "GridSample", {"x": x, "grid": grid}, opset=16, mode="linear")
    refuse("padding_mode", "GridSample", {"x": x, "grid": grid}, opset=16, padding_mode="wrap")
    refuse("number of coordinates is 3", "GridSample", {"x": x, "grid": floats(1, 2, 2, 3)}, opset=20)
    refuse("batch size of the grid", "GridSample", {"x": x, "grid": floats(2, 2, 2, 2)}, opset=20)
    refuse("axes, expected 4", "GridSample", {"x": floats(1, 2, 3, 4, 5), "grid": floats(1, 2, 2, 2, 3)}, opset=16)
    refuse("is empty", "GridSample", {"x": floats(1, 2, 0, 4), "grid": grid}, opset=20)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 5, 7), (1, 2, 3, 4, 5), (3, 1, 2, 6)])
def test_affine_grid(dtype, align, size):
    axes = len(size) - 2
    theta = floats(size[0], axes, axes + 1, dtype=dtype)
    at = []
    for n in size[2:]:
        i = np.arange(n)
        at.append(2 * i / (n - 1) - 1 if align else (2 * i + 1 - n) / n)
    base = np.stack([*reversed(np.meshgrid(*at, indexing="ij")), np.ones(size[2:])], -1)
    wanted = np.einsum("nij,...j->n...i", theta.astype(np.float64), base).astype(dtype)
    feeds = {"theta": theta, "size": np.array(size)}
    single.check("AffineGrid", feeds, opset=20, constants=["size"], align_corners=align, oracle=[wanted])
    feeds["size"] = np.array(size[1:])
    refuse("expected", "AffineGrid", feeds, opset=20, constants=["size"])


@pytest.mark.parametrize("dtype", FLOATS[:3])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("place", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 2])
def test_roi_align(dtype, mode, place, ratio):
    x = floats(2, 35, 11, 13, dtype=dtype)
    rois = np.array([[1, 2, 20, 15], [0, 0, 3, 3], [-4, -4, 2, 30], [30, 30, 40, 40], [5, 5, 4, 3]], dtype)
    feeds = {"x": x, "rois": rois, "batch": np.array([0, 1, 1, 0, 1])}
    options = {"mode": mode, "sampling_ratio": ratio, "output_height": 3, "output_width": 5, "spatial_scale": 0.5}
    exact = np.float64 if dtype == np.float64 else np.float32
    wide = {name: array if name == "batch" else array.astype(exact) for name, array in feeds.items()}
    proto = single.model("RoiAlign", wide, opset=16, coordinate_transformation_mode=place, **options)
    wanted = [array.astype(dtype) for array in single.reference(proto, wide)]
    single.check("RoiAlign", feeds, opset=16, coordinate_transformation_mode=place, oracle=wanted, steps=64, **options)
    if dtype == np.float32 and place == "output_half_pixel":
        compare_with_onnxruntime("RoiAlign", feeds, opset=10, steps=64, **options)


def test_roi_align_checks_its_inputs():
    feeds = {"x": floats(2, 3, 8, 8), "rois": floats(2, 4), "batch": np.array([0, 2])}
    with pytest.raises(InvalidInput, match=r"index 2 \(at position 1\)"):
        single.run(single.model("RoiAlign", feeds, opset=16), feeds)
    feeds |= {"rois": np.float32([[0, 0, 1e30, 1e30], [0, 0, 1, 1]]), "batch": np.array([0, 1])}
    with pytest.raises(InvalidInput, match="bins of"):
        single.run(single.model("RoiAlign", feeds, opset=16), feeds)
    refuse("mode is", "RoiAlign", feeds, opset=16, mode="sum")
    refuse("sampling_ratio is -1", "RoiAlign", feeds, opset=16, sampling_ratio=-1)
    refuse("number of batch indices", "RoiAlign", {**feeds, "batch": np.array([0])}, opset=16)
    refuse("unknown attribute", "RoiAlign", feeds, opset=10, coordinate_transformation_mode="half_pixel")


def test_max_roi_pool():
    rois = np.float32([[0, 1, 2, 20, 15], [1, 0, 0, 3, 3], [1, 8, 2, 9, 13], [0, 6, 6, 6, 6]])
    feeds = {"x": floats(2, 5, 11, 13), "rois": rois}
    compare_with_onnxruntime("MaxRoiPool", feeds, opset=1, pooled_shape=[3, 2], spatial_scale=0.5, steps=0)
    feeds["rois"] = np.float32([[2, 0, 0, 1, 1]])
    with pytest.raises(InvalidInput, match="index 2"):
        single.run(single.model("MaxRoiPool", feeds, opset=1, pooled_shape=[3, 2]), feeds)
    refuse("pooled_shape has 1", "MaxRoiPool", feeds, opset=1, pooled_shape=[3])


# ---------------------------------------------------------------------- columns
@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.uint8])
@pytest.mark.parametrize(
    ("image", "block", "strides", "pads", "dilations"),
    [
        ([9], [3], [2], [1, 1], [2]),
        ([5, 7], [2, 3], [1, 1], [0] * 4, [1, 1]),
        ([8, 7], [3, 2], [2, 3], [1, 0, 2, 1], [1, 2]),
        ([3, 4, 5], [2, 2, 2], [1, 2, 1], [0, 1, 0, 1, 0, 1], [1, 1, 2]),
    ],
)
def test_col2im(dtype, image, block, strides, pads, dilations):
    rank = len(image)
    places = 1
    for i in range(rank):
        span = image[i] + pads[i] + pads[i + rank] - dilations[i] * (block[i] - 1) - 1
        places *= span // strides[i] + 1
    x = (floats(2, 3 * int(np.prod(block)), places) * 9).astype(dtype)
    feeds = {"x": x, "image": np.array(image), "block": np.array(block)}
    options = {"strides": strides, "pads": pads, "dilations": dilations, "constants": ["image", "block"], "opset": 18}
    wide = {**feeds, "x": x.astype(np.int64 if np.dtype(dtype).kind in "iu" else np.float64)}
    wanted = single.reference(single.model("Col2Im", wide, **options), wide)[0].astype(dtype)
    single.check("Col2Im", feeds, oracle=[wanted], **options)


def test_col2im_refusals():
    feeds = {"x": floats(1, 4, 9), "image": np.array([4, 4]), "block": np.array([2, 2])}
    refuse("multiple of the 6", "Col2Im", {**feeds, "block": np.array([2, 3])}, opset=18, constants=["image", "block"])
    refuse("number of blocks is 9, expected 16", "Col2Im", {**feeds, "image": np.array([5, 5])}, opset=18,
           constants=["image", "block"])  # fmt: skip
    refuse("equal numbers", "Col2Im", {**feeds, "image": np.array([5])}, opset=18, constants=["image", "block"])


def deform(x, w, offset, bias, mask, group, offset_group, strides, pads, dilations):
    n, channels, height, width = x.shape
    filters, depth, kh, kw = w.shape
    oh, ow = offset.shape[2:]
    offset = offset.reshape(n, offset_group, kh, kw, 2, oh, ow)
    mask = np.ones((n, offset_group, kh, kw, oh, ow)) if mask is None else mask.reshape(n, offset_group, kh, kw, oh, ow)
    y = np.zeros((n, filters, oh, ow))
    for b, m, i, j in itertools.product(range(n), range(filters), range(oh), range(ow)):
        for c, u, v in itertools.product(range(depth), range(kh), range(kw)):
            channel = m // (filters // group) * depth + c
            g = channel // (channels // offset_group)
            row = i * strides[0] - pads[0] + u * dilations[0] + offset[b, g, u, v, 0, i, j]
            column = j * strides[1] - pads[1] + v * dilations[1] + offset[b, g, u, v, 1, i, j]
            r, k = int(np.floor(row)), int(np.floor(column))
            value = 0.0
            for dr, dk in itertools.product((0, 1), (0, 1)):
                if 0 <= r + dr < height and 0 <= k + dk < width:
                    share = (1 - abs(row - r - dr)) * (1 - abs(column - k - dk))
                    value += share * x[b, channel, r + dr, k + dk]
            y[b, m, i, j] += value * w[m, c, u, v] * mask[b, g, u, v, i, j]
    return y if bias is None else y + bias.reshape(-1, 1, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("group", "offset_group"), [(1, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize("full", [False, True])
def test_deform_conv(dtype, group, offset_group, full):
    strides, pads, dilations = [2, 1], [1, 0, 2, 1], [1, 2]
    x, w = floats(2, 6, 7, 8, dtype=dtype), floats(6, 6 // group, 3, 2, seed=1, dtype=dtype)
    oh, ow = (7 + 3 - 3) // 2 + 1, 8 + 1 - 3 + 1
    offset = floats(2, offset_group * 12, oh, ow, seed=2, dtype=dtype) * dtype(2)
    feeds = {"x": x, "w": w, "offset": offset}
    if full:
        feeds |= {
            "bias": floats(6, seed=3, dtype=dtype),
            "mask": floats(2, offset_group * 6, oh, ow, seed=4, dtype=dtype),
        }
    wide = [feeds[name].astype(np.float64) if name in feeds else None for name in ("x", "w", "offset", "bias", "mask")]
    wanted = deform(*wide, group, offset_group, strides, pads, dilations).astype(dtype)
    options = {"group": group, "offset_group": offset_group, "strides": strides, "pads": pads, "dilations": dilations}
    single.check("DeformConv", feeds, opset=19, oracle=[wanted], steps=32, **options)
    refuse(
        "size 1 of the offsets", "DeformConv", feeds, opset=19, **{**options, "offset_group": 1 + offset_group % 2 * 5}
    )


def test_deform_conv_at_absurd_places():
    offset = np.full((1, 8, 2, 2), np.nan, np.float32)
    offset[0, 2:4], offset[0, 4:6] = np.inf, -1e30
    feeds = {"x": floats(1, 1, 3, 3), "w": floats(1, 1, 2, 2), "offset": offset}
    (y,) = single.run(single.model("DeformConv", feeds, opset=19), feeds)
    assert np.isfinite(y).all()


# ---------------------------------------------------------------------- matrices, sequences, crops
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 3, 4, 4), (0, 3, 3), (3, 0, 0)])
def test_det_and_inverse(dtype, shape):
    x = floats(*shape, dtype=dtype)
    wide = np.asarray(x, np.float64)
    single.check("Det", {"x": x}, opset=22, oracle=[np.asarray(np.linalg.det(wide)).astype(dtype)])
    inverse = np.linalg.inv(wide).astype(dtype)
    single.check("Inverse", {"x": x}, opset=17, domain="com.microsoft", oracle=[inverse], steps=64)


def test_singular_and_oblong_matrices():
    x = np.float32([[1, 2], [2, 4]])
    single.check("Det", {"x": x}, opset=11, oracle=[np.float32(0).reshape(())])
    assert not np.isfinite(
        single.run(single.model("Inverse", {"x": x}, opset=17, domain="com.microsoft"), {"x": x})
    ).any()
    refuse("number of columns is 3, expected 2", "Det", {"x": floats(2, 3)}, opset=11)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float16, np.int64, np.bool_])
@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
def test_reverse_sequence(dtype, time, batch):
    x = (floats(5, 4, 3) * 50).astype(dtype)
    feeds = {"x": x, "lengths": models.generator().integers(0, x.shape[time] + 1, x.shape[batch])}
    single.check("ReverseSequence", feeds, opset=10, time_axis=time, batch_axis=batch)
    feeds["lengths"][1] = 6
    with pytest.raises(InvalidInput, match=r"length 6 \(at position 1\)"):
        single.run(single.model("ReverseSequence", feeds, opset=10, time_axis=time, batch_axis=batch), feeds)
    refuse("time_axis and batch_axis are 0 and 0", "ReverseSequence", feeds, opset=10, time_axis=0, batch_axis=0)


@pytest.mark.parametrize("shape", [(3, 9, 8), (6, 4, 7), (6, 9, 2), (5, 7, 8), (5, 4, 11)])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_])
def test_center_crop_pad(shape, dtype):
    feeds = {"x": (floats(5, 7, 8) * 9).astype(dtype), "shape": np.array(shape)}
    single.check("CenterCropPad", feeds, opset=18, constants=["shape"])
    for axes in ([0, 2], [-1, 0], [1]):
        feeds["shape"] = np.array([shape[axis] for axis in axes])
        single.check("CenterCropPad", feeds, opset=18, constants=["shape"], axes=axes)
    refuse("expected one for each", "CenterCropPad", feeds, opset=18, constants=["shape"], axes=[0, 1])


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("op", ["SpaceToDepth", "DepthToSpace"])
def test_blocks(op, mode):
    x = floats(2, 18, 6, 9) if op == "DepthToSpace" else floats(2, 5, 6, 9)
    single.check(op, {"x": x}, opset=28, blocksize=3, mode=mode, steps=0)
    refuse("mode is", op, {"x": x}, opset=28, blocksize=3, mode="XYZ")
    if op == "SpaceToDepth":
        refuse("unknown attribute", op, {"x": x}, opset=27, blocksize=3, mode=mode)


# ---------------------------------------------------------------------- normalisation
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_layer_normalization_statistics(dtype, axis):
    x = floats(3, 5, 7, dtype=dtype)
    scale = floats(*x.shape[axis:], seed=1, dtype=dtype)
    axes = tuple(range(axis % 3, 3))
    wide = np.asarray(x, np.float64)
    mean, variance = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    y = (wide - mean) / np.sqrt(variance + EPSILON) * scale.astype(np.float64)
    wanted = [y.astype(dtype), mean.astype(np.float32), (1 / np.sqrt(variance + EPSILON)).astype(np.float32)]
    options = {"opset": 17, "axis": axis, "epsilon": EPSILON}
    for outputs in (1, 2, 3):
        single.check("LayerNormalization", {"x": x, "s": scale}, outputs=outputs, oracle=wanted[:outputs], **options)


@pytest.mark.parametrize("shape", [(3, 1, 7), (5, 7), (1,), (3, 5, 7), (1, 1, 7), ()])
def test_layer_normalization_broadcasts_its_parameters(shape):
    x, scale, bias = floats(3, 5, 7), floats(*shape, seed=1), floats(*shape, seed=2)
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    feeds = {"x": x, "s": scale, "b": bias}
    single.check("LayerNormalization", feeds, opset=17, oracle=[normal * scale + bias], steps=16)
    refuse("cannot be broadcast", "LayerNormalization", {**feeds, "s": floats(3)}, opset=17)


@pytest.mark.parametrize(("data", "parameter"), list(itertools.product(FLOATS, FLOATS)))
def test_rms_normalization_of_mixed_types(data, parameter):
    x, scale = floats(4, 9, dtype=data), floats(9, seed=1, dtype=parameter)
    wide = np.asarray(x, np.float64)
    wanted = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + EPSILON) * scale.astype(np.float64)
    single.check("RMSNormalization", {"x": x, "s": scale}, opset=23, epsilon=EPSILON, oracle=[wanted.astype(parameter)])


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization(opset):
    x = floats(2, 6, 5, 3)
    count = 3 if opset == 18 else 6
    scale, bias = floats(count, seed=1), floats(count, seed=2)
    parts = x.reshape(2, 3, -1).astype(np.float64)
    normal = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
    s, b = (part.repeat(6 // count).reshape(6, 1, 1) for part in (scale, bias))
    wanted = (normal.reshape(x.shape) * s + b).astype(np.float32)
    single.check("GroupNormalization", {"x": x, "s": scale, "b": bias}, opset=opset, num_groups=3, oracle=[wanted])
    refuse("not divisible", "GroupNormalization", {"x": x, "s": scale, "b": bias}, opset=opset, num_groups=4)


# ---------------------------------------------------------------------- rows, channels last
@pytest.mark.parametrize("opset", [1, 11, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, 3])
def test_rows_of_old_opsets(opset, axis):
    if opset == 13 and axis == 3:
        return
    x = floats(2, 3, 5)
    start = (1 if opset < 13 else 2) if axis is None else axis % 3 if axis != 3 else 3
    rows = x.reshape(*x.shape[:start], -1) if opset < 13 else np.moveaxis(x, start, -1)
    shifted = np.exp(rows - rows.max(-1, keepdims=True))
    wanted = {
        "Hardmax": (np.arange(rows.shape[-1]) == rows.argmax(-1)[..., None]).astype(np.float32),
        "Softmax": shifted / shifted.sum(-1, keepdims=True),
        "LogSoftmax": np.log(shifted / shifted.sum(-1, keepdims=True)),
    }
    options = {} if axis is None else {"axis": axis}
    for op, y in wanted.items():
        y = y.reshape(x.shape) if opset < 13 else np.moveaxis(y, -1, start)
        single.check(op, {"x": x}, opset=opset, oracle=[y], **options)
    refuse("axis 4", "Hardmax", {"x": x}, opset=opset, axis=4)


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("shape", [(2, 7, 9, 6), (1, 11, 6)])
def test_convolution_with_channels_last(group, shape):
    rank = len(shape) - 2
    x, w, b = floats(*shape), floats(9, *[3] * rank, 6 // group, seed=1), floats(9, seed=2)
    options = {"group": group, "strides": [2] * rank, "pads": [1] * rank + [0] * rank}
    first = {"x": np.moveaxis(x, -1, 1), "w": np.moveaxis(w, -1, 1), "b": b}
    wanted = np.moveaxis(single.reference(single.model("Conv", first, opset=11, **options), first)[0], 1, -1)
    feeds = {"x": x, "w": w, "b": b}
    single.check("NhwcConv", feeds, opset=17, domain="com.microsoft", oracle=[wanted], steps=32, **options)
    feeds["w"] = np.moveaxis(w, -1, 1)
    refuse("number of", "NhwcConv", feeds, opset=17, domain="com.microsoft", **options)


def test_grid_sample_of_com_microsoft():
    feeds = {"x": floats(1, 2, 5, 6), "grid": floats(1, 3, 4, 2)}
    wanted = single.run(single.model("GridSample", feeds, opset=16), feeds)
    single.check("GridSample", feeds, opset=17, domain="com.microsoft", mode="bilinear", oracle=wanted)
