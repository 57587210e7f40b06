"""A layer includes and links only layers with a lower number, and reaches others by their public headers only."""

from __future__ import annotations

import re

from cmake_lists import parse
from tree import Layer, Tree

_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')


def _check_include(tree: Tree, layers: dict[str, Layer], own: Layer, included: str) -> str | None:
    first = included.split("/")[0]
    if ".." in included.split("/"):
        return f"includes {included}: write the path from an include folder, not '..'"
    if re.match(r"^\d\d[a-z_]+$", first):
        return f"includes {included}: a layer's include prefix is its name without the number"
    other = layers.get(first)
    # A private folder may have the name of a layer.
    if other is None or other.name == own.name or f"{own.folder}/src/{included}" in tree.files:
        return None
    if other.number >= own.number:
        return (
            f"layer {own.number:02} includes {included} of layer {other.number:02}: only lower layers may be included"
        )
    if f"{other.folder}/include/{included}" not in tree.files:
        return f"includes {included}, which is not a public header of {other.folder}"
    return None


def check(tree: Tree) -> list[str]:
    """Return one message for each violation."""
    problems = []
    layers = {layer.name: layer for layer in tree.layers}
    for path in tree.sources(".h", ".cc", ".cuh", ".cu", ".inc"):
        own = tree.layer_of(path)
        if own is None:
            problems.append(f"{path}: lies outside of the layers src/NNname")
            continue
        for number, line in enumerate(tree.lines(path), 1):
            match = _INCLUDE.match(line)
            problem = _check_include(tree, layers, own, match[1]) if match else None
            if problem:
                problems.append(f"{path}:{number}: {problem}")
    for layer in tree.layers:
        path = f"{layer.folder}/CMakeLists.txt"
        if path not in tree.files:
            problems.append(f"{layer.folder}: has no CMakeLists.txt")
            continue
        for name in parse(tree.text(path)).lists.get("DEPENDS", []):
            if name not in layers:
                problems.append(f"{path}: depends on {name}, which is not a layer")
            elif layers[name].number >= layer.number:
                problems.append(f"{path}: depends on {name} ({layers[name].number:02}), whose number is not lower")
        if f"{layer.folder}/README.md" not in tree.files:
            problems.append(f"{layer.folder}: has no README.md")
    return problems
