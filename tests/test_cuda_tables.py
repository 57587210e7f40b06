"""Decision trees and support vectors on every kind of device, compared with onnxruntime."""

import numpy as np
import pytest
from refactor_graph.onnx import make_compiler

from tests import ml_models, models
from tests.test_ml import table
from tests.test_trees import MODES, classifier, regressor, rows


def check(target, op, feeds, outputs=1, **attributes):
    proto = ml_models.model(op, feeds, outputs=outputs, **attributes)
    actual = make_compiler(proto).compile(target)(feeds).values()
    for value, wanted in zip(actual, ml_models.onnxruntime_results(proto, feeds), strict=True):
        ml_models.assert_equal(value, wanted, 5e-5, 5e-5)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("dense", [False, True])
def test_regressor(target, aggregate, targets, dense):
    random = models.generator(targets)
    attributes = regressor(random, targets, MODES, missing=True, dense=dense)
    check(
        target,
        "TreeEnsembleRegressor",
        {"x": rows(random, 300, 5, missing=True)},
        aggregate_function=aggregate,
        base_values=random.standard_normal(targets).tolist(),
        post_transform="SOFTMAX" if targets > 1 else "NONE",
        **attributes,
    )


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("choose", [[0], [0, 1], [0, 1, 2]])
def test_classifier(target, transform, choose):
    random = models.generator(len(choose))
    classes = max(2, len(choose))
    attributes = classifier(random, choose, classes)
    feeds = {"x": rows(random, 21, 5)}
    check(target, "TreeEnsembleClassifier", feeds, 2, post_transform=transform, **attributes)


def test_types_of_features(target):
    random = models.generator()
    attributes = regressor(random, 1, MODES)
    for dtype in (np.float64, np.int32, np.int64):
        feeds = {"x": rows(random, 9, 5).astype(dtype)}
        proto = ml_models.model("TreeEnsembleRegressor", feeds, **attributes)
        (actual,) = make_compiler(proto).compile(target)(feeds).values()
        np.testing.assert_allclose(actual, ml_models.run(proto, feeds)[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("per_class", [[5, 8], [3, 1, 9]])
@pytest.mark.parametrize("probabilities", [False, True])
@pytest.mark.parametrize("kernel", ["LINEAR", "RBF"])
def test_support_vectors(target, per_class, probabilities, kernel):
    random = models.generator(len(per_class))
    classes, total = len(per_class), sum(per_class)
    pairs = classes * (classes - 1) // 2
    chances = {"prob_a": (-random.uniform(0.5, 2, pairs)).tolist(), "prob_b": random.uniform(-1, 1, pairs).tolist()}
    check(
        target,
        "SVMClassifier",
        {"x": table((33, 19))},
        2,
        coefficients=random.standard_normal(total * (classes - 1)).tolist(),
        support_vectors=random.standard_normal(total * 19).tolist(),
        vectors_per_class=per_class,
        rho=random.standard_normal(pairs).tolist(),
        kernel_type=kernel,
        kernel_params=[0.05, 0.0, 0.0],
        classlabels_ints=[4, 2, 9][:classes],
        **(chances if probabilities else {}),
    )
