#include "quantize/quantize.h"

#include "cuda/kernels.h"

namespace refactor::kernel {

namespace {

std::string text_of(Granularity const& g) {
    return "axis=" + std::to_string(g.axis) + (g.block ? ",block=" + std::to_string(g.block) : "");
}

std::string text_of(std::span<int64_t const> dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + "]";
}

}  // namespace

std::string ScaleIndex::init(Granularity const& g, Dims const& x, Dims const& scale) {
    auto complain = [&] { return "a scale " + text_of(scale) + " for x " + text_of(x) + ", " + text_of(g); };
    if (g.block == 0 && element_count(scale) == 1) return {};
    if (g.axis < 0 || g.axis >= static_cast<int64_t>(x.size())) return complain();
    auto axis = static_cast<size_t>(g.axis);
    size_ = x[axis];
    for (auto i = axis + 1; i < x.size(); ++i) inner_ *= x[i];
    if (g.block == 0) {
        kind_ = Kind::Axis;
        return scale.size() == 1 && scale[0] == size_ ? std::string() : complain();
    }
    kind_ = Kind::Block, block_ = g.block, groups_ = (size_ + block_ - 1) / block_;
    auto expected = x;
    expected[axis] = groups_;
    return scale == expected ? std::string() : complain();
}

std::string QuantizeInfo::attributes() const {
    return text_of(granularity) + "," + std::string(name_of(precision)) + (saturate ? ",saturate" : "");
}
std::string DequantizeInfo::attributes() const { return text_of(granularity); }

Candidates candidates(QuantizeInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("quantize:nvidia:nvrtc", cuda::quantize_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "quantize/quantize_kernels.inc"
#undef RG_KERNEL
    return answer;
}

Candidates candidates(DequantizeInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("dequantize:nvidia:nvrtc", cuda::dequantize_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "quantize/dequantize_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
