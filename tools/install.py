"""Install what a file of requirements/ names, or only what is missing of it.

    python tools/install.py requirements/NAME.txt [--missing] [--wheels DIR]

With `--missing`, a package that is there counts whatever its version, and nothing happens if none is missing: for an
environment that shows the packages of the system. With `--wheels`, packages come from that folder, not from an index.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import shutil
import subprocess
import sys
from pathlib import Path

# What the system may bring as programs instead of Python packages.
PROGRAMS = {"cmake", "ninja"}


def requirements(path: Path) -> list[str]:
    """Lines of the file and of those that it includes."""
    lines = []
    for line in path.read_text().splitlines():
        text = line.split("#")[0].strip()
        if text.startswith("-r "):
            lines += requirements(path.parent / text[3:])
        elif text:
            lines.append(text)
    return lines


def is_there(name: str) -> bool:
    """Whether a package, or the program that it is, is installed."""
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return name in PROGRAMS and shutil.which(name) is not None
    return True


def main() -> int:
    """Run pip, or do nothing if nothing is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--wheels", type=Path)
    options = parser.parse_args()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    if options.wheels:
        pip += ["--no-index", "--find-links", str(options.wheels)]
    if not options.missing:
        return subprocess.run([*pip, "-r", str(options.file)], check=False).returncode
    wanted = {match[1]: match[2] for line in requirements(options.file) if (match := NAME.match(line))}
    missing = sorted(name for name in wanted if not is_there(name))
    if not missing:
        return 0
    print(f"{options.file}: {', '.join(missing)} missing", flush=True)
    return subprocess.run([*pip, *missing], check=False).returncode


NAME = re.compile(r"([A-Za-z0-9_.-]+)(.*)")

if __name__ == "__main__":
    sys.exit(main())
