#pragma once
#include "conv/direct_plan.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {

/// One axis of one phase of a transposed convolution with stride s: the outputs o with (o + pad) mod s = r. They are a
/// convolution with stride 1 over the input: with o + pad = s u + r, tap k (dilation d) reads input u - (k d - r) / s,
/// if that is integral.
struct AxisPhase {
    int64_t first_u = 0, count = 0;        ///< u of the first output, and number of outputs
    int64_t first_output = 0;              ///< o of the first output
    SmallVector<int64_t, 8> taps, shifts;  ///< kernel indices that take part, and how far before u they read

    AxisPhase(Geometry const&, int axis, int64_t r);
};

/// The phases of all axes with the layout of their weights, one after the other.
struct PhasePlan {
    struct Phase {
        AxisPhase planes, rows, cols;
        ChunkList list;
        int64_t weights;                 ///< offset in floats
        std::vector<int64_t> tap_index;  ///< of its taps in the kernel

        /// Of its weights in parts, see `PanelsInParts`.
        int64_t steps_in_parts() const { return (list.in_units() + 1) / 2 * static_cast<int64_t>(tap_index.size()); }
    };
    std::vector<Phase> phases;
    int64_t floats = 0;

    PhasePlan(Geometry const&, TileIsa const&);
    void pack(Geometry const&, float const* w, float* packed) const;
};

/// Transposed convolution on blocked layouts: each phase runs on the register tile of direct
/// convolution and stores with the stride, so that there is no intermediate to add up. The plan is over lanes. Weights
/// in parts are made of those of the next phase or chunk while the ones before are multiplied.
class PhasesTask final : public runtime::Task {
public:
    PhasesTask(Geometry const&, Epilogue const&, TileIsa const&, RoundedTensors, int threads,
               std::shared_ptr<mem_manager::Blob const> packed, PhasePlan plan);
    void run(void* const* arguments, runtime::RunContext const&) const override;
    size_t workspace_bytes() const override;
    size_t scratch_bytes() const override;
    uint64_t unread_inputs() const override { return packed_ ? 2 : 0; }
    double operations() const override { return operations_; }

private:
    struct Pointers {
        float const *x, *w, *bias, *residual;
        float* y;
    };
    void run_task(int64_t task, float* copy, Pointers const&) const;
    /// Rows [u, u_end) of plane z of a phase; `split`: a share of its chunks.
    struct Share {
        int64_t image, z, u, u_end, split;
    };
    /// A chunk of a phase.
    struct Place {
        size_t phase;
        int64_t chunk;
    };
    /// Chunks of the share that have outputs.
    std::vector<Place> places_of(int64_t split) const;
    /// Of no rows, if a phase has none in the share.
    RowJob job_of(Place, float const* origin, Share const&, Pointers const&) const;
    bool in_parts() const { return isa_->parts > 1; }
    int64_t band_units() const;
    int64_t panels_at() const;  ///< where panels lie in scratch memory, in floats
    int64_t band_rows_in() const { return band_rows_ + reach_[1]; }

    Geometry g_;
    Epilogue epilogue_;
    ConvOperands operands_;
    TileIsa const* isa_;
    RoundedTensors rounded_;
    PhasePlan plan_;
    int threads_;
    int64_t x_units_;  ///< blocks of X, whose channels may be two in a lane of the copy
    double operations_;
    std::shared_ptr<mem_manager::Blob const> packed_;
    bool copies_;
    int64_t first_u_[3], end_u_[3];  ///< over all phases
    int64_t reach_[3] = {0, 0, 0};   ///< from the first input that a position reads to the last
    int64_t pitch_, band_rows_, bands_, splits_ = 1;
    int64_t unit_planes_, unit_rows_;         ///< of the input, or of its copy
    std::vector<std::vector<int64_t>> taps_;  ///< of each phase
    std::vector<std::vector<Place>> places_;  ///< of each split
    int64_t panel_steps_ = 0;                 ///< of weights in parts
};

}  // namespace refactor::kernel
