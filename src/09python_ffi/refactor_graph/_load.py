"""A path, bytes or ModelProto to a parsed model whose weights are not copied."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import ModelProto

from refactor_graph._custom import AnyOp
from refactor_graph._errors import InvalidInput, InvalidModel, quote
from refactor_graph._external import ExternalFiles, directory_of
from refactor_graph._files import MAP_FROM, read_file
from refactor_graph._wire import strip_weights

ModelSource = str | os.PathLike[str] | bytes | ModelProto
"""What `make_compiler` accepts."""


@dataclass
class LoadedModel:
    """A parsed model and where its data is."""

    proto: ModelProto
    files: ExternalFiles
    name: str
    """How messages call it."""
    raw: dict[int, memoryview] = field(default_factory=dict)
    """Bytes of initializers (by number) that were left out of `proto`."""
    custom_ops: Sequence[AnyOp] = ()
    """Operators of this model alone."""


def load_model(model: ModelSource, base: str | os.PathLike[str] | None) -> LoadedModel:
    """Read and parse `model`.

    Raises
    ------
    InvalidInput
        If it cannot be read, or is of another type.
    InvalidModel
        If it is not an ONNX model.
    """
    root = directory_of(base) if base is not None else None
    if isinstance(model, ModelProto):
        return LoadedModel(model, ExternalFiles(root), "the model")
    if isinstance(model, bytes | bytearray | memoryview):
        return _parse(memoryview(model), ExternalFiles(root), "the model")
    if not isinstance(model, str | os.PathLike):
        raise InvalidInput(f"model: expected a path, bytes or onnx.ModelProto, got {type(model).__name__}")
    path = os.fspath(model)
    name = quote(str(path), 200)
    data = read_file(path, name)
    return _parse(data, ExternalFiles(root or Path(path).absolute().parent), name)


def _parse(data: memoryview, files: ExternalFiles, name: str) -> LoadedModel:
    stripped = strip_weights(data) if len(data) >= MAP_FROM else None
    try:
        if stripped is not None:
            return LoadedModel(ModelProto.FromString(stripped.model), files, name, stripped.raw)
        return LoadedModel(ModelProto.FromString(bytes(data)), files, name)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidModel(f"{name} is not an ONNX model: {error or 'it cannot be parsed'}") from None
