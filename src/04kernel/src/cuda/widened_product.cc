#include "cuda/kernels.h"
#include "cuda/library_product.h"
#include "cuda/product_source.h"
#include "cuda/rates.h"
#include "cuda/workspace.h"

namespace refactor::kernel::cuda {

namespace {

class WidenedTask final : public runtime::Task {
    MatMulInfo info_;
    std::unique_ptr<runtime::Task> widen_;
    std::unique_ptr<BoundLibraryProduct> product_;
    size_t wide_bytes_;

public:
    WidenedTask(MatMulInfo const& info, std::unique_ptr<runtime::Task> widen,
                std::unique_ptr<BoundLibraryProduct> product, size_t wide_bytes)
        : info_(info), widen_(std::move(widen)), product_(std::move(product)), wide_bytes_(wide_bytes) {}

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        void* wide = context.workspace;
        void* widened[] = {arguments[1], info_.scaled ? arguments[2] : wide, wide};
        widen_->run(widened, context);
        auto operands = operands_of(info_.epilogue, arguments, info_.scaled ? 3 : 2);
        operands.a = arguments[0], operands.b = wide, operands.workspace = context.workspace + wide_bytes_;
        product_->run(operands, context);
    }
    size_t workspace_bytes() const override { return wide_bytes_ + product_->workspace_bytes(); }
    double operations() const override { return product_->operations(); }
};

/// `wide = cast(scales * cast(b, f32), type)`, the product in f32.
ElementwiseInfo widening(DataType b, DataType type, bool scaled) {
    ElementwiseInfo info;
    info.code.push_back({ExprOp::Input, b, {0}});
    info.code.push_back({ExprOp::Cast, DataType::F32, {0}});
    if (scaled) {
        info.code.push_back({ExprOp::Input, DataType::F32, {1}});
        info.code.push_back({ExprOp::Mul, DataType::F32, {1, 2}});
    }
    if (type != DataType::F32) info.code.push_back({ExprOp::Cast, type, {static_cast<uint16_t>(info.code.size() - 1)}});
    info.outputs = {static_cast<uint16_t>(info.code.size() - 1)};
    return info;
}

class WidenedProduct final : public Kernel {
    MatMulInfo info_;
    DataType a_, b_;
    std::unique_ptr<Kernel> widen_;
    LibraryProduct product_;

    /// The operands of the two steps: B and scales, those of the product, and B as it is widened.
    struct Steps {
        TensorDesc wide, scales;
        SmallVector<TensorDesc const*, 2> narrow;
        SmallVector<TensorDesc const*, 4> product;

        Steps(MatMulInfo const& info, DataType type, BindArgs const& args) {
            wide.dtype = type, wide.dims = args.inputs[1]->dims;
            narrow.push_back(args.inputs[1]);
            if (info.scaled) {
                auto n = args.inputs[2]->count();
                scales.dtype = DataType::F32, scales.dims = info.trans_b ? Dims{n, 1} : Dims{n};
                narrow.push_back(&scales);
            }
            product.push_back(args.inputs[0]);
            product.push_back(&wide);
            for (size_t i = info.scaled ? 3 : 2; i < args.inputs.size(); ++i) product.push_back(args.inputs[i]);
        }
        Steps(Steps const&) = delete;
        Steps& operator=(Steps const&) = delete;
    };

public:
    WidenedProduct(MatMulInfo const& info, DataType a, DataType b, std::unique_ptr<Kernel> widen,
                   LibraryProduct product)
        : info_(info), a_(a), b_(b), widen_(std::move(widen)), product_(std::move(product)) {}

    std::string id() const override {
        return id_of("matmul", "widened", a_) + '_' + std::string(refactor::name_of(b_));
    }

    /// B is read, written and read again, the last time mostly from the second-level cache, as the library's estimate
    /// has it.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        Steps steps(info_, a_, args);
        auto product = product_.estimate({steps.product, args.outputs, {}, args.packs, args.threads});
        if (!product) return product;
        auto bytes = static_cast<double>(steps.wide.count() * (bits_of(a_) + bits_of(b_)) / 8);
        return kLaunchTime + bytes / (0.75 * kMemoryRate) + *product;
    }
    MaybeTask bind(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return Err{Rejection{why}};
        Steps steps(info_, a_, args);
        TensorDesc const* wide[] = {&steps.wide};
        auto widen = widen_->bind({steps.narrow, wide, {}, args.packs, args.threads});
        if (!widen) return Err{widen.error()};
        auto product = product_.bind({steps.product, args.outputs, {}, args.packs, args.threads});
        if (!product) return Err{product.error()};
        auto bytes = workspace_part(static_cast<size_t>(steps.wide.count() * bits_of(a_) / 8));
        return std::unique_ptr<runtime::Task>(
            std::make_unique<WidenedTask>(info_, std::move(widen).value(), std::move(product).value(), bytes));
    }
};

}  // namespace

MaybeKernel matmul_widened(MatMulInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto a = request.inputs[0].dtype, b = request.inputs[1].dtype;
    if (a == b) return Err{Rejection{"A and B are of one type"}};
    if (auto why = why_weights_differ(info, request); !why.empty()) return Err{Rejection{why}};
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list)
            if (operand.layout != Layout::Plain) return Err{Rejection{"blocked layout, expected plain"}};
    auto wide = request.inputs[1];
    wide.dtype = a, wide.constant = nullptr;
    std::vector<Operand> narrow{request.inputs[1]}, inputs{request.inputs[0], wide};
    if (info.scaled) narrow.push_back(request.inputs[2]);
    for (size_t i = info.scaled ? 3 : 2; i < request.inputs.size(); ++i) inputs.push_back(request.inputs[i]);
    auto inner = request;
    inner.inputs = narrow, inner.outputs = {&wide, 1};
    auto widen = elementwise_nvrtc(widening(b, a, info.scaled), inner);
    if (!widen) return Err{widen.error()};
    LibraryProductKind kind{info, a, false, request.precision == Precision::Tf32};
    kind.info.scaled = false;
    inner.inputs = inputs, inner.outputs = request.outputs;
    auto product = LibraryProduct::make(kind, *library, inner);
    if (!product) return Err{product.error()};
    return std::unique_ptr<Kernel>(
        std::make_unique<WidenedProduct>(info, a, b, std::move(widen).value(), std::move(product).value()));
}

}  // namespace refactor::kernel::cuda
