"""Models of a single operator in the sizes that networks have, by the name that benchmarks print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from models import Case, Inputs
from onnx import helper, numpy_helper

OPSET = 22


@dataclass(frozen=True)
class Operand:
    """An input: fed at every run, or a constant of the model."""

    make: Callable[[np.random.Generator], np.ndarray]
    constant: bool = False


def x(*shape: int, dtype: str = "f4", low: int = -100, high: int = 100) -> Operand:
    """Make normal numbers; integers from `low` to below `high`; or booleans."""

    def make(random: np.random.Generator) -> np.ndarray:
        kind = np.dtype(dtype).kind
        if kind == "f":
            return np.asarray(random.standard_normal(shape)).astype(dtype)
        return random.integers(0 if kind in "bu" else low, 2 if kind == "b" else high, shape).astype(dtype)

    return Operand(make)


def w(*shape: int, dtype: str = "f4") -> Operand:
    """Make random constants."""
    return Operand(x(*shape, dtype=dtype).make, constant=True)


def c(values: object, dtype: str = "i8") -> Operand:
    """Make given constants."""
    return Operand(lambda _: np.asarray(values, dtype), constant=True)


def index(below: int, *shape: int) -> Operand:
    return x(*shape, dtype="i8", low=0, high=below)


def distinct_rows(below: int, count: int) -> Operand:
    """Make positions of rows, none twice: [count, 1]."""
    return Operand(lambda random: random.permutation(below)[:count].reshape(count, 1))


def order_along(axis: int, *shape: int) -> Operand:
    """Make indices along an axis, none twice."""
    return Operand(lambda random: np.argsort(random.standard_normal(shape), axis=axis))


def one(op: str, *operands: Operand | None, outputs: int = 1, opset: int = OPSET, **attributes: object) -> Case:
    """Make the model of one node; None stands for an operand left out."""
    random = np.random.default_rng(0)
    names = ["" if operand is None else f"x{i}" for i, operand in enumerate(operands)]
    given = [(name, operand) for name, operand in zip(names, operands, strict=True) if operand]
    types, constants = [], []
    for name, operand in given:
        values = operand.make(random)
        if operand.constant:
            constants.append(numpy_helper.from_array(values, name))
        else:
            types.append(
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values.dtype), values.shape)
            )
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, name=op, **attributes)
    graph = helper.make_graph([node], op, types, [onnx.ValueInfoProto(name=name) for name in results], constants)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)

    def inputs(random: np.random.Generator) -> Inputs:
        return {name: operand.make(random) for name, operand in given if not operand.constant}

    return Case(model, inputs)


Make = Callable[[], Case]
Cases = Iterator[tuple[str, Make]]


def sized(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def pools() -> Cases:
    planes = [(1, 64, 112, 112), (4, 192, 28, 28)]
    windows = {
        "3s2p1": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        "3s1p1": {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]},
        "2s2": {"kernel_shape": [2, 2], "strides": [2, 2]},
        "3s2ceil": {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        "5s1p2": {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]},
        "3s3": {"kernel_shape": [3, 3], "strides": [3, 3]},
    }
    for shape in planes:
        for name, window in windows.items():
            yield f"MaxPool {sized(shape)} {name}", lambda s=shape, a=window: one("MaxPool", x(*s), **a)
            yield f"AveragePool {sized(shape)} {name}", lambda s=shape, a=window: one("AveragePool", x(*s), **a)
        for name in ("3s2p1", "2s2", "3s1p1"):
            a = windows[name]
            yield f"MaxPool {sized(shape)} {name} indices", lambda s=shape, a=a: one("MaxPool", x(*s), outputs=2, **a)
        a = windows["3s2p1"] | {"count_include_pad": 1}
        yield f"AveragePool {sized(shape)} 3s2p1 padded", lambda s=shape, a=a: one("AveragePool", x(*s), **a)
        a = {"kernel_shape": [3, 3], "dilations": [2, 2], "pads": [2, 2, 2, 2]}
        yield f"MaxPool {sized(shape)} 3d2p2", lambda s=shape, a=a: one("MaxPool", x(*s), **a)
        yield f"LpPool {sized(shape)} 2s2", lambda s=shape: one("LpPool", x(*s), kernel_shape=[2, 2], strides=[2, 2])
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        yield f"{op} 1x1280x7x7", lambda op=op: one(op, x(1, 1280, 7, 7))
        yield f"{op} 4x256x56x56", lambda op=op: one(op, x(4, 256, 56, 56))
    for op in ("MaxPool", "AveragePool"):
        a = {"kernel_shape": [4], "strides": [4]}
        yield f"{op} 1x64x4000 4s4", lambda op=op, a=a: one(op, x(1, 64, 4000), **a)
        a = {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}
        yield f"{op} 1x64x4000 3s2p1", lambda op=op, a=a: one(op, x(1, 64, 4000), **a)
        a = {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}
        yield f"{op} 1x32x16x56x56 2s2", lambda op=op, a=a: one(op, x(1, 32, 16, 56, 56), **a)
        a = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        yield f"{op} 1x8x14x14 3s2p1", lambda op=op, a=a: one(op, x(1, 8, 14, 14), **a)
    a = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    for dtype in ("u1", "i1"):
        yield (
            f"MaxPool {dtype} 1x64x112x112 3s2p1",
            lambda a=a, d=dtype: one("MaxPool", x(1, 64, 112, 112, dtype=d), **a),
        )


def conv(shape: tuple[int, ...], out: int, kernel: tuple[int, ...], **attributes: int | list[int]) -> Case:
    weights = w(out, shape[1] // attributes.get("group", 1), *kernel)
    return one("Conv", x(*shape), weights, w(out), **attributes)


def convolutions() -> Cases:
    table = [
        ((1, 3, 224, 224), 64, (7, 7), {"strides": [2, 2], "pads": [3] * 4}),
        ((1, 3, 224, 224), 32, (3, 3), {"strides": [2, 2], "pads": [1] * 4}),
        ((1, 3, 224, 224), 64, (3, 3), {"pads": [1] * 4}),
        ((1, 3, 224, 224), 96, (4, 4), {"strides": [4, 4]}),
        ((1, 3, 224, 224), 768, (16, 16), {"strides": [16, 16]}),
        ((1, 64, 128, 128), 3, (3, 3), {"pads": [1] * 4}),
        ((1, 32, 128, 128), 3, (9, 9), {"pads": [4] * 4}),
        ((1, 64, 128, 128), 1, (1, 1), {}),
        ((1, 1, 28, 28), 32, (5, 5), {"pads": [2] * 4}),
        ((1, 64, 56, 56), 64, (1, 1), {}),
        ((1, 64, 56, 56), 64, (3, 3), {"pads": [1] * 4}),
        ((1, 64, 56, 56), 128, (3, 3), {"pads": [1] * 4, "strides": [2, 2]}),
        ((1, 256, 56, 56), 512, (1, 1), {"strides": [2, 2]}),
        ((1, 512, 7, 7), 512, (3, 3), {"pads": [1] * 4}),
        ((1, 960, 7, 7), 160, (1, 1), {}),
        ((1, 144, 56, 56), 144, (3, 3), {"pads": [1] * 4, "group": 144}),
        ((1, 144, 56, 56), 144, (5, 5), {"pads": [2] * 4, "strides": [2, 2], "group": 144}),
        ((1, 96, 56, 56), 96, (7, 7), {"pads": [3] * 4, "group": 96}),
        ((1, 768, 7, 7), 768, (7, 7), {"pads": [3] * 4, "group": 768}),
        ((1, 64, 28, 28), 64, (13, 13), {"pads": [6] * 4, "group": 64}),
        ((1, 128, 28, 28), 128, (3, 3), {"pads": [1] * 4, "group": 32}),
        ((1, 64, 32, 32), 64, (3, 3), {"pads": [2] * 4, "dilations": [2, 2]}),
        ((1, 32, 20, 20), 1, (1, 1), {}),
        ((1, 256, 1, 1), 64, (1, 1), {}),
        ((1, 64, 64, 64), 64, (1, 7), {"pads": [0, 3, 0, 3]}),
        ((1, 1, 16000), 64, (80,), {"strides": [4]}),
        ((1, 1, 16000), 512, (10,), {"strides": [5]}),
        ((1, 1, 16000), 32, (7,), {"pads": [3, 3]}),
        ((1, 2, 16000), 48, (8,), {"strides": [4]}),
        ((1, 80, 3000), 384, (3,), {"pads": [1, 1]}),
        ((1, 512, 800), 512, (3,), {"strides": [2]}),
        ((1, 256, 400), 256, (15,), {"pads": [7, 7], "group": 256}),
        ((1, 768, 50), 768, (64,), {"pads": [32, 32], "group": 16}),
        ((1, 3, 8, 56, 56), 32, (3, 3, 3), {"pads": [1] * 6}),
        ((1, 3, 16, 56, 56), 64, (3, 7, 7), {"pads": [1, 3, 3] * 2, "strides": [1, 2, 2]}),
        ((1, 32, 8, 28, 28), 32, (3, 3, 3), {"pads": [1] * 6}),
        ((1, 32, 8, 28, 28), 64, (1, 1, 1), {}),
    ]
    for shape, out, kernel, a in table:
        strides = f" s{a['strides'][0]}" if "strides" in a else ""
        group = f" g{a['group']}" if "group" in a else ""
        name = f"Conv {sized(shape)} {out} {sized(kernel)}{strides}{group}"
        yield name, lambda s=shape, o=out, k=kernel, a=a: conv(s, o, k, **a)
    transposed = [
        ((1, 64, 28, 28), 32, (2, 2), {"strides": [2, 2]}),
        ((1, 64, 28, 28), 32, (4, 4), {"strides": [2, 2], "pads": [1] * 4}),
        ((1, 128, 32, 32), 64, (3, 3), {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
        ((1, 100, 1, 1), 512, (4, 4), {}),
        ((1, 64, 64, 64), 3, (4, 4), {"strides": [2, 2], "pads": [1] * 4}),
        ((1, 256, 100), 128, (16,), {"strides": [8], "pads": [4, 4]}),
        ((1, 32, 8, 14, 14), 16, (2, 2, 2), {"strides": [2, 2, 2]}),
    ]
    for shape, out, kernel, a in transposed:
        name = f"ConvTranspose {sized(shape)} {out} {sized(kernel)}"
        yield name, lambda s=shape, o=out, k=kernel, a=a: one("ConvTranspose", x(*s), w(s[1], o, *k), w(o), **a)


REDUCTIONS = ["Sum", "Mean", "Max", "Min", "Prod", "SumSquare", "L1", "L2", "LogSum", "LogSumExp"]


def reductions() -> Cases:
    shapes = [((8, 128, 256), (0, 1, 2)), ((16, 100000), (1,)), ((4, 64, 28, 28), (1,)), ((512, 768), (0, 1))]
    shapes += [((20000, 3), (1,)), ((20000, 7), (1,)), ((3000, 33), (1,)), ((1, 197, 768), (1,))]
    for shape, axes in shapes:
        for axis in axes:
            for kind in ("Sum", "Mean", "Max", "L2"):
                name = f"Reduce{kind} {sized(shape)} axis {axis}"
                yield name, lambda k=kind, s=shape, a=axis: one(f"Reduce{k}", x(*s), c([a]))
            for op in ("ArgMax", "ArgMin"):
                yield f"{op} {sized(shape)} axis {axis}", lambda o=op, s=shape, a=axis: one(o, x(*s), axis=a)
    for kind in REDUCTIONS:
        yield f"Reduce{kind} 64x4096 all", lambda k=kind: one(f"Reduce{k}", x(64, 4096), keepdims=0)
        yield f"Reduce{kind} 8x32x28x28 axes 2,3", lambda k=kind: one(f"Reduce{k}", x(8, 32, 28, 28), c([2, 3]))
        yield f"Reduce{kind} 8x32x28x28 axes 0,2,3", lambda k=kind: one(f"Reduce{k}", x(8, 32, 28, 28), c([0, 2, 3]))
        yield f"Reduce{kind} 4x16", lambda k=kind: one(f"Reduce{k}", x(4, 16), c([1]))
    for dtype in ("i4", "i8"):
        for kind in ("Sum", "Max", "Mean", "Prod"):
            # onnxruntime multiplies integers as floats, which agrees where nothing overflows.
            numbers = x(512, 768, dtype=dtype, low=-1, high=2) if kind == "Prod" else x(512, 768, dtype=dtype)
            for axis in (0, 1):
                name = f"Reduce{kind} {dtype} 512x768 axis {axis}"
                yield name, lambda k=kind, n=numbers, a=axis: one(f"Reduce{k}", n, c([a]))
    for dtype in ("i4", "i8", "u1", "i1"):
        for axis in (0, 1):
            name = f"ArgMax {dtype} 512x768 axis {axis}"
            if dtype != "i8":
                yield name, lambda d=dtype, a=axis: one("ArgMax", x(512, 768, dtype=d), axis=a)
    yield "ArgMax 64x50257 last", lambda: one("ArgMax", x(64, 50257), axis=1, select_last_index=1)
    yield "ArgMax 1x21x256x256 axis 1", lambda: one("ArgMax", x(1, 21, 256, 256), axis=1)
