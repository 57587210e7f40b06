"""Models that pnnx wrote give torch's results, at the sizes they were written with and at others."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import refactor_graph as rg
from refactor_graph.pnnx import check, make_compiler, supported_operators

torch = pytest.importorskip("torch")
if not (Path(sys.executable).parent / "pnnx").exists() and not shutil.which("pnnx"):
    pytest.skip("the pnnx program is not installed", allow_module_level=True)

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from tests import pnnx_models as zoo  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, while it traces

# Sums of a few hundred terms of size 1 in another order: sqrt(n) eps each.
TOLERANCE = {"rtol": 1e-4, "atol": 2e-5}


def assert_close(actual, expected):
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(actual, expected, **TOLERANCE)


def compare(module, folder, *inputs):
    """Exports with the sizes of the first two inputs and compares for all."""
    stem = zoo.export(module, folder, inputs[0], inputs[1] if len(inputs) > 1 else None)
    executor = make_compiler(f"{stem}.pnnx.param").compile("cpu", num_threads=1)
    for arrays in inputs:
        actual, expected = executor(*[t.numpy() for t in arrays]).values(), zoo.flat(module(*arrays))
        assert len(actual) == len(expected)
        for pair in zip(actual, expected, strict=True):
            assert_close(*pair)


MODELS = {
    "residual": (zoo.Residual, [zoo.pick((2, 3, 33, 41)), zoo.pick((3, 3, 48, 32)), zoo.pick((1, 3, 37, 29))]),
    "unet": (zoo.UNet, [zoo.pick((1, 1, 12, 16)), zoo.pick((2, 1, 18, 10)), zoo.pick((3, 1, 6, 8))]),
    "vision": (zoo.Vision, [zoo.pick((2, 3, 16, 20)), zoo.pick((1, 3, 24, 8)), zoo.pick((3, 3, 12, 12))]),
    "text": (zoo.Text, [zoo.ids(2, 9), zoo.ids(1, 14), zoo.ids(3, 5)]),
    "speech": (zoo.Speech, [zoo.pick((2, 6, 15)), zoo.pick((1, 6, 24)), zoo.pick((3, 6, 7))]),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_at_several_sizes(name, tmp_path):
    make, inputs = MODELS[name]
    compare(zoo.randomize(make(), 3), tmp_path, *inputs)


def _arithmetic(x, y):
    n, s = x.size(0), x.size(1)
    return (
        (x * 2 + y) / s - n,
        torch.sqrt(x * x + 1) * n,
        torch.zeros(n * s, 2) + y[0],
        x.reshape(n, s * x.size(2)),
        x[:, : s // 2],
        x[:, 1 : s - 1],
        torch.arange(s) * 2,
        x.view(n, -1)[:, : s * 2],
        torch.fmod(x, y),
        torch.remainder(x, y),
        torch.atan2(x, y),
        torch.floor_divide(x, y.abs() + 0.5),
        torch.logaddexp(x, y),
        x.pow(3) - torch.exp(-x),
        torch.log1p(x.abs()),
        torch.expm1(x),
        torch.trunc(x * 3),
    )


def test_expressions_of_tensors_and_sizes(tmp_path):
    compare(zoo.Function(_arithmetic), tmp_path, zoo.pick((2, 3, 4), (4,)), zoo.pick((3, 5, 6), (6,)))


def _integers(x, y):
    y = y.abs() + 1
    return (
        x // y,
        x % y,
        x / y,
        x & y,
        x | y,
        x ^ y,
        ~x,
        x << (y & 3),
        x >> 1,
        x + 1.5,
        x**2,
        x > y,
        torch.sum(x),
        torch.sum(x > 0),
        torch.maximum(x, y),
        torch.cumsum(x, 1),
    )


def test_types_are_promoted_as_torch_does(tmp_path):
    compare(zoo.Function(_integers), tmp_path, tuple(t - 15 for t in zoo.ids(2, 3) + zoo.ids(3)))


def _rearranged(x):
    b, c, h, w = x.shape
    return (
        x.permute(0, 2, 3, 1),
        x.flatten(1),
        x.unsqueeze(1).squeeze(1),
        x[:, 1],
        x[..., -1],
        x[:, :, -2:],
        x.repeat(1, 2, 1, 1),
        x.chunk(3, 1)[1],
        torch.split(x, [1, 2], 1)[1],
        x.unbind(1)[0],
        torch.flip(x, [2, 3]),
        torch.roll(x, (1, -2), (2, 3)),
        x.narrow(1, 1, 2),
        x.reshape(b * c, h, w),
        x.new_zeros(b, c) + 1,
        torch.full((b, h), 2.5),
        torch.ones_like(x),
        torch.repeat_interleave(x, 2, 1),
        torch.tril(x),
        torch.triu(x, 1),
        x.mean((2, 3)).view(b, c, 1, 1),
        torch.arange(w).float().unsqueeze(0).expand(b, w),
        torch.topk(x, 3, 2)[0],
        torch.topk(x, 2, 1)[1],
        x.amax(1),
        x.argmax(1),
        x.std(1),
        x.var((1, 2), unbiased=False, keepdim=True),
        x.norm(dim=1),
        x.prod(1),
        torch.logsumexp(x, 1),
        torch.cumprod(x, 1),
        torch.max(x, 2)[1],
        F.normalize(x, dim=1),
        torch.where(x > 0, x, -x),
        x.masked_fill(x > 0, -1e9),
        F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
        F.unfold(x, 3, padding=1, stride=2),
    )


def test_movement_and_reductions(tmp_path):
    compare(zoo.Function(_rearranged), tmp_path, zoo.pick((2, 3, 4, 6)), zoo.pick((3, 3, 5, 8)))


def test_activations(tmp_path):
    modules = [
        nn.ReLU6(),
        nn.GELU(),
        nn.GELU("tanh"),
        nn.Hardsigmoid(),
        nn.Hardtanh(-0.5, 0.7),
        nn.ELU(0.7),
        nn.CELU(1.3),
        nn.SELU(),
        nn.Mish(),
        nn.Softplus(2, 3),
        nn.Softsign(),
        nn.LogSigmoid(),
        nn.Tanhshrink(),
        nn.Softshrink(0.3),
        nn.Hardshrink(0.3),
        nn.Threshold(0.1, -2),
        nn.PReLU(3),
        nn.RReLU(),
        nn.Softmax(1),
        nn.Softmin(2),
    ]
    compare(zoo.randomize(zoo.Each(*modules), 5), tmp_path, zoo.pick((2, 3, 5, 7)))


def test_windows_and_norms(tmp_path):
    modules = [
        nn.Conv2d(4, 8, (3, 5), padding="same", groups=2, bias=False),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
        nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.MaxPool2d(2, return_indices=True),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        nn.AvgPool2d(2, divisor_override=3),
        nn.LPPool2d(2, 3, 2),
        nn.LocalResponseNorm(3),
        nn.LocalResponseNorm(4),
        nn.InstanceNorm2d(4, affine=True),
        nn.Upsample(scale_factor=1.5, mode="bilinear"),
        nn.ReflectionPad2d((1, 2, 1, 0)),
    ]
    compare(zoo.randomize(zoo.Each(*modules), 6), tmp_path, zoo.pick((2, 4, 9, 11)), zoo.pick((1, 4, 12, 10)))


def _sampled(x, grid, theta):
    return (
        F.grid_sample(x, grid, align_corners=False),
        F.grid_sample(x, grid, "nearest", "border", True),
        F.affine_grid(theta, (2, 8, 6, 4), align_corners=False),
        F.affine_grid(theta, (2, 8, 3, 5), align_corners=True),
        F.fold(F.unfold(x, 2, stride=2), (6, 4), 2, stride=2),
        F.adaptive_avg_pool2d(x, (3, 3)),
    )


def test_sampling(tmp_path):
    compare(zoo.Function(_sampled), tmp_path, zoo.pick((2, 8, 6, 4), (2, 5, 3, 2), (2, 2, 3)))


def _indexed(x, i, j):
    y = x.clone()
    y[:, 1:3] = 1.5
    return x[i], x[:, i], x[i, i], torch.gather(x, 1, j), torch.scatter_add(x, 1, j, x), torch.index_select(x, 1, i), y


def test_indices(tmp_path):
    (i,), (j,) = zoo.ids(3), zoo.ids(4, 2, 6)
    compare(zoo.Function(_indexed), tmp_path, (*zoo.pick((4, 5, 6)), i % 4, j % 5))


def test_attention_with_masks_and_weights(tmp_path):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.MultiheadAttention(8, 2, batch_first=True)
            self.b = nn.MultiheadAttention(8, 4, bias=False)

        def forward(self, x, y):
            mask = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), 1)
            return (
                self.a(x, y, y),
                self.a(x, x, x, attn_mask=mask, need_weights=False)[0],
                self.b(x, x, x, need_weights=False)[0],
            )

    inputs = zoo.pick((2, 5, 8), (2, 7, 8)), zoo.pick((3, 6, 8), (3, 4, 8))
    compare(zoo.randomize(Attention(), 8), tmp_path, *inputs)


def _encoder():
    return nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")


@pytest.mark.parametrize(("make", "shape"), [(zoo.Residual, (1, 3, 33, 41)), (_encoder, (1, 7, 16))])
def test_ncnn_files_give_the_same_without_the_batch(make, shape, tmp_path):
    module, inputs = zoo.randomize(make(), 4), zoo.pick(shape)
    stem = zoo.export(module, tmp_path, inputs)
    executor = make_compiler(f"{stem}.ncnn.param").compile("cpu", num_threads=1)
    actual, expected = executor(inputs[0][0].numpy())["out0"], module(*inputs).numpy()
    assert actual.size == expected.size
    np.testing.assert_allclose(actual.reshape(expected.shape), expected, **TOLERANCE)


def test_sizes_given_by_the_caller(tmp_path):
    stem = zoo.export(zoo.Function(lambda x, y: x + y), tmp_path, zoo.pick((2, 3), (2, 3)), zoo.pick((4, 5), (4, 5)))
    compiler = make_compiler(f"{stem}.pnnx.param", input_shapes={"in0": ["N", 3], "in1": ["N", 3]})
    assert compiler.variables == ["N"]
    assert compiler.outputs[0].shape == ("N", 3)
    with pytest.raises(rg.InvalidInput, match='no input "in7"'):
        make_compiler(f"{stem}.pnnx.param", input_shapes={"in7": [1]})


def _write(folder, text, name="m.pnnx.param"):
    path = folder / name
    path.write_text(text)
    return path


def test_every_unlowered_operator_is_named(tmp_path):
    path = _write(
        tmp_path,
        "7767517\n4 4\npnnx.Input in 0 1 0 #0=(2,3)f32\ntorch.bincount first 1 1 0 1 $input=0\n"
        "nn.Frobnicate second 1 1 1 2\npnnx.Output out 1 0 2\n",
    )
    with pytest.raises(rg.Unsupported) as error:
        make_compiler(path)
    assert len(error.value.problems) == 2
    assert '"first" (torch.bincount): this operator is not supported' in str(error.value)
    assert '"second" (nn.Frobnicate)' in str(error.value)
    assert check(path) == list(error.value.problems)
    assert "nn.Conv2d" in supported_operators()


@pytest.mark.parametrize(
    ("text", "error", "part"),
    [
        ("", rg.InvalidModel, "ends before"),
        ("1234\n", rg.InvalidModel, "magic number"),
        ("7767517\n9 9\npnnx.Input in 0 1 0 #0=(2)f32\npnnx.Output out 1 0 0\n", rg.InvalidModel, "its head says 9"),
        ("7767517\n2 1\npnnx.Input in 0 99999999 0\npnnx.Output out 1 0 0\n", rg.InvalidModel, "expected 0 inputs"),
        (
            "7767517\n3 2\npnnx.Input in 0 1 0 #0=(2)f32\nnn.PReLU p 1 1 0 1 @weight=(99999999999,99999999)f32\n"
            "pnnx.Output out 1 0 1\n",
            rg.InvalidModel,
            "absurd",
        ),
        (
            "7767517\n3 2\npnnx.Input in 0 1 0 #0=(2)f32\nF.softmax p 1 1 0 1 dim=5 $input=0\npnnx.Output out 1 0 1\n",
            rg.InvalidModel,
            "axis 5 is out of range",
        ),
    ],
)
def test_malformed_files_are_refused(text, error, part, tmp_path):
    with pytest.raises(error, match=part):
        make_compiler(_write(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path):
    for path in (tmp_path / "missing.pnnx.param", tmp_path):
        with pytest.raises(rg.InvalidInput):
            make_compiler(path)
    with pytest.raises(rg.InvalidInput, match="expected a path"):
        make_compiler(3)
    path = _write(tmp_path, "7767517\n2 1\npnnx.Input in 0 1 0 #0=(2)f32\npnnx.Output out 1 0 0\n")
    with pytest.raises(rg.InvalidInput):
        make_compiler(path, tmp_path / "missing.bin")
    (tmp_path / "m.pnnx.bin").write_bytes(b"no zip archive")
    with pytest.raises(rg.InvalidModel, match="no zip archive"):
        make_compiler(path)
