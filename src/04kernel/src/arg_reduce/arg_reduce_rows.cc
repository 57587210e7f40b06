#include "arg_reduce/arg_columns.h"
#include "arg_reduce/arg_reduce.h"
#include "arg_reduce/position.h"
#include "common/thread_pool.h"
#include "reduce/rows_choice.h"

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 0.3;
#if RG_X86
/// Longest rows that are turned, half a nanosecond an element: a row by itself takes 20 ns, for a branch or two that
/// are not foreseen.
constexpr int64_t kLongestTurned = 36;
#endif

/// Finds the extreme value of a row, then its position.
template <class T>
class ArgReduceRows final : public runtime::Task {
    RowFunctionsOf<T> const& functions_;
    ArgReduceInfo info_;
    AxisSplit split_;
    int64_t chunks_;

    int64_t search(T const* x) const {
        auto best = functions_.partial(info_.min ? RowOp::Min : RowOp::Max, x, split_.size, 0);
        auto last = info_.select_last_index;
        if (best != best) return position_of(x, split_.size, last, [](T value) { return value != value; });
        return position_of(x, split_.size, last, [best](T value) { return value == best; });
    }

#if RG_X86
    /// Rows of a few elements: 32 at a time are turned, so that a row becomes a lane.
    void search_short(float const* x, int64_t* y, int64_t rows) const {
        constexpr int64_t kRows = 32;
        float turned[kLongestTurned * kRows];
        for (int64_t first = 0; first < rows; first += kRows) {
            auto count = std::min(kRows, rows - first);
            auto const* from = x + first * split_.size;
            for (int64_t k = 0; k < split_.size; ++k)
                for (int64_t r = 0; r < count; ++r) turned[k * kRows + r] = from[r * split_.size + k];
            arg_columns_avx2({turned, y + first, split_.size, kRows, count, info_.min, info_.select_last_index});
        }
    }
#endif

public:
    static std::string why_not(ArgReduceInfo const& info, BindArgs const& args) {
        AxisSplit split(args.inputs[0]->dims, info.axis);
        if (split.inner != 1) return "the axis is not contiguous";
        return split.size == 0 ? "axis " + std::to_string(info.axis) + " is empty" : "";
    }
    ArgReduceRows(RowFunctionsOf<T> const& functions, ArgReduceInfo const& info, BindArgs const& args)
        : functions_(functions),
          info_(info),
          split_(args.inputs[0]->dims, info.axis),
          chunks_(chunks_of(split_.outer, static_cast<double>(split_.size) * kNsPerElement, args.threads)) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<T const*>(arguments[0]);
        auto* y = static_cast<int64_t*>(arguments[1]);
        context.pool.parallel_for(chunks_, [&](int64_t c, int) {
            auto begin = split_.outer * c / chunks_, end = split_.outer * (c + 1) / chunks_;
#if RG_X86
            if constexpr (sizeof(T) == sizeof(float))
                if (split_.size <= kLongestTurned) return search_short(x + begin * split_.size, y + begin, end - begin);
#endif
            for (auto i = begin; i < end; ++i) y[i] = search(x + i * split_.size);
        });
    }
};

}  // namespace

MaybeKernel make_arg_reduce_rows(ArgReduceInfo const& info, Request const& request) {
    // Sizes of 1 are known already; whether the axis is contiguous is asked again when it is bound.
    auto const& dims = request.inputs[0].dims;
    for (auto i = static_cast<size_t>(info.axis) + 1; i < dims.size(); ++i)
        if (dims[i] != 1) return reject("axis " + std::to_string(info.axis) + " is not the last");
    return make_row_kernel<ArgReduceInfo, ArgReduceRows>("arg_reduce", info, request, kNsPerElement);
}

}  // namespace refactor::kernel
