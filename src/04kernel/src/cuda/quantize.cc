#include "quantize/quantize.h"

#include "convert/convert.h"
#include "cuda/instances.h"
#include "cuda/kernels.h"

#include <limits>

namespace refactor::kernel::cuda {

namespace {

/// Elements that one thread takes: a whole number of bytes of any type.
constexpr int64_t kGroup = 8;

char const* family() {
    static auto const* const text = new std::string(std::string(kMinifloatSource) + kQuantizeSource);
    return text->c_str();
}

char const* narrow_text(DataType type) {
    switch (type) {
        case DataType::I4:
            return "rg_i4";
        case DataType::U4:
            return "rg_u4";
        case DataType::I2:
            return "rg_i2";
        case DataType::U2:
            return "rg_u2";
        case DataType::F8E8M0:
            return "rg_e8m0";
        default:
            return minifloat_text(type) ? minifloat_text(type) : element_text(type);
    }
}

/// Where the scale of an element is: the arguments and words of `rg_scale_at`.
struct ScaleWalk {
    char const* granularity = "rg_scale_one";
    bool alike = true;  ///< a group of elements shares its scale
    int64_t inner = 1, size = 1, block = 1, blocks = 1;

    ScaleWalk(Granularity const& g, Dims const& x, int64_t scales) {
        if (g.block == 0 && scales == 1) return;
        auto axis = static_cast<size_t>(g.axis);
        size = x[axis], inner = element_count(std::span<int64_t const>(x).subspan(axis + 1));
        if (g.block == 0) {
            granularity = "rg_scale_axis", alike = inner % kGroup == 0;
        } else {
            granularity = "rg_scale_block", block = g.block, blocks = ceil_div(size, block);
            alike = inner == 1 && block % kGroup == 0 && size % kGroup == 0;
        }
    }
    std::vector<uint64_t> numbers(int64_t count) const {
        std::vector<uint64_t> words;
        for (auto number : {count, inner, size, block, blocks}) words.push_back(static_cast<uint64_t>(number));
        return words;
    }
};

Launches one_launch(BindArgs const& args, ScaleWalk const& walk, Instances const& instances, std::string const& name,
                    std::string const& call) {
    auto count = args.inputs[0]->count();
    Launches launches;
    launches.operations = 2. * static_cast<double>(count);
    bool zeros = args.inputs.size() > 2 && args.inputs[2];
    launches.list.push_back(instances.launch(name, call, ceil_div(count, kGroup * kBlockThreads),
                                             {operand(0), operand(1), zeros ? operand(2) : kNowhere, operand(3)},
                                             walk.numbers(count)));
    return launches;
}

char const* index_text(int64_t count) { return count > std::numeric_limits<int32_t>::max() ? "rg_u64" : "unsigned"; }

/// A type of so many bits.
char const* bits_text(int bits) {
    switch (bits) {
        case 2:
            return "rg_u2";
        case 4:
            return "rg_u4";
        case 8:
            return "unsigned char";
        case 16:
            return "unsigned short";
        case 32:
            return "unsigned";
        default:
            return "rg_u64";
    }
}

Result<Launches, Rejection> bind_quantize(QuantizeInfo const& info, BindArgs const& args, Instances const& instances) {
    auto const &x = *args.inputs[0], &scale = *args.inputs[1], &y = *args.outputs[0];
    ScaleWalk walk(info.granularity, x.dims, scale.count());
    bool zeros = args.inputs.size() > 2 && args.inputs[2];
    auto call = template_text("rg_quantize", narrow_text(x.dtype), narrow_text(scale.dtype), narrow_text(y.dtype),
                              narrow_text(info.precision), walk.granularity, walk.alike, zeros, info.saturate,
                              index_text(x.count()));
    return one_launch(args, walk, instances, "rg_quantize", call);
}

Result<Launches, Rejection> bind_dequantize(DequantizeInfo const& info, BindArgs const& args,
                                            Instances const& instances) {
    auto const &x = *args.inputs[0], &scale = *args.inputs[1], &y = *args.outputs[0];
    ScaleWalk walk(info.granularity, x.dims, scale.count());
    bool zeros = args.inputs.size() > 2 && args.inputs[2];
    auto call = template_text("rg_dequantize", narrow_text(x.dtype), narrow_text(scale.dtype), narrow_text(y.dtype),
                              walk.granularity, walk.alike, zeros, index_text(x.count()));
    return one_launch(args, walk, instances, "rg_dequantize", call);
}

Result<Launches, Rejection> bind_convert(ConvertInfo const& info, BindArgs const& args, Instances const& instances) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    auto count = y.count();
    constexpr char const* kRounding[]{"rg_rounding_up", "rg_rounding_down", "rg_rounding_nearest"};
    auto call = info.reinterpret
                    ? template_text("rg_same_bits", bits_text(bits_of(y.dtype)))
                    : template_text("rg_convert", narrow_text(x.dtype), narrow_text(y.dtype), info.saturate,
                                    kRounding[static_cast<int>(info.rounding)], index_text(count));
    Launches launches;
    launches.in_place = info.reinterpret;
    launches.list.push_back(instances.launch("rg_convert", call, ceil_div(count, kGroup * kBlockThreads),
                                             {operand(0), operand(1)}, {static_cast<uint64_t>(count)}));
    return launches;
}

}  // namespace

MaybeKernel quantize_nvrtc(QuantizeInfo const& info, Request const& request) {
    return make_instances(info, request, "quantize", request.outputs[0].dtype, family(), make_quantize_reference,
                          bind_quantize);
}

MaybeKernel dequantize_nvrtc(DequantizeInfo const& info, Request const& request) {
    return make_instances(info, request, "dequantize", request.inputs[0].dtype, family(), make_dequantize_reference,
                          bind_dequantize);
}

MaybeKernel convert_nvrtc(ConvertInfo const& info, Request const& request) {
    static auto const* const conversions = new std::string(std::string(family()) + kConvertSource);
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list)
            if (bits_of(operand.dtype) > 64)
                return Err{Rejection{"elements of " + std::to_string(bits_of(operand.dtype)) + " bits, at most 64"}};
    return make_instances(info, request, "convert", request.outputs[0].dtype, conversions->c_str(), make_convert_blocks,
                          bind_convert);
}

}  // namespace refactor::kernel::cuda
