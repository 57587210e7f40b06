"""External data: tensors whose bytes are in files beside the model.

A model is untrusted input, so a location may only name a regular file inside the model's own directory: no absolute
path, no `..`, no symbolic link that leaves the directory, no pipe or device, and no range outside the file (onnx
CVE-2022-25882, CVE-2024-27318, CVE-2026-27489, CVE-2026-34446, CVE-2026-34447). Files are mapped read-only and never
copied; a file must not be truncated while a compiler or an executor made from it lives.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from onnx import TensorProto

from refactor_graph._errors import InvalidInput, quote

_DRIVE = re.compile(r"^[A-Za-z]:")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_NUMBER = re.compile(r"^[0-9]{1,19}$")
_KEYS = {"location", "offset", "length", "checksum", "basepath"}
_LONGEST_LOCATION = 4095


class ExternalDataError(Exception):
    """Why external data of one tensor cannot be used."""


def directory_of(base: str | os.PathLike[str]) -> Path:
    """Turn a path or a `file://` URI into a directory.

    Raises
    ------
    InvalidInput
        If it is another kind of URI, or no directory.
    """
    if not isinstance(base, str | os.PathLike):
        raise InvalidInput(f"base_dir_or_uri: expected a path or a file:// URI, got {type(base).__name__}")
    text = os.fspath(base)
    if _SCHEME.match(text):
        parts = urlsplit(text)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            raise InvalidInput(f"base_dir_or_uri: expected a directory or a file:// URI, got {quote(text)}")
        text = unquote(parts.path)
    try:
        path = Path(text).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(f"base_dir_or_uri: {quote(text)} cannot be read: {error}") from None
    if not path.is_dir():
        raise InvalidInput(f"base_dir_or_uri: {quote(text)} is not a directory")
    return path


def checked_location(location: str) -> str:
    """Return `location` if it is a relative path without `..`, else raise `ExternalDataError`."""
    shown = quote(location)
    if not location:
        raise ExternalDataError("the location is empty")
    if "\0" in location:
        raise ExternalDataError(f"location {shown} contains a NUL character")
    if len(os.fsencode(location)) > _LONGEST_LOCATION:
        raise ExternalDataError(f"location {shown} is {len(location)} characters long")
    if location[0] in "/\\" or _DRIVE.match(location) or _SCHEME.match(location):
        raise ExternalDataError(f"location {shown} is not a path relative to the model's directory")
    if ".." in re.split(r"[/\\]", location):
        raise ExternalDataError(f"location {shown} contains '..'")
    return location


class ExternalFiles:
    """The files beside one model, each mapped at most once.

    Parameters
    ----------
    root
        The model's directory, or None for a model that came without one: then every location is refused.
    """

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._open: dict[str, memoryview] = {}

    def _map(self, location: str) -> memoryview:
        if self._root is None:
            raise ExternalDataError(
                "its data is external, and a model given as bytes or ModelProto needs the argument base_dir_or_uri"
            )
        shown = quote(location)
        try:
            root = os.path.realpath(self._root, strict=True)
            path = os.path.realpath(f"{root}/{checked_location(location)}", strict=True)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ExternalDataError(f"location {shown} cannot be opened: {reason}") from None
        self._check_inside(root, path, shown)
        # O_NONBLOCK: opening a pipe must not wait. O_NOFOLLOW: a link put there after the check is refused.
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            raise ExternalDataError(f"location {shown} cannot be opened: {error.strerror}") from None
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise ExternalDataError(f"location {shown} is not a regular file")
            # What was opened may still lie elsewhere if a directory was replaced in between.
            self._check_inside(root, os.path.realpath(f"/proc/self/fd/{handle}"), shown)
            if status.st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(handle, 0, access=mmap.ACCESS_READ))
        finally:
            os.close(handle)

    @staticmethod
    def _check_inside(root: str, path: str, shown: str) -> None:
        if os.path.commonpath([root, path]) != root:
            raise ExternalDataError(f"location {shown} leads outside the model's directory")

    def read(self, tensor: TensorProto, expected: int) -> memoryview:
        """Return the `expected` bytes of `tensor`, mapped.

        Raises
        ------
        ExternalDataError
            With the reason, if location, offset or length are not acceptable.
        """
        entries: dict[str, str] = {}
        for entry in tensor.external_data:
            if entry.key in entries:
                raise ExternalDataError(f"external_data has the key {quote(entry.key)} twice")
            entries[entry.key] = entry.value
        unknown = sorted(set(entries) - _KEYS)
        if unknown:
            raise ExternalDataError(f"external_data has unknown keys {unknown}")
        if "location" not in entries:
            raise ExternalDataError("external_data has no location")
        offset = _number("offset", entries.get("offset", "0"))
        length = _number("length", entries["length"]) if "length" in entries else expected
        if length != expected:
            raise ExternalDataError(f"length is {length} bytes, but its type and dims need {expected}")
        location = checked_location(entries["location"])
        data = self._open.get(location)
        if data is None:
            data = self._open[location] = self._map(location)
        if offset + length > len(data):
            raise ExternalDataError(
                f"bytes {offset} to {offset + length} are outside {quote(location)}, which has {len(data)}"
            )
        return data[offset : offset + length]


def _number(key: str, text: str) -> int:
    if not _NUMBER.match(text) or int(text) >= 2**63:
        raise ExternalDataError(f"{key} {quote(text)} is not a number of bytes")
    return int(text)
