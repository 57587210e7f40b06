#include "common/thread_pool.h"
#include "layer_norm/layer_norm.h"
#include "matmul/rounded_product.h"
#include "reduce/rows_choice.h"
#include "reduce/turned_sets.h"

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 0.25;
/// Longest rows that become lanes, if there are enough: a row by itself takes 25 ns, as much as that of turning these.
constexpr int64_t kLongestTurned = 48, kFewestTurned = 16;

template <class T>
class LayerNormRows final : public runtime::Task {
    RowFunctionsOf<T> const& functions_;
    LayerNormInfo info_;
    AxisSplit split_;
    NormRowOf<T> row_{};     // with the pointers still open
    bool has_sum_, narrow_;  // narrow: Y is bf16
    bool is_turned_ = false;
    TurnedSets sets_;
    int64_t items_, chunks_;  // rows, or some turned ones

    static constexpr int64_t kLine = 64 / sizeof(T);
    /// Of a row, made for each thread where Y is narrow.
    int64_t row_step() const { return (split_.size + kLine - 1) / kLine * kLine; }
    /// Rounds a row where the processor can.
    static void round_row(T const* x, int64_t size, uint16_t* y) {
#if RG_X86
        if constexpr (sizeof(T) == sizeof(float)) rounded_functions_avx512bf16().narrow(x, size, y);
#endif
    }

public:
    static std::string why_not(LayerNormInfo const& info, BindArgs const& args) {
        return why_not_layer_norm(info, args);
    }
    LayerNormRows(RowFunctionsOf<T> const& functions, LayerNormInfo const& info, BindArgs const& args)
        : functions_(functions),
          info_(info),
          split_(args.inputs[0]->dims, info.axis, static_cast<int64_t>(args.inputs[0]->dims.size()) - info.axis),
          has_sum_(args.outputs.size() > 1 && args.outputs[1]),
          narrow_(args.outputs[0]->dtype == DataType::BF16),
          items_(split_.outer) {
        row_.size = split_.size, row_.epsilon = info.epsilon, row_.rms = info.rms;
        row_.scale_step = args.inputs[1]->count() == 1 ? 0 : 1;
        row_.bias_step = info.has_bias && args.inputs[2]->count() == 1 ? 0 : 1;
        is_turned_ = !narrow_ && !has_sum_ && !info.residual && split_.size > 0 && split_.size <= kLongestTurned &&
                     split_.outer >= kFewestTurned;
        auto ns = static_cast<double>(split_.size) * kNsPerElement;
        if (is_turned_) {
            sets_ = {split_.size, split_.size, sizeof(T), sizeof(T),
                     functions.width * sizeof(T) == 64 ? Isa::Avx512 : Isa::Avx2};
            items_ = (split_.outer + sets_.most() - 1) / sets_.most(), ns *= static_cast<double>(sets_.most());
        }
        chunks_ = chunks_of(items_, ns, args.threads);
    }
    /// Some rows, each of which is a lane.
    void turned_rows(NormRowOf<T> row, int64_t item, std::byte* scratch) const {
        auto first = item * sets_.most(), rows = std::min(sets_.most(), split_.outer - first);
        row.x += first * split_.size, row.y += first * split_.size;
        if (split_.size == 1) return functions_.layer_norm_lanes(row, rows);
        sets_.turn(row.x, rows, scratch);
        auto* turned = reinterpret_cast<T*>(scratch);
        row.x = turned, std::swap(row.y, turned);
        functions_.layer_norm_lanes(row, rows);
        sets_.turn_back(scratch, rows, turned);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<T const*>(arguments[0]);
        auto const* scale = static_cast<T const*>(arguments[1]);
        auto* const* next = arguments + 2;
        auto const* bias = info_.has_bias ? static_cast<T const*>(*next++) : nullptr;
        auto const* residual = info_.residual ? static_cast<T const*>(*next++) : nullptr;
        auto* y = *next++;
        auto* sum = has_sum_ ? static_cast<T*>(*next) : nullptr;
        context.pool.parallel_for(chunks_, [&](int64_t c, int worker) {
            auto row = row_;
            row.scale = scale, row.bias = bias;
            if (is_turned_) {
                row.x = x, row.y = static_cast<T*>(y);
                for (auto i = items_ * c / chunks_; i < items_ * (c + 1) / chunks_; ++i)
                    turned_rows(row, i, context.scratch_of(worker));
                return;
            }
            if (narrow_) row.y = reinterpret_cast<T*>(context.scratch_of(worker));
            for (auto i = split_.outer * c / chunks_; i < split_.outer * (c + 1) / chunks_; ++i) {
                auto at = i * split_.size;
                row.x = x + at, row.residual = residual ? residual + at : nullptr;
                row.sum = sum ? sum + at : nullptr;
                if (!narrow_) row.y = static_cast<T*>(y) + at;
                functions_.layer_norm(row);
                if (narrow_) round_row(row.y, split_.size, static_cast<uint16_t*>(y) + at);
            }
        });
    }
    size_t scratch_bytes() const override {
        if (is_turned_) return sets_.turned_bytes();
        return narrow_ ? static_cast<size_t>(row_step()) * sizeof(T) : 0;
    }
    uint64_t in_place_inputs() const override { return has_sum_ || narrow_ ? 0 : 1; }
    double operations() const override { return 8. * static_cast<double>(split_.outer * split_.size); }
};

}  // namespace

MaybeKernel make_layer_norm_rows(LayerNormInfo const& info, Request const& request) {
    if (auto why = why_not_outputs_of(request, request.inputs[0].dtype); !why.empty()) return reject(why);
    return make_row_kernel<LayerNormInfo, LayerNormRows>("layer_norm", info, request, kNsPerElement);
}

MaybeKernel make_layer_norm_rounded(LayerNormInfo const& info, Request const& request) {
    constexpr auto kIsa = Isa::Avx512Bf16;
    if (auto why = why_not_isa(request, kIsa); !why.empty()) return reject(why);
    if (auto type = request.outputs[0].dtype; type != DataType::BF16)
        return reject("Y is " + std::string(name_of(type)) + ", expected bf16");
    if (auto why = why_not_outputs_of(request, DataType::F32, 1); !why.empty()) return reject(why);
    auto choice = choose_rows<float>(request);
    if (!choice.functions) return reject(choice.why_not);
    choice.isa = kIsa;
    return std::unique_ptr<Kernel>(new RowKernel<LayerNormInfo, LayerNormRows<float>, float>(
        choice, "layer_norm", info, kNsPerElement, DataType::BF16));
}

}  // namespace refactor::kernel
