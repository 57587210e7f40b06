#include "gather_matmul/gather_matmul.h"

#include "common/thread_pool.h"
#include "movement/indices.h"

namespace refactor::kernel {

Result<RoutedProduct, Rejection> routed_product(GatherMatMulInfo const& info, BindArgs const& args) {
    auto const &x = *args.inputs[0], &w = *args.inputs[1], &indices = *args.inputs[kRoutedIndices];
    if (w.dims.size() != 3) return reject("W has " + std::to_string(w.dims.size()) + " axes, expected 3");
    RoutedProduct shape{
        "GatherMatMul", indices.count(), w.dims[1 + info.trans_w], w.dims[2 - info.trans_w], w.dims[0], 1,
        indices.dtype};
    if (auto why = shape.set_share(x.count(), args.outputs[0]->count()); !why.empty()) return reject(why);
    auto const* bias = args.inputs.size() > kRoutedBias ? args.inputs[kRoutedBias] : nullptr;
    if (bias && bias->count() != shape.matrices * shape.n)
        return reject("bias of " + std::to_string(bias->count()) + " elements, expected " +
                      std::to_string(shape.matrices * shape.n));
    return shape;
}

std::string why_not_gather_matmul(Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return why;
    auto const& inputs = request.inputs;
    if ((inputs.size() != kRoutedBias && inputs.size() != kRoutedBias + 1) || request.outputs.size() != 1)
        return "expects X, W, indices, perhaps a bias, and Y";
    for (size_t i : {size_t{0}, size_t{1}, kRoutedBias}) {
        if (i >= inputs.size() || (i == kRoutedBias && inputs[i].absent())) continue;
        if (auto type = inputs[i].dtype; type != DataType::F32)
            return std::string(i == 0   ? "X"
                               : i == 1 ? "W"
                                        : "bias") +
                   " is " + std::string(name_of(type)) + ", expected f32";
    }
    if (auto type = inputs[kRoutedIndices].dtype; !movement::is_index(type))
        return "indices are " + std::string(name_of(type)) + ", expected i32 or i64";
    return {};
}

namespace {

class Reference final : public runtime::Task {
    RoutedProduct shape_;
    bool trans_w_;
    size_t inputs_;

    void row(void* const* arguments, int64_t t) const {
        auto matrix = shape_.matrix_of(arguments[kRoutedIndices], t);
        auto const* x = static_cast<float const*>(arguments[0]) + t / shape_.share * shape_.k;
        auto const* w = static_cast<float const*>(arguments[1]) + matrix * shape_.k * shape_.n;
        auto const* bias = inputs_ > kRoutedBias ? static_cast<float const*>(arguments[kRoutedBias]) : nullptr;
        auto* y = static_cast<float*>(arguments[inputs_]) + t * shape_.n;
        for (int64_t j = 0; j < shape_.n; ++j) {
            double sum = bias ? static_cast<double>(bias[matrix * shape_.n + j]) : 0;
            for (int64_t p = 0; p < shape_.k; ++p)
                sum +=
                    static_cast<double>(x[p]) * static_cast<double>(w[trans_w_ ? j * shape_.k + p : p * shape_.n + j]);
            y[j] = static_cast<float>(sum);
        }
    }

public:
    Reference(RoutedProduct const& shape, bool trans_w, size_t inputs)
        : shape_(shape), trans_w_(trans_w), inputs_(inputs) {}
    static MaybeTask make(GatherMatMulInfo const& info, BindArgs const& args) {
        auto shape = routed_product(info, args);
        if (!shape) return Err{shape.error()};
        return std::unique_ptr<runtime::Task>(new Reference(*shape, info.trans_w, args.inputs.size()));
    }
    static Result<double, Rejection> cost(GatherMatMulInfo const& info, BindArgs const& args) {
        auto shape = routed_product(info, args);
        if (!shape) return Err{shape.error()};
        return shape->operations() * 0.75 / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(shape_.rows, [&](int64_t t, int) { row(arguments, t); });
    }
    double operations() const override { return shape_.operations(); }
};

}  // namespace

MaybeKernel make_gather_matmul_reference(GatherMatMulInfo const& info, Request const& request) {
    if (auto why = why_not_gather_matmul(request); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(
        new InfoKernel<GatherMatMulInfo, Reference>(id_of("gather_matmul", "reference", DataType::F32), info));
}

Candidates candidates(GatherMatMulInfo const& info, Request const& request) {
    Candidates answer;
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "gather_matmul/gather_matmul_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
