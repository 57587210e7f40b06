"""Opsets 1 to 6: attributes that later became inputs, and broadcasting before numpy's rules."""

import numpy as np
import pytest

from tests import single
from tests.single import floats, refuse


@pytest.mark.parametrize("opset", [1, 5, 6])
@pytest.mark.parametrize(
    ("b", "axis", "aligned"),
    [
        ((3, 5, 7), None, (3, 5, 7)),
        ((7,), None, (7,)),
        ((5, 7), None, (5, 7)),
        ((5, 7), -1, (5, 7)),
        ((3,), 0, (3, 1, 1)),
        ((3, 5), 0, (3, 5, 1)),
        ((5,), 1, (5, 1)),
        ((5,), -2, (5, 1)),
        ((3, 1), 0, (3, 1, 1)),
        ((), None, ()),
        ((1,), None, (1,)),
    ],
)
def test_broadcast_along_an_axis(opset, b, axis, aligned):
    x, y = floats(3, 5, 7), floats(*b, seed=1)
    options = {} if axis is None else {"axis": axis}
    wanted = x - y.reshape(aligned)
    single.check("Sub", {"x": x, "y": y}, opset=opset, broadcast=1, oracle=[wanted], steps=1, **options)


@pytest.mark.parametrize(
    ("op", "function"),
    [("Add", np.add), ("Mul", np.multiply), ("Div", np.divide), ("Less", np.less), ("Greater", np.greater)],
)
def test_every_old_binary_operator(op, function):
    x, y = floats(4, 9), floats(4, 9, seed=1)
    single.check(op, {"x": x, "y": y}, opset=6, oracle=[function(x, y)], steps=1)
    single.check(op, {"x": x, "y": y[0]}, opset=6, broadcast=1, oracle=[function(x, y[0])], steps=1)


@pytest.mark.parametrize("op", ["And", "Or", "Xor", "Equal"])
def test_old_logic(op):
    x, y = floats(4, 9) > 0, floats(4, 9, seed=1) > 0
    function = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal}[op]
    single.check(op, {"x": x, "y": y[:, 0]}, opset=1, broadcast=1, axis=0, oracle=[function(x, y[:, :1])])


def test_refused_broadcasts():
    x = floats(3, 5)
    refuse("without broadcast they must be equal", "Add", {"x": x, "y": floats(5)}, opset=6)
    refuse("do not fit", "Add", {"x": x, "y": floats(5, 3)}, opset=6, broadcast=1, axis=1)
    refuse("out of range", "Add", {"x": x, "y": floats(5)}, opset=6, broadcast=1, axis=2)
    refuse("must be a part of A", "Add", {"x": floats(5), "y": x}, opset=6, broadcast=1)
    refuse("unknown attribute", "Add", {"x": x, "y": x}, opset=7, broadcast=1)
    refuse("unknown attribute", "Relu", {"x": x}, opset=6, consumed_inputs=[0])


def test_consumed_inputs_are_ignored():
    x = floats(3, 5)
    single.check("Relu", {"x": x}, opset=5, consumed_inputs=[0], oracle=[np.maximum(x, 0)])


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_prelu_has_one_slope_for_each_channel(shape):
    x, slope = floats(*shape), floats(3, seed=1)
    along = slope.reshape(3, *[1] * (len(shape) - 2))
    single.check("PRelu", {"x": x, "slope": slope}, opset=6, oracle=[np.where(x < 0, x * along, x)], steps=1)
    refuse("7", "PRelu", {"x": x, "slope": floats(7)}, opset=6)


def test_cast_to_a_name():
    x = floats(3, 5) * 9
    single.check("Cast", {"x": x}, opset=1, to="INT32", oracle=[x.astype(np.int32)])
    single.check("Cast", {"x": x}, opset=5, to="DOUBLE", oracle=[x.astype(np.float64)])
    refuse('"INT33" does not exist', "Cast", {"x": x}, opset=5, to="INT33")


def test_attributes_that_became_inputs():
    x = floats(2, 3, 4)
    single.check("Reshape", {"x": x}, opset=4, shape=[0, -1], oracle=[x.reshape(2, 12)])
    single.check("Pad", {"x": x}, opset=1, paddings=[0, 1, 0, 0, 0, 2], oracle=[np.pad(x, [(0, 0), (1, 0), (0, 2)])])
    single.check("Concat", {"x": x, "y": x}, opset=3, oracle=[np.concatenate([x, x], 1)])
    single.check("Split", {"x": x}, opset=1, axis=2, split=[1, 3], outputs=2, oracle=np.split(x, [1], 2))
    tiles = {"x": x, "tiles": np.float32([3]), "axis": np.float32([1])}
    single.check("Tile", tiles, opset=5, constants=["tiles", "axis"], oracle=[np.tile(x, (1, 3, 1))])
    single.check("Dropout", {"x": x}, opset=6, is_test=1, outputs=2, oracle=[x, np.ones_like(x)])
    image = floats(1, 2, 3, 4)
    doubled = image.repeat(2, 2).repeat(3, 3)
    single.check("Upsample", {"x": image}, opset=6, height_scale=2.0, width_scale=3.0, oracle=[doubled])


@pytest.mark.parametrize("shape", [(5,), (1,), (3, 5), (1, 5)])
def test_gemm_broadcasts_on_request(shape):
    a, b, c = floats(3, 4), floats(4, 5, seed=1), floats(*shape, seed=2)
    single.check("Gemm", {"a": a, "b": b, "c": c}, opset=6, broadcast=1, oracle=[a @ b + c])
    if len(shape) == 1:
        refuse("cannot be broadcast", "Gemm", {"a": a, "b": b, "c": c}, opset=6)


@pytest.mark.parametrize("opset", [6, 7, 9, 14, 15])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (3, 3, 4, 7)])
def test_batch_normalization(opset, training, shape):
    x, scale, bias, mean = floats(*shape), floats(3, seed=1), floats(3, seed=2), floats(3, seed=3)
    variance = floats(3, seed=4) ** 2 + 0.5
    options, outputs = {}, 1
    if opset < 7:
        options, outputs = {"is_test": int(not training)}, 5 if training else 1
    elif opset < 14:
        outputs = 5 if training else 1
    else:
        options, outputs = {"training_mode": int(training)}, 3 if training else 1
    momentum, epsilon = 0.7, 1e-3
    axes = tuple(i for i in range(x.ndim) if i != 1)
    used = (x.mean(axes, np.float64), x.var(axes, np.float64)) if training else (mean, variance)
    along = [part.reshape(3, *[1] * (x.ndim - 2)) for part in (scale, bias, *used)]
    wanted = [(x - along[2]) / np.sqrt(along[3] + epsilon) * along[0] + along[1]]
    wanted += [old * momentum + new * (1 - momentum) for old, new in zip((mean, variance), used, strict=True)]
    wanted = [part.astype(np.float32) for part in (*wanted, *used)][:outputs]
    feeds = {"x": x, "scale": scale, "bias": bias, "mean": mean, "variance": variance}
    for constants in ((), ("scale", "bias", "mean", "variance")):
        single.check(
            "BatchNormalization",
            feeds,
            opset=opset,
            constants=constants,
            outputs=outputs,
            epsilon=epsilon,
            momentum=momentum,
            oracle=wanted,
            steps=16,
            **options,
        )


def test_batch_normalization_of_unknown_channels():
    feeds = {"x": floats(2, 3, 4, 5), **{name: floats(3, seed=i) ** 2 + 0.1 for i, name in enumerate("sbmv")}}
    proto = single.model("BatchNormalization", feeds, opset=15, constants=list("sbmv"))
    for i, name in enumerate(("N", "C", "H", "W")):
        proto.graph.input[0].type.tensor_type.shape.dim[i].dim_param = name
    along = {name: feeds[name].reshape(3, 1, 1) for name in "sbmv"}
    wanted = (feeds["x"] - along["m"]) / np.sqrt(along["v"] + 1e-5) * along["s"] + along["b"]
    single.assert_same(single.run(proto, feeds), [wanted], 32)


def test_batch_normalization_of_single_activations():
    x = floats(4, 3, 5)
    feeds = {"x": x, **{name: floats(3, 5, seed=i) ** 2 + 0.1 for i, name in enumerate(("s", "b", "m", "v"))}}
    wanted = (x - feeds["m"]) / np.sqrt(feeds["v"] + 1e-5) * feeds["s"] + feeds["b"]
    single.check("BatchNormalization", feeds, opset=8, spatial=0, oracle=[wanted], steps=64)
    refuse("1 axis|axes, expected 2", "BatchNormalization", {**feeds, "s": feeds["s"][0]}, opset=8, spatial=0)


@pytest.mark.parametrize(("size", "count"), [(5, 4), (7, 3), (8, 3), (6, 3), (3, 4), (0, 2), (5, 2)])
def test_split_into_equal_parts(size, count):
    x = floats(2, size)
    single.check("Split", {"x": x}, opset=18, axis=1, num_outputs=count, outputs=count)
    if size % count:
        refuse("cannot be split", "Split", {"x": x}, opset=13, axis=1, outputs=count)


def test_experimental_operators():
    x = floats(2, 3, 5, 7)
    parameters = {"alpha": 1.5, "beta": 0.25}
    single.check("Affine", {"x": x}, opset=6, oracle=[x * 1.5 + 0.25], **parameters)
    single.check("ScaledTanh", {"x": x}, opset=6, oracle=[1.5 * np.tanh(0.25 * x)], **parameters)
    single.check("ParametricSoftplus", {"x": x}, opset=6, oracle=[1.5 * np.log1p(np.exp(0.25 * x))], **parameters)
    single.check("Scale", {"x": x}, opset=6, scale=0.5, oracle=[x / 2])
    bias = np.float32([1, -2, 3])
    scaled = x * np.float32(0.5) + bias.reshape(3, 1, 1)
    single.check("ImageScaler", {"x": x}, opset=7, scale=0.5, bias=list(bias), oracle=[scaled])
    single.check("Crop", {"x": x}, opset=7, border=[1, 2, 3, 0], oracle=[x[:, :, 2:5, 1:4]])
    single.check("Crop", {"x": x}, opset=7, border=[1, 2, 0, 0], scale=[2, 4], oracle=[x[:, :, 2:4, 1:5]])
    refuse("a crop by 5 and 4 of 7", "Crop", {"x": x}, opset=7, border=[5, 0, 4, 0])
    refuse("entries of bias is 2, expected 3", "ImageScaler", {"x": x}, opset=7, bias=[1.0, 2.0])


@pytest.mark.parametrize("across", [0, 1])
@pytest.mark.parametrize("variance", [0, 1])
def test_mean_variance_normalization_with_flags(across, variance):
    x = floats(2, 3, 5, 7) + 3
    axes = (0, 1, 2, 3) if across else (0, 2, 3)
    wanted = x - x.mean(axes, keepdims=True)
    if variance:
        wanted = wanted / x.std(axes, keepdims=True)
    options = {"across_channels": across, "normalize_variance": variance}
    single.check("MeanVarianceNormalization", {"x": x}, opset=8, oracle=[wanted], steps=32, **options)


def test_dynamic_slice():
    feeds = {"x": floats(5, 6, 7), "starts": np.array([1, -3]), "ends": np.array([4, 99]), "axes": np.array([0, 2])}
    wanted = feeds["x"][1:4, :, -3:]
    single.check("DynamicSlice", feeds, opset=9, constants=["starts", "ends", "axes"], oracle=[wanted])


def test_output_shape_with_batch_and_channels():
    feeds = {"x": floats(1, 2, 3, 3), "w": floats(2, 4, 3, 3, seed=1)}
    options = {"opset": 8, "strides": [3, 2]}
    wanted = single.run(single.model("ConvTranspose", feeds, output_shape=[9, 7], **options), feeds)
    single.check("ConvTranspose", feeds, output_shape=[1, 4, 9, 7], oracle=wanted, **options)
    refuse("output_shape has 3 entries, expected 2", "ConvTranspose", feeds, output_shape=[4, 9, 7], **options)
