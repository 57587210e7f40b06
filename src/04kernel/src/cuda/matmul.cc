#include "matmul/matmul.h"

#include "cuda/kernels.h"
#include "cuda/library_product.h"

namespace refactor::kernel::cuda {

namespace {

class ProductTask final : public runtime::Task {
    Epilogue epilogue_;
    std::unique_ptr<BoundLibraryProduct> product_;

public:
    ProductTask(Epilogue const& epilogue, std::unique_ptr<BoundLibraryProduct> product)
        : epilogue_(epilogue), product_(std::move(product)) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto operands = operands_of(epilogue_, arguments, 2);
        operands.a = arguments[0], operands.b = arguments[1], operands.workspace = context.workspace;
        product_->run(operands, context);
    }
    size_t workspace_bytes() const override { return product_->workspace_bytes(); }
    double operations() const override { return product_->operations(); }
};

class ProductKernel final : public Kernel {
    LibraryProduct product_;

public:
    explicit ProductKernel(LibraryProduct product) : product_(std::move(product)) {}

    std::string id() const override {
        auto rank = product_.kind().rank;
        auto algorithm = rank ? "cublaslt_" + std::to_string(rank) : std::string("cublaslt");
        return id_of("matmul", algorithm, product_.kind().dtype);
    }
    Result<double, Rejection> estimate(BindArgs const& args) const override { return product_.estimate(args); }
    MaybeTask bind(BindArgs const& args) const override {
        auto bound = product_.bind(args);
        if (!bound) return Err{bound.error()};
        return std::unique_ptr<runtime::Task>(
            std::make_unique<ProductTask>(product_.kind().info.epilogue, std::move(bound).value()));
    }
};

}  // namespace

MaybeKernel matmul_cublaslt(MatMulInfo const& info, Request const& request, int rank) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto dtype = request.inputs[0].dtype;
    if (!is_library_type(dtype)) return Err{Rejection{"dtype " + std::string(refactor::name_of(dtype))}};
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list)
            if (operand.dtype != dtype || operand.layout != Layout::Plain)
                return Err{Rejection{"operands must be row-major and of one dtype"}};
    bool tf32 = request.precision == Precision::Tf32;
    auto product = LibraryProduct::make({info, dtype, false, tf32, rank}, *library, request);
    if (!product) return Err{product.error()};
    return std::unique_ptr<Kernel>(std::make_unique<ProductKernel>(std::move(product).value()));
}

}  // namespace refactor::kernel::cuda
