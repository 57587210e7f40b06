#include "resize/resize.h"

#include "cuda/movement_kernels.h"
#include "reduce/scalar_type.h"
#include "resize/axis_taps.h"

namespace refactor::kernel {

using namespace movement;

std::string ResizeInfo::attributes() const {
    auto list = [](std::vector<float> const& values) {
        std::string text = "(";
        for (auto v : values) text += std::to_string(v) + ",";
        return text + ")";
    };
    return "mode=" + std::to_string(static_cast<int>(mode)) +
           ",coordinates=" + std::to_string(static_cast<int>(coordinates)) +
           ",rounding=" + std::to_string(static_cast<int>(rounding)) + ",a=" + std::to_string(cubic_a) +
           ",extrapolation=" + std::to_string(extrapolation) + ",exclude_outside=" + std::to_string(exclude_outside) +
           ",antialias=" + std::to_string(antialias) + ",scales=" + list(scales) + ",roi=" + list(roi);
}

Candidates candidates(ResizeInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("resize:nvidia:nvrtc", cuda::resize_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "resize/resize_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

/// A number as double.
double load_real(DataType type, std::byte const* p) {
    double value = 0;
    visit_numeric(type, [&](auto tag) { value = static_cast<double>(widen(load<typename decltype(tag)::type>(p))); });
    return value;
}
void store_real(DataType type, std::byte* p, double x) {
    visit_numeric(type, [&](auto tag) { store(p, from_real<typename decltype(tag)::type>(x)); });
}

/// Sums over the taps of all axes, for one output element.
struct Interpolation {
    std::vector<AxisTaps> axes;
    Dims strides;  ///< of the input in elements
    DataType type;
    int64_t bytes;

    double value(std::byte const* x, Dims const& at, size_t axis) const {
        if (axis == axes.size()) return load_real(type, x);
        auto const& a = axes[axis];
        double sum = 0;
        for (int64_t k = 0; k < a.taps; ++k) {
            auto weight = a.weight[at[axis] * a.taps + k];
            if (weight == 0.f) continue;
            auto from = a.index[at[axis] * a.taps + k];
            sum += static_cast<double>(weight) * value(x + from * strides[axis] * bytes, at, axis + 1);
        }
        return sum;
    }
    bool outside(Dims const& at) const {
        for (size_t i = 0; i < axes.size(); ++i)
            if (!axes[i].outside.empty() && axes[i].outside[at[i]]) return true;
        return false;
    }
};

TaskResult bind_reference(ResizeInfo const& info, BindArgs const& args, Isa) {
    auto axes = axes_of(info, args);
    if (!axes) return Err{axes.error()};
    Dims in, out;
    for (auto const& a : *axes) in.push_back(a.in), out.push_back(a.out);
    auto type = args.inputs[0]->dtype;
    Interpolation sum{std::move(*axes), strides_of(in), type, element_bytes(type)};
    return make_task([=, nearest = info.mode == ResizeMode::Nearest, extrapolation = info.extrapolation,
                      output = args.inputs.size()](void* const* a, runtime::RunContext const&) {
        auto* from = static_cast<std::byte const*>(a[0]);
        for_each_coordinate(out, [&](Dims const& at, int64_t index) {
            auto* to = static_cast<std::byte*>(a[output]) + index * sum.bytes;
            if (sum.outside(at)) return store_real(sum.type, to, extrapolation);
            if (!nearest) return store_real(sum.type, to, sum.value(from, at, 0));
            int64_t offset = 0;
            for (size_t i = 0; i < at.size(); ++i) offset += sum.axes[i].index[at[i]] * sum.strides[i];
            std::memcpy(to, from + offset * sum.bytes, sum.bytes);
        });
    });
}

}  // namespace

KernelResult resize_reference(ResizeInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.blocked = true})) return Err{*no};
    if (request.inputs[0].layout != request.outputs[0].layout) return Err{Rejection{"operands of different layouts"}};
    bool values = info.mode != ResizeMode::Nearest || info.coordinates == ResizeCoordinates::TfCropAndResize;
    if (values && !is_any_numeric(request.inputs[0].dtype))
        return Err{Rejection{"interpolation of " + std::string(name_of(request.inputs[0].dtype))}};
    return make_kernel(info, "resize", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
