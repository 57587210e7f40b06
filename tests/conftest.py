"""Fixtures of all tests."""

import functools

import pytest
from refactor_graph import DeviceError
from refactor_graph.onnx import find_device

TARGETS = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


@functools.cache
def missing_gpu():
    """Why there is no GPU to run on, or nothing."""
    try:
        find_device("nvidia", 0)
    except DeviceError as error:
        return str(error)
    return ""


@pytest.fixture(params=TARGETS)
def target(request):
    """Give each kind of device to compile for; the GPU's part skips where there is none."""
    if request.param == "cuda" and missing_gpu():
        pytest.skip(missing_gpu())
    return request.param
