#include "arg_reduce/arg_integers.h"
#include "arg_reduce/arg_reduce.h"
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
    int64_t tiles_, chunks_, element_bytes_;
    ArgIntegersFunction function_;

public:
    ArgReduceIntegers(ArgReduceInfo const& info, BindArgs const& args)
        : split_(args.inputs[0]->dims, info.axis),
          tiles_((split_.inner + kArgColumns - 1) / kArgColumns),
          element_bytes_(bits_of(args.inputs[0]->dtype) / 8),
          function_(arg_integers_avx2(args.inputs[0]->dtype, info.min, info.select_last_index, split_.inner == 1)) {
        auto ns = static_cast<double>(split_.size * std::min(split_.inner, kArgColumns)) * kNsPerElement;
        chunks_ = chunks_of(split_.outer * tiles_, ns, args.threads);
    }
    static MaybeTask make(ArgReduceInfo const& info, BindArgs const& args) {
        if (args.inputs[0]->dims[info.axis] == 0) return reject("axis " + std::to_string(info.axis) + " is empty");
        return std::unique_ptr<runtime::Task>(new ArgReduceIntegers(info, args));
    }
    static Result<double, Rejection> cost(ArgReduceInfo const&, BindArgs const& args) {
        return 20 + static_cast<double>(args.inputs[0]->count()) * kNsPerElement / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto [outer, size, inner] = split_;
        auto const* x = static_cast<std::byte const*>(arguments[0]);
        auto* y = static_cast<int64_t*>(arguments[1]);
        auto items = outer * tiles_;
        context.pool.parallel_for(chunks_, [&](int64_t c, int) {
            for (auto i = items * c / chunks_; i < items * (c + 1) / chunks_; ++i) {
                auto o = i / tiles_, column = i % tiles_ * kArgColumns;
                function_({x + (o * size * inner + column) * element_bytes_, y + o * inner + column, size, inner,
                           std::min(kArgColumns, inner - column)});
            }
        });
    }
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
