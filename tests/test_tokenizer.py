"""Operators of com.microsoft on text, against onnxruntime."""

import numpy as np
import pytest
from refactor_graph import InvalidModel
from refactor_graph.onnx import make_compiler

from tests import models
from tests.single import positional, run

TEXTS = ["", "a", "abc def", "  lead and trail  ", "été çà x1", "a,b;c", "aaaa", "日本 語x", "a1b22c333"]


def model(x, **attributes):
    options = {"mark": 0, "mincharnum": 1, "pad_value": "#", **attributes}
    proto, feeds = positional("Tokenizer", [x], opset=17, domain="com.microsoft", symbolic=True, **options)
    for port in (*proto.graph.input, *proto.graph.output):
        port.type.tensor_type.elem_type = 8
    proto.ir_version = 9
    return proto, feeds


@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize(
    "attributes",
    [
        {"separators": [" "]},
        {"separators": [" ", "b"]},
        {"separators": [r"\s+"], "mincharnum": 2},
        {"separators": [",", ";", "é"]},
        {"separators": ["aa", "a"]},
        {"separators": [""]},
        {"separators": ["a"], "tokenexp": "b"},
        {"tokenexp": "[a-zA-Z0-9_]+"},
        {"tokenexp": r"\b\w\w+\b", "mincharnum": 3},
        {"tokenexp": "[[:alpha:]é]+"},
        {"tokenexp": "aa|a"},
        {"tokenexp": "a*"},
    ],
)
def test_pieces(attributes, mark):
    for x in (np.array(TEXTS, object), np.array(TEXTS[:8], object).reshape(2, 4), np.array(["", ""], object)):
        proto, feeds = model(x, mark=mark, **attributes)
        (actual,), (wanted,) = run(proto, feeds), models.expected(proto, feeds)
        assert actual.shape == wanted.shape
        assert actual.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "expected one of separators and tokenexp"),
        ({"tokenexp": "(a"}, "tokenexp '\\(a' is no regular expression"),
        ({"separators": ["", "a"]}, "an empty separator stands beside others"),
        ({"separators": [""], "mincharnum": 2}, "mincharnum is 2, expected at most 1"),
    ],
)
def test_refusals(attributes, message):
    with pytest.raises(InvalidModel, match=message):
        make_compiler(model(np.array(["a"], object), **attributes)[0])


def test_refusal_of_ranks():
    with pytest.raises(InvalidModel, match="input 0 has rank 3, expected 1 or 2"):
        make_compiler(model(np.full((1, 2, 1), "a", object), separators=[" "])[0])


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64, object])
def test_hashes(dtype, positive):
    random = models.generator(5)
    x = np.array(TEXTS, object).reshape(3, 3) if dtype is object else (random.random((3, 4)) * 1e4).astype(dtype)
    proto, feeds = positional("MurmurHash3", [x], opset=17, domain="com.microsoft", positive=positive, seed=7)
    for port in proto.graph.input:
        port.type.tensor_type.elem_type = port.type.tensor_type.elem_type or 8
    proto.ir_version = 9
    (actual,), (wanted,) = run(proto, feeds), models.expected(proto, feeds)
    assert actual.dtype == wanted.dtype
    np.testing.assert_array_equal(actual, wanted)
