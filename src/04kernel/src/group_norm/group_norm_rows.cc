#include "common/thread_pool.h"
#include "group_norm/group_norm.h"
#include "reduce/rows_choice.h"

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 0.3;

template <class T>
class GroupNormRows final : public runtime::Task {
    RowFunctionsOf<T> const& functions_;
    GroupShape shape_;
    float epsilon_;
    int64_t chunks_;

public:
    static std::string why_not(GroupNormInfo const& info, BindArgs const& args) {
        return why_not_group_norm(info, args);
    }
    GroupNormRows(RowFunctionsOf<T> const& functions, GroupNormInfo const& info, BindArgs const& args)
        : functions_(functions), shape_(info, args.inputs[0]->dims), epsilon_(info.epsilon) {
        auto ns = static_cast<double>(shape_.channels * shape_.positions) * kNsPerElement;
        chunks_ = chunks_of(shape_.sets, ns, args.threads);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<T const*>(arguments[0]);
        auto const* scale = static_cast<T const*>(arguments[1]);
        auto const* bias = static_cast<T const*>(arguments[2]);
        auto* y = static_cast<T*>(arguments[3]);
        auto size = shape_.channels * shape_.positions;
        context.pool.parallel_for(chunks_, [&](int64_t c, int) {
            for (auto i = shape_.sets * c / chunks_; i < shape_.sets * (c + 1) / chunks_; ++i) {
                auto channel = i % shape_.groups * shape_.channels;
                functions_.group_norm(x + i * size, scale + channel, bias + channel, y + i * size, shape_.channels,
                                      shape_.positions, epsilon_);
            }
        });
    }
    uint64_t in_place_inputs() const override { return 1; }
    double operations() const override {
        return 8. * static_cast<double>(shape_.sets * shape_.channels * shape_.positions);
    }
};

}  // namespace

MaybeKernel make_group_norm_rows(GroupNormInfo const& info, Request const& request) {
    return make_row_kernel<GroupNormInfo, GroupNormRows>("group_norm", info, request, kNsPerElement);
}

}  // namespace refactor::kernel
