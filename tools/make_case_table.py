"""Prints `src/04kernel/src/text/unicode_case.inc`: one-to-one case mappings of Unicode as ranges.

>>> python tools/make_case_table.py > src/04kernel/src/text/unicode_case.inc  # doctest: +SKIP
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable

Range = tuple[int, int, int, int]
"""First and last code point, step, what to add."""


def simple(code: int, mapping: Callable[[str], str]) -> int:
    """Return the one code point that `code` maps to; itself if it maps to several."""
    text = mapping(chr(code))
    return ord(text) if len(text) == 1 else code


def ranges(mapping: Callable[[str], str]) -> list[Range]:
    """Return all code points that change, in as few ranges as a greedy search finds."""
    codes = [code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    changed = [(code, simple(code, mapping) - code) for code in codes]
    left = [(code, delta) for code, delta in changed if delta]
    found: list[Range] = []
    at = 0
    while at < len(left):
        first, delta = left[at]
        end, step = at, 1
        if at + 1 < len(left) and left[at + 1][1] == delta and left[at + 1][0] - first <= 2:
            step = left[at + 1][0] - first
            while end + 1 < len(left) and left[end + 1] == (left[end][0] + step, delta):
                end += 1
        found.append((first, left[end][0], step, delta))
        at = end + 1
    return found


def main() -> None:
    """Print the table."""
    print(f"// One-to-one case mappings of Unicode {unicodedata.unidata_version}, made by tools/make_case_table.py:")
    print("// first and last code point, step, what to add. Code points that become several are left out.")
    for name, mapping in (("RG_LOWER", str.lower), ("RG_UPPER", str.upper)):
        print(f"#ifdef {name}")
        line = ""
        for item in ranges(mapping):
            entry = f"{name}({item[0]:#x}, {item[1]:#x}, {item[2]}, {item[3]})"
            if len(line) + len(entry) > 118:
                print(line)
                line = ""
            line += (" " if line else "") + entry
        print(line)
        print("#endif")


if __name__ == "__main__":
    main()
