#include "gather_matmul/gather_block_matmul.h"

#include "common/thread_pool.h"
#include "cuda/kernels.h"
#include "movement/indices.h"

#include <limits>

namespace refactor::kernel {

using I = BlockMatMulInfo;
constexpr auto kIndices = GatherBlockMatMulInfo::kIndices;

BlockMatMulInfo stack_of(GatherBlockMatMulInfo const& info) {
    auto stack = info.product;
    stack.n *= info.matrices;
    return stack;
}

Result<RoutedProduct, Rejection> routed_product(GatherBlockMatMulInfo const& info, BindArgs const& args) {
    auto const& indices = *args.inputs[kIndices];
    RoutedProduct shape{"GatherBlockMatMul", indices.count(), info.product.k, info.product.n, info.matrices, 1,
                        indices.dtype};
    if (auto why = shape.set_share(args.inputs[I::kA]->count(), args.outputs[0]->count()); !why.empty())
        return reject(why);
    if (auto why = block_weights_mismatch(info.product, info.matrices, args); !why.empty()) return reject(why);
    if (shape.k == 0 || shape.n == 0) return reject("nothing to multiply");
    if (shape.rows > std::numeric_limits<int32_t>::max()) return reject("counts rows in 32 bits");
    return shape;
}

std::string gather_block_mismatch(GatherBlockMatMulInfo const& info, Request const& request) {
    if (request.inputs.size() != I::kInputs)
        return std::to_string(request.inputs.size()) + " inputs, expected " + std::to_string(I::kInputs);
    if (auto type = request.inputs[kIndices].dtype; !movement::is_index(type))
        return "indices are " + std::string(name_of(type)) + ", expected i32 or i64";
    std::vector<Operand> inputs(request.inputs.begin(), request.inputs.end());
    inputs[kIndices] = {};
    auto product = request;
    product.inputs = inputs;
    return block_matmul_mismatch(info.product, product);
}

namespace {

class Reference final : public runtime::Task {
    RoutedProduct shape_;
    BlockMatMulInfo info_;
    DataType zeros_ = DataType::Undefined;

    void row(void* const* arguments, int64_t t) const {
        auto const* x = static_cast<float const*>(arguments[I::kA]) + t / shape_.share * shape_.k;
        auto const* q = static_cast<uint8_t const*>(arguments[I::kQ]);
        auto const* scales = static_cast<float const*>(arguments[I::kScales]);
        auto const* bias = static_cast<float const*>(arguments[I::kBias]);
        auto* y = static_cast<float*>(arguments[I::kInputs]) + t * shape_.n;
        auto blocks = info_.blocks(), first = shape_.matrix_of(arguments[kIndices], t) * shape_.n;
        for (auto j = first; j < first + shape_.n; ++j) {
            auto const* column = q + j * blocks * info_.block * info_.bits / 8;
            double sum = bias ? static_cast<double>(bias[j]) : 0;
            for (int64_t p = 0; p < shape_.k; ++p) {
                auto block = p / info_.block;
                auto number = static_cast<float>(packed_at(column, info_.bits, p));
                auto weight =
                    (number - zero_of(info_, arguments[I::kZeros], zeros_, j, block)) * scales[j * blocks + block];
                sum += static_cast<double>(x[p]) * static_cast<double>(weight);
            }
            y[j - first] = static_cast<float>(sum);
        }
    }

public:
    Reference(RoutedProduct const& shape, GatherBlockMatMulInfo const& info, BindArgs const& args)
        : shape_(shape), info_(info.product) {
        if (args.inputs[I::kZeros]) zeros_ = args.inputs[I::kZeros]->dtype;
    }
    static MaybeTask make(GatherBlockMatMulInfo const& info, BindArgs const& args) {
        auto shape = routed_product(info, args);
        if (!shape) return Err{shape.error()};
        return std::unique_ptr<runtime::Task>(new Reference(*shape, info, args));
    }
    static Result<double, Rejection> cost(GatherBlockMatMulInfo const& info, BindArgs const& args) {
        auto shape = routed_product(info, args);
        if (!shape) return Err{shape.error()};
        return shape->operations() / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(shape_.rows, [&](int64_t t, int) { row(arguments, t); });
    }
    double operations() const override { return shape_.operations(); }
};

}  // namespace

MaybeKernel make_gather_block_reference(GatherBlockMatMulInfo const& info, Request const& request) {
    if (auto why = gather_block_mismatch(info, request); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(new InfoKernel<GatherBlockMatMulInfo, Reference>(
        id_of("gather_block_matmul", "reference", DataType::F32), info));
}

Candidates candidates(GatherBlockMatMulInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("gather_block_matmul:nvidia:rows", cuda::gather_block_matmul_rows(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "gather_matmul/gather_block_matmul_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
