"""Sizes that change at run time give the results of a model compiled for them."""

import numpy as np
import pytest
from refactor_graph.onnx import make_compiler

from tests import models


def _text(batch, length, seed=0):
    random = models.generator(seed)
    mask = np.ones((batch, length), np.int64)
    mask[:, length - length // 3 :] = 0
    return {"ids": random.integers(0, 50, (batch, length)), "mask": mask}


@pytest.mark.parametrize("passes", [[], ["-all"]])
def test_transformer_at_twenty_lengths(passes):
    model = models.transformer()
    executor = make_compiler(model).compile("cpu", "default", passes, num_threads=1)
    lengths = [int(length) for length in models.generator().permutation(np.arange(1, 40, 2))]
    assert len(lengths) == 20
    for length in [*lengths, *lengths[:3]]:
        inputs = _text(1 + length % 3, length)
        result = executor(inputs)["y"]
        compiler = make_compiler(model)
        compiler.substitute("B", 1 + length % 3)
        compiler.substitute("S", length)
        fresh = compiler.compile("cpu", "default", passes, num_threads=1)(inputs)["y"]
        models.assert_close(result, fresh)
        models.assert_close(result, models.expected(model, inputs)[0])


def test_decoder_with_a_growing_cache():
    model = models.decoder()
    executor = make_compiler(model).compile(num_threads=1)
    random = models.generator()
    past = {name: np.zeros((1, 2, 0, 8), np.float32) for name in ("past_k", "past_v")}
    for step in range(24):
        inputs = {"x": random.standard_normal((1, 1, 16), np.float32), **past}
        outputs = executor(inputs)
        if step:  # onnxruntime refuses an empty cache in some versions
            for name, wanted in zip(outputs, models.expected(model, inputs), strict=True):
                models.assert_close(outputs[name], wanted)
        assert outputs["k"].shape == (1, 2, step + 1, 8)
        past = {"past_k": outputs["k"], "past_v": outputs["v"]}


@pytest.mark.parametrize("allocator", ["default", "plain", "mru", "bestfit", "compact"])
def test_pictures_of_changing_size(allocator):
    model = models.convolutions()
    executor = make_compiler(model).compile("cpu", allocator)
    for batch, height, width in ((1, 32, 32), (2, 17, 41), (4, 8, 8), (1, 64, 20), (1, 32, 32)):
        array = models.generator(height).standard_normal((batch, 3, height, width), np.float32)
        models.assert_close(executor({"x": array})["y"], models.expected(model, {"x": array})[0])


def test_more_shapes_than_the_cache_holds():
    model = models.mlp()
    executor = make_compiler(model).compile()
    for rows in [*range(1, 100), 1, 50]:
        array = models.generator(rows).standard_normal((rows, 8), np.float32)
        assert executor({"x": array})["y"].shape == (rows, 5)
    models.assert_close(executor({"x": array})["y"], models.expected(model, {"x": array})[0])


def test_results_are_identical_from_run_to_run():
    executor = make_compiler(models.transformer()).compile(num_threads=2)
    inputs = _text(2, 19)
    first = executor(inputs)["y"]
    for _ in range(5):
        np.testing.assert_array_equal(executor(inputs)["y"], first)
