#pragma once
#include "program/plan_build.h"

#include <optional>

namespace refactor::kernel {

/// Where a tensor is: `offset` bytes behind the beginning of another one, or of itself.
struct Place {
    uint32_t root;
    size_t offset;
    bool operator==(Place const&) const = default;
};

/// Decides which tensors are parts of others. A node that cuts its input, or joins its inputs, needs no step if all its
/// operands can lie in each other: the parts are runs of bytes that begin at multiples of 64, as everything that
/// kernels read does. Inputs, outputs and constants of the program stay where they are.
///
/// Nodes that cut come first: their parts become names of places in the input. Then those that join, the last one
/// first, so that what is joined several times, each time with more behind it, lies in the longest. An input that is
/// cut itself moves as a whole, if the pieces that are joined cover it in order.
///
/// Example: `a, b = split(x); c = conv(b); y = concat(a, b, c)`. a and b are places in x; x lies in y from 0 on, c
/// behind it; neither the split nor the concatenation is a step.
class PartPlacement {
    ProgramParts const& parts_;
    SizeTable const& sizes_;
    std::span<TensorDesc const> descs_;
    std::vector<Place> links_;  ///< by edge: itself, or what it is a part of
    std::vector<bool> fixed_;   ///< by edge: memory that is not the arena's
    std::vector<bool> needless_;

    size_t bytes_of(uint32_t edge) const;
    bool can_be_cut(TensorDesc const& whole, int64_t axis) const;
    bool has_rows(ProgramNode const& node, uint32_t whole, std::span<uint32_t const> pieces) const;
    std::optional<size_t> slice_offset(uint32_t node) const;
    bool place_parts(uint32_t whole, std::span<uint32_t const> parts, size_t offset);
    bool cut(uint32_t node);
    bool join(uint32_t node);
    bool lie_side_by_side(uint32_t whole, std::span<uint32_t const> pieces);

public:
    /// `is_known`, by edge: constants, of the program or of the plan.
    PartPlacement(ProgramParts const& parts, SizeTable const& sizes, std::span<TensorDesc const> descs,
                  std::vector<bool> const& is_known);
    void run();
    /// In the memory of an edge that is part of no other.
    Place place_of(uint32_t edge) const;
    /// Whether the node has nothing to do, because its operands lie in each other.
    bool is_needless(uint32_t node) const { return needless_[node]; }
};

}  // namespace refactor::kernel
