#include "common/thread_pool.h"
#include "matmul/matmul.h"
#include "reduce/scalar_type.h"

#include <cmath>

namespace refactor::kernel {
namespace {

/// The activations of epilogue.h in f64, so that f64 products keep their precision.
double activate(Activation const& f, double x) {
    auto alpha = static_cast<double>(f.alpha), beta = static_cast<double>(f.beta);
    auto clamp = [](double v, double low, double high) { return std::fmin(std::fmax(v, low), high); };
    switch (f.kind) {
        case ActivationKind::None:
            return x;
        case ActivationKind::Relu:
            return x < 0 ? 0 : x;
        case ActivationKind::Clip:
            return clamp(x, alpha, beta);
        case ActivationKind::LeakyRelu:
            return x < 0 ? alpha * x : x;
        case ActivationKind::Sigmoid:
            return 1 / (1 + std::exp(-x));
        case ActivationKind::Silu:
            return x / (1 + std::exp(-x));
        case ActivationKind::HardSigmoid:
            return clamp(alpha * x + beta, 0, 1);
        case ActivationKind::HardSwish:
            return alpha * (x * clamp(x / 6 + 0.5, 0, 1)) + beta;
        case ActivationKind::GeluErf:
            return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
        case ActivationKind::GeluTanh:
            return 0.5 * x * (1 + std::tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
        case ActivationKind::Tanh:
            return std::tanh(x);
    }
    return x;
}

class MatMulReference final : public runtime::Task {
    using Body = void (*)(MatMulReference const&, void* const*, int64_t);
    MatMulInfo info_;
    MatMulShape shape_;
    int threads_;
    Body body_ = nullptr;

    /// One row of the output; `row` counts over all batches. B of type `S`.
    template <class T, class S>
    static void compute(MatMulReference const& self, void* const* arguments, int64_t row) {
        auto const& info = self.info_;
        auto const& s = self.shape_;
        int64_t a_offset, b_offset;
        s.offsets(row / s.m, a_offset, b_offset);
        auto i = row % s.m;
        auto const* a = static_cast<T const*>(arguments[0]) + a_offset + i * (info.trans_a ? 1 : s.k);
        auto const* b = static_cast<S const*>(arguments[1]) + b_offset;
        auto a_step = info.trans_a ? s.m : 1, b_step = info.trans_b ? 1 : s.n, b_column = info.trans_b ? s.k : 1;
        int next = 2;
        auto const* scales = info.scaled ? static_cast<float const*>(arguments[next++]) : nullptr;
        auto const* bias = info.epilogue.bias ? static_cast<T const*>(arguments[next++]) : nullptr;
        auto const* residual = info.epilogue.residual ? static_cast<T const*>(arguments[next++]) + row * s.n : nullptr;
        auto* y = static_cast<T*>(arguments[next]) + row * s.n;
        for (int64_t j = 0; j < s.n; ++j) {
            Wide<T> sum{};
            for (int64_t p = 0; p < s.k; ++p)
                sum =
                    add(sum, multiply(widen(a[p * a_step]), static_cast<Wide<T>>(widen(b[p * b_step + j * b_column]))));
            if (scales) sum = static_cast<Wide<T>>(static_cast<double>(sum) * static_cast<double>(scales[j]));
            if (info.alpha != 1) sum = static_cast<Wide<T>>(static_cast<double>(info.alpha) * static_cast<double>(sum));
            if (bias) sum = add(sum, widen(bias[s.scalar_bias ? 0 : j]));
            auto last = info.epilogue.residual_last;
            if (residual && !last) sum = add(sum, widen(residual[j]));
            if (info.epilogue.activation.kind != ActivationKind::None)
                sum = static_cast<Wide<T>>(activate(info.epilogue.activation, static_cast<double>(sum)));
            if (residual && last) sum = add(sum, widen(residual[j]));
            y[j] = narrow<T>(sum);
        }
    }
    double row_ns() const { return static_cast<double>(shape_.n) * (5 + 1.5 * static_cast<double>(shape_.k)); }

public:
    MatMulReference(MatMulInfo const& info, MatMulShape const& shape, BindArgs const& args)
        : info_(info), shape_(shape), threads_(args.threads) {
        auto a = args.inputs[0]->dtype, b = args.inputs[1]->dtype;
        visit_numeric(a, [&](auto tag) {
            using T = typename decltype(tag)::type;
            body_ = compute<T, T>;
        });
        if (a == b) return;
        body_ = b == DataType::F16    ? compute<float, F16>
                : b == DataType::BF16 ? compute<float, BF16>
                                      : compute<float, int8_t>;
    }
    static MaybeTask make(MatMulInfo const& info, BindArgs const& args) {
        MatMulShape shape;
        if (auto why = shape.init(info, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new MatMulReference(info, shape, args));
    }
    static Result<double, Rejection> cost(MatMulInfo const& info, BindArgs const& args) {
        MatMulShape shape;
        if (auto why = shape.init(info, args); !why.empty()) return reject(why);
        return shape.operations() * 0.75 / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto rows = shape_.batches * shape_.m;
        auto chunks = chunks_of(rows, row_ns(), threads_);
        context.pool.parallel_for(chunks, [&](int64_t c, int) {
            for (auto r = rows * c / chunks; r < rows * (c + 1) / chunks; ++r) body_(*this, arguments, r);
        });
    }
    double operations() const override { return shape_.operations(); }
};

}  // namespace

MaybeKernel make_matmul_reference(MatMulInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (!is_any_numeric(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " has no product");
    if (auto why = why_types_differ(info, request); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(
        new InfoKernel<MatMulInfo, MatMulReference>(id_of("matmul", "reference", dtype), info));
}

}  // namespace refactor::kernel
