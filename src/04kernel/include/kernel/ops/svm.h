#pragma once
#include "kernel/ops/trees.h"

namespace refactor::kernel {

/// y[n, v] = Σ_f (x[n, f] - s[v, f])²: what the RBF kernel of support vectors is a function of. Inputs: x [N, F], s [V,
/// F], f32.
struct SquaredDistanceInfo {
    static constexpr char const* kType = "SquaredDistance";
    std::string attributes() const { return {}; }
};
Candidates candidates(SquaredDistanceInfo const&, Request const&);

/// From kernel values to the scores and the class of each row: every pair of classes votes. Inputs: K [N, V] f32, whose
/// columns are ordered by class; coefficients f32 [classes - 1, V]; rho f32 [pairs]; labels i64 [classes]; if
/// `probabilities` also A and B f32 [pairs]. Outputs: scores f32 [N, S], where S is classes with probabilities or two
/// classes, else pairs; labels i64 [N]. Source: ONNX-ML SVMClassifier-1, libsvm, onnxruntime.
struct SvmVotesInfo {
    static constexpr char const* kType = "SvmVotes";
    Dims vectors;  ///< by class
    PostTransform transform = PostTransform::None;
    bool probabilities = false;
    std::string attributes() const;

    int64_t classes() const { return static_cast<int64_t>(vectors.size()); }
    int64_t pairs() const { return classes() * (classes() - 1) / 2; }
    int64_t scores() const { return probabilities || classes() == 2 ? classes() : pairs(); }
};
Candidates candidates(SvmVotesInfo const&, Request const&);

}  // namespace refactor::kernel
