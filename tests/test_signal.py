"""DFT, STFT, window functions and MelWeightMatrix against numpy, onnx.reference and onnxruntime."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph import InvalidModel
from refactor_graph.onnx import make_compiler

from tests import models
from tests.single import assert_close, positional, reference, run

LENGTHS = [1, 2, 3, 8, 10, 37, 41, 96]
EPSILON = {np.float64: 2.0**-52, np.float32: 2.0**-24, np.float16: 2.0**-11, ml_dtypes.bfloat16: 2.0**-8}


def spectrum(x, n, axis, inverse, onesided):
    """Transform by numpy in double."""
    z = x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    if inverse and onesided:
        return np.fft.irfft(z, n, axis)[..., None]
    y = (np.fft.ifft if inverse else np.fft.fft)(z, n, axis)
    if onesided:
        y = np.take(y, np.arange(n // 2 + 1), axis)
    return np.stack([y.real, y.imag], -1)


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("onesided", [0, 1])
def test_dft(opset, n, inverse, onesided):
    random = models.generator(n)
    for dtype, epsilon in EPSILON.items():
        for axis in (1, -3) if opset < 20 else (1, -2, 0):
            parts = (2 if inverse else 1) if onesided else int(random.integers(1, 3))
            x = random.standard_normal((3, 9, 5, parts)).astype(dtype)
            arrays = [x, np.array(n, np.int64)]
            options = {"axis": axis} if opset < 20 else {}
            if opset >= 20:
                arrays.append(np.array(axis, np.int64))
            constants = range(1, len(arrays))
            proto, feeds = positional(
                "DFT", arrays, constants=constants, opset=opset, inverse=inverse, onesided=onesided, **options
            )
            (y,) = run(proto, feeds, num_threads=2)
            wanted = spectrum(x, n, axis % 4, inverse, onesided)
            assert y.dtype == dtype
            assert y.shape == wanted.shape
            # One rounding of the result (2^-25: half a denormal of f16), and sums of n terms of size 1 in double.
            absolute = 2.0**-52 * 8 * n + (2.0**-25 if dtype == np.float16 else 0)
            np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=epsilon, atol=absolute)


@pytest.mark.parametrize(("inverse", "parts", "length"), [(0, 1, 7), (0, 2, 7), (1, 2, 12)])
def test_default_length(inverse, parts, length):
    """Of the signal, or twice that of half a spectrum."""
    x = models.generator(3).standard_normal((2, 7, parts)).astype(np.float32)
    onesided = int(inverse or parts == 1)
    proto, feeds = positional("DFT", [x], opset=20, symbolic=False, inverse=inverse, onesided=onesided)
    (y,) = run(proto, feeds)
    wanted = spectrum(x, length, 1, inverse, onesided)
    assert_close(y, wanted.astype(np.float32), 2**-23, 1e-6)


def test_symbolic_signal():
    proto, _ = positional("DFT", [np.zeros((2, 7, 1), np.float32)], opset=20, onesided=1)
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "L"
    executor = make_compiler(proto).compile()
    for n in (4, 9, 35):
        x = models.generator(n).standard_normal((2, n, 1)).astype(np.float32)
        assert_close(executor({"x0": x})["y0"], spectrum(x, n, 1, 0, 1).astype(np.float32), 2**-23, 1e-6 * n)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("given", ["window", "length", "both"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stft(onesided, given, dtype):
    random = models.generator(11)
    x = random.standard_normal((3, 61, 1)).astype(dtype)
    window = random.standard_normal(16).astype(dtype) if given != "length" else None
    length = np.array(16, np.int64) if given != "window" else None
    arrays = [x, np.array(7, np.int64), window, length]
    constants = [1] + [3] * (length is not None)
    proto, feeds = positional("STFT", arrays, constants=constants, opset=17, onesided=onesided)
    (y,) = run(proto, feeds, num_threads=2)
    frames = np.stack([x[:, i * 7 : i * 7 + 16, 0] for i in range((61 - 16) // 7 + 1)], 1).astype(np.float64)
    wanted = spectrum(frames[..., None] * (1 if window is None else window[:, None]), 16, 2, 0, onesided)
    assert_close(y, wanted.astype(dtype), 2**-22, 1e-6)
    if onesided:
        assert_close(y, models.expected(proto, feeds)[0], 1e-4, 1e-4)


def test_stft_of_a_signal_without_parts():
    """As PyTorch exports `torch.stft`; onnxruntime takes it, too."""
    x = models.generator(13).standard_normal((2, 50)).astype(np.float32)
    window = np.hanning(16).astype(np.float32)
    arrays = [x, np.array(5, np.int64), window, np.array(16, np.int64)]
    proto, feeds = positional("STFT", arrays, constants=[1, 3], opset=17)
    frames = np.stack([x[:, i * 5 : i * 5 + 16] for i in range((50 - 16) // 5 + 1)], 1)
    wanted = spectrum((frames * window.astype(np.float64))[..., None], 16, 2, 0, 1).astype(np.float32)
    assert_close(run(proto, feeds)[0], wanted, 2**-22, 1e-6)
    assert_close(models.expected(proto, feeds)[0], wanted, 1e-4, 1e-4)


def test_stft_of_a_complex_signal():
    x = models.generator(12).standard_normal((2, 30, 2)).astype(np.float32)
    arrays = [x, np.array(4, np.int64), None, np.array(9, np.int64)]
    proto, feeds = positional("STFT", arrays, constants=[1, 3], opset=17, onesided=0)
    frames = np.stack([x[:, i * 4 : i * 4 + 9] for i in range((30 - 9) // 4 + 1)], 1)
    assert_close(run(proto, feeds)[0], spectrum(frames, 9, 2, 0, 0).astype(np.float32), 2**-22, 1e-6)


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
def test_windows(op, periodic, dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto, feeds = positional(
        op, [np.array(33, np.int64)], constants=[0], opset=17, periodic=periodic, output_datatype=kind
    )
    i = 2 * np.pi * np.arange(33) / (33 if periodic else 32)
    a, b, c = {"HannWindow": (0.5, 0.5, 0), "HammingWindow": (25 / 46, 21 / 46, 0)}.get(op, (0.42, 0.5, 0.08))
    wanted = a - b * np.cos(i) + c * np.cos(2 * i)
    if dtype == np.int32:
        wanted = np.where(np.abs(wanted - 1) < 1e-12, 1, wanted)
        assert set(run(proto, feeds)[0]) <= {0, 1}
        return
    epsilon = np.finfo(dtype).eps
    assert_close(run(proto, feeds)[0], wanted.astype(dtype), epsilon, min(epsilon, 1e-7))


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
@pytest.mark.parametrize(
    ("bands", "length", "rate", "low", "high"), [(8, 16, 8192, 0, 4096), (40, 400, 16000, 20, 8000)]
)
def test_mel_weights(dtype, bands, length, rate, low, high):
    arrays = [np.array(v, np.int64) for v in (bands, length, rate)] + [np.array(v, np.float32) for v in (low, high)]
    proto, feeds = positional("MelWeightMatrix", arrays, constants=range(5), opset=17, output_datatype=dtype)
    (weights,) = run(proto, feeds)
    (wanted,) = reference(proto, feeds)
    assert_close(weights, wanted, 1e-3 if dtype == TensorProto.FLOAT16 else 1e-7, 0)
    if dtype == TensorProto.FLOAT:
        assert_close(weights, models.expected(proto, feeds)[0], 1e-6, 0)


@pytest.mark.parametrize(
    ("op", "arrays", "attributes", "pattern"),
    [
        ("DFT", [np.zeros((2, 8, 3), np.float32)], {}, "expected 1 .real. or 2"),
        ("DFT", [np.zeros((2, 8, 2), np.float32)], {"onesided": 1}, "expected real"),
        ("DFT", [np.zeros((2, 8, 1), np.float32)], {"onesided": 1, "inverse": 1}, "expected complex"),
        ("DFT", [np.zeros((2, 8, 1), np.float32), np.int64(0)], {}, "length of the transform is 0"),
        ("DFT", [np.zeros((2, 8, 1), np.float32), np.int64(8), np.int64(2)], {}, "the axis 2"),
        ("DFT", [np.zeros((2, 8, 1), np.float32), np.int64(8), np.int64(3)], {}, "3"),
        ("STFT", [np.zeros((2, 8, 1), np.float32), np.int64(0)], {}, "frame_step is 0"),
        ("STFT", [np.zeros((2, 8), np.float32), np.int64(1), np.ones(9, np.float32)], {}, "longer than the signal"),
        ("STFT", [np.zeros(8, np.float32), np.int64(1)], {}, "1 axes, expected 2 to 3"),
        ("STFT", [np.zeros((2, 8, 3), np.float32), np.int64(1)], {}, "expected 1 .real. or 2"),
        ("STFT", [np.zeros((2, 8, 1), np.float32), np.int64(1), np.ones(9, np.float32)], {}, "longer than the signal"),
        (
            "STFT",
            [np.zeros((2, 8, 1), np.float32), np.int64(1), np.ones(4, np.float32), np.int64(5)],
            {},
            "length of the window",
        ),
        ("HannWindow", [np.int64(4)], {"output_datatype": 9}, "output_datatype is 9"),
        ("HannWindow", [np.int64(-4)], {}, "negative"),
        ("HannWindow", [np.array([4, 5])], {}, "2 elements"),
        ("MelWeightMatrix", [np.int64(0), np.int64(8), np.int64(9), *np.float32([0, 1])], {}, "num_mel_bins is 0"),
        ("MelWeightMatrix", [np.int64(2), np.int64(8), np.int64(9), *np.float32([3, 1])], {}, "is empty"),
        ("MelWeightMatrix", [np.int64(2), np.int64(8), np.int64(9), *np.float32([0, 90])], {}, "half the sample rate"),
    ],
)
def test_refusals(op, arrays, attributes, pattern):
    constants = range(op in ("DFT", "STFT"), len(arrays))
    proto, _ = positional(op, arrays, constants=constants, opset=20, **attributes)
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(proto)
