"""Compiled models in files: written by `Executor.save`, read by :func:`refactor_graph.load`.

The file has the format of safetensors: eight bytes with the length of a header, a header in JSON, tensors. Tensor
`graph` holds the graphs as the passes left them, `checksums` the CRC-32 of the others; those with a number are the
constants of the model and what kernels packed of them, and begin at multiples of 64 bytes, so that they are used where
the file is mapped. Source: the format's description at https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from refactor_graph import _core
from refactor_graph._errors import InvalidInput, InvalidModel, Unsupported, quote
from refactor_graph._files import read_file

_FORMAT = "refactor_graph executable 1"
_ALIGNMENT = 64
_LENGTH = 8
"""Bytes of the header's length."""
_LONGEST_HEADER = 100 << 20

_TYPES = {
    **{"bool": ("BOOL", 1), "u8": ("U8", 1), "i8": ("I8", 1), "f8e4m3fn": ("F8_E4M3", 1), "f8e5m2": ("F8_E5M2", 1)},
    **{"u16": ("U16", 2), "i16": ("I16", 2), "f16": ("F16", 2), "bf16": ("BF16", 2)},
    **{"u32": ("U32", 4), "i32": ("I32", 4), "f32": ("F32", 4)},
    **{"u64": ("U64", 8), "i64": ("I64", 8), "f64": ("F64", 8)},
}
"""Names of the format for ours, and bytes of an element; others are bytes for other readers."""


@dataclass
class _Layout:
    """Names, types, shapes and places of tensors, one behind the other."""

    entries: dict[str, object]
    end: int = 0
    places: list[tuple[int, int]] = field(default_factory=list)
    """First byte and number of bytes of each tensor that was added."""

    def add(self, name: str, kind: str, shape: list[int], size: int) -> None:
        """Place a tensor at the next multiple of the alignment; the format allows no holes."""
        if rest := -self.end % _ALIGNMENT:
            self._enter(f"padding {len(self.places)}", "U8", [rest], rest)
        self.places.append((self.end, size))
        self._enter(name, kind, shape, size)

    def _enter(self, name: str, kind: str, shape: list[int], size: int) -> None:
        self.entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [self.end, self.end + size]}
        self.end += size


def _layout_of(saved: _core.Saved, graph: bytes) -> _Layout:
    metadata = {
        "format": _FORMAT,
        "version": _core.__version__,
        "processor": _core.TuningTable.processor,
        "graph_sha256": hashlib.sha256(graph).hexdigest(),
    }
    layout = _Layout({"__metadata__": metadata})
    layout.add("graph", "U8", [len(graph)], len(graph))
    tensors = saved.tensors
    layout.add("checksums", "U32", [len(tensors)], 4 * len(tensors))
    for number, (name, kind, shape, size) in enumerate(tensors):
        text = f"{number} {name.decode(errors='replace')}"
        known, width = _TYPES.get(kind, ("U8", 0))
        fits = width * math.prod(shape) == size
        layout.add(text, known if fits else "U8", list(shape) if fits else [size], size)
    return layout


def _write(file: BinaryIO, saved: _core.Saved) -> None:
    graph = saved.graph
    layout = _layout_of(saved, graph)
    header = json.dumps(layout.entries, separators=(",", ":")).encode()
    header += b" " * (-(_LENGTH + len(header)) % _ALIGNMENT)
    start = _LENGTH + len(header)
    file.write(len(header).to_bytes(_LENGTH, "little") + header)
    file.write(graph)
    checksums = array("I")
    for number, (offset, _) in enumerate(layout.places[2:]):
        file.seek(start + offset)
        content = memoryview(saved.bytes(number))
        checksums.append(zlib.crc32(content))
        file.write(content)
    file.truncate(start + layout.end)
    file.seek(start + layout.places[1][0])
    file.write(checksums.tobytes())


def save_program(program: _core.Program, path: str | os.PathLike[str]) -> None:
    """Write a program to a file, which appears under its name when it is complete; see `Executor.save`."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"save: expected a path, got {type(path).__name__}")
    saved = program.save()
    target = Path(os.fsdecode(path))
    try:
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    except ValueError:
        raise InvalidInput(f"save: {quote(str(target), 200)} is no name of a file") from None
    try:
        with draft.open("xb") as file:
            _write(file, saved)
        draft.replace(target)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{quote(str(target), 200)} cannot be written: {reason}") from None
    finally:
        with contextlib.suppress(OSError, ValueError):
            draft.unlink(missing_ok=True)


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as those that `save` writes."""
    try:
        with Path(path).open("rb") as file:
            return _FORMAT.rpartition(" ")[0].encode() in file.read(200)
    except (OSError, ValueError):
        return False


class _DamageError(Exception):
    """What is wrong with a file."""


def _read_header(data: memoryview) -> tuple[dict[str, dict[str, object]], int]:
    length = int.from_bytes(data[:_LENGTH], "little")
    if len(data) < _LENGTH or length > min(len(data) - _LENGTH, _LONGEST_HEADER):
        raise _DamageError("its header is longer than the file")
    try:
        header = json.loads(bytes(data[_LENGTH : _LENGTH + length]))
    except (ValueError, RecursionError):
        raise _DamageError("its header is no JSON") from None
    if not isinstance(header, dict) or not all(isinstance(entry, dict) for entry in header.values()):
        raise _DamageError("its header is no table of tensors")
    return header, _LENGTH + length


def _tensors(header: dict[str, dict[str, object]], data: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Yield names and bytes, every place checked."""
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        places = entry.get("data_offsets")
        if not isinstance(places, list) or [type(place) for place in places] != [int, int]:
            raise _DamageError(f"tensor {quote(name)} has no place")
        begin, end = places
        if not 0 <= begin <= end <= len(data):
            raise _DamageError(f"tensor {quote(name)} lies at {begin} to {end} of {len(data)} bytes")
        yield name, data[begin:end]


@dataclass
class SavedModel:
    """What a file holds."""

    graph: bytes
    checksums: array[int]
    tensors: list[memoryview]
    names: list[str]


def _read(data: memoryview) -> SavedModel:
    header, start = _read_header(data)
    metadata = header.get("__metadata__", {})
    if metadata.get("format") != _FORMAT:
        raise _DamageError(f"expected the format {_FORMAT!r}, found {quote(str(metadata.get('format')))}")
    if metadata.get("version") != _core.__version__:
        version = quote(str(metadata.get("version")))
        raise Unsupported(f"saved by version {version}, this is {_core.__version__}: compile the model again")
    model = SavedModel(b"", array("I"), [], [])
    for name, part in _tensors(header, data[start:]):
        if name == "graph":
            model.graph = bytes(part)
        elif name == "checksums":
            model.checksums.frombytes(bytes(part[: len(part) // 4 * 4]))
        elif not name.startswith("padding "):
            if not name.startswith(f"{len(model.tensors)} "):
                raise _DamageError(f"tensor {quote(name)} is not number {len(model.tensors)}")
            model.tensors.append(part)
            model.names.append(name)
    if hashlib.sha256(model.graph).hexdigest() != metadata.get("graph_sha256"):
        raise _DamageError("its graph is not the one that was saved")
    if len(model.checksums) != len(model.tensors):
        raise _DamageError(f"{len(model.checksums)} checksums for {len(model.tensors)} tensors")
    return model


def _check_tensors(model: SavedModel) -> None:
    for name, tensor, checksum in zip(model.names, model.tensors, model.checksums, strict=True):
        if zlib.crc32(tensor) != checksum:
            raise _DamageError(f"tensor {quote(name)} is not the one that was saved")


def read_saved(path: str, name: str, verify: bool) -> SavedModel:
    """Return graph and tensors of a file, whose errors call it `name`; `verify` compares every checksum.

    Raises
    ------
    InvalidInput
        If the file cannot be read.
    InvalidModel
        If it is no saved model, or damaged.
    Unsupported
        If another version saved it.
    """
    data = read_file(path, name)
    try:
        model = _read(data)
        if verify:
            _check_tensors(model)
    except _DamageError as error:
        raise InvalidModel(f"{name} is not a saved model: {error}") from None
    except Unsupported as error:
        raise Unsupported(f"{name}: {error}") from None
    return model
