"""Checks that objects of ISA files export no shared inline code, and that the compiler made vectors of plain loops.

A weak symbol in such an object (an inline function or a template that was not inlined) may be the copy that the linker
keeps for every caller, and then machines without the instruction set crash in code that never asked for it.

The loops of elementwise/tile_loops.h are written for one element; a change that keeps the compiler from making vectors
of them leaves results as they are and takes up to ten times as long.

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
# Loops over tiles in objects of elementwise operators, and what stays scalar: AVX2 does not convert 64-bit integers.
_TILE_OBJECT = re.compile(r"^tile_(f64_)?(avx2|avx512)\.cc\.o$")
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
_TILE_LOOP = re.compile(r"::(unary|binary|ternary)_loop<")
_SCALAR_ON_AVX2 = re.compile(r"CastF<(long, (float|double)|(float|double), long)>")
# A loop that another one serves is a jump there.
_MOST_OF_A_JUMP = 4


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


def scalar_loops(disassembly: str) -> list[str]:
    """Return the loops over tiles without a vector of 32 bytes or more in the output of `objdump -d -C`."""
    scalar = []
    for section in disassembly.split("\n\n"):
        lines = section.strip().splitlines()
        name = _FUNCTION.match(lines[0]) if lines else None
        if not name or not _TILE_LOOP.search(name[1]) or len(lines) - 1 <= _MOST_OF_A_JUMP:
            continue
        if "%ymm" not in section and "%zmm" not in section:
            scalar.append(name[1])
    return scalar


def check_loops(build: Path) -> list[str]:
    """Return one message for each loop over tiles below `build` that is scalar though its object has vectors."""
    problems = []
    for path in sorted(build.rglob("*.o")):
        if not _TILE_OBJECT.match(path.name):
            continue
        command = ["objdump", "-d", "--no-show-raw-insn", "--demangle", str(path)]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        exempt = _SCALAR_ON_AVX2 if "avx2" in path.name else None
        problems += [
            f"{path.name}: {name} is scalar, expected vectors"
            for name in scalar_loops(listing)
            if not (exempt and exempt.search(name))
        ]
    return problems


def main() -> int:
    """Return 1 if any object has shared code, or scalar loops over tiles."""
    build = Path(sys.argv[1])
    problems = check(build) + check_loops(build)
    for problem in problems:
        print(f"error: {problem}")
    print(f"ISA objects: {len(problems)} errors")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
