#include "cuda/kernels.h"
#include "cuda/library.h"
#include "cuda/rates.h"
#include "cuda/workspace.h"

namespace refactor::kernel {

namespace cuda {

namespace {

/// One task behind the other; what is between them is at the begin of the workspace.
class StepsTask final : public runtime::Task {
    std::unique_ptr<runtime::Task> normalize_, product_;
    size_t product_inputs_, inputs_, rows_bytes_;

public:
    StepsTask(std::unique_ptr<runtime::Task> normalize, std::unique_ptr<runtime::Task> product, size_t product_inputs,
              size_t inputs, size_t rows_bytes)
        : normalize_(std::move(normalize)),
          product_(std::move(product)),
          product_inputs_(product_inputs),
          inputs_(inputs),
          rows_bytes_(workspace_part(rows_bytes)) {}

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        void* rows = context.workspace;
        auto inner = context;
        inner.workspace += rows_bytes_;
        SmallVector<void*, 8> step{arguments[0]};
        for (auto i = product_inputs_; i < inputs_; ++i) step.push_back(arguments[i]);
        step.push_back(rows);
        normalize_->run(step.data(), inner);
        step.clear();
        step.push_back(rows);
        for (size_t i = 1; i < product_inputs_; ++i) step.push_back(arguments[i]);
        step.push_back(arguments[inputs_]);
        product_->run(step.data(), inner);
    }
    size_t workspace_bytes() const override {
        return rows_bytes_ + std::max(normalize_->workspace_bytes(), product_->workspace_bytes());
    }
    double operations() const override { return normalize_->operations() + product_->operations(); }
};

class NormalizedSteps final : public Kernel {
    NormalizedMatMulInfo info_;
    DataType dtype_;
    std::unique_ptr<Kernel> normalize_;
    std::vector<std::unique_ptr<Kernel>> products_;

    /// The operands of both.
    struct Steps {
        SmallVector<TensorDesc const*, 4> norm, product;
        TensorDesc const* rows[1];
        BindArgs normalize, multiply;

        Steps(size_t product_inputs, BindArgs const& args)
            : norm{args.inputs[0]},
              product(args.inputs.begin(), args.inputs.begin() + static_cast<std::ptrdiff_t>(product_inputs)),
              rows{args.inputs[0]},
              normalize{{}, rows, {}, args.packs, args.threads},
              multiply{product, args.outputs, {}, args.packs, args.threads} {
            for (auto i = product_inputs; i < args.inputs.size(); ++i) norm.push_back(args.inputs[i]);
            normalize.inputs = norm;
        }
        Steps(Steps const&) = delete;
        Steps& operator=(Steps const&) = delete;
    };
    /// The product that takes least time, and how much; no kernel if all decline.
    std::pair<Kernel const*, double> best(BindArgs const& args) const {
        std::pair<Kernel const*, double> least{nullptr, 0};
        for (auto const& product : products_)
            if (auto time = product->estimate(args); time && (!least.first || *time < least.second))
                least = {product.get(), *time};
        return least;
    }

public:
    NormalizedSteps(NormalizedMatMulInfo const& info, DataType dtype, std::unique_ptr<Kernel> normalize,
                    std::vector<std::unique_ptr<Kernel>> products)
        : info_(info), dtype_(dtype), normalize_(std::move(normalize)), products_(std::move(products)) {}

    std::string id() const override { return id_of("normalized_matmul", "in_steps", dtype_); }

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        Steps steps(info_.product_inputs(), args);
        auto [product, time] = best(steps.multiply);
        if (!product) return Err{Rejection{"no product of such sizes"}};
        auto bytes = static_cast<double>(2 * args.inputs[0]->count() * bits_of(dtype_) / 8);
        return kLaunchTime + bytes / (0.75 * kMemoryRate) + time;
    }
    MaybeTask bind(BindArgs const& args) const override {
        Steps steps(info_.product_inputs(), args);
        auto* product = best(steps.multiply).first;
        if (!product) return Err{Rejection{"no product of such sizes"}};
        auto first = normalize_->bind(steps.normalize);
        if (!first) return first;
        auto second = product->bind(steps.multiply);
        if (!second) return second;
        auto bytes = static_cast<size_t>(args.inputs[0]->count() * bits_of(dtype_) / 8);
        return std::unique_ptr<runtime::Task>(std::make_unique<StepsTask>(
            std::move(first).value(), std::move(second).value(), info_.product_inputs(), args.inputs.size(), bytes));
    }
};

}  // namespace

MaybeKernel normalized_in_steps(NormalizedMatMulInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto rows = request.inputs[0];
    rows.constant = nullptr;
    auto const count = info.product_inputs();
    std::vector<Operand> norm{request.inputs[0]}, product{rows};
    for (size_t i = 1; i < request.inputs.size(); ++i) (i < count ? product : norm).push_back(request.inputs[i]);
    auto inner = request;
    inner.inputs = norm, inner.outputs = {&rows, 1};
    auto normalize = layer_norm_nvrtc(info.norm, inner);
    if (!normalize) return normalize;
    inner.inputs = product, inner.outputs = request.outputs;
    auto products = candidates(info.product, inner);
    if (products.kernels.empty()) return Err{products.rejections.back()};
    return std::unique_ptr<Kernel>(std::make_unique<NormalizedSteps>(
        info, request.inputs[0].dtype, std::move(normalize).value(), std::move(products.kernels)));
}

}  // namespace cuda

std::string NormalizedMatMulInfo::attributes() const { return norm.attributes() + ";" + product.attributes(); }

Candidates candidates(NormalizedMatMulInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device == "cpu") {
        answer.rejections.push_back({"normalized_matmul:cpu: a step of its own normalises there"});
        return answer;
    }
    answer.add("normalized_matmul:nvidia:few_rows", cuda::normalized_few_rows(info, request));
    answer.add("normalized_matmul:nvidia:in_steps", cuda::normalized_in_steps(info, request));
    return answer;
}

}  // namespace refactor::kernel
