"""Files stay small: the limits of the house style, with an allow-list that states a reason for each exception."""

from __future__ import annotations

from pathlib import PurePosixPath
from statistics import median

from tree import Tree

ALLOW_LIST = "tools/lint/size_allow.txt"
LIMITS = {".h": 200, ".cuh": 200, ".cc": 600, ".cu": 800, ".py": 600, ".cmake": 300}
# Headers that hold definitions for several sources, usually one of each instruction set, count as sources.
DEFINITIONS = "_impl.h"
NORMAL_SOURCE = 300
MEDIAN = 150
# With fewer files a median says nothing.
MEDIAN_FROM = 20


def _kind(path: str) -> str:
    return ".cc" if path.endswith(DEFINITIONS) else PurePosixPath(path).suffix


def _read_allow_list(tree: Tree) -> tuple[dict[str, int], list[str]]:
    allowed: dict[str, int] = {}
    problems = []
    if ALLOW_LIST not in tree.files:
        return allowed, problems
    for number, line in enumerate(tree.lines(ALLOW_LIST), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split(maxsplit=2)
        if len(words) < 3 or not words[1].isdigit():
            problems.append(f"{ALLOW_LIST}:{number}: expected '<path> <lines> <reason>', got '{line}'")
        elif words[0] not in tree.files:
            problems.append(f"{ALLOW_LIST}:{number}: {words[0]} does not exist")
        else:
            allowed[words[0]] = int(words[1])
    return allowed, problems


def warnings(tree: Tree) -> list[str]:
    """Return one message for each source that is longer than normal and not yet over the limit."""
    allowed, _ = _read_allow_list(tree)
    counts = {path: len(tree.lines(path)) for path in tree.sources(".cc", ".h") if _kind(path) == ".cc"}
    return [
        f"{path}: {count} lines, the norm is {NORMAL_SOURCE}"
        for path, count in counts.items()
        if NORMAL_SOURCE < count <= LIMITS[".cc"] and path not in allowed
    ]


def check(tree: Tree) -> list[str]:
    """Return one message for each violation."""
    allowed, problems = _read_allow_list(tree)
    code = []
    for path in tree.files:
        suffix = _kind(path)
        if suffix not in LIMITS or path.startswith("docs/"):
            continue
        count = len(tree.lines(path))
        if path.startswith("src/"):
            code.append(count)
        limit = allowed.get(path, LIMITS[suffix])
        if count > limit:
            problems.append(f"{path}: {count} lines, the limit is {limit}")
        if path in allowed and count <= LIMITS[suffix]:
            problems.append(f"{ALLOW_LIST}: {path} has {count} lines and needs no exception any more")
    if len(code) >= MEDIAN_FROM and median(code) > MEDIAN:
        problems.append(f"src: the median file has {median(code):.0f} lines, the limit is {MEDIAN}")
    return problems
