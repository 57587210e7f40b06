"""Measured choices of kernels, kept in a file for the next process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import warnings
from pathlib import Path

from refactor_graph import _core
from refactor_graph._errors import InvalidInput

MODES = ("none", "quick", "cached")
"""How kernels are chosen: by estimates; by what was measured before, or else now; by what was measured before."""


def check_mode(tune: str) -> None:
    """Raise `InvalidInput` listing the modes if `tune` is none of them."""
    if tune not in MODES:
        raise InvalidInput(f"tune: expected one of {', '.join(MODES)}, got {tune!r}")


def cache_folder() -> Path | None:
    """`$REFACTOR_GRAPH_CACHE`, else the user's cache folder; None if the variable is set but empty."""
    own = os.environ.get("REFACTOR_GRAPH_CACHE")
    if own is not None:
        return Path(own) if own else None
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "refactor_graph"


class TuningFile:
    """The table of this processor and version: a JSON object of kernel ids by case.

    Processes may share it: `save` adds to what the file holds by then, and replaces the file in one step. A file that
    cannot be read counts as empty; one that cannot be written is a `RuntimeWarning`.
    """

    def __init__(self) -> None:
        folder = cache_folder()
        words = f"{_core.TuningTable.processor} {_core.__version__}"
        self.path = folder / f"tuning-{re.sub('[^a-zA-Z0-9.]+', '-', words)}.json" if folder else None
        self._known = self._read()
        self.table = _core.TuningTable(self._known)

    def _read(self) -> dict[str, str]:
        if self.path is None:
            return {}
        try:
            choices = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        if not isinstance(choices, dict):
            return {}
        return {key: value for key, value in choices.items() if isinstance(value, str)}

    def save(self) -> None:
        """Write what was measured since the file was read."""
        choices = self.table.choices
        fresh = {key: value for key, value in choices.items() if self._known.get(key) != value}
        if self.path is None or not fresh:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix="tuning-")
            try:
                with os.fdopen(handle, "w") as file:
                    json.dump(self._read() | fresh, file, indent=0, sort_keys=True)
                Path(name).replace(self.path)
            except BaseException:
                with contextlib.suppress(OSError):
                    Path(name).unlink()
                raise
        except OSError as error:
            warnings.warn(f"measured kernels are not kept for the next process: {error}", RuntimeWarning, stacklevel=3)
        self._known = choices
