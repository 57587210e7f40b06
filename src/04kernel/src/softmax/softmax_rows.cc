#include "common/thread_pool.h"
#include "reduce/rows_choice.h"
#include "softmax/softmax.h"

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 0.3;

template <class T>
class SoftmaxRows final : public runtime::Task {
    RowFunctionsOf<T> const& functions_;
    SoftmaxInfo info_;
    AxisSplit split_;
    int64_t step_, blocks_, chunks_;  // columns in a block, blocks in all

public:
    static std::string why_not(SoftmaxInfo const&, BindArgs const&) { return {}; }
    SoftmaxRows(RowFunctionsOf<T> const& functions, SoftmaxInfo const& info, BindArgs const& args)
        : functions_(functions),
          info_(info),
          split_(args.inputs[0]->dims, info.axis, info.axes),
          step_(split_.inner == 1 ? 1 : int64_t{4} * functions.width) {
        blocks_ = (split_.inner + step_ - 1) / step_;
        auto ns = static_cast<double>(split_.size * std::min(step_, split_.inner)) * kNsPerElement;
        chunks_ = chunks_of(split_.outer * blocks_, ns, args.threads);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<T const*>(arguments[0]);
        auto* y = static_cast<T*>(arguments[1]);
        auto all = split_.outer * blocks_;
        auto [_, size, inner] = split_;
        context.pool.parallel_for(chunks_, [&, size = size, inner = inner](int64_t c, int) {
            auto begin = all * c / chunks_, end = all * (c + 1) / chunks_;
            if (inner == 1)
                return functions_.softmax(x + begin * size, y + begin * size, end - begin, size, info_.log,
                                          info_.nan_to_zero);
            for (auto i = begin; i < end; ++i) {
                auto column = i % blocks_ * step_, at = i / blocks_ * size * inner + column;
                functions_.softmax_columns(x + at, y + at, size, inner, std::min(step_, inner - column), info_.log,
                                           info_.nan_to_zero);
            }
        });
    }
    uint64_t in_place_inputs() const override { return 1; }
    double operations() const override { return 5. * static_cast<double>(split_.outer * split_.size * split_.inner); }
};

}  // namespace

MaybeKernel make_softmax_rows(SoftmaxInfo const& info, Request const& request) {
    return make_row_kernel<SoftmaxInfo, SoftmaxRows>("softmax", info, request, kNsPerElement);
}

}  // namespace refactor::kernel
