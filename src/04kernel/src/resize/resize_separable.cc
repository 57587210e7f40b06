#include "reduce/scalar_type.h"
#include "resize/axis_taps.h"
#include "resize/resize.h"

/// Interpolation of any axes: one axis after the other, from the last to the first.
namespace refactor::kernel {

using namespace movement;

namespace {

/// Floats of less than 64 bits are summed in f32, everything else in f64.
template <class T>
using Sum =
    std::conditional_t<std::is_same_v<T, float> || std::is_same_v<T, F16> || std::is_same_v<T, BF16>, float, double>;

bool changes_nothing(AxisTaps const& a) {
    if (a.in != a.out || !a.outside.empty()) return false;
    for (int64_t i = 0; i < a.out * a.taps; ++i)
        if (a.weight[i] != 0 && (a.weight[i] != 1 || a.index[i] != i / a.taps)) return false;
    return true;
}

struct Axis {
    AxisTaps taps;
    /// Elements of Y in front of and behind the axis, but not in front of the first axis that changes.
    int64_t outer, inner;

    int64_t rows() const { return outer * taps.out; }
    int64_t count() const { return rows() * inner; }
    ResizePass pass() const { return taps.pass(inner); }
};

/// The axes in front of the first that changes count planes; each of these is resampled by one thread, or, if there are
/// fewer than threads, by all.
template <class T>
class SeparableResize final : public runtime::Task {
    using S = Sum<T>;
    static constexpr bool kConverts = !std::is_same_v<T, S>;

    std::vector<Axis> axes_;                            // from the last to the first
    int64_t planes_ = 1, in_ = 1, out_ = 1, most_ = 0;  // elements of a plane of X, of Y, and between axes
    float extrapolation_;
    ResizeFunctions const& functions_;
    size_t output_;
    int threads_;

    bool by_plane() const { return threads_ == 1 || planes_ >= threads_; }
    size_t plane_bytes() const {
        auto elements = (kConverts ? in_ + out_ : 0) + 2 * most_;
        return (static_cast<size_t>(elements) * sizeof(S) + 63) / 64 * 64;
    }

    void run_rows(Axis const& a, S const* x, S* y, int64_t begin, int64_t end) const {
        if constexpr (std::is_same_v<S, float>)
            functions_.resize(a.pass(), x, y, begin, end);
        else
            resize_rows(a.pass(), x, y, begin, end);
    }
    /// What lies outside along any axis.
    void extrapolate(T* y) const {
        for (auto const& a : axes_) {
            if (a.taps.outside.empty()) continue;
            auto behind = a.inner;
            for (int64_t row = 0; row < out_ / behind; ++row)
                if (a.taps.outside[row % a.taps.out])
                    std::fill_n(y + row * behind, behind, from_real<T>(extrapolation_));
        }
    }

    template <class Each>
    void run_plane(T const* x, T* y, S* scratch, Each&& each) const {
        S const* from;
        if constexpr (kConverts) {
            for (int64_t i = 0; i < in_; ++i) scratch[i] = static_cast<S>(widen(x[i]));
            from = scratch, scratch += in_;
        } else {
            from = x;
        }
        for (size_t i = 0; i < axes_.size(); ++i) {
            bool last = i + 1 == axes_.size();
            S* to = scratch + (i % 2) * most_;
            if (last) {
                if constexpr (kConverts)
                    to = scratch + 2 * most_;
                else
                    to = y;
            }
            each(axes_[i].rows(), axes_[i].count() * static_cast<int64_t>(sizeof(S)),
                 [&](int64_t begin, int64_t end) { run_rows(axes_[i], from, to, begin, end); });
            from = to;
        }
        if constexpr (kConverts)
            for (int64_t i = 0; i < out_; ++i) y[i] = from_real<T>(from[i]);
        extrapolate(y);
    }

public:
    SeparableResize(std::vector<AxisTaps> all, float extrapolation, Isa isa, BindArgs const& args)
        : extrapolation_(extrapolation),
          functions_(resize_functions_of(isa)),
          output_(args.inputs.size()),
          threads_(std::max(1, args.threads)) {
        size_t first = 0;
        while (first + 1 < all.size() && changes_nothing(all[first])) planes_ *= all[first++].out;
        for (auto i = first; i < all.size(); ++i) in_ *= all[i].in, out_ *= all[i].out;
        int64_t inner = 1, outer = in_;
        for (auto i = all.size(); i-- > first;) {
            outer /= std::max<int64_t>(1, all[i].in);
            if (i == first || !changes_nothing(all[i])) {
                auto out = all[i].out;
                axes_.push_back({std::move(all[i]), outer, inner});
                if (i > first) most_ = std::max(most_, axes_.back().count());
                inner *= out;
            } else {
                inner *= all[i].out;
            }
        }
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<T const*>(arguments[0]);
        auto* y = static_cast<T*>(arguments[output_]);
        auto plane = [&](int64_t i, int worker, auto&& each) {
            auto* scratch = by_plane() ? context.scratch_of(worker) : context.workspace;
            run_plane(x + i * in_, y + i * out_, reinterpret_cast<S*>(scratch), each);
        };
        if (!by_plane()) {
            for (int64_t i = 0; i < planes_; ++i)
                plane(i, 0, [&](int64_t rows, int64_t bytes, auto&& body) {
                    parallel_bytes(context.pool, rows, bytes, body);
                });
            return;
        }
        auto chunks = std::min<int64_t>(planes_, int64_t{4} * context.pool.threads());
        context.pool.parallel_for(chunks, [&](int64_t c, int worker) {
            for (auto i = planes_ * c / chunks; i < planes_ * (c + 1) / chunks; ++i)
                plane(i, worker, [](int64_t rows, int64_t, auto&& body) { body(int64_t{0}, rows); });
        });
    }
    size_t workspace_bytes() const override { return by_plane() ? 0 : plane_bytes(); }
    size_t scratch_bytes() const override { return by_plane() ? plane_bytes() : 0; }
};

TaskResult bind_separable(ResizeInfo const& info, BindArgs const& args, Isa isa) {
    auto axes = axes_of(info, args);
    if (!axes) return Err{axes.error()};
    if (axes->empty() || args.outputs[0]->count() == 0) return Err{Rejection{"nothing to resample"}};
    TaskResult task = Err{Rejection{"no numbers"}};
    visit_numeric(args.inputs[0]->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        task = TaskResult(
            std::unique_ptr<runtime::Task>(new SeparableResize<T>(std::move(*axes), info.extrapolation, isa, args)));
    });
    return task;
}

}  // namespace

KernelResult resize_separable(ResizeInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.blocked = true})) return Err{*no};
    if (info.mode == ResizeMode::Nearest) return Err{Rejection{"another mode"}};
    if (request.inputs[0].layout != request.outputs[0].layout) return Err{Rejection{"operands of different layouts"}};
    if (!is_any_numeric(request.inputs[0].dtype))
        return Err{Rejection{"interpolation of " + std::string(name_of(request.inputs[0].dtype))}};
    return make_kernel(info, "resize", "separable", request, bind_separable);
}

}  // namespace refactor::kernel
