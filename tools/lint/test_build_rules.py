"""The build refuses what breaks the order of layers, and the CI script fails when a stage fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(example LANGUAGES CXX)
list(PREPEND CMAKE_MODULE_PATH "{modules}")
include(project_options)
include(add_layer)
add_subdirectory(src/00common)
add_subdirectory(src/01graph_topo)
"""


def configure(folder: Path, common: str, graph_topo: str) -> subprocess.CompletedProcess[str]:
    (folder / "CMakeLists.txt").write_text(PROJECT.format(modules=ROOT / "3rd-party"))
    for name, text in (("00common", common), ("01graph_topo", graph_topo)):
        source = folder / "src" / name / "src"
        source.mkdir(parents=True)
        (source.parent / "CMakeLists.txt").write_text(text)
        for file in ("a.cc", "b.cc", "c_avx512vnni.cc"):
            (source / file).write_text("int unused();\n")
    command = ["cmake", "-S", str(folder), "-B", str(folder / "build"), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake on the PATH")


@needs_cmake
def test_good_layers_configure_and_isa_files_get_their_flags(tmp_path):
    result = configure(
        tmp_path,
        "add_layer(00 common SOURCES src/a.cc src/b.cc src/c_avx512vnni.cc)",
        "add_layer(01 graph_topo DEPENDS common)",
    )
    assert result.returncode == 0, result.stderr
    commands = (tmp_path / "build" / "compile_commands.json").read_text()
    if "RG_X86=1" in commands:
        assert "-mavx512vnni" in commands
    assert "-march=native" not in commands
    assert "-ffast-math" not in commands


@needs_cmake
@pytest.mark.parametrize(
    ("common", "graph_topo", "expected"),
    [
        ("add_layer(00 common SOURCES src/b.cc src/a.cc)", "add_layer(01 graph_topo)", "is not sorted"),
        ("add_layer(00 common DEPENDS graph_topo)", "add_layer(01 graph_topo)", "not declared before it"),
        ("add_layer(00 common)", "add_layer(00 graph_topo)", "expected src/00graph_topo"),
        ("add_layer(00 common)", "add_layer(01 graph_topo DEPENDS graph_topo)", "not declared before it"),
        ("add_layer(00 common FILES src/a.cc)", "add_layer(01 graph_topo)", "unknown arguments"),
        (
            "add_layer(00 common)\nset_property(GLOBAL PROPERTY RG_LAYER_NUMBER_common 01)",
            "add_layer(01 graph_topo DEPENDS common)",
            "its number is not lower",
        ),
    ],
)
def test_bad_layers_do_not_configure(tmp_path, common, graph_topo, expected):
    result = configure(tmp_path, common, graph_topo)
    assert result.returncode != 0
    assert expected in " ".join(result.stderr.split())


@pytest.mark.parametrize("broken", ["", "lint", "build", "test", "test-torch", "test-cuda", "demo"])
def test_ci_fails_when_a_stage_fails(tmp_path, broken):
    script = tmp_path / ".ci" / "run"
    script.parent.mkdir()
    shutil.copy(ROOT / ".ci" / "run", script)
    rule = "{name}:\n\t@echo '3 passed in 1s'; exit {status}\n"
    rules = (
        rule.format(name=name, status=int(name == broken))
        for name in ("lint", "build", "test", "test-torch", "test-cuda", "demo")
    )
    (tmp_path / "Makefile").write_text("".join(rules))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"
    }
    result = subprocess.run([str(script)], capture_output=True, text=True, check=False, env=environment)
    assert (result.returncode == 0) == (broken == ""), result.stdout
    assert ("FAILED" in result.stdout) == (broken != "")
    assert "3 passed" in result.stdout.split("closing lines")[1]


def test_an_environment_is_made_by_an_interpreter_outside_of_it(tmp_path):
    """Its own comes first in PATH while it is being made, and sees no packages of the system."""
    python = tmp_path / "env" / "bin" / "python"
    command = ["make", "-n", "SYSTEM=ON", f"VENV={tmp_path / 'env'}", str(python)]
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    makers = {line.split()[0].lstrip("@") for line in result.stdout.splitlines() if line.startswith(("/", "python"))}
    assert makers, result.stdout
    assert all(Path(maker).is_absolute() and tmp_path not in Path(maker).parents for maker in makers), makers
