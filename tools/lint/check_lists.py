"""Source lists are sorted and complete; kernel lists have no duplicates and end with the reference."""

from __future__ import annotations

import itertools
import re

from cmake_lists import parse
from tree import Layer, Tree

_ENTRY = re.compile(r"^\s*(RG_\w+)\s*\((.*)\)\s*(?://.*)?$")


def _kind(path: str) -> str:
    if path.endswith("_test.cc"):
        return "TESTS"
    return "BENCHES" if path.endswith("_bench.cc") else "SOURCES"


def _check_cmake(tree: Tree, layer: Layer) -> list[str]:
    path = f"{layer.folder}/CMakeLists.txt"
    if path not in tree.files:
        return []
    problems = []
    listed: dict[str, str] = {}
    for name, words in parse(tree.text(path)).lists.items():
        if name in ("DEPENDS", "LIBRARIES"):
            continue
        # A list may take in another one, which is checked by itself.
        files = [word for word in words if not word.startswith("${")]
        for before, after in itertools.pairwise(files):
            if not before < after:
                problems.append(f"{path}: {name} is not sorted: {after} comes after {before}")
        if name == "PRECOMPILE":
            continue
        for file in files:
            if f"{layer.folder}/{file}" not in tree.files:
                problems.append(f"{path}: {name} names {file}, which does not exist")
            listed[file] = name
            # Tests may have helper sources; tests and benchmarks never belong to the library.
            if name == "SOURCES" and _kind(file) != "SOURCES":
                problems.append(f"{path}: {file} belongs to {_kind(file)}, found in {name}")
    for file in tree.sources(".cc", ".cu"):
        if file.startswith(layer.folder + "/") and file[len(layer.folder) + 1 :] not in listed:
            problems.append(f"{file}: is in no list of {path}")
    return problems


def _check_entries(path: str, lines: list[str], sorted_list: bool) -> list[str]:
    problems = []
    entries = [(number, match[2].strip()) for number, line in enumerate(lines, 1) if (match := _ENTRY.match(line))]
    seen: set[str] = set()
    reference = ""
    for index, (number, entry) in enumerate(entries):
        if entry in seen:
            problems.append(f"{path}:{number}: {entry} is listed twice")
        seen.add(entry)
        if sorted_list and index > 0 and entry < entries[index - 1][1]:
            problems.append(f"{path}:{number}: {entry} is not in sorted order")
        if not sorted_list and reference and "reference" not in entry:
            problems.append(f"{path}:{number}: {entry} comes after the reference {reference}, which must be last")
        if "reference" in entry:
            reference = entry
    return problems


_INFO = re.compile(r"struct (\w+Info)\b[^;{]*{[^}]*kType\b")
_INFO_FOLDER = "src/04kernel/include/kernel/ops/"
_INFO_LIST = "src/05computation/src/saved/operator_infos.h"


def _check_infos(tree: Tree) -> list[str]:
    """Every operator has its place in the list of those that can be saved."""
    if _INFO_LIST not in tree.files:
        return []
    found = re.search(r"InfoList<([\w\s,]+)>", tree.text(_INFO_LIST))
    listed = [name.strip() for name in found[1].split(",")] if found else []
    headers = [path for path in tree.sources(".h") if path.startswith(_INFO_FOLDER)]
    defined = {match[1] for path in headers for match in _INFO.finditer(tree.text(path))}
    problems = [f"{_INFO_LIST}: lacks {name}" for name in sorted(defined - set(listed))]
    problems += [f"{_INFO_LIST}: names {name}, which does not exist" for name in sorted(set(listed) - defined)]
    return problems + ([f"{_INFO_LIST}: is not sorted"] if listed != sorted(listed) else [])


def check(tree: Tree) -> list[str]:
    """Return one message for each violation.

    `*_kernels.inc` lists are in priority order; `*_list.inc` lists are sorted unless a comment says "priority order".
    """
    problems = []
    for layer in tree.layers:
        problems += _check_cmake(tree, layer)
    problems += _check_infos(tree)
    for path in tree.sources(".inc"):
        if path.endswith(("_kernels.inc", "_list.inc")):
            lines = tree.lines(path)
            priority = path.endswith("_kernels.inc") or any("priority order" in line for line in lines)
            problems += _check_entries(path, lines, not priority)
    return problems
