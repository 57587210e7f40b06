#include "conv_transpose/conv_transpose.h"

#include "cuda/kernels.h"

namespace refactor::kernel {

std::string ConvTransposeInfo::attributes() const {
    return ConvInfo{window, group, epilogue, channels_last, may_round}.attributes();
}

Candidates candidates(ConvTransposeInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        for (int rank = 0; rank < cuda::kLibraryRanks; ++rank)
            result.add("conv_transpose:nvidia:cudnn", cuda::conv_transpose_cudnn(info, request, rank));
        result.add("conv_transpose:nvidia:implicit_product", cuda::conv_transpose_implicit_product(info, request));
        result.add("conv_transpose:nvidia:direct", cuda::conv_transpose_direct(info, request));
        return result;
    }
    if (info.channels_last) {
        result.rejections.push_back({"conv_transpose:cpu: the channels are in front on the CPU"});
        return result;
    }
#define RG_CONV_TRANSPOSE_KERNEL(FACTORY, ID) result.add(ID, FACTORY(info, request));
#include "conv_transpose/conv_transpose_kernels.inc"
#undef RG_CONV_TRANSPOSE_KERNEL
    add_empty_conv(result, "conv_transpose:cpu:empty:bf16", info.window, info.group, info.epilogue,
                   conv_transpose_geometry, request);
    return result;
}

}  // namespace refactor::kernel
