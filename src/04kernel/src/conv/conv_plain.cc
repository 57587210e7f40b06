#include "conv/conv_reordered.h"

namespace refactor::kernel {

namespace {

/// All kernels but the reordering ones and the reference.
std::vector<std::unique_ptr<Kernel>> blocked_kernels(void const* info, Request const& request) {
    Candidates found;
#define RG_CONV_KERNEL(FACTORY, ID)                                       \
    if (std::string_view(ID).find("reorder") == std::string_view::npos && \
        std::string_view(ID).find("reference") == std::string_view::npos) \
        found.add(ID, FACTORY(*static_cast<ConvInfo const*>(info), request));
#include "conv/conv_kernels.inc"
#undef RG_CONV_KERNEL
    return std::move(found.kernels);
}

}  // namespace

KernelResult conv_reordered_avx512(ConvInfo const& info, Request const& request) {
    return reordered("conv:cpu:reordered:f32:avx512", info.epilogue, request, Isa::Avx512, blocked_kernels, &info);
}
KernelResult conv_reordered_avx2(ConvInfo const& info, Request const& request) {
    return reordered("conv:cpu:reordered:f32:avx2", info.epilogue, request, Isa::Avx2, blocked_kernels, &info);
}

}  // namespace refactor::kernel
