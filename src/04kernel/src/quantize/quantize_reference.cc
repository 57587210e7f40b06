#include "common/thread_pool.h"
#include "quantize/quantize.h"

#include <cmath>

namespace refactor::kernel {
namespace {

/// Elements of a unit of work: a multiple of 8, so that units of packed types begin on whole bytes.
constexpr int64_t kUnit = 512;
constexpr double kNsPerElement = 5;

/// What both directions share: sizes, and scales and zero points widened before the elements are visited.
class Shared : public runtime::Task {
protected:
    DataType from_, to_, scale_type_, zero_type_ = DataType::Undefined;
    int64_t count_, scales_;
    ScaleIndex index_;
    int threads_;

    explicit Shared(BindArgs const& args)
        : from_(args.inputs[0]->dtype),
          to_(args.outputs[0]->dtype),
          scale_type_(args.inputs[1]->dtype),
          count_(args.inputs[0]->count()),
          scales_(args.inputs[1]->count()),
          threads_(args.threads) {
        if (args.inputs.size() > 2 && args.inputs[2]) zero_type_ = args.inputs[2]->dtype;
    }
    std::string init(Granularity const& granularity, BindArgs const& args) {
        if (auto why = index_.init(granularity, args.inputs[0]->dims, args.inputs[1]->dims); !why.empty()) return why;
        if (has_zero() && args.inputs[2]->count() != scales_)
            return std::to_string(args.inputs[2]->count()) + " zero points for " + std::to_string(scales_) + " scales";
        if (args.outputs[0]->count() != count_)
            return "output of " + std::to_string(args.outputs[0]->count()) + " elements, expected " +
                   std::to_string(count_);
        return {};
    }
    bool has_zero() const { return zero_type_ != DataType::Undefined; }
    /// Calls `f(i, count, scale, step)` for the `n` elements from `begin` on, as many at a time as share a scale or
    /// have each the next one.
    template <class F>
    void for_runs(int64_t begin, int64_t n, F&& f) const {
        for (int64_t i = 0; i < n;) {
            auto run = index_.run(begin + i);
            auto count = std::min(run.count, n - i);
            f(i, count, run.scale, run.step);
            i += count;
        }
    }

    template <class F>
    void for_each_unit(runtime::RunContext const& context, F&& body) const {
        auto units = (count_ + kUnit - 1) / kUnit;
        auto chunks = chunks_of(units, kUnit * kNsPerElement, threads_);
        context.pool.parallel_for(chunks, [&](int64_t chunk, int) {
            for (auto unit = units * chunk / chunks; unit < units * (chunk + 1) / chunks; ++unit)
                body(unit * kUnit, std::min(kUnit, count_ - unit * kUnit));
        });
    }

public:
    size_t workspace_bytes() const override { return static_cast<size_t>(scales_) * 2 * sizeof(float); }
    double operations() const override { return 2. * static_cast<double>(count_); }
};

void round_to(DataType precision, float* values, int64_t n) {
    if (precision == DataType::F32) return;
    uint16_t small[kUnit];
    for (int64_t i = 0; i < n; i += kUnit) {
        auto part = std::min(kUnit, n - i);
        convert(DataType::F32, values + i, precision, small, part);
        convert(precision, small, DataType::F32, values + i, part);
    }
}

class QuantizeTask final : public Shared {
    QuantizeInfo info_;
    float low_ = 0, high_ = 0;

    explicit QuantizeTask(QuantizeInfo const& info, BindArgs const& args) : Shared(args), info_(info) {
        auto bits = bits_of(to_) - is_signed(to_);
        high_ = static_cast<float>((1 << bits) - 1), low_ = is_signed(to_) ? -high_ - 1 : 0;
    }

    void to_integers(float const* quotients, float const* zero, int64_t begin, int64_t n, void* target) const {
        int32_t results[kUnit];
        for (int64_t i = 0; i < n; ++i) {
            auto value = std::nearbyint(quotients[i]) + (has_zero() ? zero[index_(begin + i)] : 0);
            value = value >= low_ ? value : low_;
            results[i] = static_cast<int32_t>(value <= high_ ? value : high_);
        }
        convert(DataType::I32, results, to_, target, n);
    }
    void to_floats(float* quotients, float const* zero, int64_t begin, int64_t n, void* target) const {
        for (int64_t i = 0; has_zero() && i < n; ++i) {
            auto z = zero[index_(begin + i)];
            // Adding a zero would lose the sign of minus zero, which f8 keeps.
            if (z != 0 || to_ == DataType::F4E2M1) quotients[i] += z;
        }
        convert(DataType::F32, quotients, to_, target, n, info_.saturate);
    }

public:
    static MaybeTask make(QuantizeInfo const& info, BindArgs const& args) {
        std::unique_ptr<QuantizeTask> task(new QuantizeTask(info, args));
        if (auto why = task->init(info.granularity, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(std::move(task));
    }
    static Result<double, Rejection> cost(QuantizeInfo const&, BindArgs const& args) {
        return static_cast<double>(args.inputs[0]->count()) * kNsPerElement / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto *scale = reinterpret_cast<float*>(context.workspace), *zero = scale + scales_;
        convert(scale_type_, arguments[1], DataType::F32, scale, scales_);
        round_to(info_.precision, scale, scales_);
        if (has_zero()) convert(zero_type_, arguments[2], DataType::F32, zero, scales_);
        for_each_unit(context, [&](int64_t begin, int64_t n) {
            float values[kUnit];
            convert(from_, static_cast<std::byte const*>(arguments[0]) + storage_bytes(from_, begin), DataType::F32,
                    values, n);
            round_to(info_.precision, values, n);
            for_runs(begin, n, [&](int64_t i, int64_t count, int64_t at, int64_t step) {
                for (int64_t j = 0; j < count; ++j) values[i + j] /= scale[at + j * step];
            });
            round_to(info_.precision, values, n);
            auto* target = static_cast<std::byte*>(arguments[3]) + storage_bytes(to_, begin);
            if (is_float(to_))
                to_floats(values, zero, begin, n, target);
            else
                to_integers(values, zero, begin, n, target);
        });
    }
};

class DequantizeTask final : public Shared {
    explicit DequantizeTask(BindArgs const& args) : Shared(args) {}

    /// `T`, of type `wide`, holds all differences.
    template <class T>
    void scaled(DataType wide, void const* from, int64_t begin, int64_t n, float const* scale, float const* zero,
                float* results) const {
        T numbers[kUnit];
        convert(from_, from, wide, numbers, n);
        for_runs(begin, n, [&](int64_t i, int64_t count, int64_t at, int64_t step) {
            if (step == 0) {
                auto less = has_zero() ? static_cast<T>(zero[at]) : T{0};
                for (auto end = i + count; i < end; ++i) results[i] = static_cast<float>(numbers[i] - less) * scale[at];
                return;
            }
            for (int64_t j = 0; has_zero() && j < count; ++j) numbers[i + j] -= static_cast<T>(zero[at + j]);
            for (int64_t j = 0; j < count; ++j) results[i + j] = static_cast<float>(numbers[i + j]) * scale[at + j];
        });
    }

public:
    static MaybeTask make(DequantizeInfo const& info, BindArgs const& args) {
        std::unique_ptr<DequantizeTask> task(new DequantizeTask(args));
        if (auto why = task->init(info.granularity, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(std::move(task));
    }
    static Result<double, Rejection> cost(DequantizeInfo const&, BindArgs const& args) {
        return static_cast<double>(args.inputs[0]->count()) * kNsPerElement / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto *scale = reinterpret_cast<float*>(context.workspace), *zero = scale + scales_;
        convert(scale_type_, arguments[1], DataType::F32, scale, scales_);
        if (has_zero()) convert(zero_type_, arguments[2], DataType::F32, zero, scales_);
        for_each_unit(context, [&](int64_t begin, int64_t n) {
            float results[kUnit];
            auto const* from = static_cast<std::byte const*>(arguments[0]) + storage_bytes(from_, begin);
            // Differences of 32-bit integers need more than an f32.
            if (from_ == DataType::I32)
                scaled<double>(DataType::F64, from, begin, n, scale, zero, results);
            else
                scaled<float>(DataType::F32, from, begin, n, scale, zero, results);
            convert(DataType::F32, results, to_, static_cast<std::byte*>(arguments[3]) + storage_bytes(to_, begin), n);
        });
    }
};

bool is_narrow_integer(DataType type) { return is_integer(type) && bits_of(type) <= 16; }
bool is_narrow_float(DataType type) { return is_float(type) && bits_of(type) <= 8 && type != DataType::F8E8M0; }
bool is_wide_float(DataType type) { return type == DataType::F32 || type == DataType::F16 || type == DataType::BF16; }

/// Refuses operands other than x, scale and perhaps a zero point of type `quantised`.
std::string why_not_operands(Request const& request, DataType quantised) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return why;
    if (request.inputs.size() != 3) return std::to_string(request.inputs.size()) + " inputs, expected 3";
    auto scale = request.inputs[1].dtype, zero = request.inputs[2].dtype;
    if (!is_wide_float(scale) && scale != DataType::F8E8M0 && scale != DataType::I32)
        return "scale of " + std::string(name_of(scale));
    if (zero != DataType::Undefined && zero != quantised)
        return "zero point of " + std::string(name_of(zero)) + ", expected " + std::string(name_of(quantised));
    return {};
}

}  // namespace

MaybeKernel make_quantize_reference(QuantizeInfo const& info, Request const& request) {
    auto from = request.inputs[0].dtype, to = request.outputs[0].dtype;
    if (auto why = why_not_operands(request, to); !why.empty()) return reject(why);
    bool possible = (is_wide_float(from) || from == DataType::I32) && (is_narrow_integer(to) || is_narrow_float(to));
    if (!possible || !is_wide_float(info.precision))
        return reject("no quantisation from " + std::string(name_of(from)) + " to " + std::string(name_of(to)) +
                      " in " + std::string(name_of(info.precision)));
    return std::unique_ptr<Kernel>(
        new InfoKernel<QuantizeInfo, QuantizeTask>(id_of("quantize", "reference", to), info));
}

MaybeKernel make_dequantize_reference(DequantizeInfo const& info, Request const& request) {
    auto from = request.inputs[0].dtype, to = request.outputs[0].dtype;
    if (auto why = why_not_operands(request, from); !why.empty()) return reject(why);
    bool possible = is_narrow_integer(from) || from == DataType::I32 || is_narrow_float(from);
    if (!possible || !is_wide_float(to))
        return reject("no dequantisation from " + std::string(name_of(from)) + " to " + std::string(name_of(to)));
    return std::unique_ptr<Kernel>(
        new InfoKernel<DequantizeInfo, DequantizeTask>(id_of("dequantize", "reference", from), info));
}

}  // namespace refactor::kernel
