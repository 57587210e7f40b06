"""The front door for models that the PyTorch exporter pnnx writes.

>>> from refactor_graph.pnnx import make_compiler
>>> executor = make_compiler("model.pnnx.param").compile("cpu")  # doctest: +SKIP
>>> outputs = executor({"in0": array})  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refactor_graph import _core, onnx
from refactor_graph._core import find_device
from refactor_graph._custom import CustomOp, LibraryOp, natives
from refactor_graph._errors import InvalidInput, InvalidModel, Unsupported, quote
from refactor_graph._files import read_file

__all__ = ["Compiler", "check", "find_device", "make_compiler", "supported_operators"]

InputShapes = Mapping[str, Sequence[int | str | None]]
"""Shapes by input: numbers, names of symbols, None for a symbol of its own."""

_MAX_PARAM = 2**28
"""Bytes of a param file, far beyond real ones."""


@dataclass
class Files:
    """What was read: the text of the param file and the mapped bin file."""

    name: str
    is_ncnn: bool
    param: bytes
    bin: memoryview | None


class Compiler(onnx.Compiler):
    """A model that was read and checked; made by :func:`make_compiler`. Used as `refactor_graph.onnx.Compiler` is."""

    def __init__(self, files: Files, shapes: InputShapes, custom_ops: Sequence[CustomOp | LibraryOp]) -> None:
        self._files = files
        customs = natives(custom_ops)
        try:
            load = _core.load_ncnn if files.is_ncnn else _core.load_pnnx
            self._model = load(files.param, files.bin, [(name, list(dims)) for name, dims in shapes.items()], customs)
        except (InvalidModel, Unsupported) as error:
            raise type(error)(f"{files.name}: {error}", error.problems) from None

    @property
    def metadata(self) -> dict[str, str]:
        """Nothing: the format has none."""
        return {}


def make_compiler(
    param_path: str | os.PathLike[str],
    bin_path: str | os.PathLike[str] | None = None,
    *,
    input_shapes: InputShapes | None = None,
    custom_ops: Sequence[CustomOp | LibraryOp] = (),
) -> Compiler:
    """Read and check a model that pnnx wrote.

    Parameters
    ----------
    param_path
        The `.pnnx.param` file, or a `.ncnn.param` file that pnnx wrote: its tensors have no batch axis.
    bin_path
        The `.bin` file; by default beside the param file under the same name. Must not be changed or truncated
        while the compiler or an executor made from it lives: weights are mapped, not copied.
    input_shapes
        Shapes of inputs (in0, in1 …), which replace those of the file; the same symbol in two of them says that the
        sizes are equal. The file's own unknown sizes are symbols of their own.
    custom_ops
        Operators of your own for this model alone; they come before those of `refactor_graph.register_op`. A node of
        the type "a.b.Op" or "a.b::Op" is operator "Op" of the domain "a.b"; its inputs are those of the node and then
        its weights. A layer of ncnn has its parameters as attributes p0, p1 …, and no weights.

    Raises
    ------
    InvalidInput
        If a file cannot be read.
    InvalidModel
        If the files break their format; lists every problem that was found.
    Unsupported
        If they are legal but something in them is not supported; lists all of it.
    """
    if not isinstance(param_path, str | os.PathLike):
        raise InvalidInput(f"param_path: expected a path, got {type(param_path).__name__}")
    path = str(os.fspath(param_path))
    name = quote(path, 200)
    param = bytes(read_file(path, name)[: _MAX_PARAM + 1])
    if len(param) > _MAX_PARAM:
        raise InvalidInput(f"{name} is larger than {_MAX_PARAM} bytes")
    if bin_path is None:
        beside = path.removesuffix(".param") + ".bin"
        data = read_file(beside, quote(beside, 200)) if os.path.exists(beside) else None  # noqa: PTH110
    else:
        data = read_file(str(os.fspath(bin_path)), quote(str(os.fspath(bin_path)), 200))
    return Compiler(Files(name, path.endswith(".ncnn.param"), param, data), input_shapes or {}, custom_ops)


def check(
    param_path: str | os.PathLike[str],
    bin_path: str | os.PathLike[str] | None = None,
    target: str = "cpu",
    *,
    custom_ops: Sequence[CustomOp | LibraryOp] = (),
) -> list[str]:
    """Return every reason why a model cannot run on `target`, empty if it can; arguments as of `make_compiler`."""
    try:
        return make_compiler(param_path, bin_path, custom_ops=custom_ops).check(target)
    except (InvalidModel, Unsupported) as error:
        return list(error.problems)


def supported_operators() -> list[str]:
    """Return the names of all pnnx operators that are lowered, sorted."""
    return _core.pnnx_operators()
