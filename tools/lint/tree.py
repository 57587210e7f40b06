"""The tree of files that the checkers look at."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

_SKIPPED = {
    ".git",
    ".venv",
    ".cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "__pycache__",
    "build",
    "dist",
    "log",
}
_LAYER = re.compile(r"^(\d\d)([a-z][a-z0-9_]*)$")


@dataclass(frozen=True)
class Layer:
    """One folder src/NNname."""

    number: int
    name: str
    folder: str


class Tree:
    """All files below `root`, by their path relative to it, and the layers in its src folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def files(self) -> list[str]:
        """Relative paths with forward slashes, sorted; build folders, environments and caches are left out."""
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED)
            for name in names:
                path = Path(folder) / name
                if not path.is_symlink():
                    found.append(path.relative_to(self.root).as_posix())
        return sorted(found)

    @cached_property
    def layers(self) -> list[Layer]:
        """The folders src/NNname in ascending order."""
        names = {path.split("/")[1] for path in self.files if path.startswith("src/") and path.count("/") >= 2}
        matches = [(name, _LAYER.match(name)) for name in sorted(names)]
        return [Layer(int(match[1]), match[2], f"src/{name}") for name, match in matches if match]

    def sources(self, *suffixes: str) -> list[str]:
        """Files below src with one of `suffixes`."""
        return [path for path in self.files if path.startswith("src/") and PurePosixPath(path).suffix in suffixes]

    def layer_of(self, path: str) -> Layer | None:
        """Return the layer that `path` lies in."""
        return next((layer for layer in self.layers if path.startswith(layer.folder + "/")), None)

    def text(self, path: str) -> str:
        """Return the content of the file, invalid UTF-8 replaced."""
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def lines(self, path: str) -> list[str]:
        """Return the lines of the file."""
        return self.text(path).splitlines()
