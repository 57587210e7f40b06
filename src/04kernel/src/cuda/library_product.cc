#include "cuda/library_product.h"

#include "common/error.h"
#include "cuda/epilogue_program.h"
#include "cuda/kernels.h"
#include "cuda/rates.h"

namespace refactor::kernel::cuda {

namespace {

/// The library adds residual and bias before the activation, of which it knows relu and gelu by tanh. It has no
/// epilogues in f64, no bias of one element, and of f8 not every activation on every card: that is left to the code
/// behind.
void split(LibraryProductKind const& kind, bool scalar_bias, Epilogue& inside, Epilogue& behind) {
    auto const& epilogue = kind.info.epilogue;
    auto activation = epilogue.activation.kind;
    bool known = activation == ActivationKind::None || activation == ActivationKind::Relu ||
                 activation == ActivationKind::GeluTanh;
    inside = epilogue, behind = {};
    bool late_bias = epilogue.bias && (scalar_bias || kind.dtype == DataType::F64);
    if (late_bias) inside.bias = false, behind.bias = true;
    bool late_activation =
        activation != ActivationKind::None && (!known || late_bias || kind.f8 || kind.dtype == DataType::F64);
    if (late_activation) inside.activation = {}, behind.activation = epilogue.activation;
    if (epilogue.residual && epilogue.residual_last) {
        inside.residual = inside.residual_last = false;
        behind.residual = behind.residual_last = true;
    }
}

int32_t activation_number(ActivationKind kind) {
    return kind == ActivationKind::Relu ? 1 : kind == ActivationKind::GeluTanh ? 2 : 0;
}

RefactorMatMul describe(LibraryProductKind const& kind, Epilogue const& inside, MatMulShape const& shape) {
    RefactorMatMul product{};
    product.dtype = static_cast<int32_t>(kind.dtype), product.f8 = kind.f8;
    product.trans_a = kind.info.trans_a, product.trans_b = kind.info.trans_b;
    product.bias = inside.bias, product.residual = inside.residual;
    product.activation = activation_number(inside.activation.kind);
    product.m = shape.m, product.n = shape.n, product.k = shape.k, product.batches = 1;
    product.alpha = static_cast<double>(kind.info.alpha);
    product.alignment = 64, product.rank = kind.rank, product.tf32 = kind.tf32;
    return product;
}

}  // namespace

bool is_library_type(DataType type) {
    return type == DataType::F32 || type == DataType::F64 || type == DataType::F16 || type == DataType::BF16;
}

BoundLibraryProduct::BoundLibraryProduct(LibraryProductKind const& kind, MatMulShape const& shape,
                                         Library const& library, Epilogue const& inside, Epilogue const& behind,
                                         std::unique_ptr<runtime::Task> epilogue)
    : kind_(kind), shape_(shape), library_(library), inside_(inside), behind_(behind), epilogue_(std::move(epilogue)) {
    auto product = describe(kind, inside, shape);
    if (shape.folds_rows(kind.info.trans_a)) {
        product.m *= shape.batches;
    } else if (shape.batch.size() == 1) {
        product.batches = shape.batches;
        product.stride_a = shape.batch[0].a, product.stride_b = shape.batch[0].b;
    } else {
        calls_ = shape.batches, y_step_ = shape.m * shape.n;
        product.alignment = static_cast<int32_t>(bits_of(kind.dtype) / 8);
    }
    plan_ = library_.matmul_create(product, workspace_bytes_);
}

void BoundLibraryProduct::run(RefactorMatMulOperands const& operands, runtime::RunContext const& context) const {
    int64_t element_bytes = bits_of(kind_.dtype) / 8;
    auto at = [&](void const* base, int64_t offset) {
        return base ? static_cast<char const*>(base) + offset * element_bytes : nullptr;
    };
    for (int64_t i = 0; i < calls_; ++i) {
        auto call = operands;
        int64_t a = 0, b = 0;
        if (calls_ > 1) shape_.offsets(i, a, b);
        call.a = at(operands.a, a), call.b = at(operands.b, b);
        if (!inside_.bias) call.bias = nullptr;
        call.residual = inside_.residual ? at(operands.residual, i * y_step_) : nullptr;
        call.y = static_cast<char*>(operands.y) + i * y_step_ * element_bytes;
        library_.matmul_run(plan_, context.stream, call);
    }
    if (!epilogue_) return;
    void* arguments[4];
    int count = 0;
    arguments[count++] = operands.y;
    if (behind_.bias) arguments[count++] = const_cast<void*>(operands.bias);
    if (behind_.residual) arguments[count++] = const_cast<void*>(operands.residual);
    arguments[count] = operands.y;
    epilogue_->run(arguments, context);
}

Result<LibraryProduct, Rejection> LibraryProduct::make(LibraryProductKind const& kind, Library const& library,
                                                       Request const& request) {
    LibraryProduct made(kind, library);
    auto const& epilogue = kind.info.epilogue;
    bool scalar_bias = epilogue.bias && element_count(request.inputs[2].dims) == 1;
    split(kind, scalar_bias, made.inside_, made.behind_);
    if (made.behind_ == Epilogue{}) return made;
    std::vector<Operand> inputs{request.outputs[0]};
    size_t next = 2;
    if (epilogue.bias && made.behind_.bias) inputs.push_back(request.inputs[next]);
    next += epilogue.bias;
    if (made.behind_.residual) inputs.push_back(request.inputs[next]);
    auto inner = request;
    inner.inputs = inputs;
    auto behind = elementwise_nvrtc(program_of(made.behind_, kind.dtype), inner);
    if (!behind) return Err{behind.error()};
    made.epilogue_ = std::move(behind).value();
    return made;
}

Result<double, Rejection> LibraryProduct::estimate(BindArgs const& args) const {
    MatMulShape shape;
    if (auto why = shape.init(kind_.info, args); !why.empty()) return Err{Rejection{why}};
    double bytes = 0;
    for (auto const* operand : args.inputs)
        bytes += operand ? static_cast<double>(operand->count() * bits_of(operand->dtype) / 8) : 0;
    bool half = kind_.dtype == DataType::F16 || kind_.dtype == DataType::BF16;
    auto speedup = kind_.f8 ? 32 : half ? 16 : kind_.tf32 ? 8 : 1.2;
    auto computing = shape.operations() / 2 / (kProcessors * kTiledRate * speedup);
    bool one_call = shape.folds_rows(kind_.info.trans_a) || shape.batch.size() == 1;
    auto launches = static_cast<double>((epilogue_ ? 2 : 1) + (shape.m <= 8 && shape.k > 256));
    if (!one_call) launches *= static_cast<double>(shape.batches);
    return (kLaunchTime * launches + std::max(bytes / (0.5 * kMemoryRate), computing)) * (1 + 0.01 * kind_.rank);
}

Result<std::unique_ptr<BoundLibraryProduct>, Rejection> LibraryProduct::bind(BindArgs const& args) const {
    MatMulShape shape;
    if (auto why = shape.init(kind_.info, args); !why.empty()) return Err{Rejection{why}};
    if (shape.k == 0) return Err{Rejection{"the inner size is 0"}};
    if (inside_.bias && shape.scalar_bias && shape.n != 1)
        return Err{Rejection{"a bias of one element, expected " + std::to_string(shape.n)}};
    std::unique_ptr<runtime::Task> epilogue;
    if (epilogue_) {
        SmallVector<TensorDesc const*, 4> inputs{args.outputs[0]};
        size_t next = 2;
        auto const* bias = kind_.info.epilogue.bias ? args.inputs[next++] : nullptr;
        auto const* residual = kind_.info.epilogue.residual ? args.inputs[next++] : nullptr;
        if (behind_.bias) inputs.push_back(bias);
        if (behind_.residual) inputs.push_back(residual);
        auto bound = epilogue_->bind({inputs, args.outputs, {}, args.packs, args.threads});
        if (!bound) return Err{bound.error()};
        epilogue = std::move(bound).value();
    }
    try {
        return std::make_unique<BoundLibraryProduct>(kind_, shape, library_, inside_, behind_, std::move(epilogue));
    } catch (DeviceError const& error) {
        return Err{Rejection{error.what()}};
    }
}

RefactorMatMulOperands operands_of(Epilogue const& epilogue, void* const* arguments, int next) {
    RefactorMatMulOperands operands{};
    if (epilogue.bias) operands.bias = arguments[next++];
    if (epilogue.residual) operands.residual = arguments[next++];
    operands.y = arguments[next];
    return operands;
}

}  // namespace refactor::kernel::cuda
