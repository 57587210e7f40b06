"""Operators on text, against `onnx.reference`, onnxruntime and Python itself."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from refactor_graph import InvalidInput, InvalidModel, Unsupported
from refactor_graph.onnx import make_compiler

from tests.single import model, run

WORDS = ["", "a", "Straße", "ŽLUTÝ kůň", "a  b\tc ", "x,y,,z", "Ω", "東京", "The", "the", "3.5"]


def texts(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return np.array([WORDS[i] for i in rng.integers(len(WORDS), size=int(np.prod(shape)))], object).reshape(shape)


def proto(op: str, feeds: dict[str, Any], opset: int = 25, outputs: int = 1, **attributes: Any) -> Any:
    """Make a model of one node whose inputs have sizes that only the run knows."""
    ports = []
    for name, array in feeds.items():
        code = TensorProto.STRING if array.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(array.dtype)
        ports.append(helper.make_tensor_value_info(name, code, [f"{name}{i}" for i in range(array.ndim)]))
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, list(feeds), made, **attributes)
    graph = helper.make_graph([node], "text", ports, [helper.make_empty_tensor_value_info(name) for name in made])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def check(op: str, feeds: dict[str, Any], **options: Any) -> list[np.ndarray]:
    one = proto(op, feeds, **options)
    expected = ReferenceEvaluator(one).run(None, feeds)
    got = run(one, feeds)
    for mine, theirs in zip(got, expected, strict=True):
        theirs = np.asarray(theirs)
        assert mine.shape == theirs.shape
        np.testing.assert_array_equal(mine, theirs.astype(mine.dtype))
    return got


@pytest.mark.parametrize(("a", "b"), [((3, 1, 5), (7, 1)), ((), (4,)), ((2, 0), (1,)), ((11,), (11,))])
def test_equal_and_concat_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed := np.random.SeedSequence().entropy)
    print(f"seed {seed}")
    feeds = {"a": texts(rng, *a), "b": texts(rng, *b)}
    check("StringConcat", feeds)
    got = run(proto("Equal", feeds), feeds)[0]
    np.testing.assert_array_equal(got, np.equal(feeds["a"], feeds["b"]).astype(bool))


def test_equal_refuses_sizes_that_do_not_fit() -> None:
    feeds = {"a": np.array(["x"] * 3, object), "b": np.array(["x"] * 2, object)}
    with pytest.raises(InvalidInput, match=r"string\[3\] and string\[2\]|a0|broadcast"):
        run(proto("Equal", feeds), feeds)


def test_equal_of_text_needs_opset_19() -> None:
    feeds = {"a": np.array(["x"], object), "b": np.array(["x"], object)}
    with pytest.raises(InvalidModel, match="string"):
        make_compiler(proto("Equal", feeds, opset=18))


@pytest.mark.parametrize("maxsplit", [None, 0, 1, 2, -1])
@pytest.mark.parametrize("delimiter", [None, "", ",", "a", "ab"])
def test_split(delimiter: str | None, maxsplit: int | None) -> None:
    attributes = {"delimiter": delimiter, "maxsplit": maxsplit}
    attributes = {name: value for name, value in attributes.items() if value is not None}
    x = np.array([["x,y,,z", " a b  ", "ab,ab", "", "\u3000a\u2003b\x1fc"]], object)
    y, z = run(proto("StringSplit", {"x": x}, outputs=2, **attributes), {"x": x})
    parts = [text.split(delimiter or None, -1 if maxsplit is None else maxsplit) for text in x.ravel()]
    np.testing.assert_array_equal(z, np.array([[len(p) for p in parts]]))
    width = max(map(len, parts))
    assert y.tolist() == [[p + [""] * (width - len(p)) for p in parts]]


@pytest.mark.parametrize("action", ["LOWER", "UPPER", "NONE"])
@pytest.mark.parametrize("sensitive", [0, 1])
@pytest.mark.parametrize("shape", [(11,), (1, 11)])
def test_normalizer(action: str, sensitive: int, shape: tuple[int, ...]) -> None:
    x = np.array(WORDS, object).reshape(shape)
    attributes = {"case_change_action": action, "is_case_sensitive": sensitive, "stopwords": ["the", "a", "Ω"]}
    y = run(proto("StringNormalizer", {"x": x}, **attributes), {"x": x})[0]
    stops = attributes["stopwords"]
    kept = [w for w in WORDS if (w if sensitive else w.lower()) not in (stops if sensitive else ["the", "a", "ω"])]
    change = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}[action]
    expected = [change(w).replace("STRASSE", "STRAßE") for w in kept]
    assert y.tolist() == (expected if len(shape) == 1 else [expected])


def test_normalizer_changes_every_letter_as_python_does() -> None:
    letters = [chr(c) for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    for action, change in (("LOWER", str.lower), ("UPPER", str.upper)):
        own = [c for c in letters if len(change(c)) == 1 and change(c) != c]
        x = np.array(own, object)
        y = run(proto("StringNormalizer", {"x": x}, case_change_action=action), {"x": x})[0]
        assert [a for a, b in zip(own, y, strict=True) if change(a) != b] == []


def test_normalizer_refuses() -> None:
    x = {"x": np.array(["a"], object)}
    with pytest.raises(InvalidModel, match='case_change_action is "TITLE"'):
        make_compiler(proto("StringNormalizer", x, case_change_action="TITLE"))
    with pytest.raises(Unsupported, match="tr_TR"):
        make_compiler(proto("StringNormalizer", x, locale="tr_TR"))
    two = {"x": np.array([["a"], ["b"]], object)}
    with pytest.raises(InvalidInput, match=r"string\[2, 1\]"):
        run(proto("StringNormalizer", two), two)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_cast_floats_to_text(dtype: Any) -> None:
    rng = np.random.default_rng(seed := np.random.SeedSequence().entropy)
    print(f"seed {seed}")
    x = (rng.standard_normal(501) * 10.0 ** rng.integers(-7, 5, 501)).astype(dtype)
    x = np.concatenate([x, np.array([0, -0.0, np.nan, np.inf, -np.inf, 1, 0.1, 1.1e-4, 9.9e-5], dtype)])
    y = run(proto("Cast", {"x": x}, to=TensorProto.STRING), {"x": x})[0]
    back = run(proto("Cast", {"y": y}, to=helper.np_dtype_to_tensor_dtype(x.dtype)), {"y": y})[0]
    np.testing.assert_array_equal(back, x)
    # Not numpy's text of large small floats, which it gives an exponent from 1e3 or 1e6.
    plain = ~((abs(x) >= (1e3 if dtype is np.float16 else 1e6)) & np.isfinite(x))
    assert y[plain].tolist() == x[plain].astype(np.str_).tolist()


def test_cast_every_half_to_text() -> None:
    """Also those on a power of two, where numbers lie denser below than above."""
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    x = x[~(abs(x) >= 1e3)]  # numpy gives those an exponent
    y = run(proto("Cast", {"x": x}, to=TensorProto.STRING), {"x": x})[0]
    assert y.tolist() == x.astype(np.str_).tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_cast_integers(dtype: Any) -> None:
    bounds = np.iinfo(dtype)
    x = np.array([[bounds.min, bounds.max, 0, 7]], dtype)
    y = check("Cast", {"x": x}, to=TensorProto.STRING)[0]
    np.testing.assert_array_equal(
        run(proto("Cast", {"y": y}, to=helper.np_dtype_to_tensor_dtype(x.dtype)), {"y": y})[0], x
    )
    over = {"x": np.array([str(bounds.max + 1)], object)}
    with pytest.raises(InvalidInput, match=f'"{bounds.max + 1}" is no'):
        run(proto("Cast", over, to=helper.np_dtype_to_tensor_dtype(x.dtype)), over)


@pytest.mark.parametrize("code", [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.INT4, TensorProto.UINT2])
def test_cast_small_types_there_and_back(code: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(code)
    x = np.array([0, 1, 1, 0, 1, 1, 0], dtype)
    y = run(proto("Cast", {"x": x}, to=TensorProto.STRING), {"x": x})[0]
    back = run(proto("Cast", {"y": y}, to=code), {"y": y})[0]
    np.testing.assert_array_equal(back, x)


def test_cast_bool_and_words() -> None:
    x = np.array([True, False])
    assert check("Cast", {"x": x}, to=TensorProto.STRING)[0].tolist() == ["True", "False"]
    words = {"x": np.array([" inf", "+INF", "-Infinity", "NaN", "1e-3", "1e400", "-0"], object)}
    y = run(proto("Cast", words, to=TensorProto.FLOAT), words)[0]
    np.testing.assert_array_equal(y, np.array([np.inf, np.inf, -np.inf, np.nan, 1e-3, np.inf, -0.0], np.float32))
    bad = {"x": np.array(["1", "Hello World!"], object)}
    with pytest.raises(InvalidInput, match='"Hello World!" is no f32'):
        run(proto("Cast", bad, to=TensorProto.FLOAT), bad)


def test_cast_like_and_constants() -> None:
    x = np.array(["1.5", "-2"], object)
    like = np.zeros(1, np.float64)
    np.testing.assert_array_equal(run(proto("CastLike", {"x": x, "like": like}), {"x": x, "like": like})[0], [1.5, -2])
    one = model("Cast", {"x": np.array([1, -2], np.int64)}, opset=21, constants=["x"], to=TensorProto.STRING)
    assert run(one, {})[0].tolist() == ["1", "-2"]


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("kind", ["int32", "int64", "text"])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_tfidf(mode: str, kind: str, rows: int) -> None:
    import onnxruntime as ort

    rng = np.random.default_rng(seed := np.random.SeedSequence().entropy)
    print(f"seed {seed}")
    pairs = sorted({(int(a), int(b)) for a, b in rng.integers(0, 9, (7, 2))})
    pool = [0, 3, 4, 8] + [item for pair in pairs for item in pair]
    grams = 4 + len(pairs)
    shortest = int(rng.integers(1, 3))
    attributes: dict[str, Any] = {
        "mode": mode,
        "min_gram_length": shortest,
        "max_gram_length": int(rng.integers(shortest, 3)),
        "max_skip_count": int(rng.integers(0, 4)),
        "ngram_counts": [0, 4],
        "ngram_indexes": [int(i) for i in rng.permutation(grams)],
        "weights": [float(w) for w in rng.standard_normal(grams).astype(np.float32)],
    }
    x = rng.integers(0, 9, (rows, 13) if rows else (13,))
    if kind == "text":
        attributes["pool_strings"] = [f"w{item}" for item in pool]
        x = np.array([f"w{item}" for item in x.ravel()], object).reshape(x.shape)
    else:
        attributes["pool_int64s"] = pool
        x = x.astype(kind)
    one = proto("TfIdfVectorizer", {"x": x}, opset=17, **attributes)
    got = run(one, {"x": x})[0]
    expected = ort.InferenceSession(one.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "BM25"}, 'mode is "BM25"'),
        ({"min_gram_length": 3}, "min_gram_length is 3 and max_gram_length 1"),
        ({"max_skip_count": -1}, "max_skip_count is -1"),
        ({"ngram_counts": [0, 5]}, "ngram_counts holds 5 behind 0"),
        ({"ngram_counts": [1]}, "does not begin with 0"),
        ({"ngram_indexes": [0]}, "ngram_indexes has 1 elements, expected 2"),
        ({"ngram_indexes": [0, -1]}, "ngram_indexes holds -1"),
        ({"weights": [1.0]}, "weights has 1 elements, expected 2"),
        ({"pool_strings": ["a", "b"]}, "got both"),
    ],
)
def test_tfidf_refuses(change: dict[str, Any], message: str) -> None:
    attributes: dict[str, Any] = {
        "mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0],
        "ngram_indexes": [0, 1], "pool_int64s": [4, 5],
    }  # fmt: skip
    with pytest.raises(InvalidModel, match=re.escape(message)):
        make_compiler(proto("TfIdfVectorizer", {"x": np.zeros(3, np.int64)}, opset=9, **attributes | change))


def test_tfidf_refuses_text_for_numbers() -> None:
    attributes = {
        "mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0],
        "ngram_indexes": [0], "pool_int64s": [4],
    }  # fmt: skip
    with pytest.raises(InvalidModel, match="the input is string, the pool pool_int64s"):
        make_compiler(proto("TfIdfVectorizer", {"x": np.array(["a"], object)}, opset=9, **attributes))


@pytest.mark.parametrize("pattern", [r"[a-z]+", r"\w+@\w+\.(com|org)", "", r"(?i)abc\z", r"ab|a"])
def test_regex(pattern: str) -> None:
    x = np.array([["abc", "ABC", ""], ["me@web.org", "ab", "a\n"]], object)
    got = run(proto("RegexFullMatch", {"x": x}, pattern=pattern), {"x": x})[0]
    expected = [[re.fullmatch(pattern.replace(r"\z", r"\Z"), text) is not None for text in row] for row in x]
    assert got.dtype == np.bool_
    assert got.tolist() == expected


def test_regex_refuses() -> None:
    with pytest.raises(InvalidModel, match="is no regular expression"):
        make_compiler(proto("RegexFullMatch", {"x": np.array(["a"], object)}, pattern="(a"))
    with pytest.raises(InvalidModel, match="input 0 is f32, expected string"):
        make_compiler(proto("RegexFullMatch", {"x": np.zeros(1, np.float32)}, pattern="a"))
