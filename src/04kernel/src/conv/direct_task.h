#pragma once
#include "conv/direct_plan.h"
#include "conv/read_taps.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {

/// Where the edges leave out taps that read padding, for which the weights are tap-major.
struct SkippedTaps {
    bool rows = false, columns = false;  ///< rows and planes; columns, and then both
    double share = 1;                    ///< of the time of all products

    bool any() const { return rows || columns; }
};

/// Direct convolution with blocked (or, planar, Plain with few channels) input and blocked output. Threads share tasks
/// (image, band of outputs, chunks); a band's input is copied with its padding, and with strides turned into phases,
/// into scratch memory of the thread that fits its L2 cache, unless it can be read where it is. An instruction set
/// whose lanes hold two channels rounds the band meanwhile, or makes parts of it.
class DirectTask final : public runtime::Task {
public:
    /// `packed` null: weights are packed in every run.
    DirectTask(Geometry const&, Epilogue const&, TileIsa const&, bool planar, RoundedTensors, int threads,
               std::shared_ptr<mem_manager::Blob const> packed);
    void run(void* const* arguments, runtime::RunContext const&) const override;
    size_t workspace_bytes() const override;
    size_t scratch_bytes() const override;
    uint64_t unread_inputs() const override { return packed_ ? 2 : 0; }
    double operations() const override { return operations_; }

    /// Packs the Plain weights of a convolution, both over lanes.
    static void pack(ChunkList const&, Geometry const&, float const* weights, Chunk const&, float* packed);
    static SkippedTaps skipped_taps(Geometry const&, bool planar, TileIsa const&, RoundedTensors);

private:
    struct Pointers {
        float const *x, *w, *bias, *residual;
        float* y;
    };
    /// A rectangle of outputs of one image and depth: of `rows` rows, `row_step_` apart, from `row` on.
    struct Band {
        int64_t image, plane, row, rows, column, columns;
    };
    void plan_input();
    void plan_bands();
    int64_t even_bands(int64_t extent, int64_t most) const;
    SmallVector<int64_t, 8> phases_of(int axis) const;
    int64_t offset_in_planes(int64_t plane, int64_t h, int64_t v) const;
    void plan_parts();
    bool in_parts() const { return isa_->parts > 1; }
    /// Of a band: of blocks of input, of two in parts.
    int64_t band_units() const { return in_parts() ? (list_.in_units() + 1) / 2 * isa_->parts : list_.in_units(); }
    /// Where panels lie behind a band, in floats.
    int64_t panels_at() const;
    /// Floats of input that a band reads.
    int64_t band_floats(int64_t rows, int64_t columns) const;
    int64_t input_rows(int64_t rows) const;
    int64_t bands() const { return g_.batch * planes_ * row_step_ * row_bands_ * column_bands_; }
    Band band_at(int64_t index) const;
    void run_rows(RowJob const&, Band const&, Chunk const&) const;
    /// With the given columns of the rows of a window, one row behind the other where the weights need it.
    void run_taps(RowJob const&, TapRun const&, TapRange const& columns, Chunk const&) const;
    float const* fetch(Band const&, int64_t index, float* scratch, Pointers const&) const;
    void run_task(int64_t task, float* scratch, Pointers const&) const;
    RowJob job_of(Band const&) const;
    /// Some input units of a chunk of a band, from unit `first` on.
    RowJob part_of(RowJob const&, Band const&, float const* x, Chunk const&, int64_t first, Pointers const&) const;

    Geometry g_;
    Epilogue epilogue_;
    ConvOperands operands_;
    TileIsa const* isa_;
    RoundedTensors rounded_;
    ChunkList list_;
    int threads_;
    std::shared_ptr<mem_manager::Blob const> packed_;
    int64_t unit_;     ///< floats of an input unit: a block, or 1 if planar
    int64_t x_units_;  ///< of X, whose channels may be two in a lane of the copy
    double operations_;
    SkippedTaps skipped_;
    SmallVector<ColumnRun, 4> column_runs_;  ///< if columns skip taps
    bool by_window_rows_ = false;            ///< then: weights are multiplied row by row of the window everywhere
    bool far_;                               ///< of Y and the residual: see `are_far`
    bool copies_ = false;                    ///< the input is read through a padded copy
    int64_t phases_ = 1, phase_mask_ = 1,
            reach_ = 0;  ///< of the copy; columns that a window reaches beyond its first, in one phase
    /// Tiles take positions that are evenly apart, of neighbouring rows as well if phases are planes of the copy: of
    /// rows and columns both, and only those that taps read.
    bool phases_are_planes_ = false;
    int64_t row_reach_ = 0;
    SmallVector<int64_t, 8> row_phases_, column_phases_;
    int64_t planes_, rows_, columns_;  ///< of outputs; 1 × 1 × all where positions need no distinction
    /// Rows of outputs that read the same rows of the input through a dilated window are this far apart, and a band has
    /// every such row: the copy then holds no rows between the taps.
    int64_t row_step_ = 1;
    int64_t band_rows_, band_columns_, row_bands_, column_bands_, splits_ = 1;
    int64_t part_units_ = 1;   ///< input units that a chunk adds up at a time
    int64_t x_part_ = 0;       ///< floats between parts of the copy
    int64_t panel_steps_ = 0;  ///< of weights in parts
    std::vector<int64_t> taps_;
};

}  // namespace refactor::kernel
