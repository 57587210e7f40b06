#include "common/thread_pool.h"
#include "layer_norm/layer_norm.h"
#include "reduce/scalar_type.h"

#include <cmath>

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 6;

class LayerNormReference final : public runtime::Task {
    using Body = void (*)(LayerNormReference const&, void* const*, int64_t);
    LayerNormInfo info_;
    AxisSplit split_;
    bool has_sum_;
    int64_t scale_step_, bias_step_;  // 0: one value for all
    int threads_;
    Body body_ = nullptr;

    template <class T>
    static void normalise(LayerNormReference const& self, void* const* arguments, int64_t row) {
        auto size = self.split_.size;
        auto const* x = static_cast<T const*>(arguments[0]) + row * size;
        auto const* scale = static_cast<T const*>(arguments[1]);
        int next = 2;
        auto const* bias = self.info_.has_bias ? static_cast<T const*>(arguments[next++]) : nullptr;
        auto const* residual = self.info_.residual ? static_cast<T const*>(arguments[next++]) + row * size : nullptr;
        auto* y = static_cast<T*>(arguments[next++]) + row * size;
        auto* sum_out = self.has_sum_ ? static_cast<T*>(arguments[next]) + row * size : nullptr;
        auto at = [&](int64_t i) { return widen(x[i]) + (residual ? widen(residual[i]) : 0.); };

        double mean = 0, variance = 0;
        if (!self.info_.rms) {
            for (int64_t i = 0; i < size; ++i) mean += at(i);
            mean /= static_cast<double>(size);
        }
        for (int64_t i = 0; i < size; ++i) variance += (at(i) - mean) * (at(i) - mean);
        variance /= static_cast<double>(size);
        auto factor = 1 / std::sqrt(variance + static_cast<double>(self.info_.epsilon));
        for (int64_t i = 0; i < size; ++i) {
            auto v = at(i);
            if (sum_out) sum_out[i] = narrow<T>(v);
            auto shift = bias ? widen(bias[i * self.bias_step_]) : 0.;
            y[i] = narrow<T>((v - mean) * factor * widen(scale[i * self.scale_step_]) + shift);
        }
    }

public:
    LayerNormReference(LayerNormInfo const& info, BindArgs const& args)
        : info_(info),
          split_(args.inputs[0]->dims, info.axis, static_cast<int64_t>(args.inputs[0]->dims.size()) - info.axis),
          has_sum_(args.outputs.size() > 1 && args.outputs[1]),
          scale_step_(args.inputs[1]->count() == 1 ? 0 : 1),
          bias_step_(info.has_bias && args.inputs[2]->count() == 1 ? 0 : 1),
          threads_(args.threads) {
        visit_float(args.inputs[0]->dtype, [&](auto tag) { body_ = normalise<typename decltype(tag)::type>; });
    }
    static MaybeTask make(LayerNormInfo const& info, BindArgs const& args) {
        if (auto why = why_not_layer_norm(info, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new LayerNormReference(info, args));
    }
    static Result<double, Rejection> cost(LayerNormInfo const&, BindArgs const& args) {
        return static_cast<double>(args.inputs[0]->count()) * kNsPerElement;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto chunks = chunks_of(split_.outer, static_cast<double>(split_.size) * kNsPerElement, threads_);
        context.pool.parallel_for(chunks, [&](int64_t c, int) {
            for (auto o = split_.outer * c / chunks; o < split_.outer * (c + 1) / chunks; ++o)
                body_(*this, arguments, o);
        });
    }
    uint64_t in_place_inputs() const override { return has_sum_ ? 0 : 1; }
    double operations() const override { return 8. * static_cast<double>(split_.outer * split_.size); }
};

}  // namespace

std::string why_not_layer_norm(LayerNormInfo const& info, BindArgs const& args) {
    auto const& dims = args.inputs[0]->dims;
    AxisSplit split(dims, info.axis, static_cast<int64_t>(dims.size()) - info.axis);
    for (int i = 1; i < 2 + info.has_bias; ++i)
        if (auto n = args.inputs[i]->count(); n != split.size && n != 1)
            return std::string(i == 1 ? "scale" : "bias") + " has " + std::to_string(n) + " elements, expected " +
                   std::to_string(split.size) + " or 1";
    return {};
}

MaybeKernel make_layer_norm_reference(LayerNormInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (!is_any_float(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " is not a float");
    for (auto const& input : request.inputs)
        if (!input.absent() && input.dtype != dtype)
            return reject("inputs are of types " + std::string(refactor::name_of(dtype)) + " and " +
                          std::string(refactor::name_of(input.dtype)));
    if (auto why = why_not_outputs_of(request, dtype); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(
        new InfoKernel<LayerNormInfo, LayerNormReference>(id_of("layer_norm", "reference", dtype), info));
}

}  // namespace refactor::kernel
