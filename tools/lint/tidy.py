"""Runs clang-tidy with the rules of .clang-tidy on the sources of the project, in parallel.

A source that was clean is not read again until it, a header of the project that it includes, its command, the rules or
clang-tidy change: BUILD/tidy keeps what was clean. Headers of the system are taken to change with clang-tidy only.

Usage: python tools/lint/tidy.py BUILD [-j N] [FILE ...]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
PRECOMPILED = re.compile(
    r" -Winvalid-pch|(?: -Xclang)? -include(?:-pch)?(?: -Xclang)? \S*cmake_pch\.hxx(?:\.pch)?(?= )"
)


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


def without_precompiled(build: Path) -> Path:
    """Write the compilation database without precompiled headers; return its folder.

    So each source is read with what it includes itself, and one that relies on a precompiled header is found.
    """
    entries = json.loads((build / "compile_commands.json").read_text())
    for entry in entries:
        entry["command"] = PRECOMPILED.sub("", entry["command"])
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(entries, indent=1))
    return folder


class Clean:
    """What was clean: for each source the digest of everything that decided it."""

    def __init__(self, clang_tidy: str, database: Path, rules: Path) -> None:
        entries = json.loads((database / "compile_commands.json").read_text())
        self._commands = {str(Path(e["directory"], e["file"]).resolve()): e["command"] for e in entries}
        version = subprocess.run([clang_tidy, "--version"], capture_output=True, check=True).stdout
        self._common = version + rules.read_bytes()
        self._digests: dict[Path, bytes] = {}
        self._file = database / "clean.json"
        self.known: dict[str, str] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def digest(self, source: str) -> str:
        """Return the digest of `source`, the headers that it includes, its command, the rules and clang-tidy."""
        command = self._commands.get(source, "")
        folders = [Path(word[2:]) for word in shlex.split(command) if word.startswith("-I")]
        seen: set[Path] = set()
        self._reach(Path(source), folders, seen)
        parts = [self._common, command.encode(), *(bytes(path) + self._digests[path] for path in sorted(seen))]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    def _reach(self, file: Path, folders: list[Path], seen: set[Path]) -> None:
        if file in seen:
            return
        seen.add(file)
        content = file.read_bytes()
        self._digests.setdefault(file, hashlib.sha256(content).digest())
        for name in INCLUDE.findall(content):
            found = next((p for folder in (file.parent, *folders) if (p := folder / name.decode()).is_file()), None)
            if found is not None:
                self._reach(found.resolve(), folders, seen)

    def save(self) -> None:
        """Keep it for the next time."""
        self._file.write_text(json.dumps(self.known, indent=1, sort_keys=True))


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
    arguments = parser.parse_intermixed_args()
    clang_tidy = shutil.which("clang-tidy")
    if clang_tidy is None:
        raise SystemExit("clang-tidy was not found: python -m pip install -r requirements/lint.txt")
    files = [str(Path(file).resolve()) for file in arguments.files] or sources(arguments.build)
    database = without_precompiled(arguments.build)
    clean = Clean(clang_tidy, database, ROOT / ".clang-tidy")
    digests = {file: clean.digest(file) for file in files}
    unknown = [file for file in files if clean.known.get(file) != digests[file]]
    failed = 0
    shown: set[str] = set()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for file, output in pool.map(lambda file: run(clang_tidy, database, file), unknown):
            failed += bool(output)
            if not output:
                clean.known[file] = digests[file]
            # Many sources report the same line of a header.
            elif output not in shown:
                print(output, end="")
                shown.add(output)
    clean.save()
    print(f"clang-tidy: {len(files)} files ({len(files) - len(unknown)} clean before), {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
