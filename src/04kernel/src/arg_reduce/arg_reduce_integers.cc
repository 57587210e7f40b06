#include "arg_reduce/arg_integers.h"
#include "arg_reduce/arg_reduce.h"
#include "arg_reduce/turned_search.h"
#include "common/thread_pool.h"
#include "reduce/scalar_type.h"

#include <algorithm>

namespace refactor::kernel {

#if RG_X86
namespace {

/// Eight bytes from L3 or memory.
constexpr double kNsPerElement = 0.4;

class ArgReduceIntegers final : public runtime::Task {
    AxisSplit split_;
    int64_t tiles_, items_, chunks_, element_bytes_;
    bool is_turned_;
    TurnedSearch turned_;
    ArgIntegersFunction function_;

    void tile(std::byte const* x, int64_t* y, int64_t item) const {
        auto [_, size, inner] = split_;
        auto o = item / tiles_, column = item % tiles_ * kArgColumns;
        function_({x + (o * size * inner + column) * element_bytes_, y + o * inner + column, size, inner,
                   std::min(kArgColumns, inner - column)});
    }
    void some_sets(std::byte const* x, int64_t* y, int64_t item, std::byte* scratch) const {
        turned_.run(x, y, item, scratch, [&](std::byte const* turned, int64_t* to, int64_t columns) {
            for (int64_t i = 0; i < columns; i += kArgColumns)
                function_(
                    {turned + i * element_bytes_, to + i, split_.size, columns, std::min(kArgColumns, columns - i)});
        });
    }

public:
    ArgReduceIntegers(ArgReduceInfo const& info, BindArgs const& args)
        : split_(args.inputs[0]->dims, info.axis),
          tiles_((split_.inner + kArgColumns - 1) / kArgColumns),
          element_bytes_(bits_of(args.inputs[0]->dtype) / 8),
          is_turned_(TurnedSearch::is_for(split_.outer, split_.size, split_.inner, 32 / element_bytes_)),
          function_(arg_integers_avx2(args.inputs[0]->dtype, info.min, info.select_last_index,
                                      split_.inner == 1 && !is_turned_)) {
        auto [outer, size, inner] = split_;
        if (is_turned_) turned_ = {outer, size, inner, element_bytes_};
        items_ = is_turned_ ? turned_.items() : outer * tiles_;
        auto columns = is_turned_ ? turned_.sets() * inner : std::min(inner, kArgColumns);
        chunks_ = chunks_of(items_, static_cast<double>(size * columns) * kNsPerElement, args.threads);
    }
    static MaybeTask make(ArgReduceInfo const& info, BindArgs const& args) {
        if (args.inputs[0]->dims[info.axis] == 0) return reject("axis " + std::to_string(info.axis) + " is empty");
        return std::unique_ptr<runtime::Task>(new ArgReduceIntegers(info, args));
    }
    static Result<double, Rejection> cost(ArgReduceInfo const&, BindArgs const& args) {
        return 20 + static_cast<double>(args.inputs[0]->count()) * kNsPerElement / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<std::byte const*>(arguments[0]);
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

MaybeKernel make_arg_reduce_integers(ArgReduceInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (!is_integer(dtype) || !is_any_numeric(dtype))
        return reject("x is " + std::string(refactor::name_of(dtype)) + ", expected integers of whole bytes");
#if RG_X86
    if (request.isa >= Isa::Avx2)
        return std::unique_ptr<Kernel>(
            new InfoKernel<ArgReduceInfo, ArgReduceIntegers>(id_of("arg_reduce", "integers", dtype, Isa::Avx2), info));
#endif
    return reject("needs avx2, allowed is " + std::string(name_of(request.isa)));
}

}  // namespace refactor::kernel
