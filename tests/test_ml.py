"""Operators of ai.onnx.ml on tables, text and maps against onnxruntime, and what they refuse."""

import numpy as np
import pytest
from onnx import helper
from refactor_graph import Error, InvalidInput, InvalidModel
from refactor_graph.onnx import make_compiler

from tests import models
from tests.ml_models import assert_equal, compare, model, onnxruntime_results, run

TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
#: Near 1/2 the approximation of PROBIT is a root of the difference of two numbers around 4.3.
CANCELLED = np.sqrt(4.3 * 2.0**-24 * 4)
NUMBERS = [np.float32, np.float64, np.int32, np.int64]


def table(shape, dtype=np.float32, offset=0):
    return (models.generator(offset).standard_normal(shape) * 3).astype(dtype)


# ---------------------------------------------------------------------- features
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 3, 7)])
def test_array_feature_extractor(dtype, shape):
    compare("ArrayFeatureExtractor", {"x": table(shape, dtype), "i": np.array([[6, 0, 3, 3]])})
    compare("ArrayFeatureExtractor", {"x": table(shape, dtype), "i": np.array([2])})


def test_array_feature_extractor_of_text():
    compare("ArrayFeatureExtractor", {"x": np.array([["a", "b"], ["c", "d"]], object), "i": np.array([1, 0, 1])})


def test_array_feature_extractor_out_of_range():
    feeds = {"x": table((3, 4)), "i": np.array([4])}
    with pytest.raises(InvalidInput, match="4"):
        run(model("ArrayFeatureExtractor", feeds), feeds)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("threshold", [0.0, 1.5, -2.5, 1.0, 1e20, -1e20])
def test_binarizer(dtype, threshold):
    x = table((4, 9), dtype)
    x.flat[:2] = [1, 2]
    (y,) = run(model("Binarizer", {"x": x}, threshold=threshold), {"x": x})
    assert_equal(y, (x > np.float64(np.float32(threshold))).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_scaler(dtype):
    random = models.generator(3)
    for size in (1, 6):
        offset, scale = random.standard_normal((2, size)).astype(np.float32).tolist()
        (y,) = compare("Scaler", {"x": table((5, 6), dtype)}, offset=offset, scale=scale)
        feeds = {"x": table((5, 6), dtype)[2]}
        assert_equal(run(model("Scaler", feeds, offset=offset, scale=scale), feeds)[0], y[2])


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(dtype, norm):
    x = table((5, 7), dtype)
    x[2] = 0
    compare("Normalizer", {"x": x}, norm=norm)
    compare("Normalizer", {"x": x[0]}, norm=norm)


def test_imputer():
    x = table((5, 3))
    x[1, 0] = x[2, 2] = np.nan
    x[3] = 0
    for values in ([7.0], [7.0, 8.0, 9.0]):
        compare("Imputer", {"x": x}, imputed_value_floats=values, replaced_value_float=float("nan"))
        compare("Imputer", {"x": np.nan_to_num(x)}, imputed_value_floats=values)
    y = np.array([[1, 2, 0], [-1, 0, 5]])
    compare("Imputer", {"x": y}, imputed_value_int64s=[2**60, 8, 9], replaced_value_int64=-1)
    for dtype, kind, number in ((np.int32, "int64s", int), (np.float64, "floats", float)):
        attributes = {f"imputed_value_{kind}": [number(7)], f"replaced_value_{kind[:-1]}": number(5)}
        feeds = {"x": y.astype(dtype)}
        (actual,) = run(model("Imputer", feeds, **attributes), feeds)
        assert_equal(actual, np.where(y == 5, 7, y).astype(dtype))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_feature_vectorizer(dtype):
    feeds = {"a": table((5, 3), dtype), "b": table((5, 4), dtype, 1), "c": table((5, 1), dtype, 2)}
    for widths in ([3, 4, 1], [2, 6, 1], [5, 1, 3]):
        compare("FeatureVectorizer", feeds, inputdimensions=widths)
    compare("FeatureVectorizer", {"a": table((2, 3, 2), dtype)}, inputdimensions=[6])
    compare("FeatureVectorizer", {"a": table(3, dtype), "b": table(2, dtype)}, inputdimensions=[3, 2])


# ---------------------------------------------------------------------- linear models
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 2, 5])
def test_linear_regressor(transform, targets):
    random = models.generator(targets)
    # PROBIT wants probabilities.
    low = 0.01 if transform == "PROBIT" else -1
    coefficients = random.uniform(low, 0.2, targets * 4).tolist()
    x = random.uniform(0.1, 1, (7, 4)).astype(np.float32)
    for intercepts in ({}, {"intercepts": random.uniform(0, 0.1, targets).tolist()}):
        compare(
            "LinearRegressor",
            {"x": x},
            coefficients=coefficients,
            targets=targets,
            post_transform=transform,
            relative=2e-5,
            absolute=CANCELLED if transform == "PROBIT" else 2e-6,
            **intercepts,
        )


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("scores", [1, 2, 3])
@pytest.mark.parametrize("text", [False, True])
def test_linear_classifier(transform, scores, text):
    if transform == "PROBIT" and scores == 1:
        pytest.skip("onnxruntime leaves the second score unset")
    random = models.generator(scores)
    low = 0.01 if transform == "PROBIT" else -1
    classes = max(scores, 2)
    labels = {"classlabels_strings": ["x", "yy", ""][:classes]} if text else {"classlabels_ints": [5, -9, 7][:classes]}
    for dtype in NUMBERS:
        x = random.uniform(0.1, 1, (9, 4)) if transform == "PROBIT" else table((9, 4))
        compare(
            "LinearClassifier",
            {"x": x.astype(dtype)},
            outputs=2,
            coefficients=random.uniform(low, 0.2, scores * 4).tolist(),
            intercepts=random.uniform(0.01, 0.1, scores).tolist(),
            post_transform=transform,
            relative=2e-5,
            absolute=CANCELLED if transform == "PROBIT" else 2e-6,
            **labels,
        )
    one = {"x": table(4)}
    if transform != "PROBIT":
        compare(
            "LinearClassifier", one, outputs=2, coefficients=[0.5] * 4 * scores, intercepts=[0.1] * scores, **labels
        )


# ---------------------------------------------------------------------- support vectors
KERNELS = [("LINEAR", []), ("POLY", [0.3, 0.5, 3.0]), ("RBF", [0.2, 0.0, 0.0]), ("SIGMOID", [0.1, -0.2, 0.0])]


@pytest.mark.parametrize(("kernel", "params"), KERNELS)
@pytest.mark.parametrize("supports", [0, 1, 37])
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(kernel, params, supports, one_class):
    random = models.generator(supports)
    attributes = {"support_vectors": random.standard_normal(supports * 5).tolist()} if supports else {}
    compare(
        "SVMRegressor",
        {"x": table((11, 5))},
        coefficients=random.standard_normal(supports or 5).tolist(),
        n_supports=supports,
        kernel_type=kernel,
        kernel_params=params or [0.0, 0.0, 0.0],
        rho=[0.25],
        one_class=one_class,
        relative=2e-5,
        absolute=2e-5,
        **attributes,
    )


@pytest.mark.parametrize(("kernel", "params"), KERNELS)
@pytest.mark.parametrize("per_class", [[5, 8], [3, 1, 9], [4, 4, 2, 6]])
@pytest.mark.parametrize("probabilities", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS[:4])
def test_svm_classifier(kernel, params, per_class, probabilities, transform):
    random = models.generator(len(per_class))
    classes, total = len(per_class), sum(per_class)
    pairs = classes * (classes - 1) // 2
    chances = {"prob_a": (-random.uniform(0.5, 2, pairs)).tolist(), "prob_b": random.uniform(-1, 1, pairs).tolist()}
    for text in (False, True):
        labels = (
            {"classlabels_strings": list("abcd")[:classes]} if text else {"classlabels_ints": [4, 2, 9, 1][:classes]}
        )
        compare(
            "SVMClassifier",
            {"x": table((13, 3))},
            outputs=2,
            coefficients=random.standard_normal(total * (classes - 1)).tolist(),
            support_vectors=random.standard_normal(total * 3).tolist(),
            vectors_per_class=per_class,
            rho=random.standard_normal(pairs).tolist(),
            kernel_type=kernel,
            kernel_params=params or [0.0, 0.0, 0.0],
            post_transform=transform,
            relative=5e-5,
            absolute=5e-5,
            **labels,
            **(chances if probabilities else {}),
        )


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("low", [-1, 0])
def test_svm_classifier_without_vectors(classes, low):
    random = models.generator(classes)
    compare(
        "SVMClassifier",
        {"x": np.abs(table((9, 4))) if low == 0 else table((9, 4))},
        outputs=2,
        coefficients=random.uniform(low, 0.4, 4 * classes).tolist(),
        rho=[0.1],
        kernel_type="LINEAR",
        kernel_params=[0.0, 0.0, 0.0],
        classlabels_ints=[4, 7, 3][:classes],
        relative=2e-5,
        absolute=2e-5,
    )


# ---------------------------------------------------------------------- labels
TEXT = np.array([["a", "b", ""], ["c", "zz", "a"]], object)


def test_label_encoder_of_opset_1():
    compare("LabelEncoder", {"x": TEXT}, classes_strings=["a", "b", "c"])
    compare("LabelEncoder", {"x": TEXT}, classes_strings=["a", "b", "c"], default_int64=7)
    compare("LabelEncoder", {"x": np.array([[0, 2, 5, -1]])}, classes_strings=["a", "b", "c"], default_string="none")


KEYS = {
    "strings": (["a", "b", "zz"], TEXT),
    "int64s": ([5, -3, 0], np.array([[5, 0], [1, -3]])),
    "floats": ([0.5, -2.0, 0.0], np.array([[0.5, -0.0], [3, -2]], np.float32)),
}
VALUES = {"strings": ["one", "", "three"], "int64s": [2**62, -5, 0], "floats": [0.25, -1e30, 3.0]}


@pytest.mark.parametrize("key", list(KEYS))
@pytest.mark.parametrize("value", list(VALUES))
@pytest.mark.parametrize("version", [2, 4])
def test_label_encoder(key, value, version):
    keys, x = KEYS[key]
    table_of = {f"keys_{key}": keys, f"values_{value}": VALUES[value]}
    compare("LabelEncoder", {"x": x}, version=version, **table_of)
    default = {"strings": "?", "int64s": 99, "floats": 1.5}[value]
    compare("LabelEncoder", {"x": x}, version=version, **table_of, **{f"default_{value[:-1]}": default})


@pytest.mark.parametrize("key", [np.float32, np.float64, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("value", [np.float32, np.float64, np.int16, np.int32, np.int64, str])
def test_label_encoder_of_tensors(key, value):
    random = models.generator(1)
    keys = random.permutation(101)[:37].astype(key)
    values = random.integers(-1000, 1000, 37)
    x = random.integers(0, 101, (9, 5)).astype(key)
    made = [str(v) for v in values] if value is str else values.astype(value)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(key))
    out = 8 if value is str else helper.np_dtype_to_tensor_dtype(np.dtype(value))
    attributes = {
        "keys_tensor": helper.make_tensor("k", kind, [37], keys),
        "values_tensor": helper.make_tensor("v", out, [37], made),
        "default_tensor": helper.make_tensor("d", out, [1], ["no"] if value is str else [-7]),
    }
    (y,) = run(model("LabelEncoder", {"x": x}, version=4, **attributes), {"x": x})
    found = dict(zip(keys.tolist(), made, strict=True))
    wanted = [found.get(item, "no" if value is str else -7) for item in x.ravel().tolist()]
    assert_equal(y, np.array(wanted, object if value is str else value).reshape(x.shape))


def test_label_encoder_repeats_and_nan():
    x = {"x": np.array([1.0, np.nan, -0.0], np.float32)}
    same = {"keys_floats": [1.0, 1.0, float("nan"), 0.0], "values_int64s": [1, 2, 3, 4]}
    assert run(model("LabelEncoder", x, version=4, **same), x)[0].tolist() == [2, 3, 4]
    assert run(model("LabelEncoder", x, version=2, **same), x)[0].tolist() == [1, -1, 4]


def test_category_mapper():
    names, numbers = ["a", "b", "zz"], [4, -5, 6]
    compare("CategoryMapper", {"x": TEXT}, cats_strings=names, cats_int64s=numbers, default_int64=77)
    compare("CategoryMapper", {"x": np.array([4, 1, 6])}, cats_strings=names, cats_int64s=numbers)


def test_one_hot_encoder():
    compare("OneHotEncoder", {"x": TEXT}, cats_strings=["a", "b", "q"])
    compare("OneHotEncoder", {"x": TEXT[0]}, cats_strings=["a", "b", ""], zeros=0)
    for dtype in NUMBERS:
        x = np.array([[3, -1, 0], [2, 7, 3]]).astype(dtype)
        for categories, zeros in (([-1, 3, 2], 1), ([-1, 3, 2, 7, 0], 0), ([3, -1, 3], 1)):
            feeds = {"x": x}
            (y,) = run(model("OneHotEncoder", feeds, cats_int64s=categories, zeros=zeros), feeds)
            first = [categories.index(category) == i for i, category in enumerate(categories)]
            assert_equal(y, ((x[..., None] == categories) & first).astype(np.float32))
    compare("OneHotEncoder", {"x": np.array([3, -1, 0])}, cats_int64s=[-1, 3, 2])
    compare("OneHotEncoder", {"x": np.array([1.75, -0.5, 2], np.float32)}, cats_int64s=[1, 0, 2])


def test_one_hot_encoder_of_something_else():
    for x, categories in ((TEXT, {"cats_strings": ["a"]}), (np.array([3, 4]), {"cats_int64s": [3]})):
        feeds = {"x": x}
        with pytest.raises(InvalidInput, match="none of the 1 categories"):
            run(model("OneHotEncoder", feeds, zeros=0, **categories), feeds)


# ---------------------------------------------------------------------- maps
def test_zip_map():
    compare("ZipMap", {"x": table((4, 3))}, classlabels_int64s=[5, -1, 9])
    compare("ZipMap", {"x": table((4, 3))}, classlabels_strings=["a", "", "c"])
    compare("ZipMap", {"x": table(2)}, classlabels_strings=["a", "b"])


def test_zip_map_uses_its_maps_again():
    """Results of earlier runs stay, whatever becomes of the maps that they were made of."""
    proto = model("ZipMap", {"x": table((4, 3))}, symbolic=True, classlabels_int64s=[5, -1, 9])
    executor = make_compiler(proto).compile("cpu")
    copy, feeds = executor.clone(), [table((rows, 3), offset=rows) for rows in (4, 4, 2, 5)]
    results = [(executor({"x": x})["y0"], copy({"x": -x})["y0"]) for x in feeds]
    for x, (plain, negative) in zip(feeds, results, strict=True):
        assert plain == [dict(zip([5, -1, 9], row.tolist(), strict=True)) for row in x]
        assert negative == [dict(zip([5, -1, 9], row.tolist(), strict=True)) for row in -x]


@pytest.mark.parametrize("to", ["TO_FLOAT", "TO_STRING", "TO_INT64"])
def test_cast_map(to):
    x = {"x": {3: 1.5, 1: -2.25, 0: 7.0}}
    compare("CastMap", x, cast_to=to)
    for size in (2, 6):
        compare("CastMap", x, cast_to=to, map_form="SPARSE", max_map=size)


def test_cast_map_of_text():
    feeds = {"x": {3: "1.5", 1: "-2"}}
    assert_equal(run(model("CastMap", feeds), feeds)[0], np.array([[-2, 1.5]], np.float32))
    assert_equal(run(model("CastMap", feeds, cast_to="TO_INT64"), feeds)[0], np.array([[-2, 1]]))
    assert_equal(run(model("CastMap", feeds, cast_to="TO_STRING"), feeds)[0], np.array([["-2", "1.5"]], object))
    feeds = {"x": {3: "x"}}
    with pytest.raises(InvalidInput, match='"x", expected a number'):
        run(model("CastMap", feeds), feeds)
    feeds = {"x": {-3: 1.0}}
    with pytest.raises(InvalidInput, match="-3, expected at least 0"):
        run(model("CastMap", feeds, map_form="SPARSE", max_map=2), feeds)


def test_dict_vectorizer():
    compare("DictVectorizer", {"x": {"b": 1.5, "zz": 3.0, "a": -2.0}}, string_vocabulary=["a", "c", "b"])
    for feeds, vocabulary, wanted in (
        ({"x": {7: 1.5, 2: 2.5}}, [2, 3, 7], np.array([[2.5, 0, 1.5]], np.float32)),
        ({"x": {7: "q", 2: ""}}, [2, 3, 7], np.array([["", "", "q"]], object)),
    ):
        assert_equal(run(model("DictVectorizer", feeds, int64_vocabulary=vocabulary), feeds)[0], wanted)
    feeds = {"x": {"a": 2**60}}
    assert_equal(run(model("DictVectorizer", feeds, string_vocabulary=["b", "a"]), feeds)[0], np.array([[0, 2**60]]))


# ---------------------------------------------------------------------- refusals
X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("op", "feeds", "attributes", "pattern"),
    [
        ("ArrayFeatureExtractor", {"x": X, "i": np.zeros(1, np.int32)}, {}, "is i32"),
        ("Binarizer", {"x": X.astype(np.float16)}, {}, "is f16"),
        ("Scaler", {"x": X}, {"offset": [1.0, 2.0], "scale": [1.0, 2.0]}, "2 elements, expected 1 or 3"),
        ("Scaler", {"x": X}, {"offset": [1.0, 2.0], "scale": [1.0]}, "1 elements, expected 2"),
        ("Normalizer", {"x": X}, {"norm": "L3"}, '"L3", expected MAX'),
        ("Normalizer", {"x": X[None]}, {}, "3 axes"),
        ("Imputer", {"x": X}, {"imputed_value_int64s": [1]}, "imputed_value_floats has 0"),
        ("Imputer", {"x": X}, {"imputed_value_floats": [1.0, 2.0]}, "2 elements, expected 1 or 3"),
        ("FeatureVectorizer", {"a": X, "b": X}, {"inputdimensions": [3]}, "1 elements for 2 inputs"),
        ("FeatureVectorizer", {"a": X, "b": X[:1]}, {}, "number of rows is 1, expected 2"),
        ("LinearRegressor", {"x": X}, {"coefficients": [1.0] * 4}, "columns is 3, expected 4"),
        ("LinearRegressor", {"x": X}, {"coefficients": [1.0] * 3, "post_transform": "TANH"}, '"TANH"'),
        ("LinearRegressor", {"x": X}, {"coefficients": [1.0] * 3, "intercepts": [1.0, 2.0]}, "2 elements, expected 1"),
        ("SVMRegressor", {"x": X}, {"coefficients": [1.0] * 3}, "rho is empty"),
        ("SVMRegressor", {"x": X}, {"coefficients": [1.0] * 3, "rho": [1.0], "kernel_type": "COSINE"}, '"COSINE"'),
        ("OneHotEncoder", {"x": X}, {"cats_strings": ["a"]}, "categories are text"),
        ("OneHotEncoder", {"x": X}, {}, "expected one of the lists"),
        ("LabelEncoder", {"x": TEXT}, {}, "classes_strings is empty"),
        ("CategoryMapper", {"x": TEXT}, {"cats_strings": ["a"], "cats_int64s": [1, 2]}, "2 values, expected 1"),
        ("ZipMap", {"x": X}, {"classlabels_int64s": [1, 2]}, "columns is 3, expected 2"),
        ("CastMap", {"x": {1: 2.0}}, {"cast_to": "TO_BOOL"}, '"TO_BOOL"'),
        ("CastMap", {"x": {"a": 2.0}}, {}, "expected i64"),
        ("CastMap", {"x": X}, {}, "expected a map"),
        ("DictVectorizer", {"x": {"a": 2.0}}, {"int64_vocabulary": [1]}, "vocabulary is of i64"),
    ],
)
def test_refusals(op, feeds, attributes, pattern):
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(model(op, feeds, **attributes))


@pytest.mark.parametrize(
    ("attributes", "pattern"),
    [
        ({"classlabels_ints": [1]}, "1 class labels for 2 scores"),
        ({"classlabels_ints": [1, 2], "classlabels_strings": ["a", "b"]}, "expected one of the lists"),
        ({"classlabels_ints": [1, 2], "coefficients": [1.0] * 5}, "5 elements, expected a multiple of 2"),
    ],
)
def test_refused_classifiers(attributes, pattern):
    given = {"coefficients": [1.0] * 6, "intercepts": [1.0, 2.0], **attributes}
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(model("LinearClassifier", {"x": X}, outputs=2, **given))


@pytest.mark.parametrize(
    ("attributes", "pattern"),
    [
        ({"vectors_per_class": [1]}, "vectors_per_class has 1 elements"),
        ({"coefficients": [1.0]}, "coefficients has 1 elements, expected 2"),
        ({"rho": []}, "rho is empty"),
        ({"prob_a": [1.0]}, "prob_b has 0 elements, expected 1"),
        ({"kernel_params": [1.0]}, "kernel_params has 1 elements"),
    ],
)
def test_refused_support_vectors(attributes, pattern):
    given = {"coefficients": [1.0, 2.0], "vectors_per_class": [1, 1], "support_vectors": [1.0] * 6, "rho": [1.0]}
    given |= {"classlabels_ints": [1, 2], **attributes}
    given = {name: value for name, value in given.items() if value}
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(model("SVMClassifier", {"x": X}, outputs=2, **given))


def test_wrong_columns_at_run_time():
    feeds = {"x": X}
    proto = model("LinearRegressor", feeds, symbolic=True, coefficients=[1.0] * 4)
    with pytest.raises(Error, match="3"):
        run(proto, feeds)


def test_onnxruntime_agrees_on_the_version():
    """`onnxruntime_results` runs what `run` runs."""
    feeds = {"x": X}
    proto = model("Binarizer", feeds)
    assert_equal(run(proto, feeds), onnxruntime_results(proto, feeds))
