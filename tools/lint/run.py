"""Runs the project's own checkers on the tree and prints what they find.

Usage: python tools/lint/run.py [ROOT]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import check_files
import check_layers
import check_lists
import check_sizes
import check_types
from tree import Tree

CHECKERS = (check_files, check_layers, check_lists, check_sizes, check_types)


def main() -> int:
    """Return 1 if any checker found a violation."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    tree = Tree(root)
    for warning in check_sizes.warnings(tree):
        print(f"warning: {warning}")
    problems = [problem for checker in CHECKERS for problem in checker.check(tree)]
    for problem in problems:
        print(f"error: {problem}")
    print(f"checkers: {len(tree.files)} files, {len(problems)} errors")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
