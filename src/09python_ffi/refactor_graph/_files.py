"""Files of models, mapped rather than read."""

from __future__ import annotations

import mmap
import os
import stat

from refactor_graph._errors import InvalidInput

MAP_FROM = 2**20
"""Bytes from which a file is mapped."""


def read_file(path: str, name: str) -> memoryview:
    """Return the bytes of a file, mapped if there are many.

    Raises
    ------
    InvalidInput
        If it is no regular file, or cannot be read; calls it `name`.
    """
    try:
        # O_NONBLOCK: opening a pipe must not wait.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{name} cannot be opened: {reason}") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInput(f"{name} is not a regular file")
        if status.st_size >= MAP_FROM:
            return memoryview(mmap.mmap(handle, 0, access=mmap.ACCESS_READ))
        with os.fdopen(os.dup(handle), "rb") as file:
            return memoryview(file.read())
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)
