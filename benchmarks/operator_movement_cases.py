"""Models of a single operator that moves elements or looks them up."""

from __future__ import annotations

import numpy as np
from models import Case
from operator_cases import Cases, Operand, c, distinct_rows, index, one, order_along, sized, w, x

INTEGERS = ("i4", "i8", "u1")


def gathers() -> Cases:
    yield "Gather rows 30522x768 128", lambda: one("Gather", w(30522, 768), index(30522, 1, 128))
    yield "Gather rows 1000x16 4096", lambda: one("Gather", x(1000, 16), index(1000, 4096))
    yield "Gather scalars 100000 50000", lambda: one("Gather", x(100000), index(100000, 50000))
    yield "Gather axis 1 64x512x64 one", lambda: one("Gather", x(64, 512, 64), c(0), axis=1)
    yield "Gather axis 2 64x128x256 32", lambda: one("Gather", x(64, 128, 256), index(256, 32), axis=2)
    yield "Gather 4 of 4", lambda: one("Gather", x(4), index(4, 4))
    yield "GatherND 64x64x32 1000 rows", lambda: one("GatherND", x(64, 64, 32), index(64, 1000, 2))
    yield "GatherND 256x256 20000 elements", lambda: one("GatherND", x(256, 256), index(256, 20000, 2))
    for axis in (0, 1, 2):
        name = f"GatherElements 16x128x256 axis {axis}"
        yield name, lambda a=axis: one("GatherElements", x(16, 128, 256), index(16, 16, 128, 256), axis=a)
    windows = np.arange(7).reshape(7, 1) * 64 + np.arange(128)
    yield "Gather windows 12x512x64", lambda: one("Gather", x(12, 512, 64), c(windows), axis=1)
    for dtype in INTEGERS:
        name = f"Gather {dtype} 1000x64 512"
        yield name, lambda d=dtype: one("Gather", x(1000, 64, dtype=d), index(1000, 512))


def box(starts: list[int], sizes: list[int]) -> Operand:
    """Make the constant indices of `x[a:b, c:d, …] = v`, one tuple for each element: [*sizes, len(sizes)]."""
    return c(np.moveaxis(np.indices(sizes), 0, -1) + starts)


def scatters() -> Cases:
    boxes = {
        "12x8x64x129 half": ([12, 8, 64, 129], [0, 0, 0, 64], [12, 7, 64, 65]),
        "12x8x64x129 corner": ([12, 8, 64, 129], [0, 0, 1, 1], [12, 1, 63, 63]),
        "1x512x12x129 rows": ([1, 512, 12, 129], [0, 448, 0, 0], [1, 64, 12, 129]),
        "1x32x56x56 window": ([1, 32, 56, 56], [0, 0, 2, 2], [1, 32, 50, 50]),
    }
    for name, (whole, starts, sizes) in boxes.items():
        yield (
            f"ScatterND box {name}",
            lambda s=whole, b=starts, n=sizes: one("ScatterND", x(*s), box(b, n), x(*n)),
        )
    name = "ScatterND 12x8x64x129 elements"
    yield name, lambda: one("ScatterND", x(12, 8, 64, 129), index(8, 40000, 4), x(40000))
    rows = [(512, 64, 200), (16, 12800, 8), (4096, 4, 3000), (1000, 256, 1000)]
    for height, width, count in rows:
        name = f"ScatterND {height}x{width} {count} rows"
        yield name, lambda h=height, v=width, n=count: one("ScatterND", x(h, v), distinct_rows(h, n), x(n, v))
    name = "ScatterND 256x256 5000 elements add"
    yield name, lambda: one("ScatterND", x(256, 256), index(256, 5000, 2), x(5000), reduction="add")
    for axis in (0, 1):
        for kind in ("none", "add", "max"):
            updates = (256, 128) if axis else (128, 256)
            name = f"ScatterElements 256x256 axis {axis} {kind}"
            yield (
                name,
                lambda a=axis, k=kind, u=updates: one(
                    "ScatterElements", x(256, 256), order_along(a, *u), x(*u), axis=a, reduction=k
                ),
            )
    for along, shape in ((0, (4, 32, 4096)), (1, (4096, 1)), (2, (16, 64, 64))):
        data = [16 if i == along else size for i, size in enumerate(shape)]
        yield (
            f"ScatterElements {sized(shape)} axis {along}",
            lambda a=along, d=data, u=shape: one("ScatterElements", x(*d), index(16, *u), x(*u), axis=a),
        )
    name = "ScatterElements 1x1000 1x10"
    yield name, lambda: one("ScatterElements", x(1, 1000), order_along(1, 1, 10), x(1, 10), axis=1)


def joins() -> Cases:
    parts = {
        "2 of 4x32x28x28 axis 1": (2, (4, 32, 28, 28), 1),
        "8 of 4x16x14x14 axis 1": (8, (4, 16, 14, 14), 1),
        "4 of 4x60x7x7 axis 1": (4, (4, 60, 7, 7), 1),
        "6 of 1x40x14x14 axis 1": (6, (1, 40, 14, 14), 1),
        "3 of 1x128x768 axis 2": (3, (1, 128, 768), 2),
        "2 of 2048x1 axis 1": (2, (2048, 1), 1),
        "4 of 4096x3 axis 1": (4, (4096, 3), 1),
        "2 of 1x12x100x64 axis 2": (2, (1, 12, 100, 64), 2),
        "16 of 1x1x64 axis 1": (16, (1, 1, 64), 1),
        "2 of 1x4": (2, (1, 4), 1),
        "2 of 8x28x28x32 axis 3": (2, (8, 28, 28, 32), 3),
        "4 of 1x256x56x56 axis 1": (4, (1, 256, 56, 56), 1),
    }
    for name, (count, shape, axis) in parts.items():
        yield f"Concat {name}", lambda n=count, s=shape, a=axis: one("Concat", *[x(*s) for _ in range(n)], axis=a)

        def split(n: int = count, s: tuple[int, ...] = shape, a: int = axis) -> Case:
            whole = [size * n if i == a else size for i, size in enumerate(s)]
            return one("Split", x(*whole), outputs=n, axis=a, num_outputs=n)

        yield f"Split {name}", split
    for dtype in INTEGERS:
        name = f"Concat {dtype} 3 of 64x100 axis 1"
        yield name, lambda d=dtype: one("Concat", *[x(64, 100, dtype=d) for _ in range(3)], axis=1)
    sizes = [5, 27, 64]
    yield "Split 4x96x28x28 5,27,64", lambda: one("Split", x(4, 96, 28, 28), c(sizes), outputs=3, axis=1)


def slices() -> Cases:
    table: dict[str, tuple[tuple[int, ...], list[int], list[int], list[int], list[int]]] = {
        "rows": ((512, 768), [100], [400], [0], [1]),
        "columns": ((512, 768), [100], [400], [1], [1]),
        "one column": ((4096, 6), [2], [3], [1], [1]),
        "step 2": ((512, 768), [0], [768], [1], [2]),
        "step 3": ((512, 768), [1], [768], [1], [3]),
        "rows step 2": ((512, 768), [0], [512], [0], [2]),
        "both step 2": ((1, 64, 56, 56), [0, 0], [56, 56], [2, 3], [2, 2]),
        "focus": ((1, 3, 224, 224), [1, 0], [224, 224], [2, 3], [2, 2]),
        "reversed": ((512, 768), [-1], [-1000], [1], [-1]),
        "rows reversed": ((512, 768), [-1], [-1000], [0], [-1]),
        "step -2": ((512, 768), [-1], [-1000], [1], [-2]),
        "middle": ((8, 64, 32, 32), [2, 2], [30, 30], [2, 3], [1, 1]),
        "window": ((8, 197, 768), [0], [1], [1], [1]),
        "small": ((1, 4), [1], [3], [1], [1]),
        "channels last": ((1, 224, 224, 3), [-1], [-1000], [3], [-1]),
    }
    for name, (shape, *bounds) in table.items():
        yield f"Slice {sized(shape)} {name}", lambda s=shape, b=bounds: one("Slice", x(*s), *map(c, b))
    for dtype in INTEGERS:
        name = f"Slice {dtype} 512x768 step 2"
        yield name, lambda d=dtype: one("Slice", x(512, 768, dtype=d), *map(c, ([0], [768], [1], [2])))


def transposes() -> Cases:
    table = [
        ((1, 197, 12, 64), (0, 2, 1, 3)),
        ((1, 197, 12, 64), (0, 2, 3, 1)),
        ((1, 3, 224, 224), (0, 2, 3, 1)),
        ((1, 224, 224, 3), (0, 3, 1, 2)),
        ((1, 64, 56, 56), (0, 2, 3, 1)),
        ((1, 56, 56, 64), (0, 3, 1, 2)),
        ((1024, 1024), (1, 0)),
        ((1000, 3), (1, 0)),
        ((3, 1000), (1, 0)),
        ((4, 8, 16, 32, 8), (4, 3, 2, 1, 0)),
        ((1, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5)),
        ((1, 2, 116, 28, 28), (0, 2, 1, 3, 4)),
        ((1, 32, 2, 64, 2, 4), (0, 1, 3, 5, 2, 4)),
        ((100, 10, 20), (2, 0, 1)),
        ((100, 10, 20), (1, 2, 0)),
        ((2, 3, 4), (2, 1, 0)),
    ]
    for shape, order in table:
        name = f"Transpose {sized(shape)} {''.join(map(str, order))}"
        yield name, lambda s=shape, p=order: one("Transpose", x(*s), perm=p)
    for dtype in (*INTEGERS, "f2"):
        yield (
            f"Transpose {dtype} 1x64x56x56 0231",
            lambda d=dtype: one("Transpose", x(1, 64, 56, 56, dtype=d), perm=[0, 2, 3, 1]),
        )
        yield f"Transpose {dtype} 512x512", lambda d=dtype: one("Transpose", x(512, 512, dtype=d), perm=[1, 0])
    for mode in ("DCR", "CRD"):
        yield (
            f"DepthToSpace {mode} 1x64x64x64",
            lambda m=mode: one("DepthToSpace", x(1, 64, 64, 64), blocksize=2, mode=m),
        )
    yield "SpaceToDepth 1x3x224x224", lambda: one("SpaceToDepth", x(1, 3, 224, 224), blocksize=2)
    yield "SpaceToDepth 1x16x64x64 4", lambda: one("SpaceToDepth", x(1, 16, 64, 64), blocksize=4)


def fills() -> Cases:
    for mode in ("constant", "edge", "reflect", "wrap"):
        yield f"Pad {mode} 1x64x56x56", lambda m=mode: one("Pad", x(1, 64, 56, 56), c([0, 0, 1, 1] * 2), mode=m)
        yield f"Pad {mode} 1x3x224x224", lambda m=mode: one("Pad", x(1, 3, 224, 224), c([0, 0, 3, 3] * 2), mode=m)
        yield f"Pad {mode} 1x1x16000", lambda m=mode: one("Pad", x(1, 1, 16000), c([0, 0, 200] * 2), mode=m)
    yield "Pad constant 1x128x768 rows", lambda: one("Pad", x(1, 128, 768), c([0, 0, 0, 0, 5, 0]))
    yield "Pad constant 4096x3 columns", lambda: one("Pad", x(4096, 3), c([0, 0, 0, 1]))
    yield "Pad negative 1x64x56x56", lambda: one("Pad", x(1, 64, 56, 56), c([0, 0, -1, -1] * 2))
    for dtype in INTEGERS:
        yield f"Pad {dtype} 64x512", lambda d=dtype: one("Pad", x(64, 512, dtype=d), c([0, 3, 0, 3]))
    yield "Tile 1x1x768 128", lambda: one("Tile", x(1, 1, 768), c([1, 128, 1]))
    yield "Tile 64x64 2x3", lambda: one("Tile", x(64, 64), c([2, 3]))
    yield "Tile 1000x1 1x50", lambda: one("Tile", x(1000, 1), c([1, 50]))
    yield "Tile i8 100x2 1x40", lambda: one("Tile", x(100, 2, dtype="i8"), c([1, 40]))
    yield "Expand 1x1x128x128 8x12", lambda: one("Expand", x(1, 1, 128, 128), c([8, 12, 128, 128]))
    yield "Expand 512x1 512x512", lambda: one("Expand", x(512, 1), c([512, 512]))
    yield "Expand 1x64x1x1 56x56", lambda: one("Expand", x(1, 64, 1, 1), c([1, 64, 56, 56]))
    yield "Expand i8 1x512 512x512", lambda: one("Expand", x(1, 512, dtype="i8"), c([512, 512]))
    for upper in (0, 1):
        yield f"Trilu 8x256x256 {upper}", lambda u=upper: one("Trilu", x(8, 256, 256), upper=u)
    yield "Trilu i8 512x512", lambda: one("Trilu", x(512, 512, dtype="i8"), upper=0)
    yield "ConstantOfShape 512x512", lambda: one("ConstantOfShape", x(2, dtype="i8", low=512, high=513))
    yield "Range 100000", lambda: one("Range", c(0), x(dtype="i8", low=100000, high=100001), c(1))
    yield "EyeLike 512", lambda: one("EyeLike", x(512, 512))
    yield "ReverseSequence 100x16x64", lambda: one("ReverseSequence", x(100, 16, 64), c(np.arange(16) * 6 + 1))


def searches() -> Cases:
    for shape, count in (((1, 1000), 5), ((64, 1000), 5), ((1, 50257), 50), ((1, 8400), 300), ((100, 100), 100)):
        yield f"TopK {sized(shape)} {count}", lambda s=shape, k=count: one("TopK", x(*s), c([k]), outputs=2)
    yield "TopK 1x50257 50 smallest", lambda: one("TopK", x(1, 50257), c([50]), outputs=2, largest=0)
    yield "TopK 1x25200 1000", lambda: one("TopK", x(1, 25200), c([1000]), outputs=2)
    yield "TopK 64x128x32 axis 1 10", lambda: one("TopK", x(64, 128, 32), c([10]), outputs=2, axis=1)
    yield "TopK i8 16x1000 10", lambda: one("TopK", x(16, 1000, dtype="i8"), c([10]), outputs=2)
    yield "TopK 256x64 8", lambda: one("TopK", x(256, 64), c([8]), outputs=2)
    for dtype in ("f4", "i4", "i8"):
        for axis in (0, 1, 2):
            name = f"CumSum {dtype} 16x128x256 axis {axis}"
            yield name, lambda d=dtype, a=axis: one("CumSum", x(16, 128, 256, dtype=d), c(a))
    yield "CumSum i8 1x512", lambda: one("CumSum", x(1, 512, dtype="i8"), c(1))
    yield "CumSum 1x50257 reverse", lambda: one("CumSum", x(1, 50257), c(1), reverse=1, exclusive=1)
    yield "OneHot 512 of 1000", lambda: one("OneHot", index(1000, 512), c(1000), c([0, 1], "f4"))
    yield "OneHot 4096 of 21 axis 0", lambda: one("OneHot", index(21, 4096), c(21), c([0, 1], "f4"), axis=0)
    yield "NonZero b1 512x512", lambda: one("NonZero", x(512, 512, dtype="?"))
    yield "NonZero f4 100000", lambda: one("NonZero", x(100000))
    yield "NonZero i8 64x64x16", lambda: one("NonZero", x(64, 64, 16, dtype="i8", low=0, high=2))
    yield "Unique i8 4096", lambda: one("Unique", index(500, 4096), outputs=4)
    yield "Unique f4 10000", lambda: one("Unique", x(10000))
    yield "Unique i8 1000x8 axis 0", lambda: one("Unique", index(3, 1000, 8), outputs=1, axis=0)
    yield "Compress 512x64", lambda: one("Compress", x(512, 64), x(512, dtype="?"), axis=0)
    yield "Compress 100000", lambda: one("Compress", x(100000), x(100000, dtype="?"))


FAMILIES = [gathers, scatters, joins, slices, transposes, fills, searches]
