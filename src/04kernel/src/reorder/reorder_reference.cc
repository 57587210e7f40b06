#include "common/thread_pool.h"
#include "conv/elements.h"
#include "conv/geometry.h"
#include "reorder/reorder.h"

namespace refactor::kernel {

namespace {

/// Either type is any of the element's size if both are the same.
template <class From, class To>
class ReferenceTask final : public runtime::Task {
    int64_t batch_;
    Addressing x_, y_;

    static To converted(From x) {
        if constexpr (std::is_same_v<From, To>)
            return x;
        else
            return narrow<To>(widen(x));
    }

public:
    ReferenceTask(TensorDesc const& x, TensorDesc const& y) : batch_(x.dims[0]), x_(x), y_(y) {}

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* x = static_cast<From const*>(arguments[0]);
        auto* y = static_cast<To*>(arguments[1]);
        context.pool.parallel_for(batch_ * y_.blocks(), [&](int64_t task, int) {
            auto n = task / y_.blocks(), first = task % y_.blocks() * y_.block;
            for (int64_t s = 0; s < y_.spatial; ++s)
                for (auto c = first; c < first + y_.block; ++c)
                    y[y_.at(n, c, s)] = c < x_.channels ? converted(x[x_.at(n, c, s)]) : To{};
        });
    }
};

class ReferenceKernel final : public NamedKernel {
    int bits_;

public:
    ReferenceKernel(std::string id, int bits) : NamedKernel(std::move(id)), bits_(bits) {}

    // About 2 ns an element, and what is stored beside it is moved, too.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto stored = std::max(args.inputs[0]->stored_count(), args.outputs[0]->stored_count());
        return 2. * static_cast<double>(stored) / args.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto const &x = *args.inputs[0], &y = *args.outputs[0];
        auto convert = [&](auto from, auto to) -> std::unique_ptr<runtime::Task> {
            return std::make_unique<ReferenceTask<decltype(from), decltype(to)>>(x, y);
        };
        if (x.dtype != y.dtype)
            return x.dtype == DataType::F32 ? convert(float{}, BFloat16{}) : convert(BFloat16{}, float{});
        auto make = [&](auto t) { return convert(t, t); };
        switch (bits_) {
            case 8:
                return make(uint8_t{});
            case 16:
                return make(uint16_t{});
            case 32:
                return make(uint32_t{});
            default:
                return make(uint64_t{});
        }
    }
};

}  // namespace

KernelResult reorder_reference(ReorderInfo const& info, Request const& request) {
    if (auto reason = reorder_mismatch(info, request, true); !reason.empty()) return Err{Rejection{reason}};
    auto dtype = request.inputs[0].dtype;
    if (dtype != request.outputs[0].dtype) dtype = DataType::BF16;
    auto bits = bits_of(dtype);
    if (bits < 8 || bits > 64)
        return Err{Rejection{"handles elements of 1 to 8 bytes, got " + std::string(name_of(dtype))}};
    return std::unique_ptr<Kernel>(
        std::make_unique<ReferenceKernel>("reorder:cpu:reference:" + std::string(name_of(dtype)), bits));
}

}  // namespace refactor::kernel
