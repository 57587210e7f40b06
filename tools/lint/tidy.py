"""Runs clang-tidy with the rules of .clang-tidy on the sources of the project, in parallel.

Usage: python tools/lint/tidy.py BUILD [-j N] [FILE ...]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def sources(build: Path, root: Path = ROOT) -> list[str]:
    """Return the C++ files below `root`/src that the compilation database names.

    Tests are left out: they may use the names of mathematics (N, S), and would double the time.
    """
    entries = json.loads((build / "compile_commands.json").read_text())
    files = {str(Path(entry["directory"], entry["file"]).resolve()) for entry in entries}
    return sorted(
        file
        for file in files
        if file.startswith(f"{root}/src/") and file.endswith(".cc") and not file.endswith("_test.cc")
    )


def run(clang_tidy: str, build: Path, file: str) -> tuple[str, str]:
    """Return the file and what clang-tidy found in it ("" for nothing)."""
    command = [clang_tidy, "--quiet", "-p", str(build), "--extra-arg=-Wno-everything", file]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return file, "" if result.returncode == 0 else result.stdout + result.stderr


def main() -> int:
    """Return 1 if clang-tidy found anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("files", nargs="*", help="all sources of the compilation database if none is given")
    arguments = parser.parse_args()
    clang_tidy = shutil.which("clang-tidy")
    if clang_tidy is None:
        raise SystemExit("clang-tidy was not found: python -m pip install -r requirements/lint.txt")
    files = [str(Path(file).resolve()) for file in arguments.files] or sources(arguments.build)
    failed = 0
    shown: set[str] = set()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for _, output in pool.map(lambda file: run(clang_tidy, arguments.build, file), files):
            failed += bool(output)
            # Many sources report the same line of a header.
            if output and output not in shown:
                print(output, end="")
                shown.add(output)
    print(f"clang-tidy: {len(files)} files, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
