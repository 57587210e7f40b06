#include "common/thread_pool.h"
#include "integer_conv/integer_conv.h"

namespace refactor::kernel {
namespace {

using I = IntegerMatMulInfo;

class IntegerConvReference final : public runtime::Task {
    IntegerConvInfo info_;
    IntegerConvShape s_;

    uint32_t sum(void* const* arguments, int64_t n, int64_t m, int64_t const (&at)[3]) const {
        auto zero_of = [&](size_t input, bool is_signed, int64_t i) {
            return arguments[input] ? byte_at(arguments[input], is_signed, i) : 0;
        };
        auto x_zero = zero_of(I::kAZero, s_.x_signed, 0);
        auto w_zero = zero_of(I::kBZero, s_.w_signed, s_.many_zeros ? m : 0);
        auto first = m / s_.group_out() * s_.group_in();
        uint32_t total = 0;
        for (int64_t c = 0; c < s_.group_in(); ++c)
            for (int64_t tap = 0; tap < s_.taps(); ++tap) {
                int64_t const taps[]{tap / s_.kernel[2] / s_.kernel[1], tap / s_.kernel[2] % s_.kernel[1],
                                     tap % s_.kernel[2]};
                int64_t position = 0;
                bool inside = true;
                for (int axis = 0; axis < 3; ++axis) {
                    auto i = at[axis] * s_.stride[axis] - s_.pad[axis] + taps[axis] * s_.dilation[axis];
                    inside = inside && i >= 0 && i < s_.in[axis];
                    position = position * s_.in[axis] + i;
                }
                if (!inside) continue;
                auto element = s_.channels_last ? (n * s_.in_size() + position) * s_.in_channels + first + c
                                                : (n * s_.in_channels + first + c) * s_.in_size() + position;
                auto x = byte_at(arguments[I::kA], s_.x_signed, element);
                auto w = byte_at(arguments[I::kB], s_.w_signed, (m * s_.group_in() + c) * s_.taps() + tap);
                total += static_cast<uint32_t>((x - x_zero) * (w - w_zero));
            }
        return total;
    }

public:
    IntegerConvReference(IntegerConvInfo const& info, IntegerConvShape const& shape) : info_(info), s_(shape) {}
    static MaybeTask make(IntegerConvInfo const& info, BindArgs const& args) {
        IntegerConvShape shape;
        if (auto why = shape.init(info, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new IntegerConvReference(info, shape));
    }
    static Result<double, Rejection> cost(IntegerConvInfo const& info, BindArgs const& args) {
        IntegerConvShape shape;
        if (auto why = shape.init(info, args); !why.empty()) return reject(why);
        // Scalar code: a product takes about 5 ns, what follows a sum 20.
        return (2.5 * shape.operations() + 20 * static_cast<double>(args.outputs[0]->count())) / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* bias = static_cast<uint32_t const*>(arguments[I::kBias]);
        auto const* scale = static_cast<float const*>(arguments[I::kScale]);
        auto y_zero = arguments[I::kYZero] ? byte_at(arguments[I::kYZero], s_.y == DataType::I8, 0) : 0;
        context.pool.parallel_for(s_.batch * s_.out_channels, [&](int64_t plane, int) {
            auto n = plane / s_.out_channels, m = plane % s_.out_channels;
            auto const* shift = static_cast<float const*>(arguments[I::kShift]);
            int64_t position = 0, at[3];
            for (at[0] = 0; at[0] < s_.out[0]; ++at[0])
                for (at[1] = 0; at[1] < s_.out[1]; ++at[1])
                    for (at[2] = 0; at[2] < s_.out[2]; ++at[2], ++position)
                        store_sum(s_.y, info_.result, arguments[I::kInputs],
                                  s_.channels_last ? (n * s_.out_size() + position) * s_.out_channels + m
                                                   : plane * s_.out_size() + position,
                                  sum(arguments, n, m, at) + (bias ? bias[m] : 0),
                                  scale ? scale[s_.many_scales ? m : 0] : 1, y_zero,
                                  {shift ? shift[m] : 0, arguments[I::kResidual], s_.residual});
        });
    }
    double operations() const override { return s_.operations(); }
};

}  // namespace

MaybeKernel make_integer_conv_reference(IntegerConvInfo const& info, Request const& request) {
    IntegerTypes types;
    if (auto why = types.init(request, info.result); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(new InfoKernel<IntegerConvInfo, IntegerConvReference>(
        id_of("integer_conv", "reference", request.inputs[I::kA].dtype), info));
}

}  // namespace refactor::kernel
