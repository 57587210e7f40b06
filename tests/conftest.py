"""Fixtures of all tests."""

import functools
import os
import sys

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


def is_emulated():
    """Whether the GPU is emulated: what its libraries have an engine for is then known."""
    return "emulated" in find_device("nvidia", 0).name


def missing_dnn():
    """Why the GPU there is has no library for convolutions, or nothing."""
    (library,) = find_device("nvidia", 0).libraries
    return library if library.startswith("cuDNN: ") else ""


@pytest.fixture
def gpu_with_dnn(monkeypatch):
    """A GPU with the vendor's library for convolutions: of the emulator, on request."""
    if missing_gpu():
        pytest.skip(missing_gpu())
    monkeypatch.setenv("REFACTOR_GRAPH_EMULATED_DNN", "1")
    if missing_dnn():
        pytest.skip(missing_dnn())


@pytest.fixture(params=TARGETS)
def target(request):
    """Give each kind of device to compile for; the GPU's part skips where there is none."""
    if request.param == "cuda" and missing_gpu():
        pytest.skip(missing_gpu())
    return request.param


def pytest_exception_interact(call):
    """End this process, if it is one of several, once it has lost its GPU: another one takes its place."""
    if "PYTEST_XDIST_WORKER" not in os.environ or not isinstance(call.excinfo.value, DeviceError):
        return
    try:
        find_device("nvidia", 0).memory()
    except DeviceError as lost:
        print(f"the GPU is lost ({lost}), first by:\n{call.excinfo.getrepr()}", file=sys.__stderr__, flush=True)
        os._exit(1)


_under_way = {}  # tests of all processes, in order


def pytest_runtest_logstart(nodeid):
    _under_way[nodeid] = None


def pytest_runtest_logreport(report):
    """Tell failures as they come, where several processes run: whoever is ended early has told them."""
    if report.failed and hasattr(report, "node"):
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = (crash.message if crash else str(report.longrepr)).partition("\n")[0]
        print(f"\nFAILED {report.nodeid} - {reason}", flush=True)


def pytest_runtest_logfinish(nodeid):
    _under_way.pop(nodeid, None)


def pytest_terminal_summary(terminalreporter, exitstatus):
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        for nodeid in _under_way:
            terminalreporter.write_line(f"UNFINISHED {nodeid}")
