"""Models of a single operator that computes: element by element, normalisations, products, resampling."""

from __future__ import annotations

import onnx
from operator_cases import Cases, Operand, c, one, sized, w, x

TYPES = {"f4": onnx.TensorProto.FLOAT, "f2": onnx.TensorProto.FLOAT16, "i4": onnx.TensorProto.INT32}
TYPES |= {"i8": onnx.TensorProto.INT64, "u1": onnx.TensorProto.UINT8, "i1": onnx.TensorProto.INT8}
TYPES |= {"?": onnx.TensorProto.BOOL}
UNARY = [
    *["Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Sqrt", "Neg", "Abs", "Floor", "Ceil", "Round", "Reciprocal", "Sin"],
    *["Cos", "Softplus", "Softsign", "HardSwish", "HardSigmoid", "Elu", "Selu", "LeakyRelu", "Gelu", "Mish", "Sign"],
    *["Log", "Tan", "Atan", "Sinh", "Asinh", "Celu", "ThresholdedRelu", "IsNaN", "IsInf", "Not"],
]


def elementwise() -> Cases:
    for op in UNARY:
        kind = "?" if op == "Not" else "f4"
        yield f"{op} 1x64x56x56", lambda o=op, k=kind: one(o, x(1, 64, 56, 56, dtype=k))
    yield "Relu 1x16", lambda: one("Relu", x(1, 16))
    yield "Relu 16x512x768", lambda: one("Relu", x(16, 512, 768))
    for op in ("Neg", "Abs", "Sign"):
        for kind in ("i4", "i8"):
            yield f"{op} {kind} 512x768", lambda o=op, k=kind: one(o, x(512, 768, dtype=k))
    yield "Clip 1x64x56x56", lambda: one("Clip", x(1, 64, 56, 56), c(0, "f4"), c(6, "f4"))
    yield "PRelu 1x64x56x56", lambda: one("PRelu", x(1, 64, 56, 56), w(64, 1, 1))
    shapes = {
        "same": ((1, 128, 768), (1, 128, 768)),
        "row": ((1, 128, 768), (768,)),
        "column": ((1, 128, 768), (1, 128, 1)),
        "channel": ((1, 64, 56, 56), (64, 1, 1)),
        "scalar": ((1, 64, 56, 56), ()),
        "outer": ((512, 1), (1, 512)),
        "small": ((4, 16), (4, 16)),
        "middle": ((8, 1, 64, 64), (8, 12, 1, 64)),
    }
    for name, (a, b) in shapes.items():
        for op in ("Add", "Mul", "Div"):
            yield f"{op} {name} {sized(a)}", lambda o=op, a=a, b=b: one(o, x(*a), x(*b))
    for op in ("Sub", "Pow", "Max", "Min", "Mean", "Sum", "Mod"):
        extra = {"fmod": 1} if op == "Mod" else {}
        for a, b in (((1, 128, 768), (1, 128, 768)), ((1, 128, 768), (768,))):
            yield f"{op} {sized(a)} {sized(b)}", lambda o=op, a=a, b=b, e=extra: one(o, x(*a), x(*b), **e)
    yield "Pow 1x128x768 2", lambda: one("Pow", x(1, 128, 768), c(2, "f4"))
    yield "Pow 1x128x768 3", lambda: one("Pow", x(1, 128, 768), c(3, "f4"))
    for kind in ("i4", "i8"):
        for op in ("Add", "Mul", "Sub", "Div", "Max", "Mod"):
            name = f"{op} {kind} 512x768"
            yield name, lambda o=op, k=kind: one(o, x(512, 768, dtype=k), x(512, 768, dtype=k, low=1, high=9))
    bits, shifts = x(512, 768, dtype="u4"), x(512, 768, dtype="u4", high=8)
    yield "BitShift u4 512x768", lambda: one("BitShift", bits, shifts, direction="LEFT")
    for op in ("BitwiseAnd", "BitwiseXor"):
        yield f"{op} i4 512x768", lambda o=op: one(o, x(512, 768, dtype="i4"), x(512, 768, dtype="i4"))


def choices() -> Cases:
    for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
        for kind in ("f4", "i4", "i8"):
            name = f"{op} {kind} 512x768"
            yield name, lambda o=op, k=kind: one(o, x(512, 768, dtype=k), x(512, 768, dtype=k))
        yield f"{op} i8 512x512 outer", lambda o=op: one(o, x(512, 1, dtype="i8"), x(1, 512, dtype="i8"))
    yield "Equal ? 512x768", lambda: one("Equal", x(512, 768, dtype="?"), x(512, 768, dtype="?"))
    for op in ("And", "Or", "Xor"):
        yield f"{op} 512x768", lambda o=op: one(o, x(512, 768, dtype="?"), x(512, 768, dtype="?"))
    for kind in ("f4", "i4", "i8", "u1"):
        name = f"Where {kind} 512x768"
        yield name, lambda k=kind: one("Where", x(512, 768, dtype="?"), x(512, 768, dtype=k), x(512, 768, dtype=k))
        name = f"Where {kind} 512x768 scalar"
        yield name, lambda k=kind: one("Where", x(512, 768, dtype="?"), x(dtype=k), x(512, 768, dtype=k))
    name = "Where f4 8x12x128x128 mask"
    yield name, lambda: one("Where", x(1, 1, 128, 128, dtype="?"), x(8, 12, 128, 128), c(-1e9, "f4"))
    for source in TYPES:
        for target in TYPES:
            if source != target:
                name = f"Cast {source} {target} 512x768"
                low = 0 if target == "u1" else -100
                made = Operand(lambda r, s=source, low=low: abs(x(512, 768, dtype="f4").make(r) * 9 + low).astype(s))
                yield name, lambda m=made, t=target: one("Cast", m, to=TYPES[t])
    yield "Cast i8 f4 1x16", lambda: one("Cast", x(1, 16, dtype="i8"), to=TYPES["f4"])


def normalisations() -> Cases:
    for shape, axis in (((128, 768), 1), ((12, 197, 197), 2), ((1, 1000), 1), ((64, 50257), 1), ((4096, 21), 1)):
        yield f"Softmax {sized(shape)}", lambda s=shape, a=axis: one("Softmax", x(*s), axis=a)
        yield f"LogSoftmax {sized(shape)}", lambda s=shape, a=axis: one("LogSoftmax", x(*s), axis=a)
    for shape, axis in (((1, 21, 128, 128), 1), ((16, 128, 256), 0), ((16, 128, 256), 1)):
        yield f"Softmax {sized(shape)} axis {axis}", lambda s=shape, a=axis: one("Softmax", x(*s), axis=a)
    yield "Hardmax 64x1000", lambda: one("Hardmax", x(64, 1000))
    yield "LayerNormalization 128x768", lambda: one("LayerNormalization", x(1, 128, 768), w(768), w(768))
    yield "LayerNormalization 3136x96", lambda: one("LayerNormalization", x(1, 3136, 96), w(96), w(96))
    yield "RMSNormalization 128x768", lambda: one("RMSNormalization", x(1, 128, 768), w(768), opset=23)
    yield "InstanceNormalization 1x64x56x56", lambda: one("InstanceNormalization", x(1, 64, 56, 56), w(64), w(64))
    yield "InstanceNormalization 1x64x3000", lambda: one("InstanceNormalization", x(1, 64, 3000), w(64), w(64))
    name = "GroupNormalization 1x320x32x32"
    yield name, lambda: one("GroupNormalization", x(1, 320, 32, 32), w(320), w(320), num_groups=32)
    positive = Operand(lambda r: abs(r.standard_normal(64)).astype("f4") + 1, constant=True)
    name = "BatchNormalization 1x64x56x56"
    yield name, lambda: one("BatchNormalization", x(1, 64, 56, 56), w(64), w(64), w(64), positive)
    yield "LpNormalization 128x768", lambda: one("LpNormalization", x(128, 768), axis=1, p=2)
    yield "LpNormalization 64x512x16 axis 1", lambda: one("LpNormalization", x(64, 512, 16), axis=1, p=2)
    yield "MeanVarianceNormalization 4x32x28x28", lambda: one("MeanVarianceNormalization", x(4, 32, 28, 28))
    yield "LRN 1x96x55x55", lambda: one("LRN", x(1, 96, 55, 55), size=5)


def products() -> Cases:
    for a, b in (((128, 768), (768, 768)), ((1, 768), (768, 3072)), ((1, 2048), (2048, 1000)), ((4, 16), (16, 4))):
        yield f"MatMul {sized(a)} {sized(b)} constant", lambda a=a, b=b: one("MatMul", x(*a), w(*b))
    for a, b in (((12, 197, 64), (12, 64, 197)), ((12, 1, 64), (12, 64, 128)), ((256, 256), (256, 256))):
        yield f"MatMul {sized(a)} {sized(b)}", lambda a=a, b=b: one("MatMul", x(*a), x(*b))
    yield "Gemm 1x512 1000 transposed", lambda: one("Gemm", x(1, 512), w(1000, 512), w(1000), transB=1)
    yield "Gemm 64x512 10 transposed", lambda: one("Gemm", x(64, 512), w(10, 512), w(10), transB=1)
    equations = {
        "bhid,bhjd->bhij": ((1, 12, 128, 64), (1, 12, 128, 64)),
        "bij,bjk->bik": ((8, 64, 64), (8, 64, 64)),
        "bchw,bkhwc->bkhw": ((1, 64, 28, 28), (1, 4, 28, 28, 64)),
        "i,j->ij": ((256,), (256,)),
        "bld,dk->blk": ((1, 128, 256), (256, 256)),
        "bhwc,hkc->bhwk": ((8, 14, 14, 64), (14, 14, 64)),
    }
    for equation, (a, b) in equations.items():
        yield f"Einsum {equation}", lambda e=equation, a=a, b=b: one("Einsum", x(*a), x(*b), equation=e)
    yield "Einsum bij->bji", lambda: one("Einsum", x(8, 128, 128), equation="bij->bji")
    name = "MatMulInteger 128x768 768x768"
    zero = c(3, "u1")
    yield name, lambda: one("MatMulInteger", x(128, 768, dtype="u1"), w(768, 768, dtype="i1"), zero)
    yield "MatMulInteger 1x768 768x3072", lambda: one("MatMulInteger", x(1, 768, dtype="u1"), w(768, 3072, dtype="i1"))
    yield (
        "ConvInteger 1x32x28x28 32",
        lambda: one("ConvInteger", x(1, 32, 28, 28, dtype="u1"), w(32, 32, 3, 3, dtype="u1"), zero, pads=[1] * 4),
    )
    for shape in ((1, 64, 56, 56), (1, 16)):
        scale = c(0.05, "f4")
        yield f"QuantizeLinear {sized(shape)}", lambda s=shape: one("QuantizeLinear", x(*s), c(0.05, "f4"), c(3, "u1"))
        yield (
            f"DequantizeLinear {sized(shape)}",
            lambda s=shape, f=scale: one("DequantizeLinear", x(*s, dtype="i1"), f, c(3, "i1")),
        )
    scales = Operand(lambda r: abs(r.standard_normal(64)).astype("f4") + 0.1, constant=True)
    zeros = c([3] * 64, "u1")
    yield "QuantizeLinear 1x64x56x56 channels", lambda: one("QuantizeLinear", x(1, 64, 56, 56), scales, zeros, axis=1)
    name = "DequantizeLinear 1x64x56x56 channels"
    yield name, lambda: one("DequantizeLinear", x(1, 64, 56, 56, dtype="u1"), scales, zeros, axis=1)
    yield "DynamicQuantizeLinear 128x768", lambda: one("DynamicQuantizeLinear", x(128, 768), outputs=3)


def resampling() -> Cases:
    for mode in ("nearest", "linear", "cubic"):
        for shape, scale in (((1, 64, 28, 28), 2.0), ((1, 3, 224, 224), 0.5), ((1, 19, 64, 64), 4.0)):
            scales = c([1, 1, scale, scale], "f4")
            name = f"Resize {mode} {sized(shape)} {scale}"
            yield name, lambda m=mode, s=shape, f=scales: one("Resize", x(*s), None, f, mode=m)
    name = "Resize linear align 1x64x28x28 2"
    a = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    yield name, lambda a=a: one("Resize", x(1, 64, 28, 28), None, c([1, 1, 2, 2], "f4"), **a)
    name = "Resize linear antialias 1x3x224x224 0.5"
    a = {"mode": "linear", "antialias": 1}
    yield name, lambda a=a: one("Resize", x(1, 3, 224, 224), None, c([1, 1, 0.5, 0.5], "f4"), **a)
    name = "Resize linear last 1x28x28x64 2"
    yield name, lambda: one("Resize", x(1, 28, 28, 64), None, c([1, 2, 2, 1], "f4"), mode="linear")
    name = "Resize nearest 1x64x400 2"
    yield name, lambda: one("Resize", x(1, 64, 400), None, c([1, 1, 2], "f4"), mode="nearest")
    name = "Resize linear 1x16x8x28x28 2"
    yield name, lambda: one("Resize", x(1, 16, 8, 28, 28), None, c([1, 1, 2, 2, 2], "f4"), mode="linear")
    name = "Resize nearest u1 1x3x224x224 2"
    yield name, lambda: one("Resize", x(1, 3, 224, 224, dtype="u1"), None, c([1, 1, 2, 2], "f4"), mode="nearest")
    grid = Operand(lambda r: r.uniform(-1, 1, (1, 28, 28, 2)).astype("f4"))
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border"):
            a = {"mode": mode, "padding_mode": padding}
            yield f"GridSample {mode} {padding} 1x64x28x28", lambda a=a: one("GridSample", x(1, 64, 28, 28), grid, **a)
    theta = Operand(lambda r: r.standard_normal((1, 2, 3)).astype("f4"))
    yield "AffineGrid 1x3x224x224", lambda: one("AffineGrid", theta, c([1, 3, 224, 224]))

    corners = Operand(lambda r: r.uniform([0, 0, 25, 25], [25, 25, 50, 50], (100, 4)).astype("f4"))
    a = {"output_height": 7, "output_width": 7, "sampling_ratio": 2, "spatial_scale": 0.9}
    yield "RoiAlign 1x64x50x50 100", lambda a=a: one("RoiAlign", x(1, 64, 50, 50), corners, c([0] * 100), opset=16, **a)


FAMILIES = [elementwise, choices, normalisations, products, resampling]
