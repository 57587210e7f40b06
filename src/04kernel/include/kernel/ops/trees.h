#pragma once
#include "kernel/kernel.h"

#include <bit>
#include <limits>

/// Decision trees on tables of features, and what turns scores into probabilities and labels.
namespace refactor::kernel {

/// Number that orders floats as they are ordered: `a < b` if and only if `key(a) < key(b)`, with equal keys for both
/// zeros. At least 1; the greatest number for NaN.
inline uint32_t tree_key(float x) {
    auto bits = std::bit_cast<uint32_t>(x);
    if (x != x) return ~uint32_t{0};
    constexpr uint32_t kSign = uint32_t{1} << 31;
    if (bits == kSign) bits = 0;
    return bits & kSign ? ~bits : bits | kSign;
}
inline uint64_t tree_key(double x) {
    auto bits = std::bit_cast<uint64_t>(x);
    if (x != x) return ~uint64_t{0};
    constexpr uint64_t kSign = uint64_t{1} << 63;
    if (bits == kSign) bits = 0;
    return bits & kSign ? ~bits : bits | kSign;
}

/// One node: a row whose key of the feature is in an interval, `key - low <= span` without sign, goes to the node
/// `base + 1`, any other to `base`. All comparisons of ONNX, and where NaN goes, are intervals. A leaf has itself as
/// `base` and no key in its interval (`low` and `span` are 0).
template <class Key>
struct TreeNode {
    Key low, span;
    uint32_t feature;  ///< number in the list of used features times `kTreeLanes`
    uint32_t base;
};
/// Walks that are in flight at a time, one for each of the eight registers that x86-64 leaves for their positions: a
/// walk is a chain of loads that wait for each other.
inline constexpr int kTreeLanes = 8;

enum class PostTransform : uint8_t { None, Softmax, Logistic, SoftmaxZero, Probit };
std::string_view name_of(PostTransform);
enum class TreeAggregate : uint8_t { Average, Sum, Min, Max };

/// Inputs: X [N, F] or [F] (f16, f32, f64, i32, i64); the nodes, `TreeNode<uint32_t>` as u32 [n, 4] or
/// `TreeNode<uint64_t>` as u64 [n, 3] (then everything is computed in f64); the columns of X that are used i32 [m]; the
/// roots u32 [t]; where each node's weights begin u32 [n + 1]; the weights f32 or f64 [w]; the targets of the weights
/// u32 [w]; base values f32 or f64 [b]; labels of the classes i64 [l].
///
/// Outputs: scores [N, targets] (f16, f32, f64); of a classifier also the label of each row i64 [N]. What two classes
/// mean follows onnxruntime. Source: ONNX-ML TreeEnsemble-5, TreeEnsembleClassifier-3, TreeEnsembleRegressor-3.
struct TreeEnsembleInfo {
    static constexpr char const* kType = "TreeEnsemble";
    int64_t targets = 1;
    int64_t columns = 0;      ///< that X must have at least
    int64_t dense = 0;        ///< every leaf has weights for exactly the targets [0, dense), in order; 0: any
    int64_t base_values = 0;  ///< how many there are; input 7 has at least one element
    TreeAggregate aggregate = TreeAggregate::Sum;
    PostTransform transform = PostTransform::None;
    bool classify = false;
    bool binary = false;            ///< of a classifier: two classes, all weights are for the same one
    bool positive_weights = false;  ///< of a classifier: no weight is negative
    std::string attributes() const;
};
Candidates candidates(TreeEnsembleInfo const&, Request const&);

}  // namespace refactor::kernel
