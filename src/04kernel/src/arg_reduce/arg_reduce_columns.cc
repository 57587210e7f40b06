#include "arg_reduce/arg_columns.h"
#include "arg_reduce/arg_reduce.h"
#include "arg_reduce/turned_search.h"
#include "common/thread_pool.h"

#include <algorithm>

namespace refactor::kernel {

#if RG_X86
namespace {

/// Four bytes from L3 or memory.
constexpr double kNsPerElement = 0.4;
/// Columns that are searched together: runs of 2 KB, which the prefetchers follow.
constexpr int64_t kTile = 512;
/// Of a vector.
constexpr int64_t kLanes = 8;

/// Keeps the extreme values of neighbouring columns in registers and goes down the rows.
class ArgReduceColumns final : public runtime::Task {
    ArgReduceInfo info_;
    AxisSplit split_;
    bool is_turned_;
    TurnedSearch turned_;
    int64_t tiles_, items_, chunks_;

    void tile(float const* x, int64_t* y, int64_t item) const {
        auto [_, size, inner] = split_;
        auto o = item / tiles_, column = item % tiles_ * kTile;
        arg_columns_avx2({x + o * size * inner + column, y + o * inner + column, size, inner,
                          std::min(kTile, inner - column), info_.min, info_.select_last_index});
    }
    void some_sets(float const* x, int64_t* y, int64_t item, std::byte* scratch) const {
        turned_.run(x, y, item, scratch, [&](std::byte const* turned, int64_t* to, int64_t columns) {
            arg_columns_avx2({reinterpret_cast<float const*>(turned), to, split_.size, columns, columns, info_.min,
                              info_.select_last_index});
        });
    }

public:
    ArgReduceColumns(ArgReduceInfo const& info, BindArgs const& args)
        : info_(info), split_(args.inputs[0]->dims, info.axis), tiles_((split_.inner + kTile - 1) / kTile) {
        auto [outer, size, inner] = split_;
        is_turned_ = TurnedSearch::is_for(outer, size, inner, kLanes);
        if (is_turned_) turned_ = {outer, size, inner, sizeof(float)};
        items_ = is_turned_ ? turned_.items() : outer * tiles_;
        auto columns = is_turned_ ? turned_.sets() * inner : std::min(inner, kTile);
        chunks_ = chunks_of(items_, static_cast<double>(size * columns) * kNsPerElement, args.threads);
    }
    static MaybeTask make(ArgReduceInfo const& info, BindArgs const& args) {
        AxisSplit split(args.inputs[0]->dims, info.axis);
        if (split.inner == 1) return reject("the axis is contiguous");
        if (split.size < 1 || split.size > INT32_MAX)
            return reject("the axis has " + std::to_string(split.size) + " elements, expected 1 to 2147483647");
        return std::unique_ptr<runtime::Task>(new ArgReduceColumns(info, args));
    }
    static Result<double, Rejection> cost(ArgReduceInfo const& info, BindArgs const& args) {
        if (AxisSplit(args.inputs[0]->dims, info.axis).inner == 1) return reject("the axis is contiguous");
        return 20 + static_cast<double>(args.inputs[0]->count()) * kNsPerElement / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<float const*>(arguments[0]);
        auto* y = static_cast<int64_t*>(arguments[1]);
        context.pool.parallel_for(chunks_, [&](int64_t c, int worker) {
            for (auto i = items_ * c / chunks_; i < items_ * (c + 1) / chunks_; ++i)
                if (is_turned_)
                    some_sets(x, y, i, context.scratch_of(worker));
                else
                    tile(x, y, i);
        });
    }
    size_t scratch_bytes() const override { return is_turned_ ? turned_.scratch_bytes() : 0; }
};

}  // namespace
#endif

MaybeKernel make_arg_reduce_columns(ArgReduceInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (dtype != DataType::F32) return reject("x is " + std::string(refactor::name_of(dtype)) + ", expected f32");
    auto const& dims = request.inputs[0].dims;
    // Sizes that are not known yet are asked for again when it is bound.
    if (std::all_of(dims.begin() + info.axis + 1, dims.end(), [](auto size) { return size == 1; }))
        return reject("axis " + std::to_string(info.axis) + " is the last");
#if RG_X86
    if (request.isa >= Isa::Avx2)
        return std::unique_ptr<Kernel>(
            new InfoKernel<ArgReduceInfo, ArgReduceColumns>(id_of("arg_reduce", "columns", dtype, Isa::Avx2), info));
#endif
    return reject("needs avx2, allowed is " + std::string(name_of(request.isa)));
}

}  // namespace refactor::kernel
