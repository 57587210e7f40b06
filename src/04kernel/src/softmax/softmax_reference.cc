#include "common/thread_pool.h"
#include "reduce/scalar_type.h"
#include "softmax/softmax.h"

#include <cmath>

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 10;

class SoftmaxReference final : public runtime::Task {
    using Body = void (*)(SoftmaxReference const&, void const*, void*, int64_t);
    SoftmaxInfo info_;
    AxisSplit split_;
    int threads_;
    Body body_ = nullptr;

    template <class T>
    static void normalise(SoftmaxReference const& self, void const* source, void* target, int64_t outer) {
        auto [_, size, inner] = self.split_;
        auto const* x = static_cast<T const*>(source) + outer * size * inner;
        auto* y = static_cast<T*>(target) + outer * size * inner;
        for (int64_t i = 0; i < inner; ++i, ++x, ++y) {
            double max = -INFINITY, sum = 0;
            for (int64_t k = 0; k < size; ++k) max = std::fmax(max, widen(x[k * inner]));
            for (int64_t k = 0; k < size; ++k) sum += std::exp(widen(x[k * inner]) - max);
            auto zero = self.info_.nan_to_zero && (max == -INFINITY || std::isnan(sum));
            auto log_sum = std::log(sum);
            for (int64_t k = 0; k < size; ++k) {
                auto shifted = widen(x[k * inner]) - max;
                y[k * inner] = narrow<T>(zero ? 0. : self.info_.log ? shifted - log_sum : std::exp(shifted) / sum);
            }
        }
    }

public:
    SoftmaxReference(SoftmaxInfo const& info, BindArgs const& args)
        : info_(info), split_(args.inputs[0]->dims, info.axis, info.axes), threads_(args.threads) {
        visit_float(args.inputs[0]->dtype, [&](auto tag) { body_ = normalise<typename decltype(tag)::type>; });
    }
    static MaybeTask make(SoftmaxInfo const& info, BindArgs const& args) {
        return std::unique_ptr<runtime::Task>(new SoftmaxReference(info, args));
    }
    static Result<double, Rejection> cost(SoftmaxInfo const&, BindArgs const& args) {
        return static_cast<double>(args.inputs[0]->count()) * kNsPerElement;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto chunks =
            chunks_of(split_.outer, static_cast<double>(split_.size * split_.inner) * kNsPerElement, threads_);
        context.pool.parallel_for(chunks, [&](int64_t c, int) {
            for (auto o = split_.outer * c / chunks; o < split_.outer * (c + 1) / chunks; ++o)
                body_(*this, arguments[0], arguments[1], o);
        });
    }
    uint64_t in_place_inputs() const override { return 1; }
    double operations() const override { return 5. * static_cast<double>(split_.outer * split_.size * split_.inner); }
};

}  // namespace

MaybeKernel make_softmax_reference(SoftmaxInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (!is_any_float(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " is not a float");
    return std::unique_ptr<Kernel>(
        new InfoKernel<SoftmaxInfo, SoftmaxReference>(id_of("softmax", "reference", dtype), info));
}

}  // namespace refactor::kernel
