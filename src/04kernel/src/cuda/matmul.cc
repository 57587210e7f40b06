#include "matmul/matmul.h"

#include "common/error.h"
#include "cuda/epilogue_program.h"
#include "cuda/kernels.h"
#include "cuda/library.h"
#include "cuda/rates.h"

namespace refactor::kernel::cuda {

namespace {

bool is_product_type(DataType type) {
    return type == DataType::F32 || type == DataType::F64 || type == DataType::F16 || type == DataType::BF16;
}

/// What cuBLASLt does by itself; the rest of an epilogue is one generated kernel over Y.
struct Split {
    Epilogue inside, behind;
};

/// The library adds residual and bias before the activation, of which it knows relu and gelu by tanh. It has no
/// epilogues in f64, and no bias of one element.
Split split(Epilogue const& epilogue, DataType dtype, bool scalar_bias) {
    Split parts{epilogue, {}};
    auto kind = epilogue.activation.kind;
    bool known = kind == ActivationKind::None || kind == ActivationKind::Relu || kind == ActivationKind::GeluTanh;
    bool late_bias = epilogue.bias && (scalar_bias || dtype == DataType::F64);
    if (late_bias) parts.inside.bias = false, parts.behind.bias = true;
    bool late_activation = kind != ActivationKind::None && (!known || late_bias || dtype == DataType::F64);
    if (late_activation) parts.inside.activation = {}, parts.behind.activation = epilogue.activation;
    if (epilogue.residual && epilogue.residual_last) {
        parts.inside.residual = parts.inside.residual_last = false;
        parts.behind.residual = parts.behind.residual_last = true;
    }
    return parts;
}

class ProductTask final : public runtime::Task {
    MatMulInfo info_;
    MatMulShape shape_;
    Library library_;
    Epilogue inside_, behind_;
    void* plan_ = nullptr;
    size_t workspace_bytes_ = 0;
    int64_t calls_ = 1, y_step_ = 0;  ///< one call for each batch unless one strided batch is all
    int64_t element_bytes_;
    std::unique_ptr<runtime::Task> epilogue_;

public:
    /// Throws `DeviceError` if the library has no algorithm, or none of that rank.
    ProductTask(MatMulInfo const& info, MatMulShape const& shape, Library const& library, Split const& parts,
                DataType dtype, int rank, bool tf32, std::unique_ptr<runtime::Task> epilogue)
        : info_(info),
          shape_(shape),
          library_(library),
          inside_(parts.inside),
          behind_(parts.behind),
          element_bytes_(bits_of(dtype) / 8),
          epilogue_(std::move(epilogue)) {
        RefactorMatMul product{};
        product.dtype = static_cast<int32_t>(dtype);
        product.trans_a = info.trans_a, product.trans_b = info.trans_b;
        product.bias = inside_.bias, product.residual = inside_.residual;
        product.activation = inside_.activation.kind == ActivationKind::Relu       ? 1
                             : inside_.activation.kind == ActivationKind::GeluTanh ? 2
                                                                                   : 0;
        product.m = shape.m, product.n = shape.n, product.k = shape.k, product.batches = 1;
        product.alpha = static_cast<double>(info.alpha);
        product.alignment = 64, product.rank = rank, product.tf32 = tf32;
        if (shape.folds_rows(info.trans_a)) {
            product.m *= shape.batches;
        } else if (shape.batch.size() == 1) {
            product.batches = shape.batches;
            product.stride_a = shape.batch[0].a, product.stride_b = shape.batch[0].b;
        } else {
            calls_ = shape.batches, y_step_ = shape.m * shape.n;
            product.alignment = static_cast<int32_t>(element_bytes_);
        }
        plan_ = library_.matmul_create(product, workspace_bytes_);
    }
    ~ProductTask() override { library_.matmul_destroy(plan_); }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        int next = 2;
        auto* bias = info_.epilogue.bias ? arguments[next++] : nullptr;
        auto* residual = info_.epilogue.residual ? arguments[next++] : nullptr;
        auto* y = static_cast<char*>(arguments[next]);
        for (int64_t i = 0; i < calls_; ++i) {
            int64_t a = 0, b = 0;
            if (calls_ > 1) shape_.offsets(i, a, b);
            auto shift = i * y_step_ * element_bytes_;
            library_.matmul_run(
                plan_, context.stream, static_cast<char const*>(arguments[0]) + a * element_bytes_,
                static_cast<char const*>(arguments[1]) + b * element_bytes_, inside_.bias ? bias : nullptr,
                inside_.residual ? static_cast<char const*>(residual) + shift : nullptr, y + shift, context.workspace);
        }
        if (!epilogue_) return;
        void* operands[4];
        int count = 0;
        operands[count++] = y;
        if (behind_.bias) operands[count++] = bias;
        if (behind_.residual) operands[count++] = residual;
        operands[count] = y;
        epilogue_->run(operands, context);
    }
    size_t workspace_bytes() const override { return workspace_bytes_; }
    double operations() const override { return shape_.operations(); }
};

class ProductKernel final : public Kernel {
    MatMulInfo info_;
    Library library_;
    DataType dtype_;
    Split parts_;
    int rank_;
    bool tf32_;
    std::unique_ptr<Kernel> behind_;  ///< null if the library does everything

public:
    ProductKernel(MatMulInfo const& info, Library const& library, DataType dtype, Split const& parts, int rank,
                  bool tf32, std::unique_ptr<Kernel> behind)
        : info_(info),
          library_(library),
          dtype_(dtype),
          parts_(parts),
          rank_(rank),
          tf32_(tf32),
          behind_(std::move(behind)) {}

    std::string id() const override {
        auto algorithm = rank_ ? "cublaslt_" + std::to_string(rank_) : std::string("cublaslt");
        return id_of("matmul", algorithm.c_str(), dtype_);
    }

    /// Reading the operands, or computing with 70 % of the units (tensor cores for f16 and bf16), with an epilogue of
    /// its own if need be; products of few rows read at half the memory's speed and add up splits of the inner size.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return Err{Rejection{why}};
        double bytes = 0;
        for (auto const* operand : args.inputs) bytes += operand ? static_cast<double>(operand->count()) : 0;
        bytes *= bits_of(dtype_) / 8;
        bool half = dtype_ == DataType::F16 || dtype_ == DataType::BF16;
        auto computing = shape.operations() / 2 / (kProcessors * kTiledRate * (half ? 16 : tf32_ ? 8 : 1.2));
        bool one_call = shape.folds_rows(info_.trans_a) || shape.batch.size() == 1;
        auto launches = static_cast<double>((behind_ ? 2 : 1) + (shape.m <= 8 && shape.k > 256));
        if (!one_call) launches *= static_cast<double>(shape.batches);
        return (kLaunchTime * launches + std::max(bytes / (0.5 * kMemoryRate), computing)) * (1 + 0.01 * rank_);
    }
    MaybeTask bind(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return Err{Rejection{why}};
        if (shape.k == 0) return Err{Rejection{"the inner size is 0"}};
        if (parts_.inside.bias && shape.scalar_bias && shape.n != 1)
            return Err{Rejection{"a bias of one element, expected " + std::to_string(shape.n)}};
        std::unique_ptr<runtime::Task> epilogue;
        if (behind_) {
            SmallVector<TensorDesc const*, 4> inputs{args.outputs[0]};
            size_t next = 2;
            auto const* bias = info_.epilogue.bias ? args.inputs[next++] : nullptr;
            auto const* residual = info_.epilogue.residual ? args.inputs[next++] : nullptr;
            if (parts_.behind.bias) inputs.push_back(bias);
            if (parts_.behind.residual) inputs.push_back(residual);
            auto bound = behind_->bind({inputs, args.outputs, {}, args.packs, args.threads});
            if (!bound) return Err{bound.error()};
            epilogue = std::move(bound).value();
        }
        try {
            return std::unique_ptr<runtime::Task>(std::make_unique<ProductTask>(info_, shape, library_, parts_, dtype_,
                                                                                rank_, tf32_, std::move(epilogue)));
        } catch (DeviceError const& error) {
            return Err{Rejection{error.what()}};
        }
    }
};

}  // namespace

MaybeKernel matmul_cublaslt(MatMulInfo const& info, Request const& request, int rank) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto dtype = request.inputs[0].dtype;
    if (!is_product_type(dtype)) return Err{Rejection{"dtype " + std::string(refactor::name_of(dtype))}};
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list)
            if (operand.dtype != dtype || operand.layout != Layout::Plain)
                return Err{Rejection{"operands must be row-major and of one dtype"}};
    bool scalar_bias = info.epilogue.bias && element_count(request.inputs[2].dims) == 1;
    auto parts = split(info.epilogue, dtype, scalar_bias);
    std::unique_ptr<Kernel> behind;
    if (!(parts.behind == Epilogue{})) {
        std::vector<Operand> inputs{request.outputs[0]};
        size_t next = 2;
        if (info.epilogue.bias && parts.behind.bias) inputs.push_back(request.inputs[next]);
        next += info.epilogue.bias;
        if (parts.behind.residual) inputs.push_back(request.inputs[next]);
        auto inner = request;
        inner.inputs = inputs;
        auto made = elementwise_nvrtc(program_of(parts.behind, dtype), inner);
        if (!made) return Err{made.error()};
        behind = std::move(made).value();
    }
    return std::unique_ptr<Kernel>(std::make_unique<ProductKernel>(
        info, *library, dtype, parts, rank, request.precision == Precision::Tf32, std::move(behind)));
}

}  // namespace refactor::kernel::cuda
