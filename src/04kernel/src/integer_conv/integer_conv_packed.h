#pragma once
#include "integer_conv/staged_image.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {

/// The window of a convolution as rows of A: `runs` runs of `run` elements of X that are next to each other.
struct WindowRuns {
    int64_t taps, channels, run, runs;

    /// `width`, `dilation`: of the window's last axis.
    WindowRuns(int64_t all_taps, int64_t width, int64_t dilation, int64_t channels_of_group);
    int64_t depth(IntegerFunctions const& f) const { return (run + f.group - 1) / f.group; }  ///< dwords of a run
    /// Of the elements of runs among the weights [channels][taps] of an output channel, as `pack_columns` wants them.
    std::vector<int64_t> offsets(IntegerFunctions const& f) const;
};

/// What convolutions of an instruction set share: types, sizes, and W in the form that the loops want.
struct IntegerConvPlan {
    IntegerFunctions const& f;
    IntegerConvShape s;
    IntegerResult result;
    bool depthwise;  ///< one channel in, one out, for each group
    StagedImage image;
    WindowRuns window;
    int64_t run_depth;  ///< dwords of a run
    PackedSize size;    ///< of one group
    int64_t quads;      ///< of a depthwise window, if its positions are computed in pairs, see `DepthwiseBlock`; or 0

    /// `spills`: the most of any group of W.
    IntegerConvPlan(IntegerFunctions const& functions, IntegerConvInfo const& info, IntegerConvShape const& shape,
                    int64_t spills);

    /// Bytes of W when packed, for all groups.
    size_t packed_bytes() const;
    /// W of a depthwise convolution once more, as bytes; null if they do not fit. `packed` is what `pack` filled.
    int8_t const* depthwise_bytes(void const* packed) const;
    /// Dwords of `depthwise_bytes` for each channel.
    int64_t depthwise_groups() const;
    /// Text that tells packings of one W apart.
    std::string format() const;
    /// Packs group `group` of W (depthwise: all of it, with its zero points, which may be null).
    void pack(void const* w, void const* w_zero, int64_t group, void* target) const;

private:
    void pack_depthwise_bytes(int32_t const* words, void* target) const;

public:
    /// Number that a zero point of X has among staged elements.
    int32_t x_zero(void const* zero) const;
};

/// The task for a plan; `packed` may be null. `shifted`: there is an input `shift`.
std::unique_ptr<runtime::Task> make_integer_conv_task(IntegerConvPlan const& plan,
                                                      std::shared_ptr<mem_manager::Blob const> packed, bool shifted,
                                                      int threads);

}  // namespace refactor::kernel
