"""Names, encoding and form of files; no machine paths, private hosts or notes left behind; rules of ISA files."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tree import Tree

_TEXT = {
    *(
        ".h",
        ".cc",
        ".cuh",
        ".cu",
        ".inc",
        ".py",
        ".pyi",
        ".txt",
        ".md",
        ".cmake",
        ".json",
        ".toml",
        ".yml",
        ".yaml",
        ".sh",
    ),
    *("", ".cfg", ".ini", ".in"),
}
_CODE = {".h", ".cc", ".cuh", ".cu", ".inc", ".py", ".pyi"}
_SNAKE = re.compile(r"^_{0,2}[a-z0-9][a-z0-9_]*$")
_FIXED_NAMES = {"CMakeLists.txt", "README.md", "py.typed"}
_ISA = re.compile(r"_(avx2|avx2vnni|avx512|avx512vnni|avx512bf16|avx512amx)\.cc$")

# Split so that this file does not find itself.
_FORBIDDEN = [
    (re.compile(r"(?<![\w.$}/])/(?:root|home|work|Users)/" + r"\w"), "a path of one machine"),
    (re.compile(r"\b(?:10\.\d+|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+\b"), "a private address"),
    (re.compile(r"https?://[\w.-]+\.(?:internal|intranet|corp|lan|local)\b"), "a private host"),
    (re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b"), "a note left behind; open an issue instead"),
]
_WORKSPACE_OF_WORKER = re.compile(r"workspace\b[^;,]*\bworker\b")
_ISA_FORBIDDEN = re.compile(
    r"#\s*include\s*<(algorithm|array|deque|functional|map|memory|numeric|optional|set|span|string|string_view|tuple|unordered_map|"
    r"utility|variant|vector)>"
)


def _check_name(path: str) -> list[str]:
    parts = PurePosixPath(path).parts
    name = parts[-1]
    problems = []
    if name not in _FIXED_NAMES and not name.startswith("."):
        if not _SNAKE.match(name.split(".")[0]):
            problems.append(f"{path}: file names are snake_case")
        if PurePosixPath(name).suffix in {".cpp", ".cxx", ".hpp", ".hxx", ".c"}:
            problems.append(f"{path}: host code is .h/.cc, device code .cuh/.cu")
    problems += [f"{path}: folder names are snake_case, got {part}" for part in parts[:-1] if not _SNAKE.match(part)]
    return problems


def _check_form(path: str, data: bytes) -> list[str]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return [f"{path}: is not UTF-8 ({error.reason} at byte {error.start})"]
    problems = []
    if data.startswith(b"\xef\xbb\xbf"):
        problems.append(f"{path}: starts with a byte order mark")
    if b"\r" in data:
        problems.append(f"{path}: has carriage returns")
    if data and not data.endswith(b"\n"):
        problems.append(f"{path}: does not end with a newline")
    suffix = PurePosixPath(path).suffix
    if suffix in (".h", ".cuh") and "#pragma once" not in text:
        problems.append(f"{path}: has no '#pragma once'")
    if suffix == ".cu" and not re.search(r"__global__|__device__|<<<", text):
        problems.append(f"{path}: has no device code and should be a .cc file")
    return problems


def _check_lines(path: str, lines: list[str]) -> list[str]:
    problems = []
    code = PurePosixPath(path).suffix in _CODE
    for number, line in enumerate(lines, 1):
        if code and line != line.rstrip():
            problems.append(f"{path}:{number}: trailing white space")
        for pattern, what in _FORBIDDEN:
            if match := pattern.search(line):
                problems.append(f"{path}:{number}: '{match[0]}' is {what}")
        if path.startswith("src/") and _WORKSPACE_OF_WORKER.search(line):
            problems.append(f"{path}:{number}: memory of one thread is RunContext::scratch_of(worker)")
        if _ISA.search(path) and (match := _ISA_FORBIDDEN.search(line)):
            problems.append(
                f"{path}:{number}: ISA files must not include <{match[1]}>: its inline code would be shared"
            )
    return problems


def check(tree: Tree) -> list[str]:
    """Return one message for each violation."""
    problems = []
    for path in tree.files:
        if path.startswith("src/"):
            problems += _check_name(path)
        if PurePosixPath(path).suffix not in _TEXT:
            continue
        problems += _check_form(path, (tree.root / path).read_bytes())
        problems += _check_lines(path, tree.lines(path))
    return problems
