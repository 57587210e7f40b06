#include "common/thread_pool.h"
#include "integer_matmul/integer_matmul.h"

namespace refactor::kernel {
namespace {

using I = IntegerMatMulInfo;

class IntegerMatMulReference final : public runtime::Task {
    IntegerMatMulInfo info_;
    IntegerShape shape_;
    bool a_signed_, b_signed_;
    DataType y_, residual_;
    int threads_;

    /// One row of the output; `row` counts over all batches.
    void compute(void* const* arguments, int64_t row) const {
        auto const& s = shape_;
        int64_t a_offset, b_offset;
        s.offsets(row / s.m, a_offset, b_offset);
        auto i = row % s.m;
        auto a_begin = a_offset + i * s.k;
        auto zero_of = [&](size_t input, bool is_signed, int64_t at) {
            return arguments[input] ? byte_at(arguments[input], is_signed, at) : 0;
        };
        auto a_zero = zero_of(I::kAZero, a_signed_, s.a_matrix(a_offset) * s.a_zero.matrix + i * s.a_zero.element);
        auto y_zero = zero_of(I::kYZero, y_ == DataType::I8, 0);
        auto const* bias = static_cast<uint32_t const*>(arguments[I::kBias]);
        auto const* scale = static_cast<float const*>(arguments[I::kScale]);
        for (int64_t j = 0; j < s.n; ++j) {
            auto b_zero = zero_of(I::kBZero, b_signed_, s.b_matrix(b_offset) * s.b_zero.matrix + j * s.b_zero.element);
            uint32_t sum = bias ? bias[j] : 0;
            for (int64_t p = 0; p < s.k; ++p)
                sum += static_cast<uint32_t>((byte_at(arguments[I::kA], a_signed_, a_begin + p) - a_zero) *
                                             (byte_at(arguments[I::kB], b_signed_, b_offset + p * s.n + j) - b_zero));
            auto const* shift = static_cast<float const*>(arguments[I::kShift]);
            store_sum(y_, info_.result, arguments[I::kInputs], row * s.n + j, sum,
                      scale ? scale[s.many_scales ? j : 0] : 1, y_zero,
                      {shift ? shift[j] : 0, arguments[I::kResidual], residual_});
        }
    }

public:
    IntegerMatMulReference(IntegerMatMulInfo const& info, IntegerShape const& shape, BindArgs const& args)
        : info_(info),
          shape_(shape),
          a_signed_(args.inputs[I::kA]->dtype == DataType::I8),
          b_signed_(args.inputs[I::kB]->dtype == DataType::I8),
          y_(args.outputs[0]->dtype),
          residual_(args.inputs[I::kResidual] ? args.inputs[I::kResidual]->dtype : DataType::Undefined),
          threads_(args.threads) {}
    static MaybeTask make(IntegerMatMulInfo const& info, BindArgs const& args) {
        IntegerShape shape;
        if (auto why = shape.init(args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new IntegerMatMulReference(info, shape, args));
    }
    static Result<double, Rejection> cost(IntegerMatMulInfo const&, BindArgs const& args) {
        IntegerShape shape;
        if (auto why = shape.init(args); !why.empty()) return reject(why);
        return shape.operations() * 0.5 / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto rows = shape_.batches * shape_.m;
        auto chunks = chunks_of(rows, static_cast<double>(shape_.n) * (5 + static_cast<double>(shape_.k)), threads_);
        context.pool.parallel_for(chunks, [&](int64_t c, int) {
            for (auto r = rows * c / chunks; r < rows * (c + 1) / chunks; ++r) compute(arguments, r);
        });
    }
    double operations() const override { return shape_.operations(); }
};

}  // namespace

MaybeKernel make_integer_matmul_reference(IntegerMatMulInfo const& info, Request const& request) {
    IntegerTypes types;
    if (auto why = types.init(request, info.result); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(new InfoKernel<IntegerMatMulInfo, IntegerMatMulReference>(
        id_of("integer_matmul", "reference", request.inputs[I::kA].dtype), info));
}

}  // namespace refactor::kernel
