"""Every combination of model, allocator, passes, threads and precision computes the same."""

import itertools

import numpy as np
import pytest
from refactor_graph import pass_names
from refactor_graph.onnx import find_device, make_compiler

from tests import models


def _cases():
    random = models.generator()
    picture = random.standard_normal((2, 3, 20, 23), np.float32)
    ids = random.integers(0, 50, (2, 9))
    past = random.standard_normal((2, 2, 2, 5, 8), np.float32)
    token = random.standard_normal((2, 1, 16), np.float32)
    return {
        "mlp": (models.mlp(), {"x": random.standard_normal((3, 8), np.float32)}),
        "convolutions": (models.convolutions(), {"x": picture}),
        "transformer": (models.transformer(), {"ids": ids, "mask": np.ones((2, 9), np.int64)}),
        "decoder": (models.decoder(), {"x": token, "past_k": past[0], "past_v": past[1]}),
    }


CASES = _cases()
ALLOCATORS = ("default", "plain", "mru", "bestfit", "compact")


@pytest.fixture(scope="module", params=CASES)
def case(request):
    model, inputs = CASES[request.param]
    return make_compiler(model), inputs, models.expected(model, inputs)


def compare(outputs, wanted):
    for actual, reference in zip(outputs.values(), wanted, strict=True):
        models.assert_close(actual, reference)


@pytest.mark.parametrize("allocator", ALLOCATORS)
@pytest.mark.parametrize("passes", [[], ["-all"]], ids=["all", "none"])
@pytest.mark.parametrize("threads", [1, 2])
def test_allocators_passes_threads(case, allocator, passes, threads):
    compiler, inputs, wanted = case
    executor = compiler.compile("cpu", allocator, passes, num_threads=threads, verify=True)
    assert executor.num_threads == threads
    assert executor.allocator == allocator
    for _ in range(2):
        compare(executor(inputs), wanted)


def test_each_pass_off_and_alone(case):
    compiler, inputs, wanted = case
    for name in pass_names():
        for passes in ([f"-{name}"], ["-all", name]):
            compare(compiler.compile("cpu", "default", passes, num_threads=1, verify=True)(inputs), wanted)


def test_exact_precision(case):
    compiler, inputs, wanted = case
    compare(compiler.compile(precision="exact")(inputs), wanted)


def test_dispatch_between_runs(case):
    compiler, inputs, wanted = case
    executor = compiler.compile()
    for name, array in inputs.items():
        executor.set_input(name, array)
    for allocator in itertools.chain(ALLOCATORS, ALLOCATORS):
        executor.dispatch(find_device("cpu", 0), allocator)
        executor.run()
        assert executor.allocator == allocator
        compare({port.name: executor.get_output(port.name) for port in executor.outputs}, wanted)


def test_memory_is_reported(case):
    compiler, inputs, _ = case
    executor = compiler.compile()
    executor(inputs)
    memory = executor.memory()
    assert memory["planned"] >= memory["lower_bound"] >= 0
    assert memory["held"] >= memory["planned"]
    assert memory["weights"] > 0
    executor.trim()
    executor(inputs)


def test_kept_tensors_stay(case):
    compiler, inputs, wanted = case
    name = compiler.outputs[0].name
    compare(compiler.compile(keep=[name])(inputs), wanted)
