"""Tree ensembles against onnxruntime and onnx.reference, and what they refuse."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from refactor_graph import InvalidModel, Unsupported
from refactor_graph.onnx import make_compiler

from tests import models
from tests.ml_models import assert_equal, compare, model, random_trees, run, weights

TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
#: Splits and rows are drawn from these, so that rows hit splits.
GRID = np.array([-2, -0.5, -0.0, 0.0, 0.5, 1, 3], np.float32)


def rows(random, count, features, dtype=np.float32, missing=False):
    x = random.choice(GRID, (count, features)).astype(dtype)
    if missing:
        x[random.random(x.shape) < 0.2] = np.nan
    return x


def regressor(random, targets, modes, trees=7, depth=4, features=5, missing=False, dense=False):
    nodes, leaves = random_trees(
        random, trees=trees, depth=depth, features=features, modes=modes, missing=missing, values=GRID
    )
    chosen = []
    for leaf in leaves:
        for target in range(targets):
            if dense or targets == 1 or random.random() < 0.6:
                chosen.append((leaf, target, random.standard_normal()))
    return {**nodes, **weights("target", chosen), "n_targets": targets}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("count", [1, 3, 8, 19])
def test_modes(mode, missing, count):
    random = models.generator(count)
    attributes = regressor(random, 1, [mode], missing=missing)
    compare("TreeEnsembleRegressor", {"x": rows(random, count, 5, missing=missing)}, **attributes)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("base", [False, True])
def test_regressor(aggregate, transform, targets, base):
    random = models.generator(targets)
    attributes = regressor(random, targets, MODES, dense=True)
    if base:
        attributes["base_values"] = random.standard_normal(targets).tolist()
    compare(
        "TreeEnsembleRegressor",
        {"x": rows(random, 21, 5)},
        aggregate_function=aggregate,
        post_transform=transform,
        relative=1e-5,
        absolute=2e-6,
        **attributes,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_types_of_features(dtype):
    random = models.generator(2)
    attributes = regressor(random, 2, MODES[:4])
    feeds = {"x": rows(random, 33, 5, dtype)}
    wide = {"x": feeds["x"].astype(np.float64)}
    wanted = run(model("TreeEnsembleRegressor", wide, **attributes), wide)
    assert_equal(run(model("TreeEnsembleRegressor", feeds, **attributes), feeds), wanted, 1e-5, 1e-5)
    if dtype in (np.float32, np.float64):
        compare("TreeEnsembleRegressor", feeds, relative=1e-5, absolute=1e-5, **attributes)


def test_nodes_in_any_order():
    """Trees that are mixed, and ids with gaps, not in order."""
    random = models.generator(5)
    attributes, x = regressor(random, 2, MODES), rows(random, 17, 5)
    trees = attributes["nodes_treeids"]
    roots = [i for i, tree in enumerate(trees) if tree not in trees[:i]]
    others = [i for i in range(len(trees)) if i not in roots]
    order = roots[::-1] + random.permutation(others).tolist()
    leaves = random.permutation(len(attributes["target_ids"])).tolist()
    mixed = {}
    for name, values in attributes.items():
        if name.startswith("nodes_"):
            mixed[name] = [values[i] for i in order]
        elif name.startswith("target_"):
            mixed[name] = [values[i] for i in leaves]
        else:
            mixed[name] = values
        if name.endswith("nodeids"):
            mixed[name] = [value * 7 - 3 for value in mixed[name]]
    wanted = run(model("TreeEnsembleRegressor", {"x": x}, **attributes), {"x": x})
    assert_equal(run(model("TreeEnsembleRegressor", {"x": x}, **mixed), {"x": x}), wanted, 1e-5, 1e-5)


def test_one_row_without_a_batch():
    random = models.generator(3)
    attributes, x = regressor(random, 1, MODES), rows(random, 1, 5)
    wanted = run(model("TreeEnsembleRegressor", {"x": x}, **attributes), {"x": x})
    assert_equal(run(model("TreeEnsembleRegressor", {"x": x[0]}, **attributes), {"x": x[0]}), wanted)


@pytest.mark.parametrize("count", [1, 7, 500])
def test_many_trees_on_threads(count):
    """Deep trees, shared among threads, give what one thread gives, bit for bit."""
    random = models.generator(4)
    nodes, leaves = random_trees(random, trees=60, depth=9, features=40, modes=["BRANCH_LEQ"])
    attributes = {**nodes, **weights("target", [(leaf, 0, random.standard_normal()) for leaf in leaves])}
    feeds = {"x": random.standard_normal((count, 40)).astype(np.float32)}
    compare("TreeEnsembleRegressor", feeds, n_targets=1, relative=1e-5, absolute=1e-5, **attributes)
    proto = model("TreeEnsembleRegressor", feeds, n_targets=1, **attributes)
    one = run(proto, feeds, num_threads=1)[0]
    for threads in (2, 3):
        np.testing.assert_array_equal(run(proto, feeds, num_threads=threads)[0], one)


# ---------------------------------------------------------------------- classifiers
def classifier(random, choose, classes, sign=1.0):
    nodes, leaves = random_trees(random, trees=6, depth=4, features=5, modes=MODES, values=GRID)
    chosen = [
        (leaf, c, random.uniform(0, 1) if sign > 0 else random.standard_normal()) for leaf in leaves for c in choose
    ]
    labels = [0, 1, 7, -3][:classes]
    return {**nodes, **weights("class", chosen), "classlabels_int64s": labels}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("choose", [[0], [1], [0, 1]])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("bases", [0, 1, 2])
def test_two_classes(transform, choose, sign, bases):
    if bases == 1 and choose != [0]:
        pytest.skip("what one base value means for both classes is not defined")
    random = models.generator(bases)
    attributes = classifier(random, choose, 2, sign)
    if choose != [0, 1]:
        attributes["classlabels_int64s"] = [5, -9]
    if bases:
        attributes["base_values"] = random.standard_normal(bases).tolist()
    compare(
        "TreeEnsembleClassifier",
        {"x": rows(random, 21, 5)},
        outputs=2,
        post_transform=transform,
        relative=1e-5,
        absolute=2e-6,
        **attributes,
    )


@pytest.mark.parametrize("transform", [*TRANSFORMS, "PROBIT"])
@pytest.mark.parametrize("classes", [3, 4])
@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("text", [False, True])
def test_more_classes(transform, classes, base, text):
    random = models.generator(classes)
    attributes = classifier(random, range(classes), classes, 1.0 if transform == "PROBIT" else -1.0)
    if transform == "PROBIT":
        attributes["class_weights"] = [weight / 8 for weight in attributes["class_weights"]]
    if base:
        attributes["base_values"] = random.uniform(0, 0.1, classes).tolist()
    if text:
        attributes["classlabels_strings"] = [f"class {i}" for i in range(classes)]
        del attributes["classlabels_int64s"]
    for dtype in (np.float32, np.float64, np.int64):
        compare(
            "TreeEnsembleClassifier",
            {"x": rows(random, 13, 5, dtype)},
            outputs=2,
            post_transform=transform,
            relative=1e-5,
            # Near 1/2 the approximation is a root of the difference of two numbers around 4.3.
            absolute=np.sqrt(4.3 * 2.0**-24 * 4) if transform == "PROBIT" else 2e-6,
            **attributes,
        )


def test_tensor_attributes():
    random = models.generator(8)
    nodes, leaves = random_trees(random, trees=3, depth=3, features=4, modes=["BRANCH_LEQ"])
    attributes = {**nodes, **weights("target", [(leaf, 0, random.standard_normal()) for leaf in leaves])}
    for name in ("nodes_values", "target_weights"):
        values = attributes.pop(name)
        attributes[f"{name}_as_tensor"] = helper.make_tensor(name, TensorProto.DOUBLE, [len(values)], values)
    feeds = {"x": random.standard_normal((9, 4))}
    compare("TreeEnsembleRegressor", feeds, version=3, n_targets=1, **attributes)


# ---------------------------------------------------------------------- TreeEnsemble
def indexed(dtype, **extra):
    """Two trees that share a node, with every mode: what onnx.reference runs."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nan = float("nan")
    attributes = {
        "tree_roots": [0, 2],
        "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [4], [0, 6, 3, 6]),
        "nodes_splits": helper.make_tensor("s", kind, [4], [0.5, nan, -1.0, nan]),
        "nodes_featureids": [0, 1, 2, 0],
        "nodes_trueleafs": [0, 1, 0, 1],
        "nodes_truenodeids": [1, 0, 3, 2],
        "nodes_falseleafs": [1, 1, 1, 1],
        "nodes_falsenodeids": [1, 2, 3, 4],
        "membership_values": helper.make_tensor("v", kind, [8], [1, 2, 3, 7, nan, 3, 0.5, nan]),
        "leaf_targetids": [0, 1, 0, 1, 2],
        "leaf_weights": helper.make_tensor("w", kind, [5], [1, 2.5, -3, 4, 0.5]),
        "n_targets": 3,
    }
    return {**attributes, **extra}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_tree_ensemble(dtype, aggregate):
    random = models.generator(aggregate)
    feeds = {"x": random.choice([-2, 0.5, 1, 2, 3, 7, 8], (23, 3)).astype(dtype)}
    proto = model("TreeEnsemble", feeds, version=5, **indexed(dtype, aggregate_function=aggregate))
    (actual,) = run(proto, feeds)
    assert actual.dtype == dtype
    (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
    # The reference leaves the largest or smallest number where a target gets nothing; onnxruntime and we write 0.
    wanted = np.where(np.abs(wanted) > 1e4, 0, wanted)
    np.testing.assert_allclose(actual, wanted.astype(dtype), 1e-6)


def test_members_and_missing_values():
    feeds = {"x": np.array([[np.nan, np.nan, 0], [0, 3, 0], [0, np.nan, 0]], np.float32)}
    attributes = indexed(np.float32, nodes_missing_value_tracks_true=[1, 1, 0, 1])
    (actual,) = run(model("TreeEnsemble", feeds, version=5, **attributes), feeds)
    np.testing.assert_array_equal(actual, [[1 - 3, 0, 0], [1, 0, 0.5], [1, 0, 0.5]])


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({"tree_roots": [4]}, "a root is node 4 of 4"),
        ({"nodes_truenodeids": [0, 0, 3, 2]}, "below itself"),
        ({"nodes_falsenodeids": [1, 2, 3, 5]}, "leaf 5 of 5"),
        ({"nodes_featureids": [0, 3, 0, 0]}, "X has 3 columns, the trees need 4"),
        ({"nodes_featureids": [0, -1, 0, 0]}, "feature -1"),
        ({"leaf_targetids": [0, 1, 0, 1, 3]}, "target or class 3 of 3"),
        ({"post_transform": 5}, "post_transform is 5"),
        ({"aggregate_function": -1}, "aggregate_function is -1"),
        ({"nodes_trueleafs": [0, 1, 0]}, "nodes_trueleafs has 3 elements, expected 4"),
    ],
)
def test_refusals(change, pattern):
    feeds = {"x": np.zeros((2, 3), np.float32)}
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(model("TreeEnsemble", feeds, version=5, **indexed(np.float32, **change)))


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({"nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAVE"]}, '"LEAVE"'),
        ({"nodes_truenodeids": [5, 0, 0]}, "tree 0 has no node 5"),
        ({"nodes_truenodeids": [0, 0, 0]}, "below itself"),
        ({"nodes_nodeids": [0, 1, 1]}, "two nodes 1"),
        ({"target_nodeids": [1, 9]}, "tree 0 has no node 9"),
        ({"base_values": [1.0, 2.0]}, "2 elements, expected 1"),
        ({"aggregate_function": "MEAN"}, '"MEAN"'),
        ({"n_targets": 0}, "n_targets is 0"),
    ],
)
def test_refused_regressors(change, pattern):
    stump = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        "n_targets": 1,
    }
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(model("TreeEnsembleRegressor", {"x": np.zeros((2, 3), np.float32)}, **{**stump, **change}))


def test_too_few_columns_at_run_time():
    random = models.generator(9)
    proto = model("TreeEnsembleRegressor", {"x": rows(random, 2, 5)}, symbolic=True, **regressor(random, 1, MODES))
    with pytest.raises(Unsupported, match="X has 1 columns, the trees need 5"):
        run(proto, {"x": rows(random, 2, 1)})
