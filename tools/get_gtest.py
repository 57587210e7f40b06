"""Unpacks the GoogleTest sources of the PyPI wheel ros-gtest-vendor into <prefix>/src/gtest_vendor.

Usage: python tools/get_gtest.py PREFIX [WHEELS]   from the folder WHEELS, if the wheel is there, else from PyPI
       python tools/get_gtest.py --fetch WHEELS    only puts the wheel there
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

_MARK = ".data/data/src/gtest_vendor/"


def download(requirements: Path, folder: Path) -> Path:
    """Download the wheel of one fixed Python and machine (only its sources are used) and return its path."""
    command = [sys.executable, "-m", "pip", "--quiet", "download", "--no-deps", "--only-binary=:all:"]
    command += [
        "--python-version",
        "3.11",
        "--platform",
        "manylinux_2_28_x86_64",
        "-r",
        str(requirements),
        "-d",
        str(folder),
    ]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(
            "pip cannot fetch GoogleTest. Without network: python tools/get_gtest.py --fetch DIR where there is one, "
            "then make WHEELS=DIR here"
        )
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"expected one wheel from {requirements}, got {len(wheels)}")
    return wheels[0]


def unpack(wheel: Path, target: Path) -> int:
    """Write the GoogleTest sources of `wheel` to `target`; return the number of files."""
    count = 0
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, found, relative = name.partition(_MARK)
            if not found or not relative or relative.endswith("/"):
                continue
            path = target / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))
            count += 1
    return count


def main() -> None:
    """Do nothing if the sources are there already."""
    requirements = Path(__file__).resolve().parent.parent / "requirements" / "gtest.txt"
    if sys.argv[1] == "--fetch":
        with tempfile.TemporaryDirectory() as folder:
            wheel = download(requirements, Path(folder))
            Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
            shutil.copy(wheel, sys.argv[2])
        return
    target = Path(sys.argv[1]) / "src" / "gtest_vendor"
    if (target / "src" / "gtest-all.cc").exists():
        return
    local = sorted(Path(sys.argv[2]).glob("ros_gtest_vendor-*.whl")) if len(sys.argv) > 2 else []
    with tempfile.TemporaryDirectory() as folder:
        count = unpack(local[-1] if local else download(requirements, Path(folder)), target)
    if not (target / "src" / "gtest-all.cc").exists():
        raise SystemExit(f"the wheel holds no GoogleTest sources ({count} files were found)")


if __name__ == "__main__":
    main()
