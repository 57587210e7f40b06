#pragma once
#include "kernel/ops/elementwise.h"
#include "pass.h"

#include <unordered_map>

namespace refactor::computation {

/// All operands of a node.
std::vector<EdgePtr> edges_of(NodePtr node);

/// Tensors of f32 that could be bf16, of which some have to be alike.
class Narrowing {
    PassContext const& context_;
    std::vector<NodePtr> nodes_;
    std::vector<EdgePtr> edges_;
    kernel::Layout wide_layout_, narrow_layout_;
    std::unordered_map<EdgePtr, size_t> number_;
    std::vector<size_t> parent_;
    std::vector<bool> wide_;  ///< stays f32; of a root, for all

    size_t root_of(EdgePtr edge);
    void set_types(DataType type, kernel::Layout layout);
    struct Change {
        NodePtr node;
        std::shared_ptr<Operator const> before;
    };
    std::vector<Change> apply();
    void undo(std::span<Change const> changes);
    bool has_kernel(NodePtr node) const;

public:
    /// Those of the layout `wide`, which are of `narrow` in bf16, that a node of the model makes and that are no
    /// results of it.
    Narrowing(Model&, PassContext const&, kernel::Layout wide, kernel::Layout narrow);

    std::span<NodePtr const> nodes() const { return nodes_; }
    std::span<EdgePtr const> edges() const { return edges_; }
    /// Those of them that could be bf16.
    void join(std::span<EdgePtr const> edges);
    void keep_wide(EdgePtr edge);
    void keep_wide(std::span<EdgePtr const> edges);
    bool is_narrow(EdgePtr edge);

    /// Gives tensors their types, and elementwise programs casts: where a node has no kernel then, other than a
    /// reference, its results stay f32, or else its operands, and so does what has to be like them. Returns how many
    /// are bf16.
    int run();
};

}  // namespace refactor::computation
