#pragma once
#include "cuda/library.h"
#include "matmul/matmul.h"

namespace refactor::kernel::cuda {

/// What cuBLASLt is asked for, apart from sizes.
struct LibraryProductKind {
    MatMulInfo info;  ///< without scales
    DataType dtype = DataType::F32;
    bool f8 = false;  ///< A and B are f8e4m3fn, `dtype` is that of everything else
    bool tf32 = false;
    int rank = 0;  ///< of the algorithm, by the library's own judgement
};

/// Types that cuBLASLt multiplies: f32, f64, f16, bf16.
bool is_library_type(DataType type);

/// A product by cuBLASLt with every size fixed; what of the epilogue it does not know is one generated kernel behind
/// it, over Y in place.
class BoundLibraryProduct {
    LibraryProductKind kind_;
    MatMulShape shape_;
    Library library_;
    Epilogue inside_, behind_;
    void* plan_ = nullptr;
    size_t workspace_bytes_ = 0;
    int64_t calls_ = 1, y_step_ = 0;  ///< one call for each batch unless one strided batch is all
    std::unique_ptr<runtime::Task> epilogue_;

public:
    /// Throws `DeviceError` if the library has no algorithm, or none of that rank.
    BoundLibraryProduct(LibraryProductKind const& kind, MatMulShape const& shape, Library const& library,
                        Epilogue const& inside, Epilogue const& behind, std::unique_ptr<runtime::Task> epilogue);
    ~BoundLibraryProduct() { library_.matmul_destroy(plan_); }
    BoundLibraryProduct(BoundLibraryProduct const&) = delete;
    BoundLibraryProduct& operator=(BoundLibraryProduct const&) = delete;

    /// Bias and residual are those of the whole epilogue; the workspace has at least `workspace_bytes()`.
    void run(RefactorMatMulOperands const& operands, runtime::RunContext const& context) const;
    size_t workspace_bytes() const { return workspace_bytes_; }
    double operations() const { return shape_.operations(); }
};

/// Products by cuBLASLt of any sizes: inputs A, B, bias, residual.
class LibraryProduct {
    LibraryProductKind kind_;
    Library library_;
    Epilogue inside_, behind_;
    std::unique_ptr<Kernel> epilogue_;  ///< null if the library does everything

    LibraryProduct(LibraryProductKind const& kind, Library const& library) : kind_(kind), library_(library) {}

public:
    static Result<LibraryProduct, Rejection> make(LibraryProductKind const& kind, Library const& library,
                                                  Request const& request);
    LibraryProductKind const& kind() const { return kind_; }

    /// Reading the operands, or computing with 70 % of the units (tensor cores for f8, f16 and bf16), with an epilogue
    /// of its own if need be; products of few rows read at half the memory's speed and add up splits of the inner size.
    Result<double, Rejection> estimate(BindArgs const& args) const;
    Result<std::unique_ptr<BoundLibraryProduct>, Rejection> bind(BindArgs const& args) const;
};

/// The optional operands of a product as arguments of a task, from number `next` on, and Y behind them.
RefactorMatMulOperands operands_of(Epilogue const& epilogue, void* const* arguments, int next);

}  // namespace refactor::kernel::cuda
