"""What the commands feed to a model, and what they show of its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper

from refactor_graph._errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from refactor_graph._core import Port

_SEED = 0


def _numpy_type(name: str) -> np.dtype[Any]:
    """Numpy's type for the short name of a port's type ("f32", "i64", "bf16", …)."""
    codes = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11}
    codes |= {"u32": 12, "u64": 13, "bf16": 16}
    if name not in codes:
        raise InvalidInput(f"inputs of type {name} cannot be generated; give a file by --input")
    return np.dtype(helper.tensor_dtype_to_np_dtype(codes[name]))


def parse_sizes(text: Sequence[str], symbols: Sequence[str]) -> dict[str, int]:
    """Return the sizes of `NAME=NUMBER`, by name; every name must be a symbol of the model."""
    sizes = {}
    for item in text:
        name, equals, value = item.rpartition("=")
        if not equals or not value.isdigit():
            raise InvalidInput(f"--dim: expected NAME=NUMBER, got {item!r}")
        if name not in symbols:
            raise InvalidInput(f"--dim: the model has no symbol {name!r}, it has: {', '.join(symbols) or 'none'}")
        sizes[name] = int(value)
    return sizes


def read_inputs(text: Sequence[str], ports: Sequence[Port], sizes: dict[str, int]) -> dict[str, NDArray[Any]]:
    """Return the arrays of `NAME=FILE.npy`, by name.

    Every name must be an input of the model, and no array may contradict `sizes`, those of the symbols.
    """
    known = {port.name: port for port in ports}
    given: dict[str, NDArray[Any]] = {}
    for item in text:
        name, equals, path = item.partition("=")
        if not equals:
            raise InvalidInput(f"--input: expected NAME=FILE.npy, got {item!r}")
        for other in known:  # names may contain "="
            if len(other) > len(name) and item.startswith(f"{other}="):
                name, path = other, item[len(other) + 1 :]
        if name not in known:
            raise InvalidInput(f"--input: the model has no input {name!r}, it has: {', '.join(known) or 'none'}")
        if name in given:
            raise InvalidInput(f"--input: {name!r} is given twice")
        try:
            given[name] = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"--input: {path} cannot be read: {error}") from None
        if not isinstance(given[name], np.ndarray):
            raise InvalidInput(f"--input: expected {path} to hold one array (.npy), got {type(given[name]).__name__}")
        for axis, (symbol, size) in enumerate(zip(known[name].shape or (), given[name].shape, strict=False)):
            if sizes.get(str(symbol), size) != size:
                raise InvalidInput(
                    f"--dim: {symbol}={sizes[str(symbol)]}, but axis {axis} of {path} has the size {size}"
                )
    return given


def make_inputs(
    ports: Sequence[Port], sizes: dict[str, int], given: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return an array for every input: a given one, else random; symbols without a size are 1."""
    generator = np.random.default_rng(_SEED)
    arrays = {}
    for port in ports:
        if port.name in given:
            arrays[port.name] = given[port.name]
            continue
        if port.shape is None:
            raise InvalidInput(f"input {port.name!r} has no declared rank; give a file by --input")
        shape = [size if isinstance(size, int) else sizes.get(size, 1) for size in port.shape]
        dtype = _numpy_type(port.dtype)
        if dtype.kind in "iub":
            # Small numbers are valid as token ids, masks and positions alike.
            arrays[port.name] = generator.integers(0, 2, shape).astype(dtype)
        else:
            arrays[port.name] = generator.standard_normal(shape).astype(dtype)
    return arrays


def leaves(name: str, value: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the tensors of an output with a name for each: itself, or those in a sequence, optional or map."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(f"{name}[{key!r}]", item)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from leaves(f"{name}[{i}]", item)
    elif value is not None:
        yield name, np.asarray(value)


def numbers(array: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return the elements as numbers to subtract, or None for text."""
    return None if array.dtype.kind in "OSU" else array.astype(np.float64)


def difference(mine: NDArray[Any], reference: NDArray[Any], rtol: float, atol: float) -> tuple[bool, float]:
    """Return whether two arrays agree, and the largest difference (NaN if there is none to tell)."""
    if mine.dtype != reference.dtype and mine.dtype.itemsize == reference.dtype.itemsize:
        reference = reference.view(mine.dtype)  # onnxruntime hands types out that numpy lacks as integers
    if mine.shape != reference.shape:
        return False, float("nan")
    ours, theirs = numbers(mine), numbers(reference)
    if ours is None or theirs is None:
        return bool(np.array_equal(mine, reference)), float("nan")
    same = bool(np.allclose(ours, theirs, rtol, atol, equal_nan=True))
    with np.errstate(invalid="ignore"):
        return same, float(np.max(np.abs(ours - theirs))) if mine.size else float("nan")
