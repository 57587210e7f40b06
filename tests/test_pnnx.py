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


def _sums(x, y, w):
    return (
        torch.einsum("bsd,hkd->bhsk", x, w),
        torch.einsum("bsd,btd->bst", x, y),
        torch.einsum("bsd,bsd->s", x, x),
        torch.einsum("bii->bi", torch.einsum("bsd,bse->bde", x, x)),
        torch.stack([x, -x], -1).flatten(2),
    )


def test_einsum_and_stack(tmp_path):
    inputs = zoo.pick((2, 5, 8), (2, 7, 8), (6, 4, 8)), zoo.pick((3, 6, 8), (3, 4, 8), (6, 4, 8))
    compare(zoo.Function(_sums), tmp_path, *inputs)


def test_tied_weights_are_written_twice(tmp_path):
    compare(zoo.randomize(zoo.Tied(), 9), tmp_path, zoo.ids(2, 9), zoo.ids(3, 4))


def test_projected_states(tmp_path):
    shapes = [(4, 2, 8), (4, 2, 4), (4, 2, 7)], [(7, 3, 8), (4, 3, 4), (4, 3, 7)]
    compare(zoo.randomize(zoo.Projected(), 10), tmp_path, *(zoo.pick(*s) for s in shapes))


def _encoder():
    return nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")


class _Mixed(nn.Module):
    """The convolution tells pnnx which axis is the batch."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)

    def forward(self, x):
        x = self.conv(x)
        y = F.normalize(x, dim=1)
        return torch.cumsum(x, 2), y.repeat(1, 2, 1, 1), x + 2 * y, y[:, 1:]


NCNN = {
    "residual": (zoo.Residual, (1, 3, 33, 41)),
    "encoder": (_encoder, (1, 7, 16)),
    "recurrent": (zoo.Sequence1, (1, 9, 6)),
    "mixed": (_Mixed, (1, 3, 5, 7)),
}


@pytest.mark.parametrize("name", NCNN)
def test_ncnn_files_give_the_same_without_the_batch(name, tmp_path):
    make, shape = NCNN[name]
    module, inputs = zoo.randomize(make(), 4), zoo.pick(shape)
    stem = zoo.export(module, tmp_path, inputs)
    executor = make_compiler(f"{stem}.ncnn.param").compile("cpu", num_threads=1)
    actual, expected = executor(inputs[0][0].numpy()), zoo.flat(module(*inputs))
    assert list(actual) == [f"out{i}" for i in range(len(expected))]
    for i, array in enumerate(expected):
        assert actual[f"out{i}"].size == array.size
        np.testing.assert_allclose(actual[f"out{i}"].reshape(array.shape), array, **TOLERANCE)


def _ncnn(folder, layers, weights=b"", inputs=1):
    """A file of ncnn's with weights that are given as bytes."""
    (folder / "m.ncnn.bin").write_bytes(weights)
    lines = [f"Input in{i} 0 1 in{i}" for i in range(inputs)] + layers
    blobs = sum(int(line.split()[3]) for line in lines)
    return _write(folder, f"7767517\n{len(lines)} {blobs}\n" + "\n".join(lines) + "\n", "m.ncnn.param")


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("mode", [-233, -234])
def test_same_pads_of_ncnn(stride, mode, tmp_path):
    torch.manual_seed(stride)
    x, w = torch.randn(2, 11, 14), torch.randn(3, 2, 4, 3)
    layer = f"Convolution c 1 1 in0 out0 0=3 1=3 11=4 3={stride} 4={mode} 6={w.numel()}"
    path = _ncnn(tmp_path, [layer], b"\0\0\0\0" + w.numpy().tobytes())
    pads = []
    for size, kernel in ((14, 3), (11, 4)):
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        pads += [total // 2, total - total // 2] if mode == -233 else [total - total // 2, total // 2]
    expected = F.conv2d(F.pad(x[None], pads), w, stride=stride)[0].numpy()
    assert_close(make_compiler(path).compile("cpu")(x.numpy())["out0"], expected)


def test_backward_recurrent_layers_of_ncnn(tmp_path):
    torch.manual_seed(5)
    x, lstm = torch.randn(6, 4), nn.LSTM(4, 3)
    blocks = [lstm.weight_ih_l0, lstm.bias_ih_l0 + lstm.bias_hh_l0, lstm.weight_hh_l0]
    ordered = [torch.cat([b.chunk(4)[i] for i in (0, 1, 3, 2)]) for b in blocks]
    data = b"".join(b"\0\0\0\0" + b.numpy().tobytes() for b in ordered)
    path = _ncnn(tmp_path, ["LSTM l 1 3 in0 out0 out1 out2 0=3 1=48 2=1"], data)
    y, (h, c) = lstm(x.flip(0))
    actual = make_compiler(path).compile("cpu")(x.numpy())
    for key, expected in zip(actual, (y.flip(0), h, c), strict=True):
        assert_close(actual[key], expected.numpy())


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding_of_ncnn(interleaved, tmp_path):
    x, angles = zoo.pick((3, 5, 8), (5, 4))
    # Tables may hold all angles twice.
    for tables in (angles, torch.cat([angles, angles], 1)[None]):
        _check_rotary(tmp_path, interleaved, x, angles, tables)


def _check_rotary(tmp_path, interleaved, x, angles, tables):
    path = _ncnn(tmp_path, [f"RotaryEmbed r 3 1 in0 in1 in2 out0 0={interleaved}"], inputs=3)
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    parts = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    expected = torch.stack(parts, -1).flatten(2) if interleaved else torch.cat(parts, -1)
    actual = make_compiler(path).compile("cpu")(x.numpy(), tables.cos().numpy(), tables.sin().numpy())
    assert_close(actual["out0"], expected.numpy())


def test_attention_of_ncnn_shares_keys_between_heads(tmp_path):
    q, k, v, mask = zoo.pick((4, 5, 6), (2, 7, 6), (2, 7, 6), (5, 7))
    path = _ncnn(tmp_path, ["SDPA s 4 1 in0 in1 in2 in3 out0 5=1 6=0.3"], inputs=4)
    k4, v4 = (t.repeat_interleave(2, 0) for t in (k, v))
    expected = F.scaled_dot_product_attention(q, k4, v4, mask, scale=0.3).numpy()
    assert_close(make_compiler(path).compile("cpu")(*(t.numpy() for t in (q, k, v, mask)))["out0"], expected)
    path = _ncnn(tmp_path, ["SDPA s 3 1 in0 in1 in2 out0 7=1"], inputs=3)
    with pytest.raises(rg.Unsupported, match=r"\(SDPA\): a cache"):
        make_compiler(path)


def test_custom_operators(tmp_path):
    text = (
        "7767517\n4 3\npnnx.Input in 0 1 0 #0=(2,3)f32\n"
        "my.layers.Scaled s 1 1 0 1 k=3 s=0.5 flag=True dims=(1,2) name=abc $x=0\n"
        "my.layers::Twice t 1 1 1 2\npnnx.Output out 1 0 2\n"
    )
    seen = {}

    def scaled(x, **attributes):
        seen.update(attributes)
        return x * attributes["k"]

    def like(x, **_):
        return [(x.dtype, x.shape)]

    ops = [
        rg.CustomOp("my.layers", "Scaled", scaled, like),
        rg.CustomOp("my.layers", "Twice", lambda x: x + x, like),
    ]
    path = _write(tmp_path, text)
    x = zoo.pick((2, 3))[0].numpy()
    actual = make_compiler(path, custom_ops=ops).compile("cpu")(x)["out0"]
    np.testing.assert_array_equal(actual, x * 3 * 2)
    assert seen == {"k": 3, "s": 0.5, "flag": 1, "dims": [1, 2], "name": "abc"}
    assert check(path, custom_ops=ops) == []
    assert len(check(path)) == 2
    with pytest.raises(rg.Unsupported, match=r"my\.layers\.Scaled"):
        make_compiler(path, custom_ops=ops[1:])


def test_custom_operators_get_weights_behind_inputs(tmp_path):
    import zipfile

    w = np.arange(3, dtype=np.float32)
    with zipfile.ZipFile(tmp_path / "m.pnnx.bin", "w") as archive:
        archive.writestr("s.w", w.tobytes())
    text = "7767517\n3 2\npnnx.Input in 0 1 0 #0=(2,3)f32\nMine s 1 1 0 1 @w=(3)f32\npnnx.Output out 1 0 1\n"
    op = rg.CustomOp("", "Mine", lambda x, w: x + w, lambda x, w: [(x.dtype, x.shape)])
    x = zoo.pick((2, 3))[0].numpy()
    path = _write(tmp_path, text)
    np.testing.assert_array_equal(make_compiler(path, custom_ops=[op]).compile("cpu")(x)["out0"], x + w)


def test_custom_layers_of_ncnn(tmp_path):
    path = _ncnn(tmp_path, ["Mine s 1 1 in0 1 0=3 -23301=2,0.5,2", "ReLU r 1 1 1 out0"])
    op = rg.CustomOp("", "Mine", lambda x, p0, p1: x * p0 + p1[1], lambda x, p0, p1: [(x.dtype, x.shape)])
    x = zoo.pick((4, 3))[0].numpy()
    compiler = make_compiler(path, input_shapes={"in0": [4, 3]}, custom_ops=[op])
    np.testing.assert_allclose(compiler.compile("cpu")(x)["out0"], np.maximum(x * 3 + 2, 0), rtol=1e-6)


def test_sizes_given_by_the_caller(tmp_path):
    stem = zoo.export(zoo.Function(lambda x, y: x + y), tmp_path, zoo.pick((2, 3), (2, 3)), zoo.pick((4, 5), (4, 5)))
    compiler = make_compiler(f"{stem}.pnnx.param", input_shapes={"in0": ["N", 3], "in1": ["N", 3]})
    assert compiler.variables == ["N"]
    assert compiler.outputs[0].shape == ("N", 3)
    with pytest.raises(rg.InvalidInput, match='no input "in7"'):
        make_compiler(f"{stem}.pnnx.param", input_shapes={"in7": [1]})


def test_sizes_that_contradict_each_other(tmp_path):
    """Which sizes belong together only the run tells: pnnx knows none of them."""
    stem = zoo.export(
        zoo.Function(lambda x, y: torch.cat([x, y])), tmp_path, zoo.pick((2, 3), (2, 3)), zoo.pick((4, 5), (6, 5))
    )
    executor = make_compiler(f"{stem}.pnnx.param", input_shapes={"in0": ["a", "b"], "in1": ["c", "d"]}).compile()
    x, y = zoo.pick((2, 3), (4, 3))
    assert_close(executor(x.numpy(), y.numpy())["out0"], torch.cat([x, y]).numpy())
    with pytest.raises(rg.InvalidInput, match="a size of a joined tensor is 4, expected 3"):
        executor(x.numpy(), zoo.pick((4, 4))[0].numpy())


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
