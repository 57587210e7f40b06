#pragma once
#include "frontend/tensor.h"
#include "kernel/ops/trees.h"

#include <vector>

namespace refactor::onnx {

enum class TreeMode : uint8_t { LessEqual, Less, GreaterEqual, Greater, Equal, NotEqual, Member, Leaf };

/// Trees as a model gives them, whatever the operator. Splits and members are numbers of the type that `flatten` is
/// asked for (f32 for u32 keys, f64 for u64).
struct TreeSource {
    struct Node {
        TreeMode mode = TreeMode::Leaf;
        bool missing_is_true = false;
        int64_t feature = 0;
        double split = 0;
        uint32_t yes = 0, no = 0;  ///< nodes for a true and a false comparison
        uint32_t members = 0;      ///< of `Member`: number in `member_sets`
    };
    struct Weight {
        uint32_t node;
        int64_t target;
        double value;
    };
    std::vector<Node> nodes;
    std::vector<uint32_t> roots;
    std::vector<Weight> weights;  ///< of leaves
    std::vector<std::vector<double>> member_sets;
};

/// Trees as the kernel takes them; `Key` is u32 or u64.
template <class Key>
struct FlatTrees {
    std::vector<kernel::TreeNode<Key>> nodes;
    std::vector<int32_t> features;
    std::vector<uint32_t> roots, first, targets;
    std::vector<double> weights;
    int64_t columns = 0;  ///< that X must have at least
    int64_t dense = 0;    ///< as in `TreeEnsembleInfo`
};

/// Refuses cycles, features below 0 and targets that are not in [0, targets).
template <class Key>
frontend::Inferred<FlatTrees<Key>> flatten(TreeSource const& source, int64_t targets);

}  // namespace refactor::onnx
