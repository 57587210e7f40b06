#pragma once
#include "ops/ml_attributes.h"
#include "ops/ml_trees.h"

namespace refactor::onnx {

/// An ensemble as its attributes describe it.
struct TreeAttributes {
    TreeSource trees;
    kernel::TreeEnsembleInfo info;
    std::vector<double> base;
    ClassLabels labels;
    bool wide = false;  ///< some attribute is f64
};

/// Of `TreeEnsemble`, `TreeEnsembleClassifier` or `TreeEnsembleRegressor`.
Inferred<TreeAttributes> read_ensemble(NodeView const& n);

}  // namespace refactor::onnx
