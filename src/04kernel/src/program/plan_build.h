#pragma once
#include "kernel/program.h"
#include "program/task_choice.h"

namespace refactor::kernel {

/// Values of all sizes of a Program under one set of bindings: `values[slots[i]]`, i from `edge_slots[edge]` (sizes of
/// an edge) or `node_slots[node]` (params of a node) on.
struct SizeTable {
    std::span<int64_t const> values;
    std::span<uint32_t const> slots, edge_slots, node_slots;
};

/// Builds one plan: sizes → tasks → what follows from sizes alone → lifetimes → offsets → arguments. Lives for one
/// call.
class PlanBuild {
    ProgramParts const& parts_;
    SizeTable const& sizes_;
    PackCache& packs_;
    TaskChoice choice_;
    std::vector<TensorDesc> descs_;  ///< by edge
    std::vector<uint32_t> roots_;    ///< by edge: the edge whose memory it uses
    std::vector<size_t> offsets_;    ///< by edge: where in that memory, in bytes
    std::vector<uint32_t> tensors_;  ///< by edge: its number in the plan, or `runtime::kNoTensor`
    struct Bound {
        uint32_t node;
        Chosen chosen;
    };
    std::vector<Bound> bound_;  ///< nodes that execute, in order
    struct Reuse {
        uint32_t step, block;
    };
    std::vector<Reuse> reuse_candidates_;                   ///< first outputs that begin at a step
    std::vector<uint32_t> blocks_;                          ///< by root edge: its block, or `runtime::kNoTensor`
    size_t room_ahead_;                                     ///< bytes that what is computed ahead may take
    std::vector<bool> ahead_;                               ///< by node: computed here, once, instead of in every run
    std::vector<bool> is_known_;                            ///< by edge: a constant of the program or of this plan
    std::vector<std::shared_ptr<mem_manager::Blob>> made_;  ///< by root edge: what has been computed ahead
    std::shared_ptr<runtime::Plan> plan_;

    void check_bytes(uint32_t edge, size_t limit) const;
    [[noreturn]] void refuse_size(uint32_t edge, int64_t size) const;
    void check_alias(uint32_t node) const;
    void fill_descs();
    void find_ahead();
    std::vector<bool> memory_of_outputs() const;
    std::shared_ptr<mem_manager::Blob> const& made_at(uint32_t root);
    void run_ahead(Bound const&);
    bool run_ahead();
    void fill_steps();
    std::vector<bool> place_parts();
    void bind_nodes();
    size_t bind_in_order();
    bool packs_weights() const;
    void bind(Bound&);
    void fill_blocks();
    void fill_tensors();
    void fill_overwrites();
    bool is_read_later(uint32_t step, uint32_t root) const;
    bool may_overwrite(uint32_t step, uint32_t input) const;
    bool is_whole(uint32_t edge) const;
    uint32_t tensor_of(uint32_t edge);
    size_t bytes_of(uint32_t edge) const;
    std::string where(uint32_t node) const;

public:
    /// `room_ahead`: bytes that results which follow from the sizes alone may take, to be kept with the plan.
    PlanBuild(ProgramParts const& parts, SizeTable const& sizes, PackCache& packs, size_t room_ahead);
    /// Null if a step that was to be done ahead failed.
    std::shared_ptr<runtime::Plan const> build();
};

}  // namespace refactor::kernel
