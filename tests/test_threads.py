"""Threads, clones, fork and the GIL."""

import multiprocessing
import os
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph.onnx import make_compiler

from tests import models


def test_clones_run_at_the_same_time():
    executor = make_compiler(models.transformer()).compile(num_threads=1)
    failures = []

    def work(seed):
        clone = executor.clone()
        random = models.generator(seed)
        try:
            for _ in range(20):
                length = int(random.integers(1, 30))
                inputs = {"ids": random.integers(0, 50, (1, length)), "mask": np.ones((1, length), np.int64)}
                first = clone(inputs)["y"].copy()
                if not np.array_equal(clone(inputs)["y"], first):
                    failures.append(f"seed {seed}: two runs differ")
        except Exception as error:
            failures.append(f"seed {seed}: {error!r}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_gil_is_released_while_running():
    executor = make_compiler(models.transformer(layers=4, width=256)).compile(num_threads=1)
    inputs = {"ids": np.zeros((16, 64), np.int64), "mask": np.ones((16, 64), np.int64)}
    executor(inputs)
    start = time.perf_counter()
    executor(inputs)
    alone = time.perf_counter() - start
    assert alone > 2e-3, "the model is too small for this test"
    stop, ticks = threading.Event(), []

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(min(alone / 20, 1e-3))

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.perf_counter()
    executor(inputs)
    end = time.perf_counter()
    stop.set()
    thread.join()
    # With the GIL held, the other thread would stand still from begin to end.
    margin = (end - begin) / 10
    assert sum(begin + margin < moment < end - margin for moment in ticks) >= 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 2])
def test_fork(threads):
    executor = make_compiler(models.convolutions()).compile(num_threads=threads)
    array = models.generator().standard_normal((4, 3, 40, 40), np.float32)
    wanted = executor({"x": array})["y"].copy()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()

    def child():
        queue.put(executor({"x": array})["y"])

    process = context.Process(target=child)
    process.start()
    result = queue.get(timeout=60)
    process.join(60)
    assert process.exitcode == 0
    np.testing.assert_array_equal(result, wanted)
    np.testing.assert_array_equal(executor({"x": array})["y"], wanted)


def test_arrays_outlive_everything_on_other_threads():
    results = []

    def work():
        executor = make_compiler(models.mlp()).compile()
        results.append(executor({"x": np.ones((2, 8), np.float32)})["y"])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert np.allclose(results[0].sum(axis=1), 1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16, np.float16])
def test_denormals_count_as_zero_while_a_run_lasts(threads, dtype):
    """What docs/supported_operators.md says of them."""
    least = float(ml_dtypes.finfo(dtype).smallest_normal)
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("Mul", ["x", "quarter"], ["product"]),
        helper.make_node("Div", ["one", "x"], ["inverse"]),
        helper.make_node("Div", ["x", "x"], ["ratio"]),
        helper.make_node("Greater", ["x", "zero"], ["positive"]),
        helper.make_node("Transpose", ["x"], ["moved"]),
    ]
    names = ["product", "inverse", "ratio", "moved"]
    proto = models.model(
        nodes,
        [models.value("x", ["N", 2], code)],
        [*(models.value(name, None, code) for name in names), models.value("positive", None, TensorProto.BOOL)],
        [models.constant(name, np.array(x, dtype)) for name, x in (("quarter", 0.25), ("one", 1), ("zero", 0))],
    )
    x = np.array([[least / 4, 2 * least]], dtype)
    outputs = make_compiler(proto).compile(num_threads=threads)({"x": x})
    np.testing.assert_array_equal(outputs["moved"], x.T)
    outputs = {name: outputs[name].astype(np.float64)[0].tolist() for name in [*names[:3], "positive"]}
    if dtype == np.float16:
        assert outputs["product"] == [least / 16, least / 2]
        assert outputs["ratio"] == [1, 1]
        assert outputs["positive"] == [True, True]
    else:
        assert outputs["product"] == [0, 0]
        assert outputs["inverse"] == [np.inf, 1 / (2 * least)]
        np.testing.assert_array_equal(outputs["ratio"], [np.nan, 1])
        assert outputs["positive"] == [False, True]
    wide = x.astype(np.float32 if dtype == ml_dtypes.bfloat16 else dtype)
    assert (wide / 2)[0, 0] > 0, "the caller's own mode is restored"
