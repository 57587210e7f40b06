#include "pool/pool.h"

#include "cuda/kernels.h"

#include <algorithm>

namespace refactor::kernel {

std::string PoolInfo::attributes() const {
    constexpr char const* kNames[]{"max", "average", "sum"};
    auto text = kNames[static_cast<int>(kind)] + (" kernel=" + dims_text(kernel)) + " " + to_string(window);
    if (count_include_pad) text += " count_include_pad";
    if (column_major) text += " column_major";
    return text;
}

std::string pool_mismatch(PoolInfo const& info, Request const& request) {
    if (request.device != "cpu") return "runs on the CPU, not on " + std::string(request.device);
    if (request.inputs.size() != 1 || request.outputs.empty() || request.outputs.size() > 2)
        return "expects 1 input and 1 or 2 outputs, got " + std::to_string(request.inputs.size()) + " and " +
               std::to_string(request.outputs.size());
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (x.dims.size() < 3 || x.dims.size() > 5)
        return "handles 1 to 3 spatial axes, X has " + std::to_string(static_cast<int64_t>(x.dims.size()) - 2);
    if (y.dtype != x.dtype)
        return "expects Y to be " + std::string(name_of(x.dtype)) + ", got " + std::string(name_of(y.dtype));
    if (request.outputs.size() == 2 && !request.outputs[1].absent()) {
        if (info.kind != PoolKind::Max) return "only max pooling has indices";
        if (request.outputs[1].dtype != DataType::I64)
            return "expects i64 indices, got " + std::string(name_of(request.outputs[1].dtype));
    }
    return {};
}

Result<Geometry, Rejection> pool_geometry(Window const& window, std::span<int64_t const> kernel, BindArgs const& args) {
    auto g = geometry_of(window, kernel, args);
    if (!g) return g;
    for (int axis = 0; axis < 3; ++axis) {
        auto padded = g->pad[axis] + g->in[axis] + g->pad_end[axis];
        g->kernel[axis] = std::clamp<int64_t>((padded - 1) / g->dilation[axis] + 1, 1, g->kernel[axis]);
    }
    return g;
}

Candidates candidates(PoolInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("pool:nvidia:nvrtc", cuda::pool_nvrtc(info, request));
        return result;
    }
#define RG_POOL_KERNEL(FACTORY, ID) result.add(ID, FACTORY(info, request));
#include "pool/pool_kernels.inc"
#undef RG_POOL_KERNEL
    return result;
}

}  // namespace refactor::kernel
