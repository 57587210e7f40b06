#include "common/thread_pool.h"
#include "layer_norm/layer_norm.h"
#include "reduce/rows_choice.h"

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 0.25;

template <class T>
class LayerNormRows final : public runtime::Task {
    RowFunctionsOf<T> const& functions_;
    LayerNormInfo info_;
    AxisSplit split_;
    NormRowOf<T> row_{};  // with the pointers still open
    bool has_sum_;
    int64_t chunks_;

public:
    static std::string why_not(LayerNormInfo const& info, BindArgs const& args) {
        return why_not_layer_norm(info, args);
    }
    LayerNormRows(RowFunctionsOf<T> const& functions, LayerNormInfo const& info, BindArgs const& args)
        : functions_(functions),
          info_(info),
          split_(args.inputs[0]->dims, info.axis, static_cast<int64_t>(args.inputs[0]->dims.size()) - info.axis),
          has_sum_(args.outputs.size() > 1 && args.outputs[1]),
          chunks_(chunks_of(split_.outer, static_cast<double>(split_.size) * kNsPerElement, args.threads)) {
        row_.size = split_.size, row_.epsilon = info.epsilon, row_.rms = info.rms;
        row_.scale_step = args.inputs[1]->count() == 1 ? 0 : 1;
        row_.bias_step = info.has_bias && args.inputs[2]->count() == 1 ? 0 : 1;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<T const*>(arguments[0]);
        auto const* scale = static_cast<T const*>(arguments[1]);
        auto* const* next = arguments + 2;
        auto const* bias = info_.has_bias ? static_cast<T const*>(*next++) : nullptr;
        auto const* residual = info_.residual ? static_cast<T const*>(*next++) : nullptr;
        auto* y = static_cast<T*>(*next++);
        auto* sum = has_sum_ ? static_cast<T*>(*next) : nullptr;
        context.pool.parallel_for(chunks_, [&](int64_t c, int) {
            auto row = row_;
            row.scale = scale, row.bias = bias;
            for (auto i = split_.outer * c / chunks_; i < split_.outer * (c + 1) / chunks_; ++i) {
                auto at = i * split_.size;
                row.x = x + at, row.residual = residual ? residual + at : nullptr;
                row.y = y + at, row.sum = sum ? sum + at : nullptr;
                functions_.layer_norm(row);
            }
        });
    }
    uint64_t in_place_inputs() const override { return has_sum_ ? 0 : 1; }
    double operations() const override { return 8. * static_cast<double>(split_.outer * split_.size); }
};

}  // namespace

MaybeKernel make_layer_norm_rows(LayerNormInfo const& info, Request const& request) {
    return make_row_kernel<LayerNormInfo, LayerNormRows>("layer_norm", info, request, kNsPerElement);
}

}  // namespace refactor::kernel
