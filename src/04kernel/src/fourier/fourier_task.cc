#include "common/thread_pool.h"
#include "fourier/fourier.h"
#include "reduce/scalar_type.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel {
namespace {

/// Up to this many rows are transformed one by one: a pass over eight lanes costs about as much as two rows.
constexpr int64_t kFewRows = 2;

/// Which rows of a group: two real ones share a lane as the parts of a complex one.
enum class Rows : uint8_t { All, First, Second };

class FourierTask final : public runtime::Task {
    FftFunctions const& functions_;
    FourierRows r_;
    std::shared_ptr<FftPlan const> plan_;
    bool eight_;
    int64_t lanes_, per_group_;  ///< rows of a group: two in a lane if they are real

    using Load = void (*)(FourierTask const&, void* const*, int64_t, Rows, double*);
    using Store = void (*)(FourierTask const&, void*, int64_t, Rows, double const*);
    Load load_ = nullptr;
    Store store_ = nullptr;

    bool paired() const { return r_.kind != FourierRows::Kind::Complex; }
    static bool in(Rows rows, int part) { return rows == Rows::All || (rows == Rows::Second) == (part == 1); }
    int64_t at_in(int64_t row) const { return row / r_.inner * r_.outer_in + row % r_.inner * r_.inner_in; }
    int64_t at_out(int64_t row) const { return row / r_.inner * r_.outer_out + row % r_.inner * r_.inner_out; }
    double* place(double* data, int64_t k, int64_t lane, int part) const {
        return data + (2 * k + part) * lanes_ + lane;
    }
    double const* place(double const* data, int64_t k, int64_t lane, int part) const {
        return data + (2 * k + part) * lanes_ + lane;
    }

    /// Elements of one row into one lane; `part`: where a real number goes. The inverse transform is the forward one
    /// with real and imaginary parts exchanged on both sides.
    template <class T>
    void load_row(T const* x, T const* window, int64_t lane, int part, double* data) const {
        auto swap = r_.inverse ? 1 : 0;
        for (int64_t k = 0; k < r_.available; ++k, x += r_.step_in) {
            auto factor = window ? widen(window[k]) : 1;
            if (r_.kind == FourierRows::Kind::Real) {
                *place(data, k, lane, part) = widen(x[0]) * factor;
            } else {
                *place(data, k, lane, swap) = widen(x[0]) * factor;
                *place(data, k, lane, 1 - swap) = r_.parts_in == 2 ? widen(x[1]) * factor : 0;
            }
        }
    }
    /// Adds the spectrum of a real result to one lane: Z = A + iB, each completed by its conjugate half.
    template <class T>
    void load_half(T const* x, int64_t lane, int part, double* data) const {
        auto n = r_.length;
        for (int64_t k = 0; k <= n / 2; ++k) {
            bool given = k < r_.available, own = k == 0 || 2 * k == n;
            auto re = given ? widen(x[k * r_.step_in]) : 0;
            auto im = given && !own && r_.parts_in == 2 ? widen(x[k * r_.step_in + 1]) : 0;
            for (int mirrored = 0; mirrored < (own ? 1 : 2); ++mirrored, im = -im) {
                auto position = mirrored ? n - k : k;
                // Exchanged parts (inverse): real goes to 1, imaginary to 0.
                // The second row of a pair is multiplied by i.
                *place(data, position, lane, 1) += part ? -im : re;
                *place(data, position, lane, 0) += part ? re : im;
            }
        }
    }
    template <class T>
    static void load(FourierTask const& t, void* const* arguments, int64_t first, Rows rows, double* data) {
        auto const* x = static_cast<T const*>(arguments[0]);
        auto const* window = t.r_.window ? static_cast<T const*>(arguments[1]) : nullptr;
        bool half = t.r_.kind == FourierRows::Kind::FromHalf;
        auto end = 2 * t.r_.length * t.lanes_;
        auto count = std::min(t.per_group_, t.r_.rows - first);
        bool partial = half || count < t.per_group_ || rows != Rows::All;
        std::fill(data + (partial ? 0 : 2 * std::min(t.r_.available, t.r_.length) * t.lanes_), data + end, 0.);
        for (int64_t i = 0; i < count; ++i) {
            auto lane = t.paired() ? i / 2 : i;
            auto part = static_cast<int>(t.paired() ? i % 2 : 0);
            if (!in(rows, part)) continue;
            if (half)
                t.load_half(x + t.at_in(first + i), lane, part, data);
            else
                t.load_row(x + t.at_in(first + i), window, lane, part, data);
        }
    }

    template <class T>
    void store_pair(T* y, int64_t lane, int part, double const* data) const {
        auto n = r_.length;
        for (int64_t k = 0; k < r_.kept; ++k, y += r_.step_out) {
            auto other = k ? n - k : 0;
            auto re = *place(data, k, lane, 0), im = *place(data, k, lane, 1);
            auto conjugate_re = *place(data, other, lane, 0), conjugate_im = -*place(data, other, lane, 1);
            if (part) {
                y[0] = narrow<T>((im - conjugate_im) / 2), y[1] = narrow<T>((conjugate_re - re) / 2);
            } else {
                y[0] = narrow<T>((re + conjugate_re) / 2), y[1] = narrow<T>((im + conjugate_im) / 2);
            }
        }
    }
    template <class T>
    static void store(FourierTask const& t, void* output, int64_t first, Rows rows, double const* data) {
        auto count = std::min(t.per_group_, t.r_.rows - first);
        auto scale = t.r_.inverse ? 1 / static_cast<double>(t.r_.length) : 1;
        auto swap = t.r_.inverse ? 1 : 0;
        for (int64_t i = 0; i < count; ++i) {
            auto* y = static_cast<T*>(output) + t.at_out(first + i);
            auto lane = t.paired() ? i / 2 : i;
            auto part = static_cast<int>(t.paired() ? i % 2 : 0);
            if (!in(rows, part)) continue;
            if (t.r_.kind == FourierRows::Kind::Real) {
                t.store_pair(y, lane, part, data);
                continue;
            }
            for (int64_t k = 0; k < t.r_.kept; ++k, y += t.r_.step_out) {
                y[0] = narrow<T>(*t.place(data, k, lane, part ? 1 - swap : swap) * scale);
                if (t.r_.parts_out == 2) y[1] = narrow<T>(*t.place(data, k, lane, 1 - swap) * scale);
            }
        }
    }
    /// Whether every element that went in is finite: element 0 of a transform is the sum of all.
    bool is_finite(double const* data) const {
        return std::all_of(data, data + 2 * lanes_, [](double sum) { return std::isfinite(sum); });
    }
    /// Rows of a pair whose one has a NaN or an infinity are transformed one after the other, or both would get it.
    void transform(void* const* arguments, void* output, int64_t first, double* x, double* y) const {
        load_(*this, arguments, first, Rows::All, x);
        auto const* result = plan_->run(functions_, eight_, x, y);
        if (!paired() || is_finite(result)) return store_(*this, output, first, Rows::All, result);
        for (auto rows : {Rows::First, Rows::Second}) {
            load_(*this, arguments, first, rows, x);
            store_(*this, output, first, rows, plan_->run(functions_, eight_, x, y));
        }
    }
    size_t buffer_bytes() const { return static_cast<size_t>((2 * plan_->buffer() * lanes_ * 8 + 63) / 64 * 64); }

public:
    FourierTask(FftFunctions const& functions, FourierRows const& rows, std::shared_ptr<FftPlan const> plan,
                DataType dtype)
        : functions_(functions), r_(rows), plan_(std::move(plan)) {
        eight_ = r_.rows > kFewRows, lanes_ = eight_ ? kFftLanes : 1, per_group_ = lanes_ * (paired() ? 2 : 1);
        r_.available = std::min(r_.available, r_.length);
        visit_float(dtype, [&](auto tag) {
            using T = typename decltype(tag)::type;
            load_ = load<T>, store_ = store<T>;
        });
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto groups = (r_.rows + per_group_ - 1) / per_group_;
        auto* output = arguments[r_.window ? 2 : 1];
        context.pool.parallel_for(groups, [&](int64_t group, int worker) {
            auto* memory = context.scratch_of(worker);
            auto *x = reinterpret_cast<double*>(memory), *y = reinterpret_cast<double*>(memory + buffer_bytes());
            transform(arguments, output, group * per_group_, x, y);
        });
    }
    size_t scratch_bytes() const override { return 2 * buffer_bytes(); }
    double operations() const override { return fourier_ns(r_, 1); }
};

}  // namespace

std::unique_ptr<runtime::Task> make_fourier_task(FftFunctions const& functions, FourierRows const& rows,
                                                 std::shared_ptr<FftPlan const> plan, DataType dtype) {
    return std::make_unique<FourierTask>(functions, rows, std::move(plan), dtype);
}

/// 5 n log2 n operations for each row, one in a ns.
double fourier_ns(FourierRows const& rows, int lanes) {
    double levels = 1;
    for (auto n = rows.length; n > 1; n /= 2) ++levels;
    return 5. * static_cast<double>(rows.rows) * static_cast<double>(rows.length) * levels / lanes;
}

}  // namespace refactor::kernel
