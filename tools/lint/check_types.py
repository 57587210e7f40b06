"""No two files define a type of the same qualified name: all tests of a layer are linked into one executable.

Two definitions that differ are undefined behaviour that no compiler reports: the linker keeps one destructor for both.
Types of a single file belong into an anonymous namespace.
"""

from __future__ import annotations

import re

from tree import Tree

_NAMESPACE = re.compile(r"^(?:inline )?namespace\s*([\w:]*)\s*\{")
_RAW = re.compile(r'R"(\w*)\(')
_TYPE = re.compile(
    r"^(?:template\s*<.*>\s*)?(?:struct|class|union|enum(?: class| struct)?)\s+(?:alignas\([^)]*\)\s*)?([\w:]+)(.*)$"
)


def definitions(lines: list[str]) -> list[tuple[int, str]]:
    """Return line and qualified name of each type defined at namespace scope, those of anonymous namespaces left out.

    Relies on the format: what stands at namespace scope starts in the first column; namespaces end with a comment.
    """
    found = []
    scope: list[str] = []
    ending = ""  # of the raw string that a line is within: generated kernels are programs of their own
    for number, line in enumerate(lines, 1):
        if ending:
            ending = "" if ending in line else ending
        elif (match := _RAW.search(line)) and f'){match[1]}"' not in line[match.end() :]:
            ending = f'){match[1]}"'
        elif match := _NAMESPACE.match(line):
            if "}" not in line[match.end() :]:
                scope.append(match[1])
        elif re.match(r"^\}\s*// namespace", line) and scope:
            scope.pop()
        elif (match := _TYPE.match(line)) and "" not in scope:
            rest = match[2].split("//")[0].strip()
            declared_only = rest.endswith(";") and "{" not in rest
            if not declared_only and not rest.startswith(("<", "(")):
                found.append((number, "::".join([*scope, match[1]])))
    return found


def check(tree: Tree) -> list[str]:
    """Return one message for each type that has several definitions."""
    problems = []
    first: dict[str, str] = {}
    for path in tree.sources(".h", ".cc", ".cuh", ".cu"):
        for number, name in definitions(tree.lines(path)):
            where = f"{path}:{number}"
            if name in first and first[name].rpartition(":")[0] != path:
                problems.append(
                    f"{where}: {name} is defined in {first[name]}, too; use an anonymous namespace or another name"
                )
            first.setdefault(name, where)
    return problems
