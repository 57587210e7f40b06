#pragma once
#include "conv/direct_plan.h"
#include "conv/winograd.h"
#include "mem_manager/blob.h"

#include <vector>

namespace refactor::kernel {

/// The chunks of each of the products. Input channels of a group are those of every piece of every plane of the kernel,
/// one after the other and, if it has several, in whole blocks.
ChunkList winograd_chunks(Geometry const&, WinogradForm const&, int block);

/// Neighbouring groups whose blocks of channels hold none of other groups: one group of whole blocks, two of 24
/// channels in blocks of 16. The last part may have fewer.
struct WinogradPart {
    int64_t groups;
    int64_t in_first, in_blocks, out_first, out_blocks;  ///< blocks of channels
    int64_t chunk, chunk_end;                            ///< of the list
    int64_t weights, floats;                             ///< of the list, those of other parts in front of them

    /// Of a chunk, behind those of all products of parts in front.
    int64_t weights_of(WinogradForm const& form, int64_t product, Chunk const& c) const {
        return form.products() * weights + product * floats + c.weights - weights;
    }
};
/// `sources`: planes of the kernel times pieces.
std::vector<WinogradPart> winograd_parts(ChunkList const&, int64_t sources);

/// How the tiles of a convolution are divided into blocks whose transformed inputs and products, of a part of the
/// channels, stay in cache between the three steps.
struct WinogradPlan {
    int64_t tiles, block_tiles, blocks;
    bool shared;  ///< threads share every step of a block; otherwise each thread takes blocks of its own

    WinogradPlan(Geometry const&, WinogradForm const&, ChunkList const&, std::vector<WinogradPart> const&, int threads);
};

/// Winograd on blocked layouts. Groups that are not whole blocks have kernels of one piece of one plane. A kernel with
/// depth, or of several pieces, is one whose input channels are those of all its planes and pieces: the products sum
/// over all.
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
    WinogradJob job(void* const* arguments, WinogradPart const&, int64_t block) const;
    /// One of the products of a part, of the input units of the job.
    void multiply(WinogradPart const&, int64_t product, float const* v, float* m, WinogradJob const&) const;
    void to_outputs(WinogradJob&, WinogradPart const&, float* m) const;
    void share_block(void* const* arguments, WinogradPart const&, int64_t block, runtime::RunContext const&) const;
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
    std::vector<WinogradPart> parts_;
    WinogradPlan plan_;
    int threads_;
    std::shared_ptr<mem_manager::Blob const> packed_;
    int64_t tile_rows_, tile_cols_;
    WinogradWeave weave_;
    int64_t channels_;  ///< of Y
    double operations_;
    std::vector<int64_t> v_, m_;  ///< floats to each product of transformed inputs and of outputs, and to the end
    bool reads_ahead_;            ///< weights follow each other and exceed what L2 keeps of them
    bool far_;                    ///< see `are_far`; of X and Y, not where a stride spreads what tiles read
};

}  // namespace refactor::kernel
