#include "matmul/matmul.h"
#include "matmul/pack_weights.h"
#include "matmul/strassen_task.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using mem_manager::Blob;

class StrassenKernel final : public Kernel {
    ProductFunctions const& functions_;
    Isa isa_;
    MatMulInfo info_;
    std::shared_ptr<Blob const> constant_;  // B

    /// Why these sizes are not for halves, or empty. Samples are the first axis of A: what is between it and the last
    /// are rows of one.
    std::string init(MatMulShape& shape, BindArgs const& args) const {
        if (auto why = shape.init(info_, args); !why.empty()) return why;
        auto const& a = args.inputs[0]->dims;
        if (a.size() < 3) return "A is one matrix, whose rows may be samples";
        if (a.size() > 3 && shape.folds_rows(false)) {
            shape.m = shape.batches * shape.m / std::max<int64_t>(1, a[0]), shape.batches = a[0];
            shape.batch.clear();
            if (a[0] > 1) shape.batch.push_back({a[0], shape.m * shape.k, 0});
        }
        if (shape.k % 2) return "needs an even K, got " + std::to_string(shape.k);
        if (shape.n < 2 * functions_.panel) return "needs two panels of columns";
        if (shape.m < 8 * functions_.rows) return "needs more rows, got " + std::to_string(shape.m);
        return {};
    }

public:
    StrassenKernel(ProductFunctions const& functions, Isa isa, MatMulInfo const& info,
                   std::shared_ptr<Blob const> constant)
        : functions_(functions), isa_(isa), info_(info), constant_(std::move(constant)) {}
    std::string id() const override { return id_of("matmul", "strassen", DataType::F32, isa_); }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = init(shape, args); !why.empty()) return reject(why);
        return 20 + strassen_plan(functions_, shape, args.threads, false).work * 2 / (functions_.width * 5.);
    }
    MaybeTask bind(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = init(shape, args); !why.empty()) return reject(why);
        auto packed = pack_panels(functions_, *constant_, DataType::F32, info_.trans_b, shape.n, shape.k, args.packs);
        return make_strassen_task(functions_, info_.epilogue, info_.alpha, shape, false, std::move(packed),
                                  args.threads);
    }
};

MaybeKernel make(MatMulInfo const& info, Request const& request, Isa isa, ProductFunctions const& (*functions)()) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    if (request.isa < isa)
        return reject("needs " + std::string(name_of(isa)) + ", allowed is " + std::string(name_of(request.isa)));
    if (request.precision == Precision::Exact) return reject("has a larger error than exact precision allows");
    auto const &a = request.inputs[0], &b = request.inputs[1];
    if (a.dtype != DataType::F32 || b.dtype != DataType::F32) return reject("A or B is not f32");
    if (auto why = why_types_differ(info, request); !why.empty()) return reject(why);
    if (info.trans_a) return reject("A is transposed");
    auto matrices = b.dims.size() < 2 ? 1 : element_count(std::span(b.dims.data(), b.dims.size() - 2));
    if (!b.constant || matrices != 1 || b.count() == 0) return reject("B is not one constant matrix");
    return std::unique_ptr<Kernel>(new StrassenKernel(functions(), isa, info, b.constant));
}

}  // namespace

MaybeKernel make_strassen_avx512(MatMulInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx512, product_functions_avx512);
#else
    return reject("not built for this architecture");
#endif
}
MaybeKernel make_strassen_avx2(MatMulInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx2, product_functions_avx2);
#else
    return reject("not built for this architecture");
#endif
}

}  // namespace refactor::kernel
