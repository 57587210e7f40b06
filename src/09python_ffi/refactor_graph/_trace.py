"""Files of `Executor.trace`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONGEST = 60


def _clean(text: str) -> str:
    """`text` in one field of a line."""
    return text.replace("\t", " ").replace("\n", " ")


class TraceWriter:
    """Writes each tensor once, when it is first seen, and one `node<N>.meta` for each step."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._files: dict[int, str] = {}
        self._nodes: dict[int, tuple[str, list[str], list[str]]] = {}

    def visit(self, step: int, node: str, edge: int, name: str, array: NDArray[Any], is_output: bool) -> None:
        """Take in one operand of a step; for `_core.Executor.visit`."""
        _, inputs, outputs = self._nodes.setdefault(step, (node, [], []))
        lines = outputs if is_output else inputs
        file = self._files.get(edge)
        if file is None:
            readable = re.sub(r"[^A-Za-z0-9._-]", "_", name)[-_LONGEST:]
            file = self._files[edge] = f"{edge}_{readable}.npy"
            np.save(self._directory / file, array, allow_pickle=False)
        lines.append(f"{'output' if is_output else 'input'}\t{len(lines)}\t{_clean(name)}\t{file}")

    def finish(self) -> int:
        """Write the descriptions; returns the number of tensors."""
        for step, (node, inputs, outputs) in self._nodes.items():
            text = "\n".join([f"{_clean(node)}\t{step}", *inputs, *outputs]) + "\n"
            (self._directory / f"node{step}.meta").write_text(text, encoding="utf-8")
        return len(self._files)
