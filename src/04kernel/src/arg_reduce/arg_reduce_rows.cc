#include "arg_reduce/arg_columns.h"
#include "arg_reduce/arg_reduce.h"
#include "arg_reduce/position.h"
#include "arg_reduce/turned_search.h"
#include "common/thread_pool.h"
#include "reduce/rows_choice.h"

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 0.3;
/// Finds the extreme value of a row, then its position.
template <class T>
class ArgReduceRows final : public runtime::Task {
    RowFunctionsOf<T> const& functions_;
    ArgReduceInfo info_;
    AxisSplit split_;
    bool is_turned_ = false;
    TurnedSearch turned_;
    int64_t chunks_;

    int64_t search(T const* x) const {
        auto best = functions_.partial(info_.min ? RowOp::Min : RowOp::Max, x, split_.size, 0);
        auto last = info_.select_last_index;
        if (best != best) return position_of(x, split_.size, last, [](T value) { return value != value; });
        return position_of(x, split_.size, last, [best](T value) { return value == best; });
    }

#if RG_X86
    void search_turned(float const* x, int64_t* y, int64_t item, std::byte* scratch) const {
        turned_.run(x, y, item, scratch, [&](std::byte const* turned, int64_t* to, int64_t columns) {
            arg_columns_avx2({reinterpret_cast<float const*>(turned), to, split_.size, columns, columns, info_.min,
                              info_.select_last_index});
        });
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
          chunks_(chunks_of(split_.outer, static_cast<double>(split_.size) * kNsPerElement, args.threads)) {
        if (sizeof(T) != sizeof(float) || !TurnedSearch::is_for(split_.outer, split_.size, 1, functions.width)) return;
        is_turned_ = true;
        turned_ = {split_.outer, split_.size, 1, sizeof(T)};
        auto ns = static_cast<double>(turned_.sets() * split_.size) * kNsPerElement;
        chunks_ = chunks_of(turned_.items(), ns, args.threads);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<T const*>(arguments[0]);
        auto* y = static_cast<int64_t*>(arguments[1]);
        auto all = is_turned_ ? turned_.items() : split_.outer;
        context.pool.parallel_for(chunks_, [&](int64_t c, [[maybe_unused]] int worker) {
            auto begin = all * c / chunks_, end = all * (c + 1) / chunks_;
#if RG_X86
            if constexpr (sizeof(T) == sizeof(float))
                if (is_turned_) {
                    for (auto i = begin; i < end; ++i) search_turned(x, y, i, context.scratch_of(worker));
                    return;
                }
#endif
            for (auto i = begin; i < end; ++i) y[i] = search(x + i * split_.size);
        });
    }
    size_t scratch_bytes() const override { return is_turned_ ? turned_.scratch_bytes() : 0; }
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
