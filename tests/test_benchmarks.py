"""The scripts of benchmarks/ start: what they import exists."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import refactor_graph

FOLDER = Path(__file__).parents[1] / "benchmarks"
PACKAGES = Path(refactor_graph.__file__).parents[1]


@pytest.mark.parametrize("name", ["cuda", "memory", "new_shapes", "run", "weights"])
def test_script_starts(name: str) -> None:
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--help"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    assert "usage:" in result.stdout


def test_unknown_peers_are_refused() -> None:
    command = [sys.executable, str(FOLDER / "run.py"), "--engines", "onnxruntime,nobody"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert result.returncode == 2
    assert "unknown peers nobody" in result.stderr
