# Finds pybind11 (3 or newer: numpy 2): installed, or as the PyPI package of the interpreter in use.
include_guard(GLOBAL)

set(PYBIND11_FINDPYTHON ON)
if(NOT pybind11_DIR)
    rg_ask_python(rg_pybind11_dir "import pybind11; print(pybind11.get_cmake_dir())")
    if(rg_pybind11_dir)
        set(pybind11_DIR "${rg_pybind11_dir}")
    endif()
endif()
find_package(pybind11 3.0 CONFIG QUIET)
if(NOT pybind11_FOUND)
    message(FATAL_ERROR "pybind11 >= 3.0 was not found by ${Python_EXECUTABLE}: run `python -m pip install 'pybind11>=3'`, "
        "set pybind11_DIR, or configure with -DRG_BUILD_PYTHON=OFF")
endif()
