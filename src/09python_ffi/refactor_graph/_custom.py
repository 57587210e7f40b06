"""Operators that users define: registered for all models, or given to one compiler."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactor_graph import _core
from refactor_graph._errors import InvalidInput
from refactor_graph._types import CORE_NAMES, code_of


class Dim:
    """A size that only a run knows, such as ``N`` or ``N + 1``; computes with other sizes and ints.

    Parameters
    ----------
    text
        A symbol or an expression of symbols.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Dim({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def _with(self, operator: str, other: Any, *, swapped: bool = False) -> Any:
        if isinstance(other, bool) or not (isinstance(other, Dim) or hasattr(other, "__index__")):
            return NotImplemented
        text = other._text if isinstance(other, Dim) else str(other.__index__())
        first, second = (text, self._text) if swapped else (self._text, text)
        return Dim(f"({first}) {operator} ({second})")

    def __add__(self, other: Size) -> Dim:
        return self._with("+", other)  # type: ignore[no-any-return]

    def __radd__(self, other: int) -> Dim:
        return self._with("+", other, swapped=True)  # type: ignore[no-any-return]

    def __sub__(self, other: Size) -> Dim:
        return self._with("-", other)  # type: ignore[no-any-return]

    def __rsub__(self, other: int) -> Dim:
        return self._with("-", other, swapped=True)  # type: ignore[no-any-return]

    def __mul__(self, other: Size) -> Dim:
        return self._with("*", other)  # type: ignore[no-any-return]

    def __rmul__(self, other: int) -> Dim:
        return self._with("*", other, swapped=True)  # type: ignore[no-any-return]

    def __floordiv__(self, other: Size) -> Dim:
        return self._with("//", other)  # type: ignore[no-any-return]

    def __mod__(self, other: Size) -> Dim:
        return self._with("%", other)  # type: ignore[no-any-return]


Size = int | Dim


@dataclass(frozen=True)
class TensorType:
    """What a shape function knows of a tensor.

    Attributes
    ----------
    dtype
        "f32", "i64", "string", …
    shape
        An int for each size that is known, a `Dim` for others.
    value
        The content, if it is constant (or asked for by `CustomOp.needs`); not to be written.
    """

    dtype: str
    shape: tuple[Size, ...]
    value: NDArray[Any] | None = field(default=None, compare=False)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)


Announced = TensorType | tuple[Any, Sequence[int | str | Dim | None] | None]
"""Type of a result: dtype and sizes; a size is None where only the run knows it, all of them if not even the rank."""


def _dtype_code(dtype: Any) -> int:
    """Return the ONNX code of an element type: a name of the library, or anything that numpy takes for a dtype."""
    if isinstance(dtype, str):
        if not code_of(dtype):
            raise InvalidInput(f"unknown element type {dtype!r}, expected one of: {', '.join(CORE_NAMES[1:])}")
        return code_of(dtype)
    if dtype is str:
        return code_of("string")
    from onnx import helper

    try:
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    except (TypeError, ValueError, KeyError):
        raise InvalidInput(f"unknown element type {dtype!r}") from None


def _size_text(size: Any) -> str | None:
    if size is None or isinstance(size, str):
        return size
    if isinstance(size, Dim):
        return str(size)
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise InvalidInput(f"a size is a {type(size).__name__}, expected int, Dim, str or None")
    return str(size.__index__())


_KINDS = {"cpu": "cpu", "cuda": "nvidia"}
"""Kinds of devices by the names that users compile for."""


@dataclass(frozen=True, eq=False)
class CustomOp:
    """An operator of your own, computed by a Python callable.

    Parameters
    ----------
    domain, name
        What nodes call it; the default domain of ONNX is "".
    compute
        Takes an array for each input (None if it is omitted; not to be written) and the attributes of the node as
        keywords, and returns an array, or a tuple of arrays if the node has several outputs. They may be used without a
        copy, so later calls must not write into them. Called by every thread that runs the model.
    shape
        Takes a `TensorType` for each input (None if it is omitted) and the attributes, and returns for each output a
        `TensorType` or a pair (dtype, sizes); see `Announced`. One that is no list stands for one output.
    versions
        First and last version of the domain's operator set; last None: every later one.
    needs
        Numbers of inputs whose content `shape` needs: where it is not constant, the node and all that depend on it are
        compiled when a run knows it.
    device
        Where `compute` works: "cpu", or "cuda". There it takes a `DeviceArray` for each input, whose content is
        complete, and returns `DeviceArray` or anything in the memory of that GPU that has `__dlpack__` or
        `__cuda_array_interface__`. The run goes on behind the work in the stream that a result belongs to; work in
        other streams must have been joined. `current_stream` is the stream of the call.
    """

    domain: str
    name: str
    compute: Callable[..., Any]
    shape: Callable[..., Any]
    versions: tuple[int, int | None] = (1, None)
    needs: Sequence[int] = ()
    device: str = "cpu"
    _native: _core.CustomOperator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the arguments."""
        first, last = self.versions
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput(f"custom operator: expected a name, got {self.name!r}")
        if first < 1 or (last is not None and last < first):
            raise InvalidInput(f"custom operator {self.name}: versions {first} to {last} make no range")
        if self.device not in _KINDS:
            raise InvalidInput(
                f"custom operator {self.name}: the device is {self.device!r}, expected one of: {', '.join(_KINDS)}"
            )
        for what in ("compute", "shape"):
            if not callable(getattr(self, what)):
                raise InvalidInput(f"custom operator {self.name}: {what} cannot be called")
        # The native side must not keep this object alive, which keeps the native side alive.
        infer, compute = _infer_function(self.shape), _compute_function(self.compute)
        domain = "" if self.domain == "ai.onnx" else self.domain
        native = _core.CustomOperator(
            domain, self.name, first, last, infer, compute, list(self.needs), _KINDS[self.device]
        )
        object.__setattr__(self, "_native", native)


@dataclass(frozen=True, eq=False)
class LibraryOp:
    """An operator of a shared library.

    Attributes
    ----------
    domain, name
        What nodes call it.
    versions
        First and last version of the domain's operator set; last None: every later one.
    """

    domain: str
    name: str
    versions: tuple[int, int | None]
    _native: _core.CustomOperator = field(repr=False)


AnyOp = CustomOp | LibraryOp


def _infer_function(shape: Callable[..., Any]) -> Callable[..., Any]:
    def infer(inputs: list[Any], attributes: dict[str, Any], count: int) -> list[tuple[int, list[str | None] | None]]:
        types: list[TensorType | None] = []
        for item in inputs:
            if item is None:
                types.append(None)
                continue
            dtype, sizes, value = item
            types.append(TensorType(dtype, tuple(Dim(s) if isinstance(s, str) else s for s in sizes), value))
        result = shape(*types, **attributes)
        if isinstance(result, TensorType) or (isinstance(result, tuple) and count == 1 and not _is_nested(result)):
            result = [result]
        announced = []
        for item in result:
            dtype, sizes = (item.dtype, item.shape) if isinstance(item, TensorType) else item
            announced.append((_dtype_code(dtype), None if sizes is None else [_size_text(size) for size in sizes]))
        return announced

    return infer


def _is_nested(result: tuple[Any, ...]) -> bool:
    """Whether a tuple holds types, and is not one."""
    return len(result) > 0 and isinstance(result[0], (TensorType, tuple, list))


def _compute_function(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(inputs: list[Any], attributes: dict[str, Any], count: int) -> list[Any]:
        result = function(*inputs, **attributes)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(results) != count:
            raise TypeError(f"it returned {len(results)} arrays, the node has {count} outputs")
        return results

    return compute


_lock = threading.Lock()
_registered: list[AnyOp] = []


def register_op(*ops: AnyOp) -> None:
    """Make operators known to all models that are read from now on.

    Built-in operators come first; of two custom ones for the same node, the one registered last.
    """
    _check(ops)
    with _lock:
        _registered.extend(ops)


def unregister_op(*ops: AnyOp) -> None:
    """Take back `register_op`; models that have been read keep the operators.

    Raises
    ------
    InvalidInput
        If one is not registered.
    """
    with _lock:
        for op in ops:
            if op not in _registered:
                raise InvalidInput(f"custom operator {getattr(op, 'name', op)!r} is not registered")
            _registered.remove(op)


def custom_op(
    domain: str,
    name: str,
    shape: Callable[..., Any],
    versions: tuple[int, int | None] = (1, None),
    needs: Sequence[int] = (),
    device: str = "cpu",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function as a `CustomOp`, and leaves it as it is."""

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        register_op(CustomOp(domain, name, compute, shape, versions, needs, device))
        return compute

    return decorate


def load_library(path: str | os.PathLike[str]) -> list[LibraryOp]:
    """Load a shared library of operators without registering them; for `make_compiler(model, custom_ops=...)`.

    Raises
    ------
    InvalidInput
        If it cannot be loaded, or was built for another interface.
    """
    natives = _core.load_custom_library(str(Path(path).absolute()))
    return [LibraryOp(native.domain, native.name, (native.first, native.last), native) for native in natives]


def register_library(path: str | os.PathLike[str]) -> list[LibraryOp]:
    """`load_library` and `register_op`; returns the operators."""
    ops = load_library(path)
    register_op(*ops)
    return ops


def get_include() -> str:
    """Return the folder of the C header `refactor_graph/custom_operator.h`, for building a library of operators."""
    return str(Path(__file__).parent / "include")


def _check(ops: Iterable[AnyOp]) -> None:
    for op in ops:
        if not isinstance(op, (CustomOp, LibraryOp)):
            raise InvalidInput(f"expected a CustomOp or LibraryOp, got {type(op).__name__}")


def natives(extra: Iterable[AnyOp] = ()) -> list[_core.CustomOperator]:
    """Operators for a new model; later ones come before earlier ones."""
    from refactor_graph._python_ops import PYTHON_OPS

    if not isinstance(extra, Iterable):
        raise InvalidInput(f"custom_ops: expected a list of operators, got {type(extra).__name__}")
    extra = list(extra)
    _check(extra)
    with _lock:
        return [op._native for op in (*PYTHON_OPS, *_registered, *extra)]
