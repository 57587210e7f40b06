"""The build itself: what a compiler cache may hand out."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROJECT = f"""
cmake_minimum_required(VERSION 3.20)
project(cached CXX)
add_library(project_options INTERFACE)
include({ROOT}/3rd-party/precompile.cmake)
add_library(source OBJECT source.cc)
rg_precompile(source "${{CMAKE_CURRENT_SOURCE_DIR}}/header.h")
"""


def build(source: Path, cache: Path) -> None:
    """Configure and build `source` from nothing, behind a compiler cache of its own."""
    shutil.rmtree(source / "build", ignore_errors=True)
    environment = os.environ | {"CCACHE_DIR": str(cache)}
    for command in ("cmake -S . -B build -G Ninja -DCMAKE_CXX_COMPILER_LAUNCHER=ccache", "cmake --build build"):
        done = subprocess.run(command.split(), cwd=source, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not all(map(shutil.which, ("ccache", "cmake", "ninja"))), reason="no ccache, cmake or ninja")
def test_compiler_cache_sees_comments_of_precompiled_headers(tmp_path: Path) -> None:
    """A header that differs from the cached one in a comment only is still the one that sources include."""
    source, cache = tmp_path / "project", tmp_path / "cache"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(PROJECT)
    for name in ("one", "two"):
        (source / "header.h").write_text(f"#pragma once\n// {name}\nstruct Header {{}};\n")
        (source / "source.cc").write_text(f'#include "header.h"\nHeader {name}() {{ return {{}}; }}\n')
        build(source, cache)
