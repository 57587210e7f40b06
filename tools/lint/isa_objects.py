"""Checks that objects of ISA files export no shared inline code.

A weak symbol in such an object (an inline function or a template that was not inlined) may be the copy that the linker
keeps for every caller, and then machines without the instruction set crash in code that never asked for it.

Usage: python tools/lint/isa_objects.py BUILD
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_OBJECT = re.compile(r"_(avx2|avx2vnni|avx512|avx512vnni|avx512bf16|avx512amx)\.cc\.o$")
# Weak (V, W), unique (u): nm's letters for definitions that several objects may share.
_SHARED = re.compile(r"^[0-9a-f]+ ([VWu]) (.+)$")


def weak_symbols(listing: str) -> list[str]:
    """Return the names of the shared definitions in the output of nm."""
    matches = (_SHARED.match(line) for line in listing.splitlines())
    return [match[2] for match in matches if match and not match[2].startswith("DW.ref.")]


def check(build: Path) -> list[str]:
    """Return one message for each shared definition in an ISA object below `build`."""
    problems = []
    for path in sorted(build.rglob("*.o")):
        if not _OBJECT.search(path.name):
            continue
        listing = subprocess.run(["nm", "--demangle", str(path)], capture_output=True, text=True, check=True).stdout
        problems += [f"{path.name}: {name} is shared code in an ISA file" for name in weak_symbols(listing)]
    return problems


def main() -> int:
    """Return 1 if any object has shared code."""
    problems = check(Path(sys.argv[1]))
    for problem in problems:
        print(f"error: {problem}")
    print(f"ISA objects: {len(problems)} errors")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
