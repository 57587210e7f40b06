#include "common/thread_pool.h"
#include "group_norm/group_norm.h"
#include "reduce/scalar_type.h"

#include <cmath>

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 6;

class GroupNormReference final : public runtime::Task {
    using Body = void (*)(GroupNormReference const&, void* const*, int64_t);
    GroupNormInfo info_;
    GroupShape shape_;
    int threads_;
    Body body_ = nullptr;

    template <class T>
    static void normalise(GroupNormReference const& self, void* const* arguments, int64_t set) {
        auto const& shape = self.shape_;
        auto size = shape.channels * shape.positions;
        auto const* x = static_cast<T const*>(arguments[0]) + set * size;
        auto channel = set % shape.groups * shape.channels;
        auto const* scale = static_cast<T const*>(arguments[1]) + channel;
        auto const* bias = static_cast<T const*>(arguments[2]) + channel;
        auto* y = static_cast<T*>(arguments[3]) + set * size;
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < size; ++i) mean += widen(x[i]);
        mean /= static_cast<double>(size);
        for (int64_t i = 0; i < size; ++i) variance += (widen(x[i]) - mean) * (widen(x[i]) - mean);
        auto factor = 1 / std::sqrt(variance / static_cast<double>(size) + static_cast<double>(self.info_.epsilon));
        for (int64_t c = 0, i = 0; c < shape.channels; ++c)
            for (int64_t p = 0; p < shape.positions; ++p, ++i)
                y[i] = narrow<T>((widen(x[i]) - mean) * factor * widen(scale[c]) + widen(bias[c]));
    }

public:
    GroupNormReference(GroupNormInfo const& info, BindArgs const& args)
        : info_(info), shape_(info, args.inputs[0]->dims), threads_(args.threads) {
        visit_float(args.inputs[0]->dtype, [&](auto tag) { body_ = normalise<typename decltype(tag)::type>; });
    }
    static MaybeTask make(GroupNormInfo const& info, BindArgs const& args) {
        if (auto why = why_not_group_norm(info, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new GroupNormReference(info, args));
    }
    static Result<double, Rejection> cost(GroupNormInfo const&, BindArgs const& args) {
        return static_cast<double>(args.inputs[0]->count()) * kNsPerElement;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto ns = static_cast<double>(shape_.channels * shape_.positions) * kNsPerElement;
        auto chunks = chunks_of(shape_.sets, ns, threads_);
        context.pool.parallel_for(chunks, [&](int64_t c, int) {
            for (auto s = shape_.sets * c / chunks; s < shape_.sets * (c + 1) / chunks; ++s) body_(*this, arguments, s);
        });
    }
    uint64_t in_place_inputs() const override { return 1; }
    double operations() const override {
        return 8. * static_cast<double>(shape_.sets * shape_.channels * shape_.positions);
    }
};

}  // namespace

GroupShape::GroupShape(GroupNormInfo const& info, std::span<int64_t const> dims)
    : groups(info.groups ? info.groups : dims[1]), channels(groups ? dims[1] / groups : 0), sets(dims[0] * groups) {
    for (auto d : dims.subspan(2)) positions *= d;
}

std::string why_not_group_norm(GroupNormInfo const& info, BindArgs const& args) {
    auto const& dims = args.inputs[0]->dims;
    if (dims.size() < 2) return "X has rank " + std::to_string(dims.size()) + ", expected at least 2";
    if (info.groups && dims[1] % info.groups)
        return std::to_string(dims[1]) + " channels are not a multiple of " + std::to_string(info.groups) + " groups";
    for (int i = 1; i < 3; ++i)
        if (auto n = args.inputs[i]->count(); n != dims[1])
            return std::string(i == 1 ? "scale" : "bias") + " has " + std::to_string(n) + " elements, expected " +
                   std::to_string(dims[1]);
    return {};
}

MaybeKernel make_group_norm_reference(GroupNormInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (!is_any_float(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " is not a float");
    for (auto const& input : request.inputs)
        if (input.dtype != dtype)
            return reject("inputs are of types " + std::string(refactor::name_of(dtype)) + " and " +
                          std::string(refactor::name_of(input.dtype)));
    return std::unique_ptr<Kernel>(
        new InfoKernel<GroupNormInfo, GroupNormReference>(id_of("group_norm", "reference", dtype), info));
}

}  // namespace refactor::kernel
