#include "trilu/trilu.h"

#include "cuda/movement_kernels.h"

namespace refactor::kernel {

using namespace movement;

std::string TriluInfo::attributes() const { return upper ? "upper" : "lower"; }

Candidates candidates(TriluInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("trilu:nvidia:nvrtc", cuda::trilu_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "trilu/trilu_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

TaskResult bind_reference(TriluInfo const& info, BindArgs const& args, Isa) {
    auto const& dims = args.inputs[0]->dims;
    if (dims.size() < 2) return Err{Rejection{"input " + to_string(dims) + ", expected at least two axes"}};
    auto rank = dims.size();
    auto rows = dims[rank - 2], columns = dims[rank - 1], matrices = count_of(dims, 0, rank - 2);
    auto k = args.params.empty() ? 0 : args.params[0];
    auto bytes = element_bytes(args.inputs[0]->dtype), output = static_cast<int64_t>(args.inputs.size());
    auto body = [=, upper = info.upper](void* const* a, runtime::RunContext const& c) {
        auto *x = static_cast<char const*>(a[0]), *y0 = static_cast<char const*>(a[output]);
        parallel_bytes(c.pool, matrices * rows, matrices * rows * columns * bytes, [&](int64_t begin, int64_t end) {
            for (auto row = begin; row < end; ++row) {
                // Column of the diagonal: the upper triangle begins there, the lower one ends behind it.
                auto edge =
                    std::clamp<int64_t>(row % rows + std::clamp(k, -rows, columns) + (upper ? 0 : 1), 0, columns);
                auto* y = const_cast<char*>(y0) + row * columns * bytes;
                auto first = upper ? edge : 0, last = upper ? columns : edge;
                if (x != y0)
                    std::memcpy(y + first * bytes, x + (row * columns + first) * bytes, (last - first) * bytes);
                std::memset(y + (upper ? 0 : edge) * bytes, 0, (upper ? edge : columns - edge) * bytes);
            }
        });
    };
    return make_task(body, 1);
}

}  // namespace

KernelResult trilu_reference(TriluInfo const& info, Request const& request) {
    if (auto no = refuse(request)) return Err{*no};
    return make_kernel(info, "trilu", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
