"""What the CUDA plugin knows of cuDNN's C interface is what an installed header says."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = ROOT / "src/04kernel/src/cuda_plugin/cudnn_interface.h"
TOOLKIT = Path("/usr/local/cuda/include")


def cudnn_headers():
    """The folder of cuDNN's headers: of a wheel, or of the system."""
    spec = importlib.util.find_spec("nvidia")
    wheels = [Path(folder) / "cudnn/include" for folder in spec.submodule_search_locations or []] if spec else []
    for folder in (*wheels, TOOLKIT, Path("/usr/include")):
        if (folder / "cudnn_graph.h").exists():
            return folder
    pytest.skip("no cudnn_graph.h: cuDNN is not installed")


def test_numbers_are_those_of_the_header(tmp_path):
    folder = cudnn_headers()
    if not (TOOLKIT / "cuda_runtime_api.h").exists() or not shutil.which("g++"):
        pytest.skip("needs g++ and the headers of CUDA")
    numbers = re.findall(r"^ +(CUDNN_\w+) = (\d+),", OURS.read_text(), re.MULTILINE)
    assert len(numbers) > 100
    source = tmp_path / "numbers.cc"
    lines = [f'static_assert({name} == {number}, "{name}");' for name, number in numbers]
    source.write_text("\n".join(["#include <cudnn_graph.h>", *lines]))
    command = ["g++", "-fsyntax-only", f"-I{folder}", f"-I{TOOLKIT}", str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
