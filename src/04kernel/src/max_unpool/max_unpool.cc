#include "max_unpool/max_unpool.h"

#include "common/error.h"
#include "cuda/kernels.h"
#include "movement/indices.h"

namespace refactor::kernel {

using movement::make_task;
using movement::TaskResult;

Candidates candidates(MaxUnpoolInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("max_unpool:nvidia:nvrtc", cuda::max_unpool_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "max_unpool/max_unpool_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

TaskResult bind_reference(MaxUnpoolInfo const&, BindArgs const& args, Isa) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    Dims sizes(args.params.begin(), args.params.end());
    bool fits = args.inputs[1]->dims == x.dims && sizes.size() == y.dims.size();
    for (size_t i = 0; fits && i < sizes.size(); ++i) fits = sizes[i] >= 0 && sizes[i] <= y.dims[i];
    if (!fits)
        return Err{Rejection{"input " + movement::to_string(x.dims) + ", indices " +
                             movement::to_string(args.inputs[1]->dims) + " of a tensor " + movement::to_string(sizes) +
                             ", output " + movement::to_string(y.dims)}};
    return make_task([sizes, out = y.dims, strides = movement::strides_of(y.dims), count = x.count(), total = y.count(),
                      bytes = movement::element_bytes(x.dtype)](void* const* a, runtime::RunContext const&) {
        auto* from = static_cast<std::byte const*>(a[0]);
        auto* indices = static_cast<int64_t const*>(a[1]);
        auto* to = static_cast<std::byte*>(a[2]);
        std::memset(to, 0, static_cast<size_t>(total * bytes));
        auto limit = element_count(sizes);
        bool same = sizes == out;
        // In order, so that of equal positions the last one wins.
        movement::with_word(bytes, [&](auto word) {
            for (int64_t i = 0; i < count; ++i) {
                auto at = indices[i];
                if (at < 0 || at >= limit)
                    throw InvalidInput("MaxUnpool: index " + std::to_string(at) + " (at position " + std::to_string(i) +
                                       ") is outside of " + std::to_string(limit) + " elements");
                if (!same) {
                    auto rest = at;
                    at = 0;
                    for (auto k = sizes.size(); k-- > 0; rest /= sizes[k]) at += rest % sizes[k] * strides[k];
                }
                movement::store(to + at * bytes, movement::load<decltype(word)>(from + i * bytes));
            }
        });
    });
}

}  // namespace

movement::KernelResult max_unpool_reference(MaxUnpoolInfo const& info, Request const& request) {
    if (auto no = movement::refuse(request, {.min_inputs = 2, .max_inputs = 2})) return Err{*no};
    if (request.inputs[1].dtype != DataType::I64)
        return Err{Rejection{"indices of " + std::string(name_of(request.inputs[1].dtype)) + ", expected i64"}};
    return movement::make_kernel(info, "max_unpool", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
