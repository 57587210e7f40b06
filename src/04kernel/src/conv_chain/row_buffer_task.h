#pragma once
#include "conv/depthwise.h"
#include "conv/direct_plan.h"
#include "conv_chain/conv_chain.h"
#include "mem_manager/blob.h"

#include <optional>

namespace refactor::kernel {

/// A convolution of one tap in a chain, its weights packed.
struct Pointwise {
    ChunkList list;
    Activation activation;
    ChainOperands::Stage operands;
    std::shared_ptr<mem_manager::Blob const> weights;
};

/// How much of a chain of convolutions is made at a time.
///
/// The problem: a wide tensor between two convolutions that does not fit the L2 cache is written to and read from
/// further away. A band of rows of it does fit. For each band of rows of the depthwise output, chunk of channels by
/// chunk:
/// - `expand`, if there is one, makes the rows of the chunk that the band reads and that the band before has not made,
///   in a window; the last rows of it are kept for the next band;
/// - the depthwise convolution makes the band's rows from the window (from X without `expand`);
/// - `project`, if there is one, makes the band of Y from all chunks; else the depthwise rows are Y.
///
/// Example: 1×1 (24 → 144), 3×3 of stride 1, 1×1 (144 → 24) on 56² in blocks of 16, one thread, 1 MB of L2: a row of
/// the wide tensors has 32 KB, a chunk of two blocks 7 KB of it. In bands of 14 rows a window takes 112 KB, the kept
/// rows of the five chunks 70 KB, what `project` reads 441 KB, and the rows of X 98 KB.
struct RowBufferPlan {
    int64_t reach, kept;         ///< rows under a window of the depthwise kernel; of them read by the next band
    int64_t chunk_blocks;        ///< blocks of channels in a chunk: 2 where the tile computes two at once
    int64_t band_rows;           ///< rows of the depthwise output in a band
    int64_t parts, chunk_tasks;  ///< a task is an image, a part of its rows and, without `project`, a chunk
    bool by_rows = false;        ///< see `PlaneShares`
    int64_t kept_floats, window_floats, middle_floats;  ///< scratch of a thread
    double work;  ///< times that the rows of `expand` are computed: parts make some twice

    RowBufferPlan(Geometry const& depthwise, Pointwise const* expand, Pointwise const* project, int block, int threads);
    int64_t scratch_floats() const { return kept_floats + window_floats + middle_floats; }
};

/// Depthwise convolution of 1 or 2 axes with a convolution of one tap before it, behind it or both, all operands in
/// blocked layouts.
class RowBufferTask final : public runtime::Task {
public:
    struct Parts {
        std::optional<Pointwise> expand, project;
        Geometry depthwise;
        Activation activation;  ///< of the depthwise stage
        ChainOperands::Stage operands;
        std::shared_ptr<mem_manager::Blob const> weights;
        int residual, output;
        bool residual_last;
    };
    RowBufferTask(Parts, TileIsa const&, DepthwiseIsa const&, int threads);
    void run(void* const* arguments, runtime::RunContext const&) const override;
    size_t scratch_bytes() const override;
    uint64_t unread_inputs() const override;
    double operations() const override;

private:
    struct Band;
    int64_t window_block() const { return plan_.window_floats / plan_.chunk_blocks; }
    float* kept_rows(Band const&, int64_t chunk) const;
    void run_task(int64_t task, void* const* arguments, float* scratch) const;
    void run_chunk(Band const&, int64_t chunk) const;
    void expand(Band const&, int64_t chunk) const;
    void keep(Band const&, int64_t chunk) const;
    void depthwise(Band const&, int64_t block, float const* x, float* y, float const* residual) const;
    void project(Band const&) const;
    void run_tile(Pointwise const&, Chunk const&, void* const* arguments, RowJob&) const;

    Parts p_;
    TileIsa const* tile_;
    DepthwiseIsa const* depthwise_;
    int64_t block_, blocks_;  ///< floats in a block; blocks of the depthwise channels
    RowBufferPlan plan_;
};

}  // namespace refactor::kernel
