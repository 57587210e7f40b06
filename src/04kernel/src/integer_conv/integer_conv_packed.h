#pragma once
#include "integer_conv/depthwise_windows.h"
#include "integer_conv/staged_image.h"
#include "mem_manager/blob.h"

#include <optional>

namespace refactor::kernel {

/// Whether X is read with the channels of several groups together, as it lies: `channels` of a group fill dwords.
inline bool keeps_groups_together(IntegerFunctions const& f, int64_t groups, int64_t channels, bool channels_last) {
    return groups > 1 && channels_last && channels % f.group == 0;
}

/// The window of a convolution as rows of A: `runs` runs of `run` elements of X that are next to each other.
struct WindowRuns {
    int64_t taps, channels, run, runs;

    /// `adjacent`: the window's columns are next to each other, `width` of them.
    WindowRuns(int64_t all_taps, int64_t width, bool adjacent, int64_t channels_of_group);
    int64_t depth(IntegerFunctions const& f) const { return (run + f.group - 1) / f.group; }  ///< dwords of a run
    /// Of the elements of runs among the weights [channels][taps] of an output channel, as `pack_columns` wants them.
    std::vector<int64_t> offsets(IntegerFunctions const& f) const;
};

/// What `IntegerFunctions::terms` makes of the columns of a group: four arrays in a row.
struct ColumnTerms {
    int32_t *add, *zero, *sum;
    float* scale;

    ColumnTerms(int32_t* first, int64_t columns)
        : add(first),
          zero(first + columns),
          sum(first + 2 * columns),
          scale(reinterpret_cast<float*>(first + 3 * columns)) {}
    static int64_t bytes(int64_t columns) { return 4 * 4 * columns; }
};

/// What convolutions of an instruction set share: types, sizes, and W in the form that the loops want.
struct IntegerConvPlan {
    /// See `IntegerFunctions::few_columns`; groups that are blocks of channels are multiplied as one.
    enum class Narrow : uint8_t { No, Block, Groups } narrow;
    int64_t joined;      ///< groups that tiles multiply as one, with zeros where a channel is not of a column's group
    IntegerConvShape s;  ///< with so many fewer groups
    bool depthwise;      ///< one channel in, one out, for each group
    bool together;       ///< X is staged with the channels of all groups next to each other
    WindowRuns window;
    IntegerFunctions const& f;
    IntegerResult result;
    StagedImage image;
    int64_t run_depth;                       ///< dwords of a run
    int64_t tile_dwords;                     ///< as in `IntegerBlock`
    PackedSize size;                         ///< of one group
    std::optional<DepthwiseWindows> strips;  ///< of a depthwise convolution that can be computed so

    /// What is known of W: the most spills of any group, and whether its elements, as they are multiplied, have zero
    /// points that are 0.
    struct Weights {
        int64_t spills = 0;
        bool centred = false;
    };
    IntegerConvPlan(IntegerFunctions const& functions, IntegerConvInfo const& info, IntegerConvShape const& shape,
                    Weights weights);

    int64_t groups() const {
        return depthwise || narrow == Narrow::Groups ? 1 : s.group;
    }  ///< that are multiplied one by one
    int64_t columns() const { return s.out_channels / groups(); }  ///< of each
    /// Bytes from staged X to what group `group` reads of it.
    int64_t group_offset(int64_t group) const {
        return group * (image.groups > 1 ? image.group_bytes() : s.group_in() * image.element);
    }
    double operations() const { return s.operations() / static_cast<double>(joined); }
    /// Bytes of W when packed, for all groups.
    size_t packed_bytes() const;
    /// W for `strips`; null if it is not bytes. `packed` is what `pack` filled.
    int8_t const* strip_weights(void const* packed) const;
    /// Text that tells packings of one W apart.
    std::string format() const;
    /// Packs group `group` of W (depthwise: all of it, with its zero points, which may be null).
    void pack(void const* w, void const* w_zero, int64_t group, void* target) const;
    /// `weights`: of the group, packed.
    void fill_terms(void* const* arguments, int32_t const* weights, int64_t group, ColumnTerms const&) const;
    /// Number that a zero point of X has among staged elements.
    int32_t x_zero(void const* zero) const;

private:
    IntegerFunctions const& functions_of(IntegerFunctions const& all) const;
    bool may_stay() const;
};

/// The task for a plan; `packed` may be null. `shifted`: there is an input `shift`.
std::unique_ptr<runtime::Task> make_integer_conv_task(IntegerConvPlan const& plan,
                                                      std::shared_ptr<mem_manager::Blob const> packed, bool shifted,
                                                      int threads);

/// The same for a depthwise convolution to bytes by `plan.strips`; `weights`: its `strip_weights`.
std::unique_ptr<runtime::Task> make_depthwise_strips_task(IntegerConvPlan const& plan,
                                                          std::shared_ptr<mem_manager::Blob const> packed,
                                                          int8_t const* weights, int threads);

}  // namespace refactor::kernel
