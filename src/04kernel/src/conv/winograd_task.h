#pragma once
#include "conv/direct_plan.h"
#include "conv/winograd.h"
#include "mem_manager/blob.h"

#include <vector>

namespace refactor::kernel {

/// How the tiles of a convolution, of one of its groups, are divided into blocks whose transformed inputs and products
/// stay in cache between the three steps.
struct WinogradPlan {
    int64_t tiles, block_tiles, blocks;
    bool shared;  ///< threads share every step of a block; otherwise each thread takes blocks of its own

    WinogradPlan(Geometry const&, WinogradForm const&, int threads);
};

/// The chunks of each of the products. Input channels are those of every piece of every plane of the kernel, one after
/// the other and, if it has several, in whole blocks.
ChunkList winograd_chunks(Geometry const&, WinogradForm const&, int block);

/// Winograd on blocked layouts. The channels of the geometry are those of one of its groups, whole blocks if there are
/// several; the weights of a group are all of its products. A kernel with depth, or of several pieces, is one whose
/// input channels are those of all its planes and pieces: the products sum over all.
class WinogradTask final : public runtime::Task {
public:
    WinogradTask(Geometry const&, WinogradForm const&, Epilogue const&, TileIsa const&, WinogradIsa const&, int threads,
                 std::shared_ptr<mem_manager::Blob const> packed);
    /// The convolution of all phases of a transposed one of one group, whose channels are phases of `channels` of Y in
    /// whole blocks. No planes.
    WinogradTask(Geometry const&, WinogradForm const&, Epilogue const&, TileIsa const&, WinogradIsa const&, int threads,
                 std::shared_ptr<mem_manager::Blob const> packed, WinogradWeave const&, int64_t channels,
                 double operations);
    void run(void* const* arguments, runtime::RunContext const&) const override;
    size_t workspace_bytes() const override;
    size_t scratch_bytes() const override;
    uint64_t unread_inputs() const override { return 2; }
    double operations() const override { return operations_; }

private:
    WinogradJob job(void* const* arguments, int64_t group, int64_t block) const;
    /// One of the products of one chunk, of the input units of the job.
    void multiply(int64_t group, int64_t product, Chunk const&, float const* v, float* m, WinogradJob const&) const;
    void to_outputs(WinogradJob&, float* m) const;
    void share_block(void* const* arguments, int64_t group, int64_t block, runtime::RunContext const&) const;
    void run_private(void* const* arguments, runtime::RunContext const&) const;
    void run_shared(void* const* arguments, runtime::RunContext const&) const;
    /// Pieces of all planes of the kernel.
    int64_t sources() const { return g_.kernel[0] * form_.pieces(); }
    int64_t scratch_floats() const { return v_[form_.products()] + m_[form_.products()]; }

    Geometry g_;
    WinogradForm form_;
    Epilogue epilogue_;
    ConvOperands operands_;
    TileIsa const* tile_;
    WinogradIsa const* isa_;
    ChunkList list_;
    WinogradPlan plan_;
    int threads_;
    std::shared_ptr<mem_manager::Blob const> packed_;
    int64_t in_blocks_, out_blocks_, tile_rows_, tile_cols_;
    WinogradWeave weave_;
    int64_t channels_;  ///< of Y, of a group
    double operations_;
    std::vector<int64_t> v_, m_;  ///< floats to each product of transformed inputs and of outputs, and to the end
    bool reads_ahead_;            ///< weights follow each other and exceed what L2 keeps of them
    bool far_;                    ///< see `are_far`; of X and Y, not where a stride spreads what tiles read
};

}  // namespace refactor::kernel
