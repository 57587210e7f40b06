"""The tree of exceptions: everything that the library raises on purpose is an :class:`Error`."""

# ruff: noqa: N818 (the names are those of the C++ core, and every one of them is an Error)
from __future__ import annotations

from collections.abc import Sequence


class Error(Exception):
    """Root of all exceptions of the library."""


class InvalidModel(Error, ValueError):
    """The model breaks its specification.

    Attributes
    ----------
    problems
        Every problem that was found, one text each; `str(error)` holds them all.
    """

    problems: tuple[str, ...]

    def __init__(self, message: str, problems: Sequence[str] | None = None) -> None:
        super().__init__(message)
        self.problems = tuple(problems) if problems is not None else _listed(message)


class InvalidInput(Error, ValueError):
    """An argument, an option or a run-time input of the user is wrong."""


class Unsupported(Error, NotImplementedError):
    """The model is legal but something in it is not supported.

    Attributes
    ----------
    problems
        Every problem that was found, one text each; `str(error)` holds them all.
    """

    problems: tuple[str, ...]

    def __init__(self, message: str, problems: Sequence[str] | None = None) -> None:
        super().__init__(message)
        self.problems = tuple(problems) if problems is not None else _listed(message)


class OutOfMemory(Error, MemoryError):
    """Memory of a device ran out; the executor stays usable."""


class DeviceError(Error, RuntimeError):
    """A device is missing, or a call into it failed."""


class Cancelled(Error, RuntimeError):
    """A run was cancelled or ran past its deadline."""


class OperatorError(Error, RuntimeError):
    """A custom operator failed, or gave something else than it had announced; `__cause__` is what it raised."""


class InternalError(Error, RuntimeError):
    """A defect of the library itself: please report it."""


def _listed(message: str) -> tuple[str, ...]:
    """Return the problems that a message of the core lists, one a line and indented; itself if it lists none.

    Lines that are indented further are reasons, and belong to the problem before them.
    """
    problems: list[str] = []
    for line in message.split("\n")[1:]:
        if line.startswith("    ") and problems:
            problems[-1] += f"\n{line[2:]}"
        elif line.startswith("  "):
            problems.append(line[2:])
    return tuple(problems) or (message,)


def quote(text: str, limit: int = 80) -> str:
    """Quoted `text` for a message, cut in the middle where it is very long."""
    if len(text) > limit:
        text = f"{text[: limit // 2]}…{text[-limit // 4 :]}"
    return repr(text)
