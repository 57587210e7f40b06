#include "cuda/converting.h"
#include "cuda/instances.h"
#include "kernel/ops/movement.h"

namespace refactor::kernel {

namespace cuda {

namespace {

/// Neighbouring threads have neighbouring positions, so that they read each plane in one piece.
char const* const kFamily = R"cuda(
// Words: x, y; positions of all images and of one.
template <class X, class Y, int kChannels, int kVector> RG_FN void rg_channel_vectors(rg_u64 const* w) {
    const unsigned plane = (unsigned)w[3];
    RG_FOR(unsigned, i, (unsigned)w[2]) {
        X const* x = (X const*)w[0] + (rg_u64)(i / plane) * kChannels * plane + i % plane;
        rg_vec<Y, kVector> y;
#pragma unroll
        for (int c = 0; c < kVector; ++c) {
            if (c < kChannels) y.v[c] = rg_narrow<Y>(rg_widen(x[(rg_u64)c * plane]));
            else y.v[c] = rg_narrow<Y>(0.f);
        }
        ((rg_vec<Y, kVector>*)w[1])[i] = y;
    }
}
)cuda";

Result<Launches, Rejection> bind(ChannelVectorsInfo const&, BindArgs const& args, Instances const& code) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    auto vector = 128 / static_cast<int64_t>(bits_of(y.dtype));
    auto expected = Dims{x.dims[0]};
    for (size_t axis = 2; axis < x.dims.size(); ++axis) expected.push_back(x.dims[axis]);
    expected.push_back(vector);
    if (y.dims != expected || x.dims[1] > vector)
        return Err{Rejection{std::to_string(x.dims[1]) + " channels, expected " + std::to_string(vector) +
                             " at most, behind the positions of X"}};
    auto positions = y.count() / vector;
    if (positions >= int64_t(1) << 31) return Err{Rejection{std::to_string(positions) + " positions, at most 2^31"}};
    if (positions == 0) return Launches{};
    auto call = template_text("rg_channel_vectors", element_text(x.dtype), element_text(y.dtype), x.dims[1], vector);
    auto blocks = blocks_for(positions, 256);
    auto numbers =
        std::vector<uint64_t>{static_cast<uint64_t>(positions), static_cast<uint64_t>(positions / x.dims[0])};
    return Launches{{code.launch("rg_channel_vectors", call, blocks, {operand(0), operand(1)}, numbers)}};
}

Result<std::unique_ptr<Kernel>, Rejection> channel_vectors_nvrtc(ChannelVectorsInfo const& info,
                                                                 Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    if (auto refused = refuse_converting(request)) return Err{*refused};
    if (request.inputs.size() != 1 || request.outputs.size() != 1 || request.inputs[0].dims.size() < 3)
        return Err{Rejection{"expects images with channels"}};
    auto id = id_of("channel_vectors", "nvrtc", request.outputs[0].dtype);
    return std::unique_ptr<Kernel>(
        std::make_unique<LaunchKernel<ChannelVectorsInfo, Instances>>(info, id, nullptr, bind, *library, kFamily));
}

}  // namespace

}  // namespace cuda

Candidates candidates(ChannelVectorsInfo const& info, Request const& request) {
    Candidates result;
    if (request.device == "cpu")
        result.rejections.push_back({"channel_vectors:cpu: only a GPU reads images so"});
    else
        result.add("channel_vectors:nvidia:nvrtc", cuda::channel_vectors_nvrtc(info, request));
    return result;
}

}  // namespace refactor::kernel
