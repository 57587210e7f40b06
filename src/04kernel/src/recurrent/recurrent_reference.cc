#include "common/thread_pool.h"
#include "recurrent/recurrent.h"
#include "reduce/scalar_type.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel {
namespace {

double apply(CellActivation const& a, double x) {
    double alpha = static_cast<double>(a.alpha), beta = static_cast<double>(a.beta);
    using enum CellFunction;
    switch (a.function) {
        case Sigmoid:
            return 1 / (1 + std::exp(-x));
        case Tanh:
            return std::tanh(x);
        case Relu:
            return x < 0 ? 0 : x;
        case Affine:
            return alpha * x + beta;
        case LeakyRelu:
            return x < 0 ? alpha * x : x;
        case ThresholdedRelu:
            return x > alpha ? x : 0;
        case ScaledTanh:
            return alpha * std::tanh(beta * x);
        case HardSigmoid:
            return std::min(std::max(alpha * x + beta, 0.), 1.);
        case Elu:
            return x < 0 ? alpha * std::expm1(x) : x;
        case Softsign:
            return x / (1 + std::fabs(x));
        case Softplus:
            return std::fmax(x, 0.) + std::log1p(std::exp(-std::fabs(x)));
    }
    return x;
}

/// One (direction, sequence) at a time, dot products in f64.
template <class T>
class Sequence {
    RecurrentInfo const& info_;
    RecurrentShape const& s_;
    void* const* arguments_;
    int64_t direction_, n_;
    double *h_, *c_, *gates_, *parts_, *reset_;
    CellActivation const* f_;

    T const* input(int i) const { return static_cast<T const*>(arguments_[i]); }
    double at(int i, int64_t offset) const { return i < 0 ? 0 : widen(input(i)[offset]); }
    double activate(int which, double x) const {
        if (info_.clip > 0) {
            auto limit = static_cast<double>(info_.clip);
            x = std::min(std::max(x, -limit), limit);
        }
        return apply(f_[which], x);
    }
    /// `row` of R times `h`.
    double recurrent(int64_t row, double const* h) const {
        auto const* r = input(2) + (direction_ * s_.gates * s_.hidden + row) * s_.hidden;
        double sum = 0;
        for (int64_t k = 0; k < s_.hidden; ++k) sum += widen(r[k]) * h[k];
        return sum;
    }
    double bias(int64_t row, bool of_r) const {
        return at(s_.bias, (direction_ * 2 + of_r) * s_.gates * s_.hidden + row);
    }

    /// Of the row `x(0)` to `x(depth - 1)` with quantised weights.
    template <class Row>
    void quantized_product(int matrix, int64_t depth, Row&& x, double* sums) const {
        float low = 0, high = 0, odd = 0;
        for (int64_t k = 0; k < depth; ++k) low = std::min(low, x(k)), high = std::max(high, x(k)), odd += x(k) * 0;
        auto range = code_range(low + odd, high);
        auto columns = s_.gates * s_.hidden;
        auto weights = matrix == 1 ? s_.w_layout.of(arguments_, s_.w_scale, s_.w_zero)
                                   : s_.r_layout.of(arguments_, s_.r_scale, s_.r_zero);
        auto const* bytes = static_cast<uint8_t const*>(arguments_[matrix]) + direction_ * depth * columns;
        for (int64_t j = 0; j < columns; ++j) {
            int64_t sum = 0;
            auto zero = weights.zero(direction_, j);
            for (int64_t k = 0; k < depth && range.scale > 0; ++k) {
                auto code =
                    std::min(std::max(std::nearbyint(x(k) / range.scale) + static_cast<float>(range.zero), 0.f), 255.f);
                auto byte = bytes[k * columns + j];
                auto weight = weights.is_signed ? static_cast<int8_t>(byte) : byte;
                sum += (static_cast<int64_t>(code) - range.zero) * (weight - zero);
            }
            sums[j] = static_cast<double>(sum) * static_cast<double>(range.scale * weights.scale(direction_, j));
        }
    }

    /// `gates_` = W x + its bias, `parts_` = R h + its bias.
    void products(T const* x) {
        auto rows = s_.gates * s_.hidden;
        if (info_.quantized) {
            quantized_product(1, s_.inputs, [&](int64_t k) { return static_cast<float>(widen(x[k])); }, gates_);
            quantized_product(2, s_.hidden, [&](int64_t k) { return static_cast<float>(h_[k]); }, parts_);
            for (int64_t g = 0; g < rows; ++g) gates_[g] += bias(g, false), parts_[g] += bias(g, true);
            return;
        }
        for (int64_t g = 0; g < rows; ++g) {
            auto const* w = input(1) + (direction_ * rows + g) * s_.inputs;
            double sum = bias(g, false);
            for (int64_t k = 0; k < s_.inputs; ++k) sum += widen(w[k]) * widen(x[k]);
            gates_[g] = sum, parts_[g] = recurrent(g, h_) + bias(g, true);
        }
    }
    void rnn() {
        for (int64_t u = 0; u < s_.hidden; ++u) h_[u] = activate(0, gates_[u] + parts_[u]);
    }
    void gru() {
        auto H = s_.hidden;
        for (int64_t u = 0; u < 2 * H; ++u) gates_[u] = activate(0, gates_[u] + parts_[u]);
        for (int64_t u = 0; u < H; ++u) reset_[u] = gates_[H + u] * h_[u];
        for (int64_t u = 0; u < H; ++u) {
            auto part = info_.linear_before_reset ? gates_[H + u] * parts_[2 * H + u]
                                                  : recurrent(2 * H + u, reset_) + bias(2 * H + u, true);
            gates_[2 * H + u] = activate(1, gates_[2 * H + u] + part);
        }
        for (int64_t u = 0; u < H; ++u) h_[u] = (1 - gates_[u]) * gates_[2 * H + u] + gates_[u] * h_[u];
    }
    void lstm() {
        auto H = s_.hidden;
        auto peephole = [&](int64_t which, int64_t u) { return at(s_.peepholes, (direction_ * 3 + which) * H + u); };
        for (int64_t u = 0; u < H; ++u) {
            auto gate = [&](int64_t which) { return gates_[which * H + u] + parts_[which * H + u]; };
            auto i = activate(0, gate(0) + peephole(0, u) * c_[u]);
            auto f = info_.input_forget ? 1 - i : activate(0, gate(2) + peephole(2, u) * c_[u]);
            c_[u] = f * c_[u] + i * activate(1, gate(3));
            auto o = activate(0, gate(1) + peephole(1, u) * c_[u]);
            h_[u] = o * apply(f_[2], c_[u]);
        }
    }

public:
    Sequence(RecurrentInfo const& info, RecurrentShape const& shape, void* const* arguments, int64_t direction,
             int64_t n, double* scratch)
        : info_(info), s_(shape), arguments_(arguments), direction_(direction), n_(n) {
        h_ = scratch, c_ = h_ + shape.hidden, reset_ = c_ + shape.hidden, gates_ = reset_ + shape.hidden;
        parts_ = gates_ + shape.gates * shape.hidden;
        f_ = info.activations.data() + direction * static_cast<int64_t>(info.activations.size()) / shape.directions;
    }
    void run() {
        auto H = s_.hidden;
        int64_t length = s_.lengths < 0 ? s_.steps : static_cast<int32_t const*>(arguments_[s_.lengths])[n_];
        bool empty = s_.lengths >= 0 && length == 0;
        auto state = direction_ * s_.state_direction + n_ * s_.state_batch;
        for (int64_t u = 0; u < H; ++u) {
            h_[u] = empty ? 0 : at(s_.initial_h, state + u);
            c_[u] = empty ? 0 : at(s_.initial_c, state + u);
        }
        for (int64_t t = 0; t < s_.steps; ++t) {
            auto position = t < length && s_.is_reverse(info_, direction_) ? length - 1 - t : t;
            if (t < length) {
                products(input(0) + position * s_.x_step + n_ * s_.x_batch);
                info_.cell == RecurrentCell::Lstm ? lstm() : info_.cell == RecurrentCell::Gru ? gru() : rnn();
            }
            if (s_.y < 0) continue;
            auto* y = static_cast<T*>(arguments_[s_.y]) + position * s_.y_step + direction_ * s_.y_direction +
                      n_ * s_.y_batch;
            for (int64_t u = 0; u < H; ++u) y[u] = narrow<T>(t < length ? h_[u] : 0);
        }
        for (int64_t u = 0; u < H; ++u) {
            if (s_.y_h >= 0) static_cast<T*>(arguments_[s_.y_h])[state + u] = narrow<T>(h_[u]);
            if (s_.y_c >= 0) static_cast<T*>(arguments_[s_.y_c])[state + u] = narrow<T>(c_[u]);
        }
    }
};

class RecurrentReference final : public runtime::Task {
    using Body = void (*)(RecurrentInfo const&, RecurrentShape const&, void* const*, int64_t, double*);
    RecurrentInfo info_;
    RecurrentShape shape_;
    Body body_ = nullptr;

    template <class T>
    static void body(RecurrentInfo const& info, RecurrentShape const& shape, void* const* arguments, int64_t part,
                     double* scratch) {
        Sequence<T>(info, shape, arguments, part / shape.batch, part % shape.batch, scratch).run();
    }
    size_t scratch_bytes() const override { return static_cast<size_t>((3 + 2 * shape_.gates) * shape_.hidden) * 8; }

public:
    RecurrentReference(RecurrentInfo const& info, RecurrentShape const& shape, BindArgs const& args)
        : info_(info), shape_(shape) {
        visit_float(args.inputs[0]->dtype, [&](auto tag) { body_ = body<typename decltype(tag)::type>; });
    }
    static MaybeTask make(RecurrentInfo const& info, BindArgs const& args) {
        RecurrentShape shape;
        if (auto why = shape.init(info, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new RecurrentReference(info, shape, args));
    }
    static Result<double, Rejection> cost(RecurrentInfo const& info, BindArgs const& args) {
        RecurrentShape shape;
        if (auto why = shape.init(info, args); !why.empty()) return reject(why);
        return shape.operations() / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        if (shape_.lengths >= 0) shape_.check_lengths(static_cast<int32_t const*>(arguments[shape_.lengths]));
        context.pool.parallel_for(shape_.directions * shape_.batch, [&](int64_t part, int worker) {
            auto* scratch = context.scratch_of(worker);
            body_(info_, shape_, arguments, part, reinterpret_cast<double*>(scratch));
        });
    }
    double operations() const override { return shape_.operations(); }
};

}  // namespace

MaybeKernel make_recurrent_reference(RecurrentInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (info.quantized)
        if (auto why = why_not_quantized(info, request); !why.empty()) return reject(why);
    if (!is_any_float(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " is not a float");
    return std::unique_ptr<Kernel>(
        new InfoKernel<RecurrentInfo, RecurrentReference>(id_of("recurrent", "reference", dtype), info));
}

}  // namespace refactor::kernel
